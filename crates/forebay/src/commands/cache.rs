//! `cache list|drop`: what jobs have left on this host's disk for those after them. Neither needs a job.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use forebay_chunk_store::{ChunkStoreError, StoreSummary, drop_store, summary};
use serde_json::json;

use crate::cache_store;
use crate::cli::{CacheArguments, CacheCommand, CachePlaces};
use crate::columns::{self, count};
use crate::health::amounts::span;
use crate::jobs::variable;
use crate::node_local;
use crate::output::{say, tell};
use crate::settings::values::show_size;

/// Does what is asked.
pub fn run(arguments: CacheArguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        CacheCommand::List(places) => list(&places),
        CacheCommand::Drop(places) => drop_all(&places),
    }
}

impl CachePlaces {
    /// That there is none, and where it was looked for.
    fn none(&self) -> String {
        match &self.cache_store[..] {
            [] => {
                "there is no cache store of yours where --cache-store auto puts it; name another by --cache-store DIR"
                    .to_owned()
            }
            named => {
                let named: Vec<String> = named.iter().map(|path| path.display().to_string()).collect();
                format!("there is no cache store of yours in {}", named.join(", "))
            }
        }
    }

    /// The directories that may hold a store, and whether they were named.
    fn directories(&self) -> anyhow::Result<(Vec<PathBuf>, bool)> {
        let is_named = !self.cache_store.is_empty();
        let mut bases = match is_named {
            true => self.cache_store.clone(),
            false => node_local::existing(&cache_store::name()),
        };
        let of_setting = variable("FOREBAY_CACHE_STORE").filter(|place| !is_named && place != "auto");
        bases.extend(of_setting.map(PathBuf::from));
        let absolute =
            |base: PathBuf| std::path::absolute(&base).with_context(|| format!("cannot look for {}", base.display()));
        let bases = bases.into_iter().map(absolute).collect::<anyhow::Result<Vec<_>>>()?;
        let mut all: Vec<PathBuf> = bases.iter().flat_map(|base| cache_store::with_nodes(base)).collect();
        all.sort();
        all.dedup();
        Ok((all, is_named))
    }

    /// Does something with each store. One that cannot be looked at, where nobody has named it, is only told of.
    fn each<T>(
        &self,
        act: impl Fn(&PathBuf) -> Result<Option<T>, ChunkStoreError>,
    ) -> anyhow::Result<Vec<(PathBuf, T)>> {
        let (directories, is_named) = self.directories()?;
        let mut found = vec![];
        for directory in directories {
            match act(&directory) {
                Ok(None) => {}
                Ok(Some(result)) => found.push((directory, result)),
                Err(error) if is_named => return Err(error.into()),
                Err(error) => tell!("forebay: {error}"),
            }
        }
        Ok(found)
    }
}

fn list(places: &CachePlaces) -> anyhow::Result<ExitCode> {
    let found = places.each(|path| summary(path))?;
    if places.json {
        let unix_ms = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let as_json = |(path, found): &(PathBuf, StoreSummary)| {
            let StoreSummary { version, capacity_bytes, used_bytes, chunks, last_use, .. } = found;
            json!({
                "path": path, "version": version, "capacity_bytes": capacity_bytes, "used_bytes": used_bytes,
                "chunks": chunks, "last_use_unix_ms": unix_ms(*last_use),
            })
        };
        say!("{:#}", json!({"stores": found.iter().map(as_json).collect::<Vec<_>>()}));
    } else if found.is_empty() {
        say!("{}", places.none());
    } else {
        let mut rows = vec![["store", "used", "capacity", "chunks", "last use"].map(str::to_owned).to_vec()];
        rows.extend(found.iter().map(|(path, found)| {
            let age = found.last_use.elapsed().unwrap_or(Duration::ZERO);
            let sizes = [found.used_bytes, found.capacity_bytes].map(show_size);
            let [used, capacity] = sizes;
            vec![path.display().to_string(), used, capacity, count(found.chunks), format!("{} ago", span(age))]
        }));
        columns::lines(&rows).iter().for_each(|line| say!("{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn drop_all(places: &CachePlaces) -> anyhow::Result<ExitCode> {
    let dropped = places.each(|path| drop_store(path))?;
    if dropped.is_empty() && !places.cache_store.is_empty() {
        bail!("{}", places.none());
    }
    if places.json {
        let as_json = |(path, bytes): &(PathBuf, u64)| json!({"path": path, "bytes": bytes});
        say!("{:#}", json!({"dropped": dropped.iter().map(as_json).collect::<Vec<_>>()}));
    } else if dropped.is_empty() {
        say!("{}", places.none());
    } else {
        dropped.iter().for_each(|(path, bytes)| say!("removed {} ({})", path.display(), show_size(*bytes)));
    }
    Ok(ExitCode::SUCCESS)
}
