//! `config`: the values that hold, and where each comes from.

use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::cli::ConfigArguments;
use crate::columns;
use crate::output::say;
use crate::settings::{Effective, How, Origin, Setting, TABLE};

/// Prints the effective values.
pub fn run(arguments: ConfigArguments) -> anyhow::Result<ExitCode> {
    let effective = Effective::merge(arguments.given.0, arguments.file.config)?;
    // A value that no command would accept is no value that holds.
    effective.settings()?;
    if arguments.json {
        say!("{:#}", as_json(&effective));
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![["setting", "value", "origin"].map(str::to_owned).to_vec()];
    for setting in TABLE {
        let (value, origin) = match effective.get(setting.key) {
            Some((texts, origin)) => (texts.join(" "), origin.to_string()),
            None => ("(not set)".to_owned(), Origin::Default.to_string()),
        };
        rows.push(vec![setting.key.to_owned(), value, origin]);
    }
    columns::lines(&rows).iter().for_each(|line| say!("{line}"));
    Ok(ExitCode::SUCCESS)
}

fn as_json(effective: &Effective) -> Value {
    TABLE
        .iter()
        .map(|setting| (setting.key.to_owned(), setting_as_json(setting, effective)))
        .collect::<Map<_, _>>()
        .into()
}

fn setting_as_json(setting: &Setting, effective: &Effective) -> Value {
    let (texts, origin) = match effective.get(setting.key) {
        Some((texts, origin)) => (texts.as_slice(), origin),
        None => (&[][..], &Origin::Default),
    };
    let value = match setting.how {
        How::Many => json!(texts),
        _ => json!(texts.last()),
    };
    let mut object = json!({"value": value, "origin": origin.word(), "environment": setting.variable()});
    if let Origin::File { path, line } = origin {
        object["file"] = json!(path);
        object["line"] = json!(line);
    }
    object
}
