//! The mount namespaces that a keeper holds for programs (`forebay run`), and the entrance where they ask for them.
//!
//! The keeper makes none: a program makes one and hands it over, later ones get it. A kept namespace keeps the view's mount
//! busy only as long as the keeper lives. So only programs that are still in a namespace let it outlive the job. A namespace
//! made in a container would keep the container's files busy too; it is held only while the program that made it runs.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Child;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::daemon::Program;
use crate::image_servers::ImageServers;
use crate::own_paths::{AnswerText, Home, Namespace, Node, Place, QuestionText};
use crate::packets;

/// Requests that a keeper answers in a row: as many as a socket's queue holds by default (`net.unix.max_dgram_qlen`).
const ENTRANCE_QUESTIONS: usize = 512;

/// Namespaces that a keeper holds: one for the node, and one for each container that programs run in now. Programs in one
/// that is let go do not mind.
const NAMESPACES_KEPT: usize = 16;

/// The entrance and what is behind it.
#[derive(Debug)]
pub struct Namespaces {
    entrance: UnixDatagram,
    node: Node,
    /// The keeper's own, if it has any.
    home: Option<Namespace>,
    /// The one used last is the last.
    kept: VecDeque<Kept>,
    /// Processes that lend the view to programs that do not see it.
    lenders: Vec<Child>,
    /// Processes that serve images.
    image_servers: ImageServers,
}

#[derive(Debug)]
struct Kept {
    /// Where programs are that may enter.
    place: Place,
    namespace: Namespace,
    /// Its own number.
    number: u64,
    /// Readable when the process has ended that made it; `None` where it is held to the end.
    maker: Option<OwnedFd>,
}

impl Namespaces {
    /// Makes the entrance; one that a dead keeper left is replaced.
    pub fn open(path: &Path, node: Node, home: Option<Home>) -> anyhow::Result<Self> {
        let _ = std::fs::remove_file(path);
        let failed = || format!("cannot make the entrance {}", path.display());
        let entrance = UnixDatagram::bind(path).with_context(failed)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).with_context(failed)?;
        entrance.set_nonblocking(true).with_context(failed)?;
        let home = home.map(|home| home.namespace);
        let (kept, lenders, image_servers) = (VecDeque::new(), Vec::new(), ImageServers::default());
        Ok(Self { entrance, node, home, kept, lenders, image_servers })
    }

    /// The descriptors to poll: requests, and the ends of programs.
    pub fn wait_for(&self) -> Vec<BorrowedFd<'_>> {
        let makers = self.kept.iter().filter_map(|kept| kept.maker.as_ref()).map(AsFd::as_fd);
        std::iter::once(self.entrance.as_fd()).chain(makers).collect()
    }

    /// Answers what was asked, and lets go what nobody can use any more.
    pub fn take(&mut self, program: &Program) {
        self.kept.retain(|kept| kept.maker.as_ref().is_none_or(|maker| !has_ended(maker)));
        self.reap();
        // As many as may wait in the socket's queue, so that whatever else the keeper waits for has its turn.
        for _ in 0..ENTRANCE_QUESTIONS {
            match packets::receive::<QuestionText>(self.entrance.as_fd()) {
                Ok(Some((question, descriptors))) => self.answer(question, descriptors, program),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "an invalid request at the entrance"),
            }
        }
    }

    /// Waits for the lenders and the servers of images that have ended.
    pub fn reap(&mut self) {
        self.image_servers.reap();
        self.lenders.retain_mut(|lender| matches!(lender.try_wait(), Ok(None)));
    }

    fn answer(&mut self, question: QuestionText, descriptors: Vec<OwnedFd>, program: &Program) {
        let mut descriptors = descriptors.into_iter();
        let Some(asks) = descriptors.next().filter(is_own_users) else {
            tracing::warn!("a request at the entrance was refused: it came from another user, or cannot be answered");
            return;
        };
        match question {
            QuestionText::Node => say(&asks, &AnswerText::Node(self.node.clone()), &[]),
            QuestionText::Enter { place } => self.let_in(&asks, place),
            QuestionText::Home => match &self.home {
                Some(home) => say(&asks, &AnswerText::Enter, &home.descriptors()),
                None => say(&asks, &AnswerText::None, &[]),
            },
            QuestionText::Keep { place } => {
                let answer = match self.keep(place, descriptors.collect()) {
                    Ok(()) => AnswerText::Kept,
                    Err(error) => AnswerText::Refused { why: format!("{error:#}") },
                };
                say(&asks, &answer, &[]);
            }
            QuestionText::Lend => self.lend(asks, program),
            QuestionText::ServeImage { program: server } => {
                let answer = match self.image_servers.start(program, &server, descriptors.collect()) {
                    Ok(()) => AnswerText::Kept,
                    Err(error) => AnswerText::Refused { why: format!("{error:#}") },
                };
                say(&asks, &answer, &[]);
            }
        }
    }

    fn let_in(&mut self, asks: &OwnedFd, place: Place) {
        if self.kept.iter().any(|kept| kept.number == place.mount) {
            return say(asks, &AnswerText::Inside, &[]);
        }
        match self.kept.iter().position(|kept| kept.place == place).and_then(|index| self.kept.remove(index)) {
            Some(kept) => {
                say(asks, &AnswerText::Enter, &kept.namespace.descriptors());
                self.kept.push_back(kept);
            }
            None => say(asks, &AnswerText::None, &[]),
        }
    }

    fn keep(&mut self, place: Place, mut descriptors: Vec<OwnedFd>) -> anyhow::Result<()> {
        anyhow::ensure!(!descriptors.is_empty(), "descriptors are missing from the request");
        let is_here =
            [Some(self.node.place), self.node.outside].into_iter().flatten().any(|own| own.mount == place.mount);
        let maker = Some(descriptors.remove(0)).filter(|_| !is_here);
        let namespace = Namespace::from_descriptors(descriptors).context("descriptors are missing from the request")?;
        let number = namespace.number().context("it cannot be looked at")?;
        self.kept.retain(|kept| kept.place != place);
        if self.kept.len() >= NAMESPACES_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(Kept { place, namespace, number, maker });
        Ok(())
    }

    /// Lets a process of its own copy the view's mount, which takes a namespace of its own.
    fn lend(&mut self, asks: OwnedFd, program: &Program) {
        if self.lenders.len() >= NAMESPACES_KEPT {
            let why = "too many programs ask for the view at once".to_owned();
            return say(&asks, &AnswerText::Refused { why }, &[]);
        }
        let node = match serde_json::to_string(&self.node) {
            Ok(node) => node,
            Err(error) => return tracing::warn!(%error, "the view cannot be lent"),
        };
        let mut command = program.command();
        command.args(["node", "--lend", &node]).stdin(asks).stdout(std::process::Stdio::null());
        match command.spawn() {
            Ok(lender) => self.lenders.push(lender),
            // The program sees that there is no answer.
            Err(error) => tracing::warn!(%error, "the view cannot be lent"),
        }
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).is_ok() && !polled[0].revents().is_empty()
}

