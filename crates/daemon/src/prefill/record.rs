//! Writing down what a start-up used, at the first node of a job, and keeping a pack of it. All nodes record; what another
//! one has used is written where the first one uses nothing (`elsewhere`).
//!
//! The kernel does not say what it answers from pages that it was given, so a sixteenth of the profile's contents, another
//! one at each start, is not given to the recording node's kernel: what of it is not asked for was not used, and leaves
//! the profile. Files that have changed are not given to it either, so that their new versions are learned at once. All the
//! rest stays as it was, and what was not foreseen is added.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use forebay_node::PeerAnswer;
use forebay_profile::{Learned, Profile, ProfileError, Start, Use};
use forebay_types::{ChunkIndex, Generation, Hasher, NodeRank, Time, ViewPath, limits};
use forebay_wire::{Request, Use as Used};
use serde_json::{Value, json};

use super::elsewhere::look_before_end;
use super::packing::pack;
use crate::peers::ask_own;
use crate::service::Service;

/// How often it is looked whether a start-up is over.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Of the profile's contents, one in so many is left for the kernel to ask for.
const SAMPLE: u64 = 16;

/// Whether this node writes down what the job uses.
pub(super) fn is_recorder(service: &Service) -> bool {
    service.options.rank == NodeRank(0) && service.options.profile.is_some()
}

/// Whether this chunk is left for the kernel to ask for in the start that follows `starts` others.
pub(super) fn is_sampled(file: &ViewPath, index: ChunkIndex, starts: u32) -> bool {
    Hasher::default().hash_one((file, index)) % SAMPLE == u64::from(starts) % SAMPLE
}

/// Writes the profile and its pack whenever nothing new was used for a while, for as long as the daemon runs.
pub(super) async fn keep(service: &Arc<Service>) {
    if !is_recorder(service) {
        return;
    }
    let mut ticks = tokio::time::interval(LOOK_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut seen, mut since, mut written) = (0, Time(0), 0);
    loop {
        ticks.tick().await;
        let (own, elsewhere) = (service.core().recorded_count(), &service.prefill().elsewhere);
        if own == 0 {
            elsewhere.look(service).await;
        }
        let (now, count) = (service.now(), own + elsewhere.count());
        if count != seen {
            (seen, since) = (count, now);
        } else if count != written && now.since(since) >= limits::START_UP_QUIET {
            written = count;
            keep_now(service).await;
            if let Err(error) = pack(service).await {
                tracing::warn!(%error, "no pack was written");
            }
        }
    }
}

/// Writes what was used so far, if anything was.
pub(super) async fn keep_now(service: &Arc<Service>) {
    match write(service).await {
        Ok(Some(learned)) => tracing::info!(?learned, "the start-up is written down"),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "the start-up is not written down"),
    }
}

/// Writes what was used so far, because somebody asks for it, and says what became of it.
pub(crate) async fn record_now(service: &Arc<Service>) -> Result<Value, String> {
    let Some(options) = service.options.profile.clone() else {
        return Err("the job keeps no profile (--profile off)".to_owned());
    };
    if !is_recorder(service) {
        return Err("the job's first node writes it down; ask there".to_owned());
    }
    look_before_end(service).await;
    let learned = write(service).await.map_err(|error| error.to_string())?;
    let path = options.files().map_err(|error| error.to_string())?.profile_path();
    pack(service).await.map_err(|error| error.to_string())?;
    let Learned { added, changed, dropped } = learned.unwrap_or_default();
    Ok(json!({"path": path.to_string_lossy(), "added": added, "changed": changed, "dropped": dropped}))
}

async fn write(service: &Arc<Service>) -> Result<Option<Learned>, ProfileError> {
    let Some(options) = service.options.profile.clone().filter(|_| is_recorder(service)) else { return Ok(None) };
    let (own, mut used) = (service.core().recorded(), service.prefill().elsewhere.uses());
    let is_own = used.is_empty();
    let known: HashSet<Used> = used.iter().cloned().collect();
    used.extend(own.into_iter().filter(|each| !known.contains(each)));
    // One that is still being read must not be taken for none: it would be lost.
    let mut profile = match service.prefill().source(service).await {
        // Where nothing was asked for it is not known whether anything ran; but another sixteenth is left the next time.
        Some(source) => source.profile.clone(),
        None if used.is_empty() => return Ok(None),
        None => Profile::new(options.command.clone(), options.exports.clone(), now_unix_s()),
    };
    let used = describe(service, used).await;
    // Other nodes' kernels are left nothing to ask for.
    let unused = if is_own && !used.is_empty() { unused(&profile, &used) } else { Vec::new() };
    let learned = profile.merge(&Start { used, unused });
    let write = move || options.files().and_then(|files| files.write(&profile));
    // Fails only when the daemon ends.
    tokio::task::spawn_blocking(write).await.unwrap_or(Ok(())).map(|()| Some(learned))
}

fn now_unix_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// What was used, as a profile names it: a file once, with all its chunks, at the place of its first.
async fn describe(service: &Arc<Service>, used: Vec<Used>) -> Vec<Use> {
    let mut uses: Vec<Use> = Vec::new();
    let mut files: HashMap<(ViewPath, Generation), usize> = HashMap::new();
    for each in used {
        match each {
            Used::Directory(path) => {
                let request = Request::Listing { dir: path.clone(), epoch: 0 };
                if let Some(PeerAnswer::Listing(listing)) = ask_own(service, request).await {
                    uses.push(Use::Directory { path, generation: listing.generation() });
                }
            }
            Used::Absent(path) => uses.push(Use::Absent { path }),
            Used::Chunk { file, generation, index } => {
                let place = *files.entry((file.clone(), generation)).or_insert(uses.len());
                match uses.get_mut(place) {
                    Some(Use::File { chunks, .. }) => chunks.push(index),
                    _ => uses.push(Use::File { path: file, generation, chunks: vec![index] }),
                }
            }
        }
    }
    uses
}

/// What the kernel was left to ask for, and did not.
fn unused(before: &Profile, used: &[Use]) -> Vec<Use> {
    let asked: HashSet<(&ViewPath, ChunkIndex)> =
        used.iter().flat_map(|each| each.chunks().iter().map(move |index| (each.path(), *index))).collect();
    let left = |each: &Use| match each {
        Use::File { path, generation, chunks } => {
            let is_left =
                |index: &ChunkIndex| is_sampled(path, *index, before.starts) && !asked.contains(&(path, *index));
            let chunks: Vec<ChunkIndex> = chunks.iter().copied().filter(is_left).collect();
            (!chunks.is_empty()).then(|| Use::File { path: path.clone(), generation: *generation, chunks })
        }
        _ => None,
    };
    before.uses.iter().filter_map(left).collect()
}
