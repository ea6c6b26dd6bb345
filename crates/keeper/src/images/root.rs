//! The root of a container: the image, and over it what of the host is bound.
//!
//! It is put together on a file system in memory that lies over the job's directory, in a namespace that only this process is in.
//! An image cannot be written to, so where it has no place for what is bound, the directory that lacks it is replaced by one in
//! memory, in which all that it has is bound again, and the place beside it. When all is in its place the memory is made
//! read-only, and the image becomes the root (`pivot_root(2)`).
//!
//! Places are found as the container sees them: links of the image lead within the image.

use std::fs::{self, DirBuilder};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, ensure};
use rustix::fs::{
    CWD, Dir, DirEntry, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, mkdirat, openat, openat2, readlinkat,
    statat, symlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_remount, move_mount, unmount,
};
use rustix::process::{chdir, pivot_root};

use super::bind::{Taken, take, take_at};

/// The most entries of a directory that is put together again: each is a mount.
const ENTRIES_MAX: usize = 1024;

/// How often a place may be dropped while something is mounted there; once is rare.
const DROPPED_MAX: usize = 16;

/// The memory that names and the accounts may take. It holds no contents of files.
const STAGING_OPTIONS: &std::ffi::CStr = c"mode=0755,size=4m";

/// A root that is being put together.
#[derive(Debug)]
pub struct Root {
    staging: PathBuf,
    /// The uppermost mount at the image's place.
    top: OwnedFd,
    image_device: u64,
    staging_device: u64,
    directories_made: usize,
}

