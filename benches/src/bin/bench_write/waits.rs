//! The longest time that a program waits because of another one's wait: for the leader, for a silent node, or for another leader.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;

use crate::bed::{Bed, Setup};

/// How long a node stands still.
const SILENCE: Duration = Duration::from_secs(6);

/// Then it says that it is alive, before it is stopped again: its keeper kills a daemon that has been silent for long.
const RECOVERY: Duration = Duration::from_secs(4);

/// How long after the leader's end programs write on: longer than a takeover takes.
const AFTER_END: Duration = Duration::from_secs(12);

/// How long a node may answer by what the leader has told it; less what has passed of it before the leader stands still.
const LEASE_TTL: Duration = Duration::from_secs(3);

/// Between two calls of a program.
const PACE: Duration = Duration::from_millis(2);

/// The same where the leader has to answer each.
const LEADER_PACE: Duration = Duration::from_millis(20);

/// Of the job in which one is silent.
const SILENT: usize = 6;

/// Measures each wait alone.
pub fn measure(bed: &Bed) -> anyhow::Result<Measurement> {
    let mut measurement = Measurement::under(format!(
        "daemons of one host; a stopped node stands still for {} s; calls of a program {} ms apart, the longest of each run counts; \
         cached stats are of the {} s in which the leader's last answer may be believed",
        SILENCE.as_secs(),
        PACE.as_millis(),
        LEASE_TTL.as_secs()
    ));
    let job = job(bed, "waits", 2)?;
    let runs = bed.runs(5);
    let closing = samples(runs, || beside_a_close(&job))?;
    bar(&mut measurement, "write beside a close that waits for the leader", &closing, 50.0);
    for opens in [8, 20, 100] {
        let (mut writes, mut stats) = (Samples::default(), Samples::default());
        for run in 0..runs {
            stop::check()?;
            let (write, stat) = beside_opens(&job, opens, run)?;
            writes.add(write);
            stats.add(stat);
        }
        bar(&mut measurement, &format!("write beside {opens} opens that wait for the leader"), &writes, 50.0);
        bar(&mut measurement, &format!("cached stat beside {opens} opens that wait for the leader"), &stats, 50.0);
    }
    drop(job);
    let job = self::job(bed, "waits-silent", SILENT + 1)?;
    for changes in [32, 200] {
        let mut run = 0;
        let stats = samples(runs, || {
            run += 1;
            beside_changes(&job, changes, run)
        })?;
        bar(&mut measurement, &format!("stat beside {changes} changes that wait for a silent node"), &stats, 250.0);
    }
    drop(job);
    let (mut writes, mut waits) = (Samples::default(), Samples::default());
    for run in 0..bed.runs(10) {
        stop::check()?;
        let (write, wait) = beside_a_takeover(&self::job(bed, &format!("waits-takeover-{run}"), 3)?)?;
        writes.add(write);
        waits.add(wait);
    }
    bar(&mut measurement, "write to an open file while the tree gets another leader", &writes, 250.0);
    bar(&mut measurement, "wait of any program while the tree gets another leader", &waits, 6000.0);
    Ok(measurement)
}

fn bar(measurement: &mut Measurement, what: &str, longest: &Samples, most_ms: f64) {
    let bar = Bar::new(format!("longest {what}"), longest.worst(Side::AtMost), Side::AtMost, most_ms, "ms");
    measurement.bar(bar).figure(&format!("longest_{}_ms", what.replace([' ', '-'], "_")), longest.clone());
}

fn samples(runs: usize, mut run: impl FnMut() -> anyhow::Result<f64>) -> anyhow::Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..runs {
        stop::check()?;
        samples.add(run()?);
    }
    Ok(samples)
}

fn job(bed: &Bed, name: &str, nodes: usize) -> anyhow::Result<Bed> {
    bed.beside(&Setup { name, nodes, backing: None, stores: None, capacity: "1GiB", options: &["--drain", "manual"] })
}

