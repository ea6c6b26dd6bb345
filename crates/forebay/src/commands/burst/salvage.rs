//! `salvage`: lands what burst stores hold whose job has ended without it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use forebay_daemon::{NotLanded, Progress, Salvage, SalvageEnd, job_of_store};
use serde_json::json;

use crate::burst_mount;
use crate::cli::SalvageArguments;
use crate::commands::burst::drain;
use crate::exit::DONE_IN_PART;
use crate::kept_logs;
use crate::meeting::{Met, Place, leave, meet, stores_in};
use crate::output::{quoted_path, say, shown_path};
use crate::settings::values::show_size;
use crate::unlanded::Unlanded;

/// Files that cannot land which are named one by one.
const NAMED_MAX: usize = 20;

/// Lands it.
pub fn run(arguments: &SalvageArguments) -> anyhow::Result<ExitCode> {
    let mut paths = vec![];
    for directory in &arguments.burst_store {
        paths.extend(stores_at(directory).with_context(|| format!("cannot look into {}", directory.display()))?);
    }
    let landing = arguments.burst.as_ref().map(|pair| pair.backing.as_path());
    let mut place = None;
    if let Some(wait) = arguments.meet {
        let job = paths.iter().find_map(|path| job_of_store(path));
        match meet(&paths, landing, wait, arguments.timeout.unwrap_or(wait))? {
            Met::Here(met, met_at) => (paths, place) = (met, met_at),
            Met::Landed => {
                job.iter().for_each(|job| kept_logs::keep_note(job, Unlanded::none()));
                return Ok(carried(arguments, None));
            }
            Met::Waiting(place) => return Ok(carried(arguments, Some(&place))),
        }
    }
    let landed = land(arguments, landing, &paths, place.as_ref());
    landed.map_err(|error| if let Some(place) = place { place.named(&error) } else { error })
}

/// Lands the stores at `paths`, of which some are in `place`.
fn land(
    arguments: &SalvageArguments,
    landing: Option<&Path>,
    paths: &[PathBuf],
    place: Option<&Place>,
) -> anyhow::Result<ExitCode> {
    let Some(mut salvage) = Salvage::open(paths, landing)? else {
        return nothing_there(arguments);
    };
    let of_standby = salvage.lacks_first().then_some(salvage.leader.0);
    if let (Some(node), false) = (of_standby, arguments.json) {
        say!(
            "the store with the files' names was not given: files land under the names that node {node}, its second \
             home, knew"
        );
    }
    salvage.start().context("cannot start landing")?;
    let bytes = salvage.bytes_left();
    let progress = drain::wait_by(arguments.timeout, "", |time| {
        let progress = salvage.drain(time);
        Ok(Progress { is_final: progress.steps == 0, ..progress })
    })?;
    let (job, landing) = (salvage.job.clone(), salvage.landing.clone());
    let others = std::mem::take(&mut salvage.of_other_runs);
    // More may have landed since it was waited for.
    let SalvageEnd { steps, bytes: bytes_left, missing } = salvage.end();
    let progress = Progress { steps, bytes: bytes_left, ..progress };
    let is_gone = !progress.has_lost_changes && others.is_empty() && paths.iter().all(|path| !path.exists());
    let has_landed = steps == 0 && (progress.why.is_none() || is_gone) && others.is_empty();
    let landed_bytes = bytes.saturating_sub(bytes_left);
    paths.iter().filter(|path| !path.exists()).for_each(|path| burst_mount::remove_above(path));
    leave(paths, &landing, &job);
    kept_logs::keep_note(&job, Unlanded::none());
    let shown = |path: &PathBuf| place.map_or_else(|| path.clone(), |place| place.shown_path(path));
    let stores: Vec<PathBuf> = paths.iter().filter(|path| path.exists()).map(shown).collect();
    let others: Vec<PathBuf> = others.iter().map(shown).collect();
    if arguments.json {
        say!(
            "{}",
            json!({"job": job, "landing": landing, "landed": has_landed, "landed_bytes": landed_bytes,
                   "steps_to_land": progress.steps, "why": progress.why, "missing": missing, "stores": stores,
                   "other_runs": others, "second_home": of_standby})
        );
    } else if has_landed {
        say!("all of job {job} has landed in {} ({})", shown_path(&landing), show_size(landed_bytes));
    } else {
        match progress.steps == 0 && progress.why.is_none() {
            true => say!("one run of job {job} has landed in {} ({})", shown_path(&landing), show_size(landed_bytes)),
            false => say!("{}", drain::told(&progress)),
        }
        name(&missing);
        for store in stores {
            let is_other = others.contains(&store);
            let why =
                if is_other { ": it is of another run of the job, whose names are not in these stores" } else { "" };
            say!("  {} stays{why}", shown_path(&store));
        }
    }
    Ok(if has_landed { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}

/// Says what is not here, of each file.
fn name(missing: &[NotLanded]) {
    for file in missing.iter().take(NAMED_MAX) {
        let bytes: u64 = file.missing.iter().map(|(_, len)| len).sum();
        say!("  {}: {} of nodes {:?}, {:?}", shown_path(&file.path), show_size(bytes), file.nodes, file.missing);
    }
    if missing.len() > NAMED_MAX {
        say!("  and {} more (--json has all)", missing.len() - NAMED_MAX);
    }
}

/// The directory itself, or those of the nodes that were together on one machine.
fn stores_at(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    match stores_in(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(vec![directory.to_owned()]),
        stores => Ok(std::iter::once(directory.to_owned()).chain(stores?).collect()),
    }
}

/// The first node has the stores now, or waits to.
fn carried(arguments: &SalvageArguments, place: Option<&Path>) -> ExitCode {
    match (place, arguments.json) {
        (None, true) => say!("{}", json!({"landed": true, "stores": []})),
        (None, false) => say!("the stores of this node have landed with those of the job's first node"),
        (Some(place), true) => say!("{}", json!({"landed": false, "stores": [place]})),
        (Some(place), false) => say!(
            "the stores of this node are in {} and wait for the job's first node; without it: forebay salvage --burst-store {}",
            shown_path(place),
            quoted_path(place)
        ),
    }
    place.map_or(ExitCode::SUCCESS, |_| ExitCode::from(DONE_IN_PART))
}

/// Where there are directories without stores, all has landed, or they are the wrong ones. One that does not exist is not the one that is meant, perhaps; on some of
/// the machines whose stores meet, it may have gone to the others.
fn nothing_there(arguments: &SalvageArguments) -> anyhow::Result<ExitCode> {
    if arguments.meet.is_none()
        && let Some(absent) = arguments.burst_store.iter().find(|directory| !directory.exists())
    {
        bail!("{} does not exist; nothing was salvaged. `up` prints the store of a job.", absent.display());
    }
    if arguments.json {
        let landed = arguments.meet.map(|_| true);
        say!("{}", json!({"job": null, "landed": landed, "landed_bytes": 0, "missing": [], "stores": []}));
    } else {
        let names: Vec<_> = arguments.burst_store.iter().map(|path| shown_path(path)).collect();
        say!("there is no store in {}: everything has landed, or the store is elsewhere", names.join(", "));
    }
    // An epilogue asks on every node, and most have no store.
    Ok(if arguments.meet.is_some() { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}
