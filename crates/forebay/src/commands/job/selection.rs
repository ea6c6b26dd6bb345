//! Which nodes a job has: those that were named, else the allocation's, else this machine.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::num::NonZero;

use anyhow::Context;
use forebay_launch::{
    Allocation, Launcher, LauncherName, NodeAddress, Surroundings, TopologySource, ViewLayout, bind_listeners,
    in_order, launcher, parse_hostfile, switches_of, topology_file, usual_launcher,
};

use crate::job_spec::read_input;
use crate::machine;
use crate::output::tell;
use crate::search_path::in_path;
use crate::settings::values::Topology;
use crate::settings::{Effective, Origin, Settings, UsageError};

/// The nodes of a job and how they are started.
#[derive(Debug)]
pub enum Selection {
    /// On this machine, with the listeners they will serve and where their views are.
    Local(Vec<(TcpListener, NodeAddress)>, ViewLayout),
    /// On these hosts, by this launcher.
    Hosts(Vec<NodeAddress>, Box<dyn Launcher>),
}

/// Remote shells that may begin at once. More of them, each a process with a login, are a load of their own for the host that starts them.
const REMOTE_AT_ONCE: usize = 128;

/// Nodes of this machine that may begin at once, for each processor: a little more than keep it busy.
const LOCAL_AT_ONCE: usize = 8;

/// The three ways to name nodes.
const WAYS: [&str; 3] = ["local", "nodes", "hostfile"];

impl Selection {
    /// How many of its starters may begin at once.
    pub fn at_once(&self) -> usize {
        match self {
            Self::Local(..) => LOCAL_AT_ONCE * std::thread::available_parallelism().map_or(1, NonZero::get),
            Self::Hosts(..) => REMOTE_AT_ONCE,
        }
    }

    /// The nodes in the settings, else in the environment of a scheduler. Nodes that name no port have `port`.
    ///
    /// # Errors
    /// When two ways were given at once, the one that counts names no usable nodes, or the file of the topology does not
    /// place them.
    pub fn choose(
        effective: &Effective,
        settings: &Settings,
        port: u16,
        allocated: Option<&Allocation>,
    ) -> anyhow::Result<Self> {
        let mut selection = Self::listed(effective, settings, port, allocated)?;
        let source = source_of(settings)?;
        let note = match &mut selection {
            Self::Local(..) => passed_over(settings),
            Self::Hosts(nodes, launcher) => {
                let note = in_order(nodes, &source, is_slurm(launcher.as_ref())).context("cannot use --topology")?;
                if let Some(first) =
                    launcher.first_host().and_then(|first| nodes.iter().position(|node| node.host == first))
                {
                    nodes[..=first].rotate_right(1);
                }
                note
            }
        };
        note.iter().for_each(|note| tell!("forebay: note: {note}"));
        Ok(selection)
    }

    /// The nodes in the order in which they are listed.
    fn listed(
        effective: &Effective,
        settings: &Settings,
        port: u16,
        allocated: Option<&Allocation>,
    ) -> anyhow::Result<Self> {
        let nodes = match way(effective)? {
            Some("local") => return Self::local(settings.local.unwrap_or(1), ViewLayout::Numbered),
            Some("nodes") => {
                let text = settings.nodes.iter().flatten().map(|host| format!("{host}\n")).collect::<String>();
                let mut seen = BTreeSet::new();
                if let Some(twice) = settings.nodes.iter().flatten().find(|host| !seen.insert(*host)) {
                    return Err(
                        UsageError(format!("--nodes names {twice} twice; a node needs a host of its own")).into()
                    );
                }
                parse_hostfile(&text, "--nodes", port)?
            }
            Some(_) => nodes_of_file(settings, port)?,
            None => return Self::allocated(settings, port, allocated),
        };
        let name = settings.launcher.unwrap_or(LauncherName::Ssh);
        Ok(Self::Hosts(nodes, launcher_of(name, settings, allocated)?))
    }

    fn allocated(settings: &Settings, port: u16, allocated: Option<&Allocation>) -> anyhow::Result<Self> {
        let Some(allocation) = allocated else {
            if let Some(name) = settings.launcher.filter(|name| *name != LauncherName::Ssh) {
                return Err(UsageError(format!(
                    "--launcher {name}, but this is no job of a scheduler that tells its hosts; name them with --nodes or --hostfile"
                ))
                .into());
            }
            return Self::local(1, ViewLayout::ByHost);
        };
        let name = settings.launcher.unwrap_or_else(|| usual_launcher(Some(allocation.scheduler), &in_path));
        // A remote shell to itself may not be allowed, and is not needed.
        if name != LauncherName::Slurm && is_this_host(&allocation.hosts) {
            return Self::local(1, ViewLayout::ByHost);
        }
        let nodes = allocation.hosts.iter().map(|host| NodeAddress { host: host.clone(), port }).collect();
        Ok(Self::Hosts(nodes, launcher_of(name, settings, allocated)?))
    }

