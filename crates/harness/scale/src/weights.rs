//! Weights of a model that all nodes read at once, in order: over homes and the chains between nodes, and over the trees of roots.

use forebay_overlay::{Forest, Shape, default_fan_out, default_roots, default_stripe_fan_out, limits::HOMES_MAX};
use forebay_types::{Kind, ViewPath};

use super::curves::default_forest;
use super::files::{Files, Script, Weight, Writer};
use super::job::Setup;
use super::parameters::{MODEL, WEIGHTS_BED};
use super::storm::{self, Figures};
use super::table::{Bar, Curve, Outcome, in_seconds};

const FILES: u64 = 4;
const FILE_BYTES: u64 = 1 << 30;
const BYTES: f64 = (FILES * FILE_BYTES) as f64;

/// The weights on so many nodes, each way.
pub(super) fn weights(nodes: &[usize], seed: u64) -> Outcome {
    let (files, script) = files_and_script();
    let ideal = BYTES / WEIGHTS_BED.network.node_link.value.min(WEIGHTS_BED.file_system.object_server.value);
    let head = ["nodes", "last node has all, s", "x bytes over its link", "x bytes read from the file system"];
    let head = head.into_iter().chain(["busiest node sent, x bytes", "over roots' trees, s"]).map(str::to_owned);
    let (mut rows, mut bars) = (vec![head.collect::<Vec<_>>()], Vec::new());
    let mut points = [Vec::new(), Vec::new()];
    for nodes in nodes.iter().copied().filter(|nodes| *nodes <= HOMES_MAX as usize) {
        let run = |forest| storm::run(setup(&files, &script, forest, nodes, seed));
        let (homes, roots) = (run(forest(nodes)), run(default_forest(nodes)));
        let [by_homes, by_roots] = [&homes, &roots].map(Figures::all_seconds);
        let part = by_homes.map(|seconds| seconds / ideal);
        let read = homes.backing_bytes as f64 / BYTES;
        let sent = homes.sent.iter().copied().max().unwrap_or(0) as f64 / BYTES;
        let shown = |figure: Option<f64>| figure.map_or("-".to_owned(), in_seconds);
        let cells = [by_homes, part, Some(read), Some(sent), by_roots].map(shown);
        rows.push([vec![nodes.to_string()], cells.to_vec()].concat());
        let bar =
            |what: &str, figure, at_most| Bar { what: format!("{nodes} nodes: {what}"), figure, at_most, unit: "x" };
        bars.push(bar("last node has all, against bytes over its link", part, 1.15));
        bars.push(bar("bytes read from the file system, against the weights", Some(read), 1.01));
        for (points, seconds) in points.iter_mut().zip([by_homes, by_roots]) {
            points.extend(seconds.map(|seconds| (nodes as f64, seconds)));
        }
    }
    let [by_homes, by_roots] = points;
    Outcome {
        title: format!("Weights of {FILES} GiB, read by all nodes in order"),
        source: "a prediction; nothing is published of this",
        parameters: [WEIGHTS_BED.list(), MODEL.list()].concat(),
        rows,
        curves: vec![Curve::modelled("homes", by_homes), Curve::modelled("trees of roots", by_roots)],
        bars,
        notes: vec![format!("More than {HOMES_MAX} nodes have no homes.")],
    }
}

fn setup<'a>(files: &'a Files, script: &'a Script, forest: Forest, nodes: usize, seed: u64) -> Setup<'a> {
    Setup { machine: &WEIGHTS_BED, files, script, pack: None, forest, nodes, seed, losses: &[] }
}

fn forest(nodes: usize) -> Forest {
    let roots = default_roots(nodes as u32);
    let fan_out = default_fan_out(roots);
    let stripe_fan_out = default_stripe_fan_out(fan_out);
    let shape = Shape { node_count: nodes as u32, roots, fan_out, stripe_fan_out, has_homes: true, row_chunks: 1 };
    Forest::new(shape).expect("no more nodes than can be homes")
}

fn files_and_script() -> (Files, Script) {
    let path = |number| ViewPath::new(format!("model/{number}.safetensors").as_bytes()).expect("a path");
    let mut files = Files::new();
    for number in 0..FILES {
        files.add(path(number), Kind::File, FILE_BYTES, Weight::ONE);
    }
    files.finish();
    let mut writer = Writer::new(&files, WEIGHTS_BED.daemon.kernel_read);
    (0..FILES).for_each(|number| writer.read(&path(number)));
    let script = writer.finish(0.0);
    (files, script)
}
