//! A scenario: a job, its programs and its faults, all from one seed, and what must hold after it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use forebay_dispatch::limits::SUSPICION_LONGEST;
use forebay_overlay::Tree;
use forebay_overlay::limits::HOMES_MAX;
use forebay_random::Random;
use forebay_types::{NodeRank, Time};

use crate::NodeIndex;
use crate::check::Check;
use crate::faults::{Fault, clocks_set_back, schedule, unrest};
use crate::job::Job;
use crate::model::Model;
use crate::program::Program;
use crate::promised_order::may_ask;
use crate::reached::Reached;
use crate::setup::Setup;
use crate::world::Asked;

/// Programs and faults begin within this time.
const SPAN: Duration = Duration::from_secs(40);

/// So many seeds reach everything that there is to reach.
pub const SEEDS_THAT_REACH_ALL: u64 = 100;

/// After this time nothing may be asked any more: all faults are mended, and all deadlines over.
const SETTLE: Duration = Duration::from_secs(120);

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Number of nodes.
    pub nodes: usize,
    /// The planned faults.
    pub faults: Vec<(Time, Fault)>,
    /// Violations; empty if all is well.
    pub wrong: Vec<String>,
    /// The longest time that a request took.
    pub longest: Duration,
    /// Events that the history reached.
    pub reached: Reached,
    /// The log, if it was written down.
    pub log: Vec<String>,
}

/// Every other small job, by its seed: the random numbers of the others stay what they were.
fn has_homes(seed: u64, nodes: usize) -> bool {
    nodes as u32 <= HOMES_MAX && seed.is_multiple_of(2)
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
    // Operations on the whole job take too long in a chain of many.
    let least = if nodes > 20 { 2 } else { 1 };
    let (fan_out, stripe_fan_out) = (least + random.below(8) as u32, least + random.below(4) as u32);
    let roots = 1 + random.below(8) as u32;
    let mut faults = schedule(&mut random, nodes, SPAN);
    faults.extend(clocks_set_back(seed, nodes, SPAN));
    faults.extend(unrest(seed, nodes, SPAN));
    faults.sort_by_key(|(at, _)| *at);
    let prefill = random.below(2) == 0;
    let options = Options::of(seed);
    let Options { budget_bytes, turns, revalidate, direct_above_bytes, interrupt_every } = options;
    let has_homes = has_homes(seed, nodes);
    let setup = Setup {
        nodes,
        roots,
        fan_out,
        stripe_fan_out,
        has_homes,
        row_chunks: 1 + seed % 3,
        has_cache_stores: has_homes && seed.is_multiple_of(4),
        budget_bytes,
        turns,
        prefill,
        revalidate,
        direct_above_bytes,
        log,
    };
    let mut job = Job::new(&model, setup, random.next());
    job.interrupt_every(interrupt_every);
    faults.iter().for_each(|(at, fault)| job.plan(*at, fault.clone()));
    let mut programs: Vec<Program> = (0..60 + random.below(200))
        .map(|_| {
            let starts = Time(random.below(SPAN.as_nanos() as u64));
            Program::random(&model, nodes, &mut random, starts)
        })
        .collect();
    // A program that asks around a refresh gets the old state or the new one, but never the old one after the new one.
    for at in faults.iter().filter(|(_, fault)| matches!(fault, Fault::Refresh(_))).map(|(at, _)| *at) {
        for _ in 0..60 {
            let starts = at.after(Duration::from_millis(random.below(2500)));
            programs.push(Program::random(&model, nodes, &mut random, starts));
        }
    }
    job.run(programs);
    let mut wrong = job.wrong().to_vec();
    let named = |check: Check| move |what: String| format!("{check}: {what}");
    wrong.extend(job.settle(SETTLE).into_iter().map(named(Check::Settled)));
    wrong.extend(too_many_reads(&job, &faults, &options).into_iter().map(named(Check::Reads)));
    wrong.extend(too_many_questions(&job).map(named(Check::Hedges)));
    let (longest, reached) = (job.longest(), job.reached());
    Report { seed, nodes, faults, wrong, longest, reached, log: job.log().to_vec() }
}

