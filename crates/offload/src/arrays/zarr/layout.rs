//! An array as its document describes it, in the same terms for both versions of the format.

use anyhow::{Context, anyhow};
use serde_json::{Map, Value};

use crate::arrays::codecs::Codec;
use crate::arrays::kind::Kind;

/// Axes of an array: NumPy's most.
const AXES_MAX: usize = 64;

/// Bytes of one chunk. A document may say that it has larger ones, and have none.
const CHUNK_BYTES_MAX: u64 = 1 << 30;

/// Bytes of a shard's index: four million chunks.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// Bytes by which packed chunks may be longer than others.
const PACKED_MORE_BYTES: u64 = 64 << 10;

/// The description of an array that is not read.
#[derive(Debug)]
pub enum Refused {
    /// It is well, but not understood, for this reason.
    Unknown(String),
    /// It is damaged.
    Damaged(anyhow::Error),
}

impl From<anyhow::Error> for Refused {
    fn from(error: anyhow::Error) -> Self {
        Self::Damaged(error)
    }
}

/// One that is not understood.
pub fn unknown<T>(reason: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::Unknown(reason.into()))
}

/// An array.
#[derive(Debug)]
pub struct Layout {
    /// Elements along each axis.
    pub shape: Vec<u64>,
    /// The same of a chunk.
    pub chunk: Vec<u64>,
    /// The names of files.
    pub keys: Keys,
    /// The type of elements.
    pub kind: Kind,
    /// The axes of a chunk in the order in which they are stored: the last one is the fastest.
    pub order: Vec<usize>,
    /// How a chunk was packed, the last step first.
    pub codecs: Vec<Codec>,
    /// How chunks share files.
    pub shards: Option<Shards>,
    /// The element of chunks that were never written.
    pub fill: f64,
    /// Whether that stands for a missing value.
    pub fill_is_missing: bool,
    /// Whether its axes have names.
    pub has_axes: bool,
}

/// The names of the files of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Whether a `c` stands before the numbers of a chunk.
    pub has_prefix: bool,
    /// Stands between those.
    pub separator: char,
}

impl Keys {
    /// The file of a chunk, by its place in the grid.
    pub fn key(&self, place: &[u64]) -> String {
        let prefix = self.has_prefix.then(|| "c".to_owned());
        let parts: Vec<String> = prefix.into_iter().chain(place.iter().map(u64::to_string)).collect();
        if parts.is_empty() { "0".to_owned() } else { parts.join(self.separator.encode_utf8(&mut [0; 4])) }
    }
}

/// Files with several chunks each.
#[derive(Debug)]
pub struct Shards {
    /// Chunks along each axis of a file.
    pub chunks: Vec<u64>,
    /// The axes in the order in which the index has them: the last one is the fastest.
    pub order: Vec<usize>,
    /// Whether the index stands behind the chunks.
    pub is_at_end: bool,
    /// The type of its numbers.
    pub kind: Kind,
    /// How it was packed, the last step first.
    pub codecs: Vec<Codec>,
}

impl Shards {
    /// Chunks of a file.
    pub fn count(&self) -> u64 {
        self.chunks.iter().product()
    }

    /// Bytes of an index of a file, and of it as it is packed.
    pub fn index_bytes(&self) -> (usize, usize) {
        let bytes = 16 * self.count() as usize;
        (bytes, bytes + 4 * self.codecs.len())
    }
}

impl Layout {
    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk.iter().product::<u64>() as usize * self.kind.bytes
    }

    /// Bytes that a chunk may have between two steps, or in its file.
    pub fn packed_bytes_max(&self) -> usize {
        let widest = self.codecs.iter().map(|codec| match codec {
            Codec::Delta(_, stored) | Codec::Scaled { stored, .. } => stored.bytes,
            _ => 1,
        });
        let widest = widest.fold(self.kind.bytes, usize::max) as u64;
        let bytes = self.chunk.iter().product::<u64>() * widest;
        (bytes + bytes / 8 + PACKED_MORE_BYTES) as usize
    }

    /// It, if it is no larger than it may be.
    ///
    /// # Errors
    /// It is larger, or its chunks fit neither its shape nor its shards.
    pub fn checked(self) -> Result<Self, Refused> {
        let (axes, bytes) = (self.shape.len(), self.kind.bytes as u64);
        if axes > AXES_MAX {
            return Err(anyhow!("it has {axes} axes, and {AXES_MAX} are the most").into());
        }
        if self.chunk.len() != axes || self.order.len() != axes || self.chunk.contains(&0) {
            return Err(anyhow!("its chunks of shape {:?} do not fit its shape {:?}", self.chunk, self.shape).into());
        }
        let chunk_bytes = self.chunk.iter().try_fold(bytes, |bytes, len| bytes.checked_mul(*len));
        if chunk_bytes.is_none_or(|bytes| bytes > CHUNK_BYTES_MAX) {
            return unknown(format!("chunks of more than {} MiB", CHUNK_BYTES_MAX >> 20));
        }
        if let Some(shards) = &self.shards {
            let index_bytes = shards.chunks.iter().try_fold(16_u64, |bytes, len| bytes.checked_mul(*len));
            if index_bytes.is_none_or(|bytes| bytes > INDEX_BYTES_MAX) {
                return unknown("shards of too many chunks");
            }
        }
        Ok(self)
    }
}

/// A shape, as a member of a document.
///
/// # Errors
/// It is none.
pub fn shape_of(document: &Map<String, Value>, name: &str) -> anyhow::Result<Vec<u64>> {
    let lens = document.get(name).and_then(Value::as_array).with_context(|| format!("it has no {name}"))?;
    lens.iter().map(|len| len.as_u64().with_context(|| format!("its {name} has {len}"))).collect()
}

/// A text of a configuration.
///
/// # Errors
/// It has none of that name.
pub fn text_of<'a>(document: &'a Map<String, Value>, name: &str) -> anyhow::Result<&'a str> {
    document.get(name).and_then(Value::as_str).with_context(|| format!("it has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_formats() {
        let key = |has_prefix, separator, place: &[u64]| Keys { has_prefix, separator }.key(place);
        assert_eq!(key(false, '.', &[1, 20, 3]), "1.20.3");
        assert_eq!(key(false, '/', &[1, 2]), "1/2");
        assert_eq!(key(true, '/', &[1, 2]), "c/1/2");
        assert_eq!(key(true, '.', &[7]), "c.7");
        assert_eq!((key(false, '.', &[]), key(true, '/', &[])), ("0".to_owned(), "c".to_owned()));
    }
}
