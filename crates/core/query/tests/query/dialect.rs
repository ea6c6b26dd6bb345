//! Rows, numbers, missing fields and bad rows; against a plain reading of the same text.

use forebay_query::limits::FIELDS_MAX;
use forebay_query::{Fault, Header, Operator, QueryError, Rows};
use proptest::prelude::*;

use crate::reference::{Asked, EVERYTHING, good_rows, records, schema, whole};

fn rows(text: &str) -> Rows {
    let all = whole(text.as_bytes(), text.len(), EVERYTHING).unwrap().rows.unwrap();
    // Whatever the blocks, the rows are the same.
    for block_len in [1, 2, 7] {
        let cut = whole(text.as_bytes(), block_len, EVERYTHING).unwrap().rows.unwrap();
        assert_eq!((cut.good, cut.bad, &cut.named), (all.good, all.bad, &all.named), "{text:?} by {block_len}");
    }
    all
}

fn sums(text: &str) -> Vec<(u64, u64, f64)> {
    let rows = rows(text);
    let left_out = rows.not_numeric();
    let numeric = rows.columns.iter().enumerate().filter(|(place, _)| !left_out.contains(place));
    let summaries = numeric.map(|(_, column)| column.summary());
    summaries.map(|summary| (summary.count, summary.missing, summary.sum)).collect()
}

#[test]
fn the_same_table_in_every_dialect() {
    for text in [
        "a,b,c\n1,x,2\n3,y,4\n",
        "a,b,c\n1,x,2\n3,y,4",
        "a,b,c\r\n1,x,2\r\n3,y,4\r\n",
        "a,b,c\n\n1,x,2\n\r\n3,y,4\n\n",
        "\u{feff}a,b,c\n1,x,2\n3,y,4\n",
        "\"a\",b,\"c\"\n\"1\",\"x\",2\n3,\"y\",\"4\"",
        "a,b,c\n1,\"x,\ny\"\"\",2\n3,\"\n\n\",4\n",
        "1,x,2\n3,y,4\n",
        "\u{feff}1,x,2\n3,y,4\n",
        " a, b, c\n 1 , x, 2.0\n3.0,y , 4e0\n",
        "a,b,c\n1,,2\n3,,4\n",
    ] {
        assert_eq!(sums(text), [(2, 0, 4.0), (2, 0, 6.0)], "{text:?}");
    }
}

#[test]
fn headers() {
    let names = |text: &str, header| schema(text.as_bytes(), header).unwrap().names;
    assert_eq!(names("a,\"b \"\"c\"\"\",\n1,2,3\n", Header::Auto), ["a", "b \"c\"", "3"]);
    assert_eq!(names("a,1\n", Header::Auto), ["1", "2"], "a number is no name");
    assert_eq!(names("a,1\n", Header::Yes), ["a", "1"]);
    assert_eq!(names("a,b\n1,2\n", Header::No), ["1", "2"]);
    assert_eq!(names(",\n1,2\n", Header::Auto), ["1", "2"], "a record of empty fields has no names");
    let no = Asked { header: Header::No, ..EVERYTHING };
    let state = whole(b"a,1\nb,2\n", 100, no).unwrap().rows.unwrap();
    assert_eq!((state.good, state.columns.len()), (2, 1));
}

