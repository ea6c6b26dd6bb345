//! The scale model against real runs: the same storm of 4, 8 and 16 nodes on the test bed and in the model, without a
//! profile and with profile and pack.
//!
//! Both count requests, bytes and messages; both say what launcher, programs, daemons and the file system took of the
//! processors, and how long the start took, from the call of `up` to the end of the last program. The model is told what a message and a request cost here (`scale_costs`) and what `TEST_BED`
//! states, never how long a storm took. It ends with the tables that docs/scale.md shows, and the bar over the seconds.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use forebay_bench::cpu;
use forebay_bench::job::Status;
use forebay_bench::storm::Gate;
use forebay_scale::{Figures, Replay, default_forest};
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::testbed::{BUSY, Testbed};
use serde::Serialize;

use crate::bench::Bench;
use crate::scale_costs::{Costs, StormTotals, of_file_system};
use crate::ways::{Forms, Way, set_up, up_on};

/// The compared quantities, in the order of `of_real` and `of_model`.
const QUANTITIES: [&str; 12] = [
    "requests between nodes",
    "bytes between nodes, MB",
    "directories listed",
    "files opened at the file system",
    "sent by it, MB",
    "kernel messages a node",
    "programs, CPU s",
    "daemons and their launcher, CPU s",
    "walkers, CPU s",
    "file system's clients and server, CPU s",
    "everything else on the machine, CPU s",
    "seconds",
];

type Quantities = [f64; QUANTITIES.len()];

/// Without a profile, and with one.
const WAYS: [Way; 2] = [Way::Forebay, Way::Profile];

/// Numbers of nodes.
const NODES: [usize; 4] = [1, 4, 8, 16];

/// Runs of each.
const RUNS: usize = 3;

/// The error that the model's seconds may have against the real ones.
const ERROR_AT_MOST: f64 = 0.10;

/// A quantity, for real and by the model.
#[derive(Clone, Serialize)]
struct Compared {
    what: &'static str,
    real: Samples,
    model: f64,
    /// The model's over the real median, less 1.
    error: f64,
}

/// Runs both.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let counts: &[usize] = if bench.quick { &NODES[..2] } else { &NODES };
    let (testbed, forms) = set_up(bench, counts[counts.len() - 1], &WAYS)?;
    let operations = Path::new("benches/import-replay.txt");
    let packed_bytes = forms.recorded_bytes(&testbed)?;
    let runs = if bench.quick { 1 } else { RUNS };
    let mut measurement = Measurement::under(format!(
        "storms of the replay, cold, on the test bed (medians of {runs}) and in the scale model: link {}, {} us a \
         metadata request, {} at once; profile and pack of an earlier start have {packed_bytes} bytes",
        BUSY.link, BUSY.metadata_us, BUSY.at_once
    ));
    let costs = Costs::measure(bench, &testbed, &forms, runs)?;
    let (mut real, mut launches) = (BTreeMap::new(), BTreeMap::<usize, Launches>::new());
    for (way, nodes) in WAYS.into_iter().flat_map(|way| counts.iter().map(move |nodes| (way, *nodes))) {
        let mut of_runs = Vec::new();
        for _ in 0..runs {
            let (quantities, launch) = of_real(bench, &testbed, &forms, nodes, way)?;
            of_runs.push(quantities);
            let launches = launches.entry(nodes).or_default();
            launch.into_iter().for_each(|launch| launches.add(&launch));
        }
        real.insert((way, nodes), medians_of(&of_runs));
    }
    let totals = |nodes| totals_of(nodes, &real[&(Way::Forebay, nodes)], &launches[&nodes]);
    let used_bytes = bench.python.touched(&bench.tree)?.chunk_bytes;
    let machine = costs.machine(operations_in(operations)?, used_bytes, &totals(1), &totals(4));
    for stated in machine.daemon.list() {
        println!("  {}: {:.3e} {} ({})", stated.name, stated.value, stated.unit, stated.source);
        measurement.figure(stated.name, stated.value);
    }
    let replay = Replay::read(&bench.tree, operations, &machine)?;
    let mut columns = [Vec::new(), Vec::new()];
    for (column, (way, packed_bytes)) in columns.iter_mut().zip(WAYS.into_iter().zip([None, Some(packed_bytes)])) {
        for nodes in counts {
            let model = of_model(&replay.run(&machine, default_forest(*nodes), *nodes, 1, packed_bytes));
            let compared = compare(&real[&(way, *nodes)], model);
            let what = format!("{way:?}, {nodes} nodes");
            measurement.figure(&what, &compared);
            if let Some(seconds) = compared.last() {
                let what = format!("seconds of the model against real ones, {what}");
                measurement.bar(Bar::new(what, seconds.error.abs(), Side::AtMost, ERROR_AT_MOST, ""));
            }
            column.push((*nodes, compared));
        }
    }
    for (title, column) in ["Without a profile", "With profile and pack"].into_iter().zip(&columns) {
        println!("{title}:");
        table(column).iter().for_each(|line| println!("{line}"));
    }
    Ok(measurement)
}

/// Seconds of processor time until `up` has returned, with its own, and seconds that it took.
struct Launch {
    cpu_seconds: f64,
    up_seconds: f64,
}

#[derive(Default)]
struct Launches {
    cpu_seconds: Samples,
    up_seconds: Samples,
}

impl Launches {
    fn add(&mut self, launch: &Launch) {
        self.cpu_seconds.add(launch.cpu_seconds);
        self.up_seconds.add(launch.up_seconds);
    }
}

