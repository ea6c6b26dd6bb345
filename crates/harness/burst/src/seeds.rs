//! Runs one seed in this process, or many, each in a process of its own.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::reached::{REACHES, counts};
use crate::scenario::Scenario;
use crate::{calls, files, log, symbols, turns};

/// So many seeds reach every kind of event.
const SEEDS_THAT_REACH_ALL: u64 = 100;

/// Where files live in memory.
const MEMORY: &str = "/dev/shm";

/// The seeds that `FIRST..END` names, of which there is one at least.
pub fn range(text: &str) -> Option<Range<u64>> {
    let (first, end) = text.split_once("..")?;
    let range = first.parse().ok()?..end.parse().ok()?;
    (!range.is_empty()).then_some(range)
}

/// Runs a seed: what is wrong, and what was reached, goes to standard output.
pub fn run_one(seed: u64, segments: u64, is_told: bool) -> ExitCode {
    let memory = if Path::new(MEMORY).is_dir() { PathBuf::from(MEMORY) } else { std::env::temp_dir() };
    // As long for every process: stores have it in their heads.
    let root = memory.join(format!("forebay-burst-sim-{:010}", std::process::id()));
    for directory in ["backing", "kept"] {
        if let Err(error) = std::fs::create_dir_all(root.join(directory)) {
            eprintln!("{}: {error}", root.display());
            return ExitCode::from(2);
        }
    }
    raise_descriptors();
    if is_told {
        log::tell();
        let level = tracing::Level::INFO;
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .without_time()
            .with_writer(std::io::stdout)
            .init();
    }
    symbols::begin();
    files::begin(&root);
    turns::begin(seed);
    calls::begin();
    Scenario::new(seed, segments, &root).run();
    let wrong = log::all_wrong();
    for what in wrong.iter().take(10) {
        println!("wrong {what}");
    }
    let counts: Vec<String> = counts().iter().map(u64::to_string).collect();
    let (history, turns) = turns::history();
    println!("reached {}", counts.join(" "));
    println!("history {history:016x} of {turns} turns, {:.1} s", turns::now_ns() as f64 / 1e9);
    let _ = std::fs::remove_dir_all(&root);
    // Threads of lives that have ended wait for a turn that does not come.
    std::process::exit(i32::from(!wrong.is_empty()));
}

fn raise_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` may be written, and is read.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}

/// The output of a process for a seed.
struct Said {
    seed: u64,
    lines: Vec<String>,
    is_right: bool,
}

/// Runs seeds, two at a time.
pub fn run_all(seeds: Range<u64>, segments: u64) -> ExitCode {
    let next = AtomicU64::new(seeds.start);
    let all = Mutex::new(vec![]);
    let total = seeds.end - seeds.start;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let said = run_in_process(seed, segments);
                    if !said.is_right {
                        tell(&said, segments);
                    }
                    if let Ok(mut all) = all.lock() {
                        all.push(said);
                    }
                }
            });
        }
    });
    let all = all.into_inner().unwrap_or_default();
    let mut failing = all.iter().filter(|said| !said.is_right).count();
    let mut reached = vec![0; REACHES.len()];
    for line in all.iter().flat_map(|said| &said.lines).filter_map(|line| line.strip_prefix("reached ")) {
        line.split(' ').zip(&mut reached).for_each(|(count, sum)| *sum += count.parse::<u64>().unwrap_or(0));
    }
    for (reach, count) in REACHES.iter().zip(&reached) {
        println!("{count:>9} {reach}");
        if *count == 0 && total >= SEEDS_THAT_REACH_ALL {
            println!("none of these seeds reaches: {reach}");
            failing += 1;
        }
    }
    println!("{total} seeds, {failing} failing");
    if failing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_in_process(seed: u64, segments: u64) -> Said {
    let program = std::env::current_exe().unwrap_or_default();
    let [segments, number] = [segments, seed].map(|number| number.to_string());
    let output = Command::new(program).args(["--segments", &segments, "--seed", &number]).stdin(Stdio::null()).output();
    match output {
        Err(error) => Said { seed, lines: vec![format!("wrong process: {error}")], is_right: false },
        Ok(output) => {
            let mut lines: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
            if !output.status.success() {
                lines.extend(String::from_utf8_lossy(&output.stderr).lines().map(|line| format!("wrong {line}")));
            }
            Said { seed, lines, is_right: output.status.success() }
        }
    }
}

fn tell(said: &Said, segments: u64) {
    let seed = said.seed;
    println!("seed {seed}:");
    for line in said.lines.iter().filter_map(|line| line.strip_prefix("wrong ")) {
        println!("  {line}");
    }
    println!(
        "  again, with a log: cargo run --release -p forebay-burst-sim -- --segments {segments} --seed {seed} --log"
    );
}
