//! Arrays of Zarr stores, of versions 2 and 3 of the format: a directory with JSON documents, and a file for each chunk or shard.
//!
//! Groups are found by their own documents, never by consolidated ones, which may be older than the arrays.

mod array;
mod json;
mod layout;
#[cfg(test)]
mod packed_chunks;
mod store;
mod v2;
mod v3;

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, ensure};
use serde_json::{Map, Value};

use crate::arrays::chunk_cache::ChunkCache;
use crate::arrays::data_set::{DEPTH_MAX, Found, NamedSet, SETS_MAX, StoredAs};
use crate::arrays::zarr::array::Array;
use crate::arrays::zarr::layout::{Layout, Refused};

pub use store::Store;

/// The name of an array that is a store by itself.
const ALONE: &str = "array";

/// A document, and the attributes that belong to it.
enum Node {
    Group,
    Array(Box<Result<Layout, Refused>>, Map<String, Value>),
}

/// A walk through a store's groups.
struct Walk<'a> {
    store: &'a Arc<Store>,
    cache: Arc<ChunkCache>,
    is_v3: bool,
    seen: BTreeSet<(u64, u64)>,
    found: Found,
}

/// The arrays of a store.
///
/// # Errors
/// It cannot be read, or is damaged.
pub fn find(store: &Arc<Store>) -> anyhow::Result<Found> {
    let is_v3 = store.document("zarr.json")?.is_some();
    let seen = store.directory("")?.into_iter().collect();
    let mut walk = Walk { store, cache: Arc::default(), is_v3, seen, found: Found::default() };
    match walk.node("")? {
        Some(Node::Array(layout, attributes)) => walk.add("", *layout, &attributes)?,
        Some(Node::Group) => walk.group("", DEPTH_MAX)?,
        None => {}
    }
    Ok(walk.found)
}

impl Walk<'_> {
    /// The node of a directory, whose key ends with a slash; None if it is none.
    fn node(&self, key: &str) -> anyhow::Result<Option<Node>> {
        let document = |name: &str| {
            let document = self.store.document(&format!("{key}{name}"))?;
            document.map(|document| object(document, key, name)).transpose()
        };
        if self.is_v3 {
            let Some(mut document) = document("zarr.json")? else { return Ok(None) };
            if !v3::is_array(&document).with_context(|| damaged(key))? {
                return Ok(Some(Node::Group));
            }
            let layout = v3::layout(&document);
            let attributes = match document.remove("attributes") {
                Some(Value::Object(attributes)) => attributes,
                None => Map::new(),
                Some(_) => anyhow::bail!("{}: its attributes are no object", damaged(key)),
            };
            return Ok(Some(Node::Array(Box::new(layout), attributes)));
        }
        if let Some(array) = document(".zarray")? {
            let attributes = document(".zattrs")?.unwrap_or_default();
            return Ok(Some(Node::Array(Box::new(v2::layout(&array, &attributes)), attributes)));
        }
        Ok(document(".zgroup")?.map(|_| Node::Group))
    }

    /// Adds the arrays of a group and of those below it, each once.
    fn group(&mut self, key: &str, depth: usize) -> anyhow::Result<()> {
        for name in self.store.members(key, SETS_MAX)? {
            let below = format!("{key}{name}");
            let Some(directory) = self.store.directory(&below)? else { continue };
            let below = format!("{below}/");
            match self.node(&below)? {
                Some(Node::Array(layout, attributes)) => self.add(&below, *layout, &attributes)?,
                Some(Node::Group) if !self.seen.insert(directory) => {}
                Some(Node::Group) if depth > 0 => self.group(&below, depth - 1)?,
                Some(Node::Group) => self.found.leave_group(&below),
                None => {}
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        key: &str,
        layout: Result<Layout, Refused>,
        attributes: &Map<String, Value>,
    ) -> anyhow::Result<()> {
        let sets = self.found.sets.len();
        ensure!(sets < SETS_MAX, "it has more than {SETS_MAX} arrays");
        let name = if key.is_empty() { ALONE } else { key.trim_end_matches('/') };
        let described = match layout {
            Ok(layout) => stored_as(&layout, attributes).map(|packing| (layout, packing)),
            Err(Refused::Unknown(reason)) => Err(reason),
            Err(Refused::Damaged(error)) => return Err(error.context(damaged(key))),
        };
        let (layout, packing) = match described {
            Ok(described) => described,
            Err(reason) => {
                self.found.not_numbers.push(format!("{name} ({reason})"));
                return Ok(());
            }
        };
        self.found.note(name, &packing);
        let set = Array::new(Arc::clone(self.store), Arc::clone(&self.cache), key.to_owned(), layout, packing);
        self.found.sets.push(NamedSet { name: name.to_owned(), set: Box::new(set) });
        Ok(())
    }
}

fn damaged(key: &str) -> String {
    let name = if key.is_empty() { ALONE } else { key.trim_end_matches('/') };
    format!("the document of its array {name} is damaged")
}

fn object(document: Value, key: &str, name: &str) -> anyhow::Result<Map<String, Value>> {
    match document {
        Value::Object(members) => Ok(members),
        _ => anyhow::bail!("its document {key}{name} is no object"),
    }
}

/// The meaning of stored values, as attributes say it.
fn stored_as(layout: &Layout, attributes: &Map<String, Value>) -> Result<StoredAs, String> {
    let numbers = |name: &str| {
        let said = attributes.get(name).map_or(Some(vec![]), json::numbers);
        let mut numbers = said.ok_or("an attribute that says what its values are has no numbers")?;
        if name == "_FillValue" && layout.fill_is_missing {
            numbers.push(layout.fill);
        }
        // Those are missing without being said to be.
        numbers.retain(|number| !number.is_nan());
        Ok(numbers)
    };
    let is_unsigned = match attributes.get("_Unsigned") {
        Some(Value::String(said)) => said.eq_ignore_ascii_case("true"),
        Some(said) => said == &Value::Bool(true),
        None => false,
    };
    StoredAs::of(layout.kind.element(), numbers, is_unsigned).map_err(|reason: &str| reason.to_owned())
}
