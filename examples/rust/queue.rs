//! The queue without backpressure in Rust: an unbounded mpsc::channel, or sync_channel(N).
//!
//!     queue_rs [--bound N]

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const MESSAGES: usize = 5000;
const PAYLOAD: usize = 1024;

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

fn deliver_messages(from: mpsc::Receiver<Vec<u8>>) -> usize {
    let mut delivered = 0;
    for message in from {
        thread::sleep(Duration::from_micros(100));
        delivered += 1;
        drop(message);
    }
    delivered
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (to, from) = match args.as_slice() {
        [] => {
            let (s, r) = mpsc::channel();
            (Sender::Unbounded(s), r)
        }
        [option, n] if option == "--bound" => {
            let (s, r) = mpsc::sync_channel(n.parse().expect("a number"));
            (Sender::Bounded(s), r)
        }
        _ => {
            eprintln!("usage: queue_rs [--bound N]");
            std::process::exit(2);
        }
    };
    let worker = thread::Builder::new()
        .name("worker".into())
        .spawn(move || deliver_messages(from))
        .expect("a thread");
    let text = vec![b'x'; PAYLOAD];
    for _ in 0..MESSAGES {
        send_message(&to, &text);
    }
    drop(to);
    println!("{} messages sent", worker.join().expect("the worker ends"));
}