/// Whether a first record has names, and whether it might as well be the other.
#[test]
fn a_first_record_of_text_and_numbers_is_taken_for_data_and_known_to_be_in_doubt() {
    let taken = |text: &str, header| {
        let schema = schema(text.as_bytes(), header).unwrap();
        (schema.has_header, schema.is_header_in_doubt)
    };
    for (text, has_header, is_in_doubt) in [
        ("state,2021\nx,5\n", false, true),
        ("x,5\ny,6\n", false, true),
        ("a,b\n1,2\n", true, false),
        ("1,2\n3,4\n", false, false),
        ("1,\n3,4\n", false, false),
        ("1,inf\n3,nan\n", false, false),
        ("a,inf\n1,2\n", true, true),
        ("inf,-Infinity\n1,2\n", true, true),
        ("nan,b\n1,2\n", true, true),
        ("1e999,a\n1,2\n", true, true),
        ("1e999,a\n1,b\n", false, true),
        ("x,20,21\ny,5,6\n", false, true),
        ("x,2020,2021\ny,5,6\n", true, true),
        ("country,1990,2000,2010\nx,5,6,8\n", true, true),
        ("2022,2021\n4,5\n", false, false),
        ("x,2020,2021\ny,2021,2022\n", false, true),
        (",0\n0,1.5\n1,3.5\n", true, true),
        (",2019,2020,2021\n0,1,2,3\n1,4,5,6\n", true, true),
        (",7,5\n0,1,2\n1,4,5\n", true, true),
        (",7,5\n3,1,2\n,4,5\n", false, false),
        (",1.5,2.5\n3,1,2\n", false, false),
        ("\"x\",\"2020\"\n\"y\",5\n", true, true),
        ("\"2019\",\"2020\"\n4,5\n", true, false),
        ("NA,b\n1,2\n", true, true),
        (",0,1,2\nx,5,6,8\n", true, true),
        ("country,1990,1991,1992\nx,5,6,8\n", true, true),
        ("1,2,3,4\n2,3,4,5\n", false, false),
    ] {
        assert_eq!(taken(text, Header::Auto), (has_header, is_in_doubt), "{text:?}");
        assert_eq!(taken(text, Header::Yes), (true, false), "{text:?}");
        assert_eq!(taken(text, Header::No), (false, false), "{text:?}");
    }
}

#[test]
fn the_first_value_of_a_column_that_is_not_numeric_is_known() {
    let found = schema(b"a,b,c,d\n,1,,x\nN.N.,2,nan,y\n3,4,,z\n", Header::Auto).unwrap();
    assert_eq!(found.numeric, [Some(false), Some(true), None, Some(false)]);
    assert_eq!(found.first_texts, [(0, "N.N.".to_owned()), (3, "x".to_owned())].into());
}

#[test]
fn carriage_returns_alone_are_no_line_ends() {
    let error = |text: &[u8]| schema(text, Header::Auto).unwrap_err();
    let long = [&b"a,b\r"[..], &b"1,2\r".repeat(3000)].concat();
    for text in [&b"a,b\r1,2\r3,4\r"[..], b"a\r1\r2", b"\"a\",\"b\"\r\"1\",\"2\"\r", b"a,b\r1,2\n", &long] {
        assert_eq!(error(text), QueryError::CarriageReturns);
    }
    for text in [&b"a,b\r\n1,2\r\n"[..], b"a,b\r\r\n1,2\r\r\n", b"\"a\rb\",c\r1,2\n"] {
        let is_one = schema(text, Header::Auto).is_ok();
        assert_eq!(is_one, !text.contains(&b'c'), "{text:?}");
    }
    assert!(schema(b"\"a\rb\",c\r\n1,2\r\n", Header::Auto).is_ok(), "within quotes it is text");
}

#[test]
fn a_name_that_several_columns_have_is_refused() {
    let found = |columns: &[&str]| whole(b"a,b,a\n1,2,4\n", 100, Asked { columns, ..EVERYTHING });
    let numbers = "1, 3".to_owned();
    assert_eq!(found(&["b", "a"]).unwrap_err(), QueryError::SeveralColumns { asked: "a".to_owned(), numbers });
    assert_eq!(found(&["3"]).unwrap().rows.unwrap().columns[0].summary().sum, 4.0);
}

#[test]
fn names_in_messages_are_short_and_have_no_control_characters() {
    let long = format!("x\x1b[31m,{}", "y".repeat(70_000));
    let error = whole(format!("{long}\n1,2\n").as_bytes(), 1000, Asked { columns: &["z"], ..EVERYTHING }).unwrap_err();
    let said = error.to_string();
    assert!(said.len() < 300 && said.contains("x\\u{1b}[31m,yyy"), "{said}");
}

