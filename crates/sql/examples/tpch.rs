//! TPC-H for measurements. `tpch csv TABLE SCALE_FACTOR PART PARTS` writes a part of a table to standard output, parts from 1 on; `tpch typed
//! TABLE` the statement that makes Parquet of it; `tpch tables` the tables' names; `tpch answer QUERY` the published answer at scale factor 1.

#[path = "../tests/tpch/mod.rs"]
mod tpch;

use std::io::{self, BufWriter, Write};

use tpchgen::q_and_a::answers_sf1;

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<f64>().map_err(io::Error::other);
    let decimals =
        |name: &str| tpch::TABLES.iter().find(|(table, _)| *table == name).map_or(&[][..], |(_, names)| names);
    let mut output = BufWriter::new(io::stdout());
    match words[..] {
        ["csv", table, scale_factor, part, parts] => {
            let (part, parts) = (number(part)? as i32, number(parts)? as i32);
            tpch::write_csv(table, number(scale_factor)?, part, parts, &mut output)?;
        }
        ["typed", table] => writeln!(output, "{}", tpch::typed(decimals(table)))?,
        ["tables"] => tpch::TABLES.iter().try_for_each(|(table, _)| writeln!(output, "{table}"))?,
        ["answer", query] => {
            let answer = answers_sf1::answer(number(query)? as i32).unwrap_or_default();
            output.write_all(answer.trim_start().as_bytes())?;
        }
        _ => {
            eprintln!("tpch csv TABLE SCALE_FACTOR PART PARTS | typed TABLE | tables | answer QUERY");
            std::process::exit(2);
        }
    }
    output.flush()
}
