//! Notifications that the kernel lets wait are written by a process of their own, which holds nothing else.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use forebay_fuse::{Notifier, ROOT_NODE, Session, serve_invalidations};
use forebay_types::Errno;
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, kill_process};

use crate::fixture::{Mounted, alone, eventually};
use crate::tree::Tree;

/// Each is invalidated while one waits.
const FILES: usize = 5;

/// The name of threads that read as programs do.
const PROGRAM: &str = "program";

/// The process, as a session starts this program for it.
#[test]
#[ignore = "a part of other tests"]
fn the_process() {
    serve_invalidations().unwrap();
}

/// A command that writes its process number to a file and becomes the process.
fn program(said: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ > \"$0\"; exec \"$@\""]).arg(said).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "invalidations::the_process", "--ignored", "--nocapture", "--test-threads=1"]);
    command
}

/// A mount whose session has such a process, and the file with its number.
struct Bed {
    mounted: Mounted,
    nodes: Vec<u64>,
    said: PathBuf,
}

impl Bed {
    fn new() -> Option<Self> {
        let tree = Tree::new();
        let nodes = (0..FILES).map(|number| tree.file(ROOT_NODE, &number.to_string(), 0o644, "before")).collect();
        let mounted = Mounted::new(tree)?;
        let said = std::env::temp_dir().join(format!("forebay-invalidations-{}", std::process::id()));
        let _ = fs::remove_file(&said);
        let of_program = said.clone();
        mounted.session.invalidate_by(move || program(&of_program)).unwrap();
        Some(Self { mounted, nodes, said })
    }

    fn pid(&self) -> u32 {
        let mut pid = None;
        eventually("the process says its number", || {
            pid = fs::read_to_string(&self.said).ok().and_then(|said| said.trim().parse().ok());
            pid.is_some()
        });
        pid.unwrap()
    }

    /// A program reads a file and gets no answer.
    fn read(&self, number: usize) -> JoinHandle<io::Result<usize>> {
        let file = File::open(self.mounted.path(number.to_string())).unwrap();
        std::thread::Builder::new().name(PROGRAM.to_owned()).spawn(move || file.read_at(&mut [0; 16], 0)).unwrap()
    }

    /// Pages are to be dropped that are being read: it waits in the kernel, in the process.
    fn invalidate(&self, number: usize) -> JoinHandle<io::Result<bool>> {
        let (notifier, node) = (self.mounted.notifier(), self.nodes[number]);
        std::thread::spawn(move || notifier.inval_inode(node, 0, 0))
    }

    fn invalidate_while_it_is_read(
        &self,
        number: usize,
    ) -> (JoinHandle<io::Result<usize>>, JoinHandle<io::Result<bool>>) {
        self.mounted.tree.hold_reads(Some(self.nodes[number]));
        let read = self.read(number);
        self.mounted.tree.wait_held();
        let invalidated = self.invalidate(number);
        let pid = self.pid();
        eventually("the kernel holds the process", || held(pid) == 1);
        assert!(!invalidated.is_finished());
        (read, invalidated)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.mounted.tree.fail_held();
        let _ = fs::remove_file(&self.said);
    }
}

/// Threads of a process, but for those of programs, that the kernel holds where no signal ends them.
fn held(pid: u32) -> usize {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    let is_held = |stat: &String| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('D'));
    stats.filter(|stat| is_held(stat) && !stat.contains(PROGRAM)).count()
}

/// Whether all threads of a process have stopped, which takes a moment after the signal.
fn stands_still(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut stats = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    stats.all(|stat| stat.contains(") T "))
}

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

#[test]
fn pages_and_names_are_taken_back() {
    let _alone = alone();
    let Some(bed) = Bed::new() else { return };
    let (mounted, notifier) = (&bed.mounted, bed.mounted.notifier());
    let path = mounted.path("0");
    assert_eq!(fs::read_to_string(&path).unwrap(), "before");
    mounted.tree.rewrite(bed.nodes[0], "after, and longer");
    assert!(notifier.inval_inode(bed.nodes[0], 0, 0).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "after, and longer");
    mounted.tree.remove(ROOT_NODE, "0");
    assert!(path.exists(), "the kernel believes what it has");
    assert!(notifier.inval_entry(ROOT_NODE, b"0").unwrap());
    assert!(!path.exists());
    assert!(!notifier.inval_inode(999, 0, 0).unwrap(), "unknown is no fault");
    let too_long = notifier.inval_entry(ROOT_NODE, &[b'a'; 70_000]).unwrap_err();
    assert_eq!(Errno::of(&too_long), Errno::ENAMETOOLONG);
}

