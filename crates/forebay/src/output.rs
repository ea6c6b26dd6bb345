//! A command's output: results on standard output, errors as whole chains.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Prints a line of a result, formatted.
macro_rules! say {
    ($($argument:tt)*) => { $crate::output::line(format_args!($($argument)*)) };
}

pub(crate) use say;

/// Prints a line of a result. A reader that has gone (`forebay status | head`) has what it wants: the command ends there.
pub fn line(text: impl Display) {
    if let Err(error) = writeln!(std::io::stdout(), "{text}") {
        if error.kind() != ErrorKind::BrokenPipe {
            eprintln!("forebay: cannot write to standard output: {error}");
        }
        std::process::exit(1);
    }
}

/// An error and its causes, outermost first, without those whose text the one before has already.
pub fn causes(error: &anyhow::Error) -> Vec<String> {
    let mut causes: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if causes.last().is_none_or(|last| !last.contains(&cause)) {
            causes.push(cause);
        }
    }
    causes
}

/// A message that may have control characters of a file's or a column's name: they would direct a terminal. Lines stay lines.
pub fn without_controls(message: &str) -> String {
    escaped(message, |c| c.is_control() && c != '\n' && c != '\t')
}

/// A path in a result, whose name may have control characters.
pub fn shown_path(path: &Path) -> String {
    escaped(&path.display().to_string(), char::is_control)
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    text.chars().map(|c| if is_escaped(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn controls_do_not_reach_a_terminal() {
        assert_eq!(without_controls("a\x1b[2J\r\u{9b}\n\t\u{e4}"), "a\\u{1b}[2J\\r\\u{9b}\n\t\u{e4}");
        assert_eq!(shown_path(Path::new("a\n\x07")), "a\\n\\u{7}");
    }

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow!("no such file").context("cannot open x: no such file").context("cannot start");
        assert_eq!(causes(&error), ["cannot start", "cannot open x: no such file"]);
    }
}
