//! What the library says to people: complaints on standard error, what they asked to be printed on standard output.
//!
//! Nothing is said twice by many ranks: callers are rank 0. A program that closed its output goes on.

use std::fmt::Display;
use std::io::Write;

/// A complaint.
pub fn complain(what: impl Display) {
    let _ = writeln!(std::io::stderr(), "forebay-mpiio: {what}");
}

/// A hint that holds, as ROMIO prints its own with `ROMIO_PRINT_HINTS`.
pub fn print_hint(key: &str, value: impl Display) {
    let _ = writeln!(std::io::stdout(), "key = {key:<25} value = {value:<10}");
}
