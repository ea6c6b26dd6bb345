//! `salvage`: lands what burst stores hold whose job has ended without it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use forebay_daemon::Salvage;
use serde_json::json;

use crate::burst_mount;
use crate::cli::SalvageArguments;
use crate::commands::drain::{self, Progress};
use crate::exit::DONE_IN_PART;
use crate::output::say;
use crate::settings::values::show_size;

/// Files that cannot land which are named one by one.
const NAMED_MAX: usize = 20;

/// Lands it.
pub fn run(arguments: &SalvageArguments) -> anyhow::Result<ExitCode> {
    let mut paths = vec![];
    for directory in &arguments.burst_store {
        paths.extend(stores_in(directory).with_context(|| format!("cannot look into {}", directory.display()))?);
    }
    let landing = arguments.burst.as_ref().map(|pair| pair.backing.as_path());
    let Some(mut salvage) = Salvage::open(&paths, landing)? else {
        return Ok(nothing_there(arguments));
    };
    let of_second_home = salvage.lacks_first().then_some(salvage.owner.0);
    if let (Some(node), false) = (of_second_home, arguments.json) {
        say!(
            "the store that the files' names are in is not here: they land as node {node}, its second home, knew them"
        );
    }
    salvage.start().context("cannot begin to land")?;
    let bytes = salvage.bytes_left();
    let progress = drain::wait_by(arguments.timeout, |time| {
        let progress = salvage.drain(time);
        Ok(Progress { steps: progress.steps as u64, why: progress.why, is_final: progress.steps == 0 })
    })?;
    let (job, landing, missing) = (salvage.job.clone(), salvage.landing.clone(), salvage.not_landed());
    let has_landed = progress.steps == 0 && progress.why.is_none();
    let landed_bytes = bytes.saturating_sub(salvage.bytes_left());
    salvage.end();
    paths.iter().filter(|path| !path.exists()).for_each(|path| burst_mount::remove_above(path));
    let stores: Vec<&PathBuf> = paths.iter().filter(|path| path.exists()).collect();
    if arguments.json {
        say!(
            "{}",
            json!({"job": job, "landing": landing, "landed": has_landed, "landed_bytes": landed_bytes,
                   "steps_to_land": progress.steps, "why": progress.why, "missing": missing, "stores": stores, "second_home": of_second_home})
        );
    } else if has_landed {
        say!("all of job {job} has landed in {} ({})", landing.display(), show_size(landed_bytes));
    } else {
        say!("{}", drain::told(&progress));
        for file in missing.iter().take(NAMED_MAX) {
            let bytes: u64 = file.missing.iter().map(|(_, len)| len).sum();
            say!("  {}: {} of nodes {:?}, {:?}", file.path.display(), show_size(bytes), file.nodes, file.missing);
        }
        if missing.len() > NAMED_MAX {
            say!("  and {} more (--json has all)", missing.len() - NAMED_MAX);
        }
        stores.iter().for_each(|store| say!("  {} stays", store.display()));
    }
    Ok(if has_landed { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}

/// The directory itself, or those of the nodes that were together on one machine.
fn stores_in(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut stores = vec![directory.to_owned()];
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(stores),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let is_rank = entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        if is_rank && entry.file_type()?.is_dir() {
            stores.push(entry.path());
        }
    }
    Ok(stores)
}

fn nothing_there(arguments: &SalvageArguments) -> ExitCode {
    if arguments.json {
        say!("{}", json!({"job": null, "landed": true, "landed_bytes": 0, "missing": [], "stores": []}));
    } else {
        let names: Vec<_> = arguments.burst_store.iter().map(|path| path.display().to_string()).collect();
        say!("no store is in {}: all has landed, or it is elsewhere", names.join(", "));
    }
    ExitCode::SUCCESS
}
