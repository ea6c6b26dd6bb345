//! What comes ahead: a start-up on 8 nodes that an earlier one has recorded, and the first replay on one node.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use forebay_bench::job::Job;
use forebay_bench::python::{Replayed, slowest};
use forebay_bench::results::{Bar, Measurement, Samples, Side};
use forebay_bench::testbed::{BUSY, Testbed, Traffic};
use forebay_bench::{stop, storm};

use crate::bench::Bench;
use crate::ways::{Forms, Way, up_on};

const NODES: usize = 8;

/// How often it is looked whether all nodes are filled.
const LOOK_EVERY: Duration = Duration::from_millis(20);

const FILLED_DEADLINE: Duration = Duration::from_secs(120);

/// The link of the busy file system, bytes a second.
const LINK_BYTES_PER_SECOND: f64 = 125e6;

#[derive(Default)]
struct Figures {
    local: Samples,
    filled: Samples,
    local_cpu: Samples,
    filled_cpu: Samples,
    messages: Samples,
    prefill: Samples,
    ideal: Samples,
}

/// Measures jobs of 8 nodes whose contents come ahead, and replays on them in turn with replays on the local file system.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    println!("  building the test bed and packing the tree");
    let testbed = Testbed::up(&bench.testbed, NODES, BUSY.at_once)?;
    let forms = Forms::make(bench, &testbed)?;
    testbed.slow_down(BUSY)?;
    let mut figures = Figures::default();
    replayed(bench, &testbed, 0, &bench.tree)?;
    for _ in 0..bench.runs(3) {
        one_job(bench, &testbed, &forms, &mut figures)?;
    }
    let mut measurement = Measurement::under(format!(
        "{NODES} nodes over GlusterFS: link {}, {} us a metadata request, {} at once; fresh mounts before each of {} jobs; \
         a profile and a pack of an earlier start. Each node's replay runs alone, in turn with one on the local file \
         system in the page cache; medians. Prefill is from the call of `forebay up` until the last node has everything.",
        BUSY.link,
        BUSY.metadata_us,
        BUSY.at_once,
        figures.prefill.len()
    ));
    let wall = figures.filled.median() / figures.local.median();
    let cpu = figures.filled_cpu.median() / figures.local_cpu.median();
    let prefill = figures.prefill.median() / figures.ideal.median();
    measurement
        .bar(Bar::new("replay after prefill, against the local file system", wall, Side::AtMost, 1.5, "x"))
        .bar(Bar::new(
            "first replay with a profile, client CPU against the local file system",
            cpu,
            Side::AtMost,
            1.7,
            "x",
        ))
        .bar(Bar::new("prefill of 8 nodes, against what its link and requests take", prefill, Side::AtMost, 1.3, "x"))
        .figure("prefill_seconds", figures.prefill)
        .figure("link_and_requests_seconds", figures.ideal)
        .figure("replay_seconds", figures.filled)
        .figure("local_replay_seconds", figures.local)
        .figure("replay_client_cpu_seconds", figures.filled_cpu)
        .figure("local_client_cpu_seconds", figures.local_cpu)
        .figure("replay_messages", figures.messages);
    Ok(measurement)
}

fn one_job(bench: &Bench, testbed: &Testbed, forms: &Forms, figures: &mut Figures) -> anyhow::Result<()> {
    testbed.remount(NODES)?;
    let before = testbed.traffic()?;
    let start = Instant::now();
    let job = up_on(bench, testbed, NODES, &["--profile", &forms.profile.to_string_lossy()])?;
    wait_until_filled(&job)?;
    figures.prefill.add(start.elapsed().as_secs_f64());
    figures.ideal.add(ideal_seconds(&testbed.traffic()?.since(&before)));
    println!("  prefill of {NODES} nodes: {:.2} s", start.elapsed().as_secs_f64());
    for node in 0..NODES {
        let tree = forms.seen(Way::Profile, Some(&job), node)?;
        let messages = job.status()?.messages().values().sum::<u64>();
        let local = replayed(bench, testbed, node, &bench.tree)?;
        let filled = replayed(bench, testbed, node, &tree)?;
        figures.messages.add((job.status()?.messages().values().sum::<u64>() - messages) as f64);
        figures.local.add(local.seconds);
        figures.filled.add(filled.seconds);
        figures.local_cpu.add(local.cpu_seconds);
        figures.filled_cpu.add(filled.cpu_seconds);
    }
    job.down().map(drop)
}

/// What the requests and bytes that the file system saw take at the least.
fn ideal_seconds(traffic: &Traffic) -> f64 {
    // These are the requests that the test bed delays.
    let delayed = ["lookup", "open", "opendir", "readdirp", "stat"];
    let requests: u64 = delayed.iter().filter_map(|kind| traffic.requests.get(*kind)).sum();
    let each = f64::from(BUSY.metadata_us) / 1e6 / f64::from(BUSY.at_once);
    traffic.sent_bytes as f64 / LINK_BYTES_PER_SECOND + requests as f64 * each
}

fn wait_until_filled(job: &Job) -> anyhow::Result<()> {
    let deadline = Instant::now() + FILLED_DEADLINE;
    while !job.status()?.is_filled() {
        stop::check()?;
        ensure!(Instant::now() < deadline, "not all nodes are filled within {FILLED_DEADLINE:?}");
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn replayed(bench: &Bench, testbed: &Testbed, node: usize, tree: &std::path::Path) -> anyhow::Result<Replayed> {
    slowest(&storm::at_once(vec![testbed.place(node).gated("", &bench.python.replay(tree))])?.outputs)
}
