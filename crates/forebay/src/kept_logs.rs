//! Logs and reports of jobs that have ended, in `~/.local/state/forebay/JOB/` of their user.
//!
//! A home directory may hang, be read-only or be missing, and no job must wait for it. So a process of its own writes there
//! (`forebay keep-logs`). It gets the logs in a memory file, because the job's directory goes meanwhile, and nobody waits for its end
//! longer than `WAIT`. The logs of the last jobs stay, within a limit for all of them.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use forebay_launch::{JobDirectory, MemoryFile, check_job_name, state_directory, state_home};
use serde::{Deserialize, Serialize};

use crate::jobs::variable;
use crate::kept_files::{make_directory, write_whole};
use crate::report::Known;
use crate::unlanded::{Unlanded, notes_in};

/// How long the end of a job waits at most. A home directory that answers takes milliseconds.
const WAIT: Duration = Duration::from_millis(200);

/// Whether it has been waited for in vain: this process does not wait for it again.
static IS_SILENT: AtomicBool = AtomicBool::new(false);

/// How often it is seen whether the process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How long the process may take: then it gives the home directory up.
const GIVE_UP: Duration = Duration::from_secs(60);

/// Jobs whose logs are kept.
const JOBS_KEPT: usize = 10;

/// The logs of all of them, bytes.
const KEPT_BYTES_MAX: u64 = 64 << 20;

/// The logs of one host, bytes: they are in memory for a moment.
const HOST_BYTES_MAX: u64 = 16 << 20;

/// One log, bytes: its end is what tells why a job ended.
const LOG_BYTES_MAX: u64 = 4 << 20;

/// The reason why nothing is kept, bytes.
const LAST_WORDS_BYTES_MAX: u64 = 4096;

/// The order to the process: a line of JSON, then the bytes of the logs, one after the other.
#[derive(Serialize, Deserialize, Debug)]
struct Order {
    job: String,
    /// When the job began, where it has just done so: older logs of its name are those of an earlier one, and get another. The process may come
    /// late, when this job has ended.
    began: Option<SystemTime>,
    /// Names and lengths.
    logs: Vec<(String, u64)>,
    /// Where reports are kept, if not with the logs.
    reports: Option<PathBuf>,
    /// The worth of a report that gives way to a better one.
    #[serde(default)]
    worth: Option<Worth>,
    /// The stores of this host with files of the job that have not landed, if it has a burst tier.
    #[serde(default)]
    unlanded: Option<Unlanded>,
}

/// The worth of a report that the last node of a host makes: other hosts make theirs, and `down` may make one that knows of all nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Worth {
    /// When the run began, milliseconds since 1970: a report that is older is of an earlier run.
    pub began_unix_ms: u64,
    /// Nodes of which it knows.
    pub known: usize,
    /// Whether it knows of the job's start.
    pub has_start: bool,
}

/// The part of a kept report that tells its worth.
#[derive(Deserialize)]
struct KeptWorth {
    ended_unix_ms: u64,
    start: Option<serde::de::IgnoredAny>,
    known: Option<Known>,
}

impl Order {
    /// One about nothing yet.
    fn of(job: &str) -> Self {
        Self { job: job.to_owned(), began: None, logs: vec![], reports: None, worth: None, unlanded: None }
    }
}

/// The page of a job's report.
pub const REPORT_PAGE: &str = "report.html";

/// The report as JSON.
pub const REPORT: &str = "report.json";

/// Whether files were kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kept {
    /// They are there.
    Whole,
    /// The home directory has not answered yet.
    Late,
    /// They could not be written, for this reason.
    Not(String),
}

/// Moves the logs of an earlier job of this name away. It is not waited for.
pub fn begin(job: &str) {
    hand_over(&Order { began: Some(SystemTime::now()), ..Order::of(job) }, &[], Duration::ZERO);
}

