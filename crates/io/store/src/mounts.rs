//! The table of mounts, and those that are never shown.
//!
//! Kernel pseudo file systems make no sense on another node, and a view shown inside a view would ask itself. Both are
//! recognised by their mount point before anything on them is touched: the `statx` of a view's root would be answered
//! by the very daemon that makes it, and that of a dead one fails. A second look, at the device number of what
//! `statx` found, catches what was mounted between the two. The kernel tells when the table has changed; it is read
//! again only then.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Seek};
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_types::{Errno, ViewPath};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::stat::Device;

/// File system types that never appear: they show one kernel's state, not files. `autofs` is among them because asking
/// about a name on it would mount something; what it has mounted is served when exported by its own path.
const HIDDEN_TYPES: &[&str] = &[
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "cpuset",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fuse.forebay",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nfsd",
    "nsfs",
    "proc",
    "pstore",
    "resctrl",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "smackfs",
    "sysfs",
    "tracefs",
];

/// The table of the mount namespace of the thread that opened it: the one the exports were found in.
const MOUNTINFO: &str = "/proc/thread-self/mountinfo";

pub(crate) struct Mounts {
    hidden: Vec<ViewPath>,
    watched: Mutex<Watched>,
}

struct Watched {
    file: File,
    table: Arc<Table>,
}

impl Mounts {
    /// Opens the kernel's table; `hidden` are paths that are never shown whatever is mounted there.
    pub(crate) fn open(hidden: Vec<ViewPath>) -> Result<Self, Errno> {
        let mut file = File::open(MOUNTINFO).map_err(|error| Errno::of(&error))?;
        let table = Arc::new(read_table(&mut file, &hidden)?);
        Ok(Self { hidden, watched: Mutex::new(Watched { file, table }) })
    }

    /// The table as it is now. The lock is held while the kernel copies its own memory, never for a file system.
    pub(crate) fn table(&self) -> Result<Arc<Table>, Errno> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if has_changed(&watched.file)? {
            watched.table = Arc::new(read_table(&mut watched.file, &self.hidden)?);
        }
        Ok(Arc::clone(&watched.table))
    }
}

fn has_changed(file: &File) -> Result<bool, Errno> {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut watched = [PollFd::new(file, PollFlags::PRI)];
    match rustix::io::retry_on_intr(|| poll(&mut watched, Some(&at_once))) {
        Ok(_) => Ok(watched[0].revents().intersects(PollFlags::PRI | PollFlags::ERR)),
        Err(error) => Err(crate::calls::errno(error)),
    }
}

fn read_table(file: &mut File, hidden: &[ViewPath]) -> Result<Table, Errno> {
    let mut text = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut text)).map_err(|error| Errno::of(&error))?;
    Ok(Table::new(&text, hidden))
}

/// The mounts that can be reached, by where they are.
pub(crate) struct Table {
    points: BTreeMap<Box<[u8]>, Point>,
    types: HashMap<Device, String>,
}

#[derive(Clone, Copy)]
struct Point {
    /// `None` for a hidden path that is no mount point.
    device: Option<Device>,
    is_hidden: bool,
}

impl Table {
    fn new(text: &[u8], hidden: &[ViewPath]) -> Self {
        let mounts: Vec<Mount> = text.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect();
        let tree = Tree::new(&mounts);
        let mut points = BTreeMap::new();
        for mount in mounts.iter().filter(|mount| tree.top_at(&mount.point) == Some(mount.id)) {
            let point = Point { device: Some(mount.device), is_hidden: is_never_served(&mount.file_system) };
            points.insert(mount.point.clone(), point);
        }
        for path in hidden {
            let device = points.get(path.as_bytes()).and_then(|point| point.device);
            points.insert(path.as_bytes().into(), Point { device, is_hidden: true });
        }
        let types = mounts.into_iter().map(|mount| (mount.device, mount.file_system)).collect();
        Self { points, types }
    }

    /// The type of the file system on `device`; `None` where the kernel lists no such device (subvolumes).
    pub(crate) fn type_of(&self, device: Device) -> Option<&str> {
        self.types.get(&device).map(String::as_str)
    }

    /// Whether what lies on `device` is never shown.
    pub(crate) fn hides_device(&self, device: Device) -> bool {
        self.type_of(device).is_some_and(is_never_served)
    }

