//! Staging that a job does automatically: in when it is up, out when it is taken down.

use std::path::{Path, PathBuf};

use forebay_launch::{JobDirectory, JobRecord};
use serde_json::Value;

use crate::commands::paths::resolved;
use crate::commands::stage::places::{Order, Way};
use crate::commands::stage::staged;
use crate::jobs::variable;
use crate::output::{causes, tell};
use crate::settings::values::{self, StagePair};

/// The same for what the job's record says.
pub fn of_record(way: Way, directory: &JobDirectory) -> bool {
    let key = if way == Way::In { "stage-in" } else { "stage-out" };
    let record = JobRecord::read(directory).ok().flatten();
    let texts = record.as_ref().and_then(|record| record.settings.get(key)?.as_array());
    let pairs: Vec<StagePair> =
        texts.into_iter().flatten().filter_map(Value::as_str).filter_map(|text| values::stage(text).ok()).collect();
    carry_out(way, &pairs, directory)
}

/// Stages each pair, says what came of it on standard error, and returns whether all is there.
pub fn carry_out(way: Way, pairs: &[StagePair], directory: &JobDirectory) -> bool {
    let mut is_whole = true;
    for pair in pairs {
        let path = |path: &Path| resolved(&expanded(path, &directory.job()));
        let (source, destination) = (path(&pair.source), path(&pair.destination));
        let order = Order { way, source, destination, scatter: pair.scatter };
        match staged(directory, &order) {
            Ok(report) => {
                report.tell();
                is_whole &= report.is_whole();
            }
            Err(error) => {
                let verb = if way == Way::In { "in" } else { "out" };
                tell!("forebay: cannot stage {verb} {}: {}", order.source.display(), causes(&error).join(": "));
                is_whole = false;
            }
        }
    }
    is_whole
}

/// With `%u` for the user and `%j` for the job.
fn expanded(path: &Path, job: &str) -> PathBuf {
    let user = variable("USER").or_else(|| variable("LOGNAME")).unwrap_or_default();
    let mut text = String::new();
    let mut rest = path.to_str().unwrap_or_default().chars();
    while let Some(next) = rest.next() {
        match (next, rest.clone().next()) {
            ('%', Some(symbol @ ('u' | 'j' | '%'))) => {
                rest.next();
                text += match symbol {
                    'u' => &user,
                    'j' => job,
                    _ => "%",
                };
            }
            _ => text.push(next),
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_stand_for_the_job_and_the_user() {
        let user = variable("USER").or_else(|| variable("LOGNAME")).unwrap_or_default();
        let expected = PathBuf::from(format!("/bb/{user}/7/100%/%x"));
        assert_eq!(expanded(Path::new("/bb/%u/%j/100%%/%x"), "7"), expected);
    }
}
