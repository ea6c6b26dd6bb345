//! The storm: the replay on 1, 4 and on 16 nodes at once over a busy file system, cold, in every way there is.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use forebay_bench::cpu;
use forebay_bench::python::{Touched, slowest};
use forebay_bench::storm::{self, Gate};
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::testbed::{BUSY, Testbed, Traffic};
use forebay_testkit::{run, stop};
use serde::Serialize;

use crate::bench::Bench;
use crate::ways::{Forms, WAYS, Way, set_up, up_on};

/// The figures of one way.
#[derive(Default, Serialize)]
struct Figures {
    /// From the start signal to the end of the slowest node, mounting or unpacking included; with a profile from the call of
    /// `up`, because prefill works during it.
    cold_seconds: Samples,
    /// The slowest node's replay alone.
    cold_replay_seconds: Samples,
    /// The same work a second time on the same nodes.
    warm_seconds: Samples,
    /// User and system time of all the nodes' programs, cold.
    cold_cpu_seconds: Samples,
    /// Processor time of the whole machine, cold: programs, daemons, clients and server of the file system.
    machine_cpu_seconds: Samples,
    /// Requests at the backing file system, cold; for Forebay since before its start.
    requests: Samples,
    /// Bytes the backing file system sent, cold; attributes, listings and protocol included.
    sent_bytes: Samples,
    /// Requests by kind in the last run.
    requests_by_kind: BTreeMap<String, u64>,
    /// Forebay only: how long `up` took.
    #[serde(skip_serializing_if = "Samples::is_empty")]
    up_seconds: Samples,
    /// Forebay only: bytes of file contents that its roots read.
    #[serde(skip_serializing_if = "Samples::is_empty")]
    contents_bytes: Samples,
    /// Forebay only: processor time of all the daemons since they began, cold.
    #[serde(skip_serializing_if = "Samples::is_empty")]
    daemons_cpu_seconds: Samples,
}

type ByWay = BTreeMap<Way, Figures>;

/// One node.
pub fn measure_one(bench: &Bench) -> anyhow::Result<Measurement> {
    let (testbed, forms) = set_up(bench, 1, &WAYS)?;
    let plan = WAYS.map(|way| (1, way));
    let ways = in_turn(bench, &testbed, &forms, bench.runs(5), &plan)?.remove(&1).unwrap_or_default();
    let mut measurement = described(1, &ways, &forms);
    let share = ways[&Way::Profile].cold_seconds.median() / fastest_image(&ways);
    measurement
        .bar(Bar::new("one node, profile and pack, against the faster SquashFS image", share, Side::AtMost, 1.25, "x"))
        .figure("by_way", &ways);
    Ok(measurement)
}

/// The number of nodes from which the growth is counted.
const FEW: usize = 4;

/// Sixteen nodes, and one direct client to compare the requests with.
pub fn measure_sixteen(bench: &Bench) -> anyhow::Result<Measurement> {
    const NODES: usize = 16;
    let touched = bench.python.touched(&bench.tree)?;
    let (testbed, forms) = set_up(bench, NODES, &WAYS)?;
    let single = in_turn(bench, &testbed, &forms, 1, &[(1, Way::Direct)])?;
    let single = &single[&1][&Way::Direct];
    let runs = if bench.quick { 1 } else { 3 };
    let plan = [&WAYS.map(|way| (NODES, way))[..], &[(FEW, Way::Forebay), (FEW, Way::Profile)]].concat();
    let all = in_turn(bench, &testbed, &forms, runs, &plan)?;
    let (ways, of_few) = (&all[&NODES], &all[&FEW]);
    let mut measurement = described(NODES, ways, &forms);
    add_bars(&mut measurement, ways, single, &touched);
    add_profile_bars(&mut measurement, ways, single);
    for way in [Way::Forebay, Way::Profile] {
        measurement.bar(growth(way, &of_few[&way], &ways[&way]));
    }
    measurement
        .figure("by_way", ways)
        .figure("one_direct_client", single)
        .figure("touched", &touched)
        .figure("four_nodes", of_few);
    Ok(measurement)
}

