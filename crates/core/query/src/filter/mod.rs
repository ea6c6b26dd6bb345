//! `--where-row`: which rows count, by what their fields say: `flow > 3 and (site = 'north' or day is missing)`.
//!
//! A comparison with a number is one of numbers, with a text in quotes one of texts; a text that is a number is one beside numbers. Of a field that is missing, or no number
//! where one is compared, nothing is known: such a row does not count, nor does it with `not` before (as in SQL).

mod parse;
mod steps;

use crate::schema::Schema;

pub use parse::FilterError;
pub use steps::Filter;

impl Filter {
    /// The condition that a text says, about the columns of a table.
    ///
    /// # Errors
    /// It is none, with the place.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, FilterError> {
        parse::Parser::new(text, schema).whole().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::steps::Step;
    use super::*;
    use crate::probe::schema_of;
    use crate::reading::Reading;

    const TEXT: &[u8] = b"site,flow,day of week,level\nnorth,1.5,Mon,7\nsouth,20,\"Tue, late\",NA\n";

    fn schema() -> Schema {
        schema_of(TEXT, true, &Reading::default()).unwrap().unwrap()
    }

    fn admits(filter: &str, row: [&str; 4]) -> bool {
        let filter = Filter::parse(filter, &schema()).unwrap_or_else(|error| panic!("{filter}: {error}"));
        let travelled = Filter::decode(&filter.encode(), 4).unwrap();
        assert_eq!(travelled, filter);
        filter.admits(&schema().dialect, |column| row[column].as_bytes())
    }

    #[test]
    fn rows_count_by_their_fields() {
        let (north, south) = (["north", "1.5", "Mon", "7"], ["south", "20", "\"Tue, late\"", "NA"]);
        for (filter, is_north, is_south) in [
            ("flow > 3", false, true),
            ("flow >= 1.5 and flow < 2e1", true, false),
            ("site = 'north'", true, false),
            ("site <> 'north' or flow<=1.5", true, true),
            ("\"day of week\" = 'Tue, late'", false, true),
            ("level is missing", false, true),
            ("level is not missing", true, false),
            ("level != 7", false, false),
            ("not level = 7", false, false),
            ("not (level = 7 or flow = 20)", false, false),
            ("site in ('south', 'west') AND NOT flow in (1, 2, 3)", false, true),
            ("site not in ('south')", true, false),
            ("site > 'o'", false, true),
            ("2 = 1.5", true, false),
            ("flow == -1 or site == 'it''s'", false, false),
            ("flow = '20.0'", false, true),
            ("flow > '3'", false, true),
            ("site != '5'", true, true),
            ("level != '5'", true, false),
        ] {
            assert_eq!((admits(filter, north), admits(filter, south)), (is_north, is_south), "{filter}");
        }
    }

    /// Whichever of them comes first in the file.
    #[test]
    fn a_column_may_have_numbers_and_texts() {
        for text in [&b"s,x\n9,1\na,2\n"[..], b"s,x\na,2\n9,1\n"] {
            let schema = schema_of(text, true, &Reading::default()).unwrap().unwrap();
            for (filter, is_number, is_text) in [
                ("s != '5'", true, true),
                ("s not in ('9.0', 'b')", false, true),
                ("s = 9", true, false),
                ("s > '5'", true, true),
            ] {
                let filter = Filter::parse(filter, &schema).unwrap();
                let admits = |field: &str| filter.admits(&schema.dialect, |_| field.as_bytes());
                assert_eq!((admits("9"), admits("a")), (is_number, is_text), "{filter:?}");
            }
        }
    }

    #[test]
    fn what_is_no_condition_is_named_with_its_place() {
        for (text, words) in [
            ("", "a column"),
            ("flow >", "a number, or a text in quotes"),
            ("flow > north", "a number, or a text in quotes"),
            ("flow", "a comparison"),
            ("flw > 3", "no column \"flw\""),
            ("flow > 3 flow < 5", "and, or"),
            ("(flow > 3", "a )"),
            ("site = 'north", "never closed"),
            ("flow > 3 and", "a column"),
            ("flow in (1 2)", "a , or a )"),
            ("site = 'NA'", "'NA' stands for a missing value"),
            ("site in ('north', '')", "'' stands for a missing value"),
            ("flow ~ 3", "a comparison"),
            (&"not ".repeat(5000), "a column"),
            (&format!("flow = 1{}", " or flow = 1".repeat(500)), "steps"),
        ] {
            let error = Filter::parse(text, &schema()).unwrap_err().to_string();
            assert!(error.contains(words), "{text:.40}: {error}");
        }
    }

    #[test]
    fn what_travelled_is_checked() {
        let is_taken = |steps: Vec<Step>| Filter::decode(&Filter(steps).encode(), 4).is_some();
        assert!(is_taken(vec![Step::IsMissing(3)]));
        assert!(!is_taken(vec![]) && !is_taken(vec![Step::IsMissing(4)]) && !is_taken(vec![Step::Not]));
        assert!(!is_taken(vec![Step::IsMissing(0), Step::And]) && !is_taken(vec![Step::IsMissing(0); 2]));
        assert!(Filter::decode(b"", 4).is_none() && Filter::decode(&[1, 2, 0, 9], 4).is_none());
    }
}
