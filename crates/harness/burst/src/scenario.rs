//! One history: a job, what goes wrong, what its programs do, and what must be true at its end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_daemon::DrainPolicy;
use forebay_random::Random;
use forebay_transport::memory::Network;
use forebay_types::NodeRank;

use crate::contents::{Slot, records, slots};
use crate::files::{self, Fails};
use crate::log::{note, wrong};
use crate::node::{Node, Setup};
use crate::oracle::{self, contents_of, file_of};
use crate::program::Program;
use crate::reached::{Reach, reached};
use crate::turns;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// The longest that a message takes.
const LATENCY_MS_MAX: u64 = 8;

/// How long programs may take, with all that goes wrong.
const PROGRAMS_NS_MAX: u64 = 3_000 * S;

/// How long everything may take to land once nothing goes wrong any more.
const DRAINS_MAX: u32 = 20;
const DRAIN: Duration = Duration::from_secs(30);

/// For how long after something went wrong errors have a reason: programs wait for a minute, and ask again.
const EXCUSED_NS: u64 = 150 * S;

/// The kind of faults in a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Theme {
    Nothing,
    Deaths,
    Backing,
    Network,
    Loss,
    Power,
}

/// A program that runs.
struct Running {
    /// On which node.
    rank: usize,
    life: turns::Life,
    thread: JoinHandle<()>,
}

/// A history.
pub struct Scenario {
    pub theme: Theme,
    pub setup: Setup,
    random: Random,
    nodes: Vec<Arc<Node>>,
    network: Network,
    root: PathBuf,
    programs: usize,
}

impl Scenario {
    /// The history of a seed, with stores of so many segments, below a directory.
    pub fn new(seed: u64, segments: u64, root: &Path) -> Self {
        let mut random = Random::new(seed);
        let theme = [
            Theme::Nothing,
            Theme::Deaths,
            Theme::Deaths,
            Theme::Backing,
            Theme::Network,
            Theme::Loss,
            Theme::Power,
            Theme::Power,
        ][random.below(8) as usize];
        let nodes = match theme {
            Theme::Loss => 3 + random.below(3),
            _ => 1 + random.below(4),
        } as usize;
        let is_copied = nodes > 1 && random.below(2) == 0;
        let drain =
            [DrainPolicy::Auto, DrainPolicy::Auto, DrainPolicy::Close, DrainPolicy::End][random.below(4) as usize];
        let setup = Setup { nodes, drain, is_copied, segments };
        if is_copied {
            reached(Reach::Partnered);
        }
        let latency = |_: NodeRank, _: NodeRank| Duration::from_millis(turns::below(LATENCY_MS_MAX));
        let network = Network::new(nodes as u32).with_latency(latency);
        let nodes = (0..nodes).map(|rank| Node::new(rank, setup, root, &network)).collect();
        let programs = 1 + random.below(5) as usize;
        Self { theme, setup, random, nodes, network, root: root.to_owned(), programs }
    }

    /// Lets it happen.
    pub fn run(mut self) {
        note(|| format!("{:?}, {:?}, {} programs", self.theme, self.setup, self.programs));
        for _ in 0..self.programs {
            oracle::with(oracle::Oracle::new_directory);
        }
        self.start_nodes();
        if self.theme == Theme::Power {
            for _ in 0..1 + self.random.below(3) {
                self.run_until_power_goes();
            }
        }
        let running = self.start_programs();
        self.go_wrong(&running);
        self.await_programs(&running);
        if self.is_flushed() {
            self.land();
        }
    }

    /// Starts a program for each directory, on nodes that are there. The life of all, and what tells that they have ended.
    fn start_programs(&mut self) -> Vec<Running> {
        let there: Vec<Arc<Node>> = self.nodes.iter().filter(|node| !node.is_lost()).map(Arc::clone).collect();
        let mut running = vec![];
        for index in 0..self.programs {
            let node = Arc::clone(&there[self.random.below(there.len() as u64) as usize]);
            let operations = 4 + self.random.below(40) as u32;
            running.push(self.start_program(index, node, operations));
        }
        running
    }

