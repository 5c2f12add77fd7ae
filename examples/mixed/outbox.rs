//! A message queue as a C interface: every producer has a background thread that delivers one
//! message at a time, behind a channel. outbox.h is the other side of it.
//!
//! The channel has no bound unless one is asked for, which is the mistake that heft is to find
//! across the border of two languages: the caller is C++, what it fills is in here.

use std::slice;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

enum Channel {
    Unbounded(mpsc::Sender<Vec<u8>>),
    Bounded(mpsc::SyncSender<Vec<u8>>),
}

pub struct Producer {
    channel: Channel,
    worker: thread::JoinHandle<usize>,
}

fn deliver_messages(from: mpsc::Receiver<Vec<u8>>, service: Duration) -> usize {
    let mut delivered = 0;
    for message in from {
        thread::sleep(service);
        delivered += 1;
        drop(message);
    }
    delivered
}

/// A producer with its thread. `bound` 0: none.
#[no_mangle]
pub extern "C" fn outbox_new(bound: usize, service_us: u64) -> *mut Producer {
    let (channel, from) = if bound == 0 {
        let (to, from) = mpsc::channel();
        (Channel::Unbounded(to), from)
    } else {
        let (to, from) = mpsc::sync_channel(bound);
        (Channel::Bounded(to), from)
    };
    let worker = thread::Builder::new()
        .name("outbox".into())
        .spawn(move || deliver_messages(from, Duration::from_micros(service_us)));
    match worker {
        Ok(worker) => Box::into_raw(Box::new(Producer { channel, worker })),
        Err(_) => std::ptr::null_mut(),
    }
}

/// Copies the message and hands it to the background thread.
///
/// # Safety
/// `producer` comes from outbox_new and is not freed; `text` has `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn send_message(
    producer: *const Producer,
    text: *const u8,
    length: usize,
) -> bool {
    let copy = slice::from_raw_parts(text, length).to_vec();
    match &(*producer).channel {
        Channel::Unbounded(to) => to.send(copy).is_ok(),
        Channel::Bounded(to) => to.send(copy).is_ok(),
    }
}

/// Waits until everything is delivered; returns how many messages that were.
///
/// # Safety
/// `producer` comes from outbox_new and is not used again.
#[no_mangle]
pub unsafe extern "C" fn outbox_finish(producer: *mut Producer) -> usize {
    let Producer { channel, worker } = *Box::from_raw(producer);
    drop(channel);
    worker.join().unwrap_or(0)
}
