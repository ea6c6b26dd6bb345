//! The text of a condition, taken apart.

use crate::dialect::{Dialect, Field};
use crate::filter::steps::{Relation, Step, Value};
use crate::limits::FILTER_STEPS_MAX;
use crate::schema::Schema;
use crate::selection::column_of;

/// Conditions within conditions: as deep as a person writes.
const DEPTH_MAX: usize = 32;

/// A text that is no condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// Something else stands there.
    #[error("{expected} is expected {place}")]
    Expected {
        /// As it should be.
        expected: &'static str,
        /// Where.
        place: String,
    },
    /// A quote without another.
    #[error("a quote is never closed: {0}")]
    OpenQuote(String),
    /// A name that no column has.
    #[error("{0}")]
    Column(String),
    /// A text that no field equals.
    #[error(
        "'{0}' stands for a missing value, which equals nothing: write COLUMN is missing; other words for it are named by --missing, as in --missing -"
    )]
    Missing(String),
    /// It is too long.
    #[error("it has more than {FILTER_STEPS_MAX} steps, or is more than {DEPTH_MAX} deep")]
    TooLong,
}

/// A word of a condition.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    /// In double quotes.
    Name(String),
    /// In single quotes.
    Text(String),
    /// `<`, `(` and others.
    Sign(&'static str),
}

const SIGNS: [&str; 11] = ["<=", ">=", "<>", "!=", "==", "<", ">", "=", "(", ")", ","];

pub struct Parser<'a> {
    rest: &'a str,
    schema: &'a Schema,
    steps: Vec<Step>,
    depth: usize,
}

type Parsed<T> = Result<T, FilterError>;

impl<'a> Parser<'a> {
    pub fn new(text: &'a str, schema: &'a Schema) -> Self {
        Self { rest: text.trim(), schema, steps: vec![], depth: 0 }
    }

    /// All steps.
    pub fn whole(mut self) -> Parsed<Vec<Step>> {
        self.any()?;
        match self.rest.is_empty() {
            true => Ok(self.steps),
            false => Err(self.expected("and, or, or the end")),
        }
    }

    fn any(&mut self) -> Parsed<()> {
        self.all()?;
        while self.takes_word("or")? {
            self.all()?;
            self.push(Step::Or)?;
        }
        Ok(())
    }

    fn all(&mut self) -> Parsed<()> {
        self.one()?;
        while self.takes_word("and")? {
            self.one()?;
            self.push(Step::And)?;
        }
        Ok(())
    }

