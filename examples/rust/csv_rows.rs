//! The CSV example in Rust: Vec<Vec<String>>, as most people would write it.
//!
//!     csv_rows_rs FILE

use std::io::{self, BufRead};

struct DataRecord {
    fields: Vec<String>,
}

struct DataSheet {
    headers: Vec<String>,
    rows: Vec<DataRecord>,
}

fn split_row(line: String) -> Vec<String> {
    line.split(',').map(str::to_string).collect()
}

fn read_sheet(path: &str) -> io::Result<DataSheet> {
    let mut lines = io::BufReader::new(std::fs::File::open(path)?).lines();
    let headers = match lines.next() {
        Some(line) => split_row(line?),
        None => Vec::new(),
    };
    let mut rows = Vec::new();
    for line in lines {
        rows.push(DataRecord { fields: split_row(line?) });
    }
    Ok(DataSheet { headers, rows })
}

fn main() {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: csv_rows_rs FILE");
        std::process::exit(2);
    };
    match read_sheet(&path) {
        Ok(sheet) => {
            let bytes: usize = sheet.rows.iter().flat_map(|r| &r.fields).map(String::len).sum();
            println!(
                "{} rows of {} columns, {} bytes of text",
                sheet.rows.len(),
                sheet.headers.len(),
                bytes
            );
        }
        Err(e) => {
            eprintln!("{path}: {e}");
            std::process::exit(1);
        }
    }
}