/// The longest of many calls until `is_over`, milliseconds.
fn longest(is_over: &AtomicBool, pace: Duration, mut call: impl FnMut(u64) -> io::Result<()>) -> io::Result<f64> {
    let mut longest = Duration::ZERO;
    for count in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let began = Instant::now();
        call(count)?;
        longest = longest.max(began.elapsed());
        std::thread::sleep(pace);
    }
    Ok(longest.as_secs_f64() * 1e3)
}

/// Runs both while a node stands still: `waits` and what must not wait with it, until the node goes on.
fn while_silent(
    job: &Bed,
    (node, waiters): (usize, &str),
    waits: impl Fn() -> anyhow::Result<()> + Sync,
    others: &(dyn Fn(&AtomicBool) -> io::Result<f64> + Sync),
) -> anyhow::Result<f64> {
    let (is_over, is_waiting) = (AtomicBool::new(false), AtomicBool::new(true));
    let mut outcome = Ok(0.0);
    std::thread::scope(|scope| {
        let (is_over, is_waiting, waits) = (&is_over, &is_waiting, &waits);
        let mut both = None;
        let stood_still = job.while_it_stands_still(node, || {
            let waiting = scope.spawn(move || {
                let ended = waits();
                is_waiting.store(false, Ordering::Relaxed);
                ended
            });
            let other = scope.spawn(move || others(is_over));
            std::thread::sleep(SILENCE);
            ensure!(node != 0 || is_waiting.load(Ordering::Relaxed), "{waiters} waited for nothing");
            is_over.store(true, Ordering::Relaxed);
            both = Some((waiting, other));
            Ok(())
        });
        // Also where that failed: nothing goes on for ever.
        is_over.store(true, Ordering::Relaxed);
        stood_still?;
        std::thread::sleep(RECOVERY);
        if let Some((waiting, other)) = both {
            let panicked = |_| anyhow::anyhow!("a program panicked");
            waiting.join().map_err(panicked)??;
            outcome = Ok(other.join().map_err(panicked)??);
        }
        Ok::<(), anyhow::Error>(())
    })?;
    outcome
}

/// A file that is written and open, of which the leader knows.
fn open(path: &Path) -> io::Result<File> {
    let file = File::create(path)?;
    file.write_all_at(&[1; 4096], 0)?;
    file.sync_all()?;
    Ok(file)
}

fn write_on(file: &File, is_over: &AtomicBool) -> io::Result<f64> {
    longest(is_over, PACE, |count| file.write_all_at(&[2; 4096], count % 256 * 4096))
}

fn beside_a_close(job: &Bed) -> anyhow::Result<f64> {
    let file = open(&job.mount(1).join("open"))?;
    let closed = std::sync::Mutex::new(Some(File::create(job.mount(1).join("closed"))?));
    let close = || {
        let closed = closed.lock().map_err(|_| anyhow::anyhow!("a program panicked"))?.take();
        // Not before the node stands still: a process that is made meanwhile closes its copy of the descriptor, and so commits this.
        closed.as_ref().map_or(Ok(()), |closed| closed.write_all_at(b"bytes that the leader has not heard of", 0))?;
        Ok(())
    };
    while_silent(job, (0, "the close"), close, &|is_over| write_on(&file, is_over))
}

/// The longest write, and the longest `fstat`.
fn beside_opens(job: &Bed, opens: usize, run: usize) -> anyhow::Result<(f64, f64)> {
    let directory = job.mount(0).join(format!("opens-{opens}-{run}"));
    fs::create_dir(&directory)?;
    (0..opens).try_for_each(|number| fs::write(directory.join(number.to_string()), b"x"))?;
    let seen = job.mount(1).join(format!("opens-{opens}-{run}"));
    let (file, cached) = (open(&job.mount(1).join("open"))?, open(&job.mount(1).join("cached"))?);
    let stat = std::sync::Mutex::new(0.0);
    let open_all = || {
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..opens)
                .map(|number| {
                    scope.spawn({
                        let seen = seen.join(number.to_string());
                        move || File::open(seen)
                    })
                })
                .collect();
            all.into_iter().try_for_each(|one| {
                one.join().map_err(|_| anyhow::anyhow!("a program panicked"))?.map(drop).map_err(Into::into)
            })
        })
    };
    cached.metadata()?;
    let others = |is_over: &AtomicBool| {
        let is_unknown = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let stats = scope.spawn(|| longest(&is_unknown, PACE, |_| cached.metadata().map(drop)));
            let believed = scope.spawn(|| {
                std::thread::sleep(LEASE_TTL);
                is_unknown.store(true, Ordering::Relaxed);
            });
            let written = write_on(&file, is_over);
            believed.join().map_err(|_| io::Error::other("a program panicked"))?;
            let longest = stats.join().map_err(|_| io::Error::other("a program panicked"))??;
            if let Ok(mut stat) = stat.lock() {
                *stat = longest;
            }
            written
        })
    };
    let write = while_silent(job, (0, "the opens"), open_all, &others)?;
    let stat = stat.lock().map_or(f64::NAN, |stat| *stat);
    Ok((write, stat))
}