    fn start_program(&mut self, index: usize, node: Arc<Node>, operations: u32) -> Running {
        let (rank, life, random) = (node.rank, turns::new_life(), Random::new(self.random.next()));
        note(|| format!("program {index} begins on node {rank}"));
        let appends = oracle::with(|oracle| oracle.begin_program(index));
        let program = Program { index, node, random, operations, directory: 0, appends };
        let thread = std::thread::spawn(move || {
            turns::join_life(life);
            program.run();
            turns::join_life(0);
        });
        Running { rank, life, thread }
    }

    fn await_programs(&mut self, running: &[Running]) {
        let until = turns::now_ns() + PROGRAMS_NS_MAX;
        while running.iter().any(|one| !self.nodes[one.rank].is_lost() && !one.thread.is_finished()) {
            if turns::now_ns() > until {
                return wrong("stall", "programs wait for ever");
            }
            turns::sleep_ns(100 * MS);
        }
    }

    /// A job whose power goes: of some nodes, and with them the job; and the next one of its name, with the same stores.
    fn run_until_power_goes(&mut self) {
        let running = self.start_programs();
        let mut left = self.random.below(8_000) * MS;
        while left > 0 {
            let time = left.min(self.random.below(2_000) * MS + MS);
            turns::sleep_ns(time);
            left -= time;
            if self.random.below(3) == 0 {
                self.die();
            }
        }
        running.iter().for_each(|one| turns::stop(one.life, true));
        let mut any = false;
        for node in self.nodes.clone() {
            // The job ends with the first one; the others' daemons die.
            if self.random.below(3) > 0 {
                node.cut_power();
                reached(Reach::PowerCut);
                any = true;
            } else {
                node.begin_anew();
            }
        }
        note(|| format!("the job has ended; power was cut: {any}"));
        let programs: Vec<usize> = (0..self.programs).collect();
        oracle::with(|oracle| oracle.fall_back(&programs, true, self.nodes.len() > 1));
        self.nodes.iter().for_each(|node| node.forget_requests());
        turns::sleep_ns(self.random.below(2_000) * MS);
        self.start_nodes();
    }

    /// As `up`, which returns when all nodes are ready.
    fn start_nodes(&self) {
        self.nodes.iter().for_each(Node::start);
        let until = turns::now_ns() + PROGRAMS_NS_MAX;
        while !self.nodes.iter().all(|node| node.is_ready()) {
            if turns::now_ns() > until {
                return wrong("stall", "nodes never get ready");
            }
            turns::sleep_ns(MS);
        }
    }

    fn any(&mut self) -> Arc<Node> {
        let index = self.random.below(self.nodes.len() as u64) as usize;
        Arc::clone(&self.nodes[index])
    }

    /// A daemon dies, and another follows.
    fn die(&mut self) {
        let node = self.any();
        if node.is_lost() || !node.kill() {
            return;
        }
        reached(Reach::DaemonDied);
        turns::sleep_ns(self.random.below(500) * MS);
        node.start();
    }

    fn excuse() {
        let until = turns::now_ns() + EXCUSED_NS;
        oracle::with(|oracle| oracle.excuse_until(until));
    }

    fn go_wrong(&mut self, running: &[Running]) {
        for _ in 0..1 + self.random.below(6) {
            turns::sleep_ns(self.random.below(2_000) * MS);
            match self.theme {
                Theme::Nothing => {}
                Theme::Deaths | Theme::Power => self.die(),
                Theme::Backing => self.trouble_backing(),
                Theme::Network => self.trouble_network(),
                Theme::Loss => return self.lose(running),
            }
        }
    }

