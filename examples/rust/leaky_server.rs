//! The server loop that leaks 1 KB a request, in Rust.
//!
//!     leaky_server_rs [--requests N] [--pause-us N] [--grow]

use std::time::Duration;

const CACHE_ENTRIES: usize = 512;

struct Server {
    forgotten: Vec<Box<[u8; 1024]>>,
    cache: Vec<Vec<u8>>,
    state: u32,
}

impl Server {
    fn draw(&mut self, below: u32) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 17;
        self.state ^= self.state << 5;
        (self.state % below) as usize
    }

    /// The leak: an audit record that nobody removes.
    #[inline(never)]
    fn remember_request(&mut self, number: u64) {
        self.forgotten.push(Box::new([number as u8; 1024]));
    }

    #[inline(never)]
    fn refresh_cache(&mut self) {
        let (entry, size) = (self.draw(CACHE_ENTRIES as u32), 2048 + self.draw(4096));
        self.cache[entry] = vec![b'c'; size];
    }

    #[inline(never)]
    fn answer_request(&mut self) -> usize {
        let size = 256 + self.draw(8192);
        // black_box: the optimiser would see that nobody reads them.
        let (input, output) =
            std::hint::black_box((vec![b'i'; size], vec![b'o'; size * 2]));
        input.len() + output.len()
    }
}

fn main() {
    let (mut requests, mut pause_us, mut grow) = (20000u64, 0u64, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|n| n.parse().ok());
        match arg.as_str() {
            "--grow" => grow = true,
            "--requests" => requests = number().expect("--requests N"),
            "--pause-us" => pause_us = number().expect("--pause-us N"),
            _ => {
                eprintln!("usage: leaky_server_rs [--requests N] [--pause-us N] [--grow]");
                std::process::exit(2);
            }
        }
    }
    let mut server =
        Server { forgotten: Vec::new(), cache: vec![Vec::new(); CACHE_ENTRIES], state: 88172645 };
    let (mut n, mut bytes) = (0u64, 0usize);
    while grow || n < requests {
        bytes += server.answer_request();
        server.refresh_cache();
        server.remember_request(n);
        n += 1;
        if pause_us > 0 {
            std::thread::sleep(Duration::from_micros(pause_us));
        }
    }
    println!("{n} requests answered, {bytes} bytes of buffers");
}
