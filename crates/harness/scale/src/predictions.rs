//! Figures that are not published: all ways to 100,000 nodes, the start of the job itself, nodes that are lost, and links.

use super::baselines::{self, Run};
use super::curves::{curve, default_forest, direct_curve, forebay_curve, forest_of, of_torch, torch};
use super::job::Loss;
use super::parameters::{AURORA, START, TORCH};
use super::servers::scattered;
use super::storm::Storm;
use super::table::{Bar, Curve, Outcome, in_seconds, of_curves};
use super::{launch, published};

const PREDICTION: &str = "a prediction; nothing is published for so many nodes";

/// Ways to start cold. Copper's design is none of them: what a request costs its root is fitted to its paper, and Forebay's
/// roots are not charged that.
pub(super) fn cold(nodes: &[usize], seed: u64) -> Outcome {
    let forebay = forebay_curve(nodes, seed);
    let packed = |nodes| Storm { is_known: true, ..torch(nodes, seed) }.run().all_seconds();
    let packed = curve("Forebay, profile and pack", nodes, packed);
    let bars = [&forebay, &packed].into_iter().flat_map(|curve| growth(nodes, curve)).collect();
    let curves = vec![
        direct_curve(nodes, Run::Cold, seed),
        curve("SquashFS image", nodes, |nodes| Some(baselines::image(&AURORA, &TORCH, nodes, seed))),
        forebay,
        packed,
    ];
    Outcome {
        title: "Cold import of torch".to_owned(),
        source: PREDICTION,
        parameters: of_torch(),
        rows: of_curves(&curves),
        notes: vec![
            "The image is striped over all object servers, which few users do; that nodes unpack it is not counted."
                .to_owned(),
        ],
        curves,
        bars,
    }
}

/// The bars over growth from 32 to 100,000 nodes, where both were asked for: of the whole time, and of what it is beyond the
/// programs' own computing, which no number of nodes changes.
fn growth(nodes: &[usize], curve: &Curve) -> Vec<Bar> {
    let (few, many) = (32, 100_000);
    if !nodes.contains(&few) || !nodes.contains(&many) {
        return Vec::new();
    }
    let bar = |less: f64, without: &str| {
        let what = format!("{}: cold torch at 100,000 nodes against 32{without}", curve.label);
        let figure = || Some((curve.at(many)? - less) / (curve.at(few)? - less));
        Bar { what, figure: figure(), at_most: 1.3, unit: "x" }
    };
    vec![bar(0.0, ""), bar(TORCH.computing.value, ", without the computing")]
}

