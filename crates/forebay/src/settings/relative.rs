//! Relative paths in settings mean the directory in which the command is called, whichever source they come from. Values travel to
//! daemons as text, so they are made absolute where they are read; links and `..` stay as they are.

use std::path::absolute;

/// How the text of a setting has paths.
enum Form {
    /// It is one, unless it is one of these words.
    Path(&'static [&'static str]),
    /// Two, with `=` between them.
    Pair,
    /// The same, or one that stands for both.
    PairOrOne,
}

const PLAIN: Form = Form::Path(&[]);

/// Settings with paths.
const WITH_PATHS: [(&str, Form); 19] = [
    ("directory", PLAIN),
    ("hostfile", Form::Path(&["-"])),
    ("munge", Form::Path(&["auto", "off"])),
    ("export", PLAIN),
    ("view", PLAIN),
    ("burst", Form::PairOrOne),
    ("burst-store", Form::Path(&["auto"])),
    ("burst-mount", PLAIN),
    ("cache-store", Form::Path(&["auto"])),
    ("partner", Form::Path(&["none", "all"])),
    ("stage-in", Form::Pair),
    ("stage-out", Form::Pair),
    ("directives", Form::Path(&["auto", "off"])),
    ("data", PLAIN),
    ("topology", Form::Path(&["auto", "off"])),
    ("profile", Form::Path(&["auto", "off"])),
    ("profile-dir", PLAIN),
    ("metrics", PLAIN),
    ("report", Form::Path(&["auto", "off"])),
];

/// The text of the setting `key` with its paths absolute.
///
/// # Errors
/// When this directory's path is not known, or no text.
pub fn made_absolute(key: &str, text: &str) -> Result<String, String> {
    match WITH_PATHS.iter().find(|(with_paths, _)| *with_paths == key) {
        Some((_, Form::Path(words))) if !words.contains(&text) => path(text),
        Some((_, Form::PairOrOne)) if !text.contains('=') => path(text),
        Some((_, Form::Pair | Form::PairOrOne)) => match text.split_once('=') {
            Some((one, other)) => Ok(format!("{}={}", path(one)?, path(other)?)),
            None => Ok(text.to_owned()),
        },
        _ => Ok(text.to_owned()),
    }
}

/// An empty one is refused by whoever reads it.
fn path(text: &str) -> Result<String, String> {
    // A shell leaves it in `--burst=~/a` and after the `=` of a pair.
    if let Some(rest) = text.strip_prefix("~/")
        && let Ok(home) = std::env::var("HOME")
    {
        return Ok(format!("{}/{rest}", home.trim_end_matches('/')));
    }
    if text.is_empty() || text.starts_with('/') {
        return Ok(text.to_owned());
    }
    let failed = |why: &str| format!("'{text}' cannot be made an absolute path: {why}");
    let path = absolute(text).map_err(|error| failed(&error.to_string()))?;
    Ok(path.to_str().ok_or_else(|| failed("this directory's path is not valid UTF-8"))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::TABLE;

    #[test]
    fn every_setting_with_paths_is_known() {
        for setting in TABLE {
            let is_path =
                ["DIR", "FILE", "PATH", "MOUNT", "SRC", "SOCKET"].iter().any(|word| setting.value.contains(word));
            assert_eq!(WITH_PATHS.iter().any(|(key, _)| *key == setting.key), is_path, "{}", setting.key);
        }
    }

    #[test]
    fn relative_paths_mean_this_directory() {
        let here = std::env::current_dir().unwrap().display().to_string();
        let home = std::env::var("HOME").unwrap();
        for (key, text, expected) in [
            ("export", "a/../b", format!("{here}/a/../b")),
            ("export", "/a", "/a".to_owned()),
            ("export", "", String::new()),
            ("hostfile", "-", "-".to_owned()),
            ("profile", "off", "off".to_owned()),
            ("profile", "p", format!("{here}/p")),
            ("burst", "ckpt=/b", format!("{here}/ckpt=/b")),
            ("burst", "ckpt", format!("{here}/ckpt")),
            ("burst", "~/a=~/b", format!("{home}/a={home}/b")),
            ("stage-in", "/a=b,scatter", format!("/a={here}/b,scatter")),
            ("profile-command", "a", "a".to_owned()),
        ] {
            assert_eq!(made_absolute(key, text), Ok(expected), "{key} {text}");
        }
    }
}
