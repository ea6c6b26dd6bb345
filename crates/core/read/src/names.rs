//! Finding a name in what is known: a complete listing first, the page of attributes if the listing came without, a
//! request for the one name where the directory cannot be listed.

use std::sync::Arc;

use forebay_cache::{Key, Object, ObjectKind};
use forebay_types::{Attributes, Errno, Generation, Name, Time, ViewPath, limits};
use forebay_wire::{EntryRecord, Listing, ReadMessage};

use crate::kept::Kept;

type Records = Arc<[Option<EntryRecord>]>;

/// The answers that have arrived for one waiting operation. They are carried along because the cache may have dropped them already.
#[derive(Clone, Default, Debug)]
pub(crate) struct Known {
    pub listing: Option<Listing>,
    pub entries: Option<(Key, Records)>,
    /// The directory may be searched but not listed (`EACCES` on listing it).
    pub unlistable: bool,
}

/// Where the search for a name ended.
pub(crate) enum Search {
    Found(Attributes, Vec<u8>),
    Absent,
    Wants(Key, ReadMessage),
    Failed(Errno),
}

impl Known {
    /// Adds the answers that have arrived.
    pub fn with(self, arrived: &Self) -> Self {
        Self {
            listing: arrived.listing.clone().or(self.listing),
            entries: arrived.entries.clone().or(self.entries),
            unlistable: self.unlistable,
        }
    }

    /// Drops all that a refresh may change.
    pub fn forget(&mut self) {
        *self = Self { unlistable: self.unlistable, ..Self::default() };
    }
}

/// Finds names among the kept objects, at this time.
pub(crate) struct Finder<'a, B> {
    pub kept: &'a mut Kept<B>,
    pub now: Time,
}

impl<B: Clone> Finder<'_, B> {
    /// Searches `dir` for `name` in `known` and in what is kept.
    pub fn search(&mut self, dir: &ViewPath, name: &[u8], known: &mut Known) -> Search {
        if known.unlistable {
            return self.search_unlistable(dir, name, known);
        }
        let listing = match self.listing_of(dir, known) {
            Ok(listing) => listing,
            Err(wanted) => return Search::Wants(wanted.0, wanted.1),
        };
        let Some(index) = listing.find(name) else { return Search::Absent };
        let entry = listing.entry(index);
        match entry.attributes {
            Some(attributes) => Search::Found(attributes, entry.target.to_vec()),
            None => self.search_page(dir, &listing, index, known),
        }
    }

    /// The listing of `dir`, or what to ask for it.
    pub fn listing_of(&mut self, dir: &ViewPath, known: &mut Known) -> Result<Listing, Box<(Key, ReadMessage)>> {
        if let Some(listing) = &known.listing {
            return Ok(listing.clone());
        }
        let key = Key::Listing { dir: dir.clone() };
        match self.kept.name(self.now, &key, ObjectKind::Listings) {
            Some(Object::Listing(listing)) => {
                known.listing = Some(listing.clone());
                Ok(listing)
            }
            _ => Err(Box::new((key, ReadMessage::Listing { dir: dir.clone() }))),
        }
    }

    fn search_page(&mut self, dir: &ViewPath, listing: &Listing, index: usize, known: &Known) -> Search {
        let (page, place) = (index / limits::ATTRIBUTES_PAGE_NAMES, index % limits::ATTRIBUTES_PAGE_NAMES);
        let key = page_of(dir, listing, index);
        if let Some(records) = self.entries_of(&key, known) {
            return found_at(&records, place);
        }
        let first = index - place;
        let end = (first + limits::ATTRIBUTES_PAGE_NAMES).min(listing.len());
        let names = (first..end).filter_map(|index| Name::new(listing.entry(index).name).ok()).collect();
        let (dir, listing) = (dir.clone(), listing.version());
        Search::Wants(key, ReadMessage::Page { dir, listing, page: page as u32, names })
    }

    fn search_unlistable(&mut self, dir: &ViewPath, name: &[u8], known: &Known) -> Search {
        let Ok(name) = Name::new(name) else { return Search::Failed(Errno::EINVAL) };
        let key = Key::Name { dir: dir.clone(), name: name.clone() };
        match self.entries_of(&key, known) {
            Some(records) => found_at(&records, 0),
            None => Search::Wants(key, ReadMessage::Lookup { dir: dir.clone(), name }),
        }
    }

    fn entries_of(&mut self, key: &Key, known: &Known) -> Option<Records> {
        if let Some((arrived, records)) = &known.entries
            && arrived == key
        {
            return Some(Arc::clone(records));
        }
        match self.kept.name(self.now, key, ObjectKind::Attributes) {
            Some(Object::Entries(records)) => Some(records),
            _ => None,
        }
    }
}

/// The kept object that says that a file has this generation: the listing, the page of attributes, or the name on its own.
pub(crate) fn source_of_generation<B: Clone>(
    kept: &Kept<B>,
    dir: &ViewPath,
    name: &[u8],
    generation: &Generation,
) -> Option<Key> {
    let Some(listing) = kept.peek_listing(dir) else {
        let key = Key::Name { dir: dir.clone(), name: Name::new(name).ok()? };
        return matches!(kept.peek(&key), Some(Object::Entries(_))).then_some(key);
    };
    let index = listing.find(name)?;
    match listing.entry(index).attributes {
        Some(attributes) => (attributes.generation() == *generation).then(|| Key::Listing { dir: dir.clone() }),
        None => Some(page_of(dir, listing, index)),
    }
}

fn page_of(dir: &ViewPath, listing: &Listing, index: usize) -> Key {
    let page = (index / limits::ATTRIBUTES_PAGE_NAMES) as u32;
    Key::Page { dir: dir.clone(), listing: listing.version(), page }
}

/// A source that answered with too few records answered wrongly: an error, not an absence.
fn found_at(records: &[Option<EntryRecord>], index: usize) -> Search {
    match records.get(index) {
        Some(Some(record)) => Search::Found(record.attributes, record.target.clone()),
        Some(None) => Search::Absent,
        None => Search::Failed(Errno::EIO),
    }
}
