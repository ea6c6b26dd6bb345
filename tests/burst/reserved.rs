//! Names that the tier itself gives on the backing file system.

use std::ffi::OsStr;
use std::fs;

use forebay_tests::require;

use crate::bed::{Bed, arguments};

/// As an earlier version has named a draft, and this one does.
const DRAFT: &str = ".forebay-draft-710c1efef488a4023cb087c238dd0081";

/// Such a file landed, and the next job could not see it.
#[test]
fn the_next_job_sees_files_with_names_like_drafts() {
    require!(Fuse, Root);
    let bed = Bed::new();
    let names = [".forebay-draft-x", ".forebay-draft-", ".forebay-stage-x", ".forebay-draft-link-x"];
    for name in names {
        let _ = bed.shell(&format!("echo {name} > {name}")).good();
    }
    let _ = bed.command(&["down"]).good();
    let words = arguments(&bed.job.sandbox, 1);
    let again = bed.job.sandbox.up(&words.iter().map(OsStr::new).collect::<Vec<_>>());
    assert!(again.status.success(), "{}", again.stderr);
    for name in names {
        assert_eq!(fs::read_to_string(bed.mount().join(name)).unwrap(), format!("{name}\n"));
    }
    bed.job.down();
}

/// A draft of an earlier job that is gone stays where it is, and is not in the tree.
#[test]
fn programs_cannot_give_the_names_of_drafts() {
    require!(Fuse, Root, Command("python3"));
    let bed = Bed::new();
    let _ = bed.shell("echo x > x; mkdir d").good();
    let ways = ["echo > N", "mkdir N", "ln -s x N", "ln x N", "mkfifo N", "mv x N", "mv d N"];
    for way in ways {
        let refused = bed.shell(&way.replace('N', DRAFT));
        assert!(!refused.status.success() && refused.stderr.contains("not permitted"), "{way}: {}", refused.stderr);
    }
    assert_eq!(bed.shell("ls -A").good().text(), "d\nx\n");
    bed.drain();
    fs::write(bed.backing().join(DRAFT), "of a store that is gone").unwrap();
    bed.job.down();
}
