//! The failure of the user's command, with the end of its standard error.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use forebay_trial::storm::ProgramFailed;

use crate::output::without_controls;

/// The end of a failed program's standard error, bytes.
const ERRORS_SHOWN_BYTES: usize = 4096;

/// The user's command failed.
#[derive(Debug, thiserror::Error)]
#[error("the command failed {place} ({how}){said}")]
pub struct CommandFailed {
    place: &'static str,
    how: String,
    /// Its standard error.
    said: String,
    /// The exit status of the trial.
    pub status: u8,
}

impl CommandFailed {
    /// The error of a run, as one of the command where it comes from it.
    pub fn of(error: anyhow::Error, place: &'static str, errors: &Path) -> anyhow::Error {
        let Some(failed) = error.downcast_ref::<ProgramFailed>() else {
            let said = said(errors);
            return if said.is_empty() { error } else { error.context(said.trim().to_owned()) };
        };
        let code = failed.status.code().or_else(|| failed.status.signal().map(|signal| 128 + signal));
        let status = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
        let said = said(errors);
        let said = if said.is_empty() { said } else { format!("; it said:\n{}", said.trim_end()) };
        Self { place, how: failed.status.to_string(), said, status }.into()
    }
}

/// The end of the first program's standard error that has any.
fn said(errors: &Path) -> String {
    let mut files: Vec<_> = fs::read_dir(errors).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    let text = files.iter().find_map(|file| fs::read(file).ok().filter(|bytes| !bytes.is_empty())).unwrap_or_default();
    without_controls(&String::from_utf8_lossy(&text[text.len().saturating_sub(ERRORS_SHOWN_BYTES)..]))
}
