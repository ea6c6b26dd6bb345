//! Bit for bit the same, however a file is cut and in whatever order its parts merge.

use forebay_query::{Header, MergeError, Operator, Partials, Rows, State};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::reference::{Asked, Blocks, EVERYTHING, good_rows, records, schema, states, whole};

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
    fn of_rows_that_a_filter_leaves_in_groups(text in text(), block_len in 1..200usize) {
        let operators = &[Operator::Stats, Operator::Describe];
        let asked = Asked { operators, filter: Some("x > 1000 or note = 'a' or y is missing"), by: Some(1), ..EVERYTHING };
        let cut = whole(text.as_bytes(), block_len, asked).unwrap().rows.unwrap();
        let one = whole(text.as_bytes(), text.len(), asked).unwrap().rows.unwrap();
        prop_assert_eq!((cut.good, cut.bad, cut.filtered), (one.good, one.bad, one.filtered));
        let all = whole(text.as_bytes(), block_len, EVERYTHING).unwrap().rows.unwrap();
        prop_assert!(cut.good <= all.good && cut.filtered <= all.good + all.bad);
        prop_assert_eq!(cut.good + cut.bad + cut.filtered, all.good + all.bad);
        let large = Asked { operators, filter: Some("x > 1000"), ..EVERYTHING };
        let large = whole(text.as_bytes(), block_len, large).unwrap().rows.unwrap();
        let summary = large.columns[0].summary();
        prop_assert!(summary.count == 0 || (summary.min > 1000.0 && summary.missing == 0), "{:?}", summary);
        prop_assert_eq!(summary.count, large.good);
        let groups = |rows: &Rows| {
            let groups = rows.groups.as_ref().unwrap().groups().unwrap();
            groups.into_iter().map(|(key, group)| (key, group.rows, group.columns[0].missing())).collect::<Vec<_>>()
        };
        prop_assert_eq!(groups(&cut), groups(&one));
        for (cut, one) in cut.described.numbers.iter().zip(&one.described.numbers) {
            // They depend on the values alone.
            prop_assert_eq!((&cut.values, &cut.bins), (&one.values, &one.bins));
        }
        for (cut, one) in cut.described.texts.iter().zip(&one.described.texts) {
            prop_assert_eq!((cut.count(), cut.extremes(), cut.distinct()), (one.count(), one.extremes(), one.distinct()));
        }
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

/// A table in which quotes stand anywhere.
fn stray_quotes() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        6 => "-?[0-9]{1,3}(\\.[0-9]{1,3})?",
        2 => "\"[0-9]{1,2}\"",
        1 => "\"([0-9,\n]|\"\"){0,5}\"",
        1 => "[0-9 x\"]{0,4}",
        1 => Just("\"".to_owned()),
    ];
    let end = prop_oneof![6 => Just("\n"), 1 => Just("\r\n"), 1 => Just("\n\n"), 1 => Just(",\n"), 1 => Just("")];
    let note = prop_oneof![3 => "[a-z]{0,3}", 2 => "\"([a-z,\n]|\"\"){0,6}\"", 2 => "[a-z \"]{0,5}"];
    let row = (field.clone(), note, field, end).prop_map(|(a, note, b, end)| format!("{a},{note},{b}{end}"));
    prop::collection::vec(row, 0..40).prop_map(|rows| format!("1,n,2\n{}", rows.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// Any node may make any part, and not know how it begins: the rows are those of a reader that goes from the beginning to the
    /// end, and the bits those of one node.
    #[test]
    fn stray_quotes_mean_the_same_in_any_cut(text in stray_quotes(), block_len in 1..60usize, parts in prop::collection::vec(1..6usize, 1..20)) {
        let asked = Asked { header: Header::No, columns: &["1", "3"], ..EVERYTHING };
        let bytes = text.as_bytes();
        let blocks = Blocks::new(bytes, block_len, asked).unwrap();
        let count = bytes.len().div_ceil(block_len);
        let (mut all, mut first, mut is_quoted) = (Partials::default(), 0, false);
        for len in parts.iter().cycle() {
            let end = count.min(first + len);
            let part = blocks.part(first, end);
            let turns = part.quotes.turn();
            all.merge(part.chosen(is_quoted).unwrap()).unwrap();
            (first, is_quoted) = (end, is_quoted != turns);
            if first == count {
                break;
            }
        }
        let state = all.finish(count as u64).unwrap();
        prop_assert_eq!(bits(&state), bits(&whole(bytes, block_len, asked).unwrap()));
        let (good, bad_lines, bad_bytes) = good_rows(&text, 3, &[0, 2]);
        let schema = schema(bytes, Header::No).unwrap();
        prop_assert_eq!(state.bad_extent(&schema), (bad_lines, bad_bytes));
        let rows = state.rows.unwrap();
        prop_assert_eq!((rows.good, rows.good + rows.bad), (good.len() as u64, records(&text).len() as u64));
        let named: Vec<_> = records(&text)
            .iter()
            .filter(|record| good_rows(&record.text, 3, &[0, 2]).0.is_empty())
            .map(|record| record.text.len() as u64)
            .collect();
        prop_assert!(rows.named.iter().map(|row| row.bytes).eq(named.into_iter().take(8)), "{:?}", rows.named);
        for column in 0..2 {
            let values = || good.iter().map(|row| row[column]).filter(|value| !value.is_nan());
            let summary = rows.columns[column].summary();
            prop_assert_eq!(summary.count, values().count() as u64);
            prop_assert!(summary.count == 0 || (summary.sum - values().sum::<f64>()).abs() < 1e-6);
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
