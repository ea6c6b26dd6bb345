//! A program's way: it looks its path up, component by component, then does one thing with what it finds; every answer is
//! compared with what is known to be there.

use std::sync::Arc;
use std::time::Duration;

use forebay_fuse::ROOT_NODE;
use forebay_types::{Errno, Generation, Kind, ViewPath};

use crate::kernel::{Inode, Kernel};
use crate::model::Versions;
use crate::program::Program;
use crate::setup::{DEADLINE, GRACE};
use crate::shared::Shared;
use crate::waits::Wanted;

/// A program that runs.
pub(crate) struct Walk {
    pub job: Arc<Shared>,
    pub kernel: Arc<Kernel>,
    pub program: Program,
    /// Its number in the job.
    pub number: usize,
}

impl Walk {
    /// Walks to the end of its path, or as far as that goes.
    pub async fn run(self) {
        let mut inode = Inode { node: ROOT_NODE, generation: Generation::default(), mode: 0 };
        for at in 0..self.program.names.len() {
            match self.look_up(at, inode).await {
                Some(next) => inode = next,
                None => return,
            }
        }
        self.use_it(inode).await;
    }

    fn pid(&self) -> u32 {
        1000 + self.number as u32
    }

    async fn look_up(&self, at: usize, parent: Inode) -> Option<Inode> {
        let (dir, path) = (self.program.path(at), self.program.path(at + 1));
        let floor = self.job.floor(self.program.node);
        let request = self.kernel.look_up(self.pid(), parent.node, &self.program.names[at]);
        let answer = self.timed(Wanted::Names(dir), request).await;
        self.note(|| format!("{path}: {answer:?}"));
        match (answer, self.job.world.model.nodes.contains_key(&path)) {
            (Ok(Some(inode)), true) if self.may_be_seen(&floor, &path, inode) => Some(inode),
            (Ok(None), false) => None,
            (Err(errno), _) => {
                self.fail(&path, parent.generation, errno);
                None
            }
            (answer, _) => {
                self.wrong(format!("lookup of {path}: {answer:?}, not behind {}", floor.of(&path)));
                None
            }
        }
    }

    /// Whether this is a file in a version that a program may be told of: not behind the last refresh.
    fn may_be_seen(&self, floor: &Versions, path: &ViewPath, inode: Inode) -> bool {
        let now = self.job.world.state().versions.of(path);
        let version = inode.generation.mtime.seconds;
        let node = self.job.world.model.nodes[path].in_version(version);
        (floor.of(path)..=now).contains(&version) && inode.generation == node.generation() && inode.mode == node.mode
    }

    async fn use_it(&self, inode: Inode) {
        let path = self.program.path(self.program.names.len());
        let node = &self.job.world.model.nodes[&path];
        let outcome = match node.attributes.kind() {
            Kind::File => self.read(&path, inode).await,
            Kind::Symlink => {
                let target =
                    self.timed(Wanted::Names(path.clone()), self.kernel.read_link(self.pid(), inode.node)).await;
                target.map(|target| target == node.target)
            }
            _ => {
                let request = self.kernel.read_directory(self.pid(), inode.node);
                let names = self.timed(Wanted::Names(path.clone()), request).await;
                let children = self.job.world.model.children(&path);
                let expected = children.map(|(child, _)| child.split().unwrap().1.to_vec());
                names.map(|names| expected.eq(names))
            }
        };
        self.note(|| format!("end of {path}: {outcome:?}"));
        match outcome {
            Ok(true) => {}
            Ok(false) => self.wrong(format!("what {path} holds is not right")),
            Err(errno) => self.fail(&path, inode.generation, errno),
        }
    }

    async fn read(&self, path: &ViewPath, inode: Inode) -> Result<bool, Errno> {
        let (extent, generation) = (self.program.extent, inode.generation);
        let wanted = Wanted::Bytes(path.clone(), generation, extent);
        self.timed(wanted, self.kernel.read(self.pid(), inode, extent)).await
    }

    /// Waits for an answer, which must come in time; the caller may lose patience.
    async fn timed<T>(&self, what: Wanted, request: impl Future<Output = Result<T, Errno>>) -> Result<T, Errno> {
        let world = &self.job.world;
        let (began, paused) = (world.now(), self.job.paused(self.program.node));
        self.job.note_kept(self.program.node);
        self.job.waits.begin(self.number, began, what);
        if self.job.is_interrupted(self.number) {
            let (kernel, unique, pid) = (Arc::clone(&self.kernel), self.kernel.next_unique(), self.pid());
            let after = world.latency();
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                kernel.kill(pid, unique);
            });
        }
        let answer = request.await;
        self.job.waits.end(self.number);
        let stopped = self.job.paused(self.program.node) - paused;
        self.check_time(world.now().since(began), stopped);
        answer
    }

    fn check_time(&self, took: Duration, stopped: Duration) {
        if took > DEADLINE + GRACE + stopped {
            self.wrong(format!("answered after {took:?}"));
        }
        self.job.note_longest(took.saturating_sub(stopped));
    }

    fn fail(&self, path: &ViewPath, generation: Generation, errno: Errno) {
        let world = &self.job.world;
        let unlistable = world.model.nodes.get(path).is_some_and(|node| !node.listable);
        let put_in = world.state().has_backing_failed && errno == Errno::EIO;
        let under_file = self.program.names.last().is_some_and(|name| name == b"absent");
        let has_changed = world.state().versions.of(path) != generation.mtime.seconds;
        match errno {
            Errno::EACCES if unlistable => {}
            Errno::EINTR if self.job.is_interrupted(self.number) => {}
            Errno::ENOENT | Errno::ENOTDIR if under_file => {}
            Errno::ESTALE if has_changed => self.job.counts().stale += 1,
            _ if put_in => self.job.counts().failed += 1,
            _ => self.wrong(format!("{path}: {errno}")),
        }
    }

    fn note(&self, text: impl FnOnce() -> String) {
        self.job.world.note(|| format!("program {} at node {} is told {}", self.number, self.program.node, text()));
    }

    fn wrong(&self, what: String) {
        self.job.world.note_wrong(format!("program {}: {what}", self.number));
    }
}
