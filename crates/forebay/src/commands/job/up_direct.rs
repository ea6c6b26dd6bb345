//! `up --on-failure direct`: a start that fails costs the job its speed, and nothing more.
//!
//! The failure is one line on standard error. A record makes `forebay run` use the file system itself until `down` or the next `up`
//! of the job. A burst tier has no such way out: its files lie at DIR and may be in a store, and the file system has neither.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_launch::{DirectRecord, JobDirectory, NodeRecord};
use serde_json::json;

use crate::commands::job::up_stopped::Interrupted;
use crate::jobs::{self, base_for_new, job_bases};
use crate::output::{causes, say, tell, without_controls};
use crate::settings::values::OnFailure;
use crate::settings::{Effective, Settings, UsageError};

/// The way out of a start that fails.
pub struct WayOut {
    effective: Effective,
    settings: Settings,
    as_json: bool,
}

impl WayOut {
    /// That of a start that begins now; the record of an earlier one is removed.
    ///
    /// # Errors
    /// `UsageError` when the job has a burst tier.
    pub fn of(effective: &Effective, settings: &Settings, as_json: bool) -> anyhow::Result<Self> {
        if settings.on_failure == OnFailure::Direct && !settings.burst.is_empty() {
            let message = "--on-failure direct is for exports alone: with --burst, programs would miss the files that have not \
                           landed; leave one of them out";
            return Err(UsageError(message.to_owned()).into());
        }
        jobs::remove_direct(effective)?;
        Ok(Self { effective: effective.clone(), settings: settings.clone(), as_json })
    }

    /// Takes it, if it is wanted and leads out of this error.
    ///
    /// # Errors
    /// The error, if it does not.
    pub fn take(self, error: anyhow::Error) -> anyhow::Result<ExitCode> {
        let is_direct = self.settings.on_failure == OnFailure::Direct;
        if !is_direct || error.is::<UsageError>() || error.is::<Interrupted>() {
            return Err(error);
        }
        let job = jobs::name_meant(&self.effective)?;
        let bases = job_bases(self.settings.directory.as_deref());
        // Another `up` has started it, and its programs find it.
        if JobDirectory::find(&bases, &job).is_ok_and(|found| found.is_some_and(|job| is_alive(&job))) {
            return Err(error);
        }
        let why = in_one_line(&error);
        let since_unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let record = DirectRecord { job, since_unix_ms, why };
        if let Err(problem) = self.write(&record) {
            return Err(error.context(format!("--on-failure direct: the failure cannot be recorded: {problem:#}")));
        }
        let DirectRecord { job, why, .. } = record;
        tell!(
            "forebay: warning: the job {job} did not come up, and forebay run uses the file system itself (--on-failure direct): \
             {why}"
        );
        if self.as_json {
            say!("{}", json!({"job": job, "direct": true, "why": why, "nodes": []}));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn write(&self, record: &DirectRecord) -> anyhow::Result<()> {
        record.write(&base_for_new(self.settings.directory.as_deref(), true)?)?;
        if let Some(shared) = jobs::shared_record_base(&record.job) {
            std::fs::create_dir_all(shared.parent().unwrap_or(&shared))?;
            record.write(&shared)?;
        }
        Ok(())
    }
}

fn is_alive(directory: &JobDirectory) -> bool {
    NodeRecord::read_all(directory).iter().any(|node| node.is_alive(directory))
}

fn in_one_line(error: &anyhow::Error) -> String {
    let text = causes(error).join(": ");
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    without_controls(&lines.join("; "))
}
