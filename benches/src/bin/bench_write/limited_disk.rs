//! A disk whose rate can be limited: an ext4 file system in memory, on a loop device of its own.
//!
//! The limit is one of the block layer for the device (control groups v1, `blkio.throttle.write_bps_device` of the root group), so it holds
//! for whoever writes, and for what the kernel writes back later.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use tempfile::TempDir;

const LIMIT: &str = "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device";

/// Mounted until dropped.
pub struct LimitedDisk {
    _place: TempDir,
    device: String,
    /// Of the device, as the block layer names it.
    number: String,
    at: PathBuf,
}

impl LimitedDisk {
    /// An empty one of so many bytes, mounted at `at`, a directory, and without a limit.
    pub fn new(bytes: u64, at: &Path) -> anyhow::Result<Self> {
        ensure!(
            Path::new(LIMIT).exists(),
            "{LIMIT} does not exist: this needs the blkio controller of control groups v1"
        );
        let place = TempDir::new_in("/dev/shm").context("cannot write to /dev/shm")?;
        let image = place.path().join("image");
        File::create_new(&image).and_then(|file| file.set_len(bytes)).context("cannot make an image in /dev/shm")?;
        let image = image.display().to_string();
        run("mkfs.ext4", &["-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", &image])?;
        let device = run("losetup", &["--find", "--show", &image])?;
        let name = Path::new(&device).file_name().context("losetup names no device")?.to_owned();
        let mut disk = Self { _place: place, device, number: String::new(), at: at.to_owned() };
        disk.number = fs::read_to_string(Path::new("/sys/block").join(name).join("dev"))?.trim().to_owned();
        run("mount", &[&disk.device, &disk.at.display().to_string()])?;
        // As a store is, and a directory that nothing has landed in.
        fs::remove_dir(disk.at.join("lost+found"))?;
        fs::set_permissions(&disk.at, fs::Permissions::from_mode(0o700))?;
        Ok(disk)
    }

    /// Bytes a second that may be written from now on; `None`: any.
    pub fn limit(&self, bytes_per_s: Option<u64>) -> anyhow::Result<()> {
        fs::write(LIMIT, format!("{} {}", self.number, bytes_per_s.unwrap_or(0))).context("the rate cannot be limited")
    }
}

impl Drop for LimitedDisk {
    fn drop(&mut self) {
        let _ = self.limit(None);
        for (program, argument) in [("umount", self.at.as_os_str()), ("losetup", self.device.as_ref())] {
            let detach = (program == "losetup").then_some("--detach");
            // It may not have come that far.
            let _ = Command::new(program).args(detach).arg(argument).output();
        }
    }
}

/// The standard output of a program.
fn run(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let ended = Command::new(program).args(arguments).output().with_context(|| format!("{program} cannot be run"))?;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "{program} {} ended with {}: {said}", arguments.join(" "), ended.status);
    Ok(String::from_utf8_lossy(&ended.stdout).trim().to_owned())
}
