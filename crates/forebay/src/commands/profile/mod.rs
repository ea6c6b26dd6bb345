//! `profile list|show|record|drop`: what start-ups have recorded, for the user to see and to remove.
//!
//! Only `record` needs a job. These commands make no directory: one that is not there holds no profiles. A profile that
//! cannot be used is listed with the reason, and can be removed like any other.

mod report;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use forebay_profile::{KeptProfile, ProfileDirectory, ProfileError};
use forebay_types::NodeRank;
use serde_json::{Value, json};

use crate::cli::{ProfileArguments, ProfileCommand, ProfileDropArguments, ProfilePlace, ProfileRecordArguments};
use crate::columns;
use crate::commands::ask::ask_any;
use crate::commands::profile::report::{Listed, uses_as_json, uses_as_lines};
use crate::jobs::{self, variable};
use crate::output::{causes, say};
use crate::settings::Effective;
use crate::settings::values::show_size;

/// The node that records what its job uses.
const RECORDER: NodeRank = NodeRank(0);

/// How long it may take to read what is to be packed, and to pack it.
const RECORD_TIMEOUT: Duration = Duration::from_secs(300);

/// Digits of a key that name it if no other begins with them: fewer could be a word.
const KEY_DIGITS_MIN: usize = 4;

/// Does what is asked.
pub fn run(arguments: ProfileArguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        ProfileCommand::List(arguments) => list(&Place::open(arguments.place)?, arguments.json)?,
        ProfileCommand::Show(arguments) => show(&Place::open(arguments.place)?, &arguments.which, arguments.json)?,
        ProfileCommand::Record(arguments) => record(arguments)?,
        ProfileCommand::Drop(arguments) => drop_some(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Where profiles are, and what there is.
struct Place {
    path: String,
    budget_bytes: u64,
    /// `None` when it is not there.
    directory: Option<ProfileDirectory>,
    kept: Vec<KeptProfile>,
}

impl Place {
    fn open(place: ProfilePlace) -> anyhow::Result<Self> {
        let effective = Effective::merge(place.given.0, place.file.config)?;
        let (given, budget_bytes) = effective.profiles()?;
        let path = given.map_or_else(|| ProfileDirectory::default_path(&variable), Ok)?;
        let directory = match ProfileDirectory::open_existing(&path, budget_bytes) {
            Ok(directory) => Some(directory),
            Err(ProfileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        let kept = directory.as_ref().map_or_else(|| Ok(Vec::new()), ProfileDirectory::list)?;
        Ok(Self { path: path.display().to_string(), budget_bytes, directory, kept })
    }

    fn listed(&self) -> Vec<Listed<'_>> {
        let listed = |directory: &ProfileDirectory| {
            self.kept.iter().map(|kept| Listed::of(kept, directory.files(kept.key).open_pack())).collect()
        };
        self.directory.as_ref().map(listed).unwrap_or_default()
    }

    /// The one that `which` names: by its key, the beginning of that, or its command.
    fn find(&self, which: &str) -> anyhow::Result<&KeptProfile> {
        let command = |kept: &KeptProfile| kept.profile.as_ref().ok()?.as_ref().map(|profile| profile.command.clone());
        let by_key = |kept: &&KeptProfile| which.len() >= KEY_DIGITS_MIN && kept.key.to_string().starts_with(which);
        let mut found: Vec<&KeptProfile> = self.kept.iter().filter(by_key).collect();
        if found.is_empty() {
            found = self.kept.iter().filter(|kept| command(kept).as_deref() == Some(which)).collect();
        }
        match found[..] {
            [] => bail!("there is no profile '{which}' in {}; forebay profile list shows them", self.path),
            [kept] => Ok(kept),
            _ => {
                let keys: Vec<String> = found.iter().map(|kept| kept.key.to_string()).collect();
                bail!("'{which}' matches several profiles ({}); give the key", keys.join(", "))
            }
        }
    }

    fn remove(&self, kept: &KeptProfile) -> anyhow::Result<Value> {
        if let Some(directory) = &self.directory {
            directory.remove(kept.key)?;
        }
        let bytes = kept.profile_bytes + kept.pack_bytes.unwrap_or(0);
        Ok(json!({"key": kept.key.to_string(), "bytes": bytes}))
    }
}

fn list(place: &Place, as_json: bool) -> anyhow::Result<()> {
    let listed = place.listed();
    let bytes: u64 = listed.iter().map(Listed::file_bytes).sum();
    if as_json {
        let profiles: Vec<Value> = listed.iter().map(Listed::as_json).collect();
        say!(
            "{:#}",
            json!({"directory": place.path, "bytes": bytes, "budget_bytes": place.budget_bytes, "profiles": profiles})
        );
        return Ok(());
    }
    if listed.is_empty() {
        say!("there are no profiles in {}", place.path);
        return Ok(());
    }
    let mut rows = vec![Listed::HEAD.map(str::to_owned).to_vec()];
    rows.extend(listed.iter().map(Listed::row));
    columns::lines(&rows).iter().for_each(|line| say!("{line}"));
    for (each, problem) in listed.iter().flat_map(|each| each.problems().into_iter().map(move |text| (each, text))) {
        say!("{}: {problem}", each.key());
    }
    say!("{}: {} of {}", place.path, show_size(bytes), show_size(place.budget_bytes));
    Ok(())
}

fn show(place: &Place, which: &str, as_json: bool) -> anyhow::Result<()> {
    let kept = place.find(which)?;
    let directory = place.directory.as_ref().ok_or_else(|| anyhow!("{} is gone", place.path))?;
    let pack = directory.files(kept.key).open_pack();
    let index = pack.as_ref().ok().and_then(Option::as_ref).map(|pack| pack.index().clone());
    let listed = Listed::of(kept, pack);
    let Some(profile) = listed.profile() else {
        bail!("the profile {} cannot be shown: {}", kept.key, listed.problems().join("; "));
    };
    if as_json {
        let mut object = listed.as_json();
        object["uses"] = uses_as_json(profile, index.as_ref());
        say!("{object:#}");
        return Ok(());
    }
    listed.lines().iter().for_each(|line| say!("{line}"));
    uses_as_lines(profile, index.as_ref()).for_each(|line| say!("{line}"));
    Ok(())
}

fn record(arguments: ProfileRecordArguments) -> anyhow::Result<()> {
    let effective = Effective::merge(arguments.given.0, arguments.file.config)?;
    let directory = jobs::find(&effective)?;
    let recorded = ask_any(&directory, Some(RECORDER), &json!({"command": "record"}), RECORD_TIMEOUT)
        .context("nothing was recorded")?;
    if arguments.json {
        say!("{recorded:#}");
        return Ok(());
    }
    let number = |key: &str| recorded[key].as_u64().unwrap_or(0);
    let (added, changed, dropped) = (number("added"), number("changed"), number("dropped"));
    say!("recorded in {}: {added} new, {changed} changed, {dropped} dropped", recorded["path"].as_str().unwrap_or("-"));
    Ok(())
}

fn drop_some(arguments: ProfileDropArguments) -> anyhow::Result<()> {
    let place = Place::open(arguments.place)?;
    let mut chosen: Vec<&KeptProfile> = match arguments.all {
        true => place.kept.iter().collect(),
        false => arguments.which.iter().map(|which| place.find(which)).collect::<Result<_, _>>()?,
    };
    chosen.sort_by_key(|kept| kept.key);
    chosen.dedup_by_key(|kept| kept.key);
    let (mut removed, mut failures) = (Vec::new(), Vec::new());
    for kept in chosen {
        match place.remove(kept) {
            Ok(gone) => removed.push(gone),
            Err(error) => failures.push(causes(&error).join(": ")),
        }
    }
    if arguments.json {
        say!("{:#}", json!({"removed": removed}));
    } else {
        let bytes: u64 = removed.iter().filter_map(|gone| gone["bytes"].as_u64()).sum();
        let plural = if removed.len() == 1 { "" } else { "s" };
        say!("removed {} profile{plural}, {}", removed.len(), show_size(bytes));
    }
    ensure!(failures.is_empty(), "not removed: {}", failures.join("; "));
    Ok(())
}