    /// Whether `path`, or an ancestor of it below `top`, is hidden.
    pub(crate) fn hides(&self, path: &ViewPath, top: &ViewPath) -> bool {
        let below_top = |end: &usize| *end > top.as_bytes().len();
        prefixes(path.as_bytes()).filter(below_top).any(|end| {
            let point = self.points.get(&path.as_bytes()[..end]);
            point.is_some_and(|point| point.is_hidden)
        })
    }

    /// The names of directory `dir` that are mount points or hidden, and whether they are hidden.
    pub(crate) fn names_in<'a>(&'a self, dir: &ViewPath) -> HashMap<&'a [u8], bool> {
        let mut prefix = dir.as_bytes().to_vec();
        if !dir.is_root() {
            prefix.push(b'/');
        }
        let below = self.points.range::<[u8], _>((Bound::Included(&prefix[..]), Bound::Unbounded)).map_while(
            |(path, point)| {
                let name = path.strip_prefix(&prefix[..])?;
                Some((name, point.is_hidden))
            },
        );
        below.filter(|(name, _)| !name.is_empty() && !name.contains(&b'/')).collect()
    }

    /// The outermost mount point at or above `path` that is on `device`.
    pub(crate) fn outermost(&self, path: &ViewPath, device: Device) -> Option<&[u8]> {
        prefixes(path.as_bytes()).find_map(|end| {
            let (point, found) = self.points.get_key_value(&path.as_bytes()[..end])?;
            (found.device == Some(device)).then_some(&**point)
        })
    }
}

/// The view path of `path` as mount points are written: symbolic links resolved, but for the last component, which may
/// be the mount point of a view that nobody serves. `None` for a path that no view could show.
pub(crate) fn absolute(path: &Path) -> Option<ViewPath> {
    let path = std::path::absolute(path).ok()?;
    let resolved = match (path.parent().map(std::fs::canonicalize), path.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => path,
    };
    ViewPath::from_absolute(resolved.as_os_str().as_bytes()).ok().filter(|path| !path.is_root())
}

#[cfg(test)]
impl Table {
    /// The table of `text`, for the tests of other modules.
    pub(crate) fn of(text: &str) -> Self {
        Self::new(text.as_bytes(), &[])
    }

    pub(crate) fn empty() -> Self {
        Self::of("")
    }
}

/// Where the prefixes of a path end, outermost first: the root (0), each ancestor, the path.
fn prefixes(path: &[u8]) -> impl Iterator<Item = usize> {
    let inner = (1..path.len()).filter(|end| path[*end] == b'/');
    let last = (!path.is_empty()).then_some(path.len());
    std::iter::once(0).chain(inner).chain(last)
}

/// Whether file systems of this type never appear in a view.
#[must_use]
pub fn is_never_served(file_system: &str) -> bool {
    HIDDEN_TYPES.binary_search(&file_system).is_ok()
}

/// One line of the kernel's table (`proc_pid_mountinfo(5)`).
struct Mount {
    id: u64,
    parent: u64,
    device: Device,
    /// As a view path: without the leading slash.
    point: Box<[u8]>,
    file_system: String,
}

impl Mount {
    /// `36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw`
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let mut text = || std::str::from_utf8(fields.next()?).ok();
        let (id, parent) = (text()?.parse().ok()?, text()?.parse().ok()?);
        let (major, minor) = text()?.split_once(':')?;
        let device = Device { major: major.parse().ok()?, minor: minor.parse().ok()? };
        let point = unescape(fields.nth(1)?.strip_prefix(b"/")?);
        let file_system = fields.skip_while(|field| *field != b"-").nth(1)?;
        let file_system = String::from_utf8_lossy(&unescape(file_system)).into_owned();
        Some(Self { id, parent, device, point, file_system })
    }
}

/// Undoes the octal escapes (`\040`) of space, tab, newline, backslash and hash.
fn unescape(text: &[u8]) -> Box<[u8]> {
    let digit = |at: usize| text.get(at).filter(|byte| matches!(byte, b'0'..=b'7')).map(|byte| byte - b'0');
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let octal = (text[at] == b'\\').then(|| Some((digit(at + 1)?, digit(at + 2)?, digit(at + 3)?))).flatten();
        if let Some((high, middle, low)) = octal {
            bytes.push((high << 6) | (middle << 3) | low);
            at += 4;
        } else {
            bytes.push(text[at]);
            at += 1;
        }
    }
    bytes.into()
}

