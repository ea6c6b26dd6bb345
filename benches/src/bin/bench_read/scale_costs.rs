//! Costs of this machine for the scale model: processor time of a message, a request, a parcel, and of starting a program and
//! a daemon.
//!
//! Most is measured on two nodes, one of which asks the file system and one of which asks the other. Without a profile, one replay
//! follows the other; with one, the measure is the bytes that have come to the second node when it is filled. The cost of a small
//! chunk of a parcel is measured with small files. A message between nodes and the program's part in one of the kernel cost more
//! in a storm, where bodies are forwarded while they arrive and no node finds warm caches. These two are fitted to the processor
//! time of the storm of four nodes without a profile. The only wall time that goes in is that of `up` of one node.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use forebay_bench::cpu;
use forebay_bench::job::{Job, Status};
use forebay_bench::python::slowest;
use forebay_bench::storm::{self, Storm};
use forebay_scale::parameters::TEST_BED;
use forebay_scale::{DaemonParameters, Machine, Stated};
use forebay_testkit::results::Samples;
use forebay_testkit::testbed::{Testbed, Traffic};
use forebay_testkit::{Place, run, stop};

use crate::bench::Bench;
use crate::prefill::wait_until_filled;
use crate::ways::{Forms, Way, up_on};

/// The source of these numbers.
const SOURCE: &str = "measured in this run on two nodes";
const FITTED: &str = "fitted in this run to the processor time of 4 nodes without a profile";
const LAUNCH: &str = "measured in this run: up of one node and of 4";

/// Requests of the daemon for a file: open, read, close; for a directory as many.
const REQUESTS: f64 = 3.0;

/// Small files by which a chunk's own cost is measured.
const SMALL_FILES: usize = 4000;

/// How long their start-up may take to be packed.
const PACK_DEADLINE: Duration = Duration::from_secs(120);

/// Seconds of processor time.
#[derive(Default)]
pub struct Costs {
    kernel_daemon: Samples,
    program_start: Samples,
    backing_request: Samples,
    client_request: Samples,
    kernel_walker: Samples,
    /// Of a replay on a local file system, and where all is prefilled: all its operations.
    local_replay: Samples,
    filled_replay: Samples,
    fill_chunk: Samples,
    filled: Vec<Filled>,
}

/// The work of the second of two nodes that a profile fills.
struct Filled {
    daemon_seconds: f64,
    /// The first node's, which made the parcels.
    maker_seconds: f64,
    listings: f64,
    messages: f64,
    parcels: f64,
    chunks: f64,
    bytes: f64,
}

/// Totals of storms of so many nodes, without a profile: medians.
pub struct StormTotals {
    /// Number of nodes.
    pub nodes: f64,
    /// Requests between nodes, and bytes.
    pub requests: f64,
    /// Bytes between nodes.
    pub bytes: f64,
    /// Messages of the kernel on each node.
    pub messages: f64,
    /// Processor time of programs, seconds.
    pub programs_seconds: f64,
    /// Processor time of daemons, since they were started.
    pub daemons_seconds: f64,
    /// The part of that until `up` returned, with `up` itself.
    pub launch_seconds: f64,
    /// How long `up` took.
    pub up_seconds: f64,
}

/// Counts so far.
struct Counts {
    status: Status,
    /// Processor time of each node's daemon.
    daemons: Vec<Duration>,
    file_system: Duration,
    traffic: Traffic,
}

/// The counts before and after one node's replay.
struct Replay {
    storm: Storm,
    before: Counts,
    after: Counts,
}

impl Costs {
    /// Measures them, so many times.
    pub fn measure(bench: &Bench, testbed: &Testbed, forms: &Forms, runs: usize) -> anyhow::Result<Self> {
        let mut costs = Self::default();
        for _ in 0..runs {
            testbed.remount(2)?;
            let job = up_on(bench, testbed, 2, &[])?;
            let root = replay(bench, testbed, forms, &job, 0)?;
            let leaf = replay(bench, testbed, forms, &job, 1)?;
            job.down()?;
            costs.add(&root, &leaf)?;
            testbed.remount(2)?;
            costs.add_filled(bench, testbed, forms)?;
            costs.fill_chunk.add(fill_chunk(bench)?);
        }
        Ok(costs)
    }

