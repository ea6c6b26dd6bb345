//! The facts about a node before it touches anything: from the job spec of `up`, or from its own settings.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use forebay_daemon::JobLabels;
use forebay_keeper::{Replayed, Watched, WhenGone, take_stdin};
use forebay_launch::{MemoryFile, NodeAddress, Ports, Process, ProcessSpace, StartId, ViewLayout, read_key};
use forebay_secret::JobKey;
use forebay_types::NodeRank;
use forebay_wire::Level;

use crate::cli::NodeArguments;
use crate::commands::job::selection;
use crate::job_spec::{JobSpec, Script};
use crate::jobs;
use crate::machine;
use crate::node_local;
use crate::settings::{Effective, Settings};

/// The facts known before anything is touched.
pub(super) struct Plan {
    pub(super) job: String,
    pub(super) start_id: StartId,
    pub(super) rank: NodeRank,
    pub(super) nodes: Vec<NodeAddress>,
    pub(super) ports: Ports,
    pub(super) view_layout: ViewLayout,
    /// Of the nodes, where they are known.
    pub(super) switches: Vec<u32>,
    pub(super) labels: JobLabels,
    pub(super) settings: Settings,
    pub(super) handed: Replayed,
    pub(super) directory: PathBuf,
    pub(super) log_file: Option<PathBuf>,
    pub(super) waited_for: WaitedFor,
    pub(super) watched: Vec<Watched>,
    /// Directories on nodes' own disks that the environment of `up` named.
    pub(super) node_local: node_local::Named,
}

/// The commands that wait for the node.
#[derive(Clone, Copy)]
pub(super) struct WaitedFor {
    /// The command that started it takes a line that it is ready: for the end of its wait, or to start the next.
    pub(super) alone: bool,
    /// `up` waits for all nodes.
    pub(super) with_all: bool,
    pub(super) since_unix_ms: u64,
}

impl WaitedFor {
    fn new(with_all: bool, takes_ready: bool) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since_unix_ms = since.map_or(0, |since| since.as_millis() as u64);
        Self { alone: !with_all || takes_ready, with_all, since_unix_ms }
    }
}

pub(super) fn plan(arguments: NodeArguments) -> anyhow::Result<Plan> {
    let wanted = arguments.rank;
    let (given, log_file) = (arguments.given.0, arguments.log_file);
    let handed = if arguments.listen_stdin { Replayed::from_stdin()? } else { Replayed::default() };
    let waited_for = WaitedFor::new(arguments.job_spec.is_some(), arguments.relayed || arguments.listen_stdin);
    // Before anything that takes time: then the parent may be another.
    let starter = arguments.step.then(|| Process::of(std::os::unix::process::parent_id())).flatten();
    let key = arguments.key.map(|path| read_key(&path)).transpose()?;
    if let Some(path) = arguments.job_spec {
        let (spec, carried) = if arguments.keyed { JobSpec::read_keyed(&path)? } else { JobSpec::read(&path)? };
        // Where the job spec was is nothing to be read any more: who started this may hold it as a file with the key.
        drop(take_stdin().context("cannot close standard input")?);
        let settings = Effective::ordered(&spec.settings, given)?.settings()?;
        let rank = own_rank(wanted, &spec.nodes)?;
        let carried = || carried.map(|carried| carried.open(&settings.munge)).transpose();
        let key = key.map_or_else(carried, |key| Ok(Some(key)))?;
        let handed = with_key(settings.security, handed, key)?;
        let watched = watched(starter, &spec);
        return Ok(of_job_spec(spec, rank, settings, handed, (waited_for, watched)));
    }
    let effective = Effective::merge(given, arguments.file.config)?;
    let settings = effective.settings()?;
    let job = jobs::name_to_start(&settings, None);
    let derived = || Ports::derived(&job, rustix::process::geteuid().as_raw(), key.as_ref());
    let ports = settings.port.map_or_else(derived, Ports::named);
    let nodes = match settings.hostfile {
        Some(_) => selection::nodes_of_file(&settings, ports.first())?,
        None => bail!("no list of nodes: give --hostfile FILE (- for standard input)"),
    };
    let rank = own_rank(wanted, &nodes)?;
    let handed = with_key(settings.security, handed, key)?;
    let directory = jobs::base_for_new(settings.directory.as_deref(), false)?.join(&job);
    let (view_layout, switches, labels) = (ViewLayout::ByHost, vec![], jobs::labels(&job));
    Ok(Plan {
        job,
        start_id: StartId::default(),
        rank,
        nodes,
        ports,
        view_layout,
        switches,
        labels,
        settings,
        handed,
        directory,
        log_file,
        waited_for,
        watched: vec![],
        node_local: node_local::Named::new(),
    })
}

