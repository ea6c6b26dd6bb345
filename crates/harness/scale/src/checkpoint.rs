//! A checkpoint on the nodes' own disks, and its reading by the ranks that wrote it: the part of their rates that one leader of the tree leaves.
//!
//! Bytes go to a node's own disk and meet no other node. The cost of a file to others is the leader's: its name, and its commit when it is
//! closed. Both wait at one processor there, in the order in which they arrive. No file lands meanwhile.

use super::servers::{Fifo, Nanos, Queue, nanos, scattered, seconds, span};
use super::stated::{Stated, stated};
use super::table::{Bar, Curve, Outcome, in_seconds};

const TALK: &str = "the talk on Summit's node-local disks: 7.3 PB over 4,608 nodes";
const LEADER: &str = "measured: the leader's processor time, forebay-bench-write --quick --only more-nodes";

const WRITE_RATE: Stated = stated("a node's disk, writing", 2.1e9, "B/s", TALK);
const READ_RATE: Stated = stated("a node's disk, reading", 5.5e9, "B/s", TALK);
const RANKS: Stated = stated("ranks of a node", 6.0, "", "one for each of Summit's GPUs");
const NODE_BYTES: Stated = stated("a node's part of the checkpoint", 96e9, "B", "assumed: the memory of its six GPUs");
const LATENCY: Stated = stated("a message to the leader, and its answer", 50e-6, "s", "assumed");
const CREATE: Stated = stated("the leader, a name", 168e-6, "s", LEADER);
const COMMIT: Stated = stated("the leader, a commit and a close", 32e-6, "s", LEADER);
const LOOKUP: Stated = stated("the leader, a name that is looked up", 52e-6, "s", LEADER);

/// Nodes of the machine that the talk is about.
const SUMMIT: usize = 4608;

/// Slower than a node alone by this much at most: linear, less 5 %.
const LINEAR: f64 = 1.05;

/// How the ranks write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Files {
    /// Each a file of its own.
    OfRanks,
    /// All of them one, which is there already.
    Shared,
}

/// A rank's way through its part.
enum Step {
    /// Its name, or where it finds it, has come to the leader.
    Asks,
    /// It begins with its bytes.
    Moves,
    /// It closes, if it has written.
    Commits,
}

/// The leader's work for a rank before its bytes, and after them.
#[derive(Clone, Copy)]
struct AtLeader {
    before: Stated,
    after: Option<Stated>,
}

/// Both ways to write, and reading what the first has written.
pub(super) fn checkpoint(nodes: &[usize], seed: u64) -> Outcome {
    let write = |files: Files| {
        let before = if files == Files::OfRanks { CREATE } else { LOOKUP };
        (AtLeader { before, after: Some(COMMIT) }, WRITE_RATE)
    };
    let ways = [
        ("a file for each rank", write(Files::OfRanks)),
        ("one shared file", write(Files::Shared)),
        ("reading a rank's own file", (AtLeader { before: LOOKUP, after: None }, READ_RATE)),
    ];
    let head = ["nodes", "what", "s", "TB/s", "GB/s a node", "against one node"].map(str::to_owned).to_vec();
    let (mut rows, mut bars, mut curves) = (vec![head], Vec::new(), Vec::new());
    for (what, (at_leader, rate)) in ways {
        let alone = run(1, at_leader, rate, seed);
        let mut points = Vec::new();
        for nodes in nodes {
            let took = run(*nodes, at_leader, rate, seed);
            let total = NODE_BYTES.value * *nodes as f64 / took;
            let slower = took / alone;
            points.push((*nodes as f64, took));
            rows.push(vec![
                nodes.to_string(),
                what.to_owned(),
                in_seconds(took),
                format!("{:.3}", total / 1e12),
                in_seconds(total / 1e9 / *nodes as f64),
                format!("{slower:.2} x"),
            ]);
            if *nodes == SUMMIT {
                let what = format!("{what}: time on {SUMMIT} nodes against one");
                bars.push(Bar { what, figure: Some(slower), at_most: LINEAR, unit: "x" });
            }
        }
        curves.push(Curve::modelled(what, points));
    }
    Outcome {
        title: "A checkpoint on the nodes' own disks, and reading it again".to_owned(),
        source: TALK,
        parameters: vec![WRITE_RATE, READ_RATE, RANKS, NODE_BYTES, LATENCY, CREATE, COMMIT, LOOKUP],
        rows,
        curves,
        bars,
        notes: vec![
            "All ranks begin at the same moment, and the leader answers one after the other: its lock, its log and its standby are in \
             its processor time, but it has one processor here and more on a node."
                .to_owned(),
        ],
    }
}

/// Seconds until the last rank is done.
fn run(nodes: usize, at_leader: AtLeader, rate: Stated, seed: u64) -> f64 {
    let ranks = nodes * RANKS.count();
    let bytes = (NODE_BYTES.value / RANKS.value) as u64;
    let (before, after) = (nanos(at_leader.before.value), at_leader.after.map(|after| nanos(after.value)));
    let latency = nanos(LATENCY.value);
    let mut leader = Fifo::default();
    let mut disks = vec![Fifo::default(); nodes];
    let mut queue = Queue::new();
    // Chance decides which rank is first.
    let mut order: Vec<usize> = (0..ranks).collect();
    order.sort_by_key(|rank| scattered(seed, *rank as u64));
    order.into_iter().for_each(|rank| queue.at(latency, (rank, Step::Asks)));
    let mut last: Nanos = 0;
    while let Some((rank, step)) = queue.next() {
        let now = queue.now();
        match step {
            Step::Asks => queue.at(leader.serve(now, before) + latency, (rank, Step::Moves)),
            Step::Moves => {
                let done = disks[rank / RANKS.count()].serve(now, span(bytes, rate.value));
                match after {
                    Some(_) => queue.at(done + latency, (rank, Step::Commits)),
                    None => last = last.max(done),
                }
            }
            Step::Commits => last = last.max(leader.serve(now, after.unwrap_or(0)) + latency),
        }
    }
    seconds(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_alone_has_its_disk_s_rate() {
        let took = run(1, AtLeader { before: CREATE, after: Some(COMMIT) }, WRITE_RATE, 1);
        assert!((took - 96.0 / 2.1).abs() < 0.01, "{took}");
    }

    #[test]
    fn names_wait_for_the_leader() {
        let slow = CREATE.but(0.1, "this test");
        let took = run(10, AtLeader { before: slow, after: None }, WRITE_RATE, 1);
        let (names, bytes) = (0.1 * 60.0, 16.0 / 2.1);
        assert!(took >= names + bytes, "the last of 60 names waits for all of them, and then its rank writes: {took}");
    }
}
