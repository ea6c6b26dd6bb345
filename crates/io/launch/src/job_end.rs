//! When the scheduler ends this job, as its environment or its commands say.
//!
//! Slurm has a variable for it from 23.02 on. Before, `squeue` tells how much time is left; for LSF `bjobs` does. A job without a limit
//! has no end, and neither has one whose scheduler does not answer: both are errors that say what was asked and what came back,
//! because whoever asks would otherwise wait for an end that nobody watches.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{LaunchError, Process, end_all};

/// How long a scheduler may take to tell what it knows.
const SCHEDULER_TIMEOUT: Duration = Duration::from_secs(5);

/// Its answer, bytes: a list of a million hosts.
const SAID_BYTES_MAX: u64 = 64 << 20;

/// Slurm's variable with the job's end, seconds since 1970.
const SLURM_END: &str = "SLURM_JOB_END_TIME";

/// `bjobs` counts minutes; IBM does not say which way it rounds.
const LSF_UNIT: Duration = Duration::from_secs(60);

/// When the job that `variable`, the environment, tells of comes to its end.
///
/// # Errors
/// `JobEnd` when there is no such job, when it has no limit, and when its scheduler does not say.
pub fn job_end(variable: &dyn Fn(&str) -> Option<String>) -> Result<SystemTime, LaunchError> {
    job_end_by(variable, &|program, arguments| said_by(program, arguments), SystemTime::now())
}

/// The same with the commands of the scheduler as `ask` has them, at the time `now`.
fn job_end_by(
    variable: &dyn Fn(&str) -> Option<String>,
    ask: &dyn Fn(&str, &[&str]) -> Option<String>,
    now: SystemTime,
) -> Result<SystemTime, LaunchError> {
    let set = |name: &str| variable(name).filter(|text| !text.is_empty());
    if let Some(text) = set(SLURM_END) {
        let seconds = text.parse().map_err(|_| LaunchError::JobEnd(format!("{SLURM_END} is '{text}'")))?;
        let end = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        return end.ok_or_else(|| LaunchError::JobEnd(format!("{SLURM_END} is '{text}'")));
    }
    let (command, words, parse): (_, _, fn(&str) -> Option<Duration>) =
        match (set("SLURM_JOB_ID"), set("LSB_JOBID"), set("LSB_JOBINDEX").filter(|index| index != "0")) {
            (Some(job), ..) => {
                ("squeue", vec!["--noheader".to_owned(), format!("--jobs={job}"), "--format=%L".into()], slurm_time)
            }
            (None, Some(job), index) => {
                let job = index.map_or_else(|| job.clone(), |index| format!("{job}[{index}]"));
                ("bjobs", vec!["-noheader".to_owned(), "-o".into(), "time_left".into(), job], lsf_time)
            }
            (None, None, _) => return Err(LaunchError::JobEnd("this is not a job of Slurm or LSF".to_owned())),
        };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let asked = format!("{command} {}", words.join(" "));
    let told = ask(command, &words).ok_or_else(|| LaunchError::JobEnd(format!("{asked} fails")))?;
    let left = parse(told.trim()).ok_or_else(|| LaunchError::JobEnd(format!("{asked} says '{}'", told.trim())))?;
    now.checked_add(left).ok_or_else(|| LaunchError::JobEnd(format!("{asked} says '{}'", told.trim())))
}

/// `[days-][[hours:]minutes:]seconds` of squeue(1); `None` for `UNLIMITED`, `NOT_SET` and `INVALID`.
fn slurm_time(text: &str) -> Option<Duration> {
    let (days, time) = text.split_once('-').map_or(Some((0, text)), |(days, time)| Some((days.parse().ok()?, time)))?;
    let mut seconds = 0u64;
    for part in time.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    Some(Duration::from_secs(seconds.checked_add(86_400u64.checked_mul(days)?)?))
}

