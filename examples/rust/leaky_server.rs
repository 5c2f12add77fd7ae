//! The server loop that leaks 1 KB a request, in Rust: nothing is unreachable, a collection is
//! never cleared. --keep N is the way out, --grow goes on until it is killed (as in C).
//!
//!     leaky_server_rs [--requests N] [--pause-us N] [--keep N] [--grow]

use std::collections::VecDeque;
use std::time::Duration;

const CACHE_ENTRIES: usize = 512;

struct Server {
    records: VecDeque<Box<[u8; 1024]>>,
    keep: usize, // 0: all of them
    cache: Vec<Vec<u8>>,
    state: u32,
}

/// The optimiser would see that nobody reads the buffers.
fn last_byte(buffer: &[u8]) -> usize {
    unsafe { std::ptr::read_volatile(&buffer[buffer.len() - 1]) as usize }
}

impl Server {
    fn draw(&mut self, below: u32) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 17;
        self.state ^= self.state << 5;
        (self.state % below) as usize
    }

    /// The leak: an audit record that, without --keep, nobody removes.
    #[inline(never)]
    fn remember_request(&mut self, number: u64) {
        self.records.push_back(Box::new([number as u8; 1024]));
        while self.keep > 0 && self.records.len() > self.keep {
            self.records.pop_front();
        }
    }

    #[inline(never)]
    fn refresh_cache(&mut self) {
        let (entry, size) = (self.draw(CACHE_ENTRIES as u32), 2048 + self.draw(4096));
        self.cache[entry] = Vec::new();
        self.cache[entry] = vec![b'c'; size];
    }

    #[inline(never)]
    fn answer_request(&mut self) -> usize {
        let size = 256 + self.draw(8192);
        let (input, output) = (vec![b'i'; size], vec![b'o'; size * 2]);
        last_byte(&input) + last_byte(&output)
    }
}

fn usage() -> ! {
    eprintln!("usage: leaky_server_rs [--requests N] [--pause-us N] [--keep N] [--grow]");
    std::process::exit(2);
}

fn main() {
    let (mut requests, mut pause_us, mut keep, mut grow) = (20000, None, 0, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--grow" {
            grow = true;
            continue;
        }
        let number: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or_else(|| usage());
        match arg.as_str() {
            "--requests" => requests = number,
            "--pause-us" => pause_us = Some(number),
            "--keep" => keep = number as usize,
            _ => usage(),
        }
    }
    let pause = Duration::from_micros(pause_us.unwrap_or(if grow { 100 } else { 0 }));
    let mut server = Server {
        records: VecDeque::new(),
        keep,
        cache: vec![Vec::new(); CACHE_ENTRIES],
        state: 88172645,
    };
    let mut n = 0;
    while grow || n < requests {
        assert_eq!(server.answer_request(), b'i' as usize + b'o' as usize);
        server.refresh_cache();
        server.remember_request(n);
        n += 1;
        if pause > Duration::ZERO {
            std::thread::sleep(pause);
        }
    }
    println!("{n} requests answered, {} records kept", server.records.len());
}
