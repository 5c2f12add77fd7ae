// Records that are cloned, one by one or all at once; and shared ones. The first argument is the mode.
use std::rc::Rc;

#[derive(Clone)]
struct Record {
    name: String,
    city: String,
    marks: Vec<u32>,
}

fn word(i: usize, k: usize) -> String {
    "abcdefghijklmnopqrstuvwxyz".repeat(3)[..17 + (i * 7 + k * 13) % 40].to_string()
}

#[inline(never)]
fn load() -> Vec<Record> {
    (0..5000)
        .map(|i| Record { name: word(i, 1), city: word(i, 2), marks: vec![1; 1 + i % 9] })
        .collect()
}

// Text that format! makes has room for more, a clone of it has not.
#[inline(never)]
fn load_formatted() -> Vec<Record> {
    (0..5000)
        .map(|i| Record {
            name: format!("a name of the record {}", i * i),
            city: format!("the city of {} people", i * 7919),
            marks: vec![1; 1 + i % 9],
        })
        .collect()
}

#[inline(never)]
fn keep_each(records: &[Record]) -> Vec<Record> {
    let mut kept = Vec::with_capacity(records.len());
    for r in records {
        kept.push(r.clone());
    }
    kept
}

#[inline(never)]
fn keep_all(records: &Vec<Record>) -> Vec<Record> {
    let kept = records.clone();
    std::hint::black_box(kept.len());
    kept
}

#[inline(never)]
fn share(records: Vec<Record>) -> (Vec<Rc<Record>>, Vec<Rc<Record>>) {
    let first: Vec<Rc<Record>> = records.into_iter().map(Rc::new).collect();
    let second = first.clone();
    (first, second)
}

fn length(r: &Record) -> usize {
    r.name.len() + r.city.len() + r.marks.len()
}

fn main() {
    let mode = std::env::args().nth(1);
    let records = if mode.as_deref() == Some("formatted") { load_formatted() } else { load() };
    let sum: usize = match mode.as_deref() {
        Some("each") | Some("formatted") => keep_each(&records).iter().map(length).sum(),
        Some("all") => keep_all(&records).iter().map(length).sum(),
        Some("shared") => {
            let (a, b) = share(records);
            println!("{}", a.iter().chain(b.iter()).map(|r| length(r)).sum::<usize>());
            return;
        }
        _ => std::process::exit(1),
    };
    println!("{}", sum + records.iter().map(length).sum::<usize>());
}
