//! What `doctor` tries in a process of its own: mounting as a daemon would, and as one in a user namespace would.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::output::say;
use anyhow::{Context, bail};
use forebay_fuse::MountOptions;
use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{getegid, geteuid};

/// Tries it; says on standard output how it went.
pub fn run(what: &str) -> anyhow::Result<ExitCode> {
    match what {
        "view" => try_mount(None),
        "namespaces" => try_mount(Some(CloneFlags::CLONE_NEWUSER)),
        _ => bail!("nothing is called '{what}' here"),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// A view on a directory of its own, gone at once.
fn try_mount(namespace: Option<CloneFlags>) -> anyhow::Result<()> {
    let directory = Directory::make()?;
    match namespace {
        Some(namespace) => {
            enter_user_namespace(namespace)?;
            hide_mounts().context("mounts of the namespace cannot be kept in it")?;
        }
        // Where a mount namespace is permitted, nobody else sees the trial.
        None if unshare(CloneFlags::CLONE_NEWNS).is_ok() => hide_mounts()?,
        None => {}
    }
    let mount = forebay_fuse::mount(&directory.0, &MountOptions::default())?;
    say!("{}", mount.how());
    mount.unmount()?;
    Ok(())
}

fn hide_mounts() -> anyhow::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

fn enter_user_namespace(namespace: CloneFlags) -> anyhow::Result<()> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    unshare(namespace | CloneFlags::CLONE_NEWNS).context("the kernel refuses one")?;
    for (file, text) in
        [("setgroups", "deny".to_owned()), ("uid_map", format!("{uid} {uid} 1")), ("gid_map", format!("{gid} {gid} 1"))]
    {
        let path = Path::new("/proc/self").join(file);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A private directory that goes when this does.
struct Directory(PathBuf);

impl Directory {
    fn make() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("forebay-doctor-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // In a user namespace or not, the directory is ours; should it stay, the next trial has another name.
        fs::remove_dir(&self.0).ok();
    }
}
