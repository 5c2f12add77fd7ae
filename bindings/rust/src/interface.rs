//! The functions of heft.h. heft's library defines them where it is loaded. Stable Rust has no weak symbols, so each
//! function is looked up by its name once. Its address is then kept: null is "not there", so that a call without heft is
//! one load and one branch.

use std::io;
use std::mem;
use std::os::raw::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::Stats;

/// `struct heft_region`
#[repr(C)]
pub struct RawRegion {
    pub opaque: [u64; 32],
}

/// `heft_region_begin_named`
pub type BeginNamed = unsafe extern "C" fn(*mut RawRegion, c_int, *const c_char) -> c_int;

/// `void (*)(const char *message)`
pub type Callback = unsafe extern "C" fn(*const c_char);

/// Not looked up yet. No function has this address.
const UNKNOWN: *mut c_void = 1 as *mut c_void;

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {$(
        #[inline]
        pub fn $name() -> Option<unsafe extern "C" fn($($argument),*) $(-> $result)?> {
            static ADDRESS: AtomicPtr<c_void> = AtomicPtr::new(UNKNOWN);
            let mut address = ADDRESS.load(Ordering::Relaxed);
            if address.is_null() {
                return None;
            }
            if address == UNKNOWN {
                address = look_up(concat!(stringify!($name), "\0"));
                ADDRESS.store(address, Ordering::Relaxed);
            }
            // Null is None. The types are those of heft.h, which never change.
            unsafe { mem::transmute::<*mut c_void, Option<unsafe extern "C" fn($($argument),*) $(-> $result)?>>(address) }
        }
    )*};
}

functions! {
    heft_running: fn() -> c_int;
    heft_stats_get: fn(c_int, *mut Stats) -> c_int;
    heft_region_begin_named: fn(*mut RawRegion, c_int, *const c_char) -> c_int;
    heft_region_change: fn(*const RawRegion, *mut Stats) -> c_int;
    heft_region_end: fn(*mut RawRegion, *mut Stats) -> c_int;
    heft_expect_or: fn(*const RawRegion, usize, c_int, i64, *const c_char, *const c_char, c_int, Callback) -> c_int;
    heft_mark: fn(*const c_char);
    heft_mark_block: fn(*const c_void, *const c_char);
    heft_event: fn(*const c_char, u64);
    heft_pool_create: fn(*mut c_void, *const c_char);
    heft_pool_alloc: fn(*mut c_void, *const c_void, usize);
    heft_pool_free: fn(*mut c_void, *const c_void);
    heft_pool_destroy: fn(*mut c_void);
    heft_start: fn() -> c_int;
    heft_stop: fn() -> c_int;
    heft_dump: fn(*const c_char) -> c_int;
    heft_sampling_active: fn() -> c_int;
    heft_pprof_dump: fn(c_int) -> c_int;
}

#[cfg(target_os = "linux")]
#[cold]
fn look_up(name: &'static str) -> *mut c_void {
    extern "C" {
        fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    }
    const RTLD_DEFAULT: *mut c_void = std::ptr::null_mut();
    unsafe { dlsym(RTLD_DEFAULT, name.as_ptr().cast()) }
}

#[cfg(not(target_os = "linux"))]
#[cold]
fn look_up(_: &'static str) -> *mut c_void {
    std::ptr::null_mut()
}

/// "Nobody counts here": what the C functions answer without heft. The number is that of Linux; heft is nowhere else.
pub const ENOSYS: c_int = 38;

/// The same
pub fn absent() -> io::Error {
    io::Error::from_raw_os_error(ENOSYS)
}

/// A C function's 0 or -1 with errno.
pub fn checked(result: c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// An ELF note by which heft knows, when the program starts, that it may ask for statistics: they are then counted from
/// its start. Its type is 1, and so is its only word.
#[cfg(target_os = "linux")]
#[used]
#[link_section = ".note.heft"]
static NOTE: [u32; 6] = [5, 4, 1, u32::from_ne_bytes(*b"heft"), 0, 1];
