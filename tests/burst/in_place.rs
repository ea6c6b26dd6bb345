//! Others change files of the backing file system in place while the tier changes them too.

use std::fs::{self, File, FileTimes};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_tests::program::wait_until;
use forebay_tests::require;

use crate::bed::Bed;
use crate::conflicts::{drain, second, there};

const PATIENCE: Duration = Duration::from_secs(60);

/// How often somebody tries to get an inode number again.
const TRIES: u32 = 100;

fn append(path: &Path, text: &str) {
    File::options().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// Of the same length.
fn overwrite(path: &Path, text: &str) {
    File::options().write(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// Names on the backing file system that the tier has given because of others.
fn second_names(bed: &Bed) -> Vec<String> {
    let names = fs::read_dir(bed.backing()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".forebay-")).collect()
}

#[test]
fn files_that_others_change_in_place_are_left_alone() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    let backing = bed.backing();
    for name in ["grown", "mixed"] {
        fs::write(backing.join(name), "base\n").unwrap();
    }
    let _ = bed.shell("ls; for f in whole replaced removed; do echo landed > $f; done; ln grown again").good();
    drain(&bed);
    let script = "echo ours >> grown; echo ours >> mixed; echo whole > whole; echo new > new; mv new replaced; rm removed; \
                  echo behind > behind";
    let _ = bed.shell(script).good();
    for name in ["grown", "whole", "replaced", "removed"] {
        append(&backing.join(name), "theirs\n");
    }
    overwrite(&backing.join("mixed"), "BASE\n");
    let said = drain(&bed);
    assert_eq!(said.status.code(), Some(3), "{} {}", said.text(), said.stderr);
    assert!(said.text().contains("others have put something at"), "{}", said.text());
    for (name, theirs) in [("grown", "base\n"), ("again", "base\n"), ("whole", "landed\n"), ("replaced", "landed\n")] {
        assert_eq!(there(&bed, name).unwrap(), format!("{theirs}theirs\n"), "{name}");
    }
    assert_eq!(there(&bed, "removed").as_deref(), Some("landed\ntheirs\n"), "what they have changed is not removed");
    assert_eq!(there(&bed, "mixed").as_deref(), Some("BASE\n"));
    let ours = |name| there(&bed, &second(&bed, name));
    assert_eq!((ours("grown").as_deref(), ours("again").as_deref()), (Some("base\nours\n"), Some("base\nours\n")));
    assert_eq!(ours("mixed").as_deref(), Some("BASE\nours\n"), "what was never written here is as they left it");
    assert_eq!((ours("whole").as_deref(), ours("replaced").as_deref()), (Some("whole\n"), Some("new\n")));
    assert_eq!(there(&bed, "behind").as_deref(), Some("behind\n"), "what comes after does not wait");
    let (mixed, whole) = (bed.landed("mixed"), bed.landed("whole"));
    assert_eq!((&mixed["state"], &whole["state"]), (&"landed".into(), &"landed".into()), "{mixed} {whole}");
    let why = mixed["why"].as_str().unwrap();
    assert!(why.contains(&second(&bed, "mixed")) && why.contains("5 bytes"), "{mixed}");
    let why = whole["why"].as_str().unwrap();
    assert!(why.contains(&second(&bed, "whole")) && !why.contains("bytes"), "{whole}");

    // It is the job's own file now.
    let _ = bed.shell("echo more >> mixed; echo more >> grown; cat mixed").good();
    assert_eq!(bed.shell("cat mixed").good().text(), "BASE\nours\nmore\n");
    drain(&bed);
    assert_eq!(there(&bed, &second(&bed, "mixed")).as_deref(), Some("BASE\nours\nmore\n"));
    assert_eq!(there(&bed, &second(&bed, "again")).as_deref(), Some("base\nours\nmore\n"));
    let _ = bed.shell("rm mixed grown again whole replaced").good();
    let said = drain(&bed);
    assert!(said.status.success(), "nothing is aside any more: {} {}", said.text(), said.stderr);
    assert_eq!(second_names(&bed), [""; 0]);
    bed.job.down();
}

/// The second name is no safer from others than the first.
#[test]
fn files_that_others_change_under_a_second_name_are_left_alone() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    let _ = bed.shell("echo ours > file").good();
    drain(&bed);
    let _ = bed.shell("echo more >> file").good();
    append(&bed.backing().join("file"), "theirs\n");
    drain(&bed);
    let first = second(&bed, "file");
    append(&bed.backing().join(&first), "theirs too\n");
    let _ = bed.shell("echo again >> file").good();
    let said = drain(&bed);
    assert_eq!(said.status.code(), Some(3), "{} {}", said.text(), said.stderr);
    assert_eq!(there(&bed, &first).as_deref(), Some("ours\nmore\ntheirs too\n"));
    assert_eq!(there(&bed, &format!("{first}-2")).as_deref(), Some("ours\nmore\nagain\n"));
    let _ = bed.shell("rm file").good();
    bed.job.down();
}

