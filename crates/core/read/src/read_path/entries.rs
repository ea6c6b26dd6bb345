//! Finding a name in what is known: a complete listing first, the page of attributes if the listing came without, a
//! question for the one name where the directory cannot be listed.

use std::sync::Arc;

use forebay_cache::{Key, Object, ObjectKind};
use forebay_types::{Attributes, Errno, Name, ViewPath, limits};
use forebay_wire::{EntryRecord, Listing, ReadMessage};

use super::ReadPath;

/// What has arrived for one waiting operation. It is carried along because the cache may have dropped it already.
#[derive(Clone, Default, Debug)]
pub(super) struct Known {
    pub listing: Option<Listing>,
    pub entries: Option<(Key, Arc<[Option<EntryRecord>]>)>,
    /// The directory may be searched but not listed (`EACCES` on listing it).
    pub unlistable: bool,
}

/// Where the search for a name ended.
pub(super) enum Search {
    Found(Attributes, Vec<u8>),
    Absent,
    Wants(Key, ReadMessage),
    Failed(Errno),
}

impl<B: Clone> ReadPath<B> {
    /// Searches `dir` for `name` in `known` and in the cache.
    pub(super) fn search(&mut self, dir: &ViewPath, name: &[u8], known: &mut Known) -> Search {
        if known.unlistable {
            return self.search_unlistable(dir, name, known);
        }
        let listing = match self.listing_of(dir, known) {
            Ok(listing) => listing,
            Err(wanted) => return Search::Wants(wanted.0, wanted.1),
        };
        let Some(index) = listing.find(name) else {
            self.counters.negative_hits += 1;
            return Search::Absent;
        };
        let entry = listing.entry(index);
        match entry.attributes {
            Some(attributes) => Search::Found(attributes, entry.target.to_vec()),
            None => self.search_page(dir, &listing, index, known),
        }
    }

    /// The listing of `dir`, or what to ask for it.
    pub(super) fn listing_of(&mut self, dir: &ViewPath, known: &mut Known) -> Result<Listing, Box<(Key, ReadMessage)>> {
        if let Some(listing) = &known.listing {
            return Ok(listing.clone());
        }
        let key = Key::Listing { dir: dir.clone() };
        self.drop_if_old(&key);
        match self.objects.get(&key, ObjectKind::Listings) {
            Some(Object::Listing(listing)) => {
                known.listing = Some(listing.clone());
                Ok(listing)
            }
            _ => Err(Box::new((key, ReadMessage::Listing { dir: dir.clone() }))),
        }
    }

    fn search_page(&mut self, dir: &ViewPath, listing: &Listing, index: usize, known: &Known) -> Search {
        let page = index / limits::ATTRIBUTES_PAGE_NAMES;
        let version = listing.version();
        let key = Key::Page { dir: dir.clone(), listing: version, page: page as u32 };
        if let Some(records) = self.entries_of(&key, known) {
            return found_at(&records, index % limits::ATTRIBUTES_PAGE_NAMES);
        }
        let first = page * limits::ATTRIBUTES_PAGE_NAMES;
        let end = (first + limits::ATTRIBUTES_PAGE_NAMES).min(listing.len());
        let names = (first..end).filter_map(|index| Name::new(listing.entry(index).name).ok()).collect();
        Search::Wants(key, ReadMessage::Page { dir: dir.clone(), listing: version, page: page as u32, names })
    }

    fn search_unlistable(&mut self, dir: &ViewPath, name: &[u8], known: &Known) -> Search {
        let Ok(name) = Name::new(name) else {
            return Search::Failed(Errno::EINVAL);
        };
        let key = Key::Name { dir: dir.clone(), name: name.clone() };
        match self.entries_of(&key, known) {
            Some(records) => found_at(&records, 0),
            None => Search::Wants(key, ReadMessage::Lookup { dir: dir.clone(), name }),
        }
    }

    fn entries_of(&mut self, key: &Key, known: &Known) -> Option<Arc<[Option<EntryRecord>]>> {
        if let Some((arrived, records)) = &known.entries
            && arrived == key
        {
            return Some(Arc::clone(records));
        }
        self.drop_if_old(key);
        match self.objects.get(key, ObjectKind::Attributes) {
            Some(Object::Entries(records)) => Some(records),
            _ => None,
        }
    }
}

/// A source that answered with too few records answered wrongly: an error, not an absence.
fn found_at(records: &[Option<EntryRecord>], index: usize) -> Search {
    match records.get(index) {
        Some(Some(record)) => Search::Found(record.attributes, record.target.clone()),
        Some(None) => Search::Absent,
        None => Search::Failed(Errno::EIO),
    }
}