/// The options of a seed's job.
struct Options {
    budget_bytes: u64,
    turns: usize,
    revalidate: Option<Duration>,
    direct_above_bytes: Option<u64>,
    interrupt_every: usize,
}

impl Options {
    /// Mostly what is usual, or every seed would be about everything at once.
    fn of(seed: u64) -> Self {
        let mut random = Random::new(seed.wrapping_add(1 << 41));
        let mut one_in = |count: u64| random.below(count) == 0;
        Self {
            // Room for some files, or for nearly nothing.
            budget_bytes: if one_in(4) { if one_in(2) { 12 << 20 } else { 2 << 20 } } else { 512 << 20 },
            // A backing file system that takes a few requests at a time, or all.
            turns: if seed.is_multiple_of(3) { 2 } else { usize::MAX },
            revalidate: one_in(6).then_some(Duration::from_secs(4)),
            direct_above_bytes: one_in(6).then_some(1 << 20),
            interrupt_every: if one_in(4) { 7 } else { 0 },
        }
    }
}

/// The reports of seeds, in no order: every processor runs one at a time.
pub fn reports(seeds: Range<u64>, log: bool) -> impl Iterator<Item = Report> {
    let (sender, reports) = channel();
    let (next, end) = (Arc::new(AtomicU64::new(seeds.start)), seeds.end);
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..count {
        let (sender, next) = (sender.clone(), Arc::clone(&next));
        std::thread::spawn(move || {
            let seeds = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < end));
            seeds.take_while(|seed| sender.send(run(*seed, log)).is_ok()).for_each(drop);
        });
    }
    reports.into_iter()
}

/// The backing file system is read once for an object, and again only where nodes that had read it were lost or cut off:
/// at most once by each life of a node, and by no more nodes than had nobody to ask between two faults.
fn too_many_reads(job: &Job, faults: &[(Time, Fault)], options: &Options) -> Vec<String> {
    let mut possible: Vec<(Tree, usize)> = Vec::new();
    let mut wrong = Vec::new();
    let is_disturbed = faults.iter().any(|(_, fault)| !matches!(fault, Fault::SetBack(..)));
    let faults = &with_deaths_as_crashes(faults);
    for (object, Asked { tree, readers, size_bytes }) in &job.asked() {
        // Each node reads these for itself.
        if options.direct_above_bytes.is_some_and(|limit| *size_bytes > limit) {
            continue;
        }
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
        // Requests that were given up because of a fault are sent again. A leaf leaves chunks to its kernel. Names that nodes revalidate are kept
        // for a time only.
        let is_kept = |node: NodeIndex| match object.starts_with("Chunk") {
            true => !tree.is_leaf(NodeRank(node as u32)),
            false => options.revalidate.is_none(),
        };
        if !is_disturbed && readers.iter().any(|((node, _), count)| *count > 1 && is_kept(*node)) {
            wrong.push(format!("a node read {object} more than once: {readers:?}"));
        }
    }
    wrong
}

fn readers_max(job: &Job, faults: &[(Time, Fault)], tree: &Tree) -> usize {
    let mut possible = possible_readers(job, tree, &as_they_are_noticed(faults, Duration::ZERO));
    possible.extend(possible_readers(job, tree, &as_they_are_noticed(faults, SUSPICION_LONGEST)));
    possible.len()
}

