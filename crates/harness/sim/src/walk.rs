//! A program's way: it looks its path up, component by component, then does one thing with what it finds; every answer is
//! compared with what is known to be there (`oracle`).

use std::sync::Arc;
use std::time::Duration;

use forebay_types::{Errno, Kind, Time, ViewPath};

use crate::check::Check;
use crate::history::{Change, Versions};
use crate::kernel::{Inode, Kernel};
use crate::oracle::{AskedOf, is_true, reached_by, version_of, version_with, wrong_listing};
use crate::program::Program;
use crate::reached::Reach;
use crate::setup::{DEADLINE, GRACE};
use crate::shared::Shared;
use crate::waits::Wanted;

/// When a program opens a file again that it was told is another version: its node has told the kernel by then.
const OPENS_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// A program that runs.
pub(crate) struct Walk {
    pub job: Arc<Shared>,
    pub kernel: Arc<Kernel>,
    pub program: Program,
    /// Its number in the job.
    pub number: usize,
}

/// When a request began, and what its answer may not be behind.
struct Began {
    at: Time,
    floor: Versions,
    /// The part of the floor that is promised for listings: one without attributes stays when a file in it turns out to be gone.
    promised: Versions,
}

impl Walk {
    /// Walks to the end of its path, or as far as that goes.
    pub async fn run(self) {
        let (mut inode, mut parent) = (Inode::root(), Inode::root());
        for at in 0..self.program.names.len() {
            // A kernel looks for no names in what is no directory.
            if inode.kind() != Some(Kind::Directory) {
                return;
            }
            match self.look_up(at, inode).await {
                Some(next) => (parent, inode) = (inode, next),
                None => return,
            }
        }
        let path = self.program.path(self.program.names.len());
        match inode.kind() {
            Some(Kind::File) => {
                if self.read(&path, inode).await == Err(Errno::ESTALE) {
                    // It opens the file again, and is not shown that version any more.
                    tokio::time::sleep(OPENS_AGAIN_AFTER).await;
                    self.look_up(self.program.names.len() - 1, parent).await;
                }
            }
            Some(Kind::Symlink) => self.read_link(&path, inode).await,
            _ => self.list(&path, inode).await,
        }
    }

    fn pid(&self) -> u32 {
        1000 + self.number as u32
    }

    fn begin(&self) -> Began {
        let (promised, floor) = self.job.floors(self.program.node);
        Began { at: self.job.world.now(), floor, promised }
    }

    async fn look_up(&self, at: usize, parent: Inode) -> Option<Inode> {
        let (dir, path) = (self.program.path(at), self.program.path(at + 1));
        let began = self.begin();
        let request = self.kernel.look_up(self.pid(), parent.node, &self.program.names[at]);
        let answer = self.timed(&dir, Wanted::Names(dir.clone()), request).await;
        self.note(|| format!("{path}: {answer:?}"));
        let found = match answer {
            Ok(found) => found,
            Err(errno) => {
                self.fail(
                    &began,
                    errno,
                    &AskedOf { path: &path, about: &dir, inode: parent, lists: true, reads: false },
                );
                return None;
            }
        };
        let mut state = self.job.world.state();
        let version = version_of(&state.history, &began.floor, &path, found.as_ref());
        if let Some(version) = version {
            let reached = reached_by(&state.history, &path, version);
            reached.into_iter().for_each(|reach| state.reached.count(reach));
            let has_expired = self.job.setup.revalidate.is_some() && self.job.refreshes.count() == 0;
            state.reached.add(Reach::Expired, u64::from(has_expired && version > 0));
            drop(state);
            self.job.note_shown(self.program.node, &path, version);
            return found;
        }
        drop(state);
        self.wrong(Check::Floor, &format!("lookup of {path}: {found:?}, not behind {}", began.floor.of(&path)));
        None
    }

    async fn list(&self, path: &ViewPath, inode: Inode) {
        let began = self.begin();
        let request = self.kernel.read_directory(self.pid(), inode.node, self.program.is_direct);
        let told = self.timed(path, Wanted::Names(path.clone()), request).await;
        self.note(|| format!("contents of {path}: {told:?}"));
        let told = match told {
            Ok(told) => told,
            Err(errno) => {
                return self.fail(&began, errno, &AskedOf { path, about: path, inode, lists: true, reads: false });
            }
        };
        let wrong = {
            let state = &mut *self.job.world.state();
            wrong_listing(&state.history, &began.promised, path, &told, &mut state.reached)
        };
        wrong.iter().for_each(|wrong| self.wrong(Check::Listing, wrong));
    }

    async fn read_link(&self, path: &ViewPath, inode: Inode) {
        let (began, dir) = (self.begin(), path.split().map_or_else(ViewPath::root, |(dir, _)| dir));
        let request = self.kernel.read_link(self.pid(), inode.node);
        let told = self.timed(&dir, Wanted::Names(dir.clone()), request).await;
        self.note(|| format!("target of {path}: {told:?}"));
        let target = match told {
            Ok(target) => target,
            Err(errno) => {
                return self.fail(&began, errno, &AskedOf { path, about: &dir, inode, lists: false, reads: false });
            }
        };
        self.job.world.note_reached(Reach::SymbolicLink);
        let is_one = {
            let state = self.job.world.state();
            let mut states = state.history.since(path, began.floor.of(path));
            states.any(|(_, node)| node.is_some_and(|node| node.target == target))
        };
        if !is_one {
            self.wrong(Check::Contents, &format!("{path} leads to {target:?}"));
        }
    }

