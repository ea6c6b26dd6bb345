//! Reads return the bytes that were written, in the tier and on the backing file system.

use std::fs;
use std::process::Command;

use forebay_tests::program::run;
use forebay_tests::require;

use crate::bed::{Bed, DIR};

#[test]
fn writes_land_by_themselves_and_leave_no_trace() {
    require!(Fuse, Root);
    let bed = Bed::new();
    let _ = bed
        .shell("echo hello > a; dd if=/dev/urandom of=big bs=1M count=20 conv=fsync 2>&1; mkdir d; ln -s a l")
        .good();
    let _ = bed.shell("mv a d/b; ln d/b d/c; echo more >> d/c").good();
    assert_eq!(bed.shell("cat d/b").good().text(), "hello\nmore\n");
    bed.drain();
    assert_eq!(Bed::listing(&bed.mount()), Bed::listing(&bed.backing()));
    assert_eq!(bed.landed("big")["state"], "landed");
    let status = &bed.job.status()["nodes"][0]["burst"];
    let number = |name: &str| status[name].as_u64().unwrap_or_else(|| panic!("{name}: {status}"));
    assert!(number("landed_bytes") >= 20 << 20 && number("drain_bytes_per_s") > 0, "{status}");
    assert_eq!(["draining_bytes", "time_left_ms", "dirty_bytes"].map(number), [0; 3]);
    let before = Bed::listing(&bed.backing());
    let _ = bed.command(&["down"]).good();
    assert_eq!(Bed::listing(&bed.backing()), before);
    let left = ["store", "mounts"].map(|name| bed.job.sandbox.base().join(name).exists());
    bed.job.forget();
    assert_eq!(left, [false, false], "nothing of it is left");
}

/// Bytes that were cut off do not come back in a file that stays the same one.
#[test]
fn a_file_that_shrank_and_grew_has_zeros_between() {
    require!(Fuse, Root);
    let bed = Bed::new();
    fs::write(bed.backing().join("old"), [7; 100_000]).unwrap();
    let _ = bed
        .shell("truncate -s 10 old; truncate -s 200000 old; printf x | dd of=old bs=1 seek=90000 conv=notrunc")
        .good();
    let mut wanted = vec![0; 200_000];
    wanted[..10].fill(7);
    wanted[90_000] = b'x';
    bed.drain();
    assert!(fs::read(bed.backing().join("old")).unwrap() == wanted);
    bed.job.down();
}

#[test]
fn files_that_were_there_are_read_and_changed_in_place() {
    require!(Fuse, Root);
    let bed = Bed::new();
    let backing = bed.backing();
    fs::create_dir(backing.join("sub")).unwrap();
    fs::write(backing.join("sub/old"), "0123456789").unwrap();
    fs::write(backing.join("gone"), "x").unwrap();
    let inode = |path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let before = inode(backing.join("sub/old"));
    assert_eq!(bed.shell("cat sub/old").good().text(), "0123456789");
    let _ = bed.shell("printf AB | dd of=sub/old bs=1 seek=3 conv=notrunc 2>/dev/null; rm gone").good();
    assert_eq!(bed.shell("cat sub/old").good().text(), "012AB56789");
    bed.drain();
    assert_eq!(fs::read(backing.join("sub/old")).unwrap(), b"012AB56789");
    assert_eq!(inode(backing.join("sub/old")), before, "it is the same file");
    assert!(!backing.join("gone").exists());
    bed.job.down();
}

/// Not that of a commit, which may come later by itself.
#[test]
fn the_time_of_a_file_is_that_of_its_last_write() {
    require!(Fuse, Root);
    let bed = Bed::new();
    let (here, there) = (bed.mount().join("file"), bed.backing().join("file"));
    let time = |path: &std::path::Path| fs::metadata(path).unwrap().modified().unwrap();
    let file = fs::File::create(&here).unwrap();
    std::io::Write::write_all(&mut &file, b"written").unwrap();
    let written = file.metadata().unwrap().modified().unwrap();
    // Has it committed.
    bed.drain();
    assert_eq!((time(&here), time(&there)), (written, written));
    std::io::Write::write_all(&mut &file, b" again").unwrap();
    let written = file.metadata().unwrap().modified().unwrap();
    drop(file);
    bed.drain();
    assert_eq!((time(&here), time(&there)), (written, written), "by closing it");
    let set = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let file = fs::File::options().append(true).open(&here).unwrap();
    std::io::Write::write_all(&mut &file, b" more").unwrap();
    file.set_modified(set).unwrap();
    drop(file);
    bed.drain();
    assert_eq!((time(&here), time(&there)), (set, set), "what a program has set stays");
    bed.job.down();
}

/// A checkpoint that is written beside the last one and renamed over it is never seen in part.
#[test]
fn a_rename_over_the_last_checkpoint_shows_one_or_the_other() {
    require!(Fuse, Root);
    let bed = Bed::new();
    let _ = bed.shell("echo first > latest").good();
    bed.drain();
    // Still open when it is renamed: the last one stays until the new one is whole.
    let script = "exec 7> new; echo half >&7; mv new latest; cat latest; cat \"$1\"/latest; echo whole >&7";
    let backing = bed.backing();
    let shown = run(Command::new("sh").args(["-euc", script, "sh"]).arg(&backing).current_dir(bed.mount())).good();
    assert_eq!(shown.text(), "half\nfirst\n");
    bed.drain();
    assert_eq!(fs::read(backing.join("latest")).unwrap(), b"half\nwhole\n");
    assert_eq!(fs::read_dir(&backing).unwrap().count(), 1);
    bed.job.down();
}