impl Root {
    /// Begins with `image`, taken. `place` is a directory that nothing in this namespace needs by its path any more.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn begin(place: &Path, image: &OwnedFd) -> anyhow::Result<Self> {
        let failed = || format!("cannot mount over {}", place.display());
        mount("forebay-image", place, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, STAGING_OPTIONS)
            .with_context(failed)?;
        let root = place.join("root");
        make_dir(&root)?;
        put(image, &open_dir(&root)?).context("cannot show the image")?;
        let device = |path: &Path| Ok::<_, anyhow::Error>(fstat(open_dir(path)?)?.st_dev);
        let (staging_device, image_device) = (device(place)?, device(&root)?);
        Ok(Self { top: open_dir(&root)?, staging: place.to_owned(), image_device, staging_device, directories_made: 0 })
    }

    /// Puts what was taken into its place.
    ///
    /// # Errors
    /// When it has none and none can be made.
    pub fn bind(&mut self, taken: &Taken) -> anyhow::Result<()> {
        let target = taken.target.display();
        let place = match self.look(&taken.target) {
            Ok(place) => place,
            Err(Errno::NOENT) if !taken.makes_place => return Ok(()),
            Err(Errno::NOENT) => self.make_place(&taken.target, taken.is_dir())?,
            Err(errno) => return Err(errno).with_context(|| format!("cannot look at {target} in the image")),
        };
        let found = fstat(&place)?;
        let is_there = (found.st_dev, found.st_ino) == (taken.stat.st_dev, taken.stat.st_ino);
        if is_there && taken.target.parent().is_some() {
            return Ok(());
        }
        ensure!(
            (kind(&found) == FileType::Directory) == taken.is_dir(),
            "cannot bind at {target}: a directory fits on a directory only, and a file on a file"
        );
        ensure!(taken.target.parent().is_some(), "cannot bind at /: that is the image's");
        self.put_at(&taken.tree, place, &taken.target).with_context(|| format!("cannot bind at {target}"))
    }

    /// Puts a file of this text at `at`, if the image has such a file.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn put_file(&mut self, name: &str, at: &Path, text: &str) -> anyhow::Result<()> {
        let Ok(place) = self.look(at) else { return Ok(()) };
        if kind(&fstat(&place)?) != FileType::RegularFile {
            return Ok(());
        }
        let path = self.staging.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        self.put_at(&take(&path)?, place, at).with_context(|| format!("cannot bind at {}", at.display()))
    }

    /// Becomes the root of this process, and nothing of the old one is left but what is bound.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enter(self) -> anyhow::Result<()> {
        // Binds from the memory keep it. It takes no change any more, by whatever mount.
        mount_remount(&self.staging, MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV, c"")
            .context("the container's root cannot be made read-only")?;
        rustix::process::fchdir(&self.top).context("cannot enter the image")?;
        pivot_root(".", ".").context("the image cannot become the root")?;
        // The old root lies over the new one.
        unmount(".", UnmountFlags::DETACH).context("the old root cannot be unmounted")?;
        chdir("/").context("cannot enter the image's root")
    }

    /// Mounts at `place`, which was found at `path`.
    ///
    /// If several enter a new image at once, some find that the place has gone meanwhile (ENOENT; seen on Linux 6.18, 2 of 2 runs of 16
    /// ranks). A cause that fits, which was not traced: a name on FUSE gets its age after others can find it (`fuse_lookup`, `d_time`,
    /// since Linux 6.16), and a lookup in between drops it as too old. It is found again by its path.
    fn put_at(&self, tree: &OwnedFd, place: OwnedFd, path: &Path) -> Result<(), Errno> {
        let first = put(tree, &place);
        let again = |done, _| match done {
            Err(Errno::NOENT) => self.look(path).and_then(|place| put(tree, &place)),
            done => done,
        };
        (0..DROPPED_MAX).fold(first, again)
    }

    /// The file at a path of the container.
    fn look(&self, path: &Path) -> Result<OwnedFd, Errno> {
        openat2(&self.top, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)
    }

    /// Makes a place for what is bound at `path`, which is not there.
    fn make_place(&mut self, path: &Path, is_dir: bool) -> anyhow::Result<OwnedFd> {
        let shown = path.display();
        let names = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        ensure!(names && path.is_absolute(), "cannot bind at {shown}: give an absolute path without ..");
        let nearest = path.ancestors().skip(1).find_map(|dir| self.look(dir).ok().map(|found| (dir, found)));
        let (dir, found) = nearest.with_context(|| format!("cannot look at the image for {shown}"))?;
        let stat = fstat(&found)?;
        let lacks = |why: &str| format!("the image has no {shown}, and none can be made: {} {why}", dir.display());
        ensure!(kind(&stat) == FileType::Directory, lacks("is no directory"));
        let base = if stat.st_dev == self.staging_device {
            found
        } else {
            ensure!(stat.st_dev == self.image_device, lacks("is the host's; make it there"));
            self.make_again(dir, &found).with_context(|| lacks("cannot be made again around it"))?
        };
        let below: Vec<&std::ffi::OsStr> = path.strip_prefix(dir).unwrap_or(path).iter().collect();
        let mut base = base;
        for (index, name) in below.iter().enumerate() {
            let is_last = index + 1 == below.len();
            base = if is_dir || !is_last {
                mkdirat(&base, *name, Mode::from(0o755)).and_then(|()| openat(&base, *name, PATH_DIR, Mode::empty()))
            } else {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDONLY | OFlags::CLOEXEC;
                openat(&base, *name, flags, Mode::from(0o644))
            }
            .with_context(|| lacks("has a link there that leads nowhere"))?;
        }
        Ok(base)
    }

    /// Puts a directory in memory over `dir` that has all that it has. Its descriptor.
    fn make_again(&mut self, dir: &Path, found: &OwnedFd) -> anyhow::Result<OwnedFd> {
        let path = self.staging.join(format!("dir{}", self.directories_made));
        self.directories_made += 1;
        make_dir(&path)?;
        let made = open_dir(&path)?;
        let readable = openat2(&self.top, dir, READ_DIR, Mode::empty(), ResolveFlags::IN_ROOT)?;
        let mut entries = 0;
        for entry in Dir::read_from(&readable)? {
            let entry = entry?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            entries += 1;
            ensure!(entries <= ENTRIES_MAX, "it has more than {ENTRIES_MAX} entries; make the place in the image");
            again(&entry, found.as_fd(), &made)?;
        }
        self.put_at(&take(&path)?, found.try_clone()?, dir)?;
        if dir.parent().is_none() {
            self.top = open_dir(&self.staging.join("root"))?;
        }
        // By its path again: below another directory in memory it is a copy of the mount.
        Ok(self.look(dir)?)
    }
}

const PATH_DIR: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const READ_DIR: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// An entry of a directory, in the one that is made again.
fn again(entry: &DirEntry, from: BorrowedFd<'_>, to: &OwnedFd) -> anyhow::Result<()> {
    let name = Path::new(std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()));
    let kind = match entry.file_type() {
        FileType::Unknown => kind(&statat(from, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?),
        kind => kind,
    };
    match kind {
        FileType::Symlink => return Ok(symlinkat(readlinkat(from, name, Vec::new())?, to, name)?),
        FileType::Directory => mkdirat(to, name, Mode::from(0o755))?,
        _ => drop(openat(to, name, OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, Mode::from(0o644))?),
    }
    let tree = take_at(from, name, OpenTreeFlags::AT_SYMLINK_NOFOLLOW)?;
    Ok(move_mount(&tree, "", to, name, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn make_dir(path: &Path) -> anyhow::Result<()> {
    DirBuilder::new().mode(0o755).create(path).with_context(|| format!("cannot make {}", path.display()))
}

/// The directory at a path, of the uppermost mount.
fn open_dir(path: &Path) -> anyhow::Result<OwnedFd> {
    let opened = openat(CWD, path, PATH_DIR, Mode::empty());
    opened.with_context(|| format!("cannot look at {}", path.display()))
}

/// Mounts a tree at a place.
fn put(tree: &OwnedFd, place: &OwnedFd) -> Result<(), Errno> {
    let how = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", place, "", how)
}
