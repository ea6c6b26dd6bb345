//! Requests and bytes among nodes while a large Python import starts on all of them, file by file as the model has it:
//! means over some seeds.
//!
//! `cargo run --release -p forebay-scale --example traffic`

#![allow(clippy::print_stdout, reason = "an example prints")]

use forebay_scale::parameters::{AURORA, TORCH};
use forebay_scale::{Figures, Grain, Storm, default_forest};

const SEEDS: u64 = 6;

fn main() {
    println!("nodes  pack   messages  MiB sent  seconds");
    for nodes in [16, 64, 128] {
        for is_known in [false, true] {
            let (machine, workload, grain) = (&AURORA, &TORCH, Grain::FINE);
            let run = |seed| {
                Storm { machine, workload, grain, forest: default_forest(nodes), nodes, seed, is_known, losses: &[] }
                    .run()
            };
            let runs: Vec<Figures> = (1..=SEEDS).map(run).collect();
            let mean = |of: &dyn Fn(&Figures) -> f64| runs.iter().map(of).sum::<f64>() / SEEDS as f64;
            println!(
                "{nodes:5}  {is_known:5}  {:8.0}  {:8.0}  {:7.3}",
                mean(&|figures| figures.questions as f64),
                mean(&|figures| (figures.sent.iter().sum::<u64>() >> 20) as f64),
                mean(&|figures| figures.last_seconds),
            );
        }
    }
}