    fn trouble_backing(&mut self) {
        let lasts = self.random.below(6_000) * MS;
        match self.random.below(4) {
            0 => {
                files::hang(lasts);
                Self::excuse();
            }
            1 => self.die(),
            _ => {
                let errors = [Some(libc::EIO), Some(libc::ENOSPC), Some(libc::EDQUOT), Some(libc::EACCES), None];
                let errno = errors[self.random.below(5) as usize];
                let percent = 1 + self.random.below(100);
                files::fail(Some(Fails { errno, percent, until_ns: turns::now_ns() + lasts }));
                Self::excuse();
                turns::sleep_ns(lasts);
                files::fail(None);
            }
        }
    }

    fn trouble_network(&mut self) {
        let (one, other) = (self.any(), self.any());
        let lasts = match self.random.below(3) {
            0 => 20_000 * MS + self.random.below(30_000) * MS,
            _ => self.random.below(6_000) * MS,
        };
        Self::excuse();
        match self.random.below(3) {
            0 => {
                if let Some(life) = one.pause() {
                    note(|| format!("node {} stands still", one.rank));
                    reached(Reach::Paused);
                    turns::sleep_ns(lasts);
                    turns::go_on(life);
                    note(|| format!("node {} goes on", one.rank));
                }
            }
            1 if one.rank != other.rank => {
                note(|| format!("nothing gets from node {} to node {}", one.rank, other.rank));
                reached(Reach::NetworkCut);
                self.network.cut(NodeRank(one.rank as u32), NodeRank(other.rank as u32));
                turns::sleep_ns(lasts);
            }
            _ => {
                note(|| format!("node {} is cut off", one.rank));
                reached(Reach::NetworkCut);
                self.network.partition(&[NodeRank(one.rank as u32)]);
                turns::sleep_ns(lasts);
            }
        }
        self.network.mend_all();
        Self::excuse();
    }

    /// A node is lost with its disk, and the programs that ran there; others go on with their files.
    fn lose(&mut self, running: &[Running]) {
        // The standby follows by then.
        turns::sleep_ns(8 * S);
        let node = self.any();
        note(|| format!("node {} is lost", node.rank));
        reached(Reach::NodeLost);
        Self::excuse();
        node.lose();
        let (rank, is_copied) = (node.rank, self.setup.is_copied);
        let its: Vec<usize> = (0..running.len()).filter(|index| running[*index].rank == rank).collect();
        its.iter().for_each(|index| turns::stop(running[*index].life, true));
        oracle::with(|oracle| oracle.fall_back(&its, is_copied, false));
    }

    /// Programs on other nodes look at the directories of lost nodes, and at those whose programs were refused to the end.
    fn is_flushed(&mut self) -> bool {
        files::fail(None);
        self.network.mend_all();
        for index in 0..self.programs {
            for _ in 0..30 {
                if !oracle::with(|oracle| oracle.directories[index].is_uncertain) {
                    break;
                }
                let there: Vec<Arc<Node>> = self.nodes.iter().filter(|node| !node.is_lost()).map(Arc::clone).collect();
                let node = Arc::clone(&there[self.random.below(there.len() as u64) as usize]);
                let running = self.start_program(index, node, 1);
                self.await_programs(&[running]);
            }
            if oracle::with(|oracle| oracle.directories[index].is_uncertain) {
                wrong("settled", &format!("nobody finds out what is left of p{index}"));
                return false;
            }
        }
        true
    }