/// `hours:minutes L` of bjobs(1); `None` where the time is an estimate (`E`), at whose end nothing is killed, and where there is none
/// (`-`). The last minute counts as over.
fn lsf_time(text: &str) -> Option<Duration> {
    let (hours, minutes) = text.strip_suffix('L')?.trim().split_once(':')?;
    let minutes = hours.parse::<u64>().ok()?.checked_mul(60)?.checked_add(minutes.parse().ok()?)?;
    Some(Duration::from_secs(minutes.checked_mul(60)?).saturating_sub(LSF_UNIT))
}

/// The output of a program of the scheduler; `None` when it fails, or takes too long.
pub(crate) fn said_by(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let process = Process::of(child.id());
    let (sender, ended) = channel();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        // Its end is dropped then: a program that says more without end is ended by that.
        let read = child.stdout.take().map(|stdout| stdout.take(SAID_BYTES_MAX).read_to_end(&mut said));
        sender.send((read, child.wait(), said))
    });
    match ended.recv_timeout(SCHEDULER_TIMEOUT) {
        Ok((read, status, said)) => {
            let is_good = status.is_ok_and(|status| status.success()) && read.is_some_and(|read| read.is_ok());
            is_good.then(|| String::from_utf8_lossy(&said).into_owned())
        }
        Err(_) => {
            end_all(process.as_slice(), Duration::ZERO);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: SystemTime = UNIX_EPOCH;

    /// The end, seconds from now, in an environment where each command says `told`; and what was asked.
    fn end(environment: &[(&str, &str)], told: Option<&str>) -> (Result<u64, String>, String) {
        let variable =
            |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, text)| (*text).to_owned());
        let asked = std::cell::RefCell::new(String::new());
        let ask = |program: &str, words: &[&str]| {
            *asked.borrow_mut() = format!("{program} {}", words.join(" "));
            told.map(str::to_owned)
        };
        let end = job_end_by(&variable, &ask, NOW);
        (
            end.map(|end| end.duration_since(NOW).unwrap().as_secs()).map_err(|error| error.to_string()),
            asked.into_inner(),
        )
    }

    #[test]
    fn the_variable_is_believed_and_without_it_the_scheduler_is_asked() {
        let slurm = [("SLURM_JOB_ID", "7"), (SLURM_END, "99")];
        assert_eq!(end(&slurm, None), (Ok(99), String::new()));
        assert_eq!(end(&slurm[..1], Some("  1:02\n")), (Ok(62), "squeue --noheader --jobs=7 --format=%L".to_owned()));
        let lsf = [("LSB_JOBID", "8"), ("LSB_JOBINDEX", "0")];
        assert_eq!(end(&lsf, Some("1:59 L\n")), (Ok(118 * 60), "bjobs -noheader -o time_left 8".to_owned()));
        let array = [("LSB_JOBID", "8"), ("LSB_JOBINDEX", "3")];
        assert_eq!(end(&array, Some("0:00 L")), (Ok(0), "bjobs -noheader -o time_left 8[3]".to_owned()));
    }

    #[test]
    fn callers_without_time_hear_what_was_asked() {
        let why = |environment: &[(&str, &str)], told| end(environment, told).0.unwrap_err();
        assert!(why(&[], None).contains("not a job of Slurm or LSF"));
        assert!(why(&[(SLURM_END, "soon")], None).contains("SLURM_JOB_END_TIME is 'soon'"));
        let slurm = [("SLURM_JOB_ID", "7")];
        assert!(why(&slurm, None).contains("squeue --noheader --jobs=7 --format=%L fails"));
        assert!(why(&slurm, Some("UNLIMITED")).contains("says 'UNLIMITED'"));
        // An estimate, at which LSF does not end the job; one that is over; none.
        for told in ["0:30 E", "0:30 X", "-"] {
            assert!(why(&[("LSB_JOBID", "8")], Some(told)).contains(&format!("says '{told}'")), "{told}");
        }
    }

    #[test]
    fn times_of_squeue() {
        let seconds = |text| slurm_time(text).map(|time| time.as_secs());
        assert_eq!(["45", "1:00", "2:00:01", "1-00:00:02"].map(seconds), [45, 60, 7_201, 86_402].map(Some));
        assert_eq!(["", "NOT_SET", "UNLIMITED", "INVALID", "1-", "-5", "99999999999999999999"].map(seconds), [None; 7]);
    }
}
