//! The daemon's end of the link to its keeper: what it is to be, what it is given, and when it is to end.

use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use forebay_fuse::{KeptRequests, Mount, Negotiated};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use crate::death::Death;
use crate::handed::take_stdin;
use crate::messages::{BegunMount, LAYOUT, ToDaemon, ToKeeper};
use crate::packets;

/// Why descriptors that were sent do not arrive.
const TOO_FEW: &str = "too few open files are allowed here to take the mounts over (ulimit -n)";

/// A daemon's place in the life of its node.
#[derive(Clone, Copy, Default, Debug)]
pub struct Kept {
    /// The keeper's process.
    pub keeper_pid: u32,
    /// How many daemons of the node died before this one.
    pub restarts: u32,
    /// How many were replaced in order.
    pub replaced: u32,
    /// Whether the job has been up already.
    pub job_is_up: bool,
    /// The last death before this daemon.
    pub last_death: Option<Death>,
}

impl Kept {
    /// Whether no daemon of the node was before this one.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.restarts == 0 && self.replaced == 0
    }
}

/// The handoff to a daemon that is to serve.
pub struct Handoff {
    /// The view.
    pub view: HandedMount,
    /// The burst mount, if the node has one.
    pub burst: Option<HandedMount>,
    /// The listener for peers.
    pub peers: TcpListener,
    /// The listener of the control socket.
    pub control: UnixListener,
    /// The inodes that the kernel knows of the view.
    pub inodes: OwnedFd,
    /// The end of the leases that the kernel has on the burst mount: eight bytes, for daemons alone to write and read.
    pub kernel_leases: OwnedFd,
}

/// A mount that a daemon is to serve.
pub struct HandedMount {
    /// The mount, to be unmounted at an orderly end.
    pub mount: Mount,
    /// How it was made.
    pub how: String,
    /// When, milliseconds since 1970: tells it from the mounts before it.
    pub made_at_ms: u64,
    /// The session agreed with the kernel.
    pub negotiated: Negotiated,
    /// The requests in flight, if the kernel does not send them again.
    pub requests: Option<KeptRequests>,
}

impl HandedMount {
    fn take(begun: BegunMount, descriptors: &mut impl Iterator<Item = OwnedFd>) -> anyhow::Result<Self> {
        let mut next = || descriptors.next().context(TOO_FEW);
        let connection = next()?;
        let requests = begun.keeps_requests.then(next).transpose()?;
        Ok(Self {
            mount: Mount::adopt(begun.path, begun.device, Arc::new(connection)),
            how: begun.how,
            made_at_ms: begun.made_at_ms,
            negotiated: begun.session.into(),
            requests: requests.map(KeptRequests::open).transpose().context("taking over requests")?,
        })
    }
}

/// Why a daemon ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExitReason {
    /// Another daemon goes on.
    HandOver,
    /// The job is over.
    End,
    /// The keeper has died.
    Orphaned,
}

/// The link, held by the daemon.
#[derive(Clone, Debug)]
pub struct Link(Arc<OwnedFd>);

impl Link {
    /// Takes over standard input, which then belongs to nobody.
    pub fn from_stdin() -> anyhow::Result<Self> {
        let socket = take_stdin().context("cannot take over the link")?;
        Ok(Self(Arc::new(socket)))
    }

    /// This daemon's plan, its place in the life of its node, and the memory file with the job's key.
    pub fn plan<P: DeserializeOwned>(&self) -> anyhow::Result<(P, Kept, Option<OwnedFd>)> {
        let message = packets::receive(self.0.as_fd()).context("the keeper's orders cannot be read")?;
        let Some((ToDaemon::Plan { keeper_pid, restarts, replaced, layout, job_is_up, last_death }, files)) = message
        else {
            bail!("the keeper gave no orders");
        };
        ensure!(
            layout == LAYOUT,
            "this program cannot take over from the running one (layouts {LAYOUT} and {layout}); use forebay down, \
             then forebay up"
        );
        let mut files = files.into_iter();
        let file = files.next().context("the keeper's orders lack the plan")?;
        let text = packets::text_of(&file).context("the plan cannot be read")?;
        let plan = serde_json::from_slice(&text).context(
            "the plan of the running job is of another version than this program; use forebay down, then forebay up",
        )?;
        Ok((plan, Kept { keeper_pid, restarts, replaced, job_is_up, last_death }, files.next()))
    }

    /// Says that everything is prepared and waits for what is needed; `None` when it is not to serve after all.
    pub fn stand_by(&self) -> anyhow::Result<Option<Handoff>> {
        self.say(&ToKeeper::StandingBy);
        let message = packets::receive(self.0.as_fd()).context("the keeper's orders cannot be read")?;
        let Some((ToDaemon::Begin(begin), descriptors)) = message else {
            return Ok(None);
        };
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().context(TOO_FEW);
        let (peers, control, inodes, kernel_leases) = (next()?, next()?, next()?, next()?);
        let view = HandedMount::take(begin.view, &mut descriptors)?;
        let burst = begin.burst.map(|burst| HandedMount::take(burst, &mut descriptors)).transpose()?;
        Ok(Some(Handoff { view, burst, peers: peers.into(), control: control.into(), inodes, kernel_leases }))
    }

    /// Says that the view answers.
    pub fn ready(&self) {
        self.say(&ToKeeper::Ready);
    }

    /// Tells the job's starter how far it is.
    pub fn announce(&self, gathered: serde_json::Value) {
        self.say(&ToKeeper::Gathered(gathered));
    }

    /// Says that the job is up.
    pub fn job_is_up(&self) {
        self.say(&ToKeeper::JobIsUp);
    }

    /// Says that it still does. A keeper that is stopped does not hold the daemon up.
    pub fn alive(&self) {
        if let Err(error) = packets::send_if_room(self.0.as_fd(), &ToKeeper::Alive, &[]) {
            tracing::debug!(%error, "the keeper does not listen");
        }
    }

    /// Says that its view is gone and that it ends. The keeper need not wait for its last steps.
    pub fn leaves(&self) {
        self.say(&ToKeeper::Leaves);
    }

    /// Says why it will not.
    pub fn failed(&self, message: String) {
        self.say(&ToKeeper::Failed { message });
    }

    /// Waits in a thread of its own for the keeper's word, or for its death.
    pub fn until_told(&self) -> anyhow::Result<oneshot::Receiver<ExitReason>> {
        let (sender, told) = oneshot::channel();
        let link = Arc::clone(&self.0);
        let listen = move || {
            let word = loop {
                match packets::receive::<ToDaemon>(link.as_fd()) {
                    Ok(Some((ToDaemon::HandOver, _))) => break ExitReason::HandOver,
                    Ok(Some((ToDaemon::End, _))) => break ExitReason::End,
                    Ok(Some(_)) => {}
                    Ok(None) => break ExitReason::Orphaned,
                    Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                        tracing::warn!(%error, "the keeper sent an invalid message");
                    }
                    Err(error) => {
                        tracing::error!(%error, "the link to the keeper is broken");
                        break ExitReason::Orphaned;
                    }
                }
            };
            // If the daemon ends for another reason, no thread receives this.
            sender.send(word).ok();
        };
        std::thread::Builder::new().name("keeper".into()).spawn(listen).context("starting the link's thread")?;
        Ok(told)
    }

    fn say(&self, message: &ToKeeper) {
        if let Err(error) = packets::send(self.0.as_fd(), message, &[]) {
            tracing::debug!(%error, "the keeper is gone");
        }
    }
}
