//! `status` where several jobs are up and none is named: the list of them, as their records tell. No daemon is asked.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_launch::{JobDirectory, JobRecord, Progress};
use serde_json::{Value, json};

use crate::columns;
use crate::leftovers;
use crate::machine;
use crate::output::{say, without_controls};
use crate::settings::values::show_duration;

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
    /// Nodes that it has, and those of this host.
    nodes: Option<usize>,
    here: usize,
    started_unix_ms: Option<u64>,
    view: Option<String>,
}

/// Prints the jobs.
pub fn print(listed: &[Listed], as_json: bool) {
    let jobs: Vec<Job> = listed.iter().map(Job::of).collect();
    if as_json {
        let jobs: Vec<Value> = jobs.iter().map(Job::as_json).collect();
        return say!("{}", json!({"jobs": jobs}));
    }
    let head = ["job", "state", "nodes", "here", "owner", "up for", "view"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(jobs.iter().map(Job::row)).collect();
    columns::lines(&rows).iter().for_each(|line| say!("{}", without_controls(line)));
    let own = rustix::process::geteuid().as_raw();
    if listed.iter().filter(|job| job.owner == own).count() > 1 {
        eprintln!("forebay: several jobs are up on this host; forebay status --job NAME shows one");
    }
    if listed.iter().any(|job| job.owner != own) {
        eprintln!(
            "forebay: of other users' jobs only this list is shown; su USER -c 'forebay status --job NAME' asks one"
        );
    }
}

impl Job {
    fn of(Listed { directory, owner }: &Listed) -> Self {
        // Of a job of several hosts the record is where `up` ran.
        let record = JobRecord::read(directory).ok().flatten();
        let here = directory.record_ranks().len();
        let is_alive = !leftovers::alive(directory).is_empty();
        let is_elsewhere = here == 0 && record.as_ref().is_some_and(|record| record.remote_call().is_some());
        let state = match &record {
            Some(record) if record.progress == Progress::Starting && is_alive => "starting",
            Some(_) if is_elsewhere => "elsewhere",
            _ if is_alive => "up",
            _ => "dead",
        };
        Self {
            name: directory.job(),
            owner: machine::user_name(*owner),
            state,
            nodes: record.as_ref().map(|record| record.nodes.len()),
            here,
            started_unix_ms: record.as_ref().map(|record| record.started_unix_ms),
            view: record.and_then(|record| Some(record.views.first()?.display().to_string())),
        }
    }

    fn as_json(&self) -> Value {
        let Self { name, owner, state, nodes, here, started_unix_ms, view } = self;
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
