//! Rows whose fields are plain, which are parsed many at once, against the same rows with quotes, each of which is parsed by itself.

use forebay_query::{Header, OnText, Operator, Reading, Rows, Separator};
use proptest::prelude::*;

use crate::reference::{Asked, EVERYTHING, whole_as_read};

const FIELDS: usize = 4;

fn rows(text: &str, separator: Separator, point: u8, on_text: OnText, by: Option<usize>) -> Rows {
    let reading = Reading {
        separator: Some(separator),
        point: Some(point),
        comment: Some(b'#'),
        header: Header::Yes,
        ..Reading::default()
    };
    let asked =
        Asked { operators: &[Operator::Stats, Operator::Describe, Operator::Covariance], on_text, by, ..EVERYTHING };
    whole_as_read(text.as_bytes(), text.len(), &reading, asked).unwrap().rows.unwrap()
}

/// A table of these rows.
fn table(rows: &[Vec<String>], between: &str, end: &str, quote: &str) -> String {
    let line = |fields: &[String]| {
        let fields: Vec<String> = fields.iter().map(|field| format!("{quote}{field}{quote}")).collect();
        fields.join(between) + end
    };
    let names = ["a", "b", "c", "d"].map(str::to_owned);
    // One decides about the columns: three of numbers, one of text.
    let first = ["1", "2", "3", "text"].map(str::to_owned);
    line(&names) + &line(&first) + &rows.iter().map(|fields| line(fields)).collect::<String>()
}

fn field() -> impl Strategy<Value = String> {
    let fixed = "-?[0-9]{1,4}\\.[0-9]{4}";
    let other = "-?[0-9]{1,9}|-?[0-9]{1,4}\\.[0-9]{1,16}|-?[0-9]\\.[0-9]{18}e[-+][0-9]{2}|[0-9]e[0-9]{1,3}";
    let odd = "NA|x|nan|\\+1|5\\.|-|1\\.5\\.2|-999";
    prop_oneof![6 => fixed.prop_map(|text| text), 6 => other.prop_map(|text| text), 1 => odd.prop_map(|text| text)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn plain_rows_are_what_they_are_with_quotes(
        mut rows_of in proptest::collection::vec(proptest::collection::vec(field(), FIELDS), 0..400),
        short in proptest::collection::vec(0..400usize, 0..3),
        dialect in 0..4usize,
        is_crlf in any::<bool>(),
        is_bad in any::<bool>(),
        groups in any::<bool>(),
    ) {
        for row in short {
            if let Some(fields) = rows_of.get_mut(row) {
                fields.pop();
            }
        }
        let (separator, between, point) = [
            (Separator::Byte(b','), ",", b'.'),
            (Separator::Byte(b';'), ";", b','),
            (Separator::Byte(b'\t'), "\t", b'.'),
            (Separator::Blanks, "  ", b'.'),
        ][dialect];
        if point == b',' {
            for field in rows_of.iter_mut().flatten() {
                *field = field.replace('.', ",");
            }
        }
        let end = if is_crlf { "\r\n" } else { "\n" };
        let on_text = if is_bad { OnText::Bad } else { OnText::Missing };
        let found = |quote: &str| rows(&table(&rows_of, between, end, quote), separator, point, on_text, groups.then_some(3));
        let (plain, quoted) = (found(""), found("\""));
        prop_assert_eq!((plain.good, plain.bad), (quoted.good, quoted.bad));
        prop_assert_eq!(format!("{:?}", plain.columns), format!("{:?}", quoted.columns));
        // A text is shown with its quotes.
        let described = |rows: &Rows| format!("{:?}", rows.described).replace("\\\"", "");
        prop_assert_eq!(described(&plain), described(&quoted));
        prop_assert_eq!(format!("{:?}", plain.covariance), format!("{:?}", quoted.covariance));
        prop_assert_eq!(format!("{:?}", plain.groups), format!("{:?}", quoted.groups));
        let words = |rows: &Rows| rows.texts.iter().map(|texts| (texts.words, texts.words_seen, texts.texts)).collect::<Vec<_>>();
        prop_assert_eq!(words(&plain), words(&quoted));
        let firsts = |rows: &Rows| rows.texts.iter().map(|texts| texts.first.as_ref().map(|first| first.lines_before)).collect::<Vec<_>>();
        prop_assert_eq!(firsts(&plain), firsts(&quoted));
        let named = |rows: &Rows| rows.named.iter().map(|row| (row.lines_before, row.lines)).collect::<Vec<_>>();
        prop_assert_eq!(named(&plain), named(&quoted));
    }
}