#[test]
fn bytes_that_others_cut_off_are_lost_and_reported() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    fs::write(bed.backing().join("file"), "base\n").unwrap();
    let _ = bed.shell("echo ours >> file; echo behind > behind").good();
    // As `echo > file` does.
    File::create(bed.backing().join("file")).unwrap().write_all(b"t\n").unwrap();
    let said = drain(&bed);
    assert_eq!(said.status.code(), Some(3), "{} {}", said.text(), said.stderr);
    assert_eq!(there(&bed, "file").as_deref(), Some("t\n"));
    assert_eq!(there(&bed, "behind").as_deref(), Some("behind\n"), "what comes after does not wait");
    let landed = bed.landed("file");
    assert_eq!((&landed["state"], &landed["missing"]), (&"lost".into(), &serde_json::json!([[0, 5]])), "{landed}");
    let _ = bed.shell("echo whole > file").good();
    drain(&bed);
    assert_eq!(there(&bed, &second(&bed, "file")).as_deref(), Some("whole\n"), "written whole again, it lands");
    let _ = bed.shell("rm file").good();
    bed.job.down();
}

/// Its path says where, also for files in it; no store has anything of them.
#[test]
fn a_directory_that_is_aside_is_named_for_what_is_in_it() {
    require!(Fuse, Root);
    let bed = Bed::with(2, &["--drain", "manual"]);
    let _ = bed.shell("mkdir -p taken/deep; echo ours > taken/deep/file").good();
    fs::write(bed.backing().join("taken"), "theirs\n").unwrap();
    assert_eq!(drain(&bed).status.code(), Some(3));
    let landed = bed.landed("taken/deep/file");
    let path = bed.backing().join(second(&bed, "taken")).join("deep/file");
    assert_eq!(fs::read_to_string(&path).unwrap(), "ours\n");
    let said = landed["why"].as_str().unwrap_or_default();
    assert!(landed["state"] == "landed" && said.contains(&format!("it is at {},", path.display())), "{landed}");
    let down = bed.command(&["down"]);
    assert_eq!(down.status.code(), Some(3), "{down:?}");
    assert!(down.stderr.contains("is at ") && !down.stderr.contains("Kept in"), "{down:?}");
    bed.job.forget();
}

/// Both are in the way of whoever looks for a file.
#[test]
fn a_file_that_is_lost_and_one_that_is_aside_are_both_named() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    fs::write(bed.backing().join("cut"), "base\n").unwrap();
    let _ = bed.shell("echo ours >> cut; echo ours > taken").good();
    File::create(bed.backing().join("cut")).unwrap();
    fs::write(bed.backing().join("taken"), "theirs\n").unwrap();
    let said = drain(&bed);
    assert_eq!(said.status.code(), Some(3), "{} {}", said.text(), said.stderr);
    for expected in ["cut cannot land: 5 bytes were only in the file", "/backing/taken.forebay-"] {
        assert!(said.text().contains(expected), "{expected}: {}", said.text());
    }
    let down = bed.command(&["down"]);
    assert_eq!(down.status.code(), Some(3));
    let text = format!("{}{}", down.text(), down.stderr);
    assert!(text.contains("cut cannot land") && text.contains("/taken.forebay-"), "{text}");
    // The job has ended, and its file is still where it was.
    let again = bed.command(&["down"]);
    assert!(again.status.code() == Some(3) && again.stderr.contains(" has not landed: on host "), "{}", again.stderr);
    bed.job.forget();
}

