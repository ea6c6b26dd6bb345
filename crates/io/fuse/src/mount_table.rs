//! The table of mounts, read from `/proc/self/mountinfo`.
//!
//! A mounted file system is never asked anything here: a mount whose daemon hangs or died must not hang or fail whoever
//! looks at the table. So the last component of a path is never resolved by `stat`.
//!
//! A path may lead to something else by the time it is used, where others may change a directory on it. A place that
//! must not be mistaken is opened first, and then found in the table by the number that the kernel gives its mount.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxAttributes, StatxFlags};

/// Links followed at the end of a path (the kernel's own limit).
const LINKS_MAX: usize = 40;

/// One line of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountedAt {
    /// The kernel's number for it.
    pub id: u64,
    /// The mount that it was made on; one that is not in the table for the outermost.
    pub parent: u64,
    /// Where.
    pub dir: PathBuf,
    /// Whether all of the file system is seen there, not a directory of it.
    pub is_whole: bool,
    /// The type, with its subtype: `fuse.forebay`.
    pub file_system: String,
    /// The source that it names.
    pub source: String,
    /// Major and minor device number: `st_dev` of its files, and its name in `/sys/class/bdi`.
    pub device: (u32, u32),
    /// Whether nothing can be changed through it, whoever tries.
    pub is_read_only: bool,
    /// The user whose it is, where it is a FUSE mount; the kernel tells it, whoever chose the source.
    pub user: Option<u32>,
}

impl MountedAt {
    /// Whether it is a FUSE mount of any kind.
    #[must_use]
    pub fn is_fuse(&self) -> bool {
        self.file_system == "fuse" || self.file_system == "fuseblk" || self.file_system.starts_with("fuse.")
    }

    /// All mounts, in the order they were made; of several at one place the last is the one in view.
    ///
    /// # Errors
    /// The error of reading `/proc/self/mountinfo`.
    pub fn all() -> io::Result<Vec<Self>> {
        Ok(fs::read("/proc/self/mountinfo")?.split(|byte| *byte == b'\n').filter_map(Self::parse).collect())
    }

    /// The mount whose root is seen at `dir`; `None` when `dir` is no mount point.
    ///
    /// # Errors
    /// The error of resolving the path or reading the table.
    pub fn find(dir: &Path) -> io::Result<Option<Self>> {
        let dir = resolve(dir)?;
        if root_of_mount(&dir).is_ok_and(|root| root == Root::No) {
            return Ok(None);
        }
        Ok(Self::all()?.into_iter().rfind(|mounted| mounted.dir == dir))
    }

    /// The mount that an open file or directory is in; `None` when it is not seen from here, as one of another mount namespace.
    ///
    /// # Errors
    /// The error of reading `/proc`.
    pub fn of(open: impl AsFd) -> io::Result<Option<Self>> {
        let text = fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", open.as_fd().as_raw_fd()))?;
        let number = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse::<u64>().ok());
        let Some(id) = number else {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the kernel does not tell the mount of a descriptor",
            ));
        };
        Ok(Self::all()?.into_iter().find(|mounted| mounted.id == id))
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let mut number = || std::str::from_utf8(fields.next()?).ok();
        let (id, parent) = (number()?.parse().ok()?, number()?.parse().ok()?);
        let (major, minor) = number()?.split_once(':')?;
        let device = (major.parse().ok()?, minor.parse().ok()?);
        let is_whole = fields.next()? == b"/";
        let dir = PathBuf::from(OsString::from_vec(unescape(fields.next()?)));
        let says_read_only = |options: &[u8]| options.split(|byte| *byte == b',').any(|option| option == b"ro");
        let mount_is_read_only = says_read_only(fields.next()?);
        // Optional fields end with a lone hyphen.
        let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
        let mut text = || fields.next().map(|field| String::from_utf8_lossy(&unescape(field)).into_owned());
        let (file_system, source) = (text()?, text()?);
        let options = fields.next().unwrap_or_default();
        let is_read_only = mount_is_read_only || says_read_only(options);
        let user = options.split(|byte| *byte == b',').find_map(|option| option.strip_prefix(b"user_id="));
        let user = user.and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
        Some(Self { id, parent, dir, is_whole, file_system, source, device, is_read_only, user })
    }
}

/// The kernel's answer for a path, without its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Root {
    /// No mount's root.
    No,
    /// The root of a mount of this device.
    Of((u32, u32)),
    /// Linux before 5.8 does not tell.
    Untold,
}

/// Whether a mount's root is seen at `dir`. A host may have hundreds of mounts, and the kernel writes a line for each of them whenever
/// the table is read.
fn root_of_mount(dir: &Path) -> io::Result<Root> {
    // The daemon, which may not serve it yet or any more, is asked nothing.
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT | AtFlags::SYMLINK_NOFOLLOW;
    let found = rustix::fs::statx(CWD, dir, flags, StatxFlags::empty())?;
    let tells = found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
    Ok(match found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        _ if !tells => Root::Untold,
        true => Root::Of((found.stx_dev_major, found.stx_dev_minor)),
        false => Root::No,
    })
}

