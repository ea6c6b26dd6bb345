//! A scenario: a job, its programs and its faults, all from one seed, and what must hold after it.

use std::collections::BTreeSet;
use std::time::Duration;

use forebay_dispatch::limits::SUSPICION_LONGEST;
use forebay_overlay::Tree;
use forebay_types::{NodeRank, Time};

use crate::NodeIndex;
use crate::faults::{Fault, schedule};
use crate::job::{Job, Setup};
use crate::model::Model;
use crate::program::Program;
use crate::random::Random;
use crate::tables::Asked;

/// Programs and faults begin within this time.
const SPAN: Duration = Duration::from_secs(40);

/// After this time nothing may be asked any more: all faults are mended, and all deadlines over.
const SETTLE: Duration = Duration::from_secs(120);

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Number of nodes.
    pub nodes: usize,
    /// What went wrong by plan.
    pub faults: Vec<(Time, Fault)>,
    /// What was not as it must be; nothing if all is well.
    pub wrong: Vec<String>,
    /// The longest time that a request took.
    pub longest: Duration,
    /// What happened, if it was written down.
    pub log: Vec<String>,
}

/// Runs a seed.
#[must_use]
pub fn run(seed: u64, log: bool) -> Report {
    let mut random = Random::new(seed);
    let model = Model::new(random.next());
    let nodes = match random.below(20) {
        0 => 100 + random.below(200) as usize,
        1..8 => 8 + random.below(60) as usize,
        _ => 1 + random.below(12) as usize,
    };
    let (fan_out, stripe_fan_out) = (1 + random.below(9) as u32, 1 + random.below(5) as u32);
    let roots = 1 + random.below(8) as u32;
    let faults = schedule(&mut random, nodes, SPAN);
    let prefill = random.below(2) == 0;
    // A backing file system that takes a few questions at a time, or all.
    let turns = if seed.is_multiple_of(3) { 2 } else { usize::MAX };
    let setup = Setup { nodes, roots, fan_out, stripe_fan_out, budget_bytes: 512 << 20, turns, prefill, log };
    let mut job = Job::new(&model, setup, random.next());
    faults.iter().for_each(|(at, fault)| job.plan(*at, fault.clone()));
    let mut programs: Vec<Program> = (0..60 + random.below(200))
        .map(|_| {
            let starts = Time(random.below(SPAN.as_nanos() as u64));
            Program::random(&model, nodes, &mut random, starts)
        })
        .collect();
    // Who asks around a refresh is told what was before or what is now, but never the first after the second.
    for at in faults.iter().filter(|(_, fault)| matches!(fault, Fault::Refresh(_))).map(|(at, _)| *at) {
        for _ in 0..60 {
            let starts = at.after(Duration::from_millis(random.below(2500)));
            programs.push(Program::random(&model, nodes, &mut random, starts));
        }
    }
    job.run(programs);
    let mut wrong = job.wrong().to_vec();
    wrong.extend(job.settle(SETTLE));
    wrong.extend(too_many_reads(&job, &faults));
    wrong.extend(too_many_questions(&job));
    Report { seed, nodes, faults, wrong, longest: job.longest(), log: job.log().to_vec() }
}

/// The backing file system is read once for an object, and again only where nodes that had read it were lost or cut off:
/// at most once by each life of a node, and by no more nodes than had nobody to ask between two faults.
fn too_many_reads(job: &Job<'_>, faults: &[(Time, Fault)]) -> Vec<String> {
    let mut possible: Vec<(Tree, usize)> = Vec::new();
    let mut wrong = Vec::new();
    for (object, Asked { tree, readers }) in &job.asked {
        let readers_max = match readers.len() {
            0 | 1 => 1,
            _ => match possible.iter().find(|(other, _)| other == tree) {
                Some((_, count)) => *count,
                None => {
                    possible.push((*tree, readers_max(job, faults, tree)));
                    possible.last().unwrap().1
                }
            },
        };
        if readers.len() > readers_max {
            wrong.push(format!("{} nodes read {object}, {readers_max} might: {readers:?}", readers.len()));
        }
        // What was given up because of a fault is asked again, and a leaf leaves chunks to its kernel.
        let is_kept = |node: NodeIndex| !object.starts_with("Chunk") || !tree.is_leaf(NodeRank(node as u32));
        if faults.is_empty() && readers.iter().any(|((node, _), count)| *count > 1 && is_kept(*node)) {
            wrong.push(format!("a node read {object} more than once: {readers:?}"));
        }
    }
    wrong
}

