//! The state that a keeper holds while daemons come and go: mounts, sockets with queued connections, and the memory of what the
//! kernel was told.

use std::fs::{File, Permissions};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

use anyhow::{Context, bail};
use forebay_fuse::{MountOptions, create_shared_memory};
use forebay_launch::CLOSED_MODE;

use crate::device::AtHome;
use crate::held_mount::HeldMount;
use crate::messages::Begin;
use crate::options::{BurstPaths, KeeperOptions, burst_session_options, session_options};
use crate::own_paths::{BurstPlaces, Home, Node, Place};
use crate::view_mount::{self, ViewMount};

/// The memory of inodes at first, bytes. The daemon doubles it when it is full.
const INODES_BYTES: usize = 1 << 20;

/// The memory of the end of the kernel's leases, bytes.
const BELIEFS_BYTES: usize = 8;

/// The state that outlives each daemon.
#[derive(Debug)]
pub struct Held {
    view: HeldMount,
    burst: Option<HeldMount>,
    peers: TcpListener,
    control: UnixListener,
    inodes: OwnedFd,
    kernel_leases: OwnedFd,
}

impl Held {
    /// Binds and mounts; where this user may not mount, in namespaces of this process's own.
    ///
    /// # Errors
    /// The port, the socket or the mount point that is in the way. Mounts made before are undone then.
    pub fn take(options: &KeeperOptions, listener: Option<TcpListener>) -> anyhow::Result<(Self, Option<AtHome>)> {
        let peers = match listener {
            Some(inherited) => inherited,
            None => listen(options)?,
        };
        let control = listen_for_commands(options)?;
        let inodes = create_shared_memory("forebay-inodes", INODES_BYTES).context("no memory for inodes")?;
        let kernel_leases = create_shared_memory("forebay-beliefs", BELIEFS_BYTES).context("no memory for leases")?;
        let session = session_options(options.readers, options.read_ahead_bytes);
        let (view, at_home) =
            HeldMount::take_or_go_home(&options.view, &mount_options(options), &session, options.resend)?;
        match options.burst.as_ref().map(|burst| take_burst(burst, options)).transpose() {
            Ok(burst) => Ok((Self { view, burst, peers, control, inodes, kernel_leases }, at_home)),
            Err(error) => {
                view.unmount();
                Err(error)
            }
        }
    }

    /// The port that peers connect to.
    ///
    /// # Errors
    /// Never, as far as is known: it listens.
    pub fn port(&self) -> std::io::Result<u16> {
        Ok(self.peers.local_addr()?.port())
    }

    /// The message to a daemon beside the descriptors.
    pub fn begin(&self) -> Begin {
        Begin { view: self.view.begin(), burst: self.burst.as_ref().map(HeldMount::begin) }
    }

    /// The view, as programs that use it are told of it.
    pub fn view_mount(&self, options: &KeeperOptions) -> ViewMount {
        let source = mount_options(options).source;
        ViewMount { path: self.view.dir().to_owned(), source, device: self.view.device() }
    }

    /// The same of the burst mount, if there is one.
    pub fn burst_places(&self, options: &KeeperOptions) -> Option<BurstPlaces> {
        let (held, paths) = (self.burst.as_ref()?, options.burst.as_ref()?);
        let source = mount_options(options).source;
        let mount = ViewMount { path: held.dir().to_owned(), source, device: held.device() };
        let (dir, backing) = (paths.dir.clone(), paths.backing.clone());
        Some(BurstPlaces { mount, dir, backing, is_shared: paths.is_shared })
    }

    /// The node, as programs are told that want to see the exports at their own paths.
    ///
    /// # Errors
    /// Without `/proc`.
    pub fn node(&self, options: &KeeperOptions, home: Option<&Home>) -> anyhow::Result<Node> {
        Ok(Node {
            rank: options.rank,
            host: options.address.host.clone(),
            view: self.view_mount(options),
            burst: self.burst_places(options).map(Box::new),
            exports: options.exports.clone(),
            links_lead_into_view: options.links_lead_into_view,
            place: Place::of_this().context("cannot determine the namespaces of this process")?,
            outside: home.map(|home| home.outside),
        })
    }

    /// The descriptors, in the order in which a daemon takes them.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mounts = std::iter::once(&self.view).chain(&self.burst).flat_map(HeldMount::descriptors);
        [self.peers.as_fd(), self.control.as_fd(), self.inodes.as_fd(), self.kernel_leases.as_fd()]
            .into_iter()
            .chain(mounts)
            .collect()
    }

    /// Takes the mounts away, if nobody has.
    pub fn unmount(self) {
        self.burst.into_iter().chain([self.view]).for_each(HeldMount::unmount);
    }
}

/// The burst mount, which programs write to.
fn take_burst(burst: &BurstPaths, options: &KeeperOptions) -> anyhow::Result<HeldMount> {
    let mount = MountOptions {
        read_only: false,
        // Otherwise there is one user, for whom the daemon checks.
        default_permissions: options.allow_other,
        ..mount_options(options)
    };
    // The directories themselves, not the tree that is mounted there afterwards. Before, fusermount wants to write there.
    let made: Vec<File> = burst.closed.iter().filter_map(|directory| File::open(directory).ok()).collect();
    let held = HeldMount::take(&burst.mount, &mount, &burst_session_options(options.readers), options.resend)?;
    for directory in made {
        if let Err(error) = directory.set_permissions(Permissions::from_mode(CLOSED_MODE)) {
            tracing::debug!(%error, "programs can write beside the burst mount");
        }
    }
    Ok(held)
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