    fn land(&mut self) {
        let mut last = None;
        for _ in 0..DRAINS_MAX {
            let nodes: Vec<Arc<Node>> = self.nodes.iter().filter(|node| !node.is_lost()).map(Arc::clone).collect();
            // Whichever is the leader, or gets an answer of it in time.
            let told = nodes.iter().find_map(|node| node.drain(DRAIN));
            note(|| format!("drained: {told:?}"));
            // Landing does not wait for lost contents.
            let is_all = told.as_ref().is_some_and(|told| told.steps == 0);
            let why = told.and_then(|told| told.why);
            if is_all && why.is_none() {
                reached(Reach::Landed);
                return self.compare(true);
            }
            let is_lost = is_all && why.as_ref().is_some_and(|why| why.contains("cannot land"));
            // Uncommitted writes of a lost node are lost.
            let is_open = is_all && why.as_ref().is_some_and(|why| why.contains("what it has not committed"));
            let has_lost_changes =
                is_all && why.as_ref().is_some_and(|why| why.contains("unsynced changes of programs are lost"));
            last = why;
            if has_lost_changes {
                reached(Reach::NamedAsLost);
                let programs: Vec<usize> = (0..self.programs).collect();
                oracle::with(|oracle| oracle.fall_back(&programs, false, false));
                return self.compare(false);
            }
            // Both may be named at the same time.
            if is_lost && oracle::with(|oracle| oracle.may_have_lost()) {
                reached(Reach::NamedAsLost);
                return self.compare(false);
            }
            if is_open && self.nodes.iter().any(|node| node.is_lost()) {
                reached(Reach::NamedAsLost);
                return self.compare(true);
            }
            turns::sleep_ns(S);
        }
        wrong("landed", &format!("not everything lands: {last:?}"));
    }

    /// The backing file system has what programs have written, all or what is not lost.
    fn compare(&self, is_all: bool) {
        for index in 0..self.programs {
            let (names, files) = oracle::with(|oracle| (oracle.directories[index].now(), oracle.files.clone()));
            let directory = self.root.join("backing").join(format!("p{index}"));
            let mut found = BTreeMap::new();
            for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
                found.insert(
                    entry.file_name().to_string_lossy().into_owned(),
                    slots(&crate::contents::read(&entry.path())),
                );
            }
            for (name, file) in &names {
                let Some(model) = files.get(file) else { continue };
                let now = model.now();
                let may_be_lost = model.may_be_lost && (!is_all || model.is_lost);
                match found.remove(name) {
                    None if may_be_lost => {}
                    None => {
                        wrong("landed", &format!("p{index}/{name}, file {file}, is not on the backing file system"))
                    }
                    Some(slots) if contents_of(&slots).as_ref() == Some(&now) => {}
                    Some(slots)
                        if may_be_lost
                            && contents_of(&slots).is_some_and(|contents| {
                                file_of(&slots) != Some(*file) || model.find(0, &contents).is_some()
                            }) => {}
                    Some(slots) => wrong(
                        "landed",
                        &format!("p{index}/{name}, file {file}, landed as {slots:?} and not as {now:?}"),
                    ),
                }
            }
            for (name, slots) in found {
                let is_lost =
                    file_of(&slots).is_some_and(|file| files.get(&file).is_some_and(|model| model.may_be_lost));
                if !is_lost {
                    wrong("landed", &format!("p{index}/{name} is on the backing file system, and no name of the tree"));
                }
            }
        }
        self.compare_log(is_all);
        if files::has_two_leaders() {
            wrong("owners", "a daemon changed the backing file system after another node's had begun to");
        }
    }

    fn compare_log(&self, is_all: bool) {
        let found = records(&crate::contents::read(&self.root.join("backing/log")));
        let appended = oracle::with(|oracle| oracle.appended.clone());
        let may_be_lost = !is_all;
        let all: Vec<(u64, u64)> = found
            .iter()
            .filter_map(|slot| if let Slot::Written(file, number) = slot { Some((*file, *number)) } else { None })
            .collect();
        let mut unique = all.clone();
        unique.sort_unstable();
        unique.dedup();
        if unique.len() != found.len() && !may_be_lost {
            wrong("appended", &format!("appends are there twice, torn or lost: {found:?}"));
        }
        for append in appended {
            let is_there = all.contains(&(crate::program::LOG + append.program, append.number));
            if !is_there && !may_be_lost {
                wrong("appended", &format!("{append:?} is not there"));
            }
        }
    }
}