/// One start. The cost of its launch is known where no prefill runs meanwhile.
fn of_real(
    bench: &Bench,
    testbed: &Testbed,
    forms: &Forms,
    nodes: usize,
    way: Way,
) -> anyhow::Result<(Quantities, Option<Launch>)> {
    testbed.remount(nodes)?;
    let replay = bench.python.replay(&forms.seen(way));
    let gate = Gate::start((0..nodes).map(|node| testbed.place(node).gated("", &replay)).collect())?;
    let profile = forms.profile.to_string_lossy();
    let options: &[&str] = if way == Way::Profile { &["--profile", &profile] } else { &[] };
    let (traffic_before, file_system_before) = (testbed.traffic()?, of_file_system(testbed)?);
    let (machine_before, children_before, start) = (cpu::of_machine()?, cpu::of_children()?, Instant::now());
    let job = up_on(bench, testbed, nodes, options)?;
    let up = cpu::of_children()?.saturating_sub(children_before);
    // Asking for it takes processors and time, which is not to be counted in a start with a profile.
    let launched = (way == Way::Forebay).then(|| job.status()).transpose()?.map(|status| status.cpu_now() + up);
    let from_up = start.elapsed();
    let storm = gate.open()?;
    let asked = from_up.saturating_sub(job.ready());
    let seconds = (start.elapsed().saturating_sub(asked)).as_secs_f64();
    let machine = cpu::of_machine()?.saturating_sub(machine_before);
    let file_system = of_file_system(testbed)?.saturating_sub(file_system_before);
    let (traffic, status) = (testbed.traffic()?.since(&traffic_before), job.status()?);
    let (daemons, walkers) = (up + status.cpu_now(), status.walkers_cpu_now());
    let launch =
        launched.map(|launched| Launch { cpu_seconds: launched.as_secs_f64(), up_seconds: job.ready().as_secs_f64() });
    job.down()?;
    let requests = |kind: &str| traffic.requests.get(kind).copied().unwrap_or(0) as f64;
    let others = machine.saturating_sub(storm.cpu + daemons + walkers + file_system);
    println!("  {nodes} node(s), {way:?}: {seconds:.2} s");
    let quantities = [
        status.requests_sent() as f64,
        sent_bytes(&status) as f64 / 1e6,
        requests("opendir"),
        requests("open"),
        traffic.sent_bytes as f64 / 1e6,
        status.messages().values().sum::<u64>() as f64 / nodes as f64,
        storm.cpu.as_secs_f64(),
        daemons.as_secs_f64(),
        walkers.as_secs_f64(),
        file_system.as_secs_f64(),
        others.as_secs_f64(),
        seconds,
    ];
    Ok((quantities, launch))
}

fn sent_bytes(status: &Status) -> u64 {
    status.nodes.iter().filter_map(|node| node.overlay.get("bytes_sent")).sum()
}

fn of_model(figures: &Figures) -> Quantities {
    [
        figures.questions as f64,
        figures.sent.iter().sum::<u64>() as f64 / 1e6,
        figures.listings as f64,
        figures.opens as f64,
        figures.backing_bytes as f64 / 1e6,
        figures.kernel_messages as f64,
        figures.cpu.programs_seconds,
        figures.cpu.daemons_seconds + figures.cpu.launcher_seconds,
        figures.cpu.walkers_seconds,
        figures.cpu.file_system_seconds,
        0.0,
        // A time that does not stand for all is none.
        figures.all_seconds().unwrap_or(f64::NAN),
    ]
}

/// Quantity by quantity, the values of all runs.
fn medians_of(real: &[Quantities]) -> Vec<Samples> {
    let samples = |index: usize| {
        let mut samples = Samples::default();
        real.iter().for_each(|run| samples.add(run[index]));
        samples
    };
    (0..QUANTITIES.len()).map(samples).collect()
}

/// The totals that the costs of messages are fitted to.
fn totals_of(nodes: usize, real: &[Samples], launches: &Launches) -> StormTotals {
    let [requests, megabytes, .., messages, programs_seconds, daemons_seconds, _, _, _, _] =
        std::array::from_fn::<f64, { QUANTITIES.len() }, _>(|index| real[index].median());
    let (nodes, bytes) = (nodes as f64, megabytes * 1e6);
    let (launch_seconds, up_seconds) = (launches.cpu_seconds.median(), launches.up_seconds.median());
    StormTotals { nodes, requests, bytes, messages, programs_seconds, daemons_seconds, launch_seconds, up_seconds }
}

/// How many operations a replay has.
fn operations_in(list: &Path) -> anyhow::Result<usize> {
    Ok(std::fs::read_to_string(list)?.lines().count())
}

fn compare(real: &[Samples], model: Quantities) -> Vec<Compared> {
    let one = |(what, (real, model)): (&'static str, (&Samples, f64))| {
        let error = model / real.median() - 1.0;
        Compared { what, real: real.clone(), model, error }
    };
    QUANTITIES.into_iter().zip(real.iter().zip(model)).map(one).collect()
}

/// The table in Markdown: a row a quantity, two columns a number of nodes, and the errors.
fn table(columns: &[(usize, Vec<Compared>)]) -> Vec<String> {
    let head = columns.iter().map(|(nodes, _)| format!(" {nodes} nodes, real | model |"));
    let mut lines = vec![format!("| |{} error |", head.collect::<String>())];
    lines.push(format!("|---|{}---|", "---|".repeat(2 * columns.len())));
    for (row, what) in QUANTITIES.iter().enumerate() {
        let of_row = || columns.iter().map(|(_, compared)| &compared[row]);
        let digits = |value: f64| if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") };
        let cells = of_row().map(|it| format!(" {} | {} |", digits(it.real.median()), digits(it.model)));
        let errors: Vec<String> = of_row().map(|it| format!("{:+.0} %", it.error * 100.0)).collect();
        lines.push(format!("| {what} |{} {} |", cells.collect::<String>(), errors.join(", ")));
    }
    lines
}