/// Keeps the report of a job below `reports`, else with its logs. One with a `worth` gives way to a better one of the same run.
pub fn keep_report(job: &str, reports: Option<&Path>, worth: Option<Worth>, files: &[(&str, &[u8])]) -> Kept {
    let names = files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.len() as u64)).collect();
    let bytes: Vec<&[u8]> = files.iter().map(|(_, bytes)| *bytes).collect();
    let order = Order { logs: names, reports: reports.map(Path::to_owned), worth, ..Order::of(job) };
    hand_over(&order, &bytes, WAIT)
}

/// Brings the note about a job's stores on this host up to date.
pub fn keep_note(job: &str, unlanded: Unlanded) {
    hand_over(&Order { unlanded: Some(unlanded), ..Order::of(job) }, &[], WAIT);
}

/// Keeps the logs of a job that ends on this host, and the note about its stores. A failure is an event of the log, and nothing more.
pub fn keep(directory: &JobDirectory) {
    let paths: Vec<PathBuf> = logs_in(&directory.logs());
    let bytes_max = LOG_BYTES_MAX.min(HOST_BYTES_MAX / paths.len().max(1) as u64);
    let logs: Vec<(String, Vec<u8>)> = paths
        .iter()
        .filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), end_of(path, bytes_max).ok()?)))
        .filter(|(_, bytes)| !bytes.is_empty())
        .collect();
    let unlanded = Unlanded::of(directory);
    if logs.is_empty() && unlanded.is_none() {
        return;
    }
    let names = logs.iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect();
    let bytes: Vec<&[u8]> = logs.iter().map(|(_, bytes)| bytes.as_slice()).collect();
    hand_over(&Order { logs: names, unlanded, ..Order::of(&directory.job()) }, &bytes, WAIT);
}

/// The logs in a directory, by name.
pub fn logs_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    // A pipe of that name would be waited for.
    let is_file = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_file());
    let is_log = |path: &PathBuf| path.extension().is_some_and(|end| end == "log") && is_file(path);
    let mut logs: Vec<PathBuf> = entries.filter(is_log).collect();
    logs.sort();
    logs
}

/// The end of a file, from the beginning of a line.
pub fn end_of(path: &Path, bytes_max: u64) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let skipped = file.metadata()?.len().saturating_sub(bytes_max);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = vec![];
    file.take(bytes_max).read_to_end(&mut bytes)?;
    if skipped == 0 {
        return Ok(bytes);
    }
    let line = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
    let note = format!("{} bytes of the log before this line were not kept\n", skipped + line as u64);
    Ok([note.as_bytes(), &bytes[line..]].concat())
}

fn hand_over(order: &Order, files: &[&[u8]], wait: Duration) -> Kept {
    let wait = if IS_SILENT.load(Ordering::Relaxed) { Duration::ZERO } else { wait };
    let kept = try_to_hand_over(order, files, wait).unwrap_or_else(|error| {
        tracing::debug!(error = format!("{error:#}"), "the files are not kept");
        Kept::Not(format!("{error:#}"))
    });
    if kept == Kept::Late && !wait.is_zero() {
        IS_SILENT.store(true, Ordering::Relaxed);
    }
    kept
}

fn try_to_hand_over(order: &Order, files: &[&[u8]], wait: Duration) -> anyhow::Result<Kept> {
    if order.reports.is_none() && state_directory(&variable).is_none() {
        return Ok(Kept::Not(no_home()));
    }
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    let memory = MemoryFile::new("forebay-logs", &[&[line.as_slice()], files].concat())?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("forebay").args(["keep-logs", &order.job]).current_dir("/").process_group(0);
    let mut child = command.stdin(memory.input()?).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let until = Instant::now() + wait;
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(Kept::Whole),
            Some(_) => return Ok(Kept::Not(last_words(&mut child))),
            None if Instant::now() >= until => return Ok(Kept::Late),
            None => sleep(LOOK_EVERY),
        }
    }
}

