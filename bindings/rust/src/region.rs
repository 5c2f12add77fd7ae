use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::raw::c_int;
use std::ptr;

use crate::interface::{self, BeginNamed, RawRegion, ENOSYS};
use crate::with_c_name;

/// What was allocated and freed: since the program's start, or in a region.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stats {
    /// Calls that returned a new block.
    pub allocations: u64,
    /// Calls that resized a block.
    pub reallocations: u64,
    /// Calls that ended a block.
    pub frees: u64,
    /// Bytes of new blocks, and what reallocations have added.
    pub allocated_bytes: u64,
    /// Bytes of blocks that ended, and what reallocations have taken away.
    pub freed_bytes: u64,
    /// Bytes allocated minus bytes freed. Negative if more was freed.
    pub live_bytes: i64,
    /// Blocks allocated minus blocks freed. Negative if more were freed.
    pub live_blocks: i64,
    /// The greatest `live_bytes` so far. In a region: above the level at its beginning.
    pub peak_bytes: u64,
}

impl Stats {
    /// What all threads have done since the program's start. It fails with `ErrorKind::Unsupported` where nobody counts.
    pub fn of_process() -> io::Result<Stats> {
        get(Process::NUMBER)
    }

    /// What this thread has done since its start. It fails with `ErrorKind::Unsupported` where nobody counts.
    pub fn of_thread() -> io::Result<Stats> {
        get(Thread::NUMBER)
    }
}

fn get(scope: c_int) -> io::Result<Stats> {
    let get = interface::heft_stats_get().ok_or_else(interface::absent)?;
    let mut stats = Stats::default();
    interface::checked(unsafe { get(scope, &mut stats) })?;
    Ok(stats)
}

/// Whose calls a region counts: [`Process`] or [`Thread`].
pub trait Scope: sealed::Sealed {}

/// The calls of all threads.
#[derive(Debug)]
pub struct Process(());

/// The calls of one thread. Such a region cannot leave its thread.
#[derive(Debug)]
pub struct Thread(PhantomData<*const ()>);

impl Scope for Process {}
impl Scope for Thread {}

mod sealed {
    use std::os::raw::c_int;

    pub trait Sealed {
        const NUMBER: c_int; // enum heft_scope
    }
    impl Sealed for super::Process {
        const NUMBER: c_int = 0;
    }
    impl Sealed for super::Thread {
        const NUMBER: c_int = 1;
    }
}
use sealed::Sealed;

/// What is allocated from here on, until [`Region::end`] or until it is dropped. Regions may nest and overlap.
///
/// ```
/// let region = heft::Region::process();
/// let text = String::from("a block of 18 bytes");
/// match region.end() {
///     Ok(change) => println!("{} bytes live", change.live_bytes),
///     Err(why) => println!("not counted: {why}"), // the program runs without heft
/// }
/// # drop(text);
/// ```
pub struct Region<S: Scope = Process> {
    raw: MaybeUninit<RawRegion>, // heft keeps no address of it, so a region may move
    errno: c_int,                // why it could not begin; 0: it has begun
    scope: PhantomData<S>,
}

impl Region<Process> {
    /// Begins one that counts the calls of all threads.
    #[inline]
    pub fn process() -> Self {
        Self::begin(None)
    }

    /// The same with a name for the timeline.
    pub fn process_named(name: &str) -> Self {
        Self::begin(Some(name))
    }
}

impl Region<Thread> {
    /// Begins one that counts the calls of this thread only: other threads, such as tests that run at the same time, do
    /// not disturb it.
    #[inline]
    pub fn thread() -> Self {
        Self::begin(None)
    }

    /// The same with a name for the timeline.
    pub fn thread_named(name: &str) -> Self {
        Self::begin(Some(name))
    }
}

impl<S: Scope> Region<S> {
    #[inline]
    fn begin(name: Option<&str>) -> Self {
        match interface::heft_region_begin_named() {
            None => Region { raw: MaybeUninit::uninit(), errno: ENOSYS, scope: PhantomData },
            Some(begin) => Self::begin_by(begin, name),
        }
    }

    fn begin_by(begin: BeginNamed, name: Option<&str>) -> Self {
        let mut region = Region { raw: MaybeUninit::uninit(), errno: 0, scope: PhantomData };
        let at = region.raw.as_mut_ptr();
        let begin = |name| interface::checked(unsafe { begin(at, <S as Sealed>::NUMBER, name) });
        let begun = match name {
            None => begin(ptr::null()),
            Some(name) => with_c_name(name, begin),
        };
        if let Err(why) = begun {
            region.errno = why.raw_os_error().unwrap_or(ENOSYS);
        }
        region
    }

    pub(crate) fn begun(&self) -> io::Result<*const RawRegion> {
        match self.errno {
            0 => Ok(self.raw.as_ptr()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// What has changed since it began. It fails with `ErrorKind::Unsupported` where nobody counts.
    pub fn change(&self) -> io::Result<Stats> {
        let raw = self.begun()?;
        let change = interface::heft_region_change().ok_or_else(interface::absent)?;
        let mut stats = Stats::default();
        interface::checked(unsafe { change(raw, &mut stats) })?;
        Ok(stats)
    }

    /// Ends it, and says what has changed since it began. It fails with `ErrorKind::Unsupported` where nobody counts.
    pub fn end(mut self) -> io::Result<Stats> {
        let mut stats = Stats::default();
        self.end_raw(&mut stats)?;
        Ok(stats)
    }

    /// The first time only: what is dropped after end() has ended.
    fn end_raw(&mut self, out: *mut Stats) -> io::Result<()> {
        self.begun()?;
        self.errno = ENDED;
        let end = interface::heft_region_end().ok_or_else(interface::absent)?;
        interface::checked(unsafe { end(self.raw.as_mut_ptr(), out) })
    }
}

const ENDED: c_int = 22; // EINVAL, as in heft.h: no region that was begun

impl<S: Scope> Drop for Region<S> {
    #[inline]
    fn drop(&mut self) {
        if self.errno == 0 {
            let _ = self.end_raw(ptr::null_mut()); // nobody is there to be told
        }
    }
}

impl<S: Scope> fmt::Debug for Region<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Region").field(&self.change()).finish()
    }
}
