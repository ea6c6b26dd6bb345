//! Measures of the code that are held to a limit.

use std::collections::BTreeMap;

/// An amount, where what is measured begins, and what to do when it is too much.
#[derive(Clone, Default)]
pub struct Measured {
    pub amount: usize,
    pub line: usize,
    pub advice: String,
}

/// Amounts by path, or by path and name: `path::name`.
pub type Measures = BTreeMap<String, Measured>;
