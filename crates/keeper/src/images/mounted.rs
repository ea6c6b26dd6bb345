//! An image of one file, mounted once for all programs of a node.
//!
//! The mount is in the node's namespace for programs, so no one else sees it, and it ends with the job. Its file is read
//! through the view, and served by squashfuse, which the keeper runs. The format with its five compressions is not ours to
//! read, and the kernel's own driver wants root and a loop device. The first program mounts, under the lock under which the
//! namespace was made. If a mount's server has died, the next program replaces the mount.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use forebay_fuse::{MountOptions, MountedAt};
use forebay_launch::JobDirectory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::find::Placed;
use super::squashfs;
use crate::own_paths::{self, Node};

/// Programs that serve a mounted SquashFS file, the faster first.
pub const SERVERS: [&str; 2] = ["squashfuse_ll", "squashfuse"];

/// The part of a server's complaint that is shown, bytes.
const COMPLAINT_BYTES_MAX: u64 = 2000;

/// How long a server that does not serve may take to say why.
const COMPLAINT_TIMEOUT: Duration = Duration::from_secs(1);

/// The root of the image in `placed`, mounted.
///
/// # Errors
/// When the file is broken, or nothing can serve it.
pub fn mounted(directory: &JobDirectory, node: &Node, image: &Path, placed: &Placed) -> anyhow::Result<Placed> {
    let version = placed.version();
    let (dir, source) = (directory.images().join(&version), format!("forebay-image:{version}"));
    if !is_served(&dir, &source)? {
        let _one = own_paths::lock(&directory.entrance_lock(node.rank))?;
        // Another process may have mounted it meanwhile.
        if !is_served(&dir, &source)? {
            mount(directory, node, image, placed, (&dir, source))?;
        }
    }
    Placed::at(dir).with_context(|| format!("cannot look at the mounted image {}", image.display()))
}

/// Whether the image is mounted at `dir`, and served. A mount without a server is taken away.
fn is_served(dir: &Path, source: &str) -> anyhow::Result<bool> {
    let failed = || format!("cannot look for a mount at {}", dir.display());
    let found = match MountedAt::find(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        found => found.with_context(failed)?,
    };
    let Some(found) = found.filter(|found| found.source == source) else { return Ok(false) };
    if forebay_fuse::is_stale(dir) {
        forebay_fuse::detach_mount(&found).with_context(failed)?;
        return Ok(false);
    }
    Ok(true)
}

fn mount(
    directory: &JobDirectory,
    node: &Node,
    image: &Path,
    placed: &Placed,
    (dir, source): (&Path, String),
) -> anyhow::Result<()> {
    let shown = image.display();
    let file = File::open(placed.path()).with_context(|| format!("cannot read the image {shown}"))?;
    squashfs::check(&file, image)?;
    let server = find_server().with_context(|| {
        format!(
            "the image {shown} is a SquashFS file, and there is no squashfuse on this node to serve it; install the \
             package squashfuse on every node, or unpack the image below an export (unsquashfs -d DIR {shown}) and \
             name the directory"
        )
    })?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .with_context(|| format!("cannot make the mount point {}", dir.display()))?;
    let options = MountOptions {
        source,
        subtype: "squashfuse".into(),
        // Files are their builder's, who has no number in the user's namespace: the kernel would refuse files that are not open to all.
        default_permissions: false,
        ..MountOptions::default()
    };
    let made = forebay_fuse::mount(dir, &options).with_context(|| format!("cannot mount the image {shown}"))?;
    let (complaints, complains) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).context("no pipe")?;
    let connection = made.descriptor();
    let handed = [connection.as_fd(), file.as_fd(), complains.as_fd()];
    own_paths::serve_image(&directory.entrance(node.rank), &server, handed)
        .with_context(|| format!("cannot start the server of the image {shown}"))?;
    // From here on the server's copies are the only ones, and its end is the end of both. The mount is for the programs that
    // come later, too, and goes with their namespace.
    drop((connection, complains));
    made.leave();
    // It answers once it serves, or when it has ended; and then has to find the root of the image.
    let Err(error) = fs::read_dir(dir) else { return Ok(()) };
    forebay_fuse::detach(dir).with_context(|| format!("no process serves the image {shown}, and it stays mounted"))?;
    let compression = squashfs::compression(&file);
    let said = complaint(complaints).unwrap_or_else(|| format!("{error}; the image may be broken"));
    bail!("{} does not serve the image {shown}, which is compressed by {compression}: {said}", server.display())
}

/// The complaint of a server that has ended, or ends because its mount is gone.
fn complaint(complaints: OwnedFd) -> Option<String> {
    let mut text = Vec::new();
    // Other programs' namespaces may have a copy of the mount, and then the server does not end.
    let timeout = Timespec { tv_sec: COMPLAINT_TIMEOUT.as_secs().cast_signed(), tv_nsec: 0 };
    let _ = poll(&mut [PollFd::new(&complaints, PollFlags::IN)], Some(&timeout));
    // An unreadable complaint counts as none.
    let _ = File::from(complaints).take(COMPLAINT_BYTES_MAX).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text).trim().replace('\n', "; ");
    (!text.is_empty()).then_some(text)
}

/// The server that is installed.
fn find_server() -> anyhow::Result<PathBuf> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&search).filter(|dir| dir.is_absolute()).collect();
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    SERVERS
        .iter()
        .flat_map(|name| directories.iter().map(move |dir| dir.join(name)))
        .find(is_program)
        .with_context(|| format!("neither {} is in PATH", SERVERS.join(" nor ")))
}
