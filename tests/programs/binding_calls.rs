//! Calls everything in the crate heft once, for tests of the bindings. Prints what comes of it.

use std::fmt::Debug;
use std::io::{self, ErrorKind};
use std::panic::{catch_unwind, AssertUnwindSafe};

fn answer<T: Debug>(what: &str, result: io::Result<T>) {
    match result {
        Ok(value) => println!("{} {:?}", what, value),
        Err(why) => println!("{} {:?} {:?}", what, why.raw_os_error(), why.kind() == ErrorKind::Unsupported),
    }
}

/// What it says, or with which words and on which line it panics
fn failure(expect: impl FnOnce() -> bool) {
    std::panic::set_hook(Box::new(|panic| {
        let words = panic.payload().downcast_ref::<String>().map_or("?", |words| words.as_str());
        println!("{} panics on line {}", words, panic.location().unwrap().line());
    }));
    println!("expected {:?}", catch_unwind(AssertUnwindSafe(expect)).ok());
}

fn use_regions() {
    let whole = heft::Region::process();
    {
        let part = heft::Region::thread_named("part");
        answer("change", part.change());
        println!("{:?}", part);
    }
    answer("end", whole.end());
    let judged = heft::Region::process_named("judged");
    let limit = 8usize;
    failure(|| heft::expect_le!(judged, peak_bytes, limit));
    failure(|| heft::expect_le!(judged, peak_bytes, 7)); // @le
    failure(|| heft::expect_eq!(&judged, live_bytes, -6));
    failure(|| heft::expect_eq!(&judged, live_blocks, 0)); // @eq
}

fn main() {
    println!("{:?}", heft::running());
    answer("stats", heft::Stats::of_process());
    answer("stats", heft::Stats::of_thread());
    use_regions();
    heft::mark("here");
    heft::mark(&"é".repeat(200)); // 400 bytes: 127 of them fit
    heft::mark_block("block\0".as_ptr(), "sent");
    heft::event("retry", 5);
    let pool = heft::Pool::new("words");
    let other = heft::Pool::new("others");
    let text = [0u8; 30];
    pool.allocated(&text, 30);
    other.allocated(text.as_ptr(), 3);
    pool.freed(&text);
    drop(pool);
    answer("start", heft::start());
    answer("stop", heft::stop());
    answer("dump", heft::dump("/x/y"));
    println!("{}", heft::sampling_active());
    let mut profile = Vec::new();
    answer("profile", heft::pprof_dump(&mut profile));
    println!("{:?}", String::from_utf8(profile));
    answer("profile", heft::pprof_dump_fd(-1));
}
