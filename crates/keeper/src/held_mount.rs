//! One mount of a node, as its keeper holds it: the connection, what was agreed with the kernel, and requests in flight.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use forebay_fuse::{KeptRequests, Mount, MountOptions, Negotiated, SessionOptions, agree};

use crate::device::{AtHome, IN_NAMESPACE, mount, mount_or_go_home};
use crate::messages::BegunMount;

/// A mount that outlives each daemon.
#[derive(Debug)]
pub struct HeldMount {
    mount: Mount,
    how: String,
    connection: OwnedFd,
    made_at_ms: u64,
    negotiated: Negotiated,
    /// Only where the kernel does not send requests in flight again.
    requests: Option<OwnedFd>,
}

impl HeldMount {
    /// Mounts, and agrees with the kernel on how to talk, so that every daemon begins alike. With `resend` the kernel is
    /// asked for the requests in flight, if it can be.
    ///
    /// # Errors
    /// The obstacle. The mount is undone then.
    pub fn take(dir: &Path, options: &MountOptions, session: &SessionOptions, resend: bool) -> anyhow::Result<Self> {
        Self::begin_on(mount(dir, options)?, session, resend)
    }

    /// The same; where this user may not mount, in namespaces of this process's own.
    ///
    /// # Errors
    /// As `take`; this process is then to be ended.
    pub fn take_or_go_home(
        dir: &Path,
        options: &MountOptions,
        session: &SessionOptions,
        resend: bool,
    ) -> anyhow::Result<(Self, Option<AtHome>)> {
        let (mount, at_home) = mount_or_go_home(dir, options)?;
        let mut held = Self::begin_on(mount, session, resend)?;
        if at_home.is_some() {
            held.how = IN_NAMESPACE.to_owned();
        }
        Ok((held, at_home))
    }

    fn begin_on(mount: Mount, session: &SessionOptions, resend: bool) -> anyhow::Result<Self> {
        let begun = || format!("starting the FUSE session of {}", mount.dir().display());
        let negotiated = agree(&mount.descriptor(), session).with_context(begun)?;
        let connection = mount.descriptor().try_clone().with_context(begun)?;
        let is_sent_again = negotiated.can_resend() && resend;
        let keep =
            || KeptRequests::create(forebay_fuse::limits::KERNEL_REQUESTS_KEPT, session.access).with_context(begun);
        let requests = if is_sent_again { None } else { Some(keep()?) };
        let made_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let made_at_ms = u64::try_from(made_at.as_millis()).unwrap_or(u64::MAX);
        let how = mount.how().to_owned();
        Ok(Self { mount, how, connection, made_at_ms, negotiated, requests })
    }

    /// The mount, as a daemon is told of it.
    pub fn begin(&self) -> BegunMount {
        BegunMount {
            path: self.mount.dir().to_owned(),
            device: self.mount.device(),
            how: self.how.clone(),
            made_at_ms: self.made_at_ms,
            session: self.negotiated.into(),
            keeps_requests: self.requests.is_some(),
        }
    }

    /// The descriptors that belong to that, in the order in which a daemon takes them.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.connection.as_fd()).chain(self.requests.as_ref().map(AsFd::as_fd))
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        self.mount.dir()
    }

    /// Major and minor device number of its files, where known.
    pub fn device(&self) -> Option<(u32, u32)> {
        self.mount.device()
    }

    /// Takes it away, if nobody has, and ends whatever still waits for an answer. To close the connection does not suffice: the kernel may
    /// hold a process that has it until such a request is answered.
    pub fn unmount(self) {
        let (dir, connection) = (self.mount.dir().to_owned(), self.mount.connection());
        if let Err(error) = self.mount.unmount() {
            tracing::warn!(dir = %dir.display(), %error, "unmounting");
        }
        connection.abort();
    }
}