fn described(nodes: usize, ways: &ByWay, forms: &Forms) -> Measurement {
    let runs = ways.values().map(|figures| figures.cold_seconds.len()).min().unwrap_or(0);
    Measurement::under(format!(
        "{nodes} node(s) replay the import at once over GlusterFS: link {}, {} us a metadata request, {} at once; fresh \
         mounts on every node before each run; {runs} runs of each way in turn, medians. Times include mounting the \
         image ({}), unpacking the archive, and starting Python, and with a profile also `forebay up`, during which prefill \
         begins; without one `up` is not counted.",
        BUSY.link,
        BUSY.metadata_us,
        BUSY.at_once,
        forms.mounted_by()
    ))
}

fn add_bars(measurement: &mut Measurement, ways: &ByWay, single: &Figures, touched: &Touched) {
    let (direct, forebay) = (&ways[&Way::Direct], &ways[&Way::Forebay]);
    let image = fastest_image(ways);
    let seconds = forebay.cold_seconds.median();
    let share = seconds / direct.cold_seconds.median();
    let requests = forebay.requests.median() / single.requests.median();
    let contents = forebay.contents_bytes.median();
    measurement
        .bar(Bar::new("storm of 16, cold, against direct", share, Side::AtMost, 1.0 / 12.0, "x"))
        .bar(Bar::new("the same, against the later bar", share, Side::AtMost, 1.0 / 16.0, "x"))
        .bar(Bar::new("storm of 16, cold, against the faster SquashFS image", seconds, Side::Below, image, "s"))
        .bar(Bar::new("requests at the file system, against one direct client's", requests, Side::AtMost, 1.1, "x"))
        .bar(Bar::new(
            "bytes read at the file system, against the unique bytes",
            contents / touched.file_bytes as f64,
            Side::AtMost,
            1.02,
            "x",
        ))
        .figure(
            "unique_bytes_definition",
            "the sizes of all distinct files that the replay reads from, each counted once; compared with the bytes of \
             file contents that Forebay's roots read",
        )
        .figure("contents_against_bytes_the_replay_reads", contents / touched.bytes as f64)
        .figure("contents_against_chunks_the_replay_reads", contents / touched.chunk_bytes as f64)
        .figure("sent_bytes_against_one_direct_client", forebay.sent_bytes.median() / single.sent_bytes.median());
}

/// By how much the time may grow from 4 to 16 nodes, which share the machine's processors.
const GROWTH_AT_MOST: f64 = 1.5;

/// The growth of the time from 4 to 16 nodes. It is not set off against the processor time that Forebay takes: a build that
/// takes more must not pass for that.
fn growth(way: Way, few: &Figures, many: &Figures) -> Bar {
    let growth = many.cold_seconds.median() / few.cold_seconds.median();
    Bar::new(format!("{way:?}: 16 nodes against {FEW}"), growth, Side::AtMost, GROWTH_AT_MOST, "x")
}

/// With a profile and its pack, and with the image through Forebay.
fn add_profile_bars(measurement: &mut Measurement, ways: &ByWay, single: &Figures) {
    let seconds = |way: Way| ways[&way].cold_seconds.median();
    let (direct, image, profile) = (seconds(Way::Direct), fastest_image(ways), seconds(Way::Profile));
    let own_image = seconds(Way::Image) / seconds(Way::Squashfs);
    let requests = ways[&Way::Profile].requests.median() / single.requests.median();
    let at_most = |what: &str, figure: f64, bar: f64| Bar::new(what, figure, Side::AtMost, bar, "x");
    measurement
        .bar(at_most("storm of 16 with profile and pack, against direct", profile / direct, 1.0 / 25.0))
        .bar(at_most("the same, against the faster SquashFS image", profile / image, 1.0 / 3.0))
        .bar(at_most("the image through Forebay, against it mounted directly", own_image, 0.25))
        .bar(at_most("requests with profile and pack, against one direct client's", requests, 1.1));
}

