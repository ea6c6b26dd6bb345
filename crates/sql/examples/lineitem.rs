//! Writes a part of TPC-H's table `lineitem` as CSV to standard output: `lineitem SCALE_FACTOR PART PARTS`, parts from 1 on.

use std::io::{self, BufWriter, Write};

use tpchgen::csv::LineItemCsv;
use tpchgen::generators::LineItemGenerator;

fn main() -> io::Result<()> {
    let numbers: Vec<f64> = std::env::args().skip(1).filter_map(|number| number.parse().ok()).collect();
    let [scale_factor, part, parts] = numbers[..] else {
        eprintln!("lineitem SCALE_FACTOR PART PARTS");
        std::process::exit(2);
    };
    let mut output = BufWriter::new(io::stdout());
    writeln!(output, "{}", LineItemCsv::header())?;
    for row in LineItemGenerator::new(scale_factor, part as i32, parts as i32).iter() {
        writeln!(output, "{}", LineItemCsv::new(row))?;
    }
    output.flush()
}
