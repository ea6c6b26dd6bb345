//! Tables as people write them: what is found out about a file, and that it holds however the file is cut.

use forebay_query::{Finding, Header, OnText, Operator, QueryError, Reading, Rows, Separator, Words};
use proptest::prelude::*;

use crate::reference::{Asked, EVERYTHING, read_schema, whole_as_read};

const ASKED: Asked<'static> = Asked { operators: &[Operator::Stats], on_text: OnText::Missing, ..EVERYTHING };

fn rows(text: &str, reading: &Reading) -> Rows {
    let read = |block_len| whole_as_read(text.as_bytes(), block_len, reading, ASKED).unwrap().rows.unwrap();
    let all = read(text.len());
    for block_len in [1, 3, 16] {
        let cut = read(block_len);
        assert_eq!((cut.good, &cut.named, &cut.texts), (all.good, &all.named, &all.texts), "{text:?} by {block_len}");
    }
    all
}

fn sums(text: &str, reading: &Reading) -> (Vec<f64>, u64, u64) {
    let rows = rows(text, reading);
    (rows.columns.iter().map(|column| column.summary().sum).collect(), rows.good, rows.bad)
}

#[test]
fn separators_points_and_comments_are_found() {
    let none = &Reading::default();
    assert_eq!(sums("a;b\n1,5;2\n2,5;3\n", none), (vec![4.0, 5.0], 2, 0));
    assert_eq!(sums("  1   2\n 3\t4  \n\n  \n5 6", none), (vec![9.0, 12.0], 3, 0));
    assert_eq!(sums("x y z\n1 a 2\n3 \"b c\" 4\r\n", none), (vec![4.0, 6.0], 2, 0));
    assert_eq!(sums("# a note, with \" one quote\n\na,b\n1,2\n3,\"4\"\n", none), (vec![4.0, 6.0], 2, 0));
    let comments = Reading { comment: Some(b'#'), ..Reading::default() };
    assert_eq!(sums("a,b\n# c\n1,2\n#,\n3,4\n", &comments), (vec![4.0, 6.0], 2, 0));
    let broken = rows("a,b\n1,2\n# 5\" wide\n3,4\n# 6\" wide\n5,6\n", &comments);
    assert_eq!(
        (broken.good, broken.bad, broken.named[0].lines),
        (2, 1, 3),
        "an odd quote in a comment is no silent loss"
    );
}

#[test]
fn words_and_texts_are_noted_and_count_as_missing() {
    let found = rows("a,b\n1,NA\n2,3\nx,-\n\"?\",4\ny,5\n", &Reading::default());
    assert_eq!((found.good, found.bad), (5, 0));
    let [a, b] = &found.texts[..] else { panic!("two columns") };
    assert_eq!((a.words, a.texts, a.first.as_ref().unwrap().lines_before), (1, 2, 3));
    assert_eq!((a.first.as_ref().unwrap().text.as_str(), b.words, b.texts), ("x", 2, 0));
    assert_eq!(b.words_seen.count_ones(), 2);
    assert_eq!(found.not_numeric(), [0]);
    // A number may stand for one, however it is written, and at any place of a row.
    let sentinel = Words::new(&["-999".to_owned()]).unwrap();
    for (text, separator) in [
        ("a,b\n-999,1\n2,-999.0\n-9.99e2,\"-999\"\n", Separator::Byte(b',')),
        ("a b\n-999 1\n2 -999.0\n-9.99e2 -999\n", Separator::Blanks),
    ] {
        let found =
            rows(text, &Reading { missing: sentinel.clone(), separator: Some(separator), ..Reading::default() });
        let of = |column: usize| {
            (found.columns[column].summary().count, found.columns[column].summary().sum, found.texts[column].words)
        };
        assert_eq!((of(0), of(1)), ((1, 2.0, 2), (1, 1.0, 2)), "{text:?}");
    }
    let own = Reading { missing: Words::new(&["x".to_owned(), "y".to_owned()]).unwrap(), ..Reading::default() };
    let found = rows("a\n1\nx\nNA\n", &own);
    assert_eq!((found.texts[0].words, found.texts[0].texts), (1, 1), "only words that were given");
}

#[test]
fn lines_before_a_table_are_told_from_it() {
    let findings = |text: &str| read_schema(text.as_bytes(), &Reading::default()).unwrap().findings;
    assert_eq!(findings("a,b\n1,2\n"), []);
    assert_eq!(findings("t\n\na,b,c\n1,2,3\n4,5,6\n"), [Finding::Preamble(1)]);
    assert_eq!(findings("a,b\n1,2,3\n4,5,6\n"), [Finding::RowNames]);
    assert_eq!(findings("a,b\n1,2,\n4,5,\n"), [Finding::EmptyLastField]);
    assert_eq!(
        findings("#a b\n#t x\n1 2\n"),
        [Finding::Separator(Separator::Blanks), Finding::Comments(2), Finding::NamesInComment]
    );
    assert_eq!(findings("a,b\nm,s\n1,2\n3,4\n"), [Finding::Units(vec!["m".to_owned(), "s".to_owned()])]);
    assert_eq!(findings("a,b\nm,s\n1,2\n"), [], "one row does not show that the one above it is none");
    // A user's word about the first record holds.
    let said = |header| read_schema(b"t\na,b,c\n1,2,3\n", &Reading { header, ..Reading::default() }).unwrap();
    assert_eq!((said(Header::Yes).names, said(Header::No).names), (vec!["t".to_owned()], vec!["1".to_owned()]));
    let named = read_schema(b"#,name\n1,x\n", &Reading::default()).unwrap();
    assert_eq!((named.names, named.has_header), (vec!["#".to_owned(), "name".to_owned()], false));
    let few = Reading { skipped_lines: 3, ..Reading::default() };
    assert_eq!(read_schema(b"a\n1\n", &few), Err(QueryError::FewerLines(3)));
}

proptest! {
    #[test]
    fn any_table_is_the_same_by_blanks_tabs_and_semicolons(
        rows in prop::collection::vec(("-?[0-9]{1,12}(\\.[0-9]{1,9})?(e-?[0-9])?", "NA|[a-z]{1,3}|[0-9]{1,3}"), 1..20),
    ) {
        let text = |between: &str, end: &str| rows.iter().map(|(a, b)| format!("{a}{between}{b}{end}")).collect::<String>();
        let read = |text: String, separator| {
            let reading = Reading { separator: Some(separator), header: Header::No, ..Reading::default() };
            let rows = whole_as_read(text.as_bytes(), text.len(), &reading, Asked { columns: &["1", "2"], ..ASKED });
            rows.map(|state| state.rows.unwrap()).map(|rows| (rows.columns, rows.texts, rows.good))
        };
        let wanted = read(text(",", "\n"), Separator::Byte(b','));
        for (between, end, separator) in [
            ("\t", "\r\n", Separator::Byte(b'\t')),
            (" ; ", "\n", Separator::Byte(b';')),
            ("   ", " \n", Separator::Blanks),
        ] {
            let found = read(text(between, end), separator);
            prop_assert_eq!(found.as_ref().map(|found| (&found.0, found.2)), wanted.as_ref().map(|wanted| (&wanted.0, wanted.2)));
        }
    }
}
