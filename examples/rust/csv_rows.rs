//! The CSV example in Rust: Vec<Vec<String>>, as most people would write it; with --packed one
//! String for all text and one Vec for where each field ends.
//!
//!     csv_rows_rs [--packed] FILE

use std::io::{self, BufRead};

struct DataRecord {
    fields: Vec<String>,
}

struct DataSheet {
    headers: Vec<String>,
    rows: Vec<DataRecord>,
}

struct PackedSheet {
    text: String,
    ends: Vec<u32>, // of the fields, row by row, the headers first
    columns: usize,
}

fn lines_of(path: &str) -> io::Result<io::Lines<io::BufReader<std::fs::File>>> {
    Ok(io::BufReader::new(std::fs::File::open(path)?).lines())
}

fn split_row(line: String) -> Vec<String> {
    line.split(',').map(str::to_string).collect()
}

fn read_sheet(path: &str) -> io::Result<DataSheet> {
    let mut lines = lines_of(path)?;
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

fn read_packed_sheet(path: &str) -> io::Result<PackedSheet> {
    let mut sheet = PackedSheet { text: String::new(), ends: Vec::new(), columns: 0 };
    for line in lines_of(path)? {
        for field in line?.split(',') {
            sheet.text.push_str(field);
            sheet.ends.push(sheet.text.len() as u32);
        }
        if sheet.columns == 0 {
            sheet.columns = sheet.ends.len();
        }
    }
    sheet.text.shrink_to_fit();
    sheet.ends.shrink_to_fit();
    Ok(sheet)
}

/// Rows, columns and bytes of text, without the headers.
fn measure(path: &str, packed: bool) -> io::Result<(usize, usize, usize)> {
    if packed {
        let sheet = read_packed_sheet(path)?;
        if sheet.columns == 0 {
            return Ok((0, 0, 0));
        }
        let header_bytes = sheet.ends[sheet.columns - 1] as usize;
        return Ok((
            sheet.ends.len() / sheet.columns - 1,
            sheet.columns,
            sheet.text.len() - header_bytes,
        ));
    }
    let sheet = read_sheet(path)?;
    let bytes = sheet.rows.iter().flat_map(|r| &r.fields).map(String::len).sum();
    Ok((sheet.rows.len(), sheet.headers.len(), bytes))
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (path, packed) = match args.as_slice() {
        [path] => (path, false),
        [option, path] if option == "--packed" => (path, true),
        _ => {
            eprintln!("usage: csv_rows_rs [--packed] FILE");
            std::process::exit(2);
        }
    };
    match measure(path, packed) {
        Ok((rows, columns, bytes)) => {
            println!("{rows} rows of {columns} columns, {bytes} bytes of text");
        }
        Err(e) => {
            eprintln!("{path}: {e}");
            std::process::exit(1);
        }
    }
}
