//! Others change the directory that the tier lands in.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use forebay_tests::program::{Finished, run};
use forebay_tests::{Sandbox, require};
use rustix::fs::{CWD, RenameFlags};

use crate::bed::{Bed, arguments};
use crate::promise::Shell;

/// Ends before its time when all has landed, under whatever names.
pub fn drain(bed: &Bed) -> Finished {
    bed.command(&["drain", "--wait", "--timeout", "20s"])
}

/// The contents at a name on the backing file system.
pub fn there(bed: &Bed, name: &str) -> Option<String> {
    fs::read_to_string(bed.backing().join(name)).ok()
}

pub fn second(bed: &Bed, name: &str) -> String {
    format!("{name}.forebay-{}", bed.job.sandbox.name)
}

#[test]
fn files_that_others_put_at_a_name_are_left_alone() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    let _ = bed
        .shell("ls; echo ours > new; ln -s target link; mkdir d; echo ours > d/f; mkfifo p; echo behind > behind")
        .good();
    let backing = bed.backing();
    for name in ["new", "link", "d", "p"] {
        fs::write(backing.join(name), "theirs\n").unwrap();
    }
    let said = drain(&bed);
    assert_eq!(said.status.code(), Some(3), "{} {}", said.text(), said.stderr);
    assert!(
        said.text().contains(&second(&bed, "new")) || said.text().contains("other files likewise"),
        "{}",
        said.text()
    );
    for name in ["new", "link", "d", "p"] {
        assert_eq!(there(&bed, name).as_deref(), Some("theirs\n"), "{name}");
    }
    assert_eq!(there(&bed, &second(&bed, "new")).as_deref(), Some("ours\n"));
    assert_eq!(fs::read_link(backing.join(second(&bed, "link"))).unwrap().to_str(), Some("target"));
    assert_eq!(there(&bed, &format!("{}/f", second(&bed, "d"))).as_deref(), Some("ours\n"));
    assert_eq!(there(&bed, "behind").as_deref(), Some("behind\n"), "what comes after does not wait");
    let landed = bed.landed("new");
    assert_eq!(landed["state"], "landed");
    assert!(landed["why"].as_str().unwrap().contains(&second(&bed, "new")), "{landed}");

    // The tree has one name for it, whatever it is called there.
    let _ = bed.shell("echo more >> new").good();
    drain(&bed);
    assert_eq!(there(&bed, &second(&bed, "new")).as_deref(), Some("ours\nmore\n"));
    let _ = bed.shell("cat new; mv new other; rm link p; rm -r d").good();
    let said = drain(&bed);
    assert!(said.status.success(), "nothing is aside any more: {} {}", said.text(), said.stderr);
    assert_eq!(there(&bed, "other").as_deref(), Some("ours\nmore\n"));
    let mut names: Vec<_> = fs::read_dir(&backing).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["behind", "d", "link", "new", "other", "p"]);
    bed.job.down();
}

/// Even if it is of the kind that the tree brings: nothing is changed of it, and it is not used.
#[test]
fn files_that_others_put_at_a_name_keep_mode_and_owner() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    let script = "ls; mkdir -m 700 d; echo ours > d/f; ln -s target link; mkfifo -m 600 p; echo ours > file; echo ours > other; \
                  echo ours > third; echo behind > behind";
    let _ = bed.shell(script).good();
    let backing = bed.backing();
    let theirs = "umask 022; mkdir d third; ln -s target link; ln -s /nowhere other; mkfifo p file; chown -h 1234 *; \
                  stat -c '%n %F %u %a' * > ../theirs";
    let at = |script: &str| run(Command::new("sh").args(["-euc", script]).current_dir(&backing)).good().text();
    at(theirs);
    let said = drain(&bed);
    assert_eq!(said.status.code(), Some(3), "{} {}", said.text(), said.stderr);
    assert_eq!(at("stat -c '%n %F %u %a' d third link other p file | sort"), at("sort ../theirs"));
    assert_eq!(at("ls d third"), "d:\n\nthird:\n", "nothing of ours is in there");
    for name in ["file", "other", "third"] {
        assert_eq!(there(&bed, &second(&bed, name)).as_deref(), Some("ours\n"), "{name}");
    }
    assert_eq!(there(&bed, &format!("{}/f", second(&bed, "d"))).as_deref(), Some("ours\n"));
    let mode =
        |name: &str| fs::symlink_metadata(backing.join(second(&bed, name))).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("d"), mode("p")), (0o700, 0o600));
    assert_eq!(fs::read_link(backing.join(second(&bed, "link"))).unwrap().to_str(), Some("target"));
    assert_eq!(there(&bed, "behind").as_deref(), Some("behind\n"), "what comes after does not wait");
    let _ = bed.shell("rm -r d third link other p file").good();
    let said = drain(&bed);
    assert!(said.status.success(), "nothing is aside any more: {} {}", said.text(), said.stderr);
    assert_eq!(at("stat -c '%n %F %u %a' d third link other p file | sort"), at("sort ../theirs"));
    bed.job.down();
}