/// The reason that the process has told.
fn last_words(child: &mut std::process::Child) -> String {
    let mut words = String::new();
    let told = child.stderr.take().map(|told| told.take(LAST_WORDS_BYTES_MAX).read_to_string(&mut words));
    match (told, words.trim().strip_prefix("forebay: ")) {
        (Some(Ok(_)), Some(why)) => why.lines().map(str::trim).collect::<Vec<_>>().join(" "),
        _ => "the directory for reports cannot be written to".to_owned(),
    }
}

/// The process that writes to the home directory; the order is its standard input.
///
/// # Errors
/// When the order is none, or the logs cannot be written; the process has no reader.
pub fn carry_out() -> anyhow::Result<()> {
    spawn(|| {
        sleep(GIVE_UP);
        std::process::exit(1);
    });
    let mut input = vec![];
    std::io::stdin().take(HOST_BYTES_MAX + (4 << 20)).read_to_end(&mut input)?;
    let line = input.iter().position(|byte| *byte == b'\n').context("no order")?;
    let order: Order = serde_json::from_slice(&input[..line])?;
    check_job_name(&order.job)?;
    let is_elsewhere = order.reports.is_some();
    if !is_elsewhere {
        check_home()?;
    }
    let state = order.reports.or_else(|| state_directory(&variable)).with_context(no_home)?;
    make_directory(&state)?;
    ensure!(is_own(&state), "{} is not a directory of this user alone", state.display());
    let directory = state.join(&order.job);
    ensure!(is_own(&directory) || directory.symlink_metadata().is_err(), "{} is none", directory.display());
    if let Some(began) = order.began {
        set_aside(&directory, began)?;
    } else if !order.logs.is_empty() && !order.worth.is_some_and(|worth| has_better(&directory, worth)) {
        make_directory(&directory)?;
        let mut rest = &input[line + 1..];
        for (name, len) in &order.logs {
            let is_plain = Path::new(name).file_name().is_some_and(|plain| plain.to_str() == Some(name));
            let log = usize::try_from(*len).ok().and_then(|len| rest.split_off(..len)).filter(|_| is_plain);
            write_whole(&directory, name, log.context("the order is wrong")?)?;
        }
    }
    order.unlanded.map_or(Ok(()), |unlanded| unlanded.keep_in(&directory))?;
    if !is_elsewhere {
        prune(&state, &order.job);
    }
    Ok(())
}

/// Why there is no home directory.
pub fn no_home() -> String {
    match std::env::var_os("HOME") {
        None => "there is no home directory: HOME is not set".to_owned(),
        Some(set) if set.is_empty() => "there is no home directory: HOME is empty, not an absolute path".to_owned(),
        Some(set) => format!("there is no home directory: HOME is no absolute path ({})", set.display()),
    }
}

/// Whether the user has a home directory here. A host may have none, or the variable may name that of another user: nothing is made in its place.
fn check_home() -> anyhow::Result<()> {
    let home = state_home(&variable).with_context(no_home)?;
    ensure!(home.is_dir(), "the home directory {} does not exist", home.display());
    let is_home = variable("HOME").is_some_and(|set| Path::new(&set) == home);
    let is_theirs = is_home && home.metadata()?.uid() != rustix::process::geteuid().as_raw();
    ensure!(!is_theirs, "the home directory {} is of another user", home.display());
    Ok(())
}

/// Whether the report that is there is of the same run, and made by `down` or as good.
fn has_better(directory: &Path, worth: Worth) -> bool {
    let text = fs::read(directory.join(REPORT)).unwrap_or_default();
    let Ok(kept) = serde_json::from_slice::<KeptWorth>(&text) else { return false };
    let is_of_run = kept.ended_unix_ms >= worth.began_unix_ms;
    let is_as_good = |known: Known| (known.known, kept.start.is_some()) >= (worth.known, worth.has_start);
    is_of_run && kept.known.is_none_or(is_as_good)
}

