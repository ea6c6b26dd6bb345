//! A planned exchange as SimGrid is told it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use forebay_aggregate::{Aggregator, Case, Plan};

/// SimGrid's plain max-min model: no slow start, no TCP window, no traffic of acknowledgements.
const MODEL: [&str; 4] = [
    "--cfg=network/model:CM02",
    "--cfg=network/TCP-gamma:0",
    "--cfg=network/crosstraffic:0",
    "--log=root.thres:warning",
];

/// Seconds that the exchange takes by SimGrid.
pub fn by_simgrid(flows: &mut Command, case: &Case, buffers: usize, plan: &Plan) -> anyhow::Result<f64> {
    let program = flows.get_program().display().to_string();
    flows.args(MODEL).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = flows.spawn().with_context(|| format!("{program} cannot be run"))?;
    let mut input = child.stdin.take().context("no standard input")?;
    input.write_all(told(case, buffers, plan).as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{program} ends with {}", output.status);
    let said = String::from_utf8_lossy(&output.stdout);
    said.trim().parse().with_context(|| format!("{program} says {said:?}"))
}

/// Routes by their ends; a host for each node, and behind them one for each I/O node.
type Routes = BTreeMap<(usize, usize), Vec<u32>>;

/// Appends numbers. Writing into a string cannot fail.
macro_rules! say {
    ($text:expr, $($argument:tt)*) => {
        let _ = writeln!($text, $($argument)*);
    };
}

fn told(case: &Case, buffers: usize, plan: &Plan) -> String {
    let network = case.network();
    let mut routes = Routes::new();
    let mut aggregators = String::new();
    for aggregator in &plan.aggregators {
        let io_host = network.node_count() + aggregator.io_node;
        let io_link = (network.link_count() + aggregator.io_node) as u32;
        let target = case.io_nodes()[aggregator.io_node].node;
        let to_io = routes.entry((aggregator.node, io_host)).or_default();
        if to_io.is_empty() {
            network.route(aggregator.node, target, to_io);
            to_io.push(io_link);
        }
        say!(aggregators, "{} {io_host} {}", aggregator.node, plan.rounds);
        for round in 0..plan.rounds {
            let io_bytes: u64 = aggregator.part(round, &aggregator.domain).iter().map(|extent| extent.len).sum();
            let flows = flows(case, aggregator, round);
            say!(aggregators, "{io_bytes} {}", flows.len());
            for (from, bytes) in flows {
                let route = routes.entry((from, aggregator.node)).or_default();
                if route.is_empty() {
                    network.route(from, aggregator.node, route);
                }
                say!(aggregators, "{from} {bytes}");
            }
        }
    }
    let mut text = String::new();
    let links = network.rates().into_iter().map(|rate| (rate, network.link_latency_s()));
    let io_links = case.io_nodes().iter().map(|io| (io.bytes_per_s, 0.0));
    let links: Vec<(f64, f64)> = links.chain(io_links).collect();
    say!(text, "{}", links.len());
    for (rate, latency) in links {
        say!(text, "{rate} {latency}");
    }
    say!(text, "{}\n{}", network.node_count() + case.io_nodes().len(), routes.len());
    for ((from, to), links) in routes {
        let links: Vec<String> = links.iter().map(u32::to_string).collect();
        say!(text, "{from} {to} {} {}", links.len(), links.join(" "));
    }
    say!(text, "{buffers}\n{}", plan.aggregators.len());
    text + &aggregators
}

/// The bytes that each rank of another node sends to an aggregator in a round.
fn flows(case: &Case, aggregator: &Aggregator, round: usize) -> Vec<(usize, u64)> {
    let of_rank = |rank: usize| {
        let bytes: u64 = aggregator.part(round, case.extents_of(rank)).iter().map(|extent| extent.len).sum();
        (case.node_of(rank), bytes)
    };
    let all = (0..case.rank_count()).map(of_rank);
    all.filter(|(node, bytes)| *bytes > 0 && *node != aggregator.node).collect()
}
