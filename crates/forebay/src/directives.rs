//! Directives of a job's script: lines that begin with `#FB`, which stand for options of `up`.
//!
//! They are of the script and not of a command in it, so that a scheduler can check them when the job is submitted. Options win
//! over them, they win over the environment.

use std::path::{Path, PathBuf};

use anyhow::Context;
use forebay_launch::batch_script;

use crate::jobs::variable;
use crate::settings::values::DirectivesFrom;
use crate::settings::{Effective, Origin, Setting, UsageError};

/// How a directive begins.
const MARK: &str = "#FB";

/// The value that the lines of one script give one setting.
#[derive(PartialEq, Eq, Debug)]
struct Directive {
    key: &'static str,
    text: String,
    line: usize,
}

/// Adds what the directives say that are meant by `effective`.
///
/// # Errors
/// `UsageError` when one makes no sense.
pub fn add(effective: &mut Effective) -> anyhow::Result<()> {
    let (path, text) = match effective.settings()?.directives {
        DirectivesFrom::Off => return Ok(()),
        DirectivesFrom::File(path) => {
            let text = std::fs::read_to_string(&path);
            let text = text.with_context(|| format!("cannot read the script {}", path.display()))?;
            (path, text)
        }
        DirectivesFrom::Auto => {
            let batch = variable("SLURM_JOB_ID").filter(|id| !id.is_empty()).and_then(|id| batch_script(&id));
            let Some(text) = batch else { return Ok(()) };
            (PathBuf::from("the job's script"), text)
        }
    };
    for Directive { key, text, line } in parse(&text, &path)? {
        effective.add_directive(key, text, Origin::File { path: path.clone(), line });
    }
    Ok(())
}

/// The directives of a script; `path` is for messages.
fn parse(script: &str, path: &Path) -> Result<Vec<Directive>, UsageError> {
    let mut directives = vec![];
    for (line, words) in (1..).zip(script.lines()) {
        let Some(words) = words.strip_prefix(MARK).filter(|words| words.starts_with([' ', '\t'])) else { continue };
        let at = |problem: String| UsageError(format!("{}, line {line}: {MARK}{words}: {problem}", path.display()));
        let words: Vec<&str> = words.split_whitespace().collect();
        let settings = match words.as_slice() {
            ["stage_in", rest @ ..] => vec![("stage-in", pair(rest, true).map_err(at)?)],
            ["stage_out", rest @ ..] => vec![("stage-out", pair(rest, false).map_err(at)?)],
            words => words.iter().map(|word| assignment(word)).collect::<Result<_, _>>().map_err(at)?,
        };
        for (key, text) in settings {
            let check = Setting::of(key).map_or(Ok(()), |setting| (setting.check)(&text));
            check.map_err(at)?;
            directives.push(Directive { key, text, line });
        }
    }
    Ok(directives)
}

/// `capacity=100GiB` or `policy=end`.
fn assignment(word: &str) -> Result<(&'static str, String), String> {
    let known = [("capacity", "burst-capacity"), ("policy", "drain")];
    let (name, text) = word.split_once('=').unwrap_or((word, ""));
    match known.iter().find(|(known, _)| *known == name) {
        Some((_, key)) if !text.is_empty() => Ok((key, text.to_owned())),
        Some(_) => Err(format!("'{word}' has no value; write {name}=VALUE")),
        None => Err(format!("'{name}' is not known; the directives are capacity=, policy=, stage_in and stage_out")),
    }
}

/// `source=SRC destination=DST [scatter]` as the setting has it.
fn pair(words: &[&str], may_scatter: bool) -> Result<String, String> {
    let value = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let scatter = words.contains(&"scatter");
    let named = [value("source"), value("destination")];
    let is_strange = |word: &&&str| {
        !(word.starts_with("source=") || word.starts_with("destination=") || may_scatter && **word == "scatter")
    };
    if let Some(strange) = words.iter().find(is_strange) {
        return Err(format!("'{strange}' is not understood; paths have no blanks"));
    }
    match named {
        [Some(source), Some(destination)] => {
            Ok(format!("{source}={destination}{}", if scatter { ",scatter" } else { "" }))
        }
        _ => Err("source=PATH and destination=PATH are needed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(script: &str) -> Result<Vec<(&'static str, String, usize)>, String> {
        let directives = parse(script, Path::new("job.sh")).map_err(|error| error.to_string())?;
        Ok(directives.into_iter().map(|directive| (directive.key, directive.text, directive.line)).collect())
    }

    #[test]
    fn directives_are_options() {
        let script = "#!/bin/sh\n#SBATCH -N 4\n#FB capacity=100GiB policy=end\n#FB stage_in source=/a destination=/b/%u scatter\n\
                      #FB stage_out source=/ckpt/x destination=/c\n#FBX none\n# FB none\n";
        let text = |text: &str| text.to_owned();
        let expected = vec![
            ("burst-capacity", text("100GiB"), 3),
            ("drain", text("end"), 3),
            ("stage-in", text("/a=/b/%u,scatter"), 4),
            ("stage-out", text("/ckpt/x=/c"), 5),
        ];
        assert_eq!(parsed(script), Ok(expected));
    }

    #[test]
    fn errors_are_reported_with_their_line() {
        for (line, problem) in [
            ("#FB capacity=lots", "'lots' is not a size"),
            ("#FB capacity", "has no value"),
            ("#FB policy=never", "never"),
            ("#FB speed=high", "'speed' is not known; the directives are capacity=, policy=, stage_in and stage_out"),
            ("#FB stage_in source=/a", "source=PATH and destination=PATH are needed"),
            ("#FB stage_in source=a destination=/b", "'a' is not an absolute path"),
            ("#FB stage_in source=/a b destination=/b", "'b' is not understood; paths have no blanks"),
            ("#FB stage_out source=/a destination=/b scatter", "'scatter' is not understood"),
        ] {
            let said = parsed(&format!("#!/bin/sh\n{line}\n")).unwrap_err();
            assert!(said.starts_with(&format!("job.sh, line 2: {line}: ")) && said.contains(problem), "{said}");
        }
    }

    const SCRIPT: &str = "#!/bin/sh\n#FB capacity=100GiB policy=end\n#FB stage_in source=/a destination=/b/%u scatter\n\
                          #FB\tstage_out source=/ckpt/x destination=/c\n#FB policy=auto\r\n";

    proptest! {
        /// With a few characters put anywhere, a script has directives that are options, or is refused with its line.
        #[test]
        fn any_script_is_read_or_refused(text in "[ -~\n\t\u{e9}#=]{0,6}", at in 0..SCRIPT.len(), cut in 0..9_usize) {
            let (before, after) = SCRIPT.split_at(at);
            let script = format!("{before}{text}{}", after.get(cut..).unwrap_or_default());
            match parsed(&script) {
                Ok(directives) => for (key, text, line) in directives {
                    let words = script.lines().nth(line - 1).unwrap();
                    prop_assert!(words.starts_with(MARK) && Setting::of(key).is_some_and(|one| (one.check)(&text).is_ok()));
                },
                Err(said) => prop_assert!(said.starts_with("job.sh, line "), "{}", said),
            }
        }
    }
}
