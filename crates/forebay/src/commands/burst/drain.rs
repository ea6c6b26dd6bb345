//! `drain`: lets what programs wrote to the burst tier land now.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use forebay_daemon::Progress;
use forebay_launch::JobDirectory;
use serde_json::{Value, json};

use crate::cli::DrainArguments;
use crate::commands::ask::ask_any;
use crate::commands::burst::landed;
use crate::exit::DONE_IN_PART;
use crate::health::amounts::{part, rate, span};
use crate::health::shown::amount;
use crate::jobs;
use crate::output::say;
use crate::progress::ProgressLine;

/// How long a daemon waits for what lands before it says how far it is.
const ROUND: Duration = Duration::from_secs(1);

/// The time that a daemon's answer may take beyond that.
const ANSWER: Duration = Duration::from_secs(30);

/// How long something may keep a drain that nobody gave a time, while nothing lands.
const STUCK: Duration = Duration::from_secs(30);

/// How long daemons that have answered may say nothing: those of a busy node do, and go on landing meanwhile.
const SILENT: Duration = Duration::from_secs(30);

/// How long one rests that was refused at once.
const REST: Duration = Duration::from_millis(200);

/// Drains.
pub fn run(arguments: DrainArguments) -> anyhow::Result<ExitCode> {
    let effective = arguments.of_job.effective()?;
    let directory = jobs::find(&effective)?;
    if !arguments.paths.is_empty() {
        return of_paths(&directory, &arguments.paths, arguments.wait.then_some(arguments.timeout), arguments.json);
    }
    let progress = match arguments.wait {
        true => wait_by(arguments.timeout, "", |time| ask(&directory, time, false))?,
        false => ask(&directory, Duration::ZERO, false)?,
    };
    let has_landed = progress.steps == 0 && progress.why.is_none();
    if arguments.json {
        let Progress { steps, why, bytes, files, landed_bytes, bytes_per_s, time_left_ms, .. } = &progress;
        say!(
            "{}",
            json!({"landed": has_landed, "steps_to_land": steps, "why": why, "left_bytes": bytes, "left_files": files,
                   "landed_bytes": landed_bytes, "bytes_per_s": bytes_per_s, "time_left_ms": time_left_ms})
        );
    } else if has_landed {
        say!("all has landed");
    } else {
        say!("{}", told(&progress));
    }
    Ok(if has_landed { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}

/// Lands all, and waits for some of it. Its order is that of the changes: nothing is brought forward.
fn of_paths(
    directory: &JobDirectory,
    paths: &[PathBuf],
    wait: Option<Option<Duration>>,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let files = || landed::of_paths(directory, paths);
    let have_landed = |files: &[Value]| files.iter().all(|file| file["state"] == "landed");
    // Wrong paths are told before anything is waited for.
    files()?;
    match wait {
        None => drop(ask(directory, Duration::ZERO, false)?),
        Some(timeout) => {
            let round = |time| {
                let progress = ask(directory, time, false)?;
                let is_final = progress.is_final || have_landed(&files()?);
                Ok(Progress { is_final, ..progress })
            };
            drop(wait_by(timeout, "", round)?);
        }
    }
    let files = files()?;
    let has_landed = have_landed(&files);
    match as_json {
        true => say!("{}", json!({"landed": has_landed, "files": files})),
        false => landed::print(&files),
    }
    Ok(if has_landed { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}

/// Waits at the job's end until all has landed: programs change nothing from then on.
///
/// # Errors
/// When no daemon answers, or there is no burst tier.
pub fn wait_last(directory: &JobDirectory) -> anyhow::Result<Progress> {
    wait_by(None, "; Ctrl-C keeps the job: its programs can write again 2 min later", |time| ask(directory, time, true))
}

/// Waits until all has landed that `drain` lets land, `timeout` at most; without one until something has kept it for a while. `drain`
/// waits for so long at most. `notice` is said with the progress.
///
/// # Errors
/// As `drain`.
pub fn wait_by(
    timeout: Option<Duration>,
    notice: &str,
    mut drain: impl FnMut(Duration) -> anyhow::Result<Progress>,
) -> anyhow::Result<Progress> {
    let began = Instant::now();
    let (mut kept, mut amount, mut shown) = (Kept::default(), Amount::default(), ProgressLine::begin());
    let mut heard = None;
    loop {
        let left = timeout.map_or(ROUND, |timeout| timeout.saturating_sub(began.elapsed()).min(ROUND));
        let progress = match drain(left) {
            Err(error)
                if is_silence(&error) && !left.is_zero() && heard.is_some_and(|at| is_busy(at, Instant::now())) =>
            {
                std::thread::sleep(REST);
                continue;
            }
            progress => progress?,
        };
        heard = Some(Instant::now());
        if progress.is_final || progress.steps == 0 && progress.why.is_none() {
            return Ok(progress);
        }
        let is_kept = kept.note(&progress, Instant::now());
        if timeout.is_some_and(|timeout| began.elapsed() >= timeout) || timeout.is_none() && is_kept {
            return Ok(progress);
        }
        amount.note(&progress);
        shown.show(|| format!("{}{notice}", amount.line(&progress)));
    }
}

/// Whether daemons that answered at `heard` and say nothing `now` may be those of a busy node.
fn is_busy(heard: Instant, now: Instant) -> bool {
    now.duration_since(heard) < SILENT
}

/// Whether a daemon is there and says nothing, or takes no connection for now. One that has gone refuses.
fn is_silence(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    matches!(kind, Some(ErrorKind::TimedOut | ErrorKind::WouldBlock))
}

/// How much there is to land in all. More may come while it lands.
#[derive(Default)]
struct Amount {
    first_landed_bytes: Option<u64>,
    all_bytes: u64,
}

impl Amount {
    fn note(&mut self, progress: &Progress) {
        let first = *self.first_landed_bytes.get_or_insert(progress.landed_bytes);
        let landed = progress.landed_bytes.saturating_sub(first);
        self.all_bytes = self.all_bytes.max(landed + progress.bytes);
    }

    /// `landing: 120 of 300 MiB, 20 MB/s, 9 s left (1 file)`.
    fn line(&self, progress: &Progress) -> String {
        let mut words = match self.all_bytes {
            0 => vec![amount(0, 0, progress.steps as u64)],
            all => vec![part(all.saturating_sub(progress.bytes), all)],
        };
        words.extend(progress.bytes_per_s.map(rate));
        let left = progress.time_left_ms.map(Duration::from_millis);
        words.extend(left.map(|left| format!("{} left", span(left))));
        let files = match progress.files {
            0 => String::new(),
            1 => " (1 file)".to_owned(),
            files => format!(" ({files} files)"),
        };
        let why = progress.why.as_ref().map_or_else(String::new, |why| format!("; {why}"));
        format!("landing: {}{files}{why}", words.join(", "))
    }
}

/// Since when something has kept a drain, and how far it had come by then. Something that is tried again sends the same bytes again: only what
/// goes further than anything before has moved the drain on.
#[derive(Default)]
struct Kept {
    since: Option<Instant>,
    /// Changes that have landed, and the most bytes of the next one that were verified.
    furthest: Option<(u64, u64)>,
}

impl Kept {
    /// Whether something has kept it for long now. A name that others have taken keeps no other.
    fn note(&mut self, progress: &Progress, now: Instant) -> bool {
        let reached = Some((progress.landed_steps, progress.attempt_bytes));
        let goes_on = reached > self.furthest;
        self.furthest = self.furthest.max(reached);
        if progress.why.is_none() || goes_on {
            self.since = None;
        }
        progress.why.is_some() && now.duration_since(*self.since.get_or_insert(now)) >= STUCK
    }
}

/// The changes that have not landed, in words.
pub fn told(progress: &Progress) -> String {
    if let (0, Some(why)) = (progress.steps, &progress.why) {
        return why.clone();
    }
    let why = progress.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
    let mut amount = amount(progress.bytes, progress.files, progress.steps as u64);
    if why.is_empty() {
        let left = progress.time_left_ms.map(Duration::from_millis).filter(|_| progress.bytes_per_s.is_some());
        amount.extend(progress.bytes_per_s.map(|bytes_per_s| format!(", {}", rate(bytes_per_s))));
        amount.extend(left.map(|left| format!(", {} left", span(left))));
    }
    format!("not landed: {amount}{why}")
}

fn ask(directory: &JobDirectory, wait: Duration, is_last: bool) -> anyhow::Result<Progress> {
    let question = json!({"command": "drain", "wait_ms": wait.as_millis() as u64, "is_last": is_last});
    let answer: Value = ask_any(directory, None, &question, wait + ANSWER)?;
    match serde_json::from_value(answer.clone()) {
        Ok(progress) => Ok(progress),
        Err(error) => bail!(anyhow::Error::from(error).context(format!("the daemon answered {answer}"))),
    }
}

/// Whether the job has a burst tier, as far as its nodes here know.
pub fn is_wanted(directory: &JobDirectory) -> bool {
    setting(directory, "burst").is_some()
}

/// Whether only `drain` lets anything land.
pub fn is_manual(directory: &JobDirectory) -> bool {
    setting(directory, "drain").is_some_and(|policy| policy == json!(["manual"]))
}

/// `--burst-store` of the job.
pub fn store(directory: &JobDirectory) -> Option<String> {
    setting(directory, "burst-store")?.get(0)?.as_str().map(str::to_owned)
}

/// The changes that have not landed because no drain was run.
pub fn kept_by_policy(directory: &JobDirectory) -> Option<String> {
    let status: Value = match ask_any(directory, None, &json!({"command": "status"}), ANSWER) {
        Ok(status) => status,
        Err(error) => return Some(format!("cannot determine what has not landed: {error:#}")),
    };
    let nodes = status["nodes"].as_array().into_iter().flatten();
    let number = |node: &Value, name: &str| node["burst"][name].as_u64().unwrap_or(0);
    let left: u64 = nodes.map(|node| number(node, "steps_to_land") + number(node, "dirty_bytes").min(1)).sum();
    let (have, them) = if left == 1 { (" of the burst tier has", "it") } else { ("s of the burst tier have", "them") };
    (left > 0).then(|| {
        format!("{left} change{have} not landed, because the job has --drain manual; forebay drain lands {them}")
    })
}

fn setting(directory: &JobDirectory, name: &str) -> Option<Value> {
    let record = forebay_launch::JobRecord::read(directory).context("no record").ok().flatten()?;
    record.settings.get(name).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(landed_steps: u64, attempt_bytes: u64, has_why: bool) -> Progress {
        Progress { steps: 9, why: has_why.then(String::new), landed_steps, attempt_bytes, ..Progress::default() }
    }

    #[test]
    fn a_drain_is_kept_by_what_stands_still_only() {
        let (began, mut kept) = (Instant::now(), Kept::default());
        let mut is_kept = |seconds: u64, landed_steps: u64, attempt_bytes: u64, has_why: bool| {
            kept.note(&progress(landed_steps, attempt_bytes, has_why), began + Duration::from_secs(seconds))
        };
        assert!(!is_kept(0, 4, 0, true));
        assert!(!is_kept(40, 5, 0, true), "a step has landed");
        assert!(!is_kept(80, 5, 4, true), "bytes have");
        assert!(!is_kept(100, 5, 4, true));
        assert!(!is_kept(105, 5, 4, false), "nothing keeps it");
        assert!(!is_kept(120, 5, 4, true));
        assert!(is_kept(150, 5, 4, true));
        assert!(!is_kept(151, 6, 0, true), "it goes on");
    }

    #[test]
    fn a_drain_outlives_a_silent_second_and_no_lost_daemon() {
        let of_kind = |kind| Err(anyhow::Error::new(std::io::Error::from(kind)).context("the daemon says nothing"));
        let landed = || Ok(Progress { is_final: true, landed_steps: 7, ..Progress::default() });
        let waited = |answers: Vec<anyhow::Result<Progress>>| {
            let mut answers = answers.into_iter();
            wait_by(None, "", |_| answers.next().expect("no further question"))
        };
        let begun = || Ok(progress(1, 0, false));
        let silent = || of_kind(ErrorKind::TimedOut);
        let ended = waited(vec![begun(), silent(), of_kind(ErrorKind::WouldBlock), begun(), silent(), landed()]);
        assert_eq!(ended.unwrap().landed_steps, 7);
        assert!(waited(vec![silent()]).is_err(), "it has never answered");
        assert!(waited(vec![begun(), of_kind(ErrorKind::ConnectionRefused)]).is_err(), "it has gone");
        assert!(waited(vec![begun(), Err(anyhow::anyhow!("no burst tier"))]).is_err(), "it has said why");
        let heard = Instant::now();
        assert!(is_busy(heard, heard + SILENT / 2) && !is_busy(heard, heard + SILENT));
    }

    #[test]
    fn a_drain_says_how_far_it_is() {
        let mib = 1 << 20;
        let mut amount = Amount::default();
        let at = |landed: u64, left: u64| Progress {
            steps: 1,
            bytes: left * mib,
            files: 1,
            landed_bytes: (1000 + landed) * mib,
            bytes_per_s: Some(20_000_000),
            time_left_ms: Some(9400),
            ..Progress::default()
        };
        amount.note(&at(0, 300));
        amount.note(&at(120, 180));
        assert_eq!(amount.line(&at(120, 180)), "landing: 120 of 300 MiB, 20 MB/s, 9 s left (1 file)");
        assert_eq!(told(&at(120, 180)), "not landed: 180 MiB in 1 file, 20 MB/s, 9 s left");
        let begun = Progress { bytes_per_s: None, time_left_ms: None, ..at(0, 300) };
        assert_eq!(amount.line(&begun), "landing: 0 of 300 MiB (1 file)", "a rate that is not known is not said");
        let kept = Progress { why: Some("no room".to_owned()), ..at(0, 300) };
        assert_eq!(told(&kept), "not landed: 300 MiB in 1 file: no room");
        let names = Progress { steps: 3, ..Progress::default() };
        assert_eq!(Amount::default().line(&names), "landing: 3 changes of names");
    }

    /// Before, each attempt counted as progress.
    #[test]
    fn a_drain_is_kept_by_what_fails_again_and_again() {
        let (began, mut kept) = (Instant::now(), Kept::default());
        let attempts = (0..30).map(|second| (second, [10, 40, 0, 25][second as usize % 4]));
        for (second, attempt_bytes) in attempts {
            assert!(!kept.note(&progress(5, attempt_bytes, true), began + Duration::from_secs(second)), "{second}");
        }
        assert!(
            !kept.note(&progress(5, 30, true), began + Duration::from_secs(30)),
            "it went further a second after it began"
        );
        assert!(kept.note(&progress(5, 30, true), began + Duration::from_secs(31)));
        assert!(!kept.note(&progress(5, 41, true), began + Duration::from_secs(40)), "this attempt goes further");
        assert!(!kept.note(&progress(4, 90, true), began + Duration::from_secs(69)));
        assert!(
            kept.note(&progress(4, 90, true), began + Duration::from_secs(70)),
            "a leader that has landed less does not"
        );
    }
}
