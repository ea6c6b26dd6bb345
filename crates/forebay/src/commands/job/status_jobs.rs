//! `status` where several jobs are up and none is named: the list of them, as their records tell. Of this user's jobs, daemons of this
//! host say whether they are well, all jobs side by side.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_launch::{JobDirectory, JobRecord, Progress};
use serde_json::{Value, json};

use crate::columns;
use crate::commands::job_status;
use crate::health::State;
use crate::leftovers;
use crate::machine;
use crate::output::{in_one_line, say, tell};
use crate::settings::values::show_duration;

/// Jobs that are asked at the same time: a thread each.
const ASKED_AT_ONCE: usize = 16;

/// A job to be listed.
pub struct Listed {
    pub directory: JobDirectory,
    owner: u32,
}

impl Listed {
    /// One of this user.
    pub fn own(directory: JobDirectory) -> Self {
        Self { directory, owner: rustix::process::geteuid().as_raw() }
    }

    /// One of a user.
    pub fn of(directory: JobDirectory, owner: u32) -> Self {
        Self { directory, owner }
    }
}

/// The facts known of a job here.
struct Job {
    name: String,
    owner: String,
    state: &'static str,
    /// As far as is known: a job of another user, or of other hosts alone, is not asked.
    is_well: bool,
    /// Nodes that it has, and those of this host.
    nodes: Option<usize>,
    here: usize,
    started_unix_ms: Option<u64>,
    view: Option<String>,
}

/// The state of a job that runs, and whether it is well.
fn asked(directory: &JobDirectory) -> (&'static str, bool) {
    match job_status::ask(directory, true) {
        Ok((_, overview)) if overview.is_well() => ("up", true),
        Ok((_, overview)) if overview.verdict.state == State::Blocked => ("blocked", false),
        Ok(_) => ("in part", false),
        Err(_) => ("silent", false),
    }
}

/// Prints the jobs; whether all of them are well.
pub fn print(listed: &[Listed], as_json: bool) -> bool {
    let jobs = of_all(listed);
    let is_well = jobs.iter().all(|job| job.is_well);
    if as_json {
        let jobs: Vec<Value> = jobs.iter().map(Job::as_json).collect();
        say!("{}", json!({"jobs": jobs}));
        return is_well;
    }
    let head = ["job", "state", "nodes", "here", "owner", "up for", "view"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(jobs.iter().map(Job::row)).collect();
    columns::lines(&rows).iter().for_each(|line| say!("{}", in_one_line(line)));
    let own = rustix::process::geteuid().as_raw();
    if listed.iter().filter(|job| job.owner == own).count() > 1 {
        tell!("forebay: several jobs are up on this host; forebay status --job NAME shows one");
    }
    if listed.iter().any(|job| job.owner != own) {
        tell!("forebay: of other users' jobs only this list is shown; su USER -c 'forebay status --job NAME' asks one");
    }
    is_well
}

/// Each by a thread of its own: one that is silent keeps no other.
fn of_all(listed: &[Listed]) -> Vec<Job> {
    let mut jobs = vec![];
    for some in listed.chunks(ASKED_AT_ONCE) {
        jobs.extend(thread::scope(|scope| {
            let asked: Vec<_> = some.iter().map(|job| scope.spawn(|| Job::of(job))).collect();
            asked
                .into_iter()
                .zip(some)
                .map(|(job, listed)| job.join().unwrap_or_else(|_| Job::of(listed)))
                .collect::<Vec<_>>()
        }));
    }
    jobs
}

impl Job {
    fn of(Listed { directory, owner }: &Listed) -> Self {
        // Of a job of several hosts the record is where `up` ran.
        let record = JobRecord::read(directory).ok().flatten();
        let here = directory.record_ranks().len();
        let is_alive = !leftovers::alive(directory).is_empty();
        let is_elsewhere = here == 0 && record.as_ref().is_some_and(|record| record.remote_call().is_some());
        // The owner of another user's directory decides which process answers there.
        let is_own = *owner == rustix::process::geteuid().as_raw();
        let (state, is_well) = match &record {
            Some(record) if record.progress == Progress::Starting && is_alive => ("starting", true),
            Some(_) if is_elsewhere => ("elsewhere", true),
            _ if is_alive && is_own => asked(directory),
            _ if is_alive => ("up", true),
            _ => ("dead", false),
        };
        Self {
            name: directory.job(),
            owner: machine::user_name(*owner),
            state,
            is_well,
            nodes: record.as_ref().map(|record| record.nodes.len()),
            here,
            started_unix_ms: record.as_ref().map(|record| record.started_unix_ms),
            view: record.and_then(|record| Some(record.views.first()?.display().to_string())),
        }
    }

    fn as_json(&self) -> Value {
        let Self { name, owner, state, nodes, here, started_unix_ms, view, .. } = self;
        json!({"job": name, "owner": owner, "state": state, "nodes": nodes, "nodes_here": here, "started_unix_ms": started_unix_ms, "view": view})
    }

    fn row(&self) -> Vec<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let up_for = |ms| show_duration(now.saturating_sub(Duration::from_millis(ms)));
        let unknown = || "-".to_owned();
        vec![
            self.name.clone(),
            self.state.to_owned(),
            self.nodes.map_or_else(unknown, |nodes| nodes.to_string()),
            self.here.to_string(),
            self.owner.clone(),
            self.started_unix_ms.map_or_else(unknown, up_for),
            self.view.clone().unwrap_or_else(unknown),
        ]
    }
}
