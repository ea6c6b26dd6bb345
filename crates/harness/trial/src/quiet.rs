//! Whether other work kept the machine busy during a run, so that its time says nothing about the run itself.
//!
//! A gauge reads the kernel's counters before and after a run, and samples the run queue meanwhile. Its judgement is a
//! pure function of what was observed. A disturbed run is repeated a bounded number of times, and the quietest is kept.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::stop;
use anyhow::Context;
use serde::Serialize;

/// The largest share of the processors that other programs may use during a run. On a quiet machine of two cores the demo's
/// runs show 0 to 1.4 %. With 8 %, by a program that computes for 30 ms of every 100 ms, the warm import takes a fifth longer,
/// because the slowest node is one that shares its processor.
pub const OTHERS_SHARE_MOST: f64 = 0.05;

/// The largest share of the time that the hypervisor may take from the processors. Stolen time halts a processor for
/// milliseconds, with all who wait for its thread, so it is taken as seriously as other programs.
pub const STOLEN_SHARE_MOST: f64 = 0.05;

/// The counters tick every 10 ms. Over less than this, one tick is more than 5 % of one processor, and nothing can be judged.
pub const SECONDS_LEAST: f64 = 0.2;

/// How often a disturbed run is repeated.
pub const REPEATS_MOST: u32 = 2;

/// How long all repeats of a measurement may take together; then disturbed runs are kept as they are.
pub const REPEATING_MOST: Duration = Duration::from_secs(60);

/// How long a repeat waits for the machine to become quiet, and how long each look takes.
const WAIT_MOST: Duration = Duration::from_secs(4);
const LOOK: Duration = Duration::from_millis(500);

const SAMPLE_EVERY: Duration = Duration::from_millis(50);

/// The kernel's counters of a run, over the processors that this process may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Observed {
    /// How long it was watched.
    pub seconds: f64,
    /// Of the processors' time, what all programs used, by the kernel's sampled counters.
    pub busy_share: f64,
    /// The same of the run's own programs, by their exact times. It may exceed the sampled share by a little.
    pub own_share: f64,
    /// Of the processors' time, what others than the run's own programs used.
    pub others_share: f64,
    /// The same, of the time in which the processors were busy.
    pub others_share_of_busy: f64,
    /// Of the processors' time, what the hypervisor took away.
    pub stolen_share: f64,
    /// Threads that ran or waited for a processor, the run's own included: mean and most of the samples.
    pub run_queue_mean: f64,
    /// The most of them.
    pub run_queue_most: u64,
}

/// Whether a run's time may be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may.
    Quiet,
    /// Other work took too much, in words.
    Disturbed(String),
}

/// Judges a run.
#[must_use]
pub fn judge(observed: &Observed) -> Verdict {
    let mut reasons = Vec::new();
    if observed.seconds < SECONDS_LEAST {
        reasons.push(format!("it took only {:.0} ms, too short to tell", observed.seconds * 1000.0));
    }
    if observed.others_share > OTHERS_SHARE_MOST {
        reasons.push(format!("other programs used {:.0} % of the processors", observed.others_share * 100.0));
    }
    if observed.stolen_share > STOLEN_SHARE_MOST {
        reasons.push(format!("the hypervisor took {:.0} % of the processors", observed.stolen_share * 100.0));
    }
    if reasons.is_empty() { Verdict::Quiet } else { Verdict::Disturbed(reasons.join(", ")) }
}

impl Observed {
    /// Which of two runs was disturbed less.
    #[must_use]
    pub fn is_quieter_than(&self, other: &Self) -> bool {
        let disturbance = |observed: &Self| observed.others_share + observed.stolen_share;
        disturbance(self) < disturbance(other)
    }

    fn between(before: Ticks, after: Ticks, ours: Duration, queue: &[u64]) -> Self {
        let hertz = rustix::param::clock_ticks_per_second() as f64;
        let all = after.all.saturating_sub(before.all).max(1) as f64 / hertz;
        let busy = after.busy.saturating_sub(before.busy) as f64 / hertz;
        let others = (busy - ours.as_secs_f64()).max(0.0);
        Self {
            seconds: 0.0,
            busy_share: busy / all,
            own_share: ours.as_secs_f64() / all,
            others_share: others / all,
            others_share_of_busy: if busy > 0.0 { others / busy } else { 0.0 },
            stolen_share: after.stolen.saturating_sub(before.stolen) as f64 / hertz / all,
            run_queue_mean: queue.iter().sum::<u64>() as f64 / queue.len().max(1) as f64,
            run_queue_most: queue.iter().copied().max().unwrap_or(0),
        }
    }
}

/// The counters of some processors, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    all: u64,
    busy: u64,
    stolen: u64,
}

