//! `--burst-store auto`, `--cache-store auto`: the directory that a site keeps for a user on the node's own disk.
//!
//! Sites have it at different places and say so in the environment. The node looks itself, in its own environment:
//! another host may have another disk. A directory on a network, in memory, or that cannot take a store is passed over.
//! If none is left, the error lists those that were looked at.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use forebay_keeper::tell;
use forebay_log::{limits, network_file_system};
use forebay_types::NodeRank;
use rustix::fs::{Access, statfs, statvfs};
use serde_json::json;

use crate::settings::values::show_size;

/// Where Frontier, Summit and their like mount a job's NVMe, by user.
const BY_USER: &str = "/mnt/bb";

/// Where Aurora, Polaris and their like have the node's NVMe, for all users.
const FOR_ALL: &str = "/local/scratch";

/// Directories of El Capitan's Rabbit: a variable for each file system that the job has asked for (`#DW jobdw name=x`: `DW_JOB_x`).
const OF_RABBIT: &str = "DW_JOB_";

/// Directories that schedulers and sites name: Fugaku's and others' burst buffers, Slurm's, and any.
const BURST_BUFFER: &str = "BBPATH";
const OF_SLURM: &str = "SLURM_TMPDIR";
const TEMPORARY: &str = "TMPDIR";

/// Directories by the variables that name them.
pub type Named = BTreeMap<String, OsString>;

/// Those of this process' environment.
pub fn named_here() -> Named {
    let is_one = |name: &str| name.starts_with(OF_RABBIT) || [BURST_BUFFER, OF_SLURM, TEMPORARY].contains(&name);
    let all = std::env::vars_os().filter(|(_, path)| !path.is_empty());
    all.filter_map(|(name, path)| Some((name.into_string().ok().filter(|name| is_one(name))?, path))).collect()
}

/// Types of file systems that lie in memory (`linux/magic.h`): what is written there takes the job's memory, and is gone with the power.
const MEMORY_TYPES: [(u32, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58F6, "ramfs")];

/// A directory on the node's own disk.
#[derive(PartialEq, Eq, Debug)]
pub struct Found {
    /// For this job.
    pub store: PathBuf,
    /// The variable or rule that led there.
    pub by: String,
}

/// Says of a named store what it costs to have it there, if anything; the job's first node does.
pub fn tell_of(store: &Path, backing: &Path, rank: NodeRank) {
    for message in costs(store, backing).into_iter().filter(|_| rank == NodeRank(0)) {
        tell(&json!({"note": {"rank": rank, "message": format!("the burst store {} {message}", store.display())}}));
    }
}

fn costs(store: &Path, backing: &Path) -> Vec<String> {
    let network = network_file_system(store).ok().flatten();
    let on_network = network.map(|name| format!("lies on a network file system ({name}): programs write at its speed"));
    let in_memory = memory_file_system(store).ok().flatten().map(|name| {
        format!(
            "lies in memory ({name}): it takes the job's memory, and what has not landed is gone with the node's power"
        )
    });
    let below = store.starts_with(backing).then(|| "lies in the directory where its files land".to_owned());
    [on_network, in_memory, below].into_iter().flatten().collect()
}

fn memory_file_system(path: &Path) -> rustix::io::Result<Option<&'static str>> {
    let kind = statfs(path)?.f_type as u32;
    Ok(MEMORY_TYPES.iter().find(|(known, _)| *known == kind).map(|(_, name)| *name))
}

impl Found {
    /// The store, which is called `name`; the job's first node says which it is.
    pub fn told(self, name: &str, rank: NodeRank) -> PathBuf {
        if rank == NodeRank(0) {
            let message = format!("the {name} is {} (auto: {})", self.store.display(), self.by);
            tell(&json!({"note": {"rank": rank, "message": message}}));
        }
        self.store
    }
}

/// The first directory that can take a store, and `name` in it, for an option's `auto`. Those that `up` was told of count where this environment names none: a login has no
/// variables of the job.
///
/// # Errors
/// When there is none: what was looked at, and what is wrong with each.
pub fn find(option: &str, name: &str, told_to_up: &Named) -> anyhow::Result<Found> {
    let named = told_to_up.clone().into_iter().chain(named_here()).collect();
    find_of(option, places(&named, user().as_deref()), name, &check)
}

/// All directories of this name that are there, wherever `find` may have put them.
pub fn existing(name: &str) -> Vec<PathBuf> {
    let places = places(&named_here(), user().as_deref()).into_iter().filter_map(|(_, place)| place);
    let mut found: Vec<PathBuf> = places.map(|place| place.join(name)).filter(|path| path.is_dir()).collect();
    found.sort();
    found.dedup();
    found
}

fn user() -> Option<OsString> {
    ["USER", "LOGNAME"].into_iter().find_map(std::env::var_os).filter(|user| !user.is_empty())
}

/// A place to look at, with what names it; `None` where nothing does.
type NamedPlace = (String, Option<PathBuf>);

