//! `debug`: one archive for a bug report. It is made on one host, without root, and of what can be had in a limited time, because a job
//! that hangs is when it is wanted. A part that cannot be had says why in its place.
//!
//! No part of it comes from the memory or the environment of a process, which may have the job's key.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::channel;
use std::thread::spawn;
use std::time::{Duration, SystemTime};

use forebay_launch::{JobDirectory, NodeRecord, Process, end_all, state_directory};

use crate::cli::DebugArguments;
use crate::commands::job::debug_archive::Archive;
use crate::exit::DONE_IN_PART;
use crate::jobs::{self, NotUp, variable};
use crate::kept_logs::kept_jobs;
use crate::output::{say, shown_path, tell};

/// How long one of the commands may take whose output is a part. `status` itself waits 15 s for another host.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);

/// How long the files of a process in `/proc` may take. Reading some waits for the process.
const THREADS_TIMEOUT: Duration = Duration::from_secs(3);

/// Makes the archive.
pub fn run(arguments: DebugArguments) -> anyhow::Result<ExitCode> {
    let effective = arguments.of_job.effective()?;
    let found = match jobs::find(&effective) {
        Ok(directory) => Ok(directory),
        Err(error) if error.is::<NotUp>() => Err(error),
        Err(error) => return Err(error),
    };
    let job = match &found {
        Ok(directory) => directory.job(),
        Err(_) => jobs::name_meant(&effective)?,
    };
    let kept = || {
        let kept = state_directory(&variable).map(|state| kept_jobs(&state)).unwrap_or_default();
        kept.into_iter().find(|path| path.file_name().is_some_and(|of| of.to_str() == Some(&job)))
    };
    let kept = if found.is_ok() { None } else { kept() };
    // Without a job, an archive tells of the machine. With one that nothing is known of, its name may be mistyped.
    let found = match found {
        Err(error) if kept.is_none() && effective.job()?.is_some() => return Err(error),
        found => found,
    };
    let name = format!("forebay-debug-{job}");
    let output = arguments.output.unwrap_or_else(|| PathBuf::from(format!("{name}.tar.gz")));
    let place = Archive::begin(&output, &name)?;
    place.add("versions.txt", &versions());
    place.add("doctor.json", &said_by(&["doctor", "--json"]));
    match &found {
        Ok(directory) => of_job(&place, directory),
        Err(error) => {
            place.add("status.txt", &format!("{error}\n"));
            kept.iter().for_each(|kept| place.add_logs(kept));
        }
    }
    let is_whole = place.finish()?;
    say!("{}", shown_path(&output));
    tell!("forebay: note: it has no key, but paths, names of hosts and lines of logs: look into it before you send it");
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}

fn of_job(place: &Archive, directory: &JobDirectory) {
    let (job, base) = (directory.job(), directory.base().display().to_string());
    let of_job = ["--job", job.as_str(), "--directory", base.as_str()];
    place.add("status.json", &said_by(&[&["status", "--json"][..], &of_job].concat()));
    place.add("config.json", &said_by(&["config", "--json"]));
    place.add_logs(&directory.logs());
    let records = directory.record_ranks().into_iter().map(|rank| directory.node_record(rank));
    for path in records.chain([directory.job_record(), directory.job_spec()]) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        place.add(&name, &fs::read_to_string(&path).unwrap_or_else(|error| format!("{error}\n")));
    }
    place.add("mounts.txt", &mounts(directory));
    let mut threads = String::new();
    for process in NodeRecord::read_all(directory).iter().flat_map(NodeRecord::processes) {
        threads += &threads_of(process);
    }
    place.add("threads.txt", &threads);
}

fn versions() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_else(|error| format!("{path}: {error}\n"));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format!(
        "forebay {}\nseconds since 1970: {now}\n{}{}",
        env!("CARGO_PKG_VERSION"),
        read("/proc/version"),
        read("/etc/os-release")
    )
}

/// The output of one of Forebay's commands.
fn said_by(words: &[&str]) -> String {
    let mut command = Command::new("/proc/self/exe");
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return format!("{error}\n"),
    };
    let process = Process::of(child.id());
    let (sender, ended) = channel();
    spawn(move || sender.send(child.wait_with_output()));
    match ended.recv_timeout(COMMAND_TIMEOUT) {
        Ok(Ok(output)) => {
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            format!("{out}{err}")
        }
        Ok(Err(error)) => format!("{error}\n"),
        Err(_) => {
            end_all(process.as_slice(), Duration::ZERO);
            format!("no answer within {COMMAND_TIMEOUT:?}\n")
        }
    }
}

/// The mounts of the job and of Forebay's kind.
fn mounts(directory: &JobDirectory) -> String {
    let own = directory.path().display().to_string();
    let all = fs::read_to_string("/proc/self/mountinfo").unwrap_or_else(|error| format!("{error}\n"));
    all.lines().filter(|line| line.contains(&own) || line.contains("forebay")).map(|line| format!("{line}\n")).collect()
}

/// Where the threads of a process are. The kernel may let no one but root see their stacks.
fn threads_of(process: Process) -> String {
    let (sender, ended) = channel();
    spawn(move || {
        let threads = fs::read_dir(format!("/proc/{}/task", process.pid)).into_iter().flatten().flatten();
        threads.map(|thread| thread_text(&thread.path())).try_for_each(|text| sender.send(text))
    });
    let mut text = format!("process {}\n", process.pid);
    let until = std::time::Instant::now() + THREADS_TIMEOUT;
    loop {
        match ended.recv_timeout(until.saturating_duration_since(std::time::Instant::now())) {
            Ok(thread) => text += &thread,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return text,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => return text + "  the others did not answer\n",
        }
    }
}

fn thread_text(thread: &Path) -> String {
    let mut text = format!("  thread {}\n", thread.file_name().unwrap_or_default().to_string_lossy());
    let status = fs::read(thread.join("status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    for line in status.lines().filter(|line| line.starts_with("Name:") || line.starts_with("State:")) {
        writeln!(text, "    {line}").ok();
    }
    for file in ["wchan", "syscall", "stack"] {
        let read = fs::read_to_string(thread.join(file)).unwrap_or_else(|error| error.to_string());
        let lines: Vec<&str> = read.trim().lines().collect();
        writeln!(text, "    {file}: {}", lines.join("\n      ")).ok();
    }
    text
}
