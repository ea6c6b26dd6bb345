//! What a keeper holds while daemons come and go: the mount, the sockets with whoever waits in their queues, and the
//! memory of what the kernel was told.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

use anyhow::{Context, bail};
use forebay_fuse::{KeptRequests, Mount, MountOptions, Negotiated, agree, create_shared_memory, mount};

use crate::messages::Begin;
use crate::options::{KeeperOptions, session_options};
use crate::view_mount::{self, ViewMount};

/// The memory of inodes at first, bytes. The daemon doubles it when it is full.
const INODES_BYTES: usize = 1 << 20;

/// What outlives each daemon.
#[derive(Debug)]
pub struct Held {
    mount: Mount,
    connection: OwnedFd,
    negotiated: Negotiated,
    peers: TcpListener,
    control: UnixListener,
    inodes: OwnedFd,
    /// Only where the kernel does not send requests in flight again.
    requests: Option<OwnedFd>,
}

impl Held {
    /// Binds, mounts, and agrees with the kernel on how to talk, so that every daemon begins alike.
    ///
    /// # Errors
    /// What is in the way: the port, the socket, the mount point. Nothing is left mounted then.
    pub fn take(options: &KeeperOptions, listener: Option<TcpListener>) -> anyhow::Result<Self> {
        let peers = match listener {
            Some(inherited) => inherited,
            None => listen(options)?,
        };
        let control = listen_for_commands(options)?;
        let inodes = create_shared_memory("forebay-inodes", INODES_BYTES).context("no memory for inodes")?;
        let mount = mount(&options.view, &mount_options(options))?;
        let begun = || format!("starting the FUSE session of {}", options.view.display());
        let negotiated = agree(&mount.descriptor(), &session_options(options.readers, options.read_ahead_bytes))
            .with_context(begun)?;
        let connection = mount.descriptor().try_clone().with_context(begun)?;
        let is_sent_again = negotiated.can_resend() && options.resend;
        let keep = || KeptRequests::create(forebay_fuse::limits::KERNEL_REQUESTS_KEPT).with_context(begun);
        let requests = if is_sent_again { None } else { Some(keep()?) };
        Ok(Self { mount, connection, negotiated, peers, control, inodes, requests })
    }

    /// The port that peers connect to.
    ///
    /// # Errors
    /// Never, as far as is known: it listens.
    pub fn port(&self) -> std::io::Result<u16> {
        Ok(self.peers.local_addr()?.port())
    }

    /// What a daemon is told with the descriptors.
    pub fn begin(&self) -> Begin {
        Begin {
            view: self.mount.dir().to_owned(),
            device: self.mount.device(),
            how: self.mount.how().to_owned(),
            session: self.negotiated.into(),
        }
    }

    /// What programs are told of it that use it.
    pub fn view_mount(&self, options: &KeeperOptions) -> ViewMount {
        let source = mount_options(options).source;
        ViewMount { path: self.mount.dir().to_owned(), source, device: self.mount.device() }
    }

    /// The descriptors, in the order in which a daemon takes them.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let all = [self.connection.as_fd(), self.peers.as_fd(), self.control.as_fd(), self.inodes.as_fd()];
        all.into_iter().chain(self.requests.as_ref().map(AsFd::as_fd)).collect()
    }

    /// Takes the view away, if nobody has. Closing the connection then ends whatever still waits for an answer.
    pub fn unmount(self) {
        if let Err(error) = self.mount.unmount() {
            tracing::warn!(%error, "unmounting the view");
        }
    }
}

fn listen(options: &KeeperOptions) -> anyhow::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = options.ports.iter().map(|port| (options.bind, *port).into()).collect();
    TcpListener::bind(&addresses[..]).with_context(|| {
        let tried = addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
        format!("cannot listen on {tried}: another program may use the port; choose one with --port")
    })
}

/// The control socket; one that a dead node left is replaced.
fn listen_for_commands(options: &KeeperOptions) -> anyhow::Result<UnixListener> {
    let path = options.job_directory.join(format!("node-{}.sock", options.rank));
    if UnixStream::connect(&path).is_ok() {
        bail!("{} is in use: node {} of job {} runs already", path.display(), options.rank, options.job);
    }
    let _ = std::fs::remove_file(&path);
    let listener =
        UnixListener::bind(&path).with_context(|| format!("cannot make the control socket {}", path.display()))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
        .with_context(|| format!("cannot protect the control socket {}", path.display()))?;
    Ok(listener)
}

fn mount_options(options: &KeeperOptions) -> MountOptions {
    MountOptions {
        source: view_mount::source(&options.job, options.rank, std::process::id()),
        subtype: "forebay".to_owned(),
        read_only: true,
        allow_other: options.allow_other,
        default_permissions: true,
        read_ahead_bytes: options.read_ahead_bytes,
    }
}
