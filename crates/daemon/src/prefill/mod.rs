//! Prefill: a start-up's contents come to every node before its programs ask, from what an earlier start-up used.
//!
//! `record` writes down what a start-up uses, and `packing` keeps a pack of it; `elsewhere` is where the programs of some
//! jobs run. At the next start every node asks for its contents in parcels (`forebay_node`, `read_path::parcels`); nodes
//! that read the backing file system make them by a `plan` (`maker`, `listing_order`, `listing_turns`, `pack_ahead`), and every node takes
//! them apart and fills its kernel's caches (`opener`, `walker`).

mod elsewhere;
mod listing_order;
mod listing_turns;
mod maker;
mod opener;
mod pack_ahead;
mod packing;
mod plan;
mod record;
mod walker;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use forebay_body::Body;
use forebay_profile::{BlockOpener, PackReader, Profile, ProfileError};
use forebay_types::{ChunkIndex, Generation, ViewPath, limits};
use forebay_wire::ParcelPlace;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use super::service::Service;
use crate::options::ProfileOptions;
use elsewhere::Elsewhere;
use listing_turns::ListingTurns;
use opener::Opener;
use pack_ahead::PackAhead;
use plan::{Places, PlannedChunk, PlannedParcel};

pub(super) use elsewhere::{look_before_end, tell};
pub(super) use maker::answer;
pub(super) use record::record_now;

/// How long the end of a job may wait until what was recorded is written.
const END_DEADLINE: Duration = Duration::from_secs(2);

/// What a daemon has of it.
#[derive(Default)]
pub(super) struct Prefill {
    opener: OnceLock<Opener>,
    source: OnceCell<Option<Arc<Source>>>,
    elsewhere: Elsewhere,
}

/// What parcels are made from.
pub(super) struct Source {
    path: PathBuf,
    /// What earlier starts used.
    profile: Profile,
    parcels: Vec<PlannedParcel>,
    pack: Option<PackReader>,
    places: Places,
    /// The versions that the profile has.
    generations: HashMap<ViewPath, Generation>,
    /// Blocks of the parcels that this node makes.
    ahead: Arc<PackAhead>,
    listing_turns: ListingTurns,
    /// The block that was opened last: whoever asks for one file of a block soon asks for the next.
    opened: Mutex<Opened>,
}

/// A block that is open, by its number.
#[derive(Default)]
struct Opened {
    opener: BlockOpener,
    pieces: Option<(usize, Vec<Bytes>)>,
}

/// Begins to record, to fill this node's kernel, and to read ahead where this node reads for others. What goes on is to be
/// aborted before `end`.
pub(super) fn start(service: &Arc<Service>) -> JoinHandle<()> {
    let service = Arc::clone(service);
    tokio::spawn(async move {
        if service.options.profile.is_none() || !service.options.kept.is_first() {
            return;
        }
        service.core().start_recording();
        if record::is_recorder(&service) {
            // What is left for the kernel to ask for is known before the first parcel comes.
            service.prefill().source(&service).await;
        }
        match Opener::start(&service) {
            Ok(opener) => drop(service.prefill().opener.set(opener)),
            Err(error) => return tracing::warn!(%error, "nothing is prefilled: no thread for it"),
        }
        let now = service.now();
        service.with_core(|core| core.start_prefill(now));
        tokio::join!(maker::read_ahead(&service), record::keep(&service));
    })
}

/// Ends what `start` began; at the end of the job what was recorded is written.
pub(super) async fn end(service: &Arc<Service>, is_over: bool) {
    if let Some(opener) = service.prefill().opener.get() {
        opener.end();
    }
    // Nobody tells the core the time any more, and what is written may lie on a file system that hangs.
    if is_over && tokio::time::timeout(END_DEADLINE, record::keep_now(service)).await.is_err() {
        tracing::warn!("the start-up is not written down: it took longer than {END_DEADLINE:?}");
    }
}

impl Prefill {
    /// A parcel is whole.
    pub fn open(&self, index: u32, body: Arc<Body>) {
        if let Some(opener) = self.opener.get() {
            opener.open(index, body);
        }
    }

    /// The process that looks at the view, if there is one.
    pub fn walker_pid(&self) -> Option<u32> {
        self.opener.get().and_then(Opener::walker_pid)
    }

    /// What parcels are made from, read at its first use; `None` where there is no profile that can be used.
    async fn source(&self, service: &Arc<Service>) -> Option<Arc<Source>> {
        let load = || async {
            let options = service.options.profile.clone()?;
            let readers = service.core().reader_count();
            let loaded = tokio::task::spawn_blocking(move || Source::open(&options, readers)).await.ok()?;
            loaded.inspect_err(|error| tracing::warn!(%error, "no profile")).ok().flatten().map(Arc::new)
        };
        self.source.get_or_init(load).await.clone()
    }

