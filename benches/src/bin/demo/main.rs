//! `make demo`: Forebay's four paths on one machine, in a minute: read, write, aggregate, query.
//!
//! Each path is shown beside what a job has without Forebay, under the same conditions, and each figure comes from the
//! run that prints it. Where other work disturbed a run, no ratio is printed. The JSON has all that was measured.

mod aggregate;
mod checkpoint;
mod document;
mod options;
mod queries;
mod reads;
mod show;
mod site;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use forebay_bench::python::Python;
use forebay_bench::quiet::Repeater;
use forebay_testkit::machine::Machine;
use forebay_testkit::results::write_json;
use forebay_testkit::stop;

use document::Document;
use options::{Backing, Options};
use reads::Program;
use site::Site;

fn main() -> ExitCode {
    let options = Options::parse();
    stop::exit_code("forebay-demo", demo(&options))
}

fn demo(options: &Options) -> anyhow::Result<ExitCode> {
    stop::on_signals().context("cannot watch for Ctrl-C")?;
    // A line of progress may be unfinished.
    let document = measured(options).inspect_err(|_| show::ended(""))?;
    write_json(&options.json, &document)?;
    show::table(&document);
    show::paths(&document);
    show::what_next(options, &options.json);
    Ok(ExitCode::SUCCESS)
}

/// All of it; what was started is gone when this returns.
fn measured(options: &Options) -> anyhow::Result<Document> {
    let python = Python::find(&options.replay)?;
    let machine = Machine::here(".".as_ref());
    let (nodes, rule) = options.nodes(machine.cores);
    let program = Program::find(&python, options)?;
    let mut site = match options.backing {
        Backing::Model => Site::model(options, nodes)?,
        Backing::Gluster => Site::gluster(options, nodes)?,
    };
    let nodes_described = format!("{nodes} on this machine ({rule})");
    show::introduction(&machine, &nodes_described, &site.described(), &program.described);
    let mut repeater = if options.once { Repeater::never() } else { Repeater::default() };
    let runs = reads::measure(&mut site, &program, &mut repeater)?;
    show::progress("a checkpoint in the burst tier, until it has landed");
    let checkpoint = checkpoint::measure(&site, &python, options, &mut repeater)?;
    let aggregation = aggregate::measure(&site, options)?;
    let (query, query_by_python) = queries::measure(&site, &python, options, &mut repeater)?;
    Ok(Document {
        machine,
        backing: site.described(),
        nodes,
        program: program.described.clone(),
        up_seconds: site.up_seconds(),
        runs,
        checkpoint_backing: checkpoint::described(&site),
        checkpoint,
        aggregation,
        query,
        query_by_python,
    })
}
