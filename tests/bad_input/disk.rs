//! A disk that gives no bytes: the backing file system's own error reaches every node, and only for as long as it lasts.

use std::fs;
use std::io;
use std::path::Path;

use forebay_tests::disk::Disk;
use forebay_tests::{Job, Sandbox, compare, require, tree};

const EIO: Option<i32> = Some(5);

/// The answers that a program gets for a path, the second time as well as the first, from the backing file system and from the view.
#[track_caller]
fn fails_alike<T>(source: &Path, view: &Path, ask: impl Fn(&Path) -> io::Result<T>) {
    for _ in 0..2 {
        let [direct, through] = [source, view].map(|path| ask(path).err().map(|error| error.raw_os_error()));
        assert_eq!(direct, Some(EIO), "the disk is broken: {}", source.display());
        assert_eq!(through, direct, "{}", view.display());
    }
}

#[test]
fn errors_are_passed_on_as_they_are_and_not_kept() {
    require!(Fuse, Root, LoopDevices, Command("mkfs.ext4"), Command("mount"));
    for nodes in [1, 7] {
        let disk = Disk::with(|root| {
            fs::create_dir(root.join("directory")).unwrap();
            tree::write(&root.join("directory/file"), &tree::contents(3 * tree::CHUNK_BYTES));
            tree::write(&root.join("file"), &tree::contents(3 * tree::CHUNK_BYTES));
        });
        disk.break_down();
        let root = disk.root();
        // A prefetch could have read the file before the disk breaks again.
        let job = Job::up_local(Sandbox::new(), nodes, &root, &["--fanout", "2", "--prefetch", "false"]);
        let view = job.path(job.nodes() - 1, &root);
        fails_alike(&root, &view, |root| fs::read_dir(root)?.collect::<io::Result<Vec<_>>>());
        fails_alike(&root, &view, |root| fs::metadata(root.join("file")));
        fails_alike(&root, &view, |root| fs::metadata(root.join("absent")));
        disk.mend();
        assert_eq!(compare::names(&root), compare::names(&view));
        compare::attributes(&root.join("file"), &view.join("file"));
        assert_eq!(fs::metadata(view.join("absent")).unwrap_err().kind(), io::ErrorKind::NotFound);
        disk.break_down();
        fails_alike(&root, &view, |root| fs::read(root.join("file")));
        let errors = job.status()["totals"]["backing"]["errors"].as_u64().unwrap();
        assert!(errors >= 4, "{errors} errors are counted");
        disk.mend();
        compare::trees(&root, &view);
        job.down();
    }
}
