//! The report of a job that ends: made by `down` of its daemons' last answer, else by `down`, `up` or the last node of a host, of the last
//! statuses that daemons had kept.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_daemon::LastStatus;
use forebay_launch::{JobDirectory, JobRecord, StartTimes, state_directory};
use serde_json::{Value, json};

use crate::jobs::variable;
use crate::kept_logs::{self, Kept, REPORT, REPORT_PAGE, Worth};
use crate::left::{self, Left};
use crate::recorded;
use crate::report::{End, Known, Report, figures, lines, page};
use crate::settings::Effective;
use crate::settings::values::{self, ReportChoice};
use crate::unlanded;

/// How long the end of a job waits for the last status of its nodes at most: longer than over three hops of 60 ms each way.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);

/// A report as JSON, bytes: what is kept of ten jobs has a limit. That of 1,000 nodes takes 2 MB.
const REPORT_BYTES_MAX: usize = 8 << 20;

/// The report of a job that is about to end.
pub struct Ending {
    job: String,
    reports: Option<PathBuf>,
    start: Option<StartTimes>,
    status: Option<Value>,
    known: Option<Known>,
}

impl Ending {
    /// Asks for the last status; `None` if no report is wanted.
    ///
    /// # Errors
    /// `UsageError` when `--report` is no place.
    pub fn begin(effective: &Effective, directory: &JobDirectory) -> anyhow::Result<Option<Self>> {
        let record = JobRecord::read(directory).ok().flatten();
        let choice = effective.report(record.as_ref().and_then(report_setting))?;
        let Some(reports) = place(choice) else { return Ok(None) };
        let answered = last_status(directory).map(|status| (Some(status), None));
        let (status, known) = answered.unwrap_or_else(|| of_kept(directory, LastStatus::read_all(directory), false));
        Ok(Some(Self { job: directory.job(), reports, start: record.and_then(|record| record.start), status, known }))
    }

    /// Keeps the report. The lines of it, and the same as JSON.
    pub fn keep(self, end: End) -> (Vec<String>, Value) {
        let base = self.reports.clone().or_else(|| state_directory(&variable));
        let (report, kept) = self.hand_over(end, None);
        let path = base.map(|base| base.join(&report.job).join(REPORT_PAGE));
        let shown = match (&path, &kept) {
            (_, Kept::Not(why)) => format!("not kept: {why}"),
            (Some(path), Kept::Whole) => path.display().to_string(),
            (Some(path), _) => format!("not yet: the file system of {} does not answer", path.display()),
            (None, _) => format!("not kept: {}", kept_logs::no_home()),
        };
        let mut value = report.json();
        value["page"] = json!(path.filter(|_| kept == Kept::Whole));
        (lines(&report, &shown), value)
    }

    /// With a `worth`, the report gives way to a better one of the same run.
    fn hand_over(self, end: End, worth: Option<Worth>) -> (Report, Kept) {
        let report = Report {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            job: self.job,
            ended_unix_ms: now_unix_ms(),
            start: self.start,
            end,
            status: self.status,
            known: self.known,
        };
        let page = page(&report);
        let as_json = serde_json::to_vec(&report).unwrap_or_default();
        let mut files = vec![(REPORT_PAGE, page.as_bytes())];
        files.extend((as_json.len() <= REPORT_BYTES_MAX).then_some((REPORT, as_json.as_slice())));
        let kept = kept_logs::keep_report(&report.job, self.reports.as_deref(), worth, &files);
        (report, kept)
    }
}

/// Makes the report of a job that ends without `down`, as far as this host's nodes tell; by the last of these, or by an `up` that finds them dead. There is
/// none where `down` makes it, or before the job has served. A failure is an event of the log, and nothing more.
pub fn without_down(directory: &JobDirectory, by_node: bool) {
    let all = LastStatus::read_all(directory);
    let is_by_down = |last: &LastStatus| last.end.as_ref().is_some_and(|end| end.by_down);
    if all.is_empty() || all.iter().any(is_by_down) {
        return;
    }
    let record = JobRecord::read(directory).ok().flatten();
    let choice = record.as_ref().and_then(report_setting).and_then(|text| values::report(text).ok());
    let Some(reports) = place(choice.unwrap_or(ReportChoice::Auto)) else { return };
    let end = end(directory, record.as_ref(), &all);
    let began_unix_ms = all.iter().map(LastStatus::began_unix_ms).min().unwrap_or_default();
    let worth = Worth { began_unix_ms, known: all.len(), has_start: record.is_some() };
    let (status, known) = of_kept(directory, all, by_node);
    let ending = Ending { job: directory.job(), reports, start: record.and_then(|record| record.start), status, known };
    if let (_, Kept::Not(why)) = ending.hand_over(end, Some(worth)) {
        tracing::warn!("the report of the job is not kept: {why}");
    }
}

/// The outcome of an end without `down`.
fn end(directory: &JobDirectory, record: Option<&JobRecord>, all: &[LastStatus]) -> End {
    let lefts = unlanded::lefts(all);
    let untold = all.iter().filter(|last| lefts.is_empty() && unlanded::may_hold_unlanded(last, all));
    let untold: Vec<u32> = untold.map(|last| last.rank().0).collect();
    let kept = unlanded::Unlanded::of(directory).filter(|unlanded| !unlanded.is_none());
    let kept = kept.map(|unlanded| format!("On host {}: {}", unlanded.host(), unlanded.command()));
    let stages_out = record.and_then(|record| record.settings.get("stage-out")?.as_array());
    End {
        ended: all.iter().filter(|last| last.end.is_some()).count(),
        missing: vec![],
        not_landed: lefts.iter().flat_map(Left::lines).collect(),
        kept: kept.or_else(|| (!lefts.is_empty()).then(|| left::kept(&lefts, None))),
        untold,
        is_staged_out: stages_out.is_none_or(Vec::is_empty),
    }
}

/// `--report` of the job.
fn report_setting(record: &JobRecord) -> Option<&str> {
    record.settings.get("report")?.get(0)?.as_str()
}

/// The place of reports, `None` of which is that of the logs; `None` if none is wanted.
fn place(choice: ReportChoice) -> Option<Option<PathBuf>> {
    match choice {
        ReportChoice::Off => None,
        ReportChoice::Auto => Some(None),
        ReportChoice::Directory(directory) => Some(Some(directory)),
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
            recorded::complete(directory, &mut status);
            return Some(figures::trimmed(status));
        }
    }
    None
}

/// The same of what the nodes of this host have kept.
fn of_kept(directory: &JobDirectory, all: Vec<LastStatus>, by_node: bool) -> (Option<Value>, Option<Known>) {
    let killed = all.iter().filter(|last| last.end.is_none()).map(|last| (last.rank().0, last.at_unix_ms)).collect();
    let known = all.len();
    let last_unix_ms = all.iter().map(|last| last.at_unix_ms).max().unwrap_or_default();
    let Some(mut status) = LastStatus::combined(all) else { return (None, None) };
    let nodes = status["job"]["nodes"].as_u64().map_or(known, |nodes| nodes as usize);
    recorded::complete(directory, &mut status);
    // `complete` counts until now; a job that was killed may have been dead for long.
    if let Some(up_ms) = status.pointer("/job/uptime_ms").and_then(Value::as_u64) {
        status["job"]["uptime_ms"] = up_ms.saturating_sub(now_unix_ms().saturating_sub(last_unix_ms)).into();
    }
    (Some(figures::trimmed(status)), Some(Known { by_node, known, nodes, killed }))
}

fn now_unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
