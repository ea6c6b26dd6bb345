//! A command's output: results on standard output, errors as whole chains.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Prints a line of a result, formatted.
macro_rules! say {
    ($($argument:tt)*) => { $crate::output::line(format_args!($($argument)*)) };
}

pub(crate) use say;

/// Prints a message on standard error, formatted.
macro_rules! tell {
    ($($argument:tt)*) => { eprintln!("{}", $crate::output::without_controls(&format!($($argument)*))) };
}

pub(crate) use tell;

/// Prints a line of a result, whatever names it has. A reader that has gone (`forebay status | head`) has what it wants: the command ends there.
pub fn line(text: impl Display) {
    raw(&format!("{}\n", without_controls(&text.to_string())));
}

/// Empties a terminal, and begins at its upper left.
pub fn clear_terminal() {
    raw("\x1b[H\x1b[2J\x1b[3J");
}

fn raw(text: &str) {
    let written = std::io::stdout().write_all(text.as_bytes());
    if let Err(error) = written {
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

/// A text that is one line, whatever names it has.
pub fn in_one_line(text: &str) -> String {
    escaped(text, char::is_control)
}

/// A path in a result, whose name may have control characters.
pub fn shown_path(path: &Path) -> String {
    in_one_line(&path.display().to_string())
}

/// A path in a command that the message has people type: a shell takes it as it is.
pub fn quoted_path(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
    match () {
        () if !text.is_empty() && text.chars().all(is_plain) => text,
        () if text.chars().any(char::is_control) => {
            let escaped = |c: char| match c {
                '\\' | '\'' => format!("\\{c}"),
                c if c.is_control() => c.to_string().bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
                c => c.to_string(),
            };
            format!("$'{}'", text.chars().map(escaped).collect::<String>())
        }
        () => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Controls that JSON leaves as they are become what JSON has for them, so that it stays JSON.
fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let escape = |c: char| match c {
        c if !is_escaped(c) => c.to_string(),
        '\u{7f}'.. => format!("\\u{:04x}", u32::from(c)),
        c => c.escape_default().to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn controls_do_not_reach_a_terminal() {
        assert_eq!(without_controls("a\x1b[2J\r\u{9b}\n\t\u{e4}"), "a\\u{1b}[2J\\r\\u009b\n\t\u{e4}");
        let json = serde_json::json!({"path": "\u{7f}\u{9b}\x1b\n"});
        assert_eq!(serde_json::from_str::<serde_json::Value>(&without_controls(&json.to_string())).unwrap(), json);
        assert_eq!(shown_path(Path::new("a\n\x07")), "a\\n\\u{7}");
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        for (path, shown) in [
            ("/a/b-1.npz", "/a/b-1.npz"),
            ("/a b/$x", "'/a b/$x'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("a\x1b[2J\n'\\", r"$'a\x1b[2J\x0a\'\\'"),
        ] {
            assert_eq!(quoted_path(Path::new(path)), shown);
            let mut shell = std::process::Command::new("bash");
            let echoed = shell.args(["-c", &format!("printf %s {shown}")]).output().unwrap();
            assert_eq!(String::from_utf8(echoed.stdout).unwrap(), path);
        }
    }

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow!("no such file").context("cannot open x: no such file").context("cannot start");
        assert_eq!(causes(&error), ["cannot start", "cannot open x: no such file"]);
    }
}