/// Of /proc/stat: the counters of `processors`, and the length of the run queue.
fn parse(stat: &str, processors: &BTreeSet<usize>) -> (Ticks, u64) {
    let (mut ticks, mut queue) = (Ticks::default(), 0);
    for line in stat.lines() {
        let Some((name, rest)) = line.split_once(' ') else { continue };
        let counts: Vec<u64> = rest.split_whitespace().map_while(|field| field.parse().ok()).collect();
        if name == "procs_running" {
            queue = counts.first().copied().unwrap_or(0);
        } else if let Some(number) = name.strip_prefix("cpu").and_then(|number| number.parse().ok())
            && processors.contains(&number)
        {
            // proc(5): user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
            let sum = |fields: &[usize]| fields.iter().filter_map(|field| counts.get(*field)).sum::<u64>();
            ticks.all += sum(&[0, 1, 2, 3, 4, 5, 6, 7]);
            ticks.busy += sum(&[0, 1, 2, 5, 6]);
            ticks.stolen += sum(&[7]);
        }
    }
    (ticks, queue)
}

fn read(processors: &BTreeSet<usize>) -> anyhow::Result<(Ticks, u64)> {
    Ok(parse(&fs::read_to_string("/proc/stat").context("cannot read the processors' counters")?, processors))
}

/// The processors that this process may use: those of a container are a part of what /proc/stat has.
fn usable() -> anyhow::Result<BTreeSet<usize>> {
    let set = rustix::thread::sched_getaffinity(None).context("cannot read the processors of this process")?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|number| set.is_set(*number)).collect())
}

/// Watches the machine during a run.
pub struct Gauge {
    processors: BTreeSet<usize>,
    start: Instant,
    before: Ticks,
    ours: Duration,
    is_over: Arc<AtomicBool>,
    sampler: Option<JoinHandle<Vec<u64>>>,
}

impl Gauge {
    /// Begins to watch; `ours` is the processor time that the run's own programs have had so far.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn start(ours: Duration) -> anyhow::Result<Self> {
        let processors = usable()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (seen, over) = (processors.clone(), Arc::clone(&is_over));
        let sample = move || {
            let mut queue = Vec::new();
            while !over.load(Ordering::Relaxed) {
                // This thread runs while it looks and counts itself.
                queue.extend(read(&seen).ok().map(|(_, queue)| queue.saturating_sub(1)));
                thread::park_timeout(SAMPLE_EVERY);
            }
            queue
        };
        let before = read(&processors)?.0;
        let sampler = thread::Builder::new().name("gauge".into()).spawn(sample).context("cannot start a thread")?;
        Ok(Self { processors, start: Instant::now(), before, ours, is_over, sampler: Some(sampler) })
    }

    /// Ends; `ours` is the processor time that the run's own programs have had by now.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn finish(mut self, ours: Duration) -> anyhow::Result<Observed> {
        let (after, _) = read(&self.processors)?;
        let seconds = self.start.elapsed().as_secs_f64();
        let queue = self.end();
        let ours = ours.saturating_sub(self.ours);
        Ok(Observed { seconds, ..Observed::between(self.before, after, ours, &queue) })
    }

    fn end(&mut self) -> Vec<u64> {
        self.is_over.store(true, Ordering::Relaxed);
        let sampler = self.sampler.take();
        sampler.map_or_else(Vec::new, |thread| {
            thread.thread().unpark();
            thread.join().unwrap_or_default()
        })
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        self.end();
    }
}

/// A run that was made until the machine was quiet, or as often as it may be.
#[derive(Clone, Debug, Serialize)]
pub struct Measured<T> {
    /// The result of the quietest run.
    #[serde(flatten)]
    pub value: T,
    /// The machine during it.
    pub machine: Observed,
    /// Whether it may be compared.
    pub verdict: Verdict,
    /// How often it was run.
    pub attempts: u32,
}

impl<T> Measured<T> {
    /// Whether it may be compared.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.verdict == Verdict::Quiet
    }
}

/// Repeats disturbed runs, within limits that hold for all runs together.
pub struct Repeater {
    left: Duration,
    /// How long each repeat waits for the machine to become quiet.
    wait_most: Duration,
}

impl Default for Repeater {
    fn default() -> Self {
        Self { left: REPEATING_MOST, wait_most: WAIT_MOST }
    }
}

impl Repeater {
    /// One that repeats nothing.
    #[must_use]
    pub fn never() -> Self {
        Self { left: Duration::ZERO, ..Self::default() }
    }