/// A step of which a part fails is taken again, and finds what it has made itself.
#[test]
fn a_file_that_cannot_get_its_owner_is_not_taken_for_anothers() {
    require!(Fuse, Root, Command("setpriv"));
    let sandbox = Sandbox::without("chown");
    fs::create_dir(sandbox.base().join("backing")).unwrap();
    let mut words = arguments(&sandbox, 1);
    words.extend(["--drain".to_owned(), "end".to_owned()]);
    let bed = Bed::up_with(sandbox, &words);
    // In a tree that has just begun, and in one that has landed something.
    for round in 0..2 {
        let _ = bed.shell("mkdir d; chown 1234 d; echo ours > d/f; mkfifo p; chown 1234 p").good();
        let said = bed.command(&["drain", "--wait", "--timeout", "3s"]);
        assert_eq!(said.status.code(), Some(3), "{} {}", said.text(), said.stderr);
        assert!(format!("{}{}", said.text(), said.stderr).contains("not permitted"), "{} {}", said.text(), said.stderr);
        let _ = bed.shell("chown 0 d p").good();
        let said = drain(&bed);
        assert!(said.status.success(), "round {round}: {} {}", said.text(), said.stderr);
        assert_eq!(there(&bed, "d/f").as_deref(), Some("ours\n"));
        let names =
            fs::read_dir(bed.backing()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<BTreeSet<_>>();
        assert_eq!(names, ["d", "p"].map(OsString::from).into(), "round {round}");
        let _ = bed.shell("rm -r d p").good();
        assert!(drain(&bed).status.success());
    }
    bed.job.down();
}

#[test]
fn files_that_others_take_away_are_reported_and_hold_back_no_other() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    let backing = bed.backing();
    for name in ["replaced", "removed", "moved", "linked"] {
        fs::write(backing.join(name), "base\n").unwrap();
    }
    fs::create_dir(backing.join("d")).unwrap();
    let script = "echo ours >> replaced; echo ours >> removed; mv moved elsewhere; ln linked again; rm -r d; echo behind > behind";
    let _ = bed.shell(script).good();
    fs::write(backing.join("theirs"), "theirs\n").unwrap();
    fs::rename(backing.join("theirs"), backing.join("replaced")).unwrap();
    ["removed", "moved", "linked"].iter().for_each(|name| fs::remove_file(backing.join(name)).unwrap());
    fs::write(backing.join("d/theirs"), "theirs\n").unwrap();
    let said = drain(&bed);
    assert_eq!(said.status.code(), Some(3), "{} {}", said.text(), said.stderr);
    assert!(said.text().contains("which others have removed or replaced"), "{}", said.text());
    assert_eq!(there(&bed, "replaced").as_deref(), Some("theirs\n"));
    assert_eq!((there(&bed, "removed"), there(&bed, "elsewhere"), there(&bed, "again")), (None, None, None));
    assert_eq!(there(&bed, "behind").as_deref(), Some("behind\n"));
    assert_eq!(there(&bed, "d/theirs").as_deref(), Some("theirs\n"));
    let landed = bed.landed("removed");
    assert_eq!((&landed["state"], &landed["missing"]), (&"lost".into(), &serde_json::json!([[0, 5]])), "{landed}");

    let _ = bed.shell("echo whole > removed; echo whole > replaced").good();
    drain(&bed);
    assert_eq!(there(&bed, "removed").as_deref(), Some("whole\n"), "written whole again, it lands");
    assert_eq!(there(&bed, "replaced").as_deref(), Some("theirs\n"));
    assert_eq!(there(&bed, &second(&bed, "replaced")).as_deref(), Some("whole\n"));
    let _ = bed.shell("rm elsewhere again linked replaced").good();
    let said = drain(&bed);
    assert!(said.status.success(), "{} {}", said.text(), said.stderr);
    assert_eq!(there(&bed, "replaced").as_deref(), Some("theirs\n"));
    bed.job.down();
}

