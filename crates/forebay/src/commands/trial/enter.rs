//! Processes of a trial: one becomes the command with its node's mount at the tree's path, one reads files where there is nothing else to
//! run.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};
use forebay_keeper::own_paths;
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{MountFlags, MountPropagationFlags, mount_bind, mount_change, mount_remount};

use crate::exit;
use crate::output::tell;

/// Files that are read: about as many as a start-up of Python has.
const FILES_MOST: usize = 300;

/// Their bytes: a second of the model's link for four nodes.
const BYTES_MOST: u64 = 32 << 20;

/// Becomes `command` with `source` at the path of `tree`, for this process alone, after a line has come on standard input.
///
/// # Errors
/// Where no namespace can be made, or nothing be mounted in it.
pub fn run(source: &Path, tree: &Path, command: &[OsString]) -> anyhow::Result<ExitCode> {
    let here = std::env::current_dir();
    if unshare(CloneFlags::CLONE_NEWNS).is_err() {
        own_paths::make_user_namespace()
            .context("forebay try shows the tree at its own path, and cannot without a namespace")?;
    }
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .context("cannot make the mounts private")?;
    mount_bind(source, tree).with_context(|| format!("cannot show {} at {}", source.display(), tree.display()))?;
    make_read_only(tree).with_context(|| format!("cannot keep {} from being changed", tree.display()))?;
    // A directory that was entered before is the one below the mount.
    if let Ok(here) = here {
        std::env::set_current_dir(&here).with_context(|| format!("cannot return to {}", here.display()))?;
    }
    let (name, arguments) = command.split_first().context("a command has a name")?;
    println!("ready");
    std::io::stdout().flush()?;
    let mut line = String::new();
    ensure!(std::io::stdin().read_line(&mut line)? > 0, "the trial has ended");
    let nothing = || File::options().read(true).write(true).open("/dev/null");
    let error = Command::new(name).args(arguments).stdin(nothing()?).stdout(nothing()?).exec();
    tell!("{}: {error}", name.to_string_lossy());
    Ok(ExitCode::from(if error.kind() == ErrorKind::NotFound { exit::NOT_FOUND } else { exit::NOT_RUN }))
}

/// Keeps all that is seen at `tree` from being changed. In a user namespace its other flags have to stay.
fn make_read_only(tree: &Path) -> anyhow::Result<()> {
    use StatVfsMountFlags as Has;
    let has = statvfs(tree)?.f_flag;
    let kept = [
        (Has::NOSUID, MountFlags::NOSUID),
        (Has::NODEV, MountFlags::NODEV),
        (Has::NOEXEC, MountFlags::NOEXEC),
        (Has::NOATIME, MountFlags::NOATIME),
        (Has::NODIRATIME, MountFlags::NODIRATIME),
        (Has::RELATIME, MountFlags::RELATIME),
    ];
    let kept = kept.into_iter().filter(|(flag, _)| has.contains(*flag)).map(|(_, flag)| flag);
    let flags = kept.fold(MountFlags::BIND | MountFlags::RDONLY, |flags, flag| flags | flag);
    Ok(mount_remount(tree, flags, c"")?)
}

/// Reads files below `directory`, the same in each process.
///
/// # Errors
/// When nothing there can be read.
pub fn read(directory: &Path) -> anyhow::Result<ExitCode> {
    let (mut files, mut bytes) = (0, 0);
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        if files == FILES_MOST || bytes >= BYTES_MOST {
            break;
        }
        let Ok(kind) = fs::symlink_metadata(&path).map(|found| found.file_type()) else { continue };
        if kind.is_dir() {
            left.extend(names(&path));
        } else if let Some(contents) = kind.is_file().then(|| fs::read(&path).ok()).flatten() {
            files += 1;
            bytes += contents.len() as u64;
        }
    }
    ensure!(files > 0, "no file below {} can be read", directory.display());
    Ok(ExitCode::SUCCESS)
}

/// The entries of a directory, the last one first.
fn names(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable_by(|a, b| b.cmp(a));
    paths
}
