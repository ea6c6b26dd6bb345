//! `query` and its options.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use forebay_offload::Place;
use forebay_query::{Header, Separator};

use crate::cli::ConfigFile;
use crate::settings::GivenForJob;

/// `query`.
#[derive(Args, Debug)]
#[command(
    after_help = "OP: describe (kind, count, missing and different values, mean, deviation, quartiles, extremes, shape, the most frequent \
                  value of every column), stats (count, sum, mean, min, max; variance and deviation, which divide by the count), \
                  quantiles, histogram, top, covariance, correlation, gramian (A^T A), normalise, count-lines, digits, entropy. Several run in one pass: stats,entropy. The numeric columns are those whose \
                  fields are numbers or missing; a row that does not fit is bad. docs/query.md has the details. Exit status: 0 done, \
                  1 failed, also because of bad rows. SQL runs in forebay-sql (`make build-sql`), over the CSV, JSON and Parquet files \
                  that the statement names.\n\nExamples:\n  forebay query describe log.csv\n  forebay query stats,entropy log.csv\n  \
                  forebay query stats --format csv --plot columns.png 'run/rank*.csv'\n  \
                  forebay query stats --by site --where-row \"flow > 3 and level is not missing\" log.csv\n  \
                  forebay query gramian --columns flow,3 --plot heat.svg a.csv b.csv\n  \
                  forebay query normalise --columns flow --output flow.csv log.csv\n  \
                  forebay query stats --on-error skip --json log.csv\n  \
                  forebay query \"SELECT day, avg(flow) FROM 'log.csv' GROUP BY day\""
)]
pub struct QueryArguments {
    /// Operators to compute, separated by commas, or one SQL statement
    #[arg(value_name = "OP[,OP...]|SQL")]
    pub operators: String,
    /// Files, or patterns in quotes ('run/*.csv'), or - for standard input: CSV or NDJSON for column operators, any for byte operators,
    /// compressed (gzip, zstd) or not; several form one table. SQL names its files itself
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Columns, by name, or by number from 1 [default: all numeric columns]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Whether the first record has the column names; auto: it does if it has no number (inf and nan are none here)
    #[arg(long, value_enum, default_value = "auto")]
    pub header: HeaderChoice,
    /// Field separator: one character, tab, blanks (any number of them), or auto: comma, tab, semicolon, pipe or blanks, as the
    /// first records show [default: auto; SQL: comma]
    #[arg(long, value_name = "C", value_parser = delimiter)]
    pub delimiter: Option<Delimiter>,
    /// Decimal point of numbers: . or ,  [default: a comma if the first records show one, and no point]
    #[arg(long, value_name = "C", value_parser = point)]
    pub decimal: Option<u8>,
    /// Leave out lines that begin with this character, wherever they are [default: # and %, before the table only]
    #[arg(long, value_name = "C", value_parser = comment)]
    pub comment: Option<u8>,
    /// Leave out so many lines at the beginning of each file
    #[arg(long, value_name = "LINES", default_value = "0", hide_default_value = true)]
    pub skip: u64,
    /// Text that counts as a missing number [default: NA, N/A, NULL, -, ?, unknown and others; docs/query.md]; SQL: as a missing
    /// value of any type, beside the empty field [default: none]
    #[arg(long, value_name = "TEXT,...", value_delimiter = ',', allow_hyphen_values = true)]
    pub missing: Option<Vec<String>>,
    /// Leave out rows of which this does not hold: comparisons with numbers, or texts in quotes ('north'), `is missing`, `in (...)`, joined
    /// by and, or, not
    #[arg(long, value_name = "CONDITION")]
    pub where_row: Option<String>,
    /// Give stats apart for the rows of each value of this column, of which there are 4096 at most
    #[arg(long, value_name = "COLUMN")]
    pub by: Option<String>,
    /// The shares that quantiles are of [default: 0.01,0.05,0.25,0.5,0.75,0.95,0.99]
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',')]
    pub quantiles: Option<Vec<f64>>,
    /// The most frequent values that top tells of each column, up to 256
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub top: u16,
    /// The bins of a histogram, at most, 2 to 64: their width is a power of two
    #[arg(long, value_name = "COUNT", default_value = "16", value_parser = clap::value_parser!(u16).range(2..=64))]
    pub bins: u16,
    /// Bad rows: fail names the first ones and fails, skip leaves them out and counts them
    #[arg(long, value_enum, default_value = "fail")]
    pub on_error: OnError,
    /// Write the normalised column to this file, or into this directory [default: FILE.normalised.csv]; SQL: its result
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Where files are read: on this host, on the nodes of the job that hold the bytes (data), on both (split), or where it is
    /// fastest (auto)
    #[arg(long = "where", value_enum, default_value = "auto")]
    pub place: WherePlace,
    /// Show the predicted time of each choice of --where, and the time taken
    #[arg(long)]
    pub explain: bool,
    /// The same as --format json
    #[arg(long)]
    pub json: bool,
    /// Draw stats (ranges, means, deviations), correlation, gramian (correlations), histogram, digits and entropy (bytes by value) to this file: PNG if
    /// its name ends in .png, else SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Format of the result: table, csv (one operator), json or markdown; SQL: table, csv, json, parquet or arrow [default: table]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<String>,
    /// SQL: a table by name
    #[arg(long = "table", value_name = "NAME=PATH")]
    pub tables: Vec<String>,
    /// SQL: types of columns of CSV and JSON files and of their directories: day=date,price=decimal(9,2)
    #[arg(long, value_name = "NAME=TYPE,...")]
    pub types: Option<String>,
    /// SQL: rows of CSV and JSON files that the types of other columns are taken from [default: 1000]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    pub sample: Option<u32>,
    /// SQL: quote around fields of CSV files [default: "]
    #[arg(long, value_name = "C", value_parser = sign)]
    pub quote: Option<u8>,
    /// SQL: character before a quote within a quoted field of CSV files [default: such quotes are doubled]
    #[arg(long, value_name = "C", value_parser = sign)]
    pub escape: Option<u8>,
    /// SQL: no field of the CSV files contains a newline, so files may be split among threads and nodes
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

