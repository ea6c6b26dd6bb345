//! Parts of an answer before they have a form: sentences and tables.

/// A part of an answer.
pub enum Part {
    /// A sentence.
    Line(String),
    /// The result of an operator.
    Result(Sheet),
    /// A table about how the result was made.
    About(Sheet),
}

/// A table.
pub struct Sheet {
    pub head: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
    /// The same for people, where a sentence is enough; empty if it has been said.
    pub sentence: Option<String>,
}

/// A field of a table.
#[derive(Clone)]
pub enum Cell {
    Text(String),
    Count(u64),
    Number(f64),
    /// An estimate of a count.
    About(u64),
    /// A count that may be too small.
    AtLeast(u64),
}

impl Sheet {
    /// One that no sentence replaces.
    pub fn new(head: &[&str], rows: Vec<Vec<Cell>>) -> Self {
        Self { head: head.iter().map(ToString::to_string).collect(), rows, sentence: None }
    }

    /// One that a sentence replaces for people.
    pub fn said(self, sentence: String) -> Self {
        Self { sentence: Some(sentence), ..self }
    }
}