#[test]
fn one_that_waits_holds_up_no_other_and_nothing_of_this_process() {
    let _alone = alone();
    let Some(bed) = Bed::new() else { return };
    let (read, invalidated) = bed.invalidate_while_it_is_read(0);
    assert_eq!(held(std::process::id()), 0);
    for number in 1..FILES {
        fs::metadata(bed.mounted.path(number.to_string())).unwrap();
        assert!(bed.invalidate(number).join().unwrap().unwrap());
    }
    assert!(!invalidated.is_finished());
    bed.mounted.tree.fail_held();
    assert!(invalidated.join().unwrap().unwrap());
    let _ = read.join().unwrap();
}

#[test]
fn the_process_has_the_connection_and_its_socket_and_nothing_else() {
    let _alone = alone();
    let Some(bed) = Bed::new() else { return };
    // A descriptor that programs inherit.
    let inherited = File::open("/").unwrap();
    rustix::io::fcntl_setfd(&inherited, FdFlags::empty()).unwrap();
    assert!(!bed.invalidate(0).join().unwrap().unwrap(), "the kernel does not know it yet");
    drop(inherited);
    let pid = bed.pid();
    let target = |number: &std::ffi::OsStr| fs::read_link(Path::new(&format!("/proc/{pid}/fd")).join(number)).unwrap();
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let mut targets: Vec<String> =
        entries.map(|entry| target(&entry.unwrap().file_name()).display().to_string()).collect();
    targets.iter_mut().for_each(|target| target.truncate(target.find(':').unwrap_or(target.len())));
    targets.sort();
    assert_eq!(targets, ["/dev/fuse", "/dev/null", "/dev/null", "/dev/null", "socket"]);
    assert_eq!(fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), Path::new("/"));
}

#[test]
fn after_its_death_another_one_is_started() {
    let _alone = alone();
    let Some(bed) = Bed::new() else { return };
    bed.invalidate(0).join().unwrap().unwrap();
    let first = bed.pid();
    signal(first, Signal::KILL);
    eventually("it is waited for", || is_gone(first));
    bed.invalidate(0).join().unwrap().unwrap();
    assert_ne!(bed.pid(), first);
}

/// The notification waits in a process that is killed: it ends when the read does, and another one writes the notification.
#[test]
fn one_that_is_killed_while_it_waits_has_dropped_nothing() {
    let _alone = alone();
    let Some(bed) = Bed::new() else { return };
    let (read, invalidated) = bed.invalidate_while_it_is_read(0);
    let first = bed.pid();
    signal(first, Signal::KILL);
    assert!(!invalidated.is_finished());
    bed.mounted.tree.fail_held();
    assert!(invalidated.join().unwrap().unwrap());
    let _ = read.join().unwrap();
    eventually("it has ended", || is_gone(first));
    assert_ne!(bed.pid(), first);
}

/// No thread waits while the process lives. If it dies, the next one does the same; if none lives, that is told.
#[test]
fn a_renewal_that_its_caller_does_not_wait_for_is_told_when_it_has_ended() {
    let _alone = alone();
    let Some(bed) = Bed::new() else { return };
    let (sender, renewed) = std::sync::mpsc::channel();
    let renew = |number: usize, last| {
        let sender = sender.clone();
        let told = move |outcome: io::Result<()>| sender.send((number, outcome.is_ok())).unwrap();
        bed.mounted.notifier().renew_pages_then(bed.nodes[number], last, told);
    };
    renew(1, None);
    assert_eq!(renewed.recv().unwrap(), (1, true), "the process was started for it");
    let (read, invalidated) = bed.invalidate_while_it_is_read(0);
    let (first, threads) = (bed.pid(), || fs::read_dir("/proc/self/task").unwrap().count());
    let before = threads();
    for _ in 0..20 {
        renew(0, Some((6, b'e')));
    }
    eventually("they wait in the process", || held(first) == 21);
    assert_eq!(threads(), before);
    renew(2, None);
    assert_eq!(renewed.recv().unwrap(), (2, true), "one that need not wait is not held up");
    assert!(renewed.try_recv().is_err());
    signal(first, Signal::KILL);
    bed.mounted.tree.fail_held();
    for _ in 0..20 {
        assert_eq!(renewed.recv().unwrap(), (0, true));
    }
    assert!(invalidated.join().unwrap().unwrap());
    let _ = read.join().unwrap();
    assert_ne!(bed.pid(), first);
    bed.mounted.session.stop();
    renew(1, None);
    assert_eq!(renewed.recv().unwrap(), (1, false));
}

#[test]
fn where_none_lives_a_notification_fails_and_is_never_taken_for_done() {
    let _alone = alone();
    let tree = Tree::new();
    let node = tree.file(ROOT_NODE, "file", 0o644, "before");
    let Some(mounted) = Mounted::new(tree) else { return };
    assert_eq!(fs::read_to_string(mounted.path("file")).unwrap(), "before");
    let started = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&started);
    let started_by = mounted.session.invalidate_by(move || {
        count.fetch_add(1, Ordering::SeqCst);
        Command::new("false")
    });
    started_by.unwrap();
    let error = mounted.notifier().inval_inode(node, 0, 0).unwrap_err();
    assert!(error.to_string().contains("died, and the next one too"), "{error}");
    assert_eq!(started.load(Ordering::SeqCst), 2);
    mounted.tree.rewrite(node, "after");
    assert_eq!(fs::read_to_string(mounted.path("file")).unwrap(), "before", "so it was not told");
}

