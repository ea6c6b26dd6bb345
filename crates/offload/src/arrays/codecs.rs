//! The ways in which bytes of chunks were packed, as numcodecs and the registry of Zarr name them, undone: bytes from bytes.
//!
//! A codec makes no more bytes than it is told that there may be, whatever the packed ones say.

use std::io::Read;

use anyhow::{Context, bail, ensure};
use flate2::bufread::ZlibDecoder;

use crate::arrays::blosc::{self, unshuffle};
use crate::arrays::kind::Kind;
use crate::arrays::streams::{all, by_stream};
use crate::packing::Packing;

/// Bytes of a checksum, and of the count before LZ4.
const WORD_BYTES: usize = 4;

/// A step by which bytes were packed.
#[derive(Clone, Debug, PartialEq)]
pub enum Codec {
    /// Blosc 1.
    Blosc,
    /// Members of gzip.
    Gzip,
    /// zlib (RFC 1950).
    Zlib,
    /// Frames of zstd.
    Zstd,
    /// LZ4 behind the count of bytes.
    Lz4,
    /// CRC-32C behind the bytes.
    Crc32c,
    /// First bytes of all elements of so many bytes, second ones, and so on.
    Shuffle(usize),
    /// The difference of each element to the one before: the type of elements, and that of differences.
    Delta(Kind, Kind),
    /// Elements less an offset, times a scale, rounded.
    Scaled {
        /// The type of elements.
        kind: Kind,
        /// The type in which they are stored.
        stored: Kind,
        /// Added to what is stored, behind the scale.
        offset: f64,
        /// The divisor of what is stored.
        scale: f64,
    },
}

impl Codec {
    /// The bytes that were packed to these, of which there are `len_max` at most.
    ///
    /// # Errors
    /// They are damaged, or there are more.
    pub fn unpacked(&self, mut packed: Vec<u8>, len_max: usize) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::Blosc => blosc::unpacked(&packed, len_max),
            Self::Gzip => by_stream(&packed, Packing::Gzip, len_max),
            Self::Zstd => by_stream(&packed, Packing::Zstd, len_max),
            Self::Zlib => {
                let mut decoder = ZlibDecoder::new(&packed[..]);
                all(|to| decoder.read(to), len_max).context("its bytes are no zlib, or damaged")
            }
            Self::Lz4 => lz4(&packed, len_max),
            Self::Crc32c => {
                let (bytes, checksum) = packed.split_last_chunk::<WORD_BYTES>().context("it ends in its checksum")?;
                ensure!(
                    crc32c::crc32c(bytes) == u32::from_le_bytes(*checksum),
                    "its checksum is another: it is damaged"
                );
                packed.truncate(packed.len() - WORD_BYTES);
                Ok(packed)
            }
            Self::Shuffle(element) => {
                let mut bytes = vec![0; packed.len()];
                unshuffle(*element, &packed, &mut bytes);
                Ok(bytes)
            }
            Self::Delta(kind, stored) => summed(*kind, *stored, &packed, len_max),
            Self::Scaled { kind, stored, offset, scale } => {
                let scaled = |value: f64| match (stored.letter, stored.bytes) {
                    // As NumPy does: floats of so few bytes stay such.
                    (b'f', 4) => f64::from(value as f32 / *scale as f32 + *offset as f32),
                    _ => value / scale + offset,
                };
                converted(*kind, *stored, &packed, len_max, scaled)
            }
        }
    }
}

fn lz4(packed: &[u8], len_max: usize) -> anyhow::Result<Vec<u8>> {
    let (len, packed) = packed.split_first_chunk::<WORD_BYTES>().context("LZ4's bytes are cut short")?;
    let len = u32::from_le_bytes(*len) as usize;
    ensure!(len <= len_max, "LZ4 says {len} bytes, and {len_max} are the most");
    let mut bytes = vec![0; len];
    let done = lz4_flex::block::decompress_into(packed, &mut bytes).context("LZ4's bytes are damaged")?;
    ensure!(done == len, "LZ4 has {done} bytes in place of {len}");
    Ok(bytes)
}

