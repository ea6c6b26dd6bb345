//! The command line.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Parser, ValueEnum};

use crate::dialect::Dialect;

/// SQL over files, on this host or near the data.
#[derive(Parser, Debug)]
#[command(
    name = "forebay-sql",
    after_help = "Tables are named with --table or given as quoted paths: SELECT count(*) FROM '/data/log.csv'. A directory is the table \
                  of all its files; *, ? and [] match names. `forebay query \"SELECT ...\"` runs this command in a job. \
                  docs/query.md has the details.\n\nExamples:\n  \
                  forebay-sql \"SELECT stats(flow) FROM 'log.csv'\"\n  \
                  forebay-sql \"SELECT day, sum(bytes) FROM t GROUP BY day\" --table t=/data/t.parquet --format csv"
)]
pub struct Arguments {
    /// The statement
    #[arg(value_name = "SQL")]
    pub statement: String,
    /// A table by name: CSV, JSON lines or Parquet, a file, a directory or a pattern
    #[arg(long = "table", value_name = "NAME=PATH", value_parser = table)]
    pub tables: Vec<(String, String)>,
    /// Format of the result
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,
    /// Write the result to this file, whole or not at all [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print to standard error the plan, which node read what, and the bytes moved
    #[arg(long)]
    pub explain: bool,
    /// CSV files have no header: their first line is a row
    #[arg(long)]
    pub no_header: bool,
    /// Field separator of CSV files: one character, or tab
    #[arg(long, value_name = "C", default_value = ",", value_parser = delimiter)]
    pub delimiter: u8,
    /// Quote around fields of CSV files: one character
    #[arg(long, value_name = "C", default_value = "\"", value_parser = sign)]
    pub quote: u8,
    /// Character before a quote within a quoted field of CSV files [default: such quotes are doubled]
    #[arg(long, value_name = "C", value_parser = sign)]
    pub escape: Option<u8>,
    /// Lines of CSV files that begin with this character are no rows
    #[arg(long, value_name = "C", value_parser = sign)]
    pub comment: Option<u8>,
    /// Text that stands for a missing value in CSV files, beside the empty field
    #[arg(long, value_name = "TEXT,...", value_delimiter = ',', allow_hyphen_values = true)]
    pub missing: Vec<String>,
    /// Types of columns of CSV and JSON files and of their directories, in the words of SQL: day=date,price=decimal(9,2)
    #[arg(long, value_name = "NAME=TYPE,...", value_parser = types)]
    pub types: Option<Types>,
    /// Rows of CSV and JSON files that the types of other columns are taken from
    #[arg(long, value_name = "ROWS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub sample: u32,
    /// No field of the CSV files contains a newline, so files may be split among threads and nodes
    #[arg(long)]
    pub no_newlines: bool,
    /// Memory limit of sorts, joins and groups, MiB; beyond it they use temporary files
    #[arg(long, value_name = "MIB", default_value_t = 2048, value_parser = clap::value_parser!(u64).range(16..))]
    pub memory_mib: u64,
    /// Where files are read: on this host, on the nodes of the job that hold the bytes (data), or there if it is worth it (auto)
    #[arg(long = "where", value_enum, default_value = "auto")]
    pub place: Place,
    /// The control socket of the job's daemon on this host
    #[arg(long, value_name = "SOCKET", hide = true)]
    pub daemon: Option<PathBuf>,
    /// A view of the job on this host
    #[arg(long = "view", value_name = "DIR", hide = true)]
    pub views: Vec<PathBuf>,
}

/// `--types`.
#[derive(Clone, Debug)]
pub struct Types(pub Vec<(String, String)>);

impl Arguments {
    /// How CSV is written.
    pub fn dialect(&self) -> Dialect {
        Dialect {
            delimiter: self.delimiter,
            quote: self.quote,
            escape: self.escape,
            comment: self.comment,
            has_header: !self.no_header,
            has_newlines: !self.no_newlines,
            missing: self.missing.clone(),
            sample_rows: self.sample as usize,
        }
    }

    /// Whether each sign of CSV has one meaning.
    ///
    /// # Errors
    /// One has two.
    pub fn ensure_signs(&self) -> anyhow::Result<()> {
        let signs = [("quote", Some(self.quote)), ("comment", self.comment), ("escape", self.escape)];
        let mut seen = vec![("delimiter", self.delimiter)];
        for (name, sign) in signs.into_iter().filter_map(|(name, sign)| Some((name, sign?))) {
            // One before quotes may be the quote itself: they are doubled then.
            let other = seen.iter().find(|(other, own)| *own == sign && (name, *other) != ("escape", "quote"));
            if let Some((other, _)) = other {
                bail!("--{name} and --{other} are one character, {:?}: name another", char::from(sign));
            }
            seen.push((name, sign));
        }
        Ok(())
    }

    /// Types of columns by name.
    pub fn types(&self) -> &[(String, String)] {
        self.types.as_ref().map_or(&[], |types| &types.0)
    }
}

/// `--where`.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The nodes, where the bytes are many.
    Auto,
    /// This host.
    Host,
    /// The nodes that hold the bytes.
    Data,
}

/// `--format`.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Columns side by side, for people.
    Table,
    /// RFC 4180, with the columns' names.
    Csv,
    /// An array of objects.
    Json,
    /// A Parquet file.
    Parquet,
    /// An Arrow IPC stream.
    Arrow,
}

fn table(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.to_owned())),
        _ => Err("a table is NAME=PATH".to_owned()),
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match (text, text.as_bytes()) {
        ("tab" | "\\t", _) => Ok(b'\t'),
        (_, [byte]) if byte.is_ascii() && !b"\"\n\r".contains(byte) => Ok(*byte),
        _ => Err("a delimiter is one character, or tab".to_owned()),
    }
}

fn sign(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() && !b"\n\r".contains(byte) => Ok(*byte),
        _ => Err("it is one character of ASCII, no letter and no digit".to_owned()),
    }
}

/// Commas within parentheses belong to a type.
fn types(text: &str) -> Result<Types, String> {
    let mut depth = 0;
    let ends = move |sign: char| {
        depth += i32::from(sign == '(') - i32::from(sign == ')');
        sign == ',' && depth == 0
    };
    let pair = |text: &str| match text.split_once('=') {
        Some((name, own)) if !name.trim().is_empty() && !own.trim().is_empty() => {
            Ok((name.trim().to_owned(), own.trim().to_owned()))
        }
        _ => Err("types are NAME=TYPE,...".to_owned()),
    };
    text.split(ends).map(pair).collect::<Result<_, _>>().map(Types)
}
