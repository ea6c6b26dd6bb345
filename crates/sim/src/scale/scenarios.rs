//! The scenarios that `forebay simulate` knows.

use forebay_overlay::{Forest, Shape, default_roots};

use super::baselines::{self, Run};
use super::parameters::{AURORA, AURORA_FIG_1, COPPER, HOROVOD, List, MPI4PY, Machine, START, Stated, TORCH, Workload};
use super::storm::{self, Figures, Loss};
use super::synthetic::Grain;
use super::table::{Bar, Curve, Outcome, in_seconds, of_curves};
use super::{copper, launch, published};

/// What a scenario is asked with.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Numbers of nodes; the scenario's own if there are none.
    pub nodes: Vec<usize>,
    /// Where chance begins.
    pub seed: u64,
}

/// A scenario.
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// Runs it.
    pub run: fn(&Question) -> Outcome,
}

/// All of them.
pub const SCENARIOS: [Scenario; 7] = [
    Scenario {
        name: "import-direct",
        about: "Fig. 1 of the Copper paper: imports from Lustre, 1 to 512 nodes",
        run: fig_1,
    },
    Scenario { name: "first-run", about: "Fig. 4: cold import of torch, direct and with Copper's design", run: fig_4 },
    Scenario {
        name: "second-run",
        about: "Fig. 5: the second import of torch, direct and with Copper's design",
        run: fig_5,
    },
    Scenario { name: "cold", about: "cold import of torch, all ways, to 100,000 nodes", run: cold },
    Scenario { name: "start", about: "start of the job itself, to 100,000 nodes", run: start },
    Scenario { name: "lost", about: "cold import of torch while nodes are lost", run: lost },
    Scenario { name: "links", about: "bytes over the busiest link, by number of roots", run: links },
];

/// The scenario of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

/// What to ask a scenario for its bars alone.
#[must_use]
pub fn for_bars(name: &str, seed: u64) -> Question {
    let nodes = match name {
        "cold" => vec![32, 100_000],
        "start" => vec![10_000],
        _ => vec![],
    };
    Question { nodes, seed }
}

/// How coarsely jobs of real cores are told: the same at every number of nodes, or they could not be compared.
pub const GRAIN: Grain = Grain { small: 16, large: 16 };

/// Children of a node in a tree of directories, as the option's default has it.
const FAN_OUT: u32 = 8;

/// Children of a node in a tree of stripes, likewise.
const STRIPE_FAN_OUT: u32 = 4;

const PAPER: &str = "N. Lewis et al., Copper: Cooperative Caching Layer for Scalable Data Loading, PDSW at SC24";

impl Question {
    fn nodes_or(&self, own: &[usize]) -> Vec<usize> {
        if self.nodes.is_empty() { own.to_vec() } else { self.nodes.clone() }
    }
}

/// The forest as the daemon makes it by default (`--fanout`, `--stripe-fanout`), with so many roots.
fn forest_of(nodes: usize, roots: u32) -> Forest {
    let shape = Shape { node_count: nodes as u32, roots, fan_out: FAN_OUT, stripe_fan_out: STRIPE_FAN_OUT };
    Forest::new(shape).expect("a model's job has nodes and roots")
}

fn forest(nodes: usize) -> Forest {
    forest_of(nodes, default_roots(nodes as u32))
}