/// Times and modes of a file that others have changed stay, and so does the evidence that they have.
#[test]
fn attributes_of_what_others_have_changed_stay() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    let _ = bed.shell("echo ours > file").good();
    drain(&bed);
    append(&bed.backing().join("file"), "theirs\n");
    let theirs = fs::metadata(bed.backing().join("file")).unwrap();
    let _ = bed.shell("touch -d 2001-01-01 file; chmod 600 file").good();
    drain(&bed);
    let now = fs::metadata(bed.backing().join("file")).unwrap();
    assert_eq!((now.mtime(), now.mode()), (theirs.mtime(), theirs.mode()));
    let _ = bed.shell("echo more >> file").good();
    drain(&bed);
    assert_eq!(there(&bed, "file").as_deref(), Some("ours\ntheirs\n"));
    assert_eq!(there(&bed, &second(&bed, "file")).as_deref(), Some("ours\nmore\n"));
    let _ = bed.shell("rm file").good();
    bed.job.down();
}

/// A file of another user with the same length, time and inode number is his: it was made at another time.
#[test]
fn an_inode_number_that_others_have_got_again_is_theirs() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    let _ = bed.shell("echo ours > file").good();
    drain(&bed);
    let path = bed.backing().join("file");
    let landed = fs::metadata(&path).unwrap();
    let has_got = (0..TRIES).any(|_| {
        fs::remove_file(&path).unwrap();
        fs::write(&path, "them\n").unwrap();
        fs::metadata(&path).unwrap().ino() == landed.ino()
    });
    let times = FileTimes::new().set_modified(landed.modified().unwrap());
    File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
    println!("the inode number was given again: {has_got}");
    let _ = bed.shell("echo more > file").good();
    let said = drain(&bed);
    assert_eq!(said.status.code(), Some(3), "{} {}", said.text(), said.stderr);
    assert_eq!(there(&bed, "file").as_deref(), Some("them\n"));
    assert_eq!(there(&bed, &second(&bed, "file")).as_deref(), Some("more\n"));
    let _ = bed.shell("rm file").good();
    drain(&bed);
    assert_eq!(there(&bed, "file").as_deref(), Some("them\n"));
    bed.job.down();
}

/// Whatever the tier itself does to a file, by whatever name, it does not take for others' doing.
#[test]
fn changes_of_the_tier_itself_are_not_taken_for_others() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    fs::write(bed.backing().join("one"), "base\n").unwrap();
    fs::hard_link(bed.backing().join("one"), bed.backing().join("other")).unwrap();
    let scripts = [
        "echo first >> one",
        "echo second >> other",
        "chmod 600 one; touch -d 2001-01-01 one",
        "echo third >> one; ln one linked; mv one moved",
        "echo fourth >> linked; touch moved",
        "truncate -s 3 moved; rm linked",
        "echo fifth >> moved; echo new > new; mv new moved",
        "rm moved; echo again > moved",
    ];
    for script in scripts {
        let _ = bed.shell(script).good();
        let said = drain(&bed);
        assert!(said.status.success(), "{script}: {} {}", said.text(), said.stderr);
    }
    assert_eq!((second_names(&bed), there(&bed, "moved").as_deref()), (vec![], Some("again\n")));
    bed.job.down();
}

/// Names of one file in `BACKING`, there before the job or made by an earlier one, are one file: what is written through one is read through
/// the other, and none of it is lost.
#[test]
fn hard_links_that_were_there_are_one_file() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let backing = bed.backing();
    fs::write(backing.join("a"), "0123456789").unwrap();
    fs::create_dir(backing.join("d")).unwrap();
    for name in ["b", "d/c"] {
        fs::hard_link(backing.join("a"), backing.join(name)).unwrap();
    }
    let is = |what: &str| {
        for (node, name) in [0, 1].iter().flat_map(|node| ["a", "b", "d/c"].map(|name| (*node, name))) {
            assert_eq!(fs::read_to_string(bed.mount_of(node).join(name)).unwrap(), what, "{name} on {node}");
        }
    };
    let _ = bed.shell_on(1, "printf TAIL >> a; printf U | dd of=b conv=notrunc status=none").good();
    is("U123456789TAIL");
    bed.drain();
    is("U123456789TAIL");
    let _ = bed.shell_on(0, "printf X > d/c; printf YZ >> b").good();
    let inodes = bed.shell_on(1, "stat -c '%i %h' a b d/c | sort -u | wc -l").good().text();
    assert_eq!(inodes, "1\n");
    is("XYZ");
    // Of two names of one file, `rename` removes none.
    fs::rename(bed.mount().join("a"), bed.mount().join("b")).unwrap();
    is("XYZ");
    let _ = bed.shell_on(1, "rm b; mv a moved").good();
    bed.drain();
    let shown = ["a", "b", "moved", "d/c"].map(|name| there(&bed, name));
    assert_eq!(shown, [None, None, Some("XYZ".to_owned()), Some("XYZ".to_owned())]);
    assert_eq!(second_names(&bed), [""; 0]);
    bed.job.down();
}

