//! The configuration file: TOML, the keys of the table at its top level.
//!
//! An unknown key is an error with its line: a misspelt setting that is silently ignored costs more than it saves.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::given::UsageError;
use super::table::{How, Setting, TABLE};

/// A setting of a file: its key, its texts, the line it is on.
pub type FileSetting = (&'static str, Vec<String>, usize);

/// The settings of a file's `text` with the lines they are on; `path` is for messages.
pub fn parse(text: &str, path: &Path) -> Result<Vec<FileSetting>, UsageError> {
    let at = |offset: usize, problem: &str| {
        UsageError(format!("{}, line {}: {problem}", path.display(), line_of(text, offset)))
    };
    let table = DeTable::parse(text).map_err(|error| at(error.span().map_or(0, |span| span.start), error.message()))?;
    let mut settings = Vec::new();
    for (key, value) in table.get_ref() {
        let start = key.span().start;
        let name = key.get_ref().as_ref();
        let setting = Setting::of(name).ok_or_else(|| at(start, &unknown(name)))?;
        let texts = texts_of(setting, value.get_ref()).map_err(|problem| at(start, &problem))?;
        settings.push((setting.key, texts, line_of(text, start)));
    }
    Ok(settings)
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

fn unknown(name: &str) -> String {
    // A name that differs in punctuation only is a slip of the pen.
    let plain = |text: &str| text.replace(['-', '_'], "").to_lowercase();
    match TABLE.iter().find(|setting| plain(setting.key) == plain(name)) {
        Some(setting) => format!("there is no setting '{name}'; the name is '{}'", setting.key),
        None => format!("there is no setting '{name}' (forebay config lists them)"),
    }
}

fn texts_of(setting: &Setting, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match value {
        DeValue::Array(items) if setting.how == How::Many => {
            items.iter().map(|item| text_of(setting, item.get_ref())).collect()
        }
        value => text_of(setting, value).map(|text| vec![text]),
    }
}

fn text_of(setting: &Setting, value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
        DeValue::Boolean(value) => Ok(value.to_string()),
        _ => Err(format!("{} needs {} here, as a string or a number", setting.key, setting.value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str) -> String {
        parse(text, Path::new("f.toml")).unwrap_err().to_string()
    }

    #[test]
    fn keys_values_and_lines() {
        let settings =
            parse("# a\nfanout = 3\nallow-other = true\n\nexport = ['/a',\n '/b']\n", Path::new("f")).unwrap();
        assert!(settings.contains(&("fanout", vec!["3".to_owned()], 2)));
        assert!(settings.contains(&("allow-other", vec!["true".to_owned()], 3)));
        assert!(settings.contains(&("export", vec!["/a".to_owned(), "/b".to_owned()], 5)));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        assert_eq!(failure("\nfan-out = 3"), "f.toml, line 2: there is no setting 'fan-out'; the name is 'fanout'");
        assert!(failure("no-such = 'x'").starts_with("f.toml, line 1: there is no setting 'no-such'"));
        assert!(failure("fanout = 1\nfanout = 2").starts_with("f.toml, line 2"));
        assert!(failure("fanout = [1]").contains("line 1: fanout needs K here"));
        assert!(failure("a = ").starts_with("f.toml, line 1"));
        assert!(failure("[cache]\nbudget = 1").contains("there is no setting 'cache'"));
    }
}
