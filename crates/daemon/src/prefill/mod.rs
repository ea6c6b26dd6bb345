//! Prefill: a start-up's contents come to every node before its programs ask, from what an earlier start-up used.
//!
//! `record` writes down what a start-up uses, and `packing` keeps a pack of it; `elsewhere` is where the programs of some
//! jobs run. At the next start every node asks for its contents in parcels (`forebay_node`, `read_path::parcels`); nodes
//! that read the backing file system make them by a `plan` from the `pack` (`maker`, `listing_order`, `listing_turns`, `pack_blocks`), and every node takes
//! them apart and fills its kernel's caches (`opener`, `walker`).

mod elsewhere;
mod listing_order;
mod listing_turns;
mod maker;
mod opener;
mod pack;
mod pack_blocks;
mod packing;
mod plan;
mod record;
mod walker;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use forebay_body::Body;
use forebay_profile::{Profile, ProfileError};
use forebay_types::{ChunkIndex, Generation, ViewPath};
use forebay_wire::{ParcelPlace, Request};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;

use super::service::Service;
use crate::options::ProfileOptions;
use elsewhere::Elsewhere;
use listing_turns::ListingTurns;
use opener::Opener;
use pack::Pack;
use plan::{Places, PlannedChunk, PlannedParcel};

pub(super) use elsewhere::{look_before_end, tell};
pub(super) use maker::answer;
pub(super) use record::record_now;

/// How long the end of a job may wait until what was recorded is written.
const END_DEADLINE: Duration = Duration::from_secs(2);

/// Of the budget, one part in so many is for what is read of the pack before it is asked for.
const PACK_AHEAD_SHARE: u64 = 4;

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
    pack: Option<Pack>,
    /// The versions that the profile has.
    generations: HashMap<ViewPath, Generation>,
    listing_turns: ListingTurns,
}

/// A chunk that the pack holds.
pub(super) struct PackedChunk {
    source: Arc<Source>,
    place: (usize, usize),
}

impl PackedChunk {
    /// Its bytes; `None` if they are not to be had soon.
    pub async fn read(self) -> Option<Bytes> {
        self.source.pack.as_ref()?.chunk(self.place).await
    }
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
            let room_bytes = service.options.budget_bytes / PACK_AHEAD_SHARE;
            let load = move || Source::open(&options, readers, room_bytes);
            let loaded = tokio::task::spawn_blocking(load).await.ok()?;
            loaded.inspect_err(|error| tracing::warn!(%error, "no profile")).ok().flatten().map(Arc::new)
        };
        self.source.get_or_init(load).await.clone()
    }

    /// The chunk that is asked for, if the pack holds it in exactly this version and can be asked.
    pub fn packed(&self, request: &Request) -> Option<PackedChunk> {
        let (source, Request::Chunk { file, generation, index }) = (self.known_source()?, request) else { return None };
        let pack = self.pack()?;
        let chunk = PlannedChunk { file: file.clone(), generation: *generation, index: *index };
        let place = *pack.places.get(&chunk)?;
        (!pack.blocks.is_left_alone()).then(|| PackedChunk { source: Arc::clone(source), place })
    }

    /// Lets go of what was read of the pack for parcels that nobody will ask for.
    pub fn drop_untaken(&self, service: &Service) {
        if let Some(pack) = self.pack() {
            pack.blocks.drop_untaken(service.core().wants_parcels());
        }
    }

    /// Bytes that were read of the pack before they are asked for.
    pub fn ahead_bytes(&self) -> u64 {
        self.pack().map_or(0, |pack| pack.blocks.ahead_bytes())
    }

    fn pack(&self) -> Option<&Pack> {
        self.known_source()?.pack.as_ref()
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
    fn open(options: &ProfileOptions, readers: usize, room_bytes: u64) -> Result<Option<Self>, ProfileError> {
        let files = options.files()?;
        let Some(profile) = files.read_to_use()? else { return Ok(None) };
        let pack = match options.pack {
            // A profile is of use without its pack.
            true => files.open_pack().inspect_err(|error| tracing::warn!(%error, "no pack")).ok().flatten(),
            false => None,
        };
        let pack = pack.map(|pack| Pack::new(pack, room_bytes));
        let parcels = plan::cut(&profile, pack.as_ref().map_or(&Places::new(), |pack| &pack.places));
        let used_files = profile.uses.iter().filter(|each| !each.chunks().is_empty());
        let generations = used_files.filter_map(|each| Some((each.path().clone(), *each.generation()?))).collect();
        tracing::info!(parcels = parcels.len(), pack = pack.is_some(), "a profile is used");
        Ok(Some(Self {
            path: files.profile_path(),
            profile,
            parcels,
            pack,
            generations,
            listing_turns: ListingTurns::new(readers),
        }))
    }

    /// Begins to read the blocks of the parcels that this node makes, unless a refresh has ended parcels.
    fn read_ahead(&self, service: &Service) {
        if let Some(pack) = self.pack.as_ref().filter(|_| service.core().wants_parcels()) {
            pack.blocks.begin(|| self.own_blocks(service));
        }
    }

    fn parcel_places(&self) -> Vec<ParcelPlace> {
        plan::parcel_places(&self.parcels, self.pack.as_ref().map(Pack::index))
    }

    fn own_blocks(&self, service: &Service) -> Vec<usize> {
        let core = service.core();
        let made_here = |(index, _): &(usize, &PlannedParcel)| core.makes_parcel(*index as u32);
        self.parcels.iter().enumerate().filter(made_here).filter_map(|(_, parcel)| parcel.block).collect()
    }

    /// A block of the pack as it lies there; `None` if it is not to be had.
    async fn read_block(&self, block: usize) -> Option<Bytes> {
        self.pack.as_ref()?.blocks.for_parcel(block).await
    }
}