fn fig_1(question: &Question) -> Outcome {
    let nodes = question.nodes_or(&[1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
    let direct = |workload: &Workload| {
        curve(&nodes, |nodes| baselines::direct(&AURORA_FIG_1, workload, nodes, Run::Cold, question.seed))
    };
    let curves = vec![
        Curve::published("horovod, direct", published::FIG_1_HOROVOD),
        Curve::published("mpi4py, direct", published::FIG_1_MPI4PY),
        Curve::modelled("horovod, direct", direct(&HOROVOD)),
        Curve::modelled("mpi4py, direct", direct(&MPI4PY)),
    ];
    Outcome {
        name: "import-direct",
        title: "Imports from Lustre, 12 processes a node (Fig. 1)".to_owned(),
        source: PAPER,
        parameters: [AURORA_FIG_1.list(), HOROVOD.list(), MPI4PY.list()].concat(),
        rows: of_curves(&curves),
        notes: vec![shape(&curves[0], &curves[2]), shape(&curves[1], &curves[3])],
        curves,
        bars: vec![],
    }
}

fn fig_4(question: &Question) -> Outcome {
    let nodes = question.nodes_or(&[32, 64, 128, 256, 512, 1024, 2048, 8300]);
    let curves = vec![
        Curve::published("direct", published::FIG_4_DIRECT),
        Curve::published("Copper", published::FIG_4_COPPER),
        direct_curve(&nodes, Run::Cold, question),
        copper_curve(&nodes, Run::Cold, question),
        Curve::modelled("Forebay", curve(&nodes, |nodes| of_forebay(&AURORA, nodes, question.seed).last_seconds)),
    ];
    Outcome {
        name: "first-run",
        title: "Cold import of torch, 12 processes a node (Fig. 4)".to_owned(),
        source: PAPER,
        parameters: parameters(),
        rows: of_curves(&curves),
        notes: vec![shape(&curves[0], &curves[2]), shape(&curves[1], &curves[3])],
        curves,
        bars: vec![],
    }
}

fn fig_5(question: &Question) -> Outcome {
    let nodes = question.nodes_or(&[32, 64, 128, 256, 512, 1024, 2048, 8300]);
    let curves = vec![
        Curve::published("direct", published::FIG_5_DIRECT),
        Curve::published("Copper", published::FIG_5_COPPER),
        direct_curve(&nodes, Run::Second, question),
        copper_curve(&nodes, Run::Second, question),
        // The kernel has every entry and page: no message is sent (measured).
        Curve::modelled("Forebay", curve(&nodes, |_| TORCH.computing.value)),
    ];
    Outcome {
        name: "second-run",
        title: "Second import of torch, 12 processes a node (Fig. 5)".to_owned(),
        source: PAPER,
        parameters: parameters(),
        rows: of_curves(&curves),
        notes: vec![shape(&curves[0], &curves[2]), shape(&curves[1], &curves[3])],
        curves,
        bars: vec![],
    }
}

fn cold(question: &Question) -> Outcome {
    let nodes = question.nodes_or(&[32, 128, 512, 2048, 8300, 32_768, 100_000]);
    let forebay =
        Curve::modelled("Forebay", curve(&nodes, |nodes| of_forebay(&AURORA, nodes, question.seed).last_seconds));
    let packed =
        |nodes| storm::start_with_pack(&AURORA, &TORCH, GRAIN, forest(nodes), nodes, question.seed).last_seconds;
    let packed = Curve::modelled("Forebay, profile and pack", curve(&nodes, packed));
    let image = |nodes| baselines::image(&AURORA, &TORCH, nodes, question.seed);
    let bars = [growth(&forebay), growth(&packed)].concat();
    let curves = vec![
        direct_curve(&nodes, Run::Cold, question),
        copper_curve(&nodes, Run::Cold, question),
        Curve::modelled("SquashFS image", curve(&nodes, image)),
        forebay,
        packed,
    ];
    Outcome {
        name: "cold",
        title: "Cold import of torch, all ways".to_owned(),
        source: "a prediction; nothing is published for so many nodes",
        parameters: parameters(),
        rows: of_curves(&curves),
        notes: vec!["The image is striped over all object servers, which few users do.".to_owned()],
        curves,
        bars,
    }
}

fn start(question: &Question) -> Outcome {
    let nodes = question.nodes_or(&[2, 16, 64, 256, 1024, 4096, 10_000, 32_768, 100_000]);
    let started: Vec<_> =
        nodes.iter().map(|nodes| launch::start(&AURORA, &START, &forest(*nodes), *nodes, question.seed)).collect();
    let mut rows = vec![
        ["nodes", "last daemon ready, s", "all known, s", "messages", "most at a node"].map(str::to_owned).to_vec(),
    ];
    for (nodes, started) in nodes.iter().zip(&started) {
        let times = [started.ready_seconds, started.known_seconds].map(in_seconds);
        let counts = [started.messages, started.messages_max].map(|count| count.to_string());
        rows.push([vec![nodes.to_string()], times.to_vec(), counts.to_vec()].concat());
    }
    let points = nodes.iter().zip(&started).map(|(nodes, started)| (*nodes as f64, started.known_seconds)).collect();
    let known = Curve::modelled("Forebay, all known to be ready", points);
    let bars = known.at(10_000).map(|figure| Bar {
        what: "readiness of 10,000 daemons".to_owned(),
        figure,
        at_most: 1.0,
        unit: "s",
    });
    Outcome {
        name: "start",
        title: "From the launcher's start of daemons until all are known to be ready".to_owned(),
        source: "Copper's documents: Registration and Scaling",
        parameters: [AURORA.list(), START.list()].concat(),
        rows,
        curves: vec![
            Curve::published("Copper, registration, older", published::COPPER_REGISTRATION),
            Curve::published("Copper, registration, later", published::COPPER_REGISTRATION_LATER),
            known,
        ],
        bars: bars.into_iter().collect(),
        notes: vec![
            "Registration is a daemon's own readiness, not that of all; its later figure is with an address book made \
                     before the start."
                .to_owned(),
        ],
    }
}

fn lost(question: &Question) -> Outcome {
    let nodes = question.nodes_or(&[2048])[0];
    let at_seconds = TORCH.computing.value / 2.0;
    let group: Vec<u32> = (64..128).filter(|node| (*node as usize) < nodes).collect();
    let hundredth: Vec<u32> = (0..nodes as u32).filter(|node| node % 100 == 57).collect();
    let cases = [
        ("nothing", vec![]),
        ("the first root", vec![0]),
        ("a switch of 64 nodes", group),
        ("1 % of all nodes", hundredth),
    ];
    let mut rows = vec![
        ["lost", "the others had all, s", "longest request, s", "requests failed", "asked again", "read twice, MB"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for (what, lost) in cases {
        let losses = if lost.is_empty() { vec![] } else { vec![Loss { at_seconds, nodes: lost }] };
        let figures = storm::start_with_losses(&AURORA, &TORCH, GRAIN, forest(nodes), nodes, question.seed, &losses);
        let twice = figures.backing_bytes as f64 / 1e6 - (TORCH.small.value + TORCH.large.value) / 1e6;
        let times = [figures.last_seconds, figures.longest_seconds].map(in_seconds);
        let counts = [figures.failed, figures.asked_again, twice.max(0.0) as u64].map(|count| count.to_string());
        rows.push([vec![what.to_owned()], times.to_vec(), counts.to_vec()].concat());
    }
    Outcome {
        name: "lost",
        title: format!("Cold import of torch on {nodes} nodes, some lost after {at_seconds} s without a word"),
        source: "a prediction",
        parameters: parameters(),
        rows,
        curves: vec![],
        bars: vec![],
        notes: vec![
            "Nodes that are lost do not answer and do not refuse either, as when a switch loses power.".to_owned(),
        ],
    }
}

fn links(question: &Question) -> Outcome {
    let nodes = question.nodes_or(&[2048])[0];
    let mut rows = vec![
        ["roots", "all had all, s", "busiest node's link, x mean", "busiest group's links, x mean"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let mut bars = Vec::new();
    for roots in [1, 2, 4, 8, 16] {
        let figures = storm::start(&AURORA, &TORCH, GRAIN, forest_of(nodes, roots), nodes, question.seed);
        let cells = [figures.last_seconds, figures.busiest_link(), figures.busiest_group()].map(in_seconds);
        rows.push([vec![roots.to_string()], cells.to_vec()].concat());
        if roots == 8 {
            let what = "8 roots: the busiest link against the mean".to_owned();
            bars.push(Bar { what, figure: figures.busiest_link(), at_most: 1.5, unit: "x" });
        }
    }
    Outcome {
        name: "links",
        title: format!("Bytes over links, cold import of torch on {nodes} nodes"),
        source: "a prediction",
        parameters: parameters(),
        rows,
        curves: vec![],
        bars,
        notes: vec![],
    }
}

fn of_forebay(machine: &Machine, nodes: usize, seed: u64) -> Figures {
    storm::start(machine, &TORCH, GRAIN, forest(nodes), nodes, seed)
}

fn curve(nodes: &[usize], of: impl Fn(usize) -> f64) -> Vec<(f64, f64)> {
    nodes.iter().map(|nodes| (*nodes as f64, of(*nodes))).collect()
}

fn direct_curve(nodes: &[usize], run: Run, question: &Question) -> Curve {
    Curve::modelled("direct", curve(nodes, |nodes| baselines::direct(&AURORA, &TORCH, nodes, run, question.seed)))
}

fn copper_curve(nodes: &[usize], run: Run, question: &Question) -> Curve {
    let time = |nodes| copper::time(&AURORA, &COPPER, &TORCH, nodes, run, question.seed);
    Curve::modelled("Copper's design", curve(nodes, time))
}

fn parameters() -> Vec<Stated> {
    [AURORA.list(), TORCH.list(), COPPER.list()].concat()
}

/// The bar over growth from 32 to 100,000 nodes, where both were asked for.
fn growth(curve: &Curve) -> Vec<Bar> {
    let (Some(few), Some(many)) = (curve.at(32), curve.at(100_000)) else { return vec![] };
    let what = format!("{}: cold torch at 100,000 nodes against 32", curve.label);
    vec![Bar { what, figure: many / few, at_most: 1.3, unit: "x" }]
}

/// How far a curve of the model is from the published one.
fn shape(published: &Curve, modelled: &Curve) -> String {
    let ratios = published.points.iter().filter_map(|(at, value)| Some(modelled.at(*at as usize)? / value));
    let ratios: Vec<f64> = ratios.collect();
    let (least, most) =
        ratios.iter().fold((f64::MAX, 0.0f64), |(least, most), ratio| (least.min(*ratio), most.max(*ratio)));
    format!("{}: model over published {least:.2} to {most:.2}", published.label)
}
