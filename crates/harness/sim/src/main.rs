//! Runs seeds of the simulated job: many, or one with a log of what happens.

use std::io::Write;
use std::ops::Range;
use std::process::ExitCode;

use forebay_sim::reached::{REACHES, Reached};
use forebay_sim::scenario::{SEEDS_THAT_REACH_ALL, reports};

/// Prints a line; ends when nobody reads on.
macro_rules! say {
    ($($argument:tt)*) => {
        if writeln!(std::io::stdout(), $($argument)*).is_err() {
            std::process::exit(1);
        }
    };
}

const USAGE: &str = "usage: forebay-sim [--seeds FIRST..END] [--seed N [--log]]";

fn main() -> ExitCode {
    forebay_daemon::end_the_process();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let seeds = match words[..] {
        ["--seed", seed] | ["--seed", seed, "--log"] => {
            seed.parse().ok().and_then(|seed: u64| Some(seed..seed.checked_add(1)?))
        }
        ["--seeds", range] => {
            range.split_once("..").and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?))
        }
        [] => Some(0..200),
        _ => None,
    };
    // No seed at all would be a run in which nothing can fail.
    let Some(seeds) = seeds.filter(|seeds: &Range<u64>| !seeds.is_empty()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let log = words.last() == Some(&"--log");
    let total = seeds.end - seeds.start;
    let (mut failing, mut longest, mut reached) = (0u32, std::time::Duration::ZERO, Reached::default());
    for report in reports(seeds, log) {
        for line in &report.log {
            say!("{line}");
        }
        longest = longest.max(report.longest);
        reached.join(&report.reached);
        if !report.wrong.is_empty() {
            let seed = report.seed;
            failing += 1;
            say!("seed {seed}: {} nodes, faults {:?}", report.nodes, report.faults);
            for wrong in report.wrong.iter().take(10) {
                say!("  {wrong}");
            }
            say!("  again, with a log: cargo run --release -p forebay-sim -- --seed {seed} --log");
        }
    }
    for reach in REACHES {
        say!("{:>9} {reach}", reached.of(reach));
    }
    if total >= SEEDS_THAT_REACH_ALL {
        let missed = reached.missed();
        failing += missed.len() as u32;
        missed.iter().for_each(|reach| say!("none of these seeds reaches: {reach}"));
    }
    say!("{total} seeds, {failing} failing, longest request {longest:?}");
    if failing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