fn beside_changes(job: &Bed, changes: usize, run: usize) -> anyhow::Result<f64> {
    let name = format!("changes-{changes}-{run}");
    let directory = job.mount(0).join(&name);
    fs::create_dir(&directory)?;
    (0..changes).try_for_each(|number| fs::write(directory.join(number.to_string()), b"x"))?;
    let other = format!("other-{changes}-{run}");
    fs::create_dir(job.mount(0).join(&other))?;
    for entry in fs::read_dir(job.mount(SILENT as u32).join(&name))? {
        let _ = entry?.metadata()?;
    }
    let change_all = || {
        std::thread::scope(|scope| {
            let change = |number: usize| {
                let file = job.mount(number as u32 % 4 + 1).join(&name).join(number.to_string());
                scope.spawn(move || fs::set_permissions(file, Permissions::from_mode(0o640)))
            };
            let all: Vec<_> = (0..changes).map(change).collect();
            all.into_iter()
                .try_for_each(|one| one.join().map_err(|_| anyhow::anyhow!("a program panicked"))?.map_err(Into::into))
        })
    };
    let others = |is_over: &AtomicBool| {
        longest(is_over, LEADER_PACE, |count| {
            match fs::metadata(job.mount(5).join(&other).join(format!("absent-{count}"))) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                found => found.map(drop),
            }
        })
    };
    while_silent(job, (SILENT, "the changes"), change_all, &others)
}

/// The longest write to an open file, and the longest that any program waits that makes files or looks for them, on the nodes that are left, while
/// the daemon and the keeper of the leader's node end.
fn beside_a_takeover(job: &Bed) -> anyhow::Result<(f64, f64)> {
    let files = [1, 2].map(|node| open(&job.mount(node).join(format!("open-{node}"))));
    let is_over = AtomicBool::new(false);
    // The standby has followed for as long as a node may believe what it was told.
    std::thread::sleep(SILENCE);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        let mut writes = vec![];
        let mut others = vec![];
        for (node, file) in [1, 2].into_iter().zip(files) {
            let (file, names) = (file?, job.mount(node));
            writes.push(scope.spawn(move || write_on(&file, is_over)));
            let made = names.clone();
            others.push(scope.spawn(move || {
                longest(is_over, LEADER_PACE, |count| File::create(made.join(format!("{node}-{count}"))).map(drop))
            }));
            others.push(scope.spawn(move || {
                longest(is_over, LEADER_PACE, |count| names.join(format!("absent-{count}")).try_exists().map(drop))
            }));
        }
        let killed = job.kill_node(0);
        std::thread::sleep(AFTER_END);
        is_over.store(true, Ordering::Relaxed);
        killed?;
        Ok((longest_of(writes)?, longest_of(others)?))
    })
}

type Program<'scope> = std::thread::ScopedJoinHandle<'scope, io::Result<f64>>;

fn longest_of(programs: Vec<Program<'_>>) -> anyhow::Result<f64> {
    let each =
        programs.into_iter().map(|program| Ok(program.join().map_err(|_| anyhow::anyhow!("a program panicked"))??));
    each.collect::<anyhow::Result<Vec<f64>>>().map(|all| all.into_iter().fold(0.0, f64::max))
}
