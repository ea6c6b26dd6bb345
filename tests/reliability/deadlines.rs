//! Requests that the file system does not answer: they end when their time is over, and the error says so.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use forebay_testkit::model::Parameters;
use forebay_tests::{Job, Sandbox, require, tree};
use rustix::io::Errno;

use crate::hangs::{Hanging, SLOW_LISTINGS};

/// The deadline of these jobs.
const DEADLINE: Duration = Duration::from_secs(4);

/// The deadline that a node has without the option is 30 seconds.
const TIME_MAX: Duration = Duration::from_secs(24);

/// A file system that is not slow before it hangs.
const PROMPT: Parameters = Parameters { link_bits_per_second: 1_000_000_000, ..SLOW_LISTINGS };

/// On the node that reads the file system and on one that asks it.
#[test]
fn callers_of_a_hanging_file_system_are_answered_at_the_deadline() {
    require!(Fuse, Root);
    let hanging = Hanging::with(PROMPT, |source| tree::write(&source.join("file"), b"contents"));
    let deadline = format!("{}s", DEADLINE.as_secs());
    let options = ["--fanout", "2", "--prefetch", "false", "--deadline", &deadline];
    let job = Job::up_local(Sandbox::new(), 3, &hanging.export, &options);
    hanging.model.hang();
    let file = hanging.export.join("file");
    thread::scope(|scope| {
        let asked = [0, 2].map(|rank| {
            let path = job.path(rank, &file);
            scope.spawn(move || {
                let began = Instant::now();
                (fs::read(path).unwrap_err(), began.elapsed())
            })
        });
        for asked in asked {
            let (error, took) = asked.join().unwrap();
            assert_eq!(error.raw_os_error(), Some(Errno::TIMEDOUT.raw_os_error()), "{error}");
            assert!(took < TIME_MAX, "{took:?}");
        }
    });
    hanging.model.go_on();
    assert_eq!(fs::read(job.path(2, &file)).unwrap(), b"contents", "what was told once is asked again");
    job.down();
}
