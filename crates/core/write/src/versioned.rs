//! A map whose copies share what neither has changed since.
//!
//! A tree of a million files is copied in the time of a thousand. The copy can then be encoded without delaying changes of the tree.
//! A later change of an entry copies the thousandth part of the map that the entry lies in, once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use forebay_types::{FileId, Hasher};
use forebay_wire::write::Place;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

/// Parts that are shared or copied as a whole.
pub const PARTS: usize = 1024;

/// So many neighbours lie in one part, as a power of two.
const NEIGHBOURS_BITS: u32 = 6;

/// A directory's names lie in so many parts.
const DIRECTORY_PARTS: u8 = 8;

/// See the module.
#[derive(Clone, Debug)]
pub struct Versioned<K, V> {
    parts: Vec<Arc<BTreeMap<K, V>>>,
    len: usize,
}

impl<K, V> Default for Versioned<K, V> {
    fn default() -> Self {
        Self { parts: vec![Arc::default(); PARTS], len: 0 }
    }
}

/// Which part a key lies in.
pub trait Spread {
    /// A number of which the last bits say it. Keys that follow each other may share one, so that they are near each other in memory.
    fn spread(&self) -> u64;
}

impl Spread for FileId {
    fn spread(&self) -> u64 {
        Hasher::default().hash_one((self.creator, self.serial >> NEIGHBOURS_BITS))
    }
}

impl Spread for Place {
    fn spread(&self) -> u64 {
        // A directory may have a million names: some parts of a copy have them.
        let some = self.name.as_bytes().last().map_or(0, |last| last % DIRECTORY_PARTS);
        Hasher::default().hash_one((self.directory, some))
    }
}

impl Spread for u64 {
    fn spread(&self) -> u64 {
        self >> NEIGHBOURS_BITS
    }
}

impl<K: Ord + Spread + Clone, V: Clone> Versioned<K, V> {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.parts[part_of(key)].get(key)
    }

    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let part = &mut self.parts[part_of(key)];
        // A part is not copied for an entry that it does not have.
        if part.contains_key(key) { Arc::make_mut(part).get_mut(key) } else { None }
    }

    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let old = Arc::make_mut(&mut self.parts[part_of(&key)]).insert(key, value);
        self.len += usize::from(old.is_none());
        old
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let part = &mut self.parts[part_of(key)];
        let old = if part.contains_key(key) { Arc::make_mut(part).remove(key) } else { None };
        self.len -= usize::from(old.is_some());
        old
    }

    /// The value of `key`, which begins as the default.
    pub fn entry_or_default(&mut self, key: &K) -> &mut V
    where
        V: Default,
    {
        match Arc::make_mut(&mut self.parts[part_of(key)]).entry(key.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                self.len += 1;
                entry.insert(V::default())
            }
        }
    }

    /// All entries, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.parts.iter().flat_map(|part| part.iter())
    }

    /// How many entries a part has.
    pub fn len_of(&self, part: usize) -> usize {
        self.parts[part].len()
    }

    /// The entries of some parts, shared.
    pub fn only(&self, parts: Range<usize>) -> Self {
        let mut only = Self::default();
        for part in parts {
            only.len += self.parts[part].len();
            only.parts[part] = Arc::clone(&self.parts[part]);
        }
        only
    }

    /// Adds the entries of another one.
    pub fn absorb(&mut self, other: Self) {
        for (own, others) in self.parts.iter_mut().zip(other.parts) {
            if own.is_empty() {
                self.len += others.len();
                *own = others;
            } else if !others.is_empty() {
                let before = own.len();
                Arc::make_mut(own).extend(Arc::unwrap_or_clone(others));
                self.len += own.len() - before;
            }
        }
    }
}

/// As a value of its own, for serde: a copy that is read shares no parts.
pub mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<T: Serialize, S: Serializer>(shared: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
        T::serialize(shared, serializer)
    }

    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<T>, D::Error> {
        T::deserialize(deserializer).map(Arc::new)
    }
}

fn part_of(key: &impl Spread) -> usize {
    key.spread() as usize % PARTS
}

impl<K: Ord, V: PartialEq> PartialEq for Versioned<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}

impl<K: Ord, V: Eq> Eq for Versioned<K, V> {}

impl<K: Ord + Spread + Clone, V: Clone> FromIterator<(K, V)> for Versioned<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        entries.into_iter().for_each(|(key, value)| drop(map.insert(key, value)));
        map
    }
}

impl<K: Serialize, V: Serialize> Serialize for Versioned<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len))?;
        for (key, value) in self.parts.iter().flat_map(|part| part.iter()) {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de, K, V> Deserialize<'de> for Versioned<K, V>
where
    K: Ord + Spread + Clone + Deserialize<'de>,
    V: Clone + Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries(std::marker::PhantomData))
    }
}

struct Entries<K, V>(std::marker::PhantomData<(K, V)>);

impl<'de, K, V> Visitor<'de> for Entries<K, V>
where
    K: Ord + Spread + Clone + Deserialize<'de>,
    V: Clone + Deserialize<'de>,
{
    type Value = Versioned<K, V>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut map = Versioned::default();
        while let Some((key, value)) = entries.next_entry()? {
            map.insert(key, value);
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_stays_as_it_was_and_shares_what_has_not_changed() {
        let mut map: Versioned<u64, String> = (0..10_000).map(|key| (key, key.to_string())).collect();
        let copy = map.clone();
        map.insert(3, "three".to_owned());
        assert_eq!(map.remove(&4).as_deref(), Some("4"));
        map.get_mut(&5).expect("it is there").push('!');
        assert_eq!((map.remove(&20_000), map.get_mut(&20_000)), (None, None));
        assert_eq!((map.len(), copy.len()), (9_999, 10_000));
        assert!((3..6).all(|key| copy.get(&key) == Some(&key.to_string())));
        let shared = map.parts.iter().zip(&copy.parts).filter(|(own, other)| Arc::ptr_eq(own, other)).count();
        assert!(shared >= PARTS - 3, "{shared}");
    }

    #[test]
    fn its_parts_make_it_again() {
        let map: Versioned<u64, u64> = (0..5_000).map(|key| (key, key * 7)).collect();
        let mut again = Versioned::default();
        for first in (0..PARTS).step_by(100) {
            again.absorb(map.only(first..PARTS.min(first + 100)));
        }
        assert_eq!((&again, again.len()), (&map, map.len()));
        again.absorb([(1, 1), (6_000, 6)].into_iter().collect());
        assert_eq!((again.len(), again.get(&1), again.get(&6_000)), (5_001, Some(&1), Some(&6)));
    }
}
