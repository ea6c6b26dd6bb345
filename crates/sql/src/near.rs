//! Whether nodes have a part in a statement, which ones, and what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::bail;
use datafusion::execution::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use futures::future::join_all;
use tokio::task::JoinHandle;

use crate::channels::{Channel, Channels};
use crate::cli::{Arguments, Place};
use crate::daemon::Daemon;
use crate::leaves::{Leaves, Reader};
use crate::residency::{Residency, files_of, largest_rows};
use crate::session;

/// Of tables that are no larger, `auto` reads all: starting workers takes longer.
const WEIGHED_BYTES_MIN: u64 = 8 << 20;

/// The nodes that could have a part in a statement.
pub struct Near {
    daemon: Daemon,
    residency: Residency,
    lost: BTreeSet<u32>,
    /// Rows of the largest table, as far as files say it.
    largest_rows: usize,
}

/// The nodes that have one, each with a worker.
pub struct Workers {
    channels: Channels,
    open: BTreeMap<u32, Channel>,
    leaves: Leaves,
    threads: usize,
    /// Rows of a table that each has whole in a join.
    broadcast_rows: usize,
}

/// The nodes that hold what a plan reads, as far as they are asked for; none where this host answers alone.
///
/// # Errors
/// Nodes were asked for, and none holds the files.
pub async fn chosen(plan: &Arc<dyn ExecutionPlan>, arguments: &Arguments) -> anyhow::Result<Option<Near>> {
    let Some(socket) = arguments.daemon.clone().filter(|_| arguments.place != Place::Host) else {
        if arguments.place == Place::Data {
            bail!("SQL is answered near the data only within a job: forebay query --where data");
        }
        return Ok(None);
    };
    let daemon = Daemon { socket, views: arguments.views.clone() };
    let files = files_of(plan);
    let bytes: u64 = files.iter().map(|file| file.size).sum();
    let is_auto = arguments.place == Place::Auto;
    if files.is_empty() || (is_auto && bytes < WEIGHED_BYTES_MIN) {
        return Ok(None);
    }
    let residency = match Residency::of(files, &daemon).await {
        Ok(Ok(residency)) => residency,
        // A user who left the choice to us gets an answer, whatever state the job is in.
        Ok(Err(_)) | Err(_) if is_auto => return Ok(None),
        Ok(Err(file)) => bail!("no node of the job holds /{file}; --where host reads it here"),
        Err(error) => return Err(error),
    };
    let is_own = |rank: &u32| daemon.rank().is_ok_and(|own| own == *rank);
    if is_auto && residency.nodes.len() == 1 && residency.nodes.keys().all(is_own) {
        return Ok(None);
    }
    let largest_rows = largest_rows(plan);
    Ok(Some(Near { daemon, residency, lost: BTreeSet::new(), largest_rows }))
}

impl Near {
    /// Starts a worker on each node that holds files and is not lost; none if the others do not hold all files.
    pub async fn workers(&mut self, statement: u64) -> Option<Workers> {
        let residency = self.residency.clone().without(&self.lost)?;
        let channels = Channels::new(self.daemon.socket.clone(), statement, true);
        let opened = join_all(residency.nodes.keys().map(|rank| channels.channel(*rank))).await;
        let mut open = BTreeMap::new();
        for (rank, channel) in residency.nodes.keys().zip(opened) {
            match channel {
                Ok(channel) => drop(open.insert(*rank, channel)),
                Err(error) => self.lose(*rank, &format!("{error:#}")),
            }
        }
        // Those that are left do the part of the others, if they hold the files.
        let residency = residency.without(&self.lost)?;
        open.retain(|rank, _| residency.nodes.contains_key(rank));
        let reader = |(rank, channel): (&u32, &Channel)| {
            let threads = residency.nodes.get(rank).map_or(1, |node| node.threads.max(1));
            let weight = threads as f64 / channel.workers.max(1) as f64;
            Reader { rank: *rank, weight, bytes: 0.into() }
        };
        // A node that is alone has two tasks: the planner leaves a single one to this host.
        let tasks_each = if open.len() == 1 { 2 } else { 1 };
        let readers = (0..tasks_each).flat_map(|_| open.iter().map(reader)).collect();
        let threads = residency.nodes.values().map(|node| node.threads).max().unwrap_or(1) / tasks_each;
        let leaves = Leaves::new(readers, residency.files);
        // On all nodes together they should be no more than half of those that stay where they are.
        let broadcast_rows = self.largest_rows / (2 * open.len().max(1));
        Some(Workers { channels, open, leaves, threads, broadcast_rows })
    }

    /// Does without the workers that say nothing, if any.
    pub async fn lose_silent(&mut self, workers: &Workers) -> bool {
        let alive = join_all(workers.open.values().map(Channel::is_alive)).await;
        let silent: Vec<u32> =
            workers.open.keys().zip(alive).filter(|(_, alive)| !alive).map(|(rank, _)| *rank).collect();
        silent.iter().for_each(|rank| self.lose(*rank, "its worker is lost"));
        !silent.is_empty()
    }

    fn lose(&mut self, rank: u32, why: &str) {
        let host = self.residency.nodes.get(&rank).map_or("", |node| &node.host);
        eprintln!("forebay-sql: note: node {rank} on {host}: {why}; it has no part in the statement");
        self.lost.insert(rank);
    }
}

impl Workers {
    /// A session whose plans they carry out, with few rows on each node if its memory was too small.
    ///
    /// # Errors
    /// None.
    pub fn session(&self, state: SessionState, are_few: bool) -> datafusion::common::Result<SessionState> {
        let broadcast_rows = if are_few { 0 } else { self.broadcast_rows };
        session::for_nodes(state, (&self.leaves, broadcast_rows), self.channels.clone(), self.threads)
    }
}

impl fmt::Display for Workers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        for (rank, Channel { traffic, .. }) in &self.open {
            let readers = self.leaves.readers().iter().filter(|reader| reader.rank == *rank);
            let read: u64 = readers.map(|reader| of(&reader.bytes)).sum();
            let (sent, received) = (of(&traffic.sent_bytes), of(&traffic.received_bytes));
            writeln!(
                formatter,
                "node {rank}: {read} bytes of files, {sent} bytes sent to it, {received} bytes received from it"
            )?;
        }
        Ok(())
    }
}

/// Shows how far a statement is, where somebody looks, until it is dropped.
pub struct Progress(Option<JoinHandle<()>>);

impl Progress {
    /// From now on.
    pub fn begin() -> Self {
        let shows = std::io::stderr().is_terminal();
        Self(shows.then(|| tokio::spawn(shown())))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(shown) = &self.0 {
            shown.abort();
            eprint!("\r\x1b[K");
        }
    }
}

async fn shown() {
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        eprint!("\r\x1b[Kforebay-sql: {} MB read here", read_bytes() / 1_000_000);
    }
}

/// The bytes that this process has read so far, its own program included; 0 where the kernel does not say.
pub fn read_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}
