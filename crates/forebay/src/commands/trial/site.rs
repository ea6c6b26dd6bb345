//! The nodes of a trial, the modelled file system under them, and Forebay while it runs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use forebay_trial::Place;
use forebay_trial::cpu;
use forebay_trial::job::{Forebay, Job};
use forebay_trial::nodes::ModelledNodes;
use forebay_trial::quiet::{Gauge, Observed};
use forebay_trial::scratch::{Scratch, temporary};
use forebay_trial::show::Way;
use forebay_trial::storm::Gate;
use forebay_trial::traffic::Traffic;
use serde::Serialize;

use crate::commands::trial::choice::Choice;

/// One run: all processes at the same time, from cold caches on.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    pub way: Way,
    /// From the start signal to the end of the slowest process.
    pub wall_seconds: f64,
    /// User and system time of the programs, all nodes.
    pub programs_cpu_seconds: f64,
    /// User and system time of Forebay's daemons, all nodes.
    pub daemons_cpu_seconds: f64,
    /// At the modelled file system.
    pub traffic: Traffic,
}

/// How the directories of trials begin.
const NAME: &str = "forebay-try";

fn job_name(pid: u32) -> String {
    format!("try-{pid}")
}

/// Neither a report nor logs are kept in the user's directories.
fn forebay(binary: &Path, runtime: PathBuf) -> Forebay {
    let environment = [("FOREBAY_REPORT", "off"), ("XDG_STATE_HOME", "/dev/null")];
    let environment = environment.map(|(name, text)| (name, text.into())).to_vec();
    Forebay { binary: binary.to_owned(), runtime, environment }
}

/// The fields are dropped in this order: first who uses a thing, then the thing.
pub struct Site {
    job: Option<Job>,
    nodes: ModelledNodes,
    forebay: Forebay,
    command: Vec<std::ffi::OsString>,
    tree: PathBuf,
    processes: usize,
    /// Forebay's processes while it runs.
    daemons: Vec<u32>,
    ups: Vec<f64>,
    scratch: Scratch,
}

impl Site {
    /// Mounts the model once, so that a machine that cannot says so before anything is measured.
    pub fn new(choice: &Choice, nodes: usize, processes: usize) -> anyhow::Result<Self> {
        let binary = std::env::current_exe().context("the path of this command is not known")?;
        for (pid, killed) in Scratch::of_the_killed(&temporary(), NAME) {
            forebay(&binary, killed.path().join("run")).end_job(&job_name(pid));
        }
        let scratch = Scratch::new(&temporary(), NAME)?;
        let forebay = forebay(&binary, scratch.dir("run")?);
        let nodes = ModelledNodes::new(&choice.tree, scratch.dir("pfs")?, nodes)?;
        let mut site = Self {
            job: None,
            nodes,
            forebay,
            command: choice.command.clone(),
            tree: choice.tree.clone(),
            processes,
            daemons: Vec::new(),
            ups: Vec::new(),
            scratch,
        };
        let why = "the modelled file system cannot be mounted; forebay doctor says what this machine lacks";
        site.nodes.make_cold().context(why)?;
        Ok(site)
    }

    /// Where the standard errors of the last run's programs are.
    pub fn errors(&self) -> PathBuf {
        self.scratch.path().join("errors")
    }

    /// The median time of `forebay up`.
    pub fn up_seconds(&self) -> f64 {
        let mut ups = self.ups.clone();
        ups.sort_by(f64::total_cmp);
        ups.get(ups.len() / 2).copied().unwrap_or(0.0)
    }

    /// Runs the command once on the tree itself; its seconds. So no run waits for this machine's own disk.
    pub fn local(&self) -> anyhow::Result<f64> {
        let command = self.entering(&self.tree, 0)?;
        Ok(Gate::start(vec![command])?.open()?.wall.as_secs_f64())
    }

    /// One run with everything cold: fresh mounts on every node, and a fresh Forebay if that is the way.
    pub fn run(&mut self, way: Way) -> anyhow::Result<(Run, Observed)> {
        self.stop_forebay()?;
        self.nodes.make_cold()?;
        if way == Way::Forebay {
            self.start_forebay()?;
        }
        let gate = Gate::start(self.commands(way)?)?;
        let (traffic, daemons) = (self.nodes.traffic(), self.daemons_cpu());
        let gauge = Gauge::start(self.own_cpu()?)?;
        let storm = gate.open()?;
        let observed = gauge.finish(self.own_cpu()?)?;
        let run = Run {
            way,
            wall_seconds: storm.wall.as_secs_f64(),
            programs_cpu_seconds: storm.cpu.as_secs_f64(),
            daemons_cpu_seconds: self.daemons_cpu().saturating_sub(daemons).as_secs_f64(),
            traffic: self.nodes.traffic().since(&traffic),
        };
        Ok((run, observed))
    }

    fn start_forebay(&mut self) -> anyhow::Result<()> {
        let name = job_name(std::process::id());
        let options =
            ["--export".into(), self.nodes.mount(0).into(), "--local".into(), self.nodes.count().to_string().into()];
        let job = self.forebay.up(&name, &self.scratch.dir("view")?, &options)?;
        self.daemons = job.status()?.processes();
        self.ups.push(job.ready().as_secs_f64());
        self.job = Some(job);
        Ok(())
    }

    /// `forebay down`, when it is up.
    pub fn stop_forebay(&mut self) -> anyhow::Result<()> {
        self.daemons.clear();
        self.job.take().map_or(Ok(()), |job| job.down().map(drop))
    }

    fn commands(&self, way: Way) -> anyhow::Result<Vec<Command>> {
        fs::remove_dir_all(self.errors()).context("cannot remove the outputs of the run before")?;
        let all = (0..self.nodes.count()).flat_map(|node| (0..self.processes).map(move |process| (node, process)));
        let command = |(node, process)| {
            let source = match (way, &self.job) {
                (Way::Forebay, Some(job)) => job.in_view(node, &self.nodes.mount(0))?,
                _ => self.nodes.mount(node),
            };
            self.entering(&source, node * self.processes + process)
        };
        all.map(command).collect()
    }

    /// The command, at a gate, with `source` at the tree's path.
    fn entering(&self, source: &Path, number: usize) -> anyhow::Result<Command> {
        let mut words = vec![self.forebay.binary.clone().into_os_string()];
        words.extend([
            "try".into(),
            "--enter".into(),
            source.into(),
            "--tree".into(),
            self.tree.clone().into(),
            "--".into(),
        ]);
        words.extend_from_slice(&self.command);
        let errors = self.scratch.dir("errors")?.join(format!("{number:04}"));
        let file = File::create(&errors).with_context(|| format!("cannot make {}", errors.display()))?;
        let mut command = Place::here().command(&words);
        // Byte code that the first run wrote would help the second.
        command.stderr(file).env("PYTHONDONTWRITEBYTECODE", "1");
        Ok(command)
    }

    fn daemons_cpu(&self) -> Duration {
        self.daemons.iter().filter_map(|pid| cpu::of_process(*pid)).sum()
    }

    /// Processor time so far of all that belongs to the trial: this process with the model in it, its children that have ended, and
    /// Forebay's daemons.
    fn own_cpu(&self) -> anyhow::Result<Duration> {
        Ok(cpu::of_this()? + cpu::of_children()? + self.daemons_cpu())
    }
}
