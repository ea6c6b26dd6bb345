//! DataFusion as it comes, for measurements: `plain DIRECTORY FILE TABLE...` carries out the statement in a file over tables of Parquet, at
//! `DIRECTORY/*/TABLE/*.parquet`, and writes the rows as CSV to standard output.

use std::{fs, io};

use datafusion::arrow::csv::Writer;
use datafusion::common::{DataFusionError, Result, TableReference};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [directory, file, tables @ ..] = &words[..] else {
        eprintln!("plain DIRECTORY FILE TABLE...");
        std::process::exit(2);
    };
    let statement = fs::read_to_string(file)?;
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    threads.block_on(async {
        let mut config = SessionConfig::new();
        // Else a pattern finds no file below the directory that it begins with.
        config.options_mut().execution.listing_table_ignore_subdirectory = false;
        let context = SessionContext::new_with_config(config);
        for table in tables {
            let paths = format!("{directory}/*/{table}/*.parquet");
            context
                .register_parquet(TableReference::bare(table.as_str()), paths, ParquetReadOptions::default())
                .await?;
        }
        let mut rows = Writer::new(io::stdout());
        for batch in context.sql(&statement).await?.collect().await? {
            rows.write(&batch).map_err(|error| DataFusionError::ArrowError(Box::new(error), None))?;
        }
        Ok(())
    })
}