/// The kernel says who made the pair of sockets.
fn is_own_users(asks: &OwnedFd) -> bool {
    let own = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(asks).is_ok_and(|peer| peer.uid == own || peer.uid.is_root())
}

/// Sends an answer. A program that does not take it does without.
fn say(asks: &OwnedFd, answer: &AnswerText, descriptors: &[BorrowedFd<'_>]) {
    if let Err(error) = packets::send_if_room(asks.as_fd(), answer, descriptors) {
        tracing::debug!(%error, "an answer at the entrance could not be sent");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view_mount::ViewMount;
    use forebay_types::NodeRank;
    use std::fs::File;
    use std::process::{Command, Stdio};

    fn namespaces(directory: &Path) -> Namespaces {
        let node = Node {
            rank: NodeRank(0),
            host: "host".into(),
            view: ViewMount { path: "/view".into(), source: "forebay:job/0@1".to_owned(), device: None },
            burst: None,
            exports: Vec::new(),
            links_lead_into_view: false,
            place: place(1, 0),
            outside: None,
        };
        Namespaces::open(&directory.join("enter"), node, None).unwrap()
    }

    fn place(mount: u64, root: u64) -> Place {
        Place { mount, user: 1, root: (1, root), may_mount: false }
    }

    fn handed(maker: Option<&std::process::Child>) -> Vec<OwnedFd> {
        let open = |path: &str| OwnedFd::from(File::open(path).unwrap());
        let maker = maker.map_or_else(
            || open("/dev/null"),
            |child| {
                let pid = rustix::process::Pid::from_child(child);
                rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap()
            },
        );
        vec![maker, open("/proc/self/ns/mnt"), open("/")]
    }

    #[test]
    fn as_many_are_kept_as_may_be_and_those_used_last() {
        let temporary = tempfile::tempdir().unwrap();
        let mut namespaces = namespaces(temporary.path());
        let (ours, theirs) = packets::pair().unwrap();
        for root in 0..NAMESPACES_KEPT as u64 + 3 {
            namespaces.keep(place(1, root), handed(None)).unwrap();
            // The first is used throughout.
            namespaces.let_in(&ours, place(1, 0));
            let (answer, descriptors) = packets::receive::<AnswerText>(theirs.as_fd()).unwrap().unwrap();
            assert!(matches!(answer, AnswerText::Enter) && descriptors.len() == 2);
        }
        let kept: Vec<u64> = namespaces.kept.iter().map(|kept| kept.place.root.1).collect();
        assert_eq!(kept.len(), NAMESPACES_KEPT);
        assert!(kept.contains(&0) && !kept.contains(&1), "{kept:?}");
        // The same place again takes the place of the one before.
        namespaces.keep(place(1, 0), handed(None)).unwrap();
        assert_eq!(namespaces.kept.len(), NAMESPACES_KEPT);
        assert!(namespaces.keep(place(1, 0), Vec::new()).is_err(), "too little");
    }

    #[test]
    fn one_of_a_container_is_let_go_with_its_maker() {
        let temporary = tempfile::tempdir().unwrap();
        let mut namespaces = namespaces(temporary.path());
        let program = Program::this().unwrap();
        let mut maker = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        namespaces.keep(place(1, 0), handed(Some(&maker))).unwrap();
        namespaces.keep(place(2, 0), handed(Some(&maker))).unwrap();
        namespaces.take(&program);
        assert_eq!((namespaces.kept.len(), namespaces.wait_for().len()), (2, 2));
        maker.kill().unwrap();
        maker.wait().unwrap();
        namespaces.take(&program);
        assert_eq!(namespaces.kept.iter().map(|kept| kept.place.mount).collect::<Vec<_>>(), [1]);
    }
}
