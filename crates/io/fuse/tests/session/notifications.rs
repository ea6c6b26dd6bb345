//! The daemon's notifications to the kernel take effect immediately.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use forebay_fuse::ROOT_NODE;
use forebay_types::Errno;

use crate::fixture::Mounted;
use crate::tree::Tree;

fn mounted() -> Option<(Mounted, u64)> {
    let tree = Tree::new();
    let node = tree.file(ROOT_NODE, "file", 0o644, "before");
    Some((Mounted::new(tree)?, node))
}

#[test]
fn inval_inode_makes_the_kernel_read_again_also_through_an_open_file() {
    let _alone = crate::fixture::alone();
    let Some((mounted, node)) = mounted() else { return };
    let file = File::open(mounted.path("file")).unwrap();
    assert_eq!(io::read_to_string(&file).unwrap(), "before");
    mounted.tree.rewrite(node, "after, and longer");
    assert_eq!(fs::read_to_string(mounted.path("file")).unwrap(), "before", "the kernel believes what it has");
    assert!(mounted.notifier().inval_inode(node, 0, 0).unwrap());
    assert_eq!(fs::read_to_string(mounted.path("file")).unwrap(), "after, and longer");
    let mut bytes = [0; 5];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"after");
}

#[test]
fn inval_entry_takes_back_a_name_and_an_absence() {
    let _alone = crate::fixture::alone();
    let Some((mounted, _)) = mounted() else { return };
    assert!(mounted.path("file").exists() && !mounted.path("new").exists());
    mounted.tree.remove(ROOT_NODE, "file");
    mounted.tree.file(ROOT_NODE, "new", 0o644, "");
    assert!(mounted.path("file").exists() && !mounted.path("new").exists(), "the kernel believes what it has");
    assert!(mounted.notifier().inval_entry(ROOT_NODE, b"file").unwrap());
    assert!(mounted.notifier().inval_entry(ROOT_NODE, b"new").unwrap());
    assert!(!mounted.path("file").exists() && mounted.path("new").exists());
}

#[test]
fn delete_takes_a_name_away_only_if_it_leads_where_was_said() {
    let _alone = crate::fixture::alone();
    let Some((mounted, node)) = mounted() else { return };
    assert!(mounted.path("file").exists());
    let other = mounted.notifier().delete(ROOT_NODE, node + 1, b"file");
    assert!(!other.unwrap(), "it leads to another node");
    assert!(mounted.path("file").exists());
    mounted.tree.remove(ROOT_NODE, "file");
    assert!(mounted.notifier().delete(ROOT_NODE, node, b"file").unwrap());
    assert!(!mounted.path("file").exists());
}

#[test]
fn stored_bytes_are_read_without_a_message() {
    let _alone = crate::fixture::alone();
    let tree = Tree::new();
    let bytes: Bytes = (0..1_500_001).map(|index| (index % 251) as u8).collect::<Vec<_>>().into();
    let node = tree.file(ROOT_NODE, "file", 0o644, bytes.clone());
    let Some(mounted) = Mounted::new(tree) else { return };
    assert!(!mounted.notifier().store(node, 0, &[bytes.slice(..4096)]).unwrap(), "not looked up yet: unknown");
    fs::metadata(mounted.path("file")).unwrap();
    // In 2,000 parts: more than one write takes.
    let parts: Vec<Bytes> = bytes.chunks(750).map(Bytes::copy_from_slice).collect();
    assert!(parts.len() > 2_000);
    let (first, second) = parts.split_at(1_000);
    assert!(mounted.notifier().store(node, 0, first).unwrap());
    assert!(mounted.notifier().store(node, 750_000, second).unwrap());
    let read = fs::read(mounted.path("file")).unwrap();
    assert!(read == bytes);
    // The border of the two stores lies within a page: that page alone is read.
    assert!(mounted.count("read") <= 1, "{:?}", mounted.messages());
    assert!(mounted.session.message_counts().bytes_read() <= 128 << 10);
}

#[test]
fn whole_pages_stored_need_no_read_at_all() {
    let _alone = crate::fixture::alone();
    let tree = Tree::new();
    let bytes = Bytes::from(vec![9; (1 << 20) + 10]);
    let node = tree.file(ROOT_NODE, "file", 0o644, bytes.clone());
    let Some(mounted) = Mounted::new(tree) else { return };
    fs::metadata(mounted.path("file")).unwrap();
    assert!(mounted.notifier().store(node, 0, &[bytes.slice(..1 << 20)]).unwrap());
    assert!(mounted.notifier().store(node, 1 << 20, &[bytes.slice(1 << 20..)]).unwrap());
    assert!(fs::read(mounted.path("file")).unwrap() == bytes);
    assert_eq!(mounted.count("read"), 0);
}

#[test]
fn an_epoch_has_every_name_looked_up_again() {
    let _alone = crate::fixture::alone();
    let Some((mounted, _)) = mounted() else { return };
    assert!(mounted.path("file").exists() && !mounted.path("new").exists());
    let before = mounted.count("lookup");
    assert!(mounted.path("file").exists());
    assert_eq!(mounted.count("lookup"), before);
    match mounted.notifier().epoch() {
        Ok(_) => {}
        Err(error) if Errno::of(&error) == Errno::EOPNOTSUPP => {
            return crate::fixture::skip("this kernel has no INC_EPOCH (Linux 6.16)");
        }
        Err(error) => panic!("{error}"),
    }
    mounted.tree.file(ROOT_NODE, "new", 0o644, "");
    assert!(mounted.path("file").exists() && mounted.path("new").exists());
    assert!(mounted.count("lookup") > before);
}

#[test]
fn invalidations_of_unknown_inodes_are_no_faults() {
    let _alone = crate::fixture::alone();
    let Some((mounted, _)) = mounted() else { return };
    assert!(!mounted.notifier().inval_inode(999, 0, 0).unwrap());
    assert!(!mounted.notifier().inval_entry(999, b"x").unwrap());
    assert!(!mounted.notifier().delete(999, 9, b"x").unwrap());
    assert_eq!(
        Errno::of(&mounted.notifier().inval_entry(ROOT_NODE, &[b'a'; 70_000]).unwrap_err()),
        Errno::ENAMETOOLONG
    );
}

#[test]
fn after_the_end_notifications_fail_and_hold_nothing() {
    let _alone = crate::fixture::alone();
    let Some((mut mounted, node)) = mounted() else { return };
    let notifier = mounted.notifier();
    mounted.mount.take().unwrap().unmount().unwrap();
    drop(mounted);
    assert_eq!(Errno::of(&notifier.inval_inode(node, 0, 0).unwrap_err()), Errno::ENODEV);
}
