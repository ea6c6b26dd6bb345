//! A device that fails: all callers get an error, now and later, and none hangs.

use std::env;
use std::path::Path;
use std::process::Command;

use forebay_log::LogError;
use forebay_types::Errno;
use forebay_wire::log_record::RecordData;
use nix::sys::resource::{Resource, setrlimit};

use crate::fixture::{FILE, SEGMENT_BYTES, contents, directory, open, segment, store};

const STORE: &str = "FOREBAY_LOG_TEST_FAILING";

/// The child: the kernel refuses writes behind the middle of a segment, which was made before.
#[test]
fn appends_until_writes_fail() {
    let Some(path) = env::var_os(STORE) else { return };
    let log = open(Path::new(&path), 8);
    let before = log.append_data(RecordData::written(FILE, 0), &contents(0, 4000)).unwrap();
    log.commit(log.end()).unwrap();
    await_segment(&segment(Path::new(&path), before.position.segment + 2));
    setrlimit(Resource::RLIMIT_FSIZE, u64::from(SEGMENT_BYTES) / 2, u64::from(SEGMENT_BYTES) / 2).unwrap();
    let outcomes = std::thread::scope(|scope| {
        let work = |thread: u64| {
            for tag in 0..100 {
                let end = log.append_data(RecordData::written(FILE, 0), &contents(thread + tag, 3000))?.sequence.next();
                log.commit(end)?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<Result<(), LogError>>>()
    });
    let failed = LogError::Failed(Errno::EFBIG);
    assert_eq!(outcomes, [Err(failed); 4]);
    assert_eq!(failed.errno(), Errno::EIO);
    assert_eq!(log.append_note(b""), Err(failed));
    assert_eq!(log.commit(log.end()), Err(failed));
    assert_eq!(log.commit(before.sequence.next()), Ok(()), "it was durable before");
    assert_eq!(log.read_record(before.position).unwrap().1, contents(0, 4000));
    assert_eq!(log.checkpoint(log.end(), b""), Err(failed));
}

/// The log makes its next segments automatically, which is not the failure to test.
fn await_segment(last: &Path) {
    let is_whole = || std::fs::metadata(last).is_ok_and(|found| found.len() == u64::from(SEGMENT_BYTES));
    while !is_whole() {
        std::thread::yield_now();
    }
}

#[test]
fn a_failing_device_is_told_to_everybody() {
    let directory = directory();
    // SIGXFSZ would end the child; what a shell ignores its commands ignore.
    let status = Command::new("sh")
        .args(["-c", "trap '' 25; exec \"$0\" --exact failures::appends_until_writes_fail --nocapture"])
        .arg(env::current_exe().unwrap())
        .env(STORE, store(&directory))
        .status()
        .unwrap();
    assert!(status.success());
}
