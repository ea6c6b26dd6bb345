//! Rows of doubles, as data sets are read.

use forebay_query::{
    Block, Collected, DescribedColumns, Filter, Kept, OnText, Operator, Partials, Pass, Schema, State, Words,
};
use proptest::prelude::*;

const COLUMNS: usize = 3;
const ROW_BYTES: usize = COLUMNS * size_of::<f64>();

fn row() -> impl Strategy<Value = [f64; COLUMNS]> {
    let double = prop_oneof![
        6 => -1e3..1e3,
        1 => Just(f64::NAN),
        1 => Just(-9.0),
        1 => any::<f64>(),
    ];
    [double.clone(), double.clone(), double]
}

/// The state of a table that was cut into blocks of so many bytes.
fn state(schema: &Schema, bytes: &[u8], block_len: usize, filter: Option<&Filter>) -> State {
    let collected = Collected::of(&[Operator::Stats, Operator::Gramian, Operator::Describe, Operator::Correlation]);
    let described = DescribedColumns { numbers: vec![1, 2], texts: vec![] };
    // One is there twice.
    let kept = Kept { described: &described, filter, ..Kept::summed(&[2, 0, 2], OnText::Missing) };
    let (mut pass, mut partials) = (Pass::new(schema, kept, collected), Partials::default());
    for (index, from) in (0..bytes.len()).step_by(block_len).enumerate() {
        let end = bytes.len().min(from + block_len);
        let tail = end.next_multiple_of(ROW_BYTES) - end;
        partials
            .add(
                index as u64,
                pass.block(Block {
                    bytes: &bytes[from..end + tail],
                    len: end - from,
                    offset: from as u64,
                    is_quoted: false,
                    follows_newline: false,
                    is_end: end + tail == bytes.len(),
                }),
            )
            .unwrap();
    }
    partials.finish(bytes.len().div_ceil(block_len) as u64).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Rows that nothing is asked about go column by column; those of a condition one by one.
    #[test]
    fn columns_have_the_bits_of_rows(rows in prop::collection::vec(row(), 1..700), block_len in 1..9000usize, has_word: bool) {
        let bytes: Vec<u8> = rows.iter().flatten().flat_map(|double| double.to_le_bytes()).collect();
        let words = if has_word { Words::new(&["-9".to_owned()]).unwrap() } else { Words::default() };
        let schema = Schema::of_data_sets(["a", "b", "c"].map(str::to_owned).to_vec(), words, vec![]);
        let always = Filter::parse("b is missing or b is not missing", &schema).unwrap();
        let [by_columns, by_rows] = [None, Some(&always)].map(|filter| state(&schema, &bytes, block_len, filter));
        prop_assert_eq!(format!("{by_columns:?}"), format!("{by_rows:?}"));
        let found = by_columns.rows.unwrap();
        let expected = rows.iter().filter(|row| row[0].is_nan() || has_word && row[0] == -9.0).count() as u64;
        prop_assert_eq!((found.good, found.columns[1].missing()), (rows.len() as u64, expected));
    }
}
