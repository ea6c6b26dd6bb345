//! `query` and its options.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use forebay_query::{Dialect, Header};

use crate::cli::ConfigFile;
use crate::settings::GivenForJob;

/// `query`.
#[derive(Args, Debug)]
#[command(
    after_help = "OP: count-lines, stats (count, sum, mean, min, max, variance, deviation), gramian (A^T A), digits, entropy, \
                  normalise. Several are one pass: stats,entropy. Columns are numeric if their first field that is not \
                  missing is a number; a row that does not fit is bad. docs/query.md has the details. Exit status: 0 done, \
                  1 failed, also because of bad rows. SQL is answered by forebay-sql (`make build-sql`), by CSV and Parquet files \
                  named in it.\n\nExamples:\n  forebay query stats,entropy log.csv\n  \
                  forebay query gramian --columns flow,3 --plot heat.svg a.csv b.csv\n  \
                  forebay query normalise --columns flow --output flow.csv log.csv\n  \
                  forebay query stats --on-error skip --json log.csv\n  \
                  forebay query \"SELECT day, avg(flow) FROM 'log.csv' GROUP BY day\""
)]
pub struct QueryArguments {
    /// What to compute: operators, with commas between them; or one statement of SQL
    #[arg(value_name = "OP[,OP...]|SQL")]
    pub operators: String,
    /// Files: CSV for operators on columns, any for those on bytes; several are one table. SQL names its own
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Columns, by name or number from 1 on [default: all numeric ones]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Whether files begin with names; auto: no field of the first record that is not empty is a number
    #[arg(long, value_enum, default_value = "auto")]
    pub header: HeaderChoice,
    /// What stands between fields: one character, or tab
    #[arg(long, value_name = "C", default_value = ",", value_parser = delimiter)]
    pub delimiter: Dialect,
    /// What to do with bad rows: name the first ones and fail, or leave them out and count them
    #[arg(long, value_enum, default_value = "fail")]
    pub on_error: OnError,
    /// Write the normalised column to this file, or into this directory [default: FILE.normalised.csv]; SQL: its result
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Who reads: this host, the nodes of the job that hold the bytes (data), both (split), or whatever is fastest
    #[arg(long = "where", value_enum, default_value = "auto")]
    pub place: WherePlace,
    /// Show what each choice of --where was predicted to take, and what it took
    #[arg(long)]
    pub explain: bool,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Write a histogram of the bytes and a map of the correlations to this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// SQL: how the result is written: table, csv, json, parquet or arrow [default: table]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// SQL: a table by name
    #[arg(long = "table", value_name = "NAME=PATH")]
    pub tables: Vec<String>,
    /// SQL: no field of the CSV files holds a newline, so that files may be cut among threads and nodes
    #[arg(long)]
    pub no_newlines: bool,
    /// The configuration file.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The settings.
    #[command(flatten)]
    pub given: GivenForJob,
}

/// `--where`.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum WherePlace {
    /// Whatever is fastest.
    Auto,
    /// This host.
    Host,
    /// The nodes that hold the bytes.
    Data,
    /// Both.
    Split,
}

/// `--header`.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum HeaderChoice {
    /// By the first record.
    Auto,
    /// They do.
    Yes,
    /// They do not.
    No,
}

impl From<HeaderChoice> for Header {
    fn from(choice: HeaderChoice) -> Self {
        match choice {
            HeaderChoice::Auto => Self::Auto,
            HeaderChoice::Yes => Self::Yes,
            HeaderChoice::No => Self::No,
        }
    }
}

/// `--on-error`.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Name them.
    Fail,
    /// Count them.
    Skip,
}

fn delimiter(text: &str) -> Result<Dialect, String> {
    let byte = match text {
        "tab" | "\\t" => Some(b'\t'),
        text => <[u8; 1]>::try_from(text.as_bytes()).ok().map(|[byte]| byte),
    };
    byte.and_then(Dialect::new)
        .ok_or_else(|| "a delimiter is one character that no number or quote has, or tab".to_owned())
}