/// Bytes that programs write to a name of a file before they remove or replace that name are in the file by its other names, also where the
/// job has never looked at these.
#[test]
fn a_hard_link_that_was_never_looked_at_shows_what_was_written_before_the_known_name_went() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    let backing = bed.backing();
    for directory in ["never", "late"] {
        fs::create_dir(backing.join(directory)).unwrap();
    }
    let links =
        ["removed", "replaced", "whole", "open"].map(|name| (name, "never")).into_iter().chain([("met", "late")]);
    for (name, directory) in links {
        fs::write(backing.join(name), "0123456789\n").unwrap();
        fs::hard_link(backing.join(name), backing.join(directory).join(name)).unwrap();
    }
    let script = "for f in removed replaced met; do printf NEW | dd of=$f conv=notrunc status=none; done; \
                  chmod 600 removed; rm removed met; echo other > new; mv new replaced; echo whole > whole; rm whole; \
                  exec 9<>open; printf BEF >&9; rm open; printf ORE >&9; exec 9>&-";
    let _ = bed.shell(script).good();
    let killed = bed.job.kill_daemon(0);
    wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(0).is_some_and(|pid| pid != killed));
    assert_eq!(bed.shell("cat late/met; stat -c %h late/met").good().text(), "NEW3456789\n1\n", "before it lands");
    bed.drain();
    let names = ["never/removed", "never/replaced", "never/whole", "never/open", "late/met", "replaced"];
    let shown = names.map(|name| there(&bed, name).unwrap());
    assert_eq!(shown, ["NEW3456789\n", "NEW3456789\n", "whole\n", "BEFORE6789\n", "NEW3456789\n", "other\n"]);
    assert_eq!(fs::metadata(backing.join("never/removed")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(["removed", "whole", "open", "met"].map(|name| there(&bed, name)), [None, None, None, None]);
    assert_eq!(second_names(&bed), [""; 0]);
    assert_eq!(bed.shell("cat never/*").good().text(), format!("BEFORE6789\n{0}{0}whole\n", "NEW3456789\n"));
    bed.job.down();
}

/// The same while everything lands at any time, of a file that a program keeps open.
#[test]
fn a_hard_link_that_was_never_looked_at_shows_what_a_program_wrote_through_a_descriptor() {
    require!(Fuse, Root);
    let bed = Bed::new();
    let backing = bed.backing();
    fs::create_dir(backing.join("never")).unwrap();
    fs::write(backing.join("open"), "0123456789\n").unwrap();
    fs::hard_link(backing.join("open"), backing.join("never/open")).unwrap();
    let mut open = File::options().read(true).write(true).open(bed.mount().join("open")).unwrap();
    open.write_all(b"whole file\n").unwrap();
    fs::remove_file(bed.mount().join("open")).unwrap();
    wait_until("its name has gone", PATIENCE, || there(&bed, "open").is_none());
    open.write_all(b"and later\n").unwrap();
    let killed = bed.job.kill_daemon(0);
    wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(0).is_some_and(|pid| pid != killed));
    drop(open);
    let is_there = || there(&bed, "never/open").as_deref() == Some("whole file\nand later\n");
    wait_until("its other name shows what was written", PATIENCE, is_there);
    bed.drain();
    assert_eq!(second_names(&bed), [""; 0]);
    bed.job.down();
}

/// A file of which others have removed or replaced a name is read, changed and removed by its other name.
#[test]
fn a_file_that_has_lost_one_of_its_names_to_others_is_found_by_the_other() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let backing = bed.backing();
    fs::create_dir(backing.join("d")).unwrap();
    for name in ["removed", "replaced"] {
        fs::write(backing.join(name), "0123456789\n").unwrap();
        fs::hard_link(backing.join(name), backing.join("d").join(name)).unwrap();
    }
    for node in [0, 1] {
        let _ = bed.shell_on(node, "stat removed replaced d/removed d/replaced").good();
    }
    fs::remove_file(backing.join("removed")).unwrap();
    fs::write(backing.join("theirs"), "theirs\n").unwrap();
    fs::rename(backing.join("theirs"), backing.join("replaced")).unwrap();
    for node in [0, 1] {
        let read = bed.shell_on(node, "cat d/removed d/replaced; getfattr -d d/removed d/replaced").good();
        assert_eq!(read.text(), "0123456789\n".repeat(2), "on node {node}");
    }
    let _ = bed.shell("chmod 600 d/removed; touch -d 2001-01-01 d/replaced; echo more >> d/replaced").good();
    bed.drain();
    assert_eq!(fs::metadata(backing.join("d/removed")).unwrap().mode() & 0o777, 0o600);
    let shown = ["removed", "replaced", "d/removed", "d/replaced"].map(|name| there(&bed, name).unwrap_or_default());
    assert_eq!(shown, ["", "theirs\n", "0123456789\n", "0123456789\nmore\n"]);
    bed.job.down();
}