#[test]
fn locks_hold_programs_off() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::new();
    let flock = "exec 9> lock; flock -n 9; ! flock -n lock true; exec 9>&-; flock -n lock true";
    let _ = bed.shell(flock).good();
    // The holder of the range starts another program that wants it, and ends well if that one does not get it.
    let wants = "import fcntl; fcntl.lockf(open('lock', 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)";
    let holds = "import fcntl, subprocess, sys; file = open('lock', 'r+'); fcntl.lockf(file, fcntl.LOCK_EX); \
                 sys.exit(subprocess.run(sys.argv[1:]).returncode == 0)";
    let fcntl = format!("python3 -c \"{holds}\" python3 -c \"{wants}\" 2>/dev/null");
    let _ = bed.shell(&fcntl).good();
    bed.job.down();
}

/// One path cannot say where it is.
const DEEP: &str = "
import os, sys
for _ in range(20):
    if sys.argv[1] == 'make': os.mkdir('d' * 250)
    os.chdir('d' * 250)
if sys.argv[1] == 'make':
    open('file', 'w').write('deep')
    os.mkdir('gone')
    os.rmdir('gone')
print(open('file').read())
";

#[test]
fn a_tree_that_is_deeper_than_a_path_lands() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::new();
    let python = |directory: &std::path::Path, what: &str| {
        run(Command::new("python3").args(["-c", DEEP, what]).current_dir(directory)).good().text()
    };
    assert_eq!(python(&bed.mount(), "make"), "deep\n");
    bed.drain();
    assert_eq!(python(&bed.backing(), "look"), "deep\n");
    bed.job.down();
}

/// One name that does not exist does not keep the others from being told.
#[test]
fn landed_says_of_each_name_what_it_knows() {
    require!(Fuse, Root);
    let bed = Bed::new();
    let _ = bed.shell("echo a > a; echo b > b; ln -s a link; mkdir d").good();
    bed.drain();
    let landed = |names: &[&str]| {
        let paths: Vec<String> = names.iter().map(|name| format!("{DIR}/{name}")).collect();
        bed.command(&[&["landed", "--json"], paths.iter().map(String::as_str).collect::<Vec<_>>().as_slice()].concat())
    };
    let told = landed(&["link", "a", "absent", "d", "b"]);
    assert_eq!(told.status.code(), Some(3), "{}", told.stderr);
    let value: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    let states: Vec<&str> =
        value["files"].as_array().unwrap().iter().map(|file| file["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["landed", "landed", "unknown", "landed", "landed"], "{value}");
    assert!(value["files"][2]["why"].as_str().unwrap().contains("No such file"), "{value}");
    assert_eq!(landed(&["a", "b"]).status.code(), Some(0));
    assert_eq!(landed(&["link", "a", "b"]).status.code(), Some(0));
    assert_eq!(landed(&["absent"]).status.code(), Some(1), "nothing is known of any");
    let _ = bed.shell("echo c > d/c; ln -s ../a d/up; ln -s /etc/hosts out").good();
    bed.drain();
    let text = bed.command(&["landed", DIR]).text();
    let expected = [
        format!("landed {DIR}/a (2B of 2B landed)"),
        format!("landed {DIR}/b (2B of 2B landed)"),
        format!("landed {DIR}/d/c (2B of 2B landed)"),
        format!("link {DIR}/d/up -> ../a: landed"),
        format!("link {DIR}/link -> a: landed"),
        format!("landed {DIR}/out: a link to /etc/hosts, which is not in the burst tier"),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    let all = bed.command(&["landed"]).good().text();
    assert!(all.starts_with("all has landed ("), "{all}");
    let explained = bed.command(&["explain", &format!("{DIR}/d/c")]).good().text();
    assert!(explained.contains("burst tier: 2B on") && explained.contains(", landed"), "{explained}");
    bed.job.down();
}

/// The leader alone knows what is to land. Nor does a name that is no text hide the others.
#[test]
fn nothing_has_landed_by_the_word_of_other_nodes() {
    require!(Fuse, Root);
    let bed = Bed::with(2, &["--drain", "manual"]);
    let _ = bed.shell_on(0, "echo x > a; sync a").good();
    let name = std::os::unix::ffi::OsStrExt::from_bytes(b"odd-\xff");
    fs::write(bed.mount().join::<&std::ffi::OsStr>(name), "y").unwrap();
    let told = bed.while_it_stands_still(0, || bed.command(&["landed"]));
    assert_eq!(told.status.code(), Some(3), "{}", told.text());
    assert!(told.text().starts_with("not known: no answer from node 0; at least"), "{}", told.text());
    let told = bed.command(&["landed", DIR]);
    assert_eq!(told.status.code(), Some(3), "{}", told.stderr);
    assert!(told.text().contains("only names that are valid UTF-8") && told.text().contains("/a ("), "{}", told.text());
    bed.drain();
    assert!(bed.command(&["landed"]).good().text().starts_with("all has landed"));
    bed.job.down();
}

/// Files that programs remove while they land are no failure.
#[test]
fn directories_that_go_while_they_land_are_no_failures() {
    require!(Fuse, Root);
    let bed = Bed::new();
    let script = "for n in $(seq 150); do mkdir d; chmod 700 d; mkdir d/e; echo x > d/e/f; ln -s f d/e/l; mkfifo d/e/p; touch -d @5 d/e; \
                  mv d/e/f d/e/g; exec 3>> d/e/g; echo y >&3; rm -r d; exec 3>&-; done; echo end > end";
    let _ = bed.shell(script).good();
    bed.drain();
    let log = bed.job.sandbox.runtime().join("forebay").join(&bed.job.sandbox.name).join("logs/node-0.log");
    let log = fs::read_to_string(log).unwrap();
    assert!(!log.is_empty());
    let failed: Vec<&str> = log.lines().filter(|line| line.contains("landing failed")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    bed.job.down();
}