    fn local(count: usize, layout: ViewLayout) -> anyhow::Result<Self> {
        let bound = bind_listeners(count).context("cannot start nodes on this machine")?;
        Ok(Self::Local(bound, layout))
    }

    /// The nodes in the order of their ranks.
    pub fn nodes(&self) -> Vec<NodeAddress> {
        match self {
            Self::Local(bound, _) => bound.iter().map(|(_, address)| address.clone()).collect(),
            Self::Hosts(nodes, _) => nodes.clone(),
        }
    }

    /// The switches that they are on, by numbers; empty where that is not known.
    ///
    /// # Errors
    /// When the file of the topology cannot be read.
    pub fn switches(&self, settings: &Settings) -> anyhow::Result<Vec<u32>> {
        let source = source_of(settings)?;
        Ok(match self {
            Self::Local(..) => vec![],
            Self::Hosts(nodes, launcher) => switches_of(nodes, &source, is_slurm(launcher.as_ref())),
        })
    }

    /// Where their views are, below the directory that was asked for.
    pub fn view_layout(&self) -> ViewLayout {
        match self {
            Self::Local(_, layout) => *layout,
            Self::Hosts(..) => ViewLayout::ByHost,
        }
    }
}

fn is_slurm(launcher: &dyn Launcher) -> bool {
    launcher.name() == LauncherName::Slurm
}

fn launcher_of(
    name: LauncherName,
    settings: &Settings,
    allocation: Option<&Allocation>,
) -> anyhow::Result<Box<dyn Launcher>> {
    let (remote_shell, own_names) = (settings.remote_shell.as_slice(), machine::host_names());
    let surroundings = Surroundings { allocation, remote_shell, own_names: &own_names };
    Ok(launcher(name, &surroundings, &in_path)?)
}

/// Where the settings have the order of the nodes from.
fn source_of(settings: &Settings) -> anyhow::Result<TopologySource> {
    Ok(match &settings.topology {
        Topology::Auto => TopologySource::Auto,
        Topology::Off => TopologySource::Off,
        Topology::File(path) => topology_file(path).context("cannot use --topology")?,
    })
}

/// Options for nodes on several machines that were given although all are on this one.
fn passed_over(settings: &Settings) -> Option<String> {
    let given = [
        ("--topology", matches!(settings.topology, Topology::File(_))),
        ("--interface", settings.interface.is_some()),
        ("--port", settings.port.is_some()),
    ];
    let given: Vec<&str> = given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect();
    let verb = if given.len() == 1 { "is" } else { "are" };
    let names = given.join(" and ");
    (!given.is_empty()).then(|| format!("{names} {verb} ignored: all nodes are on this machine"))
}

fn is_this_host(hosts: &[String]) -> bool {
    let own = machine::host_names();
    matches!(hosts, [host] if own.iter().any(|name| name.eq_ignore_ascii_case(host)))
}

/// The nodes of the host file that the settings name. Those that name no port have `port`.
///
/// # Errors
/// When there is none, or it is not a host file.
pub fn nodes_of_file(settings: &Settings, port: u16) -> anyhow::Result<Vec<NodeAddress>> {
    let path = settings.hostfile.as_deref().ok_or_else(|| UsageError("--hostfile is missing".to_owned()))?;
    let bytes = read_input(path).with_context(|| format!("cannot use the host file {}", path.display()))?;
    let text = String::from_utf8(bytes).with_context(|| format!("the host file {} is not text", path.display()))?;
    Ok(parse_hostfile(&text, &path.display().to_string(), port)?)
}

/// Whether the settings name the nodes, so that the allocation's do not count.
///
/// # Errors
/// As for `choose`.
pub fn are_nodes_named(effective: &Effective) -> Result<bool, UsageError> {
    way(effective).map(|way| way.is_some())
}

