//! Whole jobs of the burst tier, as it ships, in virtual time: writers, the leader, its standby, partners, and what
//! lands, with faults, by seed.
//!
//! Every node runs the driver that daemons run (`forebay_daemon::Driver`), on its real log and with real files, and no line of it is
//! another than on a machine. Its threads take `turns`, one at a time, as the seed says: this process answers the system `calls` that
//! wait, and defines the `symbols` of the C library that read clocks and begin threads. `files` are the nodes' disks and the
//! backing file system: directories whose calls take time, fail and hang; a `disk` forgets at a cut of the power what was not
//! synced. A `node` has a `mount`, whose kernel is played here, and daemons on a `machine`, which die, stand still and follow each
//! other. A `program` writes `contents` that say what they are; the `oracle` knows what must be found, `reached` counts what a history
//! has met, and `scenario` makes it from a seed.
//!
//! One process runs one seed: what is left of daemons that have died ends with it.

// The harness trusts its own tables; what it finds wrong goes into the report.
#![allow(clippy::missing_panics_doc, missing_docs)]

mod calls;
mod contents;
mod disk;
mod files;
mod log;
mod machine;
mod mount;
mod node;
mod oracle;
mod pass;
mod program;
mod reached;
mod scenario;
mod seeds;
mod status;
mod symbols;
mod turns;

use std::process::ExitCode;

const USAGE: &str = "usage: forebay-burst-sim [--segments N] [--seeds FIRST..END | --seed N [--log]]";

/// Segments of each node's store, where nothing is said.
const SEGMENTS: u64 = 8;

fn main() -> ExitCode {
    forebay_daemon::end_the_process();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (segments, words) = match words[..] {
        ["--segments", segments, ..] => (segments.parse().ok(), &words[2..]),
        _ => (Some(SEGMENTS), &words[..]),
    };
    let Some(segments) = segments else { return usage() };
    match words[..] {
        ["--seed", seed] | ["--seed", seed, "--log"] => match seed.parse() {
            Ok(seed) => seeds::run_one(seed, segments, words.len() == 3),
            Err(_) => usage(),
        },
        ["--seeds", range] => match seeds::range(range) {
            Some(range) => seeds::run_all(range, segments),
            None => usage(),
        },
        [] => seeds::run_all(0..200, segments),
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}
