//! What a command says: results on standard output, errors as whole chains.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

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

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow!("no such file").context("cannot open x: no such file").context("cannot start");
        assert_eq!(causes(&error), ["cannot start", "cannot open x: no such file"]);
    }
}