fn readers_max(job: &Job<'_>, faults: &[(Time, Fault)], tree: &Tree) -> usize {
    let mut possible = possible_readers(job, tree, &as_they_are_noticed(faults, Duration::ZERO));
    possible.extend(possible_readers(job, tree, &as_they_are_noticed(faults, SUSPICION_LONGEST)));
    possible.len()
}

/// Which lives of nodes may have had nobody to ask in a tree, over all times between two faults. A node that was stopped finds its
/// questions' time almost over when it goes on, and may read for itself as the last resort.
fn possible_readers(job: &Job<'_>, tree: &Tree, changes: &[Change<'_>]) -> BTreeSet<(NodeIndex, u32)> {
    let nodes = job.nodes.len();
    let mut crashed = BTreeSet::new();
    let mut paused = BTreeSet::new();
    let mut stopped: BTreeSet<(NodeIndex, u32)> = BTreeSet::new();
    let mut cuts = BTreeSet::new();
    let mut divisions = Vec::new();
    let mut lives = vec![0u32; nodes];
    let mut readers: BTreeSet<(NodeIndex, u32)> = BTreeSet::new();
    let mut note = |away: &BTreeSet<NodeIndex>,
                    cuts: &BTreeSet<(NodeIndex, NodeIndex)>,
                    divisions: &[NodeIndex],
                    lives: &[u32]| {
        for (node, life) in lives.iter().enumerate() {
            let can_ask = |other: NodeRank| {
                let other = other.0 as usize;
                let divided = divisions.iter().any(|first| (node < *first) != (other < *first));
                !away.contains(&other) && !divided && !cuts.contains(&(node, other)) && !cuts.contains(&(other, node))
            };
            if !tree.line(NodeRank(node as u32)).any(can_ask) {
                readers.insert((node, *life));
            }
        }
    };
    note(&BTreeSet::new(), &cuts, &divisions, &lives);
    for change in changes {
        let fault = match change {
            Change::Fault(fault) => fault,
            Change::Undivided(first) => {
                if let Some(at) = divisions.iter().position(|other| other == first) {
                    divisions.remove(at);
                }
                continue;
            }
        };
        match fault {
            Fault::Crash(node) => {
                if crashed.insert(*node) {
                    lives[*node] += 1;
                }
            }
            Fault::Pause(node) => {
                paused.insert(*node);
                stopped.insert((*node, lives[*node]));
            }
            Fault::Restart(node) => drop(crashed.remove(node)),
            Fault::Resume(node) => drop(paused.remove(node)),
            Fault::Slow(..) => {}
            fault if !fault.breaks_the_overlay() => {}
            Fault::Cut(from, to) => drop(cuts.insert((*from, *to))),
            Fault::Mend(from, to) => drop(cuts.remove(&(*from, *to))),
            Fault::Partition(first) => divisions.push(*first),
            _ => divisions.clear(),
        }
        note(&crashed.union(&paused).copied().collect(), &cuts, &divisions, &lives);
    }
    readers.extend(stopped);
    readers
}

/// What changes for the nodes.
enum Change<'f> {
    Fault(&'f Fault),
    /// The nodes below this index and the others can reach each other again, because they are divided elsewhere now.
    Undivided(NodeIndex),
}

/// The changes in the order in which nodes may come to know them: one that comes back may be left alone for as long as a
/// suspicion lasts.
fn as_they_are_noticed(faults: &[(Time, Fault)], suspicion: Duration) -> Vec<Change<'_>> {
    let mut in_order: Vec<(Time, Change<'_>)> = Vec::new();
    let mut divided = None;
    for (at, fault) in faults {
        let earlier = match fault {
            Fault::Partition(first) => divided.replace(*first),
            Fault::Join => {
                divided = None;
                None
            }
            _ => None,
        };
        in_order.extend(earlier.map(|first| (at.after(suspicion), Change::Undivided(first))));
        let noticed = match fault {
            Fault::Restart(_) | Fault::Resume(_) | Fault::Mend(..) | Fault::Join => at.after(suspicion),
            _ => *at,
        };
        in_order.push((noticed, Change::Fault(fault)));
    }
    in_order.sort_by_key(|(noticed, _)| *noticed);
    in_order.into_iter().map(|(_, change)| change).collect()
}

/// Second questions keep to their budget.
fn too_many_questions(job: &Job<'_>) -> Option<String> {
    let asked = job.sum(|core| core.counters().dispatch.asked_peers);
    let hedged = job.sum(|core| core.counters().dispatch.hedged);
    let allowed = asked / 50 + 16 * job.nodes.len() as u64;
    (hedged > allowed).then(|| format!("{hedged} second questions beside {asked}"))
}
