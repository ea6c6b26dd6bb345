//! A disk that can be broken and mended: an ext4 file system in an image, mounted through a loop device.
//!
//! Cut to nothing, the image has no bytes for the kernel, so that everything it does not have in its caches fails with
//! `EIO`, each time; no other fault of a real file system is as certain.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::UnmountFlags;
use tempfile::TempDir;

use crate::program::run;

/// Room for what is put on it, and for ext4's own.
const SIZE_BYTES: u64 = 32 << 20;

/// A disk, mounted read-only until dropped. It lies in no sandbox: a job's mounts are looked for there.
pub struct Disk {
    place: TempDir,
    whole: Vec<u8>,
}

impl Disk {
    /// A sound disk with what `build` puts into a directory.
    ///
    /// # Panics
    /// If it cannot be made or mounted.
    #[must_use]
    pub fn with(build: impl FnOnce(&Path)) -> Self {
        let place = tempfile::Builder::new().prefix("forebay-disk-").tempdir().expect("a temporary directory");
        let (built, image) = (place.path().join("built"), place.path().join("image"));
        std::fs::create_dir(&built).expect("a directory");
        build(&built);
        let file = std::fs::File::create_new(&image).expect("an image");
        file.set_len(SIZE_BYTES).expect("the image's size");
        let _ = run(Command::new("mkfs.ext4").args(["-q", "-O", "^has_journal", "-d"]).args([&built, &image])).good();
        let disk = Self { whole: std::fs::read(&image).expect("the image"), place };
        std::fs::create_dir(disk.root()).expect("a mount point");
        let _ = run(Command::new("mount").args(["-t", "ext4", "-o", "loop,ro"]).args([&image, &disk.root()])).good();
        disk
    }

    /// Where it is mounted, as the kernel names it.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.place.path().canonicalize().unwrap_or_else(|_| self.place.path().to_owned()).join("disk")
    }

    /// From now on it gives no bytes.
    ///
    /// # Panics
    /// If its image cannot be cut.
    pub fn break_down(&self) {
        let image = std::fs::File::options().write(true).open(self.image()).expect("the image");
        image.set_len(0).expect("an image of nothing");
    }

    /// From now on it gives the bytes that it gave before.
    ///
    /// # Panics
    /// If its image cannot be written.
    pub fn mend(&self) {
        std::fs::write(self.image(), &self.whole).expect("the image as it was");
    }

    fn image(&self) -> PathBuf {
        self.place.path().join("image")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The loop device goes with the last user of the mount.
        let _ = rustix::mount::unmount(self.root(), UnmountFlags::DETACH);
    }
}