/// Best first: what this job alone has, what this user alone has, what all share.
fn places(named: &Named, user: Option<&OsStr>) -> Vec<NamedPlace> {
    let of_user = |base: &str| (format!("{base}/$USER"), user.map(|user| Path::new(base).join(user)));
    let variable = |name: &str| (format!("${name}"), named.get(name).map(PathBuf::from));
    let rabbit = named.iter().filter(|(name, _)| name.starts_with(OF_RABBIT));
    let rabbit = rabbit.map(|(name, path)| (format!("${name}"), Some(PathBuf::from(path))));
    let others = [
        of_user(BY_USER),
        variable(BURST_BUFFER),
        variable(OF_SLURM),
        of_user(FOR_ALL),
        (FOR_ALL.to_owned(), Some(FOR_ALL.into())),
        variable(TEMPORARY),
    ];
    rabbit.chain(others).collect()
}

fn find_of(
    option: &str,
    places: Vec<NamedPlace>,
    name: &str,
    check: &dyn Fn(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<Found> {
    let mut seen = vec![];
    for (by, path) in places {
        let problem = match &path {
            None => "not set".to_owned(),
            Some(path) => match check(path) {
                Ok(()) => return Ok(Found { store: path.join(name), by }),
                Err(problem) => format!("{} {problem:#}", path.display()),
            },
        };
        seen.push(format!("{by}: {problem}"));
    }
    bail!(
        "{option} auto finds no directory on this node's own disk; name one with {option} DIR\n    {}",
        seen.join("\n    ")
    )
}

/// Whether `path` can take a store.
fn check(path: &Path) -> anyhow::Result<()> {
    if !path.is_absolute() || !path.is_dir() {
        bail!("is not a directory");
    }
    let failed = "cannot be looked at";
    if let Some(file_system) = network_file_system(path).context(failed)? {
        bail!("lies on a network file system ({file_system})");
    }
    if let Some(name) = memory_file_system(path).context(failed)? {
        bail!("lies in memory ({name})");
    }
    rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK).context("cannot be written to")?;
    let room = statvfs(path).context(failed)?;
    let (free, least) = (room.f_bavail * room.f_frsize, limits::SEGMENTS_MIN * u64::from(limits::SEGMENT_BYTES));
    if free < least {
        bail!("has room for {}; a store takes {} at least", show_size(free), show_size(least));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &Path) -> NamedPlace {
        ("$X".to_owned(), Some(path.to_owned()))
    }

    #[test]
    fn the_directory_of_the_user_comes_first_then_what_the_scheduler_names() {
        let named = [("DW_JOB_x", "/mnt/nnf/x"), ("SLURM_TMPDIR", "/local/7"), ("TMPDIR", "/tmp"), ("BBPATH", "/bb")];
        let named = named.map(|(name, path)| (name.to_owned(), path.into())).into();
        let found = |full: &[&str]| {
            let is_full =
                |path: &Path| if full.iter().any(|full| path == Path::new(full)) { bail!("is full") } else { Ok(()) };
            find_of("--x", places(&named, Some("me".as_ref())), "forebay-7", &is_full).unwrap()
        };
        let at = |store: &str, by: &str| Found { store: store.into(), by: by.into() };
        assert_eq!(found(&[]), at("/mnt/nnf/x/forebay-7", "$DW_JOB_x"));
        let mut full = vec!["/mnt/nnf/x"];
        assert_eq!(found(&full), at("/mnt/bb/me/forebay-7", "/mnt/bb/$USER"));
        full.push("/mnt/bb/me");
        assert_eq!(found(&full), at("/bb/forebay-7", "$BBPATH"));
        full.push("/bb");
        assert_eq!(found(&full), at("/local/7/forebay-7", "$SLURM_TMPDIR"));
        full.extend(["/local/7", "/local/scratch/me"]);
        assert_eq!(found(&full), at("/local/scratch/forebay-7", "/local/scratch"));
    }

    #[test]
    fn a_named_store_is_taken_wherever_it_is_and_its_costs_are_told() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (store, elsewhere) = (directory.path(), Path::new("/none"));
        assert!(costs(store, elsewhere)[0].starts_with("lies in memory (tmpfs)"));
        assert_eq!(costs(&store.join("a"), store).len(), 1, "what is not there lies nowhere");
        assert!(costs(store, store)[1].contains("where its files land"));
        assert_eq!(costs(Path::new("/proc"), elsewhere), [""; 0]);
    }

    #[test]
    fn an_error_names_what_was_looked_at_and_why_not() {
        let directory = tempfile::tempdir().unwrap();
        let gone = directory.path().join("gone");
        let places = vec![("$UNSET".to_owned(), None), named(&gone), named(Path::new("/dev/shm"))];
        let said = find_of("--x", places, "j", &check).unwrap_err().to_string();
        assert!(said.contains("$UNSET: not set"), "{said}");
        assert!(said.contains(&format!("$X: {} is not a directory", gone.display())), "{said}");
        assert!(said.contains("$X: /dev/shm lies in memory (tmpfs)"), "{said}");
    }
}