/// The time of the image that is faster: compressed with zstd or with LZ4.
fn fastest_image(ways: &ByWay) -> f64 {
    ways[&Way::Squashfs].cold_seconds.median().min(ways[&Way::SquashfsLz4].cold_seconds.median())
}

/// Runs each way on its number of nodes, in turn; by that number.
fn in_turn(
    bench: &Bench,
    testbed: &Testbed,
    forms: &Forms,
    runs: usize,
    plan: &[(usize, Way)],
) -> anyhow::Result<BTreeMap<usize, ByWay>> {
    let mut figures = BTreeMap::<usize, ByWay>::new();
    for run in 0..runs {
        // Each run begins with another one.
        for index in 0..plan.len() {
            let (nodes, way) = plan[(run + index) % plan.len()];
            stop::check()?;
            let of_way = figures.entry(nodes).or_default().entry(way).or_default();
            one_run(&Run { bench, testbed, forms, nodes, way, is_first: run == 0 }, of_way)?;
            let cold = of_way.cold_seconds.last().unwrap_or(0.0);
            println!("  {nodes} node(s), {way:?}, run {}: {cold:.2} s", run + 1);
        }
    }
    Ok(figures)
}

/// One run of one way.
struct Run<'a> {
    bench: &'a Bench,
    testbed: &'a Testbed,
    forms: &'a Forms,
    nodes: usize,
    way: Way,
    is_first: bool,
}

fn one_run(one: &Run<'_>, figures: &mut Figures) -> anyhow::Result<()> {
    let Run { bench, testbed, forms, nodes, way, is_first } = *one;
    testbed.remount(nodes)?;
    let before = testbed.traffic()?;
    let replay = bench.python.replay(&forms.seen(way));
    let commands = |prepare: &str| (0..nodes).map(|node| testbed.place(node).gated(prepare, &replay)).collect();
    let profile = forms.profile.to_string_lossy();
    let options: &[&str] = if way == Way::Profile { &["--profile", &profile] } else { &[] };
    // Prefill begins with the job: the programs stand ready before, so that it gains nothing by their start.
    let gate = Gate::start(commands(&forms.prepare(way)))?;
    let up_began = Instant::now();
    let job = way.needs_job().then(|| up_on(bench, testbed, nodes, options)).transpose()?;
    let up_took = if way == Way::Profile { up_began.elapsed() } else { Duration::ZERO };
    let machine_before = cpu::of_machine()?;
    let cold = gate.open()?;
    figures.machine_cpu_seconds.add(cpu::of_machine()?.saturating_sub(machine_before).as_secs_f64());
    let traffic = testbed.traffic()?.since(&before);
    figures.add_cold(up_took, &cold, traffic)?;
    if let Some(job) = &job {
        let status = job.status()?;
        figures.up_seconds.add(job.ready().as_secs_f64());
        figures.contents_bytes.add(status.backing_bytes() as f64);
        figures.daemons_cpu_seconds.add(status.cpu_now().as_secs_f64());
    }
    // Slow ways are slow again: once tells enough.
    if is_first || way.needs_job() {
        figures.warm_seconds.add(storm::at_once(commands(""))?.wall.as_secs_f64());
    }
    for node in 0..nodes {
        run::output(&mut testbed.place(node).command(&["sh", "-c", &forms.finish(way)]))?;
    }
    job.map_or(Ok(()), |job| job.down().map(drop))
}

impl Figures {
    fn add_cold(&mut self, up_took: Duration, cold: &storm::Storm, traffic: Traffic) -> anyhow::Result<()> {
        self.cold_seconds.add((up_took + cold.wall).as_secs_f64());
        self.cold_replay_seconds.add(slowest(&cold.outputs)?.seconds);
        self.cold_cpu_seconds.add(cold.cpu.as_secs_f64());
        self.requests.add(traffic.total() as f64);
        self.sent_bytes.add(traffic.sent_bytes as f64);
        self.requests_by_kind = traffic.requests;
        Ok(())
    }
}