/// The way that comes from the strongest source; two from the same one contradict each other.
fn way(effective: &Effective) -> Result<Option<&'static str>, UsageError> {
    let strength = |origin: &Origin| match origin {
        Origin::Option => 3,
        Origin::Environment { .. } => 2,
        _ => 1,
    };
    let mut given: Vec<(u8, &'static str)> =
        WAYS.iter().filter_map(|way| Some((strength(&effective.get(way)?.1), *way))).collect();
    given.sort_unstable();
    match given.as_slice() {
        [] => Ok(None),
        [.., (other, one), (strongest, way)] if other == strongest => {
            Err(UsageError(format!("--{one} and --{way} were both given; choose one way to name the nodes")))
        }
        [.., (_, way)] => Ok(Some(way)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_launch::Scheduler;
    use std::collections::BTreeMap;

    fn allocation(scheduler: Scheduler, hosts: &[&str]) -> Allocation {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let first_lines = (0..hosts.len()).collect();
        Allocation { scheduler, number: "7".into(), job: "7".into(), list: hosts.join(","), hosts, first_lines }
    }

    fn chosen(given: &[(&'static str, &str)], environment: Option<&str>) -> anyhow::Result<Selection> {
        let given: BTreeMap<_, _> = given.iter().map(|(key, text)| (*key, vec![(*text).to_owned()])).collect();
        let variable = |name: &str| (name == "FOREBAY_LOCAL").then(|| environment.map(Into::into)).flatten();
        let effective = Effective::merge_with(given, None, &variable)?;
        let settings = effective.settings()?;
        let allocation = allocation(Scheduler::Slurm, &["a", "b"]);
        Selection::choose(&effective, &settings, settings.port.unwrap_or(5), Some(&allocation))
    }

    #[test]
    fn options_beat_the_environment_beats_the_allocation() {
        assert!(
            matches!(chosen(&[], None).unwrap(), Selection::Hosts(nodes, launcher) if nodes.len() == 2 && launcher.name() == LauncherName::Slurm)
        );
        assert!(matches!(chosen(&[], Some("3")).unwrap(), Selection::Local(bound, _) if bound.len() == 3));
        let selection = chosen(&[("nodes", "n[1-3]"), ("port", "7000")], Some("3")).unwrap();
        assert_eq!(selection.nodes()[2].to_string(), "n3:7000");
    }

    #[test]
    fn hosts_of_another_scheduler_are_started_by_the_remote_shell() {
        let given = |hosts: &[&str]| {
            let given = BTreeMap::from([("launcher", vec!["ssh".to_owned()])]);
            let effective = Effective::merge_with(given, None, &|_| None).unwrap();
            let allocation = allocation(Scheduler::Pbs, hosts);
            Selection::choose(&effective, &effective.settings().unwrap(), 5, Some(&allocation)).unwrap()
        };
        assert!(matches!(given(&["a", "b"]), Selection::Hosts(nodes, _) if nodes.len() == 2 && nodes[1].host == "b"));
        let own = machine::host_names().remove(0);
        assert!(matches!(given(&[&own]), Selection::Local(bound, ViewLayout::ByHost) if bound.len() == 1));
    }

    #[test]
    fn views_are_numbered_where_local_was_asked_for() {
        let layout = |environment| chosen(&[], environment).unwrap().view_layout();
        assert_eq!(layout(Some("1")), ViewLayout::Numbered);
        assert_eq!(layout(None), ViewLayout::ByHost);
        let beaten = chosen(&[("nodes", "a")], Some("1")).unwrap();
        assert_eq!(beaten.view_layout(), ViewLayout::ByHost, "the environment's --local does not count here");
    }

    #[test]
    fn nodes_get_their_ranks_in_the_order_of_the_topology() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("net.conf");
        std::fs::write(&file, "SwitchName=b Nodes=n[2,4]\nSwitchName=a Nodes=n[1,3]\n").unwrap();
        let given = [("nodes", "n[1-4]"), ("topology", file.to_str().unwrap())];
        let order: Vec<String> = chosen(&given, None).unwrap().nodes().into_iter().map(|node| node.host).collect();
        assert_eq!(order, ["n2", "n4", "n1", "n3"]);
        let message = format!("{:#}", chosen(&[("nodes", "n[1-5]"), given[1]], None).unwrap_err());
        assert!(message.contains("the job's node n5 is on no switch"), "{message}");
        let missing = format!("{:#}", chosen(&[("nodes", "a"), ("topology", "/nonexistent")], None).unwrap_err());
        assert!(missing.contains("cannot use --topology: cannot read /nonexistent"), "{missing}");
    }

    #[test]
    fn contradictions_and_bad_lists() {
        let message = |given: &[(&'static str, &str)]| format!("{:#}", chosen(given, None).unwrap_err());
        assert!(message(&[("nodes", "a"), ("local", "2")]).contains("both given"));
        assert!(message(&[("nodes", "a,b,a")]).contains("--nodes names a twice"));
        assert!(message(&[("hostfile", "/nonexistent/hosts")]).contains("cannot use the host file /nonexistent/hosts"));
    }
}