/// Which mount is met at a path: a mount may be covered by a later one at or above its point.
struct Tree<'a> {
    root: Option<u64>,
    children: HashMap<(u64, &'a [u8]), u64>,
}

impl<'a> Tree<'a> {
    fn new(mounts: &'a [Mount]) -> Self {
        let by_id: HashMap<u64, &Mount> = mounts.iter().map(|mount| (mount.id, mount)).collect();
        let is_root = |mount: &&Mount| mount.parent == mount.id || !by_id.contains_key(&mount.parent);
        let root = mounts.iter().filter(is_root).min_by_key(|mount| mount.point.len()).map(|mount| mount.id);
        let children = mounts.iter().filter(|mount| mount.parent != mount.id);
        Self { root, children: children.map(|mount| ((mount.parent, &*mount.point), mount.id)).collect() }
    }

    /// The mount that holds `path`.
    fn top_at(&self, path: &[u8]) -> Option<u64> {
        let mut at = self.root?;
        for end in prefixes(path) {
            // Each step goes to a mount made on the one before, so the steps end.
            while let Some(child) = self.children.get(&(at, &path[..end])) {
                at = *child;
            }
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:5 / /dev rw master:2 shared:9 - devtmpfs udev rw
23 22 0:24 / /dev/shm rw - tmpfs tmpfs rw
24 21 0:30 / /net rw - autofs systemd-1 rw
25 24 0:31 / /net rw - nfs4 server:/ rw
26 21 0:40 / /a\\040b rw - proc proc rw
27 21 0:50 / /cover/proc rw - proc proc rw
28 21 0:51 / /cover rw - tmpfs tmpfs rw
29 21 0:52 / /soft/lib rw - nfs4 server:/lib rw
";

    fn path(text: &str) -> ViewPath {
        ViewPath::new(text.as_bytes()).unwrap()
    }

    fn table() -> Table {
        Table::new(TEXT.as_bytes(), &[path("tmp/view")])
    }

    #[test]
    fn hidden_types_are_in_the_order_that_the_search_needs() {
        assert!(HIDDEN_TYPES.is_sorted());
        assert!(is_never_served("proc") && is_never_served("fuse.forebay") && !is_never_served("tmpfs"));
    }

    #[test]
    fn pseudo_file_systems_and_what_lies_below_them_are_hidden() {
        let (table, root) = (table(), ViewPath::root());
        for hidden in ["dev", "dev/shm", "dev/shm/x", "a b", "tmp/view", "tmp/view/soft"] {
            assert!(table.hides(&path(hidden), &root), "{hidden}");
        }
        for shown in ["", "tmp", "tmp/viewer", "net", "net/x", "soft/lib/x", "a"] {
            assert!(!table.hides(&path(shown), &root), "{shown}");
        }
        assert!(!table.hides(&path("dev/shm/x"), &path("dev/shm")), "an export of its own is shown");
    }

    #[test]
    fn a_mount_that_is_covered_does_not_hide_what_covers_it() {
        let table = table();
        assert!(!table.hides(&path("cover/proc"), &ViewPath::root()));
        assert!(!table.hides(&path("net/x"), &ViewPath::root()), "mounted by the automounter");
    }

    #[test]
    fn a_directory_knows_which_of_its_names_are_mount_points() {
        let table = table();
        assert_eq!(table.names_in(&path("soft")), HashMap::from([(&b"lib"[..], false)]));
        assert_eq!(table.names_in(&path("tmp")), HashMap::from([(&b"view"[..], true)]));
        assert_eq!(table.names_in(&ViewPath::root()).get(&b"dev"[..]), Some(&true));
        assert!(table.names_in(&path("so")).is_empty());
    }

    #[test]
    fn the_outermost_mount_point_of_a_device_is_found() {
        let table = table();
        let device = Device { major: 0, minor: 52 };
        assert_eq!(table.outermost(&path("soft/lib/x/y"), device), Some(&b"soft/lib"[..]));
        assert_eq!(table.outermost(&path("soft/x"), device), None);
        assert_eq!(table.type_of(device), Some("nfs4"));
    }

    #[test]
    fn lines_that_are_not_understood_are_passed_over() {
        let table = Table::new(b"nonsense\n1 2 3\n\xff\n5 5 0:1 / / rw - tmpfs x rw\n", &[]);
        assert_eq!(table.points.len(), 1);
    }
}