    fn one(&mut self) -> Parsed<()> {
        let mut is_not = false;
        while self.takes_word("not")? {
            is_not = !is_not;
        }
        if self.takes_sign("(")? {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err(FilterError::TooLong);
            }
            self.any()?;
            if !self.takes_sign(")")? {
                return Err(self.expected("a )"));
            }
            self.depth -= 1;
        } else {
            self.comparison()?;
        }
        if is_not { self.push(Step::Not) } else { Ok(()) }
    }

    fn comparison(&mut self) -> Parsed<()> {
        let column = self.column()?;
        if self.takes_word("is")? {
            let is_not = self.takes_word("not")?;
            if !self.takes_word("missing")? && !self.takes_word("null")? {
                return Err(self.expected("missing"));
            }
            self.push(Step::IsMissing(column))?;
            return if is_not { self.push(Step::Not) } else { Ok(()) };
        }
        let is_not = self.takes_word("not")?;
        if self.takes_word("in")? {
            let values = self.values()?;
            self.push(Step::In(column, values))?;
            return if is_not { self.push(Step::Not) } else { Ok(()) };
        }
        let relation = if is_not { None } else { self.relation()? };
        let Some(relation) = relation else {
            return Err(self.expected("a comparison (= != < <= > >=, is missing, in)"));
        };
        let value = self.value()?;
        self.push(Step::Compare(column, relation, value))
    }

    fn relation(&mut self) -> Parsed<Option<Relation>> {
        let relations = [
            ("<=", Relation::AtMost),
            (">=", Relation::AtLeast),
            ("<>", Relation::NotEqual),
            ("!=", Relation::NotEqual),
            ("==", Relation::Equal),
            ("=", Relation::Equal),
            ("<", Relation::Less),
            (">", Relation::Greater),
        ];
        for (sign, relation) in relations {
            if self.takes_sign(sign)? {
                return Ok(Some(relation));
            }
        }
        Ok(None)
    }

    fn values(&mut self) -> Parsed<Vec<Value>> {
        if !self.takes_sign("(")? {
            return Err(self.expected("a ("));
        }
        let mut values = vec![self.value()?];
        while self.takes_sign(",")? {
            values.push(self.value()?);
            if values.len() > FILTER_STEPS_MAX {
                return Err(FilterError::TooLong);
            }
        }
        if self.takes_sign(")")? { Ok(values) } else { Err(self.expected("a , or a )")) }
    }

    fn value(&mut self) -> Parsed<Value> {
        let before = self.rest;
        let value = match self.token()? {
            Some(Token::Text(text)) => Some(self.quoted_value(text)?),
            // A number too large for a double is no infinity.
            Some(Token::Word(word)) => {
                let is_told = |number: &f64| {
                    number.is_finite()
                        || (number.is_infinite() && !word.contains(|letter: char| letter.is_ascii_digit()))
                };
                word.parse().ok().filter(is_told).map(Value::Number)
            }
            _ => None,
        };
        value.ok_or_else(|| {
            self.rest = before;
            self.expected("a number, or a text in quotes ('north'),")
        })
    }

    /// Whether fields are numbers is theirs to say: a column may have both.
    fn quoted_value(&self, text: String) -> Parsed<Value> {
        let of_text = Dialect { missing: self.schema.dialect.missing.clone(), ..Dialect::default() };
        let dialect = if self.schema.is_of_doubles() { &of_text } else { &self.schema.dialect };
        match dialect.field(text.as_bytes()) {
            Field::Number(number) => Ok(Value::Either(number, text)),
            Field::Missing | Field::Word(_) => Err(FilterError::Missing(text)),
            Field::Text => Ok(Value::Text(text)),
        }
    }

    fn column(&mut self) -> Parsed<u16> {
        let before = self.rest;
        match self.token()? {
            Some(Token::Word(name) | Token::Name(name)) => {
                let column = column_of(self.schema, &name);
                // A schema has `FIELDS_MAX` fields at most.
                column.map(|column| column as u16).map_err(|error| FilterError::Column(error.to_string()))
            }
            _ => {
                self.rest = before;
                Err(self.expected("a column"))
            }
        }
    }

    fn push(&mut self, step: Step) -> Parsed<()> {
        self.steps.push(step);
        if self.steps.len() > FILTER_STEPS_MAX { Err(FilterError::TooLong) } else { Ok(()) }
    }

    fn takes_word(&mut self, word: &str) -> Parsed<bool> {
        self.takes(|token| matches!(token, Token::Word(here) if here.eq_ignore_ascii_case(word)))
    }

    fn takes_sign(&mut self, sign: &str) -> Parsed<bool> {
        self.takes(|token| matches!(token, Token::Sign(here) if *here == sign))
    }

    fn takes(&mut self, is_it: impl Fn(&Token) -> bool) -> Parsed<bool> {
        let before = self.rest;
        let token = self.token()?;
        let is_taken = token.is_some_and(|token| is_it(&token));
        if !is_taken {
            self.rest = before;
        }
        Ok(is_taken)
    }

    /// The next word, which is taken.
    fn token(&mut self) -> Parsed<Option<Token>> {
        let text = self.rest.trim_start();
        let Some(first) = text.chars().next() else { return Ok(None) };
        if matches!(first, '"' | '\'') {
            let (inner, len) = quoted(text, first).ok_or_else(|| FilterError::OpenQuote(shown(text)))?;
            self.rest = &text[len..];
            return Ok(Some(if first == '"' { Token::Name(inner) } else { Token::Text(inner) }));
        }
        if let Some(sign) = SIGNS.into_iter().find(|sign| text.starts_with(sign)) {
            self.rest = &text[sign.len()..];
            return Ok(Some(Token::Sign(sign)));
        }
        let ends = |letter: char| letter.is_whitespace() || "<>=!(),'\"".contains(letter);
        let len = text.char_indices().skip(1).find(|(_, letter)| ends(*letter)).map_or(text.len(), |(at, _)| at);
        self.rest = &text[len..];
        Ok(Some(Token::Word(text[..len].to_owned())))
    }

    fn expected(&self, expected: &'static str) -> FilterError {
        let rest = self.rest.trim_start();
        let place = if rest.is_empty() { "at its end".to_owned() } else { format!("at {}", shown(rest)) };
        FilterError::Expected { expected, place }
    }
}

/// The text between two quotes at the beginning, in which two stand for one, and the length with both.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut inner = String::new();
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if letter != quote {
            inner.push(letter);
        } else if letters.next_if(|(_, next)| *next == quote).is_some() {
            inner.push(quote);
        } else {
            return Some((inner, at + 1));
        }
    }
    None
}

/// The beginning of a text, for a message.
fn shown(text: &str) -> String {
    /// As much as a line has room for.
    const LETTERS_MAX: usize = 30;
    let beginning: String = text.chars().take(LETTERS_MAX).collect();
    format!("{beginning:?}")
}
