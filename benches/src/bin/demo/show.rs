//! The output of the demo: progress, the table of the read path, one line for each path, and the conditions of all of them.
//!
//! A ratio appears only where both of its runs were undisturbed. A disturbed run is marked and explained below the table.

use std::io::Write;
use std::path::Path;

use forebay_bench::quiet::Measured;
use forebay_bench::table::{Table, count, megabytes, seconds};
use forebay_testkit::machine::Machine;
use forebay_trial::show::{self, Way, case, disturbance, marked, ratio, star};

use crate::document::{Aggregation, Answer, Document, Run, Work};
use crate::options::{Backing, Options};

/// Prints a line. Its reader may be gone (`make demo | head`); the panic of `println!` would leave mounts behind.
macro_rules! line {
    ($($text:tt)*) => {{
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

/// Prints a part of a line, which shows immediately.
macro_rules! part {
    ($($text:tt)*) => {{
        let mut output = std::io::stdout();
        let _ = write!(output, $($text)*).and_then(|()| output.flush());
    }};
}

/// The head of the output.
pub fn introduction(machine: &Machine, nodes: &str, backing: &str, program: &str) {
    line!();
    line!("Forebay's demo: read, write, aggregate, query.");
    line!("Nodes:               {nodes}");
    line!("Program:             {program}");
    line!("Backing file system: {backing}");
    line!("Machine:             {}", machine.described());
    line!();
}

/// The step under way.
pub fn progress(text: &str) {
    part!("  {text} ...");
}

/// A run of the read path, in words.
pub fn run_described(work: Work, way: Way, cold: bool) -> String {
    format!("{}, {}", title(work), case(way, cold))
}

/// A run is made again, after one that took so long.
pub fn repeated(wall_seconds: f64, reason: &str) {
    part!(" {} *\n    again, because {reason} ...", seconds(wall_seconds));
}

/// How long it took.
pub fn done<T>(run: &Measured<T>, wall_seconds: f64) {
    line!(" {}", marked(wall_seconds, run));
}

/// It is over, and has no time.
pub fn ended(text: &str) {
    line!(" {text}");
}

fn title(work: Work) -> &'static str {
    match work {
        Work::Replay => "the import's file operations alone",
        Work::Import => "the import on all nodes",
    }
}

/// The results of the read path.
pub fn table(document: &Document) {
    let mut table = Table::new();
    table.row(["", "slowest node", "CPU programs", "CPU Forebay", "requests", "bytes sent"]);
    let works = works(document);
    for work in &works {
        if works.len() > 1 {
            table.heading(match work {
                Work::Replay => "The import's file operations alone",
                Work::Import => "The import itself",
            });
        }
        for cold in [true, false] {
            for way in [Way::Direct, Way::Forebay] {
                table.row(find(document, *work, way, cold).map(cells).unwrap_or_default());
            }
        }
    }
    line!("\nThe import on {} nodes; requests and bytes are those at the backing file system\n", document.nodes);
    line!("{table}");
    line!("cold: fresh mounts on every node, so nothing of the files is in a node's memory; Forebay just started");
    line!("warm: the same program a second time on the same nodes");
    line!("CPU:  user and system time of all {} nodes together, which share this machine", document.nodes);
    line!("`forebay up` took {}", seconds(document.up_seconds));
}

fn works(document: &Document) -> Vec<Work> {
    let is_there = |work: &Work| document.runs.iter().any(|run| run.value.work == *work);
    [Work::Replay, Work::Import].into_iter().filter(is_there).collect()
}

fn find(document: &Document, work: Work, way: Way, cold: bool) -> Option<&Measured<Run>> {
    document.runs.iter().find(|run| (run.value.work, run.value.way, run.value.cold) == (work, way, cold))
}

fn cells(measured: &Measured<Run>) -> [String; 6] {
    let run = &measured.value;
    let daemons = if run.way == Way::Direct { "-".to_owned() } else { seconds(run.daemons_cpu_seconds) };
    [
        format!("  {}", case(run.way, run.cold)),
        marked(run.wall_seconds, measured),
        seconds(run.programs_cpu_seconds),
        daemons,
        count(run.traffic.total()),
        megabytes(run.traffic.sent_bytes),
    ]
}

/// One line for each path, and the conditions of all.
pub fn paths(document: &Document) {
    line!();
    for work in works(document) {
        line!("read       {}", read_line(document, work));
    }
    line!("write      {}", write_line(document));
    line!("aggregate  {}", aggregate_line(&document.aggregation));
    line!("query      {}", query_line(&document.query, &document.query_by_python));
    disturbances(document);
    line!("\nread:      {}", document.backing);
    line!("write:     files land on {}", document.checkpoint_backing);
    let direct = seconds(document.checkpoint.value.direct_seconds);
    line!("           written to the same directory without Forebay, with fsync: {direct}{}", limit_note(document));
    line!("aggregate: {}", aggregate_conditions(&document.aggregation));
    line!(
        "query:     statistics of all columns, the same by both; the file is in the page cache; Python's csv module, without its start"
    );
}

/// `--drain-rate` holds Forebay alone.
fn limit_note(document: &Document) -> &'static str {
    if document.checkpoint_backing.contains("--drain-rate") { " (not held to that rate)" } else { "" }
}

fn read_line(document: &Document, work: Work) -> String {
    let (direct, forebay) = (find(document, work, Way::Direct, true), find(document, work, Way::Forebay, true));
    let (Some(direct), Some(forebay)) = (direct, forebay) else { return "not measured".to_owned() };
    let times = direct.value.wall_seconds / forebay.value.wall_seconds;
    let nodes = format!("{} nodes", document.nodes);
    format!(
        "{}, cold: {} directly, {} through Forebay{}, {} and {} requests",
        title(work).replace("all nodes", &nodes),
        marked(direct.value.wall_seconds, direct),
        marked(forebay.value.wall_seconds, forebay),
        ratio(direct.is_quiet() && forebay.is_quiet(), times, "times as fast"),
        count(direct.value.traffic.total()),
        count(forebay.value.traffic.total()),
    )
}

fn write_line(document: &Document) -> String {
    let checkpoint = &document.checkpoint.value;
    format!(
        "a checkpoint of {} MiB: the program continues after {}, the file has landed after {}{}, contents identical",
        checkpoint.bytes >> 20,
        seconds(checkpoint.free_seconds),
        seconds(checkpoint.landed_seconds),
        star(&document.checkpoint),
    )
}

fn aggregate_line(aggregation: &Aggregation) -> String {
    match aggregation {
        Aggregation::Counted { ranks, file_bytes, independent, romio, forebay, .. } => format!(
            "{ranks} MPI ranks write {} in {} requests each for itself, in {} with ROMIO's buffering, in {} with Forebay",
            megabytes(*file_bytes),
            count(*independent),
            count(*romio),
            count(*forebay),
        ),
        Aggregation::Predicted { nodes, bytes, best, best_seconds, romio_seconds, .. } => format!(
            "PREDICTED, not measured: {nodes} nodes write {} MiB in {} with the plan `{best}`, in {} with ROMIO's choice",
            bytes >> 20,
            seconds(*best_seconds),
            seconds(*romio_seconds),
        ),
    }
}

fn aggregate_conditions(aggregation: &Aggregation) -> String {
    match aggregation {
        Aggregation::Counted { mpi, .. } => {
            format!(
                "{mpi}; requests are counted above the C library, on a local file, cut at 1 MiB; the files are identical"
            )
        }
        Aggregation::Predicted { aggregators, .. } => format!(
            "`forebay plan` by its model of a torus, 8 I/O nodes, {aggregators} aggregators; no usable MPI with Forebay's library is here"
        ),
    }
}

fn query_line(forebay: &Measured<Answer>, python: &Measured<Answer>) -> String {
    let (ours, theirs) = (&forebay.value, &python.value);
    let times = theirs.cpu_seconds / ours.cpu_seconds.max(1e-3);
    format!(
        "{} rows, {}: {} (CPU {}){} by forebay query, {} (CPU {}){} by Python{}",
        count(ours.rows),
        megabytes(ours.bytes),
        seconds(ours.seconds),
        seconds(ours.cpu_seconds),
        star(forebay),
        seconds(theirs.seconds),
        seconds(theirs.cpu_seconds),
        star(python),
        ratio(forebay.is_quiet() && python.is_quiet(), times, "times as much CPU"),
    )
}

/// Which runs other work disturbed, and how.
fn disturbances(document: &Document) {
    let mut lines: Vec<String> = document
        .runs
        .iter()
        .filter_map(|run| disturbance(&run_described(run.value.work, run.value.way, run.value.cold), run))
        .collect();
    lines.extend(disturbance("the checkpoint", &document.checkpoint));
    lines.extend(disturbance("forebay query", &document.query));
    lines.extend(disturbance("Python's statistics", &document.query_by_python));
    let lines = show::disturbances(&lines, "Run the demo again when the machine is quiet.");
    if !lines.is_empty() {
        line!("\n{}", lines.join("\n"));
    }
}

/// Where to go from here.
pub fn what_next(options: &Options, json: &Path) {
    line!("\nThe figures, and how busy the machine was during each run: {}", json.display());
    line!("What to try next:");
    if options.backing == Backing::Model {
        line!("  make demo BACKING=gluster    the same over a real network file system (needs root)");
    }
    if !options.big {
        line!("  make demo BIG=1              scikit-learn and pandas on 8 nodes (downloads 450 MB)");
    }
    line!("  make bench-read              the read path's figures of docs/measurements.md, on this machine");
    let forebay = options.forebay.display();
    line!("  {forebay} up --local 2 --export /usr --view /tmp/view    your own files, on two nodes");
    line!("  {forebay} explain /usr/bin/env                           where an answer comes from");
    line!("  {forebay} down");
}