    async fn read(&self, path: &ViewPath, inode: Inode) -> Result<bool, Errno> {
        let (began, extent) = (self.begin(), self.program.extent);
        let wanted = Wanted::Bytes(path.clone(), inode.generation, extent);
        let outcome = match self.program.is_direct {
            true => self.timed(path, wanted, self.kernel.read_direct(self.pid(), inode, extent)).await,
            false => self.timed(path, wanted, self.kernel.read(self.pid(), inode, extent)).await,
        };
        self.note(|| format!("bytes of {path}: {outcome:?}"));
        let reached = {
            let history = &self.job.world.state().history;
            let version = version_with(history, path, &inode);
            version.and_then(|version| history.change(path, version))
        };
        match (outcome, reached) {
            (Ok(true), Some(Change::Resized)) => self.job.world.note_reached(Reach::Resized),
            (Ok(true), Some(Change::Linked)) => self.job.world.note_reached(Reach::HardLink),
            (Ok(true), _) => {}
            (Ok(false), _) => self.wrong(Check::Contents, &format!("what {path} holds is not right")),
            (Err(errno), _) => {
                self.fail(&began, errno, &AskedOf { path, about: path, inode, lists: false, reads: true });
            }
        }
        outcome
    }

    /// Waits for an answer, which must come in time; the caller may lose patience.
    async fn timed<T>(
        &self,
        about: &ViewPath,
        what: Wanted,
        request: impl Future<Output = Result<T, Errno>>,
    ) -> Result<T, Errno> {
        let world = &self.job.world;
        let (began, paused) = (world.now(), self.job.paused(self.program.node));
        self.job.note_kept(self.program.node);
        self.job.waits.begin(self.number, began, what);
        if self.job.is_interrupted(self.number) {
            let (kernel, unique, pid) = (Arc::clone(&self.kernel), self.kernel.next_unique(), self.pid());
            let (after, killed_after) = (world.latency(), self.job.killed_after());
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                if killed_after.is_zero() {
                    kernel.kill(pid);
                }
                kernel.signal(pid, unique);
                tokio::time::sleep(killed_after).await;
                if !killed_after.is_zero() {
                    kernel.kill(pid);
                }
            });
        }
        let answer = request.await;
        self.job.waits.end(self.number);
        let stopped = self.job.paused(self.program.node) - paused;
        self.check_time(about, began, stopped);
        answer
    }

    fn check_time(&self, about: &ViewPath, began: Time, stopped: Duration) {
        let world = &self.job.world;
        let (now, longest) = (world.now(), DEADLINE + GRACE + stopped);
        let took = now.since(began);
        if took > longest {
            self.wrong(Check::Stall, &format!("about {about}: answered after {took:?}, its time was {longest:?}"));
        }
        let allowed = self.job.longest_wait(about, began, now) + stopped;
        if took > allowed {
            let what = format!(
                "about {about} at node {}: {took:?} from {began:?}, {allowed:?} are explained",
                self.program.node
            );
            self.wrong(Check::Stall, &what);
        }
        self.job.note_longest(took.saturating_sub(stopped));
        if !stopped.is_zero() {
            world.note_reached(Reach::Stopped);
        }
    }

    fn fail(&self, began: &Began, errno: Errno, asked: &AskedOf<'_>) {
        let (job, node, way) = (&self.job, self.program.node, self.job.way());
        let mut state = job.world.state();
        let when = (began.at, job.world.now());
        if errno == Errno::EINTR && self.kernel.is_being_killed(self.pid()) {
            state.reached.count(Reach::Interrupted);
        } else if errno == Errno::EIO && state.troubles.explain_error((node, asked.about), when, way) {
            state.reached.count(Reach::BackingError);
            job.counts().failed += 1;
        } else if is_true(&state.history, &began.floor, errno, asked) {
            if errno == Errno::ESTALE && asked.reads {
                state.reached.count(Reach::Stale);
                let version = version_with(&state.history, asked.path, &asked.inode);
                drop(state);
                job.counts().stale += 1;
                version.into_iter().for_each(|version| job.note_gone(node, asked.path, version));
            }
        } else {
            drop(state);
            self.wrong(Check::Error, &format!("{} at node {node}: {errno}, asked at {:?}", asked.path, began.at));
        }
    }

    fn note(&self, text: impl FnOnce() -> String) {
        self.job.world.note(|| format!("program {} at node {} is told {}", self.number, self.program.node, text()));
    }

    fn wrong(&self, check: Check, what: &str) {
        self.job.world.note_wrong(check, &format!("program {}: {what}", self.number));
    }
}