/// Bytes from LZ4's blocks as HDF5's filter writes them, `len_max` at most: the count of bytes, that of a block, and behind its own count
/// each block, which is not compressed if it would be as long. All counts have their most significant byte first.
///
/// # Errors
/// They are damaged, or there are more.
pub fn lz4_blocks(packed: &[u8], len_max: usize) -> anyhow::Result<Vec<u8>> {
    /// LZ4 makes no more of a byte.
    const EXPANDS_MAX: usize = 255;
    let short = "LZ4's bytes are cut short";
    let (len, rest) = packed.split_first_chunk::<8>().context(short)?;
    let (block_len, mut rest) = rest.split_first_chunk::<WORD_BYTES>().context(short)?;
    let len = usize::try_from(u64::from_be_bytes(*len))?;
    let len_max = len_max.min(packed.len().saturating_mul(EXPANDS_MAX));
    ensure!(len <= len_max, "LZ4 says {len} bytes, and {len_max} are the most");
    let block_len = u32::from_be_bytes(*block_len) as usize;
    ensure!(block_len > 0 || len == 0, "LZ4 says blocks without bytes");
    let mut bytes = vec![0; len];
    for block in bytes.chunks_mut(block_len.max(1)) {
        let (packed_len, behind) = rest.split_first_chunk::<WORD_BYTES>().context(short)?;
        let (packed, behind) = behind.split_at_checked(u32::from_be_bytes(*packed_len) as usize).context(short)?;
        if packed.len() == block.len() {
            block.copy_from_slice(packed);
        } else {
            let done = lz4_flex::block::decompress_into(packed, block).context("LZ4's bytes are damaged")?;
            ensure!(done == block.len(), "LZ4 has {done} bytes in place of {}", block.len());
        }
        rest = behind;
    }
    Ok(bytes)
}

/// Elements from their differences, each of which counts in the elements' own arithmetic.
fn summed(kind: Kind, stored: Kind, packed: &[u8], len_max: usize) -> anyhow::Result<Vec<u8>> {
    let mut bytes = with_room(kind, stored, packed, len_max)?;
    let (mut integer, mut single, mut double) = (0_u64, 0_f32, 0_f64);
    for difference in packed.chunks_exact(stored.bytes) {
        let bits = stored.bits(difference);
        let sum = match (kind.letter, kind.bytes) {
            (b'f', 4) => {
                single += stored.value(bits) as f32;
                u64::from(single.to_bits())
            }
            (b'f', _) => {
                double += stored.value(bits);
                double.to_bits()
            }
            _ => {
                integer = integer.wrapping_add(stored.widened(bits));
                integer
            }
        };
        kind.append(sum, &mut bytes);
    }
    Ok(bytes)
}

/// Elements of another type, each by its value.
fn converted(
    kind: Kind,
    stored: Kind,
    packed: &[u8],
    len_max: usize,
    value: impl Fn(f64) -> f64,
) -> anyhow::Result<Vec<u8>> {
    let mut bytes = with_room(kind, stored, packed, len_max)?;
    for element in packed.chunks_exact(stored.bytes) {
        let value = value(stored.value(stored.bits(element)));
        let bits = match (kind.letter, kind.bytes) {
            (b'f', 4) => u64::from((value as f32).to_bits()),
            (b'f', 8) => value.to_bits(),
            (b'i', _) => value as i64 as u64,
            (b'u', _) => value as u64,
            _ => bail!("it has elements that cannot be scaled"),
        };
        kind.append(bits, &mut bytes);
    }
    Ok(bytes)
}

fn with_room(kind: Kind, stored: Kind, packed: &[u8], len_max: usize) -> anyhow::Result<Vec<u8>> {
    ensure!(packed.len().is_multiple_of(stored.bytes), "it has no whole elements");
    let len = (packed.len() / stored.bytes).saturating_mul(kind.bytes);
    ensure!(len <= len_max, "it has {len} bytes, and {len_max} are the most");
    Ok(Vec::with_capacity(len))
}
