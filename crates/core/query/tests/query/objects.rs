//! Rows that are JSON objects: the same statistics as of the same values in CSV, however the file is cut.

use forebay_query::{Finding, OnText, Operator, QueryError, Reading, Rows, Separator, unite_keys};
use proptest::prelude::*;

use crate::reference::{Asked, EVERYTHING, read_schema, whole_as_read};

const ASKED: Asked<'static> = Asked {
    operators: &[Operator::Stats, Operator::Gramian, Operator::Correlation, Operator::Describe],
    on_text: OnText::Missing,
    ..EVERYTHING
};

fn read(text: &str, block_len: usize, asked: Asked<'_>) -> Rows {
    whole_as_read(text.as_bytes(), block_len, &Reading::default(), asked).unwrap().rows.unwrap()
}

/// The rows of a text; what has no rounding is the same in any cut.
fn rows(text: &str, asked: Asked<'_>) -> Rows {
    let all = read(text, text.len(), asked);
    for block_len in [1, 3, 16, 50] {
        let cut = read(text, block_len, asked);
        let counts = |rows: &Rows| (rows.good, rows.bad, rows.filtered, rows.named.clone(), rows.texts.clone());
        assert_eq!(counts(&cut), counts(&all), "{text:?} by {block_len}");
    }
    all
}

#[test]
fn keys_are_columns_in_the_order_of_their_first_appearance() {
    let text =
        "\u{feff}{\"a\": 1, \"b\": {\"c\": [1, \"}\"]}}\n\n{\"d\\u0065\":\"4\",\"a\":null}\r\n{\"a\":true,\"b\":\"\"}";
    let schema = read_schema(text.as_bytes(), &Reading::default()).unwrap();
    assert_eq!(schema.names, ["a", "b", "de"]);
    assert_eq!(schema.numeric, [Some(true), Some(false), Some(true)]);
    assert_eq!(schema.first_texts[&1], "{\"c\": [1, \"}\"]}");
    assert_eq!((schema.dialect.separator, &schema.findings[..]), (Separator::Json, &[Finding::Objects][..]));
    let found = rows(text, ASKED);
    let a = found.columns[0].summary();
    assert_eq!((found.good, found.bad, a.count, a.sum, a.missing), (3, 0, 1, 1.0, 2));
    assert_eq!((found.texts[0].texts, found.texts[0].first.as_ref().unwrap().lines_before), (1, 3));
    assert_eq!(found.columns[1].summary().sum, 4.0, "a string that is a number");
    assert_eq!((found.described.texts[0].count(), found.described.texts[0].missing()), (1, 2));
}

#[test]
fn the_last_of_two_members_counts_and_unknown_keys_are_passed_over() {
    let found = rows("{\"a\":1,\"a\":\"x\",\"a\":5}\n{\"a\":2}\n", ASKED);
    assert_eq!((found.columns[0].summary().sum, found.texts[0].texts), (7.0, 0));
    // Only the first 4 MiB have columns.
    let many = format!("{{\"a\":1}}\n{}{{\"late\":1,\"a\":2}}\n", "{\"a\":0}\n".repeat(600_000));
    let found = read(&many, many.len(), ASKED);
    assert_eq!((found.columns.len(), found.good, found.columns[0].summary().sum.round()), (1, 600_002, 3.0));
}

#[test]
fn lines_that_are_no_objects_are_bad_rows() {
    let text = "{\"a\":1}\n{\"a\":2\n[3]\n{\"a\":4}x\n\n{\"a\":\"5\\\"\"}\n{\"a\":6}\n{\"a\":\"7";
    let found = rows(text, ASKED);
    assert_eq!((found.good, found.bad), (3, 4));
    assert_eq!(found.named.iter().map(|row| row.lines_before).collect::<Vec<_>>(), [1, 2, 3, 7]);
    let strict = rows(text, Asked { on_text: OnText::Bad, operators: &[Operator::Stats], ..ASKED });
    assert_eq!((strict.good, strict.bad, strict.columns[0].summary().sum), (2, 5, 7.0));
}

#[test]
fn other_json_is_refused_with_what_to_do() {
    let error = |text: &str| read_schema(text.as_bytes(), &Reading::default()).unwrap_err().to_string();
    assert!(error("[\n  {\"a\": 1}\n]\n").contains("jq -c '.[]' FILE"));
    assert!(error("{\n  \"a\": 1\n}\n").contains("jq -c . FILE"));
    assert_eq!(read_schema(b"{}\n{}\n", &Reading::default()), Err(QueryError::Empty));
    let wide: String = (0..4097).map(|key| format!("{{\"{key}\":1}}\n")).collect();
    assert_eq!(read_schema(wide.as_bytes(), &Reading::default()), Err(QueryError::TooManyKeys));
    let skipping = Reading { skipped_lines: 1, ..Reading::default() };
    let skipped = read_schema(b"a header\n{\"a\":1}\n", &skipping).unwrap();
    assert_eq!((skipped.rows_from, skipped.lines_before_rows, skipped.names.len()), (9, 1, 1));
    let as_first = Reading { separator: Some(Separator::Json), ..Reading::default() };
    assert!(read_schema(b"a,b\n1,2\n", &as_first).unwrap_err().to_string().contains("as the first file is"));
    let comma = Reading { separator: Separator::new(b','), ..Reading::default() };
    assert!(read_schema(b"{\"a\":1}\n", &comma).is_err(), "a delimiter was named");
}

