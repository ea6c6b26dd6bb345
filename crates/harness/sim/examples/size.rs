//! The cost of a simulated job of many nodes: every node looks one path up and reads one file.
//!
//! `cargo run --release -p forebay-sim --example size -- NODES`

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::time::Instant;

use forebay_sim::job::Job;
use forebay_sim::model::Model;
use forebay_sim::program::Program;
use forebay_sim::setup::Setup;

fn main() {
    let nodes: usize = std::env::args().nth(1).map_or(1000, |text| text.parse().unwrap());
    let model = Model::packages(1);
    let setup =
        Setup { nodes, roots: 8, fan_out: 8, stripe_fan_out: 4, budget_bytes: 64 << 20, turns: 64, ..Setup::default() };
    let began = Instant::now();
    let mut job = Job::new(&model, setup, 1);
    job.run((0..nodes).map(|node| Program::whole_file(&model, node, 3)).collect());
    let took = began.elapsed();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let memory = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!("{nodes} nodes: {took:?} for {:?} of virtual time, {memory}, wrong: {:?}", job.now(), job.wrong());
}