/// The device of the mount whose root is seen at `dir`, which is one that nobody but this process serves; `None` when it is no mount
/// point.
pub(crate) fn device_of_own(dir: &Path) -> io::Result<Option<(u32, u32)>> {
    match root_of_mount(dir)? {
        Root::No => Ok(None),
        Root::Of(device) => Ok(Some(device)),
        Root::Untold => Ok(MountedAt::find(dir)?.map(|mounted| mounted.device)),
    }
}

/// Whether something is mounted at `dir`; false when that cannot be told.
#[must_use]
pub fn is_mount_point(dir: &Path) -> bool {
    mounted_type(dir).is_some()
}

/// The type of what is mounted at `dir`, with its subtype; `None` when nothing is, or that cannot be told.
#[must_use]
pub fn mounted_type(dir: &Path) -> Option<String> {
    MountedAt::find(dir).ok().flatten().map(|mounted| mounted.file_system)
}

/// Opens the directory at `dir`, as a place and not for reading, without asking what is mounted there. The last component is
/// no link.
///
/// # Errors
/// The error of `open(2)`.
pub fn open_place(dir: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(dir, flags, Mode::empty())?)
}

/// The absolute path of `dir` without links, resolved without asking what is mounted there. The last component need not exist.
///
/// # Errors
/// The error of resolving; `NotFound` without a parent.
pub fn resolve(dir: &Path) -> io::Result<PathBuf> {
    let mut path = std::path::absolute(dir)?;
    for _ in 0..LINKS_MAX {
        let (Some(parent), Some(Component::Normal(name))) = (path.parent(), path.components().next_back()) else {
            return path.canonicalize();
        };
        let parent = parent.canonicalize()?;
        let here = parent.join(name);
        // EINVAL: not a link, which the kernel tells without asking a FUSE daemon. Any other failure is for whoever
        // uses the path.
        match fs::read_link(&here) {
            Ok(target) => path = parent.join(target),
            Err(_) => return Ok(here),
        }
    }
    Err(io::Error::from_raw_os_error(rustix::io::Errno::LOOP.raw_os_error()))
}

/// Undoes the table's octal escapes (`\040` is a blank).
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        match (first, after) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_line_with_escapes_and_optional_fields_is_read() {
        let line =
            br"36 35 98:7 /mnt1 /a\040b\134c\012 rw,noatime master:1 shared:7 - fuse.forebay job\0401 rw,user_id=17";
        let mounted = MountedAt::parse(line).unwrap();
        assert_eq!(mounted.dir.as_os_str().as_bytes(), b"/a b\\c\n");
        assert_eq!((mounted.file_system.as_str(), mounted.source.as_str()), ("fuse.forebay", "job 1"));
        assert_eq!((mounted.id, mounted.parent, mounted.device), (36, 35, (98, 7)));
        assert!(mounted.is_fuse() && !mounted.is_read_only && !mounted.is_whole);
        assert_eq!(mounted.user, Some(17));
    }

    #[test]
    fn a_mount_or_its_file_system_may_be_read_only() {
        for (mount, file_system, read_only) in
            [("rw", "rw", false), ("ro,nodev", "rw", true), ("rw", "rw,errors=ro,ro", true)]
        {
            let line = format!("36 35 98:7 / /x {mount} shared:1 - ext4 /dev/x {file_system}");
            assert_eq!(MountedAt::parse(line.as_bytes()).unwrap().is_read_only, read_only, "{line}");
        }
    }

    #[test]
    fn lines_cut_short_are_skipped() {
        for line in [&b""[..], b"36", b"36 35 98 / /x rw - ext4 x rw", b"36 35 98:0 / /x rw ext4 x rw"] {
            assert_eq!(MountedAt::parse(line), None);
        }
    }

    #[test]
    fn proc_is_mounted_and_its_status_file_is_no_mount_point() {
        assert_eq!(mounted_type(Path::new("/proc")).as_deref(), Some("proc"));
        assert!(!is_mount_point(Path::new("/proc/self/status")));
    }

    #[test]
    fn an_open_file_tells_its_mount() {
        let of = |path: &str| MountedAt::of(open_place(Path::new(path)).unwrap()).unwrap().unwrap();
        assert_eq!(of("/proc/1").file_system, "proc");
        assert_eq!(Some(of("/proc")), MountedAt::find(Path::new("/proc")).unwrap());
        assert!(open_place(Path::new("/proc/self/status")).is_err());
    }

    #[test]
    fn a_link_to_a_mount_point_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/proc", dir.path().join("link")).unwrap();
        assert_eq!(resolve(&dir.path().join("link")).unwrap(), Path::new("/proc"));
        std::os::unix::fs::symlink("loop", dir.path().join("loop")).unwrap();
        assert!(resolve(&dir.path().join("loop")).is_err());
    }
}
