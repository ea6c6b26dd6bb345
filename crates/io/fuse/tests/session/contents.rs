//! Programs use files of a view: read, map, run, ask by ioctl, try to write.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::process::{Command, Stdio};

use forebay_fuse::ROOT_NODE;
use forebay_types::Timestamp;
use rustix::fs::OFlags;
use rustix::mm::{MapFlags, ProtFlags};

use crate::fixture::{Mounted, eventually};
use crate::tree::{BLOCKS, IOCTL_REVERSE, Tree};

/// Bytes that differ from page to page.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index ^ (index >> 8) ^ (index >> 16)) as u8).collect()
}

fn with_file(len: usize) -> Option<Mounted> {
    let tree = Tree::new();
    tree.file(ROOT_NODE, "file", 0o644, pattern(len));
    Mounted::new(tree)
}

#[test]
fn attributes_are_exact() {
    let _alone = crate::fixture::alone();
    let tree = Tree::new();
    let node = tree.file(ROOT_NODE, "file", 0o640, "12345");
    tree.with_attributes(node, |attributes| {
        attributes.mtime = Timestamp { seconds: -5, nanos: 999_999_999 };
        attributes.atime = Timestamp { seconds: 1 << 33, nanos: 1 };
        attributes.nlink = 3;
        attributes.blocks = 77;
        attributes.ino = u64::MAX - 1;
    });
    let Some(mounted) = Mounted::new(tree) else { return };
    let seen = fs::metadata(mounted.path("file")).unwrap();
    assert_eq!((seen.mtime(), seen.mtime_nsec()), (-5, 999_999_999));
    assert_eq!((seen.atime(), seen.atime_nsec()), (1 << 33, 1));
    assert_eq!((seen.nlink(), seen.blocks(), seen.mode()), (3, 77, 0o100_640));
    assert_eq!((seen.ino(), seen.len()), (u64::MAX - 1, 5));
}

#[test]
fn statfs_shows_what_the_handler_says() {
    let _alone = crate::fixture::alone();
    let Some(mounted) = with_file(1) else { return };
    let stat = rustix::fs::statfs(mounted.dir.path()).unwrap();
    assert_eq!((stat.f_blocks, stat.f_bsize), (BLOCKS, 4096));
}

#[test]
fn reads_at_and_past_the_end() {
    let _alone = crate::fixture::alone();
    let Some(mounted) = with_file(10_000) else { return };
    let file = File::open(mounted.path("file")).unwrap();
    let mut buffer = [0; 100];
    assert_eq!(file.read_at(&mut buffer, 9_990).unwrap(), 10);
    assert_eq!(buffer[..10], pattern(10_000)[9_990..]);
    assert_eq!(file.read_at(&mut buffer, 10_000).unwrap(), 0);
    assert_eq!(file.read_at(&mut buffer, 1 << 40).unwrap(), 0);
}

#[test]
fn direct_reads_are_right_and_cached_by_nobody() {
    let _alone = crate::fixture::alone();
    let Some(mounted) = with_file(3 << 20) else { return };
    let open = || OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(mounted.path("file"));
    for pass in 1..3 {
        let mut bytes = Vec::new();
        open().unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, pattern(3 << 20));
        assert_eq!(mounted.session.message_counts().bytes_read(), pass * (3 << 20));
    }
    let mut crumb = [0; 5];
    open().unwrap().read_at(&mut crumb, 4097).unwrap();
    assert_eq!(crumb, pattern(5000)[4097..4102]);
}

#[test]
fn maps_shared_and_private_show_the_bytes() {
    let _alone = crate::fixture::alone();
    let len = 100_001;
    let Some(mounted) = with_file(len) else { return };
    let file = File::open(mounted.path("file")).unwrap();
    for flags in [MapFlags::SHARED, MapFlags::PRIVATE] {
        // SAFETY: a new mapping at an address of the kernel's choice, of a file that the test's own tree never shortens.
        let address =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, ProtFlags::READ, flags, file.as_fd(), 0).unwrap() };
        // SAFETY: the mapping has `len` readable bytes and lives until the end of this block.
        let bytes = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), len) };
        assert!(bytes == pattern(len));
        // SAFETY: `bytes` is not used after this.
        unsafe { rustix::mm::munmap(address, len).unwrap() };
    }
}

