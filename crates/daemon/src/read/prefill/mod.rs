//! Prefill: a start-up's contents come to every node before its programs ask, from what an earlier start-up used.
//!
//! `record` writes down what a start-up uses, and `packing` keeps a pack of it; `remote_recording` is where the programs of some
//! jobs run. At the next start every node asks for its contents in parcels (`forebay_read`, `parcels`); nodes
//! that read the backing file system make them by a plan (`forebay_prefetch`) from the `pack` (`build` from its `source`, with
//! `listing_turns`, `pack_blocks`), and every node takes them apart and fills its kernel's caches
//! (`unpack`).

mod build;
mod listing_turns;
mod pack;
mod pack_blocks;
mod packing;
mod record;
mod remote_recording;
mod source;
mod unpack;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use forebay_body::Body;
use forebay_read::AttemptId;
use forebay_transport::Replier;
use forebay_wire::ReadMessage;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::arrivals::Arrivals;
use super::core::Core;
use super::peers::Peers;
use super::view::View;
use crate::shared::node::Node;
use build::Builder;
use record::Recorder;
use remote_recording::RemoteRecording;
use source::{Sources, is_recorder};
use unpack::{Filler, Unpacker};

pub use source::PackedChunk;

/// How long the end of a job may wait until what was recorded is written.
const END_DEADLINE: Duration = Duration::from_secs(2);

/// Keeps what is used meanwhile from being recorded.
pub struct RecordingHold(Arc<Core>);

impl Drop for RecordingHold {
    fn drop(&mut self) {
        self.0.lock().release_recording();
    }
}

/// A daemon's part in it.
pub struct Prefill {
    node: Arc<Node>,
    core: Arc<Core>,
    sources: Arc<Sources>,
    remote: Arc<RemoteRecording>,
    recorder: Recorder,
    builder: Builder,
    filler: Arc<Filler>,
    unpacker: OnceLock<Unpacker>,
}

impl Prefill {
    pub fn new(node: &Arc<Node>, core: &Arc<Core>, peers: &Arc<Peers>, view: &Arc<View>) -> Arc<Self> {
        let sources = Sources::new(node, core);
        let remote = RemoteRecording::new(node, core);
        Arc::new(Self {
            node: Arc::clone(node),
            core: Arc::clone(core),
            recorder: Recorder::new(node, core, peers, &sources, &remote),
            builder: Builder::new(core, peers, &sources),
            filler: Filler::new(node, core, view, &sources),
            sources,
            remote,
            unpacker: OnceLock::new(),
        })
    }

    /// Uses until this is dropped are no start-up's.
    pub fn hold_recording(&self) -> RecordingHold {
        self.core.lock().hold_recording();
        RecordingHold(Arc::clone(&self.core))
    }

    /// Begins to record, to fill this node's kernel, and to read ahead where this node reads for others. Its task is to
    /// be aborted before `end`.
    pub fn start(self: &Arc<Self>) -> JoinHandle<()> {
        let prefill = Arc::clone(self);
        self.node.spawn(async move { prefill.run().await })
    }

    async fn run(&self) {
        let options = &self.node.options;
        if options.profile.is_none() || !options.kept.is_first() {
            return;
        }
        self.core.lock().start_recording();
        if is_recorder(&self.node) {
            // The names that are left for the kernel to ask for are known before the first parcel comes.
            self.sources.get().await;
        }
        let _ = self.unpacker.set(Unpacker::start(&self.filler));
        tokio::join!(self.ask_for_parcels(), self.builder.read_ahead(), self.recorder.keep());
    }

    /// Nodes above, that make the parcels or pass them on, may begin later than this one: until the job is up they would be asked in vain.
    async fn ask_for_parcels(&self) {
        self.node.until_job_up().await;
        self.core.decide(|core, now| core.start_prefill(now));
    }

    /// Ends what `start` began; at the end of the job what was recorded is written.
    pub async fn end(&self, is_over: bool) {
        if let Some(unpacker) = self.unpacker.get() {
            unpacker.end();
        }
        if !is_over {
            return;
        }
        // The core's timers run no more, and the profile may lie on a file system that hangs.
        if tokio::time::timeout(END_DEADLINE, self.recorder.keep_now()).await.is_err() {
            return tracing::warn!("the start-up was not recorded: that took longer than {END_DEADLINE:?}");
        }
        if tokio::time::timeout(END_DEADLINE, self.recorder.pack_at_end()).await.is_err() {
            tracing::warn!("the pack is left as it was: adding to it took longer than {END_DEADLINE:?}");
        }
    }

    /// Makes a parcel and hands it to the core as the answer to `call`.
    pub async fn answer(&self, arrivals: &Arrivals, call: AttemptId, index: u32) {
        self.builder.answer(arrivals, call, index).await;
    }

    /// A parcel is whole.
    pub fn open(&self, index: u32, body: Arc<Body>) {
        if let Some(unpacker) = self.unpacker.get() {
            unpacker.unpack(index, body);
        }
    }

    /// The process that looks at the view, if there is one.
    pub fn walker_pid(&self) -> Option<u32> {
        self.unpacker.get().and_then(Unpacker::walker_pid)
    }

    /// The chunk that is asked for, if the pack holds it in exactly this version and can be asked.
    pub fn packed(&self, message: &ReadMessage) -> Option<PackedChunk> {
        self.sources.packed(message)
    }

    /// Lets go of what was read of the pack for parcels that nobody will ask for.
    pub fn drop_untaken(&self) {
        self.sources.drop_untaken();
    }

    /// Bytes that were read of the pack before they are asked for.
    pub fn ahead_bytes(&self) -> u64 {
        self.sources.ahead_bytes()
    }

    /// Into how many parcels the profile is cut, once that is known.
    pub fn parcel_count(&self) -> Option<usize> {
        self.sources.parcel_count()
    }

    /// Where the profile lies that this node uses.
    pub fn path(&self) -> Option<String> {
        self.sources.path()
    }

    /// Writes what was used so far, because somebody asks for it, and says what became of it.
    pub async fn record_now(&self) -> Result<Value, String> {
        self.recorder.record_now().await
    }

    /// Looks a last time what other nodes have used, before they end.
    pub async fn look_before_end(&self) {
        self.remote.look_before_end().await;
    }

    /// Answers a node above that wants to know what was used here or below.
    pub async fn tell(self: Arc<Self>, remaining: Duration, reply: Replier) {
        self.remote.tell(remaining, reply).await;
    }
}