#[test]
fn missing_and_infinite() {
    let text = "a,b\n,1\nnan,2\n  ,3\n4,inf\n5,\n6,1\n";
    assert_eq!(sums(text), [(3, 3, 15.0), (5, 1, f64::INFINITY)]);
    let found = rows(text);
    let summary = found.columns[1].summary();
    assert_eq!((summary.min, summary.max, summary.mean), (1.0, f64::INFINITY, f64::INFINITY));
    assert!(summary.variance.is_nan() && summary.deviation.is_nan());
    let gramian = found.gramian.unwrap();
    assert_eq!(gramian.rows(), 2, "rows where none is missing");
    assert_eq!(gramian.matrix(), [[52.0, f64::INFINITY], [f64::INFINITY, f64::INFINITY]]);
    let both = rows("a\n1\ninf\n-inf\n").columns[0].summary();
    assert!(both.sum.is_nan() && both.min == f64::NEG_INFINITY && both.count == 3);
    let infinite = rows("a\n-inf\n1\n").columns[0].summary();
    assert_eq!((infinite.sum, infinite.mean), (f64::NEG_INFINITY, f64::NEG_INFINITY));
}

#[test]
fn the_first_field_that_is_not_missing_makes_a_column_numeric() {
    let numeric = |text: &str| schema(text.as_bytes(), Header::Auto).unwrap().numeric;
    assert_eq!(numeric("a,b,c\n,x,\n,,nan\n1,2,\n"), [Some(true), Some(false), None]);
    assert_eq!(numeric("a,b\n1\n2,3\n"), [Some(true), Some(true)], "a ragged row says nothing");
    assert_eq!(sums("a,b\n1,\n2,\n"), [(2, 0, 3.0)]);
}

#[test]
fn bad_rows_are_named_by_their_lines() {
    let text = "a,note,b\n1,\"two\nlines\",2\n3,x\n4,y,5,6\n7,z,word\n8,\"\n\",9\nbad,t,1\n10,u,11\n";
    let found = rows(text);
    assert_eq!((found.good, found.bad), (3, 4));
    let named: Vec<(u64, &Fault)> = found.named.iter().map(|row| (row.lines_before + 1, &row.fault)).collect();
    let word = |column, text: &str| Fault::Text { column, text: text.to_owned() };
    assert_eq!(
        named,
        [
            (4, &Fault::Fields { has: 2, expected: 3 }),
            (5, &Fault::Fields { has: 4, expected: 3 }),
            (6, &word(2, "word")),
            (9, &word(0, "bad")),
        ]
    );
    assert_eq!(sums(text), [(3, 0, 19.0), (3, 0, 22.0)], "a bad row leaves nothing behind");
    let open = rows("a,b\n1,2\n3,\"4\n5,6\n");
    assert_eq!((open.good, open.bad, &open.named[0].fault), (1, 1, &Fault::OpenQuote));
    assert_eq!(open.named[0].lines_before, 2);
}

#[test]
fn a_quote_that_opens_no_field_makes_a_row_bad() {
    let fault = |text: &str| {
        let found = rows(&format!("a,b\n1,2\n{text}3,4\n"));
        assert_eq!((found.good, found.bad), (2, 1), "{text:?}");
        found.named[0].clone()
    };
    for (text, column) in [
        ("5,6\" pipe \"\n", 1),
        ("5,6\"\"\n", 1),
        ("x\"y\",6\n", 0),
        ("\"5\"x,6\n", 0),
        ("5,\"6\"\"\" \"7\"\n", 1),
        ("5,\"6\" \"\"\r\n", 1),
    ] {
        let found = fault(text);
        assert_eq!(found.fault, Fault::MisplacedQuote { column }, "{text:?}");
        assert_eq!((found.lines_before, found.lines, found.bytes), (2, 1, text.len() as u64), "{text:?}");
    }
    // Two lone quotes: all between them is one record, and the answer says how much that is.
    let swallowed = format!("5,6\" pipe\n{}7,8\" pipe\n", "9,10\n".repeat(800));
    let found = fault(&swallowed);
    assert_eq!(
        (found.fault, found.lines, found.bytes),
        (Fault::MisplacedQuote { column: 1 }, 802, swallowed.len() as u64)
    );
    // Blanks around quotes, doubled quotes and empty fields are as they were.
    assert_eq!(sums("a,b\n \"1\"\t,\"\"\n\" 3 \",\"4\"\r\n\"\", \"\"\n"), [(2, 1, 4.0), (1, 2, 4.0)]);
    assert_eq!(rows("a,b\n1,2\n1,\"\"\"\"\n").named[0].fault, Fault::Text { column: 1, text: "\"\"\"\"".to_owned() });
}

