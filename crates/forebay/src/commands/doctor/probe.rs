//! Trials of `doctor` in a process of their own: mounting as a daemon would, and as one in a user namespace would.
//! Others show the fate of requests in flight when a daemon dies.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use forebay_fuse::abi::MINOR_MIN;
use forebay_fuse::limits::KERNEL_READ_AHEAD_BYTES;
use forebay_fuse::{KeptRequests, Mount, MountOptions, Negotiated, agree};
use forebay_keeper::{device, own_paths, session_options};
use forebay_types::threads::KERNEL_READERS;
use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountPropagationFlags, mount_change};
use serde_json::json;

use crate::commands::doctor::protocol::Protocol;
use crate::output::say;

/// Tries it; says on standard output how it went.
pub fn run(what: &str) -> anyhow::Result<ExitCode> {
    match what {
        "view" => try_mount(false, |mount| {
            say!("{}", json!(Protocol::of(&agreed(mount)?)));
            Ok(())
        }),
        "namespaces" => try_mount(true, |_| Ok(())),
        "resend" => try_mount(false, sends_again),
        "keep" => KeptRequests::try_out().context("memory for them"),
        _ => bail!("there is no probe '{what}'"),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Whether the kernel can be asked for the requests of a daemon that died.
fn sends_again(mount: &Mount) -> anyhow::Result<()> {
    ensure!(agreed(mount)?.can_resend(), "this kernel does not resend requests");
    Ok(())
}

/// The terms of the kernel and a daemon, with the options that a daemon has unless it is told others.
fn agreed(mount: &Mount) -> anyhow::Result<Negotiated> {
    let options = session_options(KERNEL_READERS, KERNEL_READ_AHEAD_BYTES);
    agree(&mount.descriptor(), &options).with_context(|| {
        format!(
            "the kernel and a daemon do not agree on a protocol; views need FUSE 7.{} (Linux 5.4) or later",
            MINOR_MIN
        )
    })
}

/// A view on a directory of its own, gone at once after `look`.
fn try_mount(has_own_user: bool, look: impl FnOnce(&Mount) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let directory = Directory::make()?;
    if has_own_user {
        own_paths::make_user_namespace()?;
        hide_mounts().context("cannot make the mounts of the namespace private")?;
    } else if unshare(CloneFlags::CLONE_NEWNS).is_ok() {
        // Where a mount namespace is permitted, nobody else sees the trial.
        hide_mounts()?;
    }
    let (mount, how) = match has_own_user {
        true => (device::mount(&directory.0, &MountOptions::default())?, None),
        false => device::mount_or_go_home(&directory.0, &MountOptions::default())?,
    };
    say!("{}", how.map_or_else(|| mount.how().to_owned(), |at_home| at_home.note));
    let looked = look(&mount);
    mount.unmount()?;
    looked
}

fn hide_mounts() -> anyhow::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// A private directory that goes when this does.
struct Directory(PathBuf);

impl Directory {
    fn make() -> anyhow::Result<Self> {
        // Where jobs have theirs, which may be writable alone.
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
        let name = format!("forebay-doctor-{}", std::process::id());
        let paths = [Some(std::env::temp_dir()), runtime].into_iter().flatten().map(|base| base.join(&name));
        let mut failure = None;
        for path in paths {
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) => {
                    let why = || format!("cannot create {}", path.display());
                    failure = failure.or_else(|| Some(anyhow::Error::new(error).context(why())));
                }
            }
        }
        Err(failure.context("there is no temporary directory")?)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // In a user namespace or not, the directory is ours; should it stay, the next trial has another name.
        fs::remove_dir(&self.0).ok();
    }
}
