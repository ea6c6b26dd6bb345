//! The steps of a trial, on standard error while they run.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_trial::machine::Machine;
use forebay_trial::nodes::model_described;
use forebay_trial::quiet::Measured;
use forebay_trial::show::marked;
use forebay_trial::table::seconds;

use crate::commands::trial::choice::Choice;
use crate::commands::trial::site::Run;
use crate::output::in_one_line;

/// Writes a part of a line on standard error. Its reader may be gone; a panic would leave mounts behind.
macro_rules! part {
    ($($text:tt)*) => {{
        let _ = write!(std::io::stderr(), $($text)*);
    }};
}

/// The head of the output.
pub fn introduction(choice: &Choice, machine: &Machine, nodes: usize, processes: usize) {
    let each = if processes == 1 { String::new() } else { format!(", {processes} processes on each") };
    part!("Forebay's trial: one command, directly and through Forebay, by turns.\n");
    part!("Command:             {}\n", in_one_line(&choice.described));
    part!("Tree:                {}\n", in_one_line(&choice.tree.display().to_string()));
    part!("Nodes:               {nodes} on this machine{each}\n");
    part!("Backing file system: {}\n", model_described());
    part!("Machine:             {}\n\n", machine.hardware());
}

/// Whether the line of a step waits for its end.
static IS_UNFINISHED: AtomicBool = AtomicBool::new(false);

/// A step begins.
pub fn begin(text: &str) {
    part!("  {text} ...");
    IS_UNFINISHED.store(true, Ordering::Relaxed);
}

/// It has ended.
pub fn end(wall_seconds: f64, run: Option<&Measured<Run>>) {
    part!(" {}\n", run.map_or_else(|| seconds(wall_seconds), |run| marked(wall_seconds, run)));
    IS_UNFINISHED.store(false, Ordering::Relaxed);
}

/// Ends the line of a step that does not come to its end.
pub fn end_line() {
    if IS_UNFINISHED.swap(false, Ordering::Relaxed) {
        part!("\n");
    }
}