/// The logs and the report in a directory.
fn files_in(directory: &Path) -> Vec<PathBuf> {
    let reports = [REPORT_PAGE, REPORT].map(|name| directory.join(name)).into_iter();
    logs_in(directory).into_iter().chain(reports.filter(|report| report.exists())).collect()
}

/// Renames the logs of the last job of this name by the time of its end, if it ended before.
fn set_aside(directory: &Path, before: SystemTime) -> anyhow::Result<()> {
    let Some(ended) = last_change(directory).filter(|ended| *ended < before) else { return Ok(()) };
    let seconds = ended.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let name = directory.file_name().and_then(|name| name.to_str()).context("no name")?;
    ensure!(!name.is_empty(), "no name");
    let aside = directory.with_file_name(format!("{name}.{seconds}"));
    fs::rename(directory, &aside)?;
    // Their stores still are what they were, and `down` looks for them by the job's name.
    for note in notes_in(&aside) {
        make_directory(directory)?;
        fs::rename(&note, directory.join(note.file_name().context("no name")?))?;
    }
    Ok(())
}

fn last_change(directory: &Path) -> Option<SystemTime> {
    files_in(directory).iter().filter_map(|log| log.metadata().ok()?.modified().ok()).max()
}

/// Whether it is a directory, and no link to one, that no other user can change.
fn is_own(directory: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    directory.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == own && found.mode() & 0o022 == 0)
}

/// The jobs whose logs are kept, the last one first.
pub fn kept_jobs(state: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(state).into_iter().flatten().flatten().map(|entry| entry.path());
    let entries = entries.filter(|path| is_own(path));
    let mut jobs: Vec<(SystemTime, PathBuf)> = entries.filter_map(|path| Some((last_change(&path)?, path))).collect();
    jobs.sort();
    jobs.into_iter().rev().map(|(_, path)| path).collect()
}

/// Removes the logs of all but the last jobs, and the oldest of those that are too many bytes; of `job` itself last.
fn prune(state: &Path, job: &str) {
    let jobs = kept_jobs(state);
    jobs.iter().skip(JOBS_KEPT).for_each(|path| remove(path));
    // Looked at once: another host may remove some meanwhile, and these are room then, too.
    let with_sizes = |path: &Path| -> Vec<(PathBuf, u64)> {
        files_in(path)
            .into_iter()
            .filter_map(|log| Some((log.metadata().ok()?.len(), log)))
            .map(|(len, log)| (log, len))
            .collect()
    };
    let (own, others): (Vec<_>, Vec<_>) =
        jobs.into_iter().take(JOBS_KEPT).partition(|path| path.file_name().is_some_and(|name| name == job));
    let mut total = 0;
    for path in own.iter().chain(&others) {
        let files = with_sizes(path);
        total += files.iter().map(|(_, len)| len).sum::<u64>();
        if total > KEPT_BYTES_MAX {
            // The hosts of one large job share the limit, and those that end last have it.
            for (log, len) in files {
                if total > KEPT_BYTES_MAX && is_gone(fs::remove_file(log)) {
                    total -= len;
                }
            }
            fs::remove_dir(path).ok();
        }
    }
}

/// Whether a file has gone, perhaps by another host that prunes at the same time.
fn is_gone(removed: std::io::Result<()>) -> bool {
    removed.map_or_else(|error| error.kind() == std::io::ErrorKind::NotFound, |()| true)
}