/// The start of the job itself.
pub(super) fn start(nodes: &[usize], seed: u64) -> Outcome {
    let start = |nodes: &usize| launch::start(&AURORA, &START, &default_forest(*nodes), *nodes, seed);
    let started: Vec<_> = nodes.iter().map(start).collect();
    let head = ["nodes", "last daemon ready, s", "all known, s", "messages", "most at a node"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (nodes, started) in nodes.iter().zip(&started) {
        let times = [started.ready_seconds, started.known_seconds].map(in_seconds);
        let counts = [started.messages, started.messages_max].map(|count| count.to_string());
        rows.push([vec![nodes.to_string()], times.to_vec(), counts.to_vec()].concat());
    }
    let known = nodes.iter().zip(&started).filter(|(nodes, started)| started.nodes as usize == **nodes);
    let known = known.map(|(nodes, started)| (*nodes as f64, started.known_seconds)).collect();
    let known = Curve::modelled("Forebay, all known to be ready", known);
    let bar =
        || Bar { what: "readiness of 10,000 daemons".to_owned(), figure: known.at(10_000), at_most: 1.0, unit: "s" };
    let bars = nodes.contains(&10_000).then(bar).into_iter().collect();
    let note = "Registration is a daemon's own readiness, not that of all; its later figure is with an address book \
                made before the start.";
    Outcome {
        title: "From the launcher's start of daemons until all are known to be ready".to_owned(),
        source: "Copper's documents: Registration and Scaling",
        parameters: [AURORA.list(), START.list()].concat(),
        rows,
        curves: vec![
            Curve::published("Copper, registration, older", published::COPPER_REGISTRATION),
            Curve::published("Copper, registration, later", published::COPPER_REGISTRATION_LATER),
            known,
        ],
        bars,
        notes: vec![note.to_owned()],
    }
}

/// The losses, with their nodes; only those that a job of so few nodes can have.
fn losses(nodes: usize, seed: u64) -> Vec<(&'static str, Vec<u32>)> {
    let switch = AURORA.network.group_nodes.count();
    let mut by_chance: Vec<u32> = (0..nodes as u32).collect();
    by_chance.sort_by_key(|node| scattered(seed, u64::from(*node)));
    let hundredth = by_chance.into_iter().take(nodes / 100).collect();
    let cases = [
        ("the first root", vec![0]),
        ("a switch", (switch as u32..2 * switch as u32).filter(|_| nodes > 2 * switch).collect()),
        ("1 % of all nodes", hundredth),
    ];
    let some = cases.into_iter().filter(|(_, lost): &(_, Vec<u32>)| !lost.is_empty() && lost.len() < nodes);
    std::iter::once(("nothing", vec![])).chain(some).collect()
}

/// Nodes lost on the way.
pub(super) fn lost(nodes: &[usize], seed: u64) -> Outcome {
    let nodes = nodes[0];
    let at_seconds = TORCH.computing.value / 2.0;
    let head = ["lost", "nodes lost", "the others had all, s", "longest request, s", "requests failed", "without end"];
    let head = head.into_iter().chain(["asked again", "read twice, MB"]).map(str::to_owned);
    let mut rows = vec![head.collect::<Vec<_>>()];
    for (what, lost) in losses(nodes, seed) {
        let count = lost.len();
        let losses = [Loss { at_seconds, nodes: lost }];
        let figures = Storm { losses: &losses, ..torch(nodes, seed) }.run();
        let twice = figures.backing_bytes as f64 / 1e6 - (TORCH.small.value + TORCH.large.value) / 1e6;
        let times = [figures.last_seconds, figures.longest_seconds].map(in_seconds);
        let counts = [figures.failed, figures.stuck as u64, figures.asked_again, twice.max(0.0) as u64];
        let counts = counts.map(|count| count.to_string());
        rows.push([vec![what.to_owned(), count.to_string()], times.to_vec(), counts.to_vec()].concat());
    }
    let note = "Nodes that are lost do not answer and do not refuse either, as when a switch loses power.";
    Outcome {
        title: format!("Cold import of torch on {nodes} nodes, some lost after {at_seconds} s without a word"),
        source: PREDICTION,
        parameters: of_torch(),
        rows,
        curves: vec![],
        bars: vec![],
        notes: vec![note.to_owned()],
    }
}

/// Bytes over links.
pub(super) fn links(nodes: &[usize], seed: u64) -> Outcome {
    let nodes = nodes[0];
    let head = ["roots", "all had all, s", "busiest node's link, x mean", "busiest group's links, x mean"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mut bars = Vec::new();
    for roots in [1, 2, 4, 8, 16] {
        let figures = Storm { forest: forest_of(nodes, roots), ..torch(nodes, seed) }.run();
        let all = figures.all_seconds();
        let cells = [figures.busiest_link(), figures.busiest_group()].map(in_seconds);
        rows.push([vec![roots.to_string(), all.map_or("-".to_owned(), in_seconds)], cells.to_vec()].concat());
        if roots == 8 {
            let what = "8 roots: the busiest link against the mean".to_owned();
            bars.push(Bar { what, figure: all.map(|_| figures.busiest_link()), at_most: 1.5, unit: "x" });
        }
    }
    Outcome {
        title: format!("Bytes over links, cold import of torch on {nodes} nodes"),
        source: PREDICTION,
        parameters: of_torch(),
        rows,
        curves: vec![],
        bars,
        notes: vec![],
    }
}
