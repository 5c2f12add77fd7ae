// Four threads that allocate through the crate's allocator in a tight loop, and check what their blocks hold. The file
// has attach_life.h's numbers: progress, stop, ready. attach_rust FILE
use std::ffi::{c_int, c_long, c_void};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

#[global_allocator]
static A: ALLOCATOR = ALLOCATOR;

extern "C" {
    fn mmap(at: *mut c_void, bytes: usize, rights: c_int, how: c_int, fd: c_int, offset: c_long) -> *mut c_void;
}

struct Life {
    progress: AtomicU64,
    stop: AtomicU64,
    ready: AtomicU64,
}

fn work(life: &Life, seed: usize) {
    let mut i = seed;
    while life.stop.load(SeqCst) == 0 {
        let mut block = vec![i as u8; 1 + i % 3000];
        let cleared = vec![0u8; 1 + i % 500];
        block.reserve_exact(2 * block.len());
        block.push(7);
        let words: Vec<String> = (0..i % 10).map(|n| format!("{n} {i}")).collect();
        assert!(block[0] == i as u8 && block[block.len() - 1] == 7, "a block does not hold what was written to it");
        assert!(cleared.iter().all(|b| *b == 0), "it was not cleared");
        assert!(words.iter().enumerate().all(|(n, w)| *w == format!("{n} {i}")), "a text is another one");
        life.progress.fetch_add(1, SeqCst);
        i += 1;
    }
}

fn main() {
    let path = std::env::args().nth(1).expect("usage: attach_rust FILE");
    let file = std::fs::File::options().read(true).write(true).open(path).expect("no file for the progress");
    let at = unsafe { mmap(std::ptr::null_mut(), 4096, 3, 1, file.as_raw_fd(), 0) };
    assert!(at as isize != -1, "no map for the progress");
    let life: &'static Life = unsafe { &*(at as *const Life) };
    let threads: Vec<_> = (0..4).map(|n| std::thread::spawn(move || work(life, n * 1000))).collect();
    life.ready.store(1, SeqCst);
    for thread in threads {
        thread.join().expect("a thread has failed");
    }
    println!("right");
}
