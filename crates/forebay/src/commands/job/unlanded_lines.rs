//! The notes about a job's files that have not landed, as `down`, `status` and `report` print them when the job is not up.

use std::sync::mpsc;
use std::time::Duration;

use crate::kept_logs;
use crate::unlanded::{self, Unlanded};

/// How long a command waits for the home directory.
const WAIT: Duration = Duration::from_millis(200);

/// The notes of a job that is not up, as lines. If the home directory does not answer in time, the line says that.
pub fn told(job: &str) -> Vec<String> {
    let (sender, looked) = mpsc::channel();
    let of = job.to_owned();
    std::thread::spawn(move || sender.send(unlanded::look(&of)));
    let Ok((lines, has_landed)) = looked.recv_timeout(WAIT) else {
        return vec![format!(
            "whether files of job {job} have not landed is not known: the home directory does not answer"
        )];
    };
    if has_landed {
        kept_logs::keep_note(job, Unlanded::none());
    }
    lines
}