#[test]
fn a_first_record_whose_quotes_are_misplaced_is_no_table() {
    let error = |text: &str| schema(text.as_bytes(), Header::Auto).unwrap_err();
    assert_eq!(error("a,5\" pipe\n1,2\n3,4\" pipe\n5,6\n"), QueryError::MisplacedQuote(2));
    assert_eq!(error("\"a\"b,c\n1,2\n"), QueryError::MisplacedQuote(1));
    assert_eq!(error("\"a,b\n1,2\n"), QueryError::OpenQuote);
    // A bad row's fields say nothing about columns of which other rows have values.
    assert_eq!(schema(b"a,b\n,x\"y\"\n,3\n", Header::Auto).unwrap().numeric, [None, Some(true)]);
    assert_eq!(schema(b"a,b\n,3\n,\"x\n", Header::Auto).unwrap().numeric, [None, Some(true)]);
    // Where there are no others, it is named.
    for (text, fault) in
        [("a,b\n1,\"2\n3,4\n", Fault::OpenQuote), ("a,b\n1,2\" pipe \"\n", Fault::MisplacedQuote { column: 1 })]
    {
        let found = whole(text.as_bytes(), 100, EVERYTHING).unwrap().rows.unwrap();
        assert_eq!((found.good, found.bad, &found.named[0].fault), (0, 1, &fault), "{text:?}");
    }
}

#[test]
fn bad_rows_cover_what_good_rows_and_the_header_leave() {
    let text = "\n\"a\n\",b\n\n1,2\n3\n4,\"5\n\n\"\r\n6,\"7\n8\n\",9\n\n10,11";
    let schema = schema(text.as_bytes(), Header::Auto).unwrap();
    let state = whole(text.as_bytes(), 3, EVERYTHING).unwrap();
    assert_eq!(state.bad_extent(&schema), (4, 2 + 11), "3 and 6");
    let open = whole(b"a\n1\n\"2\n3\n", 100, EVERYTHING).unwrap();
    assert_eq!(open.bad_extent(&crate::reference::schema(b"a\n1\n\"2\n3\n", Header::Auto).unwrap()), (2, 5));
}

#[test]
fn only_the_first_bad_rows_are_named() {
    let text = format!("a,b\n1,2\n{}", "x,1\n".repeat(1000));
    let found = rows(&text);
    assert_eq!((found.bad, found.named.len()), (1000, 8));
    assert_eq!(found.named[7].lines_before, 9);
}

#[test]
fn columns_that_were_asked_for() {
    let asked = |columns: &[&str]| {
        let asked = Asked { columns, ..EVERYTHING };
        whole(b"a,b,c\n1,x,2\n3,y,4\n", 100, asked).map(|state| {
            let columns = state.rows.unwrap().columns;
            columns.iter().map(|column| column.summary().sum).collect::<Vec<_>>()
        })
    };
    assert_eq!(asked(&["c", "1"]), Ok(vec![6.0, 4.0]));
    assert_eq!(asked(&["b"]), Err(QueryError::NotNumeric { name: "b".into(), text: "x".into() }));
    for name in ["d", "0", "4", "-1", ""] {
        assert_eq!(asked(&[name]), Err(QueryError::NoSuchColumn { asked: name.into(), has: "a,b,c".into() }));
    }
}

