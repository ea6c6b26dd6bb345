//! DataFusion as it comes, for measurements: `plain DIRECTORY FILE` carries out the statement in a file over TPC-H's tables, Parquet files at
//! `DIRECTORY/*/TABLE/*.parquet`, and writes the rows as CSV to standard output.

#[path = "../tests/tpch/mod.rs"]
mod tpch;

use std::{fs, io};

use datafusion::arrow::csv::Writer;
use datafusion::common::{DataFusionError, Result, TableReference};
use datafusion::prelude::{ParquetReadOptions, SessionContext};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [directory, file] = &words[..] else {
        eprintln!("plain DIRECTORY FILE");
        std::process::exit(2);
    };
    let statement = fs::read_to_string(file)?;
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    threads.block_on(async {
        let context = SessionContext::new();
        for (table, _) in tpch::TABLES {
            let paths = format!("{directory}/*/{table}/*.parquet");
            context.register_parquet(TableReference::bare(table), paths, ParquetReadOptions::default()).await?;
        }
        let mut rows = Writer::new(io::stdout());
        for batch in context.sql(&statement).await?.collect().await? {
            rows.write(&batch).map_err(|error| DataFusionError::ArrowError(Box::new(error), None))?;
        }
        Ok(())
    })
}