/// The plan of a node whose `up` has said everything.
fn of_job_spec(
    spec: JobSpec,
    rank: NodeRank,
    settings: Settings,
    handed: Replayed,
    (waited_for, watched): (WaitedFor, Vec<Watched>),
) -> Plan {
    let JobSpec {
        job,
        start_id,
        job_directory: directory,
        nodes,
        ports,
        view_layout,
        switches,
        labels,
        node_local,
        ..
    } = spec;
    let log_file = Some(directory.join("logs").join(format!("node-{rank}.log")));
    let node_local = node_local.into_iter().map(|(name, path)| (name, path.into())).collect();
    Plan {
        job,
        start_id,
        rank,
        nodes,
        ports,
        view_layout,
        switches,
        labels,
        settings,
        handed,
        directory,
        log_file,
        waited_for,
        watched,
        node_local,
    }
}

/// The processes with which the node or the job ends.
fn watched(starter: Option<Process>, spec: &JobSpec) -> Vec<Watched> {
    let starter = starter.map(|process| Watched { process, when_gone: WhenGone::EndNode });
    let is_here = |script: &&Script| script.space == ProcessSpace::of_this();
    let script = spec.script.as_ref().filter(is_here).map(|script| {
        let base = spec.job_directory.parent().unwrap_or(&spec.job_directory).display().to_string();
        let program = std::env::current_exe().map_or_else(|_| "forebay".to_owned(), |path| path.display().to_string());
        // Nodes may run other jobs soon: what has not landed stays in the stores, and `salvage` lands it.
        let words = ["down", "--no-drain", "--quiet", "--directory", &base, "--job", &spec.job];
        let command = [program].into_iter().chain(words.map(str::to_owned)).collect();
        Watched { process: script.process, when_gone: WhenGone::EndJob(command) }
    });
    starter.into_iter().chain(script).collect()
}

/// The same, and the key that the node has read itself, if the level takes one.
fn with_key(level: Level, handed: Replayed, key: Option<JobKey>) -> anyhow::Result<Replayed> {
    if level == Level::Off {
        return Ok(Replayed { key: None, ..handed });
    }
    let read = key.as_ref().map(MemoryFile::of_key).transpose()?;
    let key = read.map(OwnedFd::from).or(handed.key);
    ensure!(key.is_some(), "no key: give --key FILE, the same for all nodes, or --security off");
    Ok(Replayed { key, ..handed })
}

/// The rank that was given, else that of the one node that has this host's name.
fn own_rank(given: Option<u32>, nodes: &[NodeAddress]) -> anyhow::Result<NodeRank> {
    if let Some(rank) = given {
        ensure!(
            (rank as usize) < nodes.len(),
            "rank {rank} is not one of the {} nodes (0 to {})",
            nodes.len(),
            nodes.len() - 1
        );
        return Ok(NodeRank(rank));
    }
    let names = machine::host_names();
    for name in &names {
        let mut found = (0..).zip(nodes).filter(|(_, node)| node.host.eq_ignore_ascii_case(name));
        match (found.next(), found.next()) {
            (Some((rank, _)), None) => return Ok(NodeRank(rank)),
            (Some(_), Some(_)) => bail!("{name} is in the list of nodes more than once; say which with --rank"),
            (None, _) => {}
        }
    }
    // A list may have names with domains, where hosts know themselves without.
    let short = |host: &str| host.split('.').next().unwrap_or(host).to_ascii_lowercase();
    for name in &names {
        let mut found = (0..).zip(nodes).filter(|(_, node)| short(&node.host) == short(name));
        if let (Some((rank, _)), None) = (found.next(), found.next()) {
            return Ok(NodeRank(rank));
        }
    }
    bail!("this host ({}) is not in the list of nodes; say which it is with --rank", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str) -> NodeAddress {
        NodeAddress { host: host.into(), port: 1 }
    }

    #[test]
    fn the_rank_is_given_or_found_by_name() {
        let name = machine::host_names().remove(0);
        let nodes = [node("elsewhere"), node(&name.to_uppercase())];
        assert_eq!(own_rank(None, &nodes).unwrap(), NodeRank(1));
        assert_eq!(own_rank(Some(0), &nodes).unwrap(), NodeRank(0));
        assert!(own_rank(Some(2), &nodes).unwrap_err().to_string().contains("0 to 1"));
        assert!(own_rank(None, &nodes[..1]).unwrap_err().to_string().contains("not in the list"));
        assert!(own_rank(None, &[node(&name), node(&name)]).unwrap_err().to_string().contains("more than once"));
    }
}
