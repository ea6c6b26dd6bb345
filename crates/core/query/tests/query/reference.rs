//! How the tests run the core, and what they compare it with.

use forebay_query::{
    Block, Collected, DescribedColumns, Filter, Header, Kept, OnText, Operator, PartState, Partials, Pass, QueryError,
    Quotes, Reading, Schema, State, columns_of, described_columns_of, schema_of, turns_quoting,
};

/// A query of a text.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub operators: &'a [Operator],
    pub header: Header,
    pub columns: &'a [&'a str],
    pub on_text: OnText,
    pub filter: Option<&'a str>,
    pub by: Option<usize>,
}

pub const EVERYTHING: Asked<'static> = Asked {
    operators: &Operator::ALL,
    header: Header::Auto,
    columns: &[],
    on_text: OnText::Bad,
    filter: None,
    by: None,
};

/// The schema of a text, as far as a comma separates its fields.
pub fn schema(text: &[u8], header: Header) -> Result<Schema, QueryError> {
    let comma = Reading::default().separator.or(forebay_query::Separator::new(b','));
    read_schema(text, &Reading { separator: comma, header, ..Reading::default() })
}

/// The schema of a text.
pub fn read_schema(text: &[u8], reading: &Reading) -> Result<Schema, QueryError> {
    schema_of(text, true, reading).map(|schema| schema.expect("all of it is there"))
}

/// The states of the blocks of a table, whatever its dialect, as one.
pub fn whole_as_read(text: &[u8], block_len: usize, reading: &Reading, asked: Asked<'_>) -> Result<State, QueryError> {
    let blocks = Blocks::of(text, block_len, read_schema(text, reading)?, asked)?;
    let mut partials = Partials::default();
    for (index, from) in (0..text.len()).step_by(block_len).enumerate() {
        let ends = blocks.schema.dialect.row_ends();
        let is_quoted = blocks.schema.turns_quoting != ends.turns_quoting(&text[..from]);
        partials.add(index as u64, blocks.state(from, is_quoted)).unwrap();
    }
    Ok(partials.finish(text.len().div_ceil(block_len) as u64).unwrap())
}

/// The states of a text's blocks, each with nothing but its own bytes, its row's end and what holds before it.
pub fn states(text: &[u8], block_len: usize, asked: Asked<'_>) -> Result<Vec<State>, QueryError> {
    let blocks = Blocks::new(text, block_len, asked)?;
    // Quotes before the table count for nothing.
    let state = |from: usize| blocks.state(from, blocks.schema.turns_quoting != turns_quoting(&text[..from]));
    Ok((0..text.len()).step_by(block_len).map(state).collect())
}

/// A text in blocks, each of which is parsed by itself.
pub struct Blocks<'a> {
    text: &'a [u8],
    block_len: usize,
    schema: Schema,
    columns: Vec<usize>,
    described: DescribedColumns,
    filter: Option<Filter>,
    by: Option<usize>,
    on_text: OnText,
    collected: Collected,
}

impl<'a> Blocks<'a> {
    pub fn new(text: &'a [u8], block_len: usize, asked: Asked<'_>) -> Result<Self, QueryError> {
        let schema = schema(text, asked.header)?;
        Self::of(text, block_len, schema, asked)
    }

    /// Of a table that is not written with commas alone.
    pub fn of(text: &'a [u8], block_len: usize, schema: Schema, asked: Asked<'_>) -> Result<Self, QueryError> {
        let collected = Collected::of(asked.operators);
        let names: Vec<String> = asked.columns.iter().map(|name| name.to_string()).collect();
        let columns = columns_of(&schema, &names, collected)?;
        let described = described_columns_of(&schema, &names, asked.operators)?;
        let (filter, by) = (asked.filter.map(|text| Filter::parse(text, &schema).unwrap()), asked.by);
        Ok(Self { text, block_len, schema, columns, described, filter, by, on_text: asked.on_text, collected })
    }

    /// The result of the block from `from` on, if it begins within quotes or not.
    fn state(&self, from: usize, is_quoted: bool) -> State {
        let text = self.text;
        let (ends, end) = (self.schema.dialect.row_ends(), text.len().min(from + self.block_len));
        let is_quoted_behind = is_quoted != ends.turns_quoting(&text[from..end]);
        let tail = ends.end(&text[end..], is_quoted_behind).unwrap_or(text.len() - end);
        let kept = Kept {
            described: &self.described,
            filter: self.filter.as_ref(),
            by: self.by,
            ..Kept::summed(&self.columns, self.on_text)
        };
        Pass::new(&self.schema, kept, self.collected).block(Block {
            bytes: &text[from..end + tail],
            len: end - from,
            offset: from as u64,
            is_quoted,
            follows_newline: from == 0 || text[from - 1] == b'\n',
            is_end: end + tail == text.len(),
        })
    }