/// Removes logs and reports alone, so that a file of the user is never lost.
fn remove(path: &Path) {
    files_in(path).iter().for_each(|log| drop(fs::remove_file(log)));
    fs::remove_dir(path).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(state: &Path, job: &str, seconds: u64, bytes: usize) {
        fs::create_dir_all(state.join(job)).unwrap();
        let file = File::create(state.join(job).join("node-0.log")).unwrap();
        file.set_len(bytes as u64).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }

    fn names(state: &Path) -> Vec<String> {
        kept_jobs(state).iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_last_ten_jobs_stay_within_the_limit() {
        let state = tempfile::tempdir().unwrap();
        (0..12).for_each(|job| kept(state.path(), &format!("j{job}"), 100 + job, 10));
        fs::write(state.path().join("j0/mine"), "").unwrap();
        prune(state.path(), "j11");
        assert_eq!(names(state.path()).len(), 10);
        assert!(names(state.path()).iter().all(|name| !["j0", "j1"].contains(&name.as_str())));
        assert!(state.path().join("j0/mine").exists() && !state.path().join("j1").exists());
        kept(state.path(), "large", 1, 60 << 20);
        kept(state.path(), "j5", 105, 5 << 20);
        prune(state.path(), "j11");
        assert!(!names(state.path()).contains(&"large".to_owned()), "the oldest is too much");
        assert!(names(state.path()).contains(&"j5".to_owned()));
    }

    /// Each host of a job prunes at its end: what one has removed is room for the other.
    #[test]
    fn hosts_that_prune_at_once_remove_no_more_than_one() {
        const LOGS: u64 = 80;
        for round in 0..20 {
            let state = tempfile::tempdir().unwrap();
            let job = state.path().join("j");
            fs::create_dir(&job).unwrap();
            for log in 0..LOGS {
                File::create(job.join(format!("node-{log}.log"))).unwrap().set_len(1 << 20).unwrap();
            }
            let together = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        together.wait();
                        prune(state.path(), "j");
                    });
                }
            });
            assert_eq!(logs_in(&job).len() as u64, KEPT_BYTES_MAX >> 20, "round {round}");
        }
    }

    #[test]
    fn an_earlier_job_of_the_name_is_set_aside() {
        let state = tempfile::tempdir().unwrap();
        let set_aside =
            |seconds| set_aside(&state.path().join("j"), UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        set_aside(9);
        kept(state.path(), "j", 7, 1);
        // An order that comes late finds the logs of the job that it was for.
        set_aside(6);
        assert_eq!(names(state.path()), ["j"]);
        fs::write(state.path().join("j/unlanded-n1.json"), "{}").unwrap();
        set_aside(9);
        assert_eq!(names(state.path()), ["j.7"]);
        assert_eq!(notes_in(&state.path().join("j")).len(), 1, "down looks for notes by the name of the job");
    }

    #[test]
    fn a_report_of_a_host_gives_way_to_a_better_one_of_the_run() {
        let directory = tempfile::tempdir().unwrap();
        let worth = |known, has_start| Worth { began_unix_ms: 100, known, has_start };
        let has_better = |worth| has_better(directory.path(), worth);
        assert!(!has_better(worth(1, false)));
        let keep = |ended: u64, start: Option<u8>, known: Option<usize>| {
            let known = known.map(|known| Known { known, ..Known::default() });
            let report = serde_json::json!({"ended_unix_ms": ended, "start": start, "known": known});
            fs::write(directory.path().join(REPORT), report.to_string()).unwrap();
        };
        keep(100, None, Some(2));
        assert!(has_better(worth(2, false)) && !has_better(worth(2, true)) && !has_better(worth(3, false)));
        keep(100, None, None);
        assert!(has_better(worth(3, true)), "made by down");
        keep(99, None, None);
        assert!(!has_better(worth(1, false)), "of an earlier run");
    }

    #[test]
    fn the_end_of_a_long_log_is_kept_from_a_line_on() {
        let log = tempfile::NamedTempFile::new().unwrap();
        fs::write(log.path(), "first\nsecond\nthird\n").unwrap();
        assert_eq!(end_of(log.path(), 100).unwrap(), b"first\nsecond\nthird\n");
        assert_eq!(end_of(log.path(), 9).unwrap(), b"13 bytes of the log before this line were not kept\nthird\n");
    }
}
