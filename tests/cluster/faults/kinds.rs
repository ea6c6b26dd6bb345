//! The faults: what is broken, whom it hits, and what may be seen of it.

use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::testbed::Cluster;

/// Whether a keeper starts a daemon that died anew, under its view. Then the reader on its node must see no error
/// either, and a daemon can be restarted under load.
pub const HAS_KEEPER: bool = true;

/// Nodes of the job. With fan-out 2: the root 0, the inner nodes 2 and 4, the leaves 1, 3, 5 and 6.
pub const NODES: usize = 7;
pub const ROOT: usize = 0;
pub const INNER: usize = 4;
pub const LEAF: usize = 6;

/// The errors of GlusterFS when its server is gone: ENOTCONN, and EIO where the cause is unknown to it.
pub const OF_BACKING: [i32; 2] = [107, 5];

/// Something that breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// SIGKILL to a daemon.
    Killed(usize),
    /// SIGSTOP to a daemon, SIGCONT in the end.
    Stopped(usize),
    /// A node's cable, with the way to its server.
    Cut(usize),
    /// Two halves of the job that do not hear each other; all hear the server.
    Parted,
    /// SIGSTOP to the server, SIGCONT in the end.
    ServerHung,
    /// SIGKILL to the server, which is started again in the end.
    ServerKilled,
    /// SIGKILL to a daemon again and again, each time its keeper has started it anew.
    Restarted(usize),
}

/// Every fault, in the order of the table.
pub fn all() -> Vec<Fault> {
    use Fault::{Cut, Killed, Parted, Restarted, ServerHung, ServerKilled, Stopped};
    let mut all = vec![Killed(LEAF), Killed(INNER), Killed(ROOT), Stopped(INNER), Stopped(ROOT), Cut(INNER), Parted];
    all.extend([ServerHung, ServerKilled]);
    all.extend(HAS_KEEPER.then_some(Restarted(INNER)));
    all
}

impl Fault {
    /// The name of the fault in the table.
    pub fn name(self) -> String {
        let role = |node| match node {
            ROOT => "root",
            INNER => "inner node",
            _ => "leaf",
        };
        match self {
            Self::Killed(node) => format!("{}: daemon killed", role(node)),
            Self::Stopped(node) => format!("{}: daemon stopped", role(node)),
            Self::Cut(node) => format!("{}: cable cut", role(node)),
            Self::Parted => "network cut in two".to_owned(),
            Self::ServerHung => "file server hung".to_owned(),
            Self::ServerKilled => "file server killed".to_owned(),
            Self::Restarted(node) => format!("{}: daemon killed again and again", role(node)),
        }
    }

    /// How long it lasts when it is measured.
    pub fn lasts(self) -> Duration {
        Duration::from_secs(match self {
            Self::Killed(_) | Self::Stopped(_) => 20,
            Self::Cut(_) | Self::Parted => 10,
            Self::ServerHung => 15,
            Self::ServerKilled => 5,
            Self::Restarted(_) => 1,
        })
    }

    /// The node that is hit itself; its reader is judged apart.
    pub fn victim(self) -> Option<usize> {
        match self {
            Self::Killed(node) | Self::Stopped(node) | Self::Cut(node) | Self::Restarted(node) => Some(node),
            Self::Parted | Self::ServerHung | Self::ServerKilled => None,
        }
    }

    /// Whether the victim's view is gone for good.
    pub fn ends_view(self) -> bool {
        matches!(self, Self::Killed(_)) && !HAS_KEEPER
    }

    /// Whether the backing file system itself cannot be read, by any node: its errors are passed on.
    pub fn hits_backing(self) -> bool {
        matches!(self, Self::ServerHung | Self::ServerKilled)
    }

    /// Whether the victim cannot read the backing file system either.
    pub fn cuts_backing_of_victim(self) -> bool {
        matches!(self, Self::Cut(_))
    }

    /// The longest stall that is allowed on other nodes than the victim.
    pub fn stall_max(self) -> Option<Duration> {
        match self {
            Self::Killed(_) | Self::Stopped(_) => Some(Duration::from_secs(2)),
            Self::Restarted(_) => Some(Duration::from_secs(3)),
            _ => None,
        }
    }

    /// The longest stall that is allowed on the victim.
    pub fn victim_stall_max(self) -> Option<Duration> {
        let comes_back = HAS_KEEPER && matches!(self, Self::Killed(_) | Self::Restarted(_));
        comes_back.then_some(Duration::from_secs(3))
    }

    /// Breaks it.
    pub fn begin(self, cluster: &Cluster) {
        let testbed = cluster.testbed();
        match self {
            Self::Killed(node) | Self::Restarted(node) => signal(cluster.pid(node), Signal::KILL),
            Self::Stopped(node) => signal(cluster.pid(node), Signal::STOP),
            Self::Cut(node) => drop(testbed.script(&["fault", "link-down", &format!("n{node}")])),
            Self::Parted => drop(testbed.script(&["fault", "part", "n0,n2,n4", "n1,n3,n5,n6"])),
            Self::ServerHung => drop(testbed.script(&["fault", "pause"])),
            Self::ServerKilled => drop(testbed.script(&["fault", "kill"])),
        }
    }

    /// Mends it, where it can be mended.
    pub fn end(self, cluster: &Cluster) {
        let testbed = cluster.testbed();
        match self {
            Self::Killed(_) | Self::Restarted(_) => {}
            Self::Stopped(node) => resume(cluster.pid(node)),
            Self::Cut(node) => drop(testbed.script(&["fault", "link-up", &format!("n{node}")])),
            Self::Parted => drop(testbed.script(&["fault", "join"])),
            Self::ServerHung => drop(testbed.script(&["fault", "resume"])),
            Self::ServerKilled => drop(testbed.script(&["fault", "start"])),
        }
    }
}

/// Sends a signal to a daemon.
pub fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

/// Lets a stopped daemon go on. If it was stopped for as long as its keeper waits for a word of it, another has taken its place.
fn resume(pid: u32) {
    let resumed = kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), Signal::CONT);
    assert!(matches!(resumed, Ok(()) | Err(Errno::SRCH)), "{resumed:?}");
}