    /// A job of two nodes is filled by a profile, and nothing runs in it.
    fn add_filled(&mut self, bench: &Bench, testbed: &Testbed, forms: &Forms) -> anyhow::Result<()> {
        let job = up_on(bench, testbed, 2, &["--profile", &forms.profile.to_string_lossy()])?;
        wait_until_filled(&job)?;
        let status = job.status()?;
        let node = status.nodes.get(1).context("two nodes")?;
        let messages = node.kernel.messages.values().sum::<u64>() as f64;
        self.kernel_walker.add(cpu::of_children_of(node.pid).as_secs_f64() / messages);
        self.filled.push(Filled {
            maker_seconds: cpu::of_process(status.nodes[0].pid).context("a daemon is gone")?.as_secs_f64(),
            listings: status.nodes[0].backing.listings as f64,
            daemon_seconds: cpu::of_process(node.pid).context("a daemon is gone")?.as_secs_f64(),
            messages,
            parcels: node.prefill.parcels as f64,
            chunks: node.prefill.chunks as f64,
            bytes: node.overlay.get("bytes_received").copied().unwrap_or(0) as f64,
        });
        self.local_replay.add(bench.replayed(&testbed.place(1), &bench.tree)?.cpu_seconds);
        self.filled_replay.add(bench.replayed(&testbed.place(1), &forms.seen(Way::Profile))?.cpu_seconds);
        job.down().map(drop)
    }

    fn add(&mut self, root: &Replay, leaf: &Replay) -> anyhow::Result<()> {
        let (stated, replayed) = (&TEST_BED.daemon, slowest(&leaf.storm.outputs)?);
        let messages = |node: usize, replay: &Replay| replay.count(node, &|node| node.kernel.messages.values().sum());
        // The root's part in the leaf's replay is as large as the leaf's own without its kernel.
        let kernel_daemon = (leaf.daemon(1) - leaf.daemon(0)) / messages(1, leaf);
        self.kernel_daemon.add(kernel_daemon);
        self.program_start.add(leaf.storm.cpu.as_secs_f64() - replayed.cpu_seconds);
        let traffic = root.after.traffic.since(&root.before.traffic);
        let asked = |kind: &str| traffic.requests.get(kind).copied().unwrap_or(0) as f64;
        let asked = REQUESTS * (asked("open") + asked("opendir"));
        let read = root.after.status.backing_bytes().saturating_sub(root.before.status.backing_bytes()) as f64;
        let file_system = root.after.file_system.saturating_sub(root.before.file_system).as_secs_f64();
        self.backing_request.add((root.daemon(0) - kernel_daemon * messages(0, root)) / asked);
        self.client_request.add((file_system - stated.client_gigabyte.value * read / 1e9) / asked);
        Ok(())
    }

    /// The test bed with these costs, and those of storms of one node and of four; what a start-up uses has so many bytes.
    pub fn machine(&self, operations: usize, used_bytes: u64, one: &StormTotals, four: &StormTotals) -> Machine {
        let daemon = TEST_BED.daemon;
        let but = |stated: Stated, samples: &Samples| stated.but(samples.median(), SOURCE);
        // The time of more nodes beside their kernels' messages and the bytes, by both ends of requests and answers.
        let more_nodes = four.nodes - one.nodes;
        let launch_node = (four.launch_seconds - one.launch_seconds) / more_nodes;
        let more_messages = more_nodes * (four.messages * self.kernel_daemon.median() + launch_node);
        let bytes = 2.0 * daemon.gigabyte.value * four.bytes / 1e9;
        let message = (four.daemons_seconds - one.daemons_seconds - more_messages - bytes) / (4.0 * four.requests);
        let computing = self.program_start.median() + self.local_replay.median();
        let filled = (self.filled_replay.median() - self.local_replay.median()) / four.messages;
        let kernel_program = (four.programs_seconds / four.nodes - computing) / four.messages;
        let store =
            self.stored_seconds(message, launch_node) / (used_bytes as f64 / 1e9) - daemon.unpack_gigabyte.value;
        let daemon = DaemonParameters {
            message: daemon.message.but(message, FITTED),
            kernel_daemon: but(daemon.kernel_daemon, &self.kernel_daemon),
            kernel_program: daemon.kernel_program.but(kernel_program, FITTED),
            program_start: but(daemon.program_start, &self.program_start),
            backing_request: but(daemon.backing_request, &self.backing_request),
            client_request: but(daemon.client_request, &self.client_request),
            kernel_walker: but(daemon.kernel_walker, &self.kernel_walker),
            kernel_filled: daemon.kernel_filled.but(filled.max(0.0), SOURCE),
            make_parcel: daemon.make_parcel.but(self.made_seconds(message), SOURCE),
            replay_operation: daemon.replay_operation.but(self.local_replay.median() / operations as f64, SOURCE),
            fill_chunk: but(daemon.fill_chunk, &self.fill_chunk),
            store_gigabyte: daemon.store_gigabyte.but(store, SOURCE),
            launch_node: daemon.launch_node.but(launch_node, LAUNCH),
            launch: daemon.launch.but((one.up_seconds - launch_node).max(0.0), LAUNCH),
            ..daemon
        };
        Machine { daemon, ..TEST_BED }
    }

