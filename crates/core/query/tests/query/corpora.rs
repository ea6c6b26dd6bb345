//! The corpus of the fuzz target `query_part`, answered as that does: what fuzzing once found is checked by every test run,
//! without the toolchain that fuzzing needs.
#![allow(clippy::disallowed_methods, reason = "the crate touches no files; its corpus is some")]

use std::fs;

use forebay_query::exercise::{LARGE_BYTES, answer_part};
use forebay_query::limits::BLOCK_BYTES;
use forebay_query::{ByteCounts, Gramian, OnText, Operator, PartState, Partials, Quotes, Rows, State};
use serde_json::{Value, json};

use crate::reference::{Asked, Blocks, EVERYTHING};

const CORPUS: &str = "../../../fuzz/corpus/query_part";

/// Each file and its name, in an order.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let paths = fs::read_dir(CORPUS).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> =
        paths.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn an_answer_counts_if_it_can_be_one() {
    let answers = |kind: &'static str| corpus().into_iter().filter(move |(name, _)| name.starts_with(kind));
    for (name, bytes) in answers("answer-") {
        assert_eq!(answer_part(&bytes), 1, "{name} answers one query over one file");
    }
    for (name, bytes) in answers("lying-") {
        assert_eq!(answer_part(&bytes), 0, "{name}");
    }
    assert_eq!(answers("answer-").count() + answers("lying-").count(), corpus().len());
    assert!(answers("answer-").count() >= 6, "one for each query");
}

/// Cut short or with a bit changed at any place, nothing panics.
#[test]
fn seeds_cut_and_changed() {
    for (_, seed) in corpus() {
        for at in 0..seed.len() {
            let mut changed = seed.clone();
            changed[at] ^= 1 << (at % 8);
            let _ = (answer_part(&seed[..at]), answer_part(&changed));
        }
    }
}

/// A part as a node makes it of a text of two columns, with words, texts, missing fields and a bad row.
fn small(operators: &[Operator]) -> PartState {
    let text = b"1,2\n3,4\nNA,5\nx,6\n,7\n8,9,10\n\"11\",12.5\n";
    let asked = Asked { operators, on_text: OnText::Missing, ..EVERYTHING };
    Blocks::new(text, text.len(), asked).unwrap().part(0, 1)
}

/// The same of a column of numbers and one of text.
fn described(operators: &[Operator], by: Option<usize>) -> PartState {
    let text = b"x,word\n1,a\n3,b\nNA,a\n,c\n8,9,10\n\"11\",\n";
    let columns: &[&str] = if by.is_some() { &["x", "x"] } else { &[] };
    let asked = Asked { operators, on_text: OnText::Missing, by, columns, ..EVERYTHING };
    Blocks::new(text, text.len(), asked).unwrap().part(0, 1)
}

/// The first part of a file of `LARGE_BYTES`, in which no row begins.
fn large(like: &State) -> PartState {
    let mut partials = Partials::default();
    let blocks = LARGE_BYTES.div_ceil(BLOCK_BYTES).min(8);
    for block in 0..blocks {
        let mut state = State { bytes: BLOCK_BYTES, ..like.clone() };
        if let Some(counts) = &mut state.byte_counts {
            counts.add_many(0, BLOCK_BYTES);
        }
        partials.add(block, state).unwrap();
    }
    PartState { quotes: Quotes::None, unquoted: Some(partials), quoted: None }
}

/// Lies about a small answer to everything: the place in it, and what stands there instead.
fn lies() -> Vec<(&'static str, &'static str, Value)> {
    let long = "x".repeat(1000);
    vec![
        ("lines", "lines", json!(1000)),
        ("byte-counts", "byte_counts/0", json!(5)),
        ("rows", "rows/good", json!(100_000)),
        ("bad", "rows/bad", json!(100_000)),
        ("named", "rows/bad", json!(0)),
        ("named-line", "rows/named/0/lines_before", json!(1000)),
        ("named-bytes", "rows/named/0/bytes", json!(1u64 << 40)),
        ("named-covers", "rows/named/0/lines", json!(1000)),
        ("named-text", "rows/named/0/fault", json!({"Text": {"column": 0, "text": long}})),
        ("column", "rows/columns/0/missing", json!(0)),
        ("scale", "rows/columns/0/finite/scale", json!(9)),
        ("gramian", "rows/gramian/columns", json!(3)),
        ("gramian-rows", "rows/gramian/rows", json!(1000)),
        ("kept-bytes", "rows/kept_bytes", json!(1u64 << 60)),
        ("kept-lines", "rows/kept_lines", json!(1000)),
        ("words", "rows/texts/0/words", json!(100)),
        ("texts", "rows/texts", json!([])),
        ("first-text", "rows/texts/0/first", json!(null)),
        ("first-text-line", "rows/texts/0/first/lines_before", json!(1000)),
        ("first-text-long", "rows/texts/0/first/text", json!("y".repeat(1000))),
    ]
}

