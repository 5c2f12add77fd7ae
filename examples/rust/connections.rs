//! 300 connections at 300 KB each, in Rust. `vec![None::<u16>; 65536]` is a calloc of 262,144 bytes.
//!
//!     connections_rs [A|B] [COUNT]

struct Conn {
    outgoing: Vec<[u8; 144]>,
    pending: Vec<u32>,
    ids: Vec<Option<u16>>,
    incoming: Vec<[u8; 144]>,
    buffer: Vec<u8>,
}

#[inline(never)]
fn make_id_table(filled: bool) -> Vec<Option<u16>> {
    let mut ids = vec![None::<u16>; 65536];
    if filled {
        for (i, id) in ids.iter_mut().enumerate() {
            *id = Some(i as u16);
        }
    }
    ids
}

#[inline(never)]
fn conn_new(filled: bool) -> Box<Conn> {
    Box::new(Conn {
        outgoing: vec![[1; 144]; 101],
        pending: vec![1; 101],
        ids: make_id_table(filled),
        incoming: vec![[1; 144]; 100],
        buffer: Vec::with_capacity(10240),
    })
}

impl Conn {
    fn capacity(&self) -> usize {
        144 * (self.outgoing.capacity() + self.incoming.capacity())
            + 4 * (self.pending.capacity() + self.ids.capacity())
            + self.buffer.capacity()
    }
}

fn main() {
    let variant = std::env::args().nth(1).unwrap_or_else(|| "A".into());
    let count: usize = std::env::args().nth(2).map_or(Ok(300), |n| n.parse()).unwrap_or(0);
    if (variant != "A" && variant != "B") || count == 0 {
        eprintln!("usage: connections_rs [A|B] [COUNT]");
        std::process::exit(2);
    }
    let all: Vec<Box<Conn>> = (0..count).map(|_| conn_new(variant == "B")).collect();
    println!("{} connections open, {} bytes of buffers each", all.len(), all[0].capacity());
}
