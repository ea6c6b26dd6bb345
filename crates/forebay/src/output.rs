//! A command's output: results on standard output, errors as whole chains.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write};
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
    raw(&format!("{}\n", shown_line(&text.to_string())));
}

/// Prints a result for programs as it is; only a terminal gets no control characters.
pub fn exactly(text: &str) {
    if std::io::stdout().is_terminal() { raw(&without_controls(text)) } else { raw(text) }
}

/// JSON leaves some controls as they are; its own way to write them keeps it JSON.
fn shown_line(text: &str) -> String {
    match text.starts_with(['{', '[']) {
        true => escaped(text, is_kept_out, |c| format!("\\u{:04x}", u32::from(c))),
        false => without_controls(text),
    }
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
    escaped(message, is_kept_out, |c| c.escape_default().to_string())
}

fn is_kept_out(c: char) -> bool {
    directs(c) && c != '\n' && c != '\t'
}

/// A text that is one line, whatever names it has.
pub fn in_one_line(text: &str) -> String {
    escaped(text, directs, |c| c.escape_default().to_string())
}

/// Whether a terminal shows no letter for it, but others than would be there: controls, and those of the order in which letters are shown
/// (`Bidi_Control` of Unicode, UAX #9), which turn a name around.
fn directs(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
        () if text.chars().any(directs) => {
            let escaped = |c: char| match c {
                '\\' | '\'' => format!("\\{c}"),
                c if directs(c) => c.to_string().bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
                c => c.to_string(),
            };
            format!("$'{}'", text.chars().map(escaped).collect::<String>())
        }
        () => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool, escape: impl Fn(char) -> String) -> String {
    text.chars().map(|c| if is_escaped(c) { escape(c) } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn controls_do_not_reach_a_terminal() {
        assert_eq!(without_controls("a\x1b[2J\r\u{9b}\n\t\u{e4}"), "a\\u{1b}[2J\\r\\u{9b}\n\t\u{e4}");
        let json = serde_json::json!({"path": "\u{7f}\u{9b}\u{202e}\x1b\n"});
        let shown = shown_line(&json.to_string());
        assert!(!shown.contains(directs), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), json);
        assert_eq!(shown_path(Path::new("a\n\x07")), "a\\n\\u{7}");
        assert_eq!(
            shown_path(Path::new("\u{202e}a\u{2066}\u{200f}\u{61c}\u{5d0}")),
            "\\u{202e}a\\u{2066}\\u{200f}\\u{61c}\u{5d0}"
        );
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        for (path, shown) in [
            ("/a/b-1.npz", "/a/b-1.npz"),
            ("/a b/$x", "'/a b/$x'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("a\x1b[2J\n'\\", r"$'a\x1b[2J\x0a\'\\'"),
            ("a\u{202e}b", r"$'a\xe2\x80\xaeb'"),
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