/// Lies about a small description.
fn described_lies() -> Vec<(&'static str, &'static str, Value)> {
    let number = |place| format!("rows/described/numbers/0/{place}").leak() as &'static str;
    let text = |place| format!("rows/described/texts/0/{place}").leak() as &'static str;
    vec![
        ("filtered", "rows/filtered", json!(100_000)),
        ("described-none", "rows/described/numbers", json!([])),
        ("described-count", number("column/finite/count"), json!(100)),
        ("described-texts", number("texts/words"), json!(100)),
        ("values-shift", number("values/shift"), json!(70)),
        ("values-limit", number("values/limit"), json!(1 << 30)),
        ("values-ranges", number("values/ranges"), json!([[u64::MAX, 3]])),
        ("values-count", number("values/ranges/0/1"), json!(u64::MAX)),
        ("shape", number("shape/count"), json!(100)),
        ("bins-count", number("bins/counts/0"), json!(100)),
        ("bins-first", number("bins/first"), json!(i64::MIN)),
        ("bins-exponent", number("bins/exponent"), json!(5000)),
        ("bins-max", number("bins/max"), json!(1e300)),
        ("text-count", text("count"), json!(100)),
        ("text-dates", text("dates"), json!(100)),
        ("text-extremes", text("extremes"), json!(null)),
        ("text-long", text("extremes/0"), json!(vec![65u8; 1000])),
        ("text-taken-off", text("frequent/taken_off"), json!(1)),
        ("text-registers", text("frequent/registers"), json!([1, 2, 3])),
    ]
}

/// The answer with another value at a place of its only run.
fn lying(answer: &PartState, place: &str, value: Value) -> Vec<u8> {
    let mut told = serde_json::to_value(answer).unwrap();
    let pointer = format!("/unquoted/runs/0/state/{place}");
    *told.pointer_mut(&pointer).unwrap_or_else(|| panic!("{pointer} is not in it")) = value;
    serde_json::from_value::<PartState>(told).unwrap().encode()
}

/// Writes the corpus anew, after the format of states has changed.
#[test]
#[ignore = "writes files: cargo test -p forebay-query --test query the_corpus_is_written -- --ignored"]
fn the_corpus_is_written() {
    let write = |name: &str, bytes: &[u8]| fs::write(format!("{CORPUS}/{name}"), bytes).unwrap();
    let rows = |gramian: bool| Rows { gramian: gramian.then(|| Gramian::new(2)), ..Rows::of(2) };
    use Operator::{CountLines, Entropy, Gramian as Products, Stats};
    let queries: [(&str, &[Operator], Option<bool>); 6] = [
        ("lines", &[CountLines], None),
        ("bytes", &[Entropy], None),
        ("stats", &[Stats], Some(false)),
        ("stats-bytes", &[Stats, Entropy], Some(false)),
        ("gramian", &[Products], Some(true)),
        ("all", &[Stats, Products, Entropy], Some(true)),
    ];
    for (name, operators, products) in queries {
        let byte_counts = operators.contains(&Entropy).then(ByteCounts::default);
        write(&format!("answer-small-{name}"), &small(operators).encode());
        let like = State { byte_counts, rows: products.map(rows), ..State::default() };
        write(&format!("answer-large-{name}"), &large(&like).encode());
    }
    let answer = small(&[Stats, Products, Entropy]);
    write("answer-small-covariance", &small(&[Operator::Covariance]).encode());
    write("answer-small-described", &described(&[Operator::Describe], None).encode());
    write("answer-small-groups", &described(&[Stats], Some(1)).encode());
    for (name, place, value) in described_lies() {
        write(&format!("lying-{name}"), &lying(&described(&[Operator::Describe], None), place, value));
    }
    for (name, place, value) in lies() {
        write(&format!("lying-{name}"), &lying(&answer, place, value));
    }
    let run = |first: u64, level: u8| {
        let mut told = serde_json::to_value(&answer).unwrap();
        let runs = told.pointer_mut("/unquoted/runs").unwrap();
        let mut run = runs["0"].take();
        run["level"] = json!(level);
        *runs = json!({ first.to_string(): run });
        serde_json::from_value::<PartState>(told).unwrap().encode()
    };
    write("lying-level", &run(0, 60));
    write("lying-block", &run(7, 0));
    write("lying-alignment", &run(1, 1));
    let of_one_column = Rows { gramian: Some(Gramian::new(1)), ..Rows::of(1) };
    let like = State { byte_counts: Some(ByteCounts::default()), rows: Some(of_one_column), ..State::default() };
    write("lying-columns", &large(&like).encode());
    write("lying-empty", &PartState { quotes: Quotes::None, unquoted: None, quoted: None }.encode());
    write("lying-nothing", &[]);
    write("lying-rest", &[answer.encode(), vec![0]].concat());
}
