//! The cost of `forebay run`: the time it adds to a command, and whether the ranks of a node share what they have read.
//!
//! The time is that of `forebay run -- true` less that of `true`, one after the other, run by run: of the first program of
//! a node, which makes the namespace, and of later ones, which enter it; as root, and without the right to mount, as any
//! user is, which takes a user namespace too.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use forebay_bench::cpu;
use forebay_bench::job::Job;
use forebay_testkit::results::{Bar, Measurement, Samples, Side};

use crate::bench::{Bench, ms};

/// Processes of a node in a usual job.
const RANKS: usize = 12;

/// Bytes of the file that they all read.
const FILE_BYTES: u64 = 64 << 20;

/// The most that all may request together, over the file's size. Without a shared page cache it would be the number of ranks; a
/// machine may drop a page while they read, which is then read again.
const SHARED_MAX: f64 = 1.01;

/// The users that start a program: root, or root without the right to mount.
const STARTERS: [(&str, &[&str]); 2] =
    [("root", &[]), ("user", &["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"])];

/// Measures `forebay run`.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let mut measurement = Measurement::under(format!(
        "forebay run -- true less true alone, run by run, medians; user: without CAP_SYS_ADMIN, in a user namespace. {RANKS} \
         processes at once read a file of {} MiB at its own path, cold; the kernel's READ requests over its size",
        FILE_BYTES >> 20
    ));
    for (name, prefix) in STARTERS {
        let (first, later) = added(bench, prefix)?;
        for (what, Added { wall_ms, cpu_ms }) in [("first", first), ("later", later)] {
            let words = format!("forebay run adds, {name}, {what} program");
            measurement
                .bar(Bar::new(words, wall_ms.median(), Side::AtMost, 10.0, "ms"))
                .figure(&format!("{name}_{what}_added_ms"), wall_ms)
                .figure(&format!("{name}_{what}_added_cpu_ms"), cpu_ms);
        }
    }
    let asked = asked_by_all(bench)?;
    let what = format!("bytes read by {RANKS} ranks, over the file's");
    let shared = Bar::new(what, asked, Side::AtMost, SHARED_MAX, "x");
    measurement.bar(shared).figure("ranks_read_over_file", asked);
    Ok(measurement)
}

/// The time that `forebay run` adds.
#[derive(Default)]
struct Added {
    wall_ms: Samples,
    /// Of the command itself, without keeper and daemon.
    cpu_ms: Samples,
}

/// To the first program of a node, and to later ones.
fn added(bench: &Bench, prefix: &[&str]) -> anyhow::Result<(Added, Added)> {
    let (mut first, mut later) = (Added::default(), Added::default());
    for _ in 0..bench.runs(9) {
        let job = bench.up_local(1, &bench.tree, &[])?;
        add_once(&job, prefix, &mut first)?;
        for _ in 0..bench.runs(21) {
            add_once(&job, prefix, &mut later)?;
        }
        job.down()?;
    }
    Ok((first, later))
}

fn add_once(job: &Job, prefix: &[&str], added: &mut Added) -> anyhow::Result<()> {
    let prefixed = |words: &[OsString]| -> Vec<OsString> {
        prefix.iter().map(OsString::from).chain(words.iter().cloned()).collect()
    };
    let bare = took_ms(job.surrounded(&prefixed(&["true".into()])))?;
    let run = took_ms(job.surrounded(&prefixed(&job.run_words(&["true".into()]))))?;
    added.wall_ms.add(run.0 - bare.0);
    added.cpu_ms.add(run.1 - bare.1);
    Ok(())
}

/// Wall time and processor time.
fn took_ms(mut command: Command) -> anyhow::Result<(f64, f64)> {
    let (start, cpu_before) = (Instant::now(), cpu::of_children()?);
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok((ms(start.elapsed()), ms(cpu::of_children()?.saturating_sub(cpu_before))))
}

/// Bytes that the kernel requested of the node while all ranks read one file, over the file's size.
fn asked_by_all(bench: &Bench) -> anyhow::Result<f64> {
    let file = bench.random_file("ranks", FILE_BYTES)?;
    let job = bench.up_local(1, bench.files.path(), &[])?;
    let read = job.run_words(&["sha256sum".into(), file.into()]);
    let start = |_| job.surrounded(&read).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let ranks: Vec<_> = (0..RANKS).map(start).collect::<Result<_, _>>().context("cannot start the ranks")?;
    for mut rank in ranks {
        ensure!(rank.wait().context("waiting for a rank")?.success(), "a rank failed");
    }
    let asked: u64 = job.status()?.nodes.iter().map(|node| node.kernel.bytes_read).sum();
    job.down()?;
    Ok(asked as f64 / FILE_BYTES as f64)
}