#[test]
fn programs_and_scripts_run_from_the_mount() {
    let _alone = crate::fixture::alone();
    let tree = Tree::new();
    tree.file(ROOT_NODE, "program", 0o755, fs::read("/bin/echo").unwrap());
    let Some(mounted) = Mounted::new(tree) else { return };
    let script = format!("#!{} from\n", mounted.path("program").display());
    mounted.tree.file(ROOT_NODE, "script", 0o755, script);
    mounted.tree.file(ROOT_NODE, "closed", 0o644, "#!/bin/sh\n");
    let run = |name: &str| Command::new(mounted.path(name)).arg("here").output();
    assert_eq!(run("program").unwrap().stdout, b"here\n");
    let expected = format!("from {} here\n", mounted.path("script").display());
    assert_eq!(String::from_utf8(run("script").unwrap().stdout).unwrap(), expected);
    assert_eq!(run("closed").unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
}

#[test]
fn every_change_is_refused_without_a_message() {
    let _alone = crate::fixture::alone();
    let Some(mounted) = with_file(10) else { return };
    let file = mounted.path("file");
    fs::metadata(&file).unwrap();
    let new = mounted.path("new");
    assert!(!new.exists());
    let before = mounted.messages();
    let refused = [
        OpenOptions::new().write(true).open(&file).map(drop),
        File::create(&new).map(drop),
        fs::create_dir(&new),
        fs::remove_file(&file),
        fs::rename(&file, &new),
        fs::hard_link(&file, &new),
        std::os::unix::fs::symlink("x", &new),
        fs::set_permissions(&file, fs::metadata(&file).unwrap().permissions()),
    ];
    for (index, result) in refused.into_iter().enumerate() {
        assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem, "attempt {index}");
    }
    // Before it refuses to create a name the kernel looks whether it still is absent.
    let others = |messages: Vec<(&'static str, u64)>| -> Vec<_> {
        messages.into_iter().filter(|(name, _)| *name != "lookup").collect()
    };
    assert_eq!(others(mounted.messages()), others(before));
}

/// An ioctl of `COMMAND` with eight bytes in and out.
struct Exchange<const COMMAND: u32>([u8; 8]);

// SAFETY: the command's number says that eight bytes are read and written at the pointer, and `self.0` has them.
unsafe impl<const COMMAND: u32> rustix::ioctl::Ioctl for Exchange<COMMAND> {
    type Output = (i32, [u8; 8]);
    const IS_MUTATING: bool = true;
    fn opcode(&self) -> rustix::ioctl::Opcode {
        COMMAND
    }
    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        self.0.as_mut_ptr().cast()
    }
    // SAFETY: called by `ioctl` alone, with what `as_ptr` returned.
    unsafe fn output_from_ptr(
        result: rustix::ioctl::IoctlOutput,
        pointer: *mut std::ffi::c_void,
    ) -> rustix::io::Result<Self::Output> {
        // SAFETY: `pointer` is what `as_ptr` returned.
        Ok((result, unsafe { *pointer.cast::<[u8; 8]>() }))
    }
}

#[test]
fn ioctls_reach_the_root_and_a_file_is_no_terminal() {
    let _alone = crate::fixture::alone();
    let Some(mounted) = with_file(10) else { return };
    let root = File::open(mounted.dir.path()).unwrap();
    let exchange = || Exchange::<IOCTL_REVERSE>(*b"forebay!");
    // SAFETY: `Exchange` describes the command truly.
    assert_eq!(unsafe { rustix::ioctl::ioctl(&root, exchange()) }.unwrap(), (7, *b"!yaberof"));
    let file = File::open(mounted.path("file")).unwrap();
    // SAFETY: as above; on this file the command is refused.
    let refused = unsafe { rustix::ioctl::ioctl(&file, exchange()) };
    assert_eq!(refused.unwrap_err(), rustix::io::Errno::NOTTY);
    assert!(!std::io::IsTerminal::is_terminal(&file));
}

#[test]
fn seeking_to_holes_sees_one_extent_and_asks_once() {
    let _alone = crate::fixture::alone();
    let Some(mounted) = with_file(10_000) else { return };
    let file = File::open(mounted.path("file")).unwrap();
    for _ in 0..3 {
        assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(5)).unwrap(), 10_000);
        assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(5)).unwrap(), 5);
    }
    assert_eq!(mounted.count("lseek"), 1);
    let mut file = file;
    assert_eq!(file.seek(SeekFrom::End(-1)).unwrap(), 9_999);
}

#[test]
fn a_signal_interrupts_a_read_that_is_not_answered() {
    let _alone = crate::fixture::alone();
    let Some(mounted) = with_file(4096) else { return };
    let node = ROOT_NODE + 1;
    mounted.tree.hold_reads(Some(node));
    // dd answers SIGUSR1 by statistics and repeats a read that was interrupted.
    let mut dd = Command::new("dd")
        .arg(format!("if={}", mounted.path("file").display()))
        .args(["iflag=direct", "bs=4096", "status=none"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let unique = mounted.tree.wait_held();
    mounted.tree.hold_reads(None);
    let pid = rustix::process::Pid::from_child(&dd);
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
    mounted.tree.wait_interrupted(unique);
    let mut bytes = Vec::new();
    dd.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    assert!(dd.wait().unwrap().success());
    assert_eq!(bytes, pattern(4096));
    assert!(mounted.count("interrupt") >= 1);
}

#[test]
fn forgotten_nodes_are_told() {
    let _alone = crate::fixture::alone();
    let Some(mounted) = with_file(10) else { return };
    fs::metadata(mounted.path("file")).unwrap();
    assert!(mounted.notifier().inval_entry(ROOT_NODE, b"file").unwrap());
    eventually("the node is forgotten", || mounted.count("forget") + mounted.count("batch_forget") > 0);
}