#[test]
fn directories_that_others_take_away_are_made_again_for_what_lands_in_them() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    let backing = bed.backing();
    let _ = bed.shell("mkdir -p a/b; chmod 750 a; echo first > a/b/first").good();
    drain(&bed);
    fs::remove_dir_all(backing.join("a")).unwrap();
    let _ = bed.shell("echo second > a/b/second; ln -s target a/b/link; mkdir a/c; mv a/b/first a/first").good();
    let said = drain(&bed);
    assert_eq!(there(&bed, "a/b/second").as_deref(), Some("second\n"), "{} {}", said.text(), said.stderr);
    assert!(backing.join("a/b/link").is_symlink() && backing.join("a/c").is_dir());
    assert_eq!(fs::metadata(backing.join("a")).unwrap().permissions().mode() & 0o777, 0o750);
    assert_eq!(there(&bed, "a/first"), None, "what they took stays away");
    let _ = bed.shell("mkdir moved").good();
    drain(&bed);
    fs::remove_dir(backing.join("moved")).unwrap();
    let _ = bed.shell("mv moved to; echo within > to/within").good();
    drain(&bed);
    assert_eq!(there(&bed, "to/within").as_deref(), Some("within\n"), "it moves with what lands in it");
    assert_eq!(bed.landed("a/first")["state"], "lost");
    fs::remove_dir_all(backing.join("a")).unwrap();
    let _ = bed.shell("rm -r a; echo behind > behind").good();
    let said = drain(&bed);
    assert!(said.status.success(), "what is to go is gone: {} {}", said.text(), said.stderr);
    assert_eq!(there(&bed, "behind").as_deref(), Some("behind\n"));
    bed.job.down();
}

#[test]
fn names_are_exchanged_with_what_others_have_left() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    let _ = bed.shell("echo one > one; echo two > two").good();
    drain(&bed);
    fs::remove_file(bed.backing().join("one")).unwrap();
    let [one, two] = ["one", "two"].map(|name| bed.mount().join(name));
    rustix::fs::renameat_with(CWD, &one, CWD, &two, RenameFlags::EXCHANGE).unwrap();
    let _ = bed.shell("echo behind > behind").good();
    let said = drain(&bed);
    assert_eq!(there(&bed, "behind").as_deref(), Some("behind\n"), "{} {}", said.text(), said.stderr);
    assert_eq!((there(&bed, "one").as_deref(), there(&bed, "two")), (Some("two\n"), None));
    let _ = bed.shell("rm two").good();
    bed.job.down();
}

/// A file that others have put in the place of one that is removed from the tree before the removal lands is not removed.
#[test]
fn files_that_others_put_in_place_of_a_removed_one_stay() {
    require!(Fuse, Root);
    let bed = Bed::with(1, &["--drain", "end"]);
    let _ = bed.shell("echo ours > file; echo ours > kept").good();
    drain(&bed);
    fs::write(bed.backing().join("theirs"), "theirs\n").unwrap();
    fs::rename(bed.backing().join("theirs"), bed.backing().join("file")).unwrap();
    let _ = bed.shell("rm file kept").good();
    drain(&bed);
    assert_eq!((there(&bed, "file").as_deref(), there(&bed, "kept")), (Some("theirs\n"), None));
    bed.job.down();
}

/// Users who may write to a directory see the names of drafts there.
#[test]
fn a_directory_at_the_name_of_a_draft_that_is_to_go_stays_and_holds_nothing_back() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let mut program = Shell::new(&bed.mount_of(1));
    assert_eq!(program.says("echo a > a"), "");
    bed.drain();
    assert_eq!(program.says("exec 9< a; rm a"), "");
    bed.drain();
    let draft = fs::read_dir(bed.backing()).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(&draft).unwrap();
    fs::create_dir(&draft).unwrap();
    assert_eq!(program.says("cat <&9; exec 9<&-; echo b > b"), "a\n", "the daemon has it open");
    bed.drain();
    assert_eq!(fs::read_to_string(bed.backing().join("b")).unwrap(), "b\n");
    assert!(draft.is_dir());
    program.end();
    bed.job.down();
}
