//! The protocol of programs and a keeper at the entrance: a socket in the job's directory that takes requests.
//!
//! A request is one datagram with the descriptor that its answer goes to. So the keeper waits for no program and keeps
//! no state of any: it reads the requests, answers if there is room, and is done. If a keeper dies, the requests are
//! lost, and the programs see the end of the answer. The kernel vouches for the program's user (`SO_PEERCRED` of the
//! descriptor for the answer).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use serde::{Deserialize, Serialize};

use super::namespaces::Namespace;
use super::place::{Node, Place};
use crate::packets::{pair, receive, send};

/// How long a program waits at the entrance of the namespace that shows exports at their own paths: a keeper answers in
/// microseconds, and one that lends the view in milliseconds.
const ENTRANCE_TIMEOUT: Duration = Duration::from_secs(10);

/// A program's request.
#[derive(Debug)]
pub enum Request {
    /// Describe the node.
    Node,
    /// Let me into the namespace for programs from here.
    Enter {
        /// Where the program is.
        place: Place,
    },
    /// Let me into the keeper's own namespaces.
    Home,
    /// Keep this one, for programs from there.
    Keep {
        /// Where the program was.
        place: Place,
        /// The namespace that it made.
        namespace: Namespace,
    },
}

/// The keeper's answer.
#[derive(Debug)]
pub enum Answer {
    /// This.
    Node(Node),
    /// Enter this one.
    Enter(Namespace),
    /// You are inside already.
    Inside,
    /// There is none.
    None,
    /// It is kept.
    Kept,
}

/// A request's text; its descriptors come beside it, after the one for the answer.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum QuestionText {
    /// `Request::Node`.
    Node,
    /// `Request::Enter`.
    Enter {
        /// Where the program is.
        place: Place,
    },
    /// `Request::Home`.
    Home,
    /// `Request::Keep`, with the namespace's descriptors and that of the process that made it.
    Keep {
        /// Where the program was.
        place: Place,
    },
    /// Give me the view, which I do not see.
    Lend,
    /// Run what serves the image that I have mounted: with the connection of its mount, the image's file, and where it is to
    /// complain.
    ServeImage {
        /// The program.
        program: PathBuf,
    },
}

/// An answer's text.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum AnswerText {
    /// `Answer::Node`.
    Node(Node),
    /// `Answer::Enter`, with the namespace's descriptors.
    Enter,
    /// `Answer::Inside`.
    Inside,
    /// `Answer::None`.
    None,
    /// `Answer::Kept`.
    Kept,
    /// The answer to `QuestionText::Lend`, with one descriptor: a copy of the view's mount that is mounted nowhere.
    Lent,
    /// No.
    Refused {
        /// Why.
        why: String,
    },
}

/// Asks the keeper behind `socket`.
///
/// # Errors
/// When it does not answer in time, or refuses.
pub fn ask(socket: &Path, question: &Request) -> anyhow::Result<Answer> {
    let (text, process) = match question {
        Request::Node => (QuestionText::Node, None),
        Request::Enter { place } => (QuestionText::Enter { place: *place }, None),
        Request::Home => (QuestionText::Home, None),
        Request::Keep { place, .. } => {
            let process =
                pidfd_open(getpid(), PidfdFlags::empty()).context("cannot determine the namespaces of this process")?;
            (QuestionText::Keep { place: *place }, Some(process))
        }
    };
    let mut descriptors: Vec<BorrowedFd<'_>> = process.iter().map(AsFd::as_fd).collect();
    if let Request::Keep { namespace, .. } = question {
        descriptors.extend(namespace.descriptors());
    }
    let (answer, handed) = exchange(socket, &text, &descriptors)?;
    Ok(match answer {
        AnswerText::Node(node) => Answer::Node(node),
        AnswerText::Inside => Answer::Inside,
        AnswerText::None => Answer::None,
        AnswerText::Kept => Answer::Kept,
        AnswerText::Enter => {
            Answer::Enter(Namespace::from_descriptors(handed).context("the keeper's answer is incomplete")?)
        }
        AnswerText::Refused { why } => bail!("the keeper refuses: {why}"),
        AnswerText::Lent => bail!("the keeper's answer does not fit the request"),
    })
}

/// Asks for the view's mount, for a place from which it is not seen.
///
/// # Errors
/// As `ask`; also where the node itself may not make namespaces.
pub fn borrow(socket: &Path) -> anyhow::Result<OwnedFd> {
    let (answer, mut handed) = exchange(socket, &QuestionText::Lend, &[])?;
    match (answer, handed.pop()) {
        (AnswerText::Lent, Some(tree)) => Ok(tree),
        (AnswerText::Refused { why }, _) => bail!("the view is not visible here, and its node cannot lend it: {why}"),
        _ => bail!("the keeper's answer does not fit the request"),
    }
}

/// Leaves it with the keeper to run `program` for a mounted image; it ends with the node.
///
/// # Errors
/// As `ask`.
pub fn serve_image(socket: &Path, program: &Path, descriptors: [BorrowedFd<'_>; 3]) -> anyhow::Result<()> {
    let question = QuestionText::ServeImage { program: program.to_owned() };
    match exchange(socket, &question, &descriptors)? {
        (AnswerText::Kept, _) => Ok(()),
        (AnswerText::Refused { why }, _) => bail!("the keeper refuses: {why}"),
        _ => bail!("the keeper's answer does not fit the request"),
    }
}

fn exchange(
    socket: &Path,
    question: &QuestionText,
    descriptors: &[BorrowedFd<'_>],
) -> anyhow::Result<(AnswerText, Vec<OwnedFd>)> {
    let silent = || format!("the keeper behind {} does not answer", socket.display());
    let entrance = UnixDatagram::unbound().with_context(silent)?;
    entrance.connect(socket).with_context(silent)?;
    let (ours, theirs) = pair().with_context(silent)?;
    for (waiting, kind) in [(entrance.as_fd(), Timeout::Send), (ours.as_fd(), Timeout::Recv)] {
        set_socket_timeout(waiting, kind, Some(ENTRANCE_TIMEOUT)).with_context(silent)?;
    }
    let all: Vec<BorrowedFd<'_>> = std::iter::once(theirs.as_fd()).chain(descriptors.iter().copied()).collect();
    send(entrance.as_fd(), question, &all).with_context(silent)?;
    // The only copies left are the keeper's, so that its end is the end of the answer.
    drop(theirs);
    receive(ours.as_fd()).with_context(silent)?.with_context(|| format!("{}: it has just ended", silent()))
}
