//! The report of a job: made and kept by `down`, shown by `report`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use forebay_launch::{JobDirectory, JobRecord, StartTimes, state_directory};
use serde_json::{Value, json};

use crate::cli::ReportArguments;
use crate::commands::job::status::name_missing;
use crate::exit::DONE_IN_PART;
use crate::jobs::{self, variable};
use crate::kept_logs::{self, Kept, REPORT, REPORT_PAGE, kept_jobs};
use crate::output::{say, without_controls};
use crate::patience::after_a_second;
use crate::report::{End, Report, figures, lines, page, side_by_side};
use crate::settings::Effective;
use crate::settings::values::ReportChoice;

/// How long the end of a job waits for the last status of its nodes at most.
const STATUS_TIMEOUT: Duration = Duration::from_millis(200);

/// A report as JSON, bytes: what is kept of ten jobs has a limit. That of 1,000 nodes takes 2 MB.
const REPORT_BYTES_MAX: usize = 8 << 20;

/// The report of a job that is about to end.
pub struct Ending {
    job: String,
    reports: Option<PathBuf>,
    start: Option<StartTimes>,
    status: Option<Value>,
}

impl Ending {
    /// Asks for the last status; `None` if no report is wanted.
    ///
    /// # Errors
    /// `UsageError` when `--report` is no place.
    pub fn begin(effective: &Effective, directory: &JobDirectory) -> anyhow::Result<Option<Self>> {
        let record = JobRecord::read(directory).ok().flatten();
        let of_job = record.as_ref().and_then(|record| record.settings.get("report")?.get(0)?.as_str());
        let reports = match effective.report(of_job)? {
            ReportChoice::Off => return Ok(None),
            ReportChoice::Auto => None,
            ReportChoice::Directory(directory) => Some(directory),
        };
        let start = record.and_then(|record| record.start);
        Ok(Some(Self { job: directory.job(), reports, start, status: last_status(directory) }))
    }

    /// Keeps the report. The lines of it, and the same as JSON.
    pub fn keep(self, end: End) -> (Vec<String>, Value) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let report = Report {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            job: self.job,
            ended_unix_ms: since.as_millis() as u64,
            start: self.start,
            end,
            status: self.status,
        };
        let page = page(&report);
        let as_json = serde_json::to_vec(&report).unwrap_or_default();
        let mut files = vec![(REPORT_PAGE, page.as_bytes())];
        files.extend((as_json.len() <= REPORT_BYTES_MAX).then_some((REPORT, as_json.as_slice())));
        let kept = kept_logs::keep_report(&report.job, self.reports.as_deref(), &files);
        let base = self.reports.or_else(|| state_directory(&variable));
        let path = base.map(|base| base.join(&report.job).join(REPORT_PAGE)).filter(|_| kept != Kept::Not);
        let shown = match (&path, kept) {
            (Some(path), Kept::Whole) => path.display().to_string(),
            (Some(path), _) => format!("not yet: the file system of {} does not answer", path.display()),
            (None, _) => "not kept: the directory for reports cannot be written to".to_owned(),
        };
        let mut value = report.json();
        value["page"] = json!(path.filter(|_| kept == Kept::Whole));
        (lines(&report, &shown), value)
    }
}

/// The first daemon of this host that answers, within the time for all of them.
fn last_status(directory: &JobDirectory) -> Option<Value> {
    let until = Instant::now() + STATUS_TIMEOUT;
    for rank in directory.socket_ranks() {
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        if let Ok(mut status) =
            forebay_control::ask_if_there(&directory.socket(rank), &json!({"command": "status"}), left)
        {
            name_missing(directory, &mut status);
            return Some(figures::trimmed(status));
        }
    }
    None
}

/// Shows reports of jobs that have ended.
pub fn run(arguments: &ReportArguments) -> anyhow::Result<ExitCode> {
    let effective = Effective::merge(arguments.given.0.clone(), arguments.file.config.clone())?;
    let base = match effective.report(None)? {
        ReportChoice::Directory(directory) => directory,
        _ => state_directory(&variable).context("there is no home directory, so no reports are kept (--report DIR)")?,
    };
    let shown = base.display().to_string();
    let _told = after_a_second(move || format!("looking into {shown}; its file system has not answered yet"));
    let mut names = arguments.jobs.clone();
    if names.is_empty() {
        names.extend(effective.job()?.or_else(jobs::of_scheduler));
    }
    let directories = chosen(&base, &names)?;
    if let Some(without) = directories.iter().find(|directory| !directory.join(REPORT_PAGE).exists()) {
        let job = without.file_name().unwrap_or_default().to_string_lossy();
        eprintln!(
            "forebay: job {job} ended without forebay down, or with --report off: it has no report; its logs are in {}",
            without.display()
        );
        return Ok(ExitCode::from(DONE_IN_PART));
    }
    show(arguments, &directories)?;
    Ok(ExitCode::SUCCESS)
}

fn chosen(base: &Path, names: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let kept = kept_jobs(base);
    if names.is_empty() {
        let last = kept.into_iter().next();
        return Ok(vec![last.with_context(|| format!("no report of a job that has ended is in {}", base.display()))?]);
    }
    let is_of = |path: &PathBuf, name: &String| path.file_name().is_some_and(|of| of.to_str() == Some(name));
    let find = |name: &String| kept.iter().find(|path| is_of(path, name)).cloned();
    names
        .iter()
        .map(|name| find(name).with_context(|| format!("no report of job {name} is in {}", base.display())))
        .collect()
}

fn show(arguments: &ReportArguments, directories: &[PathBuf]) -> anyhow::Result<()> {
    let pages: Vec<PathBuf> = directories.iter().map(|directory| directory.join(REPORT_PAGE)).collect();
    if arguments.html {
        pages.iter().for_each(|page| say!("{}", without_controls(&page.display().to_string())));
        return Ok(());
    }
    if arguments.open {
        return pages.iter().try_for_each(|page| open(page));
    }
    let reports = directories.iter().map(|directory| read(directory)).collect::<anyhow::Result<Vec<Report>>>()?;
    match (reports.as_slice(), arguments.json) {
        ([one], true) => say!("{}", with_page(one, &pages[0])),
        ([one], false) => {
            lines(one, &pages[0].display().to_string()).iter().for_each(|line| say!("{}", without_controls(line)));
        }
        (several, true) => {
            let all: Vec<Value> = several.iter().zip(&pages).map(|(report, page)| with_page(report, page)).collect();
            say!("{}", json!(all));
        }
        (several, false) => side_by_side(several).iter().for_each(|line| say!("{}", without_controls(line))),
    }
    Ok(())
}

fn with_page(report: &Report, page: &Path) -> Value {
    let mut value = report.json();
    value["page"] = json!(page);
    value
}

fn read(directory: &Path) -> anyhow::Result<Report> {
    let path = directory.join(REPORT);
    let page = directory.join(REPORT_PAGE);
    ensure!(path.exists(), "this job was too large for more than its page: {}", page.display());
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not a report; see {}", path.display(), page.display()))
}

fn open(page: &Path) -> anyhow::Result<()> {
    let status = Command::new("xdg-open").arg(page).stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot run xdg-open; the page is {}", page.display()))?;
    if !status.success() {
        bail!("xdg-open failed ({status}); the page is {}", page.display());
    }
    Ok(())
}