    /// A chunk that the pack holds in exactly this version. May block.
    pub fn packed_chunk(&self, file: &ViewPath, generation: &Generation, index: ChunkIndex) -> Option<Bytes> {
        self.known_source()?.packed_chunk(file, generation, index)
    }

    /// Whether a chunk is left for the kernel of this node to ask for, so that the record knows of it.
    fn is_left(&self, service: &Service, file: &ViewPath, generation: &Generation, index: ChunkIndex) -> bool {
        let source = self.known_source().filter(|_| record::is_recorder(service));
        source.is_some_and(|source| {
            let is_other = source.generations.get(file).is_some_and(|known| known != generation);
            is_other || record::is_sampled(file, index, source.profile.starts)
        })
    }

    /// Where the profile lies that this node uses.
    pub fn path(&self) -> Option<String> {
        self.known_source().map(|source| source.path.display().to_string())
    }

    /// What parcels are made from, if that is known by now.
    fn known_source(&self) -> Option<&Arc<Source>> {
        self.source.get().and_then(Option::as_ref)
    }
}

impl Source {
    fn open(options: &ProfileOptions, readers: usize) -> Result<Option<Self>, ProfileError> {
        let files = options.files()?;
        let Some(profile) = files.read_to_use()? else { return Ok(None) };
        let pack = match options.pack {
            // A profile is of use without its pack.
            true => files.open_pack().inspect_err(|error| tracing::warn!(%error, "no pack")).ok().flatten(),
            false => None,
        };
        let places = pack.as_ref().map(|pack| plan::places(pack.index())).unwrap_or_default();
        let parcels = plan::cut(&profile, &places);
        let used_files = profile.uses.iter().filter(|each| !each.chunks().is_empty());
        let generations = used_files.filter_map(|each| Some((each.path().clone(), *each.generation()?))).collect();
        tracing::info!(parcels = parcels.len(), pack = pack.is_some(), "a profile is used");
        Ok(Some(Self {
            path: files.profile_path(),
            profile,
            parcels,
            pack,
            places,
            generations,
            ahead: Arc::default(),
            listing_turns: ListingTurns::new(readers),
            opened: Mutex::default(),
        }))
    }

    /// Begins to read the blocks of the parcels that this node makes, as many as may be kept until they are asked for.
    fn read_ahead(self: &Arc<Self>, service: &Arc<Service>) {
        let source = Arc::clone(self);
        let read = move |block| source.pack.as_ref()?.read_block(block).ok();
        self.ahead.begin(|| self.own_blocks(service), read);
    }

    fn parcel_places(&self) -> Vec<ParcelPlace> {
        plan::parcel_places(&self.parcels, self.pack.as_ref().map(PackReader::index))
    }

    fn own_blocks(&self, service: &Service) -> Vec<usize> {
        let Some(pack) = &self.pack else { return Vec::new() };
        let core = service.core();
        let made_here = |(index, _): &(usize, &PlannedParcel)| core.makes_parcel(*index as u32);
        let is_kept = |block: &usize| pack.index().block_range(*block..*block + 1).end <= limits::PACK_AHEAD_BYTES;
        let parcels = self.parcels.iter().enumerate().filter(made_here);
        parcels.filter_map(|(_, parcel)| parcel.block).filter(is_kept).collect()
    }

    /// A block of the pack as it lies there; `None`, and a warning, if it is not what the index says.
    async fn read_block(self: &Arc<Self>, block: usize) -> Option<Bytes> {
        self.ahead.wait_for(block).await;
        if let Some(ahead) = self.ahead.take(block) {
            return Some(ahead);
        }
        let source = Arc::clone(self);
        let read = move || source.pack.as_ref().map(|pack| pack.read_block(block));
        let read = tokio::task::spawn_blocking(read).await.ok()??;
        read.inspect_err(|error| tracing::warn!(%error, "a block of the pack is not used")).ok()
    }

    /// A chunk that the pack holds in exactly this version. May block.
    fn packed_chunk(&self, file: &ViewPath, generation: &Generation, index: ChunkIndex) -> Option<Bytes> {
        let chunk = PlannedChunk { file: file.clone(), generation: *generation, index };
        let (block, place) = *self.places.get(&chunk)?;
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.pieces.as_ref().is_none_or(|(number, _)| *number != block) {
            opened.pieces = None;
            let pieces = self.pack.as_ref()?.read_pieces(block, &mut opened.opener);
            let pieces = pieces.inspect_err(|error| tracing::warn!(%error, "a block is not used")).ok()?;
            opened.pieces = Some((block, pieces));
        }
        // It may be kept for long, and the block's memory is wanted for the next one.
        opened.pieces.as_ref().and_then(|(_, pieces)| pieces.get(place)).map(|bytes| Bytes::copy_from_slice(bytes))
    }
}
