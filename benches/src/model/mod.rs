//! A modelled network file system: a local directory behind a slow metadata server and a narrow link.
//!
//! It stands in for a real one where none can be set up, and whatever prints its figures calls it a model. It shows
//! what the shape of such a system does to many clients at once, and no more than that: a metadata server that works
//! on few requests at a time, one link that all the clients share, and clients that cache as network file systems
//! commonly do ([`client`]). There are no round-trip times, no disks, no locks and no faults.
//!
//! Requests are answered by a [`timer::Timer`] at the moment their queue says, so that a slow answer holds no thread.
//! The local directory must not change while the model serves it.

mod client;
mod queue;
mod timer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use forebay_fuse::{Mount, MountOptions, Session, SessionOptions, mount};
use forebay_types::Attributes;

use client::Client;
use queue::Queue;
use timer::Timer;

use crate::testbed::Traffic;

/// The speed of the modelled server.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Parameters {
    /// Server time of one metadata request, microseconds.
    pub metadata_us: u32,
    /// Metadata requests that are worked on at once.
    pub at_once: u32,
    /// The link's rate, bits a second.
    pub link_bits_per_second: u64,
    /// How long a client believes a name or attributes without asking, milliseconds.
    pub client_ttl_ms: u32,
}

/// The same slowness as the GlusterFS test bed is given ([`crate::testbed::BUSY`]); 1 s is the default of its
/// client, and of the order of those of NFS.
pub const BUSY: Parameters =
    Parameters { metadata_us: 2000, at_once: 2, link_bits_per_second: 1_000_000_000, client_ttl_ms: 1000 };

/// The server, shared by all its clients.
pub struct Model {
    directory: PathBuf,
    parameters: Parameters,
    epoch: Instant,
    timer: Timer,
    state: Mutex<State>,
}

/// What changes as the server works.
struct State {
    queue: Queue,
    traffic: Traffic,
    /// Node number to path below the directory. The kernel's node numbers are the inode numbers of the local files;
    /// none is ever forgotten, which a model that lives for minutes can afford.
    paths: BTreeMap<u64, PathBuf>,
    /// What is not answered while the server hangs.
    held: Option<Vec<Answer>>,
}

type Answer = Box<dyn FnOnce() + Send>;

impl Model {
    /// A server of the files below `directory`.
    ///
    /// # Errors
    /// When the directory is not there or the timer cannot be started.
    pub fn new(directory: &Path, parameters: Parameters) -> anyhow::Result<Arc<Self>> {
        let directory = directory.canonicalize().with_context(|| format!("cannot serve {}", directory.display()))?;
        let state =
            State { queue: Queue::new(&parameters), traffic: Traffic::default(), paths: BTreeMap::new(), held: None };
        let timer = Timer::start().context("the model's timer")?;
        Ok(Arc::new(Self { directory, parameters, epoch: Instant::now(), timer, state: Mutex::new(state) }))
    }