/// A daemon that dies while it changes a file in place has changed it itself.
#[test]
fn changes_of_a_dead_daemon_are_not_taken_for_others() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end", "--drain-rate", "4MiB/s"]);
    let base = vec![b'b'; 16 << 20];
    fs::write(bed.backing().join("file"), &base).unwrap();
    let _ = bed.shell("head -c 12582912 /dev/zero | tr '\\0' o | dd of=file conv=notrunc bs=1M status=none").good();
    let before = fs::metadata(bed.backing().join("file")).unwrap().modified().unwrap();
    let _ = bed.command(&["drain"]);
    let is_changed = || fs::metadata(bed.backing().join("file")).unwrap().modified().unwrap() != before;
    wait_until("it is being changed", PATIENCE, is_changed);
    let killed = bed.job.kill_daemon(0);
    let ours = 12 << 20;
    assert_ne!(fs::read(bed.backing().join("file")).unwrap()[ours - 1], b'o', "the daemon has died meanwhile");
    wait_until("a daemon serves again", PATIENCE, || bed.job.daemon(0).is_some_and(|pid| pid != killed));
    bed.drain();
    let landed = fs::read(bed.backing().join("file")).unwrap();
    assert!(landed[..ours].iter().all(|byte| *byte == b'o') && landed[ours..] == base[ours..]);
    assert_eq!(second_names(&bed), [""; 0]);
    bed.job.down();
}

/// Parts of the job's file that are only there are copied at the drain's rate, as all writes that land.
#[test]
fn a_copy_of_what_others_have_changed_keeps_to_the_rate() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end", "--drain-rate", "4MiB/s"]);
    let path = bed.backing().join("file");
    fs::write(&path, vec![b'b'; 12 << 20]).unwrap();
    let _ = bed.shell("printf ours | dd of=file conv=notrunc bs=1 status=none").good();
    append(&path, "theirs");
    let began = Instant::now();
    drain(&bed);
    assert!(began.elapsed() >= Duration::from_secs(2), "it took {:?}", began.elapsed());
    let landed = fs::read(bed.backing().join(second(&bed, "file"))).unwrap();
    assert!(landed.len() == 12 << 20 && landed.starts_with(b"oursb") && landed[4..].iter().all(|byte| *byte == b'b'));
    let _ = bed.shell("rm file").good();
    drain(&bed);
    bed.job.down();
}

/// The leader has its own part at hand, and does not begin with it.
#[test]
fn a_file_stays_as_it_was_where_a_node_with_new_bytes_is_lost() {
    require!(Fuse, Root);
    let bed = Bed::with(2, &[]);
    let _ = bed.shell("yes old | head -c 100000 > file").good();
    let _ = drain(&bed);
    let old = there(&bed, "file").unwrap();
    let mut open = File::options().write(true).open(bed.mount().join("file")).unwrap();
    let script = "yes new | head -c 5000 | dd of=file bs=5000 seek=2 iflag=fullblock conv=notrunc status=none";
    let _ = bed.shell_on(1, script).good();
    open.write_all(b"begun").unwrap();
    let daemon = bed.job.daemon(1).unwrap();
    bed.job.kill_keeper(1);
    wait_until("the daemon of a keeper that has died ends", PATIENCE, || bed.job.daemon(1) != Some(daemon));
    drop(open);
    // It waits for the node for some seconds.
    let said = drain(&bed);
    assert_eq!(said.status.code(), Some(3), "{} {}", said.text(), said.stderr);
    assert!(there(&bed, "file").unwrap() == old, "it is changed in part");
    // No file is left that cannot land.
    let _ = bed.shell("rm file").good();
}
