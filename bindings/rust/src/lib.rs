//! Statistics, regions, expectations, marks and pools of the heap profiler heft, and the program's own profile.
//!
//! A program that uses this crate runs unchanged without heft: each function does nothing and says so, at the cost of
//! one load and one branch. Nothing is linked. heft gives the functions to the program when it starts it:
//!
//! ```sh
//! heft run --count -- target/debug/my_program     # or: heft run --count -- cargo test
//! ```
//!
//! ```
//! let region = heft::Region::thread();
//! let list = vec![1u8; 1000];
//! heft::expect_le!(region, allocations, 1);
//! if let Ok(change) = region.end() {
//!     println!("{} bytes in {} allocations", change.allocated_bytes, change.allocations);
//! }
//! # drop(list);
//! ```
//!
//! heft counts what reaches the system's allocator, whichever code calls it: no `#[global_allocator]` is needed. Bytes
//! are requested bytes. Counts equal those of the crate stats_alloc; heft's docs/bindings.md compares them with those of dhat, too.

#![warn(missing_docs)]
#![warn(unsafe_op_in_unsafe_fn)]

mod expect;
mod interface;
mod pool;
mod profile;
mod region;

pub use pool::Pool;
pub use profile::{pprof_dump, pprof_dump_fd, sampling_active};
pub use region::{Process, Region, Scope, Stats, Thread};

#[doc(hidden)]
pub mod __private {
    pub use crate::expect::{expect, Field, Place, Relation};
}

use std::ffi::CString;
use std::io;
use std::os::raw::c_char;
use std::path::Path;

/// What heft does in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// heft is not there.
    NotRunning,
    /// `heft run`: every call is recorded.
    Exact,
    /// `heft run --sample`, `heft agent`: no statistics and no regions.
    Sampled,
    /// `heft run --count`: statistics and regions, no recording.
    Counting,
}

/// What heft does in this process.
#[inline]
pub fn running() -> Mode {
    match interface::heft_running().map_or(0, |running| unsafe { running() }) {
        1 => Mode::Exact,
        2 => Mode::Sampled,
        3 => Mode::Counting,
        _ => Mode::NotRunning,
    }
}

/// A moment of the timeline, by this name. heft copies up to 255 bytes of a name.
#[inline]
pub fn mark(name: &str) {
    if let Some(mark) = interface::heft_mark() {
        with_c_name(name, |name| unsafe { mark(name) });
    }
}

/// This block has come to a stage: the report says how long blocks wait at each.
#[inline]
pub fn mark_block<T: ?Sized>(block: *const T, stage: &str) {
    if let Some(mark_block) = interface::heft_mark_block() {
        with_c_name(stage, |stage| unsafe { mark_block(block.cast(), stage) });
    }
}

/// Something of the program's own that heft counts by call stack.
#[inline]
pub fn event(name: &str, weight: u64) {
    if let Some(event) = interface::heft_event() {
        with_c_name(name, |name| unsafe { event(name, weight) });
    }
}

/// Allocations are recorded from here on.
pub fn start() -> io::Result<()> {
    let start = interface::heft_start().ok_or_else(interface::absent)?;
    interface::checked(unsafe { start() })
}

/// Allocations are not recorded from here on. Frees of recorded blocks always are.
pub fn stop() -> io::Result<()> {
    let stop = interface::heft_stop().ok_or_else(interface::absent)?;
    interface::checked(unsafe { stop() })
}

/// Writes a copy of the recording up to now into a new file. Its path has to be Unicode.
pub fn dump(path: impl AsRef<Path>) -> io::Result<()> {
    let dump = interface::heft_dump().ok_or_else(interface::absent)?;
    let path = path.as_ref().to_str().ok_or(io::ErrorKind::InvalidInput)?;
    let path = CString::new(path)?;
    interface::checked(unsafe { dump(path.as_ptr()) })
}

/// Calls with the name as C has it. It must not allocate, because heft would count that: a longer name is cut as heft
/// would cut it, and so is one with a zero byte.
fn with_c_name<R>(name: &str, call: impl FnOnce(*const c_char) -> R) -> R {
    const LONGEST: usize = 255;
    let mut bytes = [0u8; LONGEST + 1];
    let mut length = name.len().min(LONGEST);
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    call(bytes.as_ptr().cast())
}
