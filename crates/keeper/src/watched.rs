//! Processes whose end is the end of the node, or of the whole job: the command that started a daemon and stays, and the script of a
//! job whose scheduler knows nothing of the daemons.
//!
//! A launcher that is killed may leave its daemons running, and a login that a scheduler has not made goes on after the job. The keeper watches
//! by descriptors of the processes, so that another of the same number is never taken for one of them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};

use forebay_launch::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The consequence of a process's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WhenGone {
    /// The node.
    EndNode,
    /// The job, by a command: the program and its arguments.
    EndJob(Vec<String>),
}

/// A process that is watched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Watched {
    /// The process.
    pub process: Process,
    /// The consequence of its end.
    pub when_gone: WhenGone,
}

/// The processes that have not ended yet.
pub(crate) struct Watches(Vec<(OwnedFd, WhenGone)>);

impl Watches {
    /// Also what ends at once, because its process is there no more.
    pub fn of(watched: &[Watched]) -> (Self, Vec<WhenGone>) {
        let (mut open, mut gone) = (Vec::new(), Vec::new());
        for Watched { process, when_gone } in watched {
            match process.descriptor() {
                Some(descriptor) => open.push((descriptor, when_gone.clone())),
                None => gone.push(when_gone.clone()),
            }
        }
        (Self(open), gone)
    }

    /// The descriptors to poll.
    pub fn wait_for(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|(descriptor, _)| descriptor.as_fd())
    }

    /// Takes what ends with processes that have ended.
    pub fn take(&mut self) -> Vec<WhenGone> {
        let has_ended = |(descriptor, _): &mut (OwnedFd, WhenGone)| {
            let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
            poll(&mut polled, Some(&Timespec::default())).is_ok_and(|count| count > 0)
        };
        self.0.extract_if(.., has_ended).map(|(_, when_gone)| when_gone).collect()
    }
}

/// Runs the command that ends the job, and does not wait for it: it asks this node, too.
pub(crate) fn run(command: &[String]) {
    let Some((program, arguments)) = command.split_first() else { return };
    let mut ends = Command::new(program);
    match ends.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).current_dir("/").spawn() {
        Ok(child) => tracing::info!(pid = child.id(), "the job's script has ended; the job is ended"),
        Err(error) => tracing::error!(%error, program, "the job's script has ended, and the job cannot be ended"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ends_is_told_once() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        let watched = [Watched { process, when_gone: WhenGone::EndNode }];
        let (mut watches, gone) = Watches::of(&watched);
        assert_eq!((gone, watches.take()), (vec![], vec![]));
        child.kill().unwrap();
        let mut polled: Vec<PollFd<'_>> =
            watches.wait_for().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        poll(&mut polled, None).unwrap();
        assert_eq!(watches.take(), [WhenGone::EndNode]);
        assert_eq!((watches.take(), watches.wait_for().count()), (vec![], 0));
        child.wait().unwrap();
        let (_, gone) = Watches::of(&watched);
        assert_eq!(gone, [WhenGone::EndNode], "one that has ended before");
    }
}
