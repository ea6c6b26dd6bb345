//! What the demo prints: for people, in plain words.

use std::io::Write;
use std::path::Path;

use forebay_bench::python;
use forebay_bench::table::{Table, count, megabytes, seconds};
use forebay_testkit::machine::Machine;

use crate::document::{Document, Run, Way, Work};
use crate::site::Site;

/// What is about to happen.
pub fn introduction(machine: &Machine, site: &Site) {
    println!();
    println!("Forebay's demo: {} nodes start the same Python program at one moment.", site.nodes());
    println!("Program:             python3 -c '{}'", python::IMPORT);
    println!("Backing file system: {}", site.described());
    println!("Machine:             {}", machine.described());
    println!();
}

/// Which run is under way.
pub fn progress(work: Work, way: Way, cold: bool) {
    print!("  {}, {} ...", title(work), case(way, cold));
    // Nothing is lost when the terminal does not take it.
    let _ = std::io::stdout().flush();
}

/// How long it took.
pub fn finished(run: &Run) {
    println!(" {}", seconds(run.wall_seconds));
}

fn title(work: Work) -> &'static str {
    match work {
        Work::Replay => "the import's file operations alone",
        Work::Import => "the import itself",
    }
}

fn case(way: Way, cold: bool) -> String {
    let way = match way {
        Way::Direct => "direct",
        Way::Forebay => "through Forebay",
    };
    format!("{way}, {}", if cold { "cold" } else { "warm" })
}

/// The results.
pub fn table(document: &Document) {
    let mut table = Table::new();
    table.row(["", "slowest node", "CPU programs", "CPU Forebay", "requests", "bytes sent"]);
    for work in [Work::Replay, Work::Import] {
        table.heading(match work {
            Work::Replay => "The import's file operations alone",
            Work::Import => "The import itself (most of its warm time is Python's computing)",
        });
        for cold in [true, false] {
            for way in [Way::Direct, Way::Forebay] {
                let run = document.runs.iter().find(|run| (run.work, run.way, run.cold) == (work, way, cold));
                table.row(run.map(cells).unwrap_or_default());
            }
        }
    }
    println!("\n{} nodes at once; requests and bytes are those at the backing file system\n", document.nodes);
    println!("{table}");
    explanations(document);
}

fn cells(run: &Run) -> [String; 6] {
    let daemons = if run.way == Way::Direct { "-".to_owned() } else { seconds(run.daemons_cpu_seconds) };
    [
        format!("  {}", case(run.way, run.cold)),
        seconds(run.wall_seconds),
        seconds(run.programs_cpu_seconds),
        daemons,
        count(run.traffic.total()),
        megabytes(run.traffic.sent_bytes),
    ]
}

fn explanations(document: &Document) {
    println!("cold: fresh mounts on every node, so nothing of the files is in a node's memory; Forebay just started");
    println!("warm: the same program a second time on the same nodes");
    println!("CPU:  user and system time of all {} nodes together; all share this machine", document.nodes);
    println!("backing file system: {}", document.backing);
    println!("`forebay up` took {}", seconds(document.up_seconds));
    for work in [Work::Replay, Work::Import] {
        if let Some((times, requests)) = gain(document, work) {
            println!(
                "cold, {}: Forebay {times:.1} times as fast, with one request for every {requests:.1}",
                title(work)
            );
        }
    }
}

/// How many times faster Forebay was cold, and how many times fewer its requests.
fn gain(document: &Document, work: Work) -> Option<(f64, f64)> {
    let find = |way| document.runs.iter().find(|run| (run.work, run.way, run.cold) == (work, way, true));
    let (direct, forebay) = (find(Way::Direct)?, find(Way::Forebay)?);
    let requests = direct.traffic.total() as f64 / forebay.traffic.total().max(1) as f64;
    Some((direct.wall_seconds / forebay.wall_seconds, requests))
}

/// Where to go from here.
pub fn what_next(modelled: bool, json: &Path) {
    println!("\nThe figures behind the table: {}", json.display());
    println!("What to try next:");
    if modelled {
        println!("  make demo BACKING=gluster    the same over a real network file system (needs root)");
    }
    println!("  make bench-read              every figure of docs/performance.md, measured on this machine");
    println!("  target/release/forebay up --local 2 --export /usr --view /tmp/view    your own files, on two nodes");
    println!("  target/release/forebay explain /usr/bin/env                           where an answer comes from");
    println!("  target/release/forebay down");
}
