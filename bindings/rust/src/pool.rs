use std::os::raw::c_void;

use crate::interface;
use crate::with_c_name;

/// An allocator of the program's own that hands out objects from larger blocks, such as an arena. heft shows its objects
/// under its name. Dropping it gives all its objects back.
///
/// ```
/// struct Arena {
///     bytes: Vec<u8>,
///     pool: heft::Pool,
/// }
///
/// impl Arena {
///     fn take(&mut self, size: usize) -> &mut [u8] {
///         let start = self.bytes.len();
///         assert!(start + size <= self.bytes.capacity());
///         self.bytes.resize(start + size, 0);
///         let object = &mut self.bytes[start..];
///         self.pool.allocated(object.as_ptr(), size);
///         object
///     }
/// }
///
/// let mut arena = Arena { bytes: Vec::with_capacity(4096), pool: heft::Pool::new("words") };
/// arena.take(11).copy_from_slice(b"eleven byte");
/// ```
#[derive(Debug)]
pub struct Pool {
    key: Box<u8>, // its address stands for the pool
}

impl Pool {
    /// A new pool. Its name need not be unique.
    pub fn new(name: &str) -> Pool {
        let pool = Pool { key: Box::new(0) };
        if let Some(create) = interface::heft_pool_create() {
            with_c_name(name, |name| unsafe { create(pool.address(), name) });
        }
        pool
    }

    fn address(&self) -> *mut c_void {
        &*self.key as *const u8 as *mut c_void
    }

    /// The pool has handed out an object of this size.
    #[inline]
    pub fn allocated<T: ?Sized>(&self, object: *const T, size: usize) {
        if let Some(alloc) = interface::heft_pool_alloc() {
            unsafe { alloc(self.address(), object.cast(), size) }
        }
    }

    /// An object is given back. To be called before the pool may hand out its place again.
    #[inline]
    pub fn freed<T: ?Sized>(&self, object: *const T) {
        if let Some(free) = interface::heft_pool_free() {
            unsafe { free(self.address(), object.cast()) }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(destroy) = interface::heft_pool_destroy() {
            unsafe { destroy(self.address()) }
        }
    }
}