    /// A part of some blocks, as a node makes one that does not know what comes before it.
    pub fn part(&self, first: usize, end: usize) -> PartState {
        let bytes = &self.text[first * self.block_len..self.text.len().min(end * self.block_len)];
        let made = |begins_quoted: bool| {
            let (mut partials, mut is_quoted) = (Partials::default(), begins_quoted);
            for block in first..end {
                let from = block * self.block_len;
                partials.add(block as u64, self.state(from, is_quoted)).unwrap();
                is_quoted ^= turns_quoting(&self.text[from..self.text.len().min(from + self.block_len)]);
            }
            partials
        };
        let quotes = Quotes::of(bytes);
        PartState { quotes, unquoted: Some(made(false)), quoted: (quotes != Quotes::None).then(|| made(true)) }
    }
}

/// The state of a text.
pub fn whole(text: &[u8], block_len: usize, asked: Asked<'_>) -> Result<State, QueryError> {
    let mut partials = Partials::default();
    let states = states(text, block_len, asked)?;
    let blocks = states.len() as u64;
    for (index, state) in states.into_iter().enumerate() {
        partials.add(index as u64, state).unwrap();
    }
    Ok(partials.finish(blocks).unwrap())
}

/// A record by the plainest reading.
#[derive(Default)]
pub struct Plain {
    pub fields: Vec<String>,
    /// As it stands, its line end included.
    pub text: String,
    /// Every quote opens a field, closes one, or is doubled.
    pub is_well_quoted: bool,
}

/// Where a reader stands in a field.
#[derive(Clone, Copy, PartialEq)]
enum At {
    /// Only blanks so far.
    Begin,
    /// Within a field without quotes.
    Bare,
    /// Within quotes.
    Quoted,
    /// Right behind a quote that may close the field, or double the next.
    Closed,
    /// Behind the field's end.
    Behind,
}

/// A text's records by the plainest reading: character by character, from the beginning, every quote turns quoting. Empty lines are
/// none.
pub fn records(text: &str) -> Vec<Plain> {
    let begin = || Plain { is_well_quoted: true, ..Plain::default() };
    let (mut records, mut record, mut field, mut at) = (vec![], begin(), String::new(), At::Begin);
    for c in text.chars() {
        record.text.push(c);
        if at != At::Quoted && (c == ',' || c == '\n') {
            let text = std::mem::take(&mut field);
            let is_end = c == '\n';
            record.fields.push(text.strip_suffix('\r').filter(|_| is_end).unwrap_or(&text).to_owned());
            if is_end {
                records.push(std::mem::replace(&mut record, begin()));
            }
            at = At::Begin;
            continue;
        }
        field.push(c);
        at = match (at, c) {
            (At::Begin | At::Closed, '"') => At::Quoted,
            (At::Quoted, '"') => At::Closed,
            (At::Quoted, _) => At::Quoted,
            (At::Bare | At::Behind, '"') => {
                record.is_well_quoted = false;
                At::Quoted
            }
            (At::Begin, c) if c.is_ascii_whitespace() => At::Begin,
            (At::Closed | At::Behind, c) if c.is_ascii_whitespace() => At::Behind,
            (At::Begin | At::Bare, _) => At::Bare,
            (At::Closed | At::Behind, _) => {
                record.is_well_quoted = false;
                At::Behind
            }
        };
    }
    if !record.text.is_empty() {
        record.is_well_quoted &= at != At::Quoted;
        record.fields.push(field.strip_suffix('\r').unwrap_or(&field).to_owned());
        records.push(record);
    }
    records.retain(|record| record.fields != [""]);
    records
}

/// The number that a field holds, NaN where it holds none; nothing for text.
pub fn number(field: &str) -> Option<f64> {
    let bare = field.trim_ascii();
    let bare = bare.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(bare).trim_ascii();
    if bare.is_empty() { Some(f64::NAN) } else { bare.parse::<f64>().ok() }
}

/// The numbers of some columns, in those of a text's records that are good rows of so many fields; and the lines and bytes of all
/// others.
pub fn good_rows(text: &str, width: usize, columns: &[usize]) -> (Vec<Vec<f64>>, u64, u64) {
    let (mut good, mut lines, mut bytes) = (vec![], 0, 0);
    for record in records(text) {
        let is_row = record.fields.len() == width && record.is_well_quoted;
        let numbers = || columns.iter().map(|column| number(&record.fields[*column])).collect();
        match is_row.then(numbers) {
            Some(Some(numbers)) => good.push(numbers),
            _ => {
                lines += record.text.matches('\n').count() as u64;
                bytes += record.text.len() as u64;
            }
        }
    }
    (good, lines, bytes)
}
