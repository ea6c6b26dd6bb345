//! The sources of parcels: the profile, its plan and its pack, read at their first use.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use forebay_prefetch::{FirstUse, Places, PlannedChunk, PlannedParcel, cut, parcel_places};
use forebay_profile::{Profile, ProfileError, Use};
use forebay_types::{ChunkIndex, Generation, Hasher, NodeRank, ViewPath};
use forebay_wire::{ParcelPlace, ReadMessage};
use tokio::sync::OnceCell;

use super::listing_turns::ListingTurns;
use super::pack::{Pack, wanted};
use crate::options::ProfileOptions;
use crate::read::core::Core;
use crate::shared::node::Node;

/// Of the budget, one part in so many is for what is read of the pack before it is asked for.
const PACK_AHEAD_SHARE: u64 = 4;

/// Of the profile's contents, one in so many is left for the kernel to ask for.
const SAMPLE: u64 = 16;

/// The source of this node, if there is a profile that can be used.
pub struct Sources {
    node: Arc<Node>,
    core: Arc<Core>,
    source: OnceCell<Option<Arc<Source>>>,
}

/// The sources of parcels.
pub struct Source {
    path: PathBuf,
    /// The uses of earlier starts.
    pub profile: Profile,
    pub parcels: Vec<PlannedParcel>,
    pub pack: Option<Pack>,
    /// The versions that the profile has.
    generations: HashMap<ViewPath, Generation>,
    pub listing_turns: ListingTurns,
}

/// A chunk that the pack holds.
pub struct PackedChunk {
    node: Arc<Node>,
    source: Arc<Source>,
    place: (usize, usize),
}

impl PackedChunk {
    /// Its bytes; `None` if they are not to be had soon.
    pub async fn read(self) -> Option<Bytes> {
        self.source.pack.as_ref()?.chunk(&self.node, self.place).await
    }
}

/// Whether this node writes down what the job uses.
pub fn is_recorder(node: &Node) -> bool {
    node.rank() == NodeRank(0) && node.options.profile.is_some()
}

/// Whether this chunk is left for the kernel to ask for in the start that follows `starts` others.
pub fn is_sampled(file: &ViewPath, index: ChunkIndex, starts: u32) -> bool {
    Hasher::default().hash_one((file, index)) % SAMPLE == u64::from(starts) % SAMPLE
}

impl Sources {
    pub fn new(node: &Arc<Node>, core: &Arc<Core>) -> Arc<Self> {
        Arc::new(Self { node: Arc::clone(node), core: Arc::clone(core), source: OnceCell::new() })
    }

    /// The source, read at its first use.
    pub async fn get(&self) -> Option<Arc<Source>> {
        let load = || async {
            let options = self.node.options.profile.clone()?;
            let readers = self.core.lock().reader_count();
            let room_bytes = self.node.options.budget_bytes / PACK_AHEAD_SHARE;
            let load = move || Source::open(&options, readers, room_bytes);
            let loaded = self.node.block(load).await?;
            loaded.inspect_err(|error| tracing::warn!(%error, "no profile")).ok().flatten().map(Arc::new)
        };
        self.source.get_or_init(load).await.clone()
    }

    /// The source, if it is known by now.
    fn known(&self) -> Option<&Arc<Source>> {
        self.source.get().and_then(Option::as_ref)
    }

    fn pack(&self) -> Option<&Pack> {
        self.known()?.pack.as_ref()
    }

    /// The chunk that is asked for, if the pack holds it in exactly this version and can be asked.
    pub fn packed(&self, message: &ReadMessage) -> Option<PackedChunk> {
        let (source, ReadMessage::Chunk { file, generation, index }) = (self.known()?, message) else { return None };
        let pack = self.pack()?;
        let chunk = PlannedChunk { file: file.clone(), generation: *generation, index: *index };
        let place = pack.places.get(&chunk)?;
        (!pack.blocks.is_left_alone()).then(|| PackedChunk {
            node: Arc::clone(&self.node),
            source: Arc::clone(source),
            place,
        })
    }

    /// Lets go of what was read of the pack for parcels that nobody will ask for.
    pub fn drop_untaken(&self) {
        if let Some(pack) = self.pack() {
            pack.blocks.drop_untaken(self.core.lock().wants_parcels());
        }
    }

    /// Bytes that were read of the pack before they are asked for.
    pub fn ahead_bytes(&self) -> u64 {
        self.pack().map_or(0, |pack| pack.blocks.ahead_bytes())
    }

    /// Whether a chunk is left for the kernel of this node to ask for, so that the record knows of it.
    pub fn is_left(&self, file: &ViewPath, generation: &Generation, index: ChunkIndex) -> bool {
        let source = self.known().filter(|_| is_recorder(&self.node));
        source.is_some_and(|source| {
            let is_other = source.generations.get(file).is_some_and(|known| known != generation);
            is_other || is_sampled(file, index, source.profile.starts)
        })
    }

    /// Into how many parcels the profile is cut, once that is known.
    pub fn parcel_count(&self) -> Option<usize> {
        self.known().map(|source| source.parcels.len())
    }

    /// Where the profile lies that this node uses.
    pub fn path(&self) -> Option<String> {
        self.known().map(|source| source.path.display().to_string())
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
        let none = Places::default();
        let places = pack.as_ref().map_or(&none, |pack| &pack.places);
        let parcels = cut(profile.uses.iter().map(first_use), wanted(&profile), places);
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
    pub fn read_ahead(&self, core: &Core) {
        if let Some(pack) = self.pack.as_ref().filter(|_| core.lock().wants_parcels()) {
            pack.blocks.begin(|| self.own_blocks(core));
        }
    }

    pub fn parcel_places(&self) -> Vec<ParcelPlace> {
        match &self.pack {
            Some(pack) => parcel_places(&self.parcels, &pack.places),
            None => parcel_places(&self.parcels, &Places::default()),
        }
    }

    fn own_blocks(&self, core: &Core) -> Vec<usize> {
        let core = core.lock();
        let made_here = |(index, _): &(usize, &PlannedParcel)| core.makes_parcel(*index as u32);
        self.parcels.iter().enumerate().filter(made_here).filter_map(|(_, parcel)| parcel.block).collect()
    }

    /// A block of the pack as it lies there; `None` if it is not to be had.
    pub async fn read_block(&self, block: usize) -> Option<Bytes> {
        self.pack.as_ref()?.blocks.for_parcel(block).await
    }
}

fn first_use(used: &Use) -> FirstUse<'_> {
    match used {
        Use::Directory { path, .. } => FirstUse::Directory(path),
        Use::Absent { path } => FirstUse::Absent(path),
        Use::File { path, .. } => FirstUse::File(path),
    }
}
