//! How the tests run the core, and what they compare it with.

use forebay_query::{
    Block, Collected, Dialect, Header, Operator, Partials, Pass, Probe, QueryError, Schema, State, columns_of,
    record_end, turns_quoting,
};

/// What is asked of a text.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub operators: &'a [Operator],
    pub header: Header,
    pub columns: &'a [&'a str],
}

pub const EVERYTHING: Asked<'static> = Asked { operators: &Operator::ALL, header: Header::Auto, columns: &[] };

/// The schema of a text, fed in windows that grow.
pub fn schema(text: &[u8], header: Header) -> Result<Schema, QueryError> {
    let mut probe = Probe::new(Dialect::new(b',').unwrap(), header);
    let mut window = 1;
    loop {
        let from = probe.offset() as usize;
        let to = text.len().min(from + window);
        if probe.feed(&text[from..to], to == text.len())? {
            return probe.finish().ok_or(QueryError::Empty);
        }
        window *= 2;
    }
}

/// The states of a text's blocks, each with nothing but its own bytes, its row's end and what holds before it.
pub fn states(text: &[u8], block_len: usize, asked: Asked<'_>) -> Result<Vec<State>, QueryError> {
    let schema = schema(text, asked.header)?;
    let collected = Collected::of(asked.operators);
    let names: Vec<String> = asked.columns.iter().map(|name| name.to_string()).collect();
    let columns = columns_of(&schema, &names, collected)?;
    let state = |from: usize| {
        let end = text.len().min(from + block_len);
        let is_quoted = turns_quoting(&text[..from]);
        let tail = record_end(&text[end..], turns_quoting(&text[..end])).unwrap_or(text.len() - end);
        Pass::new(schema.clone(), &columns, collected).block(Block {
            bytes: &text[from..end + tail],
            len: end - from,
            offset: from as u64,
            is_quoted,
            follows_newline: from == 0 || text[from - 1] == b'\n',
            is_end: end + tail == text.len(),
        })
    };
    Ok((0..text.len()).step_by(block_len).map(state).collect())
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

/// A text's records by the plainest reading: character by character, every quote turns quoting.
pub fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field) = (vec![], vec![], String::new());
    let mut is_quoted = false;
    let mut end = |record: &mut Vec<String>, field: &mut String| {
        let last = std::mem::take(field);
        record.push(last.strip_suffix('\r').unwrap_or(&last).to_owned());
        let record = std::mem::take(record);
        if record != [""] {
            records.push(record);
        }
    };
    for c in text.chars() {
        match c {
            '\n' if !is_quoted => end(&mut record, &mut field),
            ',' if !is_quoted => record.push(std::mem::take(&mut field)),
            c => {
                is_quoted ^= c == '"';
                field.push(c);
            }
        }
    }
    if !text.is_empty() && !text.ends_with('\n') || is_quoted {
        end(&mut record, &mut field);
    }
    records
}
