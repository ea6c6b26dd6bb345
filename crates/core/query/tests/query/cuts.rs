//! Bit for bit the same, however a file is cut and in whatever order its parts merge.

use forebay_query::{MergeError, Partials, State};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::reference::{EVERYTHING, states, whole};

/// A table with whatever CSV allows: quotes, newlines in quotes, both line ends, missing and bad fields.
fn text() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        8 => "-?[0-9]{1,9}\\.[0-9]{1,4}",
        1 => Just(String::new()),
        1 => Just("nan".to_owned()),
        1 => "\"[0-9]{1,3}\"",
        1 => "[0-9]e-?[0-9]{1,2}",
        1 => Just("oops".to_owned()),
    ];
    let note = prop_oneof![4 => "[a-z]{0,5}", 1 => "\"[a-z,\n\r]{0,12}\"", 1 => Just("\"say \"\"a\"\"\n\"".to_owned())];
    let end = prop_oneof![4 => Just("\n"), 1 => Just("\r\n"), 1 => Just("\n\n")];
    let row = (field.clone(), note, field, end).prop_map(|(a, b, c, end)| format!("{a},{b},{c}{end}"));
    (prop::collection::vec(row, 1..60), any::<bool>()).prop_map(|(rows, is_ended)| {
        let text = format!("x,note,y\n1,a,2\n{}", rows.concat());
        if is_ended { text } else { text.trim_end().to_owned() }
    })
}

fn bits(state: &State) -> String {
    // Every double as it is printed has all its digits.
    format!("{state:?}")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn of_one_file(text in text(), block_len in 1..200usize, nodes in 1..6usize, who in prop::collection::vec(any::<Index>(), 1..500), order in prop::collection::vec(any::<Index>(), 1..500)) {
        let blocks = states(text.as_bytes(), block_len, EVERYTHING).unwrap();
        let count = blocks.len() as u64;
        let expected = whole(text.as_bytes(), block_len, EVERYTHING).unwrap();
        // Every block goes to some node; each merges its own in the order that they come; then all merge at one.
        let mut at_nodes = vec![Partials::default(); nodes];
        let mut left: Vec<(u64, State)> = (0..).zip(blocks).collect();
        let mut turn = 0;
        while !left.is_empty() {
            let (index, state) = left.remove(order[turn % order.len()].index(left.len()));
            at_nodes[who[turn % who.len()].index(nodes)].add(index, state).unwrap();
            turn += 1;
        }
        let mut all = Partials::default();
        for partials in at_nodes.into_iter().rev() {
            all.merge(partials).unwrap();
        }
        prop_assert_eq!(all.missing(count), vec![]);
        prop_assert_eq!(bits(&all.finish(count).unwrap()), bits(&expected));
    }

    #[test]
    fn rows_and_bytes_do_not_depend_on_blocks(text in text(), block_len in 1..200usize) {
        let cut = whole(text.as_bytes(), block_len, EVERYTHING).unwrap();
        let one = whole(text.as_bytes(), text.len(), EVERYTHING).unwrap();
        prop_assert_eq!((cut.bytes, cut.lines, cut.byte_counts), (one.bytes, one.lines, one.byte_counts));
        let (cut, one) = (cut.rows.unwrap(), one.rows.unwrap());
        prop_assert_eq!((cut.good, cut.bad, cut.named), (one.good, one.bad, one.named));
        for (cut, one) in cut.columns.iter().zip(&one.columns) {
            let key = |column: &forebay_query::Column| {
                let summary = column.summary();
                (summary.count, summary.missing, summary.min.to_bits(), summary.max.to_bits())
            };
            prop_assert_eq!(key(cut), key(one));
        }
    }
}

#[test]
fn a_range_that_is_answered_twice_is_refused() {
    let mut partials = Partials::default();
    let blocks = states(b"x\n1\n2\n3\n4\n5\n", 4, EVERYTHING).unwrap();
    for (index, state) in (0..).zip(&blocks) {
        partials.add(index, state.clone()).unwrap();
    }
    assert_eq!(partials.add(1, blocks[1].clone()), Err(MergeError::Overlap(1)));
    assert_eq!(partials.merge(partials.clone()), Err(MergeError::Overlap(0)));
}
