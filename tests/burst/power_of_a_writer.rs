//! The power of one node of a job goes, whose programs wrote to a tree that another node owns.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use forebay_tests::power::{Power, PowerDisk};
use forebay_tests::{Sandbox, require};
use serde_json::json;

use crate::bed::{Bed, arguments};

/// Files that `fsync` returned for are there. A file that was only closed is shared, and not safe. When the node is back, it is named as lost, is
/// `EIO` immediately, does not land, and holds no other file back.
#[test]
fn power_loss_reports_unsynced_files_and_lands_the_rest() {
    require!(Fuse, Root, LoopDevices, Command("mkfs.ext4"));
    // With a mount namespace of its own, which is the thread's.
    std::thread::spawn(cut).join().unwrap();
}

fn cut() {
    let power = Power::begin();
    let sandbox = Sandbox::new();
    let (backing, store) = (sandbox.base().join("backing"), sandbox.base().join("store/1"));
    fs::create_dir(&backing).unwrap();
    fs::create_dir_all(&store).unwrap();
    let mut disk = PowerDisk::new(&store, 1);
    fs::remove_dir(store.join("lost+found")).unwrap();
    fs::set_permissions(&store, fs::Permissions::from_mode(0o700)).unwrap();
    let mut words = arguments(&sandbox, 2);
    words.iter_mut().filter(|word| *word == "1GiB").for_each(|word| "256MiB".clone_into(word));
    words.extend(["--drain".to_owned(), "manual".to_owned()]);
    let mut bed = Bed::up_with(sandbox, &words);
    let script = "yes kept | head -c 303104 > kept; cp kept partly; sync kept partly; \
                  yes lost | head -c 200000 > lost; yes more | head -c 100000 >> partly; yes old | head -c 5000 > again";
    let _ = bed.shell_on(1, script).good();
    // The tree knows of all that, durably.
    let _ = bed.shell_on(0, "cat lost partly again > /dev/null; echo after > after; sync after").good();
    disk.off();
    bed.job.kill_all_and(|| disk.fail());
    power.boot();
    disk = disk.on_again();
    let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    bed.job.up_again(&words);
    for node in 0..2 {
        let _ = bed.shell_on(node, "yes kept | head -c 303104 | cmp - kept; head -c 303104 partly | cmp - kept").good();
        for name in ["lost", "again", "partly"] {
            let read = bed.shell_on(node, &format!("cat {name} > /dev/null"));
            assert!(read.stderr.contains("Input/output error"), "{name} on node {node}: {}", read.stderr);
        }
    }
    // New data written over lost ones make a file whole.
    let _ = bed.shell_on(0, "yes new | head -c 5000 > again").good();
    assert_not_landed(&bed, &backing, &["after", "again", "kept"]);
    let landed = |name| bed.landed(name);
    let (lost, partly) = (landed("lost"), landed("partly"));
    assert_eq!((&lost["state"], &lost["missing"]), (&json!("lost"), &json!([[0, 200_000]])), "{lost}");
    assert_eq!((&partly["state"], &partly["missing"]), (&json!("lost"), &json!([[303_104, 100_000]])), "{partly}");
    assert!(lost["why"].as_str().unwrap().contains("not synced when the power of nodes went (1)"), "{lost}");
    let _ = bed
        .shell_on(1, "yes more | head -c 100000 | dd of=partly bs=303104 seek=1 conv=notrunc iflag=fullblock; rm lost")
        .good();
    bed.drain();
    assert_eq!(names(&backing), ["after", "again", "kept", "partly"]);
    let read = |name: &str| fs::read(backing.join(name)).unwrap();
    assert_eq!(
        (read("again").len(), &read("partly")[..303_104], read("partly").len()),
        (5000, &read("kept")[..], 403_104)
    );
    bed.job.kill_all();
    // The mounts in the sandbox are removed before it.
    drop(disk);
    drop(bed);
}

/// Files that cannot land are named, and all others have landed.
fn assert_not_landed(bed: &Bed, backing: &Path, landed: &[&str]) {
    let drained = bed.command(&["drain", "--wait", "--timeout", "60s"]);
    let told = drained.text() + &drained.stderr;
    assert_eq!(drained.status.code(), Some(3), "{told}");
    assert!(told.contains("not synced when the power of nodes went (1)"), "{told}");
    assert_eq!(names(backing), landed);
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}