/// Which lives of nodes may have had nobody to ask in a tree, over all times between two faults. A node that was stopped finds its
/// requests' time almost over when it goes on, and may read for itself as the last resort.
fn possible_readers(job: &Job, tree: &Tree, changes: &[Change<'_>]) -> BTreeSet<(NodeIndex, u32)> {
    let mut nodes = Reach { lives: vec![0; job.node_count()], ..Reach::default() };
    let mut readers = nodes.alone(tree);
    for change in changes {
        nodes.change(change);
        readers.extend(nodes.alone(tree));
    }
    readers.extend(nodes.stopped);
    readers
}

/// The nodes that can be reached, at some time.
#[derive(Default)]
struct Reach {
    lives: Vec<u32>,
    crashed: BTreeSet<NodeIndex>,
    paused: BTreeSet<NodeIndex>,
    slow: BTreeSet<NodeIndex>,
    /// The lives of nodes that were stopped or slow at any time.
    stopped: BTreeSet<(NodeIndex, u32)>,
    cuts: BTreeSet<(NodeIndex, NodeIndex)>,
    divisions: Vec<NodeIndex>,
}

impl Reach {
    fn change(&mut self, change: &Change<'_>) {
        let fault = match change {
            Change::Fault(fault) => fault,
            Change::Undivided(first) => {
                if let Some(at) = self.divisions.iter().position(|other| other == first) {
                    self.divisions.remove(at);
                }
                return;
            }
        };
        match fault {
            Fault::Crash(node) => {
                if self.crashed.insert(*node) {
                    self.lives[*node] += 1;
                }
            }
            Fault::Pause(node) => {
                self.paused.insert(*node);
                self.stopped.insert((*node, self.lives[*node]));
            }
            Fault::Restart(node) => drop(self.crashed.remove(node)),
            Fault::Resume(node) => drop(self.paused.remove(node)),
            // Connecting takes some round trips: whoever is slow may seem to be silent, and so may all others to it.
            Fault::Slow(node, by) if by.is_zero() => drop(self.slow.remove(node)),
            Fault::Slow(node, _) => {
                self.slow.insert(*node);
                self.stopped.insert((*node, self.lives[*node]));
            }
            fault if !fault.breaks_the_overlay() => {}
            Fault::Cut(from, to) => drop(self.cuts.insert((*from, *to))),
            Fault::Mend(from, to) => drop(self.cuts.remove(&(*from, *to))),
            Fault::Partition(first) => self.divisions.push(*first),
            _ => self.divisions.clear(),
        }
    }

    /// The nodes that can ask nobody in a tree.
    fn alone(&self, tree: &Tree) -> BTreeSet<(NodeIndex, u32)> {
        let is_alone = |node: NodeIndex| !may_ask(tree, NodeRank(node as u32)).any(|other| self.can_ask(node, other));
        (0..).zip(&self.lives).filter(|(node, _)| is_alone(*node)).map(|(node, life)| (node, *life)).collect()
    }

    fn can_ask(&self, node: NodeIndex, other: NodeRank) -> bool {
        let other = other.0 as usize;
        let is_away = [&self.crashed, &self.paused, &self.slow].iter().any(|away| away.contains(&other));
        let is_divided = self.divisions.iter().any(|first| (node < *first) != (other < *first));
        let is_cut = self.cuts.contains(&(node, other)) || self.cuts.contains(&(other, node));
        !is_away && !is_divided && !is_cut
    }
}

/// Faults where a daemon that dies and is followed by another is a node that is lost and comes back.
fn with_deaths_as_crashes(faults: &[(Time, Fault)]) -> Vec<(Time, Fault)> {
    let mut all: Vec<(Time, Fault)> = Vec::new();
    for (at, fault) in faults {
        let Fault::Die(node, away) = fault else {
            all.push((*at, fault.clone()));
            continue;
        };
        let back = at.after(*away);
        let of_node = |(at, fault): &&(Time, Fault)| {
            *at <= back && matches!(fault, Fault::Crash(other) | Fault::Restart(other) if other == node)
        };
        let is_lost = matches!(faults.iter().rfind(of_node), Some((_, Fault::Crash(_))));
        all.push((*at, Fault::Crash(*node)));
        all.extend((!is_lost).then_some((back, Fault::Restart(*node))));
    }
    all.sort_by_key(|(at, _)| *at);
    all
}

/// A change for the nodes.
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
            Fault::Slow(_, by) if by.is_zero() => at.after(suspicion),
            _ => *at,
        };
        in_order.push((noticed, Change::Fault(fault)));
    }
    in_order.sort_by_key(|(noticed, _)| *noticed);
    in_order.into_iter().map(|(_, change)| change).collect()
}

/// Second requests keep to their budget.
fn too_many_questions(job: &Job) -> Option<String> {
    let asked = job.sum(|core| core.counters().dispatch.asked_peers);
    let hedged = job.sum(|core| core.counters().dispatch.hedged);
    let allowed = asked / 50 + 16 * job.node_count() as u64;
    (hedged > allowed).then(|| format!("{hedged} second questions beside {asked}"))
}
