//! A disk that gives no bytes: its error is passed on as it is, each time, and never taken for an absence.
use crate::fixture;

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use fixture::{Tree, generation, is_root, name, options, skip, with_private_mounts};
use forebay_store::Store;
use forebay_types::{CHUNK_BYTES, ChunkIndex, Errno};

/// The size of the file on the disk, twice as large as a chunk.
const FILE_BYTES: usize = 2 << 20;

/// Ends with what a command ends with.
fn run(command: &mut Command) {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// An ext4 image with `dir/file`, mounted read-only at `disk` through a loop device. Cut to nothing, it has no bytes
/// for whatever the kernel does not have in its caches.
fn mount_disk(tree: &Tree) -> Vec<u8> {
    let (built, image, disk) = (tree.make_dir("built"), tree.path("image"), tree.make_dir("disk"));
    tree.make_dir("built/dir");
    tree.write("built/dir/file", vec![7; FILE_BYTES]);
    File::create_new(&image).unwrap().set_len(16 << 20).unwrap();
    run(Command::new("mkfs.ext4").args(["-q", "-O", "^has_journal", "-d"]).args([&built, &image]));
    run(Command::new("mount").args(["-t", "ext4", "-o", "loop,ro"]).args([&image, &disk]));
    fs::read(&image).unwrap()
}

#[test]
fn its_error_is_passed_on_and_never_taken_for_an_absence() {
    let lack = if !is_root() {
        "not root"
    } else if !Path::new("/dev/loop-control").exists() {
        "there are no loop devices"
    } else if !["/usr/sbin", "/sbin"].iter().any(|dir| Path::new(dir).join("mkfs.ext4").exists()) {
        "there is no mkfs.ext4"
    } else {
        ""
    };
    if !lack.is_empty() {
        return skip(lack);
    }
    with_private_mounts(|tree| {
        let whole = mount_disk(tree);
        let break_down = || File::options().write(true).open(tree.path("image")).unwrap().set_len(0).unwrap();
        break_down();
        let store = Store::open(options(&[tree.path("disk")])).unwrap();
        let disk = tree.view("disk");
        for _ in 0..2 {
            assert_eq!(store.listing(&disk).unwrap_err(), Errno::EIO);
            assert_eq!(store.lookup(&disk, &name("dir")), Err(Errno::EIO));
            assert_eq!(store.lookup(&disk, &name("absent")), Err(Errno::EIO), "nobody can know");
        }
        fs::write(tree.path("image"), &whole).unwrap();
        assert_eq!(store.lookup(&disk, &name("absent")), Ok(None));
        let version = generation(&tree.path("disk/dir/file"));
        let file = tree.view("disk/dir/file");
        let read = |index| store.read_chunk(&file, &version, ChunkIndex(index), |_| ());
        break_down();
        let opens = store.counters().opens;
        for index in [0, 1, 0] {
            assert_eq!(read(index).err(), Some(Errno::EIO), "chunk {index}");
        }
        assert_eq!(
            store.counters().opens - opens,
            1 + 3,
            "the directory once; a descriptor that failed is not used again"
        );
        fs::write(tree.path("image"), &whole).unwrap();
        for index in [0, 1] {
            assert_eq!(read(index).unwrap().contiguous().unwrap(), &vec![7; CHUNK_BYTES as usize][..]);
        }
    });
}