    /// Runs until the machine was quiet; `told` is called with a disturbed run and the reason before each repeat.
    ///
    /// # Errors
    /// When a run fails, or the user asks for an end.
    pub fn measure<T>(
        &mut self,
        mut told: impl FnMut(&T, &str),
        mut run: impl FnMut() -> anyhow::Result<(T, Observed)>,
    ) -> anyhow::Result<Measured<T>> {
        let mut best: Option<Measured<T>> = None;
        let mut attempts = 0;
        loop {
            let start = Instant::now();
            if attempts > 0 {
                wait_for_quiet(self.wait_most)?;
            }
            let (value, machine) = run()?;
            if attempts > 0 {
                self.left = self.left.saturating_sub(start.elapsed());
            }
            attempts += 1;
            let latest = Measured { value, verdict: judge(&machine), machine, attempts };
            let repeats = attempts <= REPEATS_MOST && self.left > Duration::ZERO;
            if let Verdict::Disturbed(reason) = &latest.verdict
                && repeats
            {
                told(&latest.value, reason);
            }
            let is_over = latest.is_quiet() || !repeats;
            let kept = match best.take() {
                Some(before) if !latest.machine.is_quieter_than(&before.machine) => Measured { attempts, ..before },
                _ => latest,
            };
            if is_over {
                return Ok(kept);
            }
            best = Some(kept);
        }
    }
}

/// Waits a few seconds for other programs to leave the processors alone; nothing of ours may run meanwhile.
fn wait_for_quiet(most: Duration) -> anyhow::Result<()> {
    let deadline = Instant::now() + most;
    while Instant::now() < deadline {
        stop::check()?;
        let gauge = Gauge::start(Duration::ZERO)?;
        thread::sleep(LOOK);
        if judge(&gauge.finish(Duration::ZERO)?) == Verdict::Quiet {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Observed = Observed {
        seconds: 2.0,
        busy_share: 0.1,
        own_share: 0.07,
        others_share: 0.03,
        others_share_of_busy: 0.3,
        stolen_share: 0.01,
        run_queue_mean: 9.0,
        run_queue_most: 12,
    };

    fn reason(observed: &Observed) -> String {
        match judge(observed) {
            Verdict::Disturbed(reason) => reason,
            Verdict::Quiet => panic!("{observed:?} counts as quiet"),
        }
    }

    #[test]
    fn a_long_run_queue_of_the_runs_own_threads_is_no_disturbance() {
        assert_eq!(judge(&CALM), Verdict::Quiet);
        assert_eq!(judge(&Observed { others_share: OTHERS_SHARE_MOST, ..CALM }), Verdict::Quiet);
    }

    #[test]
    fn other_programs_stolen_time_and_short_runs_are_each_a_reason() {
        assert!(reason(&Observed { others_share: 0.5, ..CALM }).contains("other programs used 50 %"));
        assert!(reason(&Observed { stolen_share: 0.2, ..CALM }).contains("hypervisor took 20 %"));
        assert!(reason(&Observed { seconds: 0.1, ..CALM }).contains("100 ms"));
        let both = reason(&Observed { others_share: 0.11, stolen_share: 0.06, ..CALM });
        assert!(both.contains("11 %") && both.contains("6 %"), "{both}");
    }

    #[test]
    fn only_usable_processors_count_and_ours_is_subtracted() {
        let stat = |user: u64, stolen: u64| {
            format!(
                "cpu 0 0 0 0\ncpu0 {user} 0 10 100 0 0 0 {stolen} 0 0\ncpu1 9 9 9 9 9 9 9 9\nintr 5 6\nprocs_running 7\n"
            )
        };
        let processors = BTreeSet::from([0]);
        let (before, queue) = parse(&stat(20, 0), &processors);
        assert_eq!((before, queue), (Ticks { all: 130, busy: 30, stolen: 0 }, 7));
        let (after, _) = parse(&stat(100, 20), &processors);
        let half = Duration::from_secs_f64(40.0 / rustix::param::clock_ticks_per_second() as f64);
        let observed = Observed::between(before, after, half, &[2, 4]);
        assert!((observed.others_share - 0.4).abs() < 1e-9, "{observed:?}");
        assert!((observed.others_share_of_busy - 0.5).abs() < 1e-9, "{observed:?}");
        assert!((observed.stolen_share - 0.2).abs() < 1e-9, "{observed:?}");
        assert_eq!((observed.run_queue_mean, observed.run_queue_most), (3.0, 4));
    }

    fn of_others(others_share: f64) -> Observed {
        Observed { others_share, ..CALM }
    }

    #[test]
    fn a_quiet_run_is_not_repeated() {
        let measured = Repeater::default().measure(|_, _| panic!("no repeat"), || Ok((1, CALM))).unwrap();
        assert_eq!((measured.value, measured.attempts, measured.is_quiet()), (1, 1, true));
    }

    #[test]
    fn disturbed_runs_are_repeated_within_bounds_and_the_quietest_is_kept() {
        let mut shares = [0.5, 0.3, 0.4, 0.0].into_iter();
        let run = || shares.next().map(|share| (share, of_others(share))).context("one run too many");
        let mut told = 0;
        let measured =
            Repeater { wait_most: Duration::ZERO, ..Repeater::default() }.measure(|_, _| told += 1, run).unwrap();
        assert_eq!((measured.value, measured.attempts, measured.is_quiet(), told), (0.3, 3, false, 2));
        let none = Repeater::never().measure(|(), _| (), || Ok(((), of_others(0.5)))).unwrap();
        assert_eq!(none.attempts, 1);
    }
}
