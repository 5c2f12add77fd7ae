//! 300 connections at 300 KB each, in Rust. `vec![None::<u16>; 65536]` is a calloc of 262,144 bytes:
//! variant A. B fills the table, C makes one for the messages that can be in flight.
//!
//! One object: 301,732 bytes of buffers (C: 39,992), and five vectors of 24 bytes in the object.
//!
//!     connections_rs [A|B|C] [COUNT]

const IN_FLIGHT: usize = 100;

type Message = [u8; 144];

struct Conn {
    outgoing: Vec<Message>,
    pending: Vec<u32>,
    ids: Vec<Option<u16>>,
    incoming: Vec<Message>,
    buffer: Vec<u8>,
}

#[inline(never)]
fn make_id_table(variant: char) -> Vec<Option<u16>> {
    match variant {
        'A' => vec![None::<u16>; 65536],
        'B' => vec![Some(u16::MAX); 65536],
        _ => vec![None::<u16>; IN_FLIGHT + 1],
    }
}

#[inline(never)]
fn conn_new(variant: char) -> Box<Conn> {
    let mut conn = Box::new(Conn {
        outgoing: vec![[1; 144]; IN_FLIGHT + 1],
        pending: vec![1; IN_FLIGHT + 1],
        ids: make_id_table(variant),
        incoming: Vec::with_capacity(IN_FLIGHT),
        buffer: Vec::with_capacity(10240),
    });
    conn.incoming.push([0; 144]);
    conn.buffer.push(0); // the rest comes with the traffic
    conn
}

impl Conn {
    fn capacity(&self) -> usize {
        144 * (self.outgoing.capacity() + self.incoming.capacity())
            + 4 * (self.pending.capacity() + self.ids.capacity())
            + self.buffer.capacity()
    }
}

fn main() {
    let variant = std::env::args().nth(1).map_or('A', |v| v.chars().next().unwrap_or('?'));
    let count: usize = std::env::args().nth(2).map_or(Ok(300), |n| n.parse()).unwrap_or(0);
    if !('A'..='C').contains(&variant) || count == 0 {
        eprintln!("usage: connections_rs [A|B|C] [COUNT]");
        std::process::exit(2);
    }
    let all: Vec<Box<Conn>> = (0..count).map(|_| conn_new(variant)).collect();
    println!("{} connections open, {} bytes of buffers each", all.len(), all[0].capacity());
}
