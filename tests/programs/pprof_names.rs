// Much is inlined here, and most of what allocates is the library's: pprof must show the user's.
use std::collections::HashMap;

#[inline(never)]
fn grow() -> Vec<u8> {
    let mut v = Vec::with_capacity(16);
    for i in 0..1_000_000u32 {
        v.push(i as u8);
    }
    v
}

#[inline(never)]
fn name(i: usize) -> String {
    format!("row {}", i)
}

#[inline(never)]
fn index(count: usize) -> HashMap<String, Box<usize>> {
    let mut m = HashMap::new();
    for i in 0..count {
        m.insert(name(i), Box::new(i));
    }
    m
}

fn main() {
    let v = grow();
    let m = index(1000);
    std::process::exit(if v.len() == 1_000_000 && m.len() == 1000 { 0 } else { 1 });
}