    /// What was asked and sent so far. `sent_bytes` counts file contents and listings.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.state().traffic.clone()
    }

    /// Answers nothing any more.
    pub fn hang(&self) {
        self.state().held.get_or_insert_default();
    }

    /// Answers again, also what was asked meanwhile.
    pub fn go_on(&self) {
        let held = self.state().held.take();
        held.into_iter().flatten().for_each(|answer| answer());
    }

    /// Mounts a client at `at`: one node's own, with caches of its own.
    ///
    /// # Errors
    /// When mounting is not possible here.
    pub fn mount(self: &Arc<Self>, at: &Path) -> anyhow::Result<ClientMount> {
        // The type must not be that of Forebay's own views: those are never exported.
        let options = MountOptions {
            source: "modelled-server".into(),
            subtype: "model".into(),
            read_ahead_bytes: READ_AHEAD_BYTES,
            ..MountOptions::default()
        };
        let mount = mount(at, &options)?;
        let options = SessionOptions { no_open: false, read_ahead_bytes: READ_AHEAD_BYTES, ..Default::default() };
        let session = Session::start(mount.descriptor(), &options, Arc::new(Client::new(Arc::clone(self))))
            .context("the model's FUSE session")?;
        Ok(ClientMount { mount: Some(mount), session })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The local path of a node; `None` for one that was never told to a client.
    fn path(&self, node: u64) -> Option<PathBuf> {
        if node == forebay_fuse::ROOT_NODE {
            return Some(self.directory.clone());
        }
        self.state().paths.get(&node).cloned()
    }

    /// Remembers where a node is; its number is that of the local inode.
    fn learn(&self, path: PathBuf, attributes: &Attributes) -> u64 {
        self.state().paths.insert(attributes.ino, path);
        attributes.ino
    }

    /// Has `answer` run when the metadata server and the link are through with a request that sends `bytes`.
    fn metadata(&self, kind: &str, bytes: usize, answer: impl FnOnce() + Send + 'static) {
        let done = self.booked(kind, bytes, |queue, now| queue.metadata(now, bytes as u64));
        self.answer_at(done, Box::new(answer));
    }

    /// The same for file contents, which do not pass the metadata server.
    fn contents(&self, bytes: usize, answer: impl FnOnce() + Send + 'static) {
        let done = self.booked("read", bytes, |queue, now| queue.transfer(now, bytes as u64));
        self.answer_at(done, Box::new(answer));
    }

    fn answer_at(&self, done: Instant, answer: Answer) {
        match &mut self.state().held {
            Some(held) => held.push(answer),
            None => self.timer.at(done, answer),
        }
    }

    /// Counts a request and asks the queue when it is done.
    fn booked(&self, kind: &str, bytes: usize, when: impl FnOnce(&mut Queue, Duration) -> Duration) -> Instant {
        let mut state = self.state();
        *state.traffic.requests.entry(kind.to_owned()).or_insert(0) += 1;
        state.traffic.sent_bytes += bytes as u64;
        self.epoch + when(&mut state.queue, self.epoch.elapsed())
    }

    fn ttl(&self) -> Duration {
        Duration::from_millis(self.parameters.client_ttl_ms.into())
    }
}

/// What a client reads ahead, bytes: the kernel's default.
const READ_AHEAD_BYTES: u32 = 128 << 10;

/// A client's mount; unmounted when dropped.
pub struct ClientMount {
    mount: Option<Mount>,
    session: Session,
}

impl Drop for ClientMount {
    fn drop(&mut self) {
        if let Some(mount) = self.mount.take()
            && let Err(error) = mount.unmount()
        {
            eprintln!("cleaning up: {error}");
        }
        self.session.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::fs;

    /// Whether FUSE mounts are possible; where tests must not be skipped, that they are not is a failure.
    fn can_mount() -> bool {
        let can = fs::File::options().read(true).write(true).open("/dev/fuse").is_ok()
            && rustix::process::geteuid().is_root();
        assert!(can || std::env::var_os("CI").is_none_or(|ci| ci != "true"), "needs root and /dev/fuse");
        if !can {
            eprintln!("skipped: needs root and /dev/fuse");
        }
        can
    }

    #[test]
    fn a_client_sees_the_directory_and_every_request_is_counted_and_takes_its_time() {
        if !can_mount() {
            return;
        }
        let scratch = Scratch::new(&std::env::temp_dir(), "forebay-model-test").unwrap();
        let source = scratch.dir("source/below").unwrap();
        let contents: Vec<u8> = (0..300_000u32).map(|index| (index % 251) as u8).collect();
        fs::write(source.join("file"), &contents).unwrap();
        std::os::unix::fs::symlink("file", source.join("link")).unwrap();
        let model = Model::new(&scratch.path().join("source"), BUSY).unwrap();
        let at = scratch.dir("mount").unwrap();
        let client = model.mount(&at).unwrap();
        let start = Instant::now();
        assert_eq!(fs::read(at.join("below/link")).unwrap(), contents);
        assert_eq!(fs::metadata(at.join("below/none")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
        let mut names: Vec<_> =
            fs::read_dir(at.join("below")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["file", "link"]);
        let took = start.elapsed();
        let traffic = model.traffic();
        let kinds = ["lookup", "open", "read", "readlink", "opendir", "readdirplus"];
        assert!(kinds.iter().all(|kind| traffic.requests.contains_key(*kind)), "{traffic:?}");
        assert!(traffic.sent_bytes >= contents.len() as u64);
        let metadata_requests = traffic.total() - traffic.requests["read"];
        // One process asks one thing at a time, so at most as many are worked on at once as the server can.
        let least = Duration::from_millis(2) * u32::try_from(metadata_requests).unwrap() / BUSY.at_once;
        assert!(took >= least, "{metadata_requests} metadata requests took {took:?}");
        drop(client);
        assert!(fs::read_dir(&at).unwrap().next().is_none(), "still mounted");
    }
}
