//! The queue without backpressure in Rust: an unbounded mpsc::channel, or sync_channel(N).
//!
//!     queue_rs [--bound N] [--batch N] [--messages N] [--payload BYTES] [--service-us N]

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

enum Sender {
    Unbounded(mpsc::Sender<Vec<u8>>),
    Bounded(mpsc::SyncSender<Vec<u8>>),
}

#[inline(never)]
fn send_message(to: &Sender, text: &[u8]) {
    let copy = text.to_vec();
    match to {
        Sender::Unbounded(s) => s.send(copy).expect("the worker lives"),
        Sender::Bounded(s) => s.send(copy).expect("the worker lives"),
    }
}

/// Takes what is there, up to a batch, and pays the service time once for it.
fn deliver_messages(from: mpsc::Receiver<Vec<u8>>, batch: usize, service: Duration) -> usize {
    let mut delivered = 0;
    let mut taken = Vec::with_capacity(batch);
    while let Ok(first) = from.recv() {
        taken.push(first);
        taken.extend(from.try_iter().take(batch - 1));
        thread::sleep(service);
        delivered += taken.len();
        taken.clear();
    }
    delivered
}

fn usage() -> ! {
    eprintln!(
        "usage: queue_rs [--bound N] [--batch N] [--messages N] [--payload BYTES] [--service-us N]"
    );
    std::process::exit(2);
}

fn main() {
    let (mut bound, mut batch, mut messages, mut payload, mut service_us) = (0, 1, 5000, 1024, 100);
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let number: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or_else(|| usage());
        match option.as_str() {
            "--bound" => bound = number,
            "--batch" if number > 0 => batch = number,
            "--messages" => messages = number,
            "--payload" => payload = number,
            "--service-us" => service_us = number,
            _ => usage(),
        }
    }
    let (to, from) = if bound == 0 {
        let (s, r) = mpsc::channel();
        (Sender::Unbounded(s), r)
    } else {
        let (s, r) = mpsc::sync_channel(bound);
        (Sender::Bounded(s), r)
    };
    let service = Duration::from_micros(service_us as u64);
    let worker = thread::Builder::new()
        .name("worker".into())
        .spawn(move || deliver_messages(from, batch, service))
        .expect("a thread");
    let text = vec![b'x'; payload];
    for _ in 0..messages {
        send_message(&to, &text);
    }
    drop(to);
    println!("{} messages sent", worker.join().expect("the worker ends"));
}