#[test]
fn where_none_can_be_started_the_session_notifies_the_kernel_itself() {
    let _alone = alone();
    let tree = Tree::new();
    let node = tree.file(ROOT_NODE, "file", 0o644, "before");
    let Some(mounted) = Mounted::new(tree) else { return };
    assert_eq!(fs::read_to_string(mounted.path("file")).unwrap(), "before");
    mounted.session.invalidate_by(|| Command::new("/nothing/here")).unwrap();
    mounted.tree.rewrite(node, "after");
    assert!(mounted.notifier().inval_inode(node, 0, 0).unwrap());
    assert_eq!(fs::read_to_string(mounted.path("file")).unwrap(), "after");
}

/// More than one packet takes. One that is unknown, or that the kernel refuses, stops none after it.
#[test]
fn many_are_taken_back_together() {
    let _alone = alone();
    let tree = Tree::new();
    let names: Vec<String> = (0..2000).map(|number| format!("a-name-that-is-as-long-as-many-are-{number}")).collect();
    let nodes: Vec<u64> = names.iter().map(|name| tree.file(ROOT_NODE, name, 0o644, "before")).collect();
    let Some(mounted) = Mounted::new(tree) else { return };
    mounted.session.invalidate_by(|| program(&std::env::temp_dir().join("forebay-invalidations-of-many"))).unwrap();
    names.iter().for_each(|name| assert!(mounted.path(name).exists()));
    names.iter().for_each(|name| mounted.tree.remove(ROOT_NODE, name));
    let unknown = (999_999, Some((ROOT_NODE, b"unknown".as_slice())));
    let known = nodes.iter().zip(&names).map(|(node, name)| (*node, Some((ROOT_NODE, name.as_bytes()))));
    mounted.notifier().inval_all(std::iter::once(unknown).chain(known.clone())).unwrap();
    names.iter().for_each(|name| assert!(!mounted.path(name).exists(), "{name}"));
    let refused = [b'a'; 5000];
    let all = std::iter::once((ROOT_NODE, Some((ROOT_NODE, refused.as_slice())))).chain(known);
    assert_eq!(Errno::of(&mounted.notifier().inval_all(all).unwrap_err()), Errno::ENAMETOOLONG);
    let _ = fs::remove_file(std::env::temp_dir().join("forebay-invalidations-of-many"));
}

fn end(session: &Session, notifier: &Notifier) {
    session.stop();
    assert_eq!(Errno::of(&notifier.inval_inode(2, 0, 0).unwrap_err()), Errno::ENODEV);
}

/// Stopped, it would hold the connection for ever, and with it programs that wait for an answer.
#[test]
fn a_process_that_was_stopped_ends_with_its_session() {
    let _alone = alone();
    let Some(mut bed) = Bed::new() else { return };
    bed.invalidate(0).join().unwrap().unwrap();
    let pid = bed.pid();
    signal(pid, Signal::STOP);
    eventually("all its threads have stopped", || stands_still(pid));
    let invalidated = bed.invalidate(0);
    bed.mounted.mount.take().unwrap().unmount().unwrap();
    bed.mounted.session.stop();
    assert!(is_gone(pid), "the session has waited for it");
    assert!(invalidated.join().unwrap().is_err());
}

#[test]
fn the_process_ends_with_its_session() {
    let _alone = alone();
    let Some(mut bed) = Bed::new() else { return };
    bed.invalidate(0).join().unwrap().unwrap();
    let pid = bed.pid();
    bed.mounted.mount.take().unwrap().unmount().unwrap();
    end(&bed.mounted.session, &bed.mounted.notifier());
    assert!(is_gone(pid), "the session has waited for it");
}

/// A read was not answered when its session ended, so the kernel holds the process, and that the connection. The connection's end frees all.
#[test]
fn the_end_of_the_connection_ends_a_process_that_waits() {
    let _alone = alone();
    let Some(mut bed) = Bed::new() else { return };
    let (read, invalidated) = bed.invalidate_while_it_is_read(0);
    let pid = bed.pid();
    let mount = bed.mounted.mount.take().unwrap();
    let connection = mount.connection();
    mount.unmount().unwrap();
    end(&bed.mounted.session, &bed.mounted.notifier());
    assert!(invalidated.join().unwrap().is_err(), "its caller does not wait for it");
    assert!(!is_gone(pid) && !read.is_finished() && !connection.is_ended());
    connection.abort();
    if !connection.is_ended() {
        return crate::fixture::skip("no connection can be aborted here: root may, or fusectl has to be mounted");
    }
    assert!(read.join().unwrap().is_err());
    eventually("it ends", || is_gone(pid));
}
