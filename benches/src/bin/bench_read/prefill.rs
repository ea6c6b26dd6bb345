//! Prefill: a start-up on 8 nodes that an earlier one has recorded, and the first replay on each of them.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use forebay_bench::job::Job;
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;
use forebay_testkit::testbed::{BUSY, Testbed, Traffic};

use crate::bench::{Bench, client_cpu_bar};
use crate::ways::{Forms, Way, set_up, up_on};

const NODES: usize = 8;

/// How often it is looked whether all nodes are filled: each look asks all of them, on the processors that they fill with.
const LOOK_EVERY: Duration = Duration::from_millis(100);

const FILLED_DEADLINE: Duration = Duration::from_secs(120);

/// The link of the busy file system, bytes a second.
const LINK_BYTES_PER_SECOND: f64 = 125e6;

/// Requests of GlusterFS that list a directory with attributes: OPENDIR and two READDIRP.
const LISTING_REQUESTS: u64 = 3;

/// Bytes and directories of a start-up.
struct Bytes {
    /// The sizes of the distinct files.
    unique: u64,
    /// Profile and pack.
    recorded: u64,
    /// The directories in which the files lie.
    directories: u64,
}

#[derive(Default)]
struct Figures {
    local: Samples,
    filled: Samples,
    local_cpu: Samples,
    filled_cpu: Samples,
    messages: Samples,
    prefill: Samples,
    delayed_requests: Samples,
    sent_bytes: Samples,
}

/// Measures jobs of 8 nodes whose contents come ahead, and replays on them in turn with replays on the local file system.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let (testbed, forms) = set_up(bench, NODES, &[Way::Profile])?;
    let touched = bench.python.touched(&bench.tree)?;
    let (unique, recorded) = (touched.file_bytes, forms.recorded_bytes(&testbed)?);
    let bytes = Bytes { unique, recorded, directories: touched.directories };
    let (ideal, ideal_packed) = (bytes.ideal_seconds(bytes.unique), bytes.ideal_seconds(bytes.recorded));
    let mut figures = Figures::default();
    bench.replayed(&testbed.place(0), &bench.tree)?;
    for _ in 0..bench.runs(3) {
        one_job(bench, &testbed, &forms, &mut figures)?;
    }
    let mut measurement = Measurement::under(format!(
        "{NODES} nodes over GlusterFS: link {}, {} us a metadata request, {} at once; fresh mounts before each of {} jobs; \
         a profile and a pack of an earlier start. Each node's replay runs alone, in turn with one on the local file \
         system in the page cache; medians. Prefill is from the call of `forebay up` until the last node has everything; \
         what it takes at the least, whatever Forebay does, is each unique byte (the sizes of the distinct files, as in \
         the storm) over the link once, and {LISTING_REQUESTS} delayed requests for each of the {} directories in which \
         they lie; by the harder figure, each byte of profile and pack once.",
        BUSY.link,
        BUSY.metadata_us,
        BUSY.at_once,
        figures.prefill.len(),
        bytes.directories
    ));
    let wall = figures.filled.median() / figures.local.median();
    let prefill = figures.prefill.median() / ideal;
    let packed = figures.prefill.median() / ideal_packed;
    println!("  prefill of {NODES} nodes, against what profile, pack and listings take: {packed:.3} x");
    measurement
        .bar(Bar::new("replay after prefill, against the local file system", wall, Side::AtMost, 1.5, "x"))
        .bar(client_cpu_bar("first replay with a profile", &figures.filled_cpu, &figures.local_cpu))
        .bar(Bar::new("prefill of 8 nodes, against unique bytes and listings", prefill, Side::AtMost, 1.3, "x"))
        .figure("prefill_seconds", figures.prefill)
        .figure("unique_bytes_and_listings_seconds", ideal)
        .figure("pack_and_listings_seconds", ideal_packed)
        .figure("prefill_against_pack_and_listings", packed)
        .figure("unique_bytes", bytes.unique)
        .figure("profile_and_pack_bytes", bytes.recorded)
        .figure("sent_bytes", figures.sent_bytes)
        .figure("delayed_requests", figures.delayed_requests)
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
    let took = start.elapsed().as_secs_f64();
    println!("  prefill of {NODES} nodes: {took:.2} s");
    let traffic = testbed.traffic()?.since(&before);
    let delayed = delayed_requests(&traffic);
    figures.prefill.add(took);
    figures.delayed_requests.add(delayed as f64);
    figures.sent_bytes.add(traffic.sent_bytes as f64);
    let tree = forms.seen(Way::Profile);
    for node in 0..NODES {
        let place = testbed.place(node);
        let messages = job.status()?.messages().values().sum::<u64>();
        let local = bench.replayed(&place, &bench.tree)?;
        let filled = bench.replayed(&place, &tree)?;
        figures.messages.add((job.status()?.messages().values().sum::<u64>() - messages) as f64);
        figures.local.add(local.seconds);
        figures.filled.add(filled.seconds);
        figures.local_cpu.add(local.cpu_seconds);
        figures.filled_cpu.add(filled.cpu_seconds);
    }
    job.down().map(drop)
}

/// Requests of the kinds that the test bed delays.
fn delayed_requests(traffic: &Traffic) -> u64 {
    let delayed =
        ["lookup", "stat", "fstat", "open", "opendir", "readdir", "readdirp", "readlink", "access", "getxattr"];
    delayed.iter().filter_map(|kind| traffic.requests.get(*kind)).sum()
}

impl Bytes {
    /// The least time for so many bytes and a listing of each directory. It follows from the files alone: requests that
    /// Forebay makes beyond that count against it.
    fn ideal_seconds(&self, bytes: u64) -> f64 {
        let each = f64::from(BUSY.metadata_us) / 1e6 / f64::from(BUSY.at_once);
        bytes as f64 / LINK_BYTES_PER_SECOND + (self.directories * LISTING_REQUESTS) as f64 * each
    }
}

pub fn wait_until_filled(job: &Job) -> anyhow::Result<()> {
    let deadline = Instant::now() + FILLED_DEADLINE;
    while !job.status()?.is_filled() {
        stop::check()?;
        ensure!(Instant::now() < deadline, "not all nodes are filled within {FILLED_DEADLINE:?}");
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