/// `--delimiter`; None is found out.
#[derive(Clone, Copy, Debug)]
pub struct Delimiter(pub Option<Separator>);

fn delimiter(text: &str) -> Result<Delimiter, String> {
    let separator = match text {
        "auto" => return Ok(Delimiter(None)),
        "tab" | "\\t" => Some(Separator::Byte(b'\t')),
        "blanks" => Some(Separator::Blanks),
        text => one_byte(text).and_then(Separator::new),
    };
    let kinds = "a delimiter is auto, tab, blanks, or one character that does not occur in numbers or quotes";
    separator.map(|separator| Delimiter(Some(separator))).ok_or_else(|| kinds.to_owned())
}

fn sign(text: &str) -> Result<u8, String> {
    let sign =
        one_byte(text).filter(|byte| byte.is_ascii() && !byte.is_ascii_alphanumeric() && !b"\n\r".contains(byte));
    sign.ok_or_else(|| "it is one character of ASCII, no letter and no digit".to_owned())
}

fn point(text: &str) -> Result<u8, String> {
    let point = one_byte(text).filter(|byte| matches!(byte, b'.' | b','));
    point.ok_or_else(|| "a decimal point is . or ,".to_owned())
}

fn comment(text: &str) -> Result<u8, String> {
    let mark = one_byte(text).filter(|byte| byte.is_ascii_punctuation() && !b"\"+-.,".contains(byte));
    mark.ok_or_else(|| "a comment begins with one character such as # or %, none that a field begins with".to_owned())
}

fn one_byte(text: &str) -> Option<u8> {
    <[u8; 1]>::try_from(text.as_bytes()).ok().map(|[byte]| byte)
}

impl From<WherePlace> for Place {
    fn from(place: WherePlace) -> Self {
        match place {
            WherePlace::Auto => Self::Auto,
            WherePlace::Host => Self::Host,
            WherePlace::Data => Self::Data,
            WherePlace::Split => Self::Split,
        }
    }
}
