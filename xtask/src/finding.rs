//! The finding of a rule.

/// Something that breaks a rule, where, and what to do about it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    pub path: String,
    pub line: usize,
    pub message: String,
}

impl Finding {
    /// A finding at a line, counted from 1.
    pub fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}