    /// The first node's time for a parcel, beside the second node's, listings, and sending: the median.
    fn made_seconds(&self, message: f64) -> f64 {
        let daemon = &TEST_BED.daemon;
        let mut made = Samples::default();
        for filled in &self.filled {
            let listed = REQUESTS * filled.listings * self.backing_request.median();
            let read = filled.parcels * self.backing_request.median();
            // Each is received here by no message and sent by two ends of one.
            let sent = filled.bytes * daemon.gigabyte.value / 1e9 + 2.0 * filled.parcels * message;
            let received = sent;
            let more = filled.maker_seconds - (filled.daemon_seconds - received);
            made.add((more - sent - listed - read).max(0.0) / filled.parcels.max(1.0));
        }
        made.median()
    }

    /// The second node's time to unpack and store parcels, beside its start, messages and chunks: the median.
    fn stored_seconds(&self, message: f64, launch_node: f64) -> f64 {
        let daemon = &TEST_BED.daemon;
        let mut stored = Samples::default();
        for filled in &self.filled {
            let messages = filled.messages * self.kernel_daemon.median() + 2.0 * filled.parcels * message;
            let received = filled.bytes * daemon.gigabyte.value / 1e9 + filled.chunks * self.fill_chunk.median();
            stored.add(filled.daemon_seconds - launch_node - messages - received);
        }
        stored.median()
    }
}

/// A daemon's time to unpack and store a small chunk, beside its time without a profile.
fn fill_chunk(bench: &Bench) -> anyhow::Result<f64> {
    let files = bench.directory_of(SMALL_FILES)?;
    let profile = bench.files.path().join("small.profile");
    let options = ["--profile", &profile.to_string_lossy()];
    if !profile.exists() {
        let job = bench.up_local(1, &files, &options)?;
        let all = format!("find '{}' -type f -exec cat {{}} + >/dev/null", job.in_view(0, &files)?.display());
        run::output(&mut Place::here().command(&["sh", "-c", &all]))?;
        let deadline = Instant::now() + PACK_DEADLINE;
        while !profile.with_extension("pack").exists() {
            stop::check()?;
            ensure!(Instant::now() < deadline, "no pack was written within {PACK_DEADLINE:?}");
            thread::sleep(stop::LOOK_EVERY);
        }
        job.down()?;
    }
    let of_second = |options: &[&str]| {
        let job = bench.up_local(2, &files, options)?;
        if !options.is_empty() {
            wait_until_filled(&job)?;
        }
        let status = job.status()?;
        let node = status.nodes.get(1).context("two nodes")?;
        let took = cpu::of_process(node.pid).context("a daemon is gone")?.as_secs_f64();
        job.down()?;
        anyhow::Ok((took, node.prefill.chunks as f64))
    };
    let ((filled, chunks), (empty, _)) = (of_second(&options)?, of_second(&[])?);
    ensure!(chunks >= SMALL_FILES as f64 / 2.0, "only {chunks} chunks came");
    Ok((filled - empty) / chunks)
}

impl Replay {
    /// Processor time of a node's daemon meanwhile, seconds.
    fn daemon(&self, node: usize) -> f64 {
        self.after.daemons[node].saturating_sub(self.before.daemons[node]).as_secs_f64()
    }

    /// How much one of a node's counts grew.
    fn count(&self, node: usize, of: &dyn Fn(&forebay_bench::job::NodeStatus) -> u64) -> f64 {
        let count = |counts: &Counts| counts.status.nodes.get(node).map_or(0, of);
        count(&self.after).saturating_sub(count(&self.before)) as f64
    }
}

fn replay(bench: &Bench, testbed: &Testbed, forms: &Forms, job: &Job, node: usize) -> anyhow::Result<Replay> {
    let before = Counts::now(testbed, job)?;
    let storm = storm::at_once(vec![testbed.place(node).gated("", &bench.python.replay(&forms.seen(Way::Forebay)))])?;
    Ok(Replay { storm, before, after: Counts::now(testbed, job)? })
}

impl Counts {
    fn now(testbed: &Testbed, job: &Job) -> anyhow::Result<Self> {
        let status = job.status()?;
        let cpu_of = |node: &forebay_bench::job::NodeStatus| cpu::of_process(node.pid).context("a daemon is gone");
        let daemons = status.nodes.iter().map(cpu_of).collect::<anyhow::Result<_>>()?;
        Ok(Self { status, daemons, file_system: of_file_system(testbed)?, traffic: testbed.traffic()? })
    }
}

/// Processor time of the file system's clients and server.
pub fn of_file_system(testbed: &Testbed) -> anyhow::Result<Duration> {
    Ok(testbed.processes()?.into_iter().filter_map(cpu::of_process).sum())
}
