//! Writing down what a start-up used, at the first node of a job, and keeping a pack of it. All nodes record; what another
//! one has used is written where the first one uses nothing (`remote_recording`).
//!
//! The kernel does not say what it answers from pages that it was given, so a sixteenth of the profile's contents, another
//! one at each start, is not given to the recording node's kernel: what of it is not asked for was not used, and leaves
//! the profile. Files that have changed are not given to it either, so that their new versions are learned at once. All the
//! rest stays as it was, and what was not foreseen is added.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use forebay_profile::{Learned, Profile, ProfileError, Start, Use};
use forebay_read::PeerAnswer;
use forebay_types::{ChunkIndex, Generation, Time, ViewPath};
use forebay_wire::{ReadMessage, Use as Used};
use serde_json::{Value, json};

use super::packing::Packer;
use super::remote_recording::RemoteRecording;
use super::source::{Sources, is_recorder, is_sampled};
use crate::limits;
use crate::options::ProfileOptions;
use crate::read::core::Core;
use crate::read::peers::Peers;
use crate::shared::node::Node;

/// How often it is looked whether a start-up is over.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// How long chunks are read for the pack when the job ends: some 50 MB, which later jobs add to.
const LAST_STEP: Duration = Duration::from_secs(1);

/// The parts that write a start-up's profile.
pub struct Recorder {
    node: Arc<Node>,
    core: Arc<Core>,
    peers: Arc<Peers>,
    sources: Arc<Sources>,
    remote: Arc<RemoteRecording>,
    packer: Packer,
}

impl Recorder {
    pub fn new(
        node: &Arc<Node>,
        core: &Arc<Core>,
        peers: &Arc<Peers>,
        sources: &Arc<Sources>,
        remote: &Arc<RemoteRecording>,
    ) -> Self {
        Self {
            node: Arc::clone(node),
            core: Arc::clone(core),
            peers: Arc::clone(peers),
            sources: Arc::clone(sources),
            remote: Arc::clone(remote),
            packer: Packer::default(),
        }
    }

    /// Writes the profile and its pack whenever nothing new was used for a while, for as long as the daemon runs.
    pub async fn keep(&self) {
        let Some(options) = self.options() else { return };
        let mut ticks = tokio::time::interval(LOOK_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut seen, mut since, mut written) = (0, Time(0), 0);
        loop {
            ticks.tick().await;
            let own = self.core.lock().recorded_count();
            if own == 0 {
                self.remote.look().await;
            }
            let (now, count) = (self.node.now(), own + self.remote.count());
            if count != seen {
                (seen, since) = (count, now);
            } else if count != written && now.since(since) >= limits::START_UP_QUIET {
                written = count;
                self.keep_now().await;
                self.pack(options.clone(), Duration::MAX).await;
            }
        }
    }

    /// Writes what was used so far, if anything was.
    pub async fn keep_now(&self) {
        match self.write().await {
            Ok(Some(learned)) => tracing::info!(?learned, "the start-up was recorded"),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the start-up could not be recorded"),
        }
    }

    /// Adds to the pack as much as can be had before the job ends: programs may have ended before it was begun.
    pub async fn pack_at_end(&self) {
        if let Some(options) = self.options() {
            self.pack(options, LAST_STEP).await;
        }
    }

    async fn pack(&self, options: ProfileOptions, time: Duration) {
        if let Err(error) = self.packer.pack(options, (&self.node, &self.peers), time).await {
            tracing::warn!(%error, "no pack was written");
        }
    }

    /// Writes what was used so far, because somebody asks for it, and says what became of it.
    pub async fn record_now(&self) -> Result<Value, String> {
        if self.node.options.profile.is_none() {
            return Err("the job keeps no profile (--profile off)".to_owned());
        }
        let Some(options) = self.options() else {
            return Err("the job's first node records it; run this on its host".to_owned());
        };
        self.remote.look_before_end().await;
        let learned = self.write().await.map_err(|error| error.to_string())?;
        let path = options.files().map_err(|error| error.to_string())?.profile_path();
        self.packer.pack(options, (&self.node, &self.peers), Duration::MAX).await?;
        let Learned { added, changed, dropped } = learned.unwrap_or_default();
        Ok(json!({"path": path.to_string_lossy(), "added": added, "changed": changed, "dropped": dropped}))
    }

    /// Of the profile, if this node writes it down.
    fn options(&self) -> Option<ProfileOptions> {
        self.node.options.profile.clone().filter(|_| is_recorder(&self.node))
    }

    async fn write(&self) -> Result<Option<Learned>, ProfileError> {
        let Some(options) = self.options() else { return Ok(None) };
        let (own, mut used) = (self.core.lock().recorded(), self.remote.uses());
        let is_own = used.is_empty();
        let known: HashSet<Used> = used.iter().cloned().collect();
        used.extend(own.into_iter().filter(|each| !known.contains(each)));
        // One that is still being read must not be taken for none: it would be lost.
        let mut profile = match self.sources.get().await {
            // Where nothing was asked for it is not known whether anything ran; but another sixteenth is left the next time.
            Some(source) => source.profile.clone(),
            None if used.is_empty() => return Ok(None),
            None => {
                let now_s = self.node.environment.unix_time().as_secs();
                Profile::new(options.command.clone(), options.exports.clone(), now_s)
            }
        };
        let used = describe(&self.peers, used).await;
        // Other nodes' kernels are left nothing to ask for.
        let unused = if is_own && !used.is_empty() { unused(&profile, &used) } else { Vec::new() };
        let learned = profile.merge(&Start { used, unused });
        let write = move || options.files().and_then(|files| files.write(&profile));
        // Fails only when the daemon ends.
        self.node.block(write).await.unwrap_or(Ok(())).map(|()| Some(learned))
    }
}

/// The uses, as a profile names them: a file once, with all its chunks, at the place of its first.
async fn describe(peers: &Peers, used: Vec<Used>) -> Vec<Use> {
    let mut uses: Vec<Use> = Vec::new();
    let mut files: HashMap<(ViewPath, Generation), usize> = HashMap::new();
    for each in used {
        match each {
            Used::Directory(path) => {
                let request = ReadMessage::Listing { dir: path.clone() };
                if let Some(PeerAnswer::Listing(listing)) = peers.ask_own(request).await {
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

/// Uses that the kernel was left to ask for, and did not.
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