#[test]
fn conditions_and_groups_see_the_text_that_escapes_stand_for() {
    let text = "{\"k\":\"\\u00e9\\\"\",\"x\":1}\n{\"x\":2,\"k\":\"b\"}\n{\"k\":\"\u{e9}\\\"\",\"x\":4}\n{\"x\":8}\n";
    let stats = Asked { operators: &[Operator::Stats], columns: &["x"], ..ASKED };
    let kept = rows(text, Asked { filter: Some("k = '\u{e9}\"' or k is missing"), ..stats });
    assert_eq!((kept.filtered, kept.columns[0].summary().sum), (1, 13.0));
    let grouped = rows(text, Asked { by: Some(0), ..stats });
    let groups: Vec<_> = grouped.groups.as_ref().unwrap().groups().unwrap();
    let sums: Vec<_> = groups.iter().map(|(key, group)| (key.as_deref(), group.columns[0].summary().sum)).collect();
    assert_eq!(sums, [(None, 8.0), (Some("b"), 2.0), (Some("\u{e9}\""), 5.0)]);
}

#[test]
fn files_of_one_table_may_lack_keys() {
    let read = |text: &str| read_schema(text.as_bytes(), &Reading::default()).unwrap();
    let mut schemas = [read("{\"b\":1,\"a\":\"x\"}\n"), read("{\"a\":\"y\",\"c\":2}\n")];
    unite_keys(&mut schemas);
    assert_eq!([&schemas[0].names, &schemas[1].names], [&["b", "a", "c"]; 2]);
    assert_eq!(schemas[0].numeric, [Some(true), Some(false), None]);
    assert_eq!(schemas[1].numeric, [None, Some(false), Some(true)]);
    assert_eq!((&schemas[1].first_texts[&1], schemas[1].dialect.keys.names().len()), (&"y".to_owned(), 3));
}

/// A value as JSON has it, and as a field of CSV.
fn value() -> impl Strategy<Value = (String, String)> {
    let text = "[ a-c\"\\\\\u{e9},:{}\\[\\]]{0,6}";
    prop_oneof![
        (-1e9..1e9f64).prop_map(|number| { (format!("{number:?}"), format!("{number:?}")) }),
        (-1000i32..1000).prop_map(|number| (number.to_string(), number.to_string())),
        (0u32..100).prop_map(|number| (format!("\"{number}\""), format!("\"{number}\""))),
        Just(("null".to_owned(), String::new())),
        Just(("true".to_owned(), "true".to_owned())),
        text.prop_map(|text: String| {
            let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\u{e9}', "\\u00E9");
            (format!("\"{escaped}\""), format!("\"{}\"", text.replace('"', "\"\"")))
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn random_objects_are_what_they_are_in_csv(
        rows in prop::collection::vec((value(), value(), value(), any::<bool>(), 0..3usize), 1..40)
    ) {
        // The first row has all keys, and decides what the columns are.
        let (mut json, mut csv) = ("{\"x\":1,\"y\":0.5,\"z\":\"t\"}\n".to_owned(), "x,y,z\n1,0.5,t\n".to_owned());
        for (x, y, z, is_turned, absent) in &rows {
            let mut members = vec![format!("\"x\": {}", x.0), format!("\"y\":{}", y.0), format!("\"z\":{} ", z.0)];
            let mut fields = [&x.1[..], &y.1, &z.1];
            if *absent < 2 {
                members.remove(*absent);
                fields[*absent] = "";
            }
            if *is_turned {
                members.reverse();
            }
            json.push_str(&format!("{{{}}}\n", members.join(",")));
            csv.push_str(&format!("{}\n", fields.join(",")));
        }
        let [of_json, of_csv] = [&json, &csv].map(|text| read(text, text.len(), ASKED));
        prop_assert_eq!((of_json.good, of_json.bad), (of_csv.good, of_csv.bad));
        prop_assert_eq!(of_json.columns, of_csv.columns);
        prop_assert_eq!(of_json.gramian, of_csv.gramian);
        prop_assert_eq!(of_json.covariance, of_csv.covariance);
        let counts = |texts: &[forebay_query::TextFields]| texts.iter().map(|texts| (texts.texts, texts.words)).collect::<Vec<_>>();
        prop_assert_eq!(counts(&of_json.texts), counts(&of_csv.texts));
        prop_assert_eq!(of_json.described.texts, of_csv.described.texts);
    }
}
