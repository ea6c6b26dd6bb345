//! A program that waits for another node keeps no other program waiting.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_tests::require;

use crate::bed::Bed;

/// Longer than a node waits until it asks for the room of its store, several times.
const ROUNDS: Duration = Duration::from_millis(2500);

/// Fewer writes than a node commits at once: the owner has to hear of so many.
const PACE: Duration = Duration::from_millis(10);

/// The owner stands still while a file is closed that it has not heard of. Writes to another file go on until after that.
#[test]
fn a_close_that_waits_for_the_owner_stops_no_write() {
    require!(Fuse, Root);
    let bed = Bed::of(2);
    let made = |name: &str| {
        let file = File::create(bed.mount_of(1).join(name)).unwrap();
        file.write_all_at(b"first", 0).unwrap();
        file
    };
    let (closed, open) = (made("closed"), made("open"));
    open.sync_all().unwrap();
    let has_closed = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        bed.while_it_stands_still(0, || {
            scope.spawn(|| {
                drop(closed);
                has_closed.store(true, Ordering::SeqCst);
            });
            let began = Instant::now();
            let mut written = 0;
            while began.elapsed() < ROUNDS {
                open.write_all_at(&[7; 4096], written * 4096).unwrap();
                written += 1;
                std::thread::sleep(PACE);
            }
            assert!(!has_closed.load(Ordering::SeqCst), "the close waited, and the {written} writes with it");
            written
        })
    });
    assert!(has_closed.load(Ordering::SeqCst));
    drop(open);
    assert_eq!(std::fs::metadata(bed.mount().join("open")).unwrap().len(), written * 4096);
    assert_eq!(std::fs::read(bed.mount().join("closed")).unwrap(), b"first");
    bed.job.down();
}