#[test]
fn a_column_requested_twice_has_its_numbers_twice() {
    let text = b"a,b,c\n1,x,2\n3,y,4\n\"5\",z,\n";
    let found = |columns: &[&str]| whole(text, 100, Asked { columns, ..EVERYTHING }).unwrap().rows.unwrap();
    let (once, twice) = (found(&["a", "c"]), found(&["a", "c", "a", "1", "c"]));
    let both = [0, 1, 0, 0, 1].map(|column: usize| once.columns[column].clone());
    assert_eq!(twice.columns, both);
    let (small, large) = (once.gramian.unwrap().matrix(), twice.gramian.unwrap().matrix());
    assert_eq!(large[2], [0, 1, 0, 0, 1].map(|column: usize| small[0][column]));
    let many = vec!["a"; FIELDS_MAX + 1];
    let refused = whole(text, 100, Asked { columns: &many, operators: &[Operator::Stats], ..EVERYTHING });
    assert_eq!(refused.unwrap_err(), QueryError::TooManyColumns(FIELDS_MAX + 1));
}

#[test]
fn only_requested_columns_make_a_row_bad() {
    let text = b"a,b,c\n1,2,3\n4,x,5\n6,\"1,000\",\"7\"\n8,9,y\n10,\n";
    let found = |columns: &[&str]| {
        let rows = whole(text, 100, Asked { columns, ..EVERYTHING }).unwrap().rows.unwrap();
        (rows.good, rows.bad, rows.columns[0].summary().sum)
    };
    assert_eq!(found(&["a"]), (4, 1, 19.0), "a row of two fields is bad for every column");
    assert_eq!(found(&["c"]), (3, 2, 15.0));
    assert_eq!(found(&["a", "c"]), (3, 2, 11.0));
    assert_eq!(found(&[]), (1, 4, 1.0), "all numeric columns are requested");
}

#[test]
fn what_is_no_table() {
    let error = |text: &[u8]| whole(text, 100, EVERYTHING).unwrap_err();
    assert_eq!(error(b""), QueryError::Empty);
    assert_eq!(error(b"\n\n"), QueryError::Empty);
    assert_eq!(error(b"\x7f\0\0\0,1\n"), QueryError::NotText);
    assert_eq!(error(b"\x7f\r\0\0,1\n"), QueryError::NotText);
    assert!(matches!(error(b"\x1f\x8b\x08\0"), QueryError::OtherFormat { .. }));
    assert_eq!(error(b"some words\nmore words\n"), QueryError::NoNumericColumn);
    assert_eq!(error(&[b','; 5000]), QueryError::TooManyFields);
    // Operators on bytes need no table.
    let bytes = Asked { operators: &[Operator::Entropy, Operator::CountLines], ..EVERYTHING };
    assert!(whole(b"1\n", 100, bytes).unwrap().rows.is_none());
}

#[test]
fn a_row_longer_than_many_blocks() {
    let text = format!("a,b\n1,{}\n\"{}\",2\n3,4\n", "0".repeat(300), "\n,".repeat(300));
    let cut = whole(text.as_bytes(), 16, EVERYTHING).unwrap();
    let found = cut.rows.unwrap();
    assert_eq!((found.good, found.bad, found.named[0].lines_before), (2, 1, 2));
    assert_eq!(found.columns[0].summary().sum, 4.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_text_is_read_as_it_stands(text in "1,2\r?\n([0-9]{1,2},?|-?[0-9]{1,20}\\.?[0-9]{0,4},|\"|\n|\r|x|,){0,60}", block_len in 1..80usize) {
        let found = whole(text.as_bytes(), block_len, Asked { header: Header::No, ..EVERYTHING }).unwrap().rows.unwrap();
        let (good, ..) = good_rows(&text, 2, &[0, 1]);
        prop_assert_eq!(found.good, good.len() as u64);
        prop_assert_eq!(found.bad, (records(&text).len() - good.len()) as u64);
        for column in 0..2 {
            let values = || good.iter().map(|row| row[column]).filter(|value| !value.is_nan());
            let summary = found.columns[column].summary();
            prop_assert_eq!(summary.count, values().count() as u64);
            prop_assert_eq!(summary.max.to_bits(), values().fold(f64::NEG_INFINITY, f64::max).to_bits());
            prop_assert_eq!(summary.min.to_bits(), values().fold(f64::INFINITY, f64::min).to_bits());
        }
    }
}
