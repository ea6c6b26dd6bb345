//! Blosc 1's container, and BloscLZ, which is its own compression: `README_CHUNK_FORMAT.rst` and `blosclz.c` of c-blosc.
//!
//! A container has blocks. A block's bytes may be shuffled: first all first bytes of elements, then all second ones; or the same with
//! bits. A block that is not the last has a stream for each byte of an element then. Each size that a container says is checked before
//! it takes memory.

use anyhow::{Context, bail, ensure};
use flate2::bufread::ZlibDecoder;

use crate::arrays::streams::{fill, zstd};

const HEADER_BYTES: usize = 16;

/// The newest format of Blosc 1; Blosc 2 has later ones.
const VERSION_MAX: u8 = 2;

/// A block with a stream for each byte has elements of so many bytes at most,
const SPLITS_MAX: usize = 16;
/// and so many elements at least.
const SPLIT_ELEMENTS_MIN: usize = 128;

/// BloscLZ: a run that is so far back has its distance in two more bytes.
const FAR: usize = 8191;

struct Header {
    flags: u8,
    element: usize,
    len: usize,
    block: usize,
    packed_len: usize,
}

impl Header {
    fn of(packed: &[u8]) -> anyhow::Result<Self> {
        let head: &[u8; HEADER_BYTES] = packed.first_chunk().context("a Blosc chunk ends in its header")?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
        let (version, flags, element) = (head[0], head[2], usize::from(head[3]));
        // Blosc 2 sets both kinds of shuffling for its longer header.
        ensure!(version <= VERSION_MAX && flags & 0b101 != 0b101, "it is a chunk of Blosc 2, and Blosc 1 is known");
        Ok(Self { flags, element, len: number(4), block: number(8), packed_len: number(12) })
    }

    fn is_copied(&self) -> bool {
        self.flags & 2 != 0
    }

    fn is_shuffled(&self) -> bool {
        self.flags & 1 != 0 && self.element > 1
    }

    fn is_bit_shuffled(&self) -> bool {
        self.flags & 4 != 0
    }

    /// Streams of a block of `len` bytes.
    fn streams(&self, len: usize) -> usize {
        let may_split = self.flags & 0x10 == 0 && self.element > 0 && self.element <= SPLITS_MAX;
        let is_split = may_split && len == self.block && self.block / self.element >= SPLIT_ELEMENTS_MIN;
        if is_split { self.element } else { 1 }
    }

    /// Unpacks the block that begins at a place.
    fn block(&self, packed: &[u8], mut at: usize, to: &mut [u8]) -> anyhow::Result<()> {
        let streams = self.streams(to.len());
        ensure!(to.len().is_multiple_of(streams), "its blocks are no whole elements");
        for to in to.chunks_mut((to.len() / streams).max(1)) {
            let len = number(packed, at)?;
            let end = (at + 4).checked_add(len).context("a stream is longer than the chunk")?;
            let stream = packed.get(at + 4..end).context("a stream is longer than the chunk")?;
            match len == to.len() {
                true => to.copy_from_slice(stream),
                false => unpack(self.flags >> 5, stream, to)?,
            }
            at = end;
        }
        Ok(())
    }
}

fn number(bytes: &[u8], at: usize) -> anyhow::Result<usize> {
    let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk()).context("a place is behind the end")?;
    Ok(u32::from_le_bytes(*bytes) as usize)
}

/// The bytes that were compressed to these, of which there are `len_max` at most.
///
/// # Errors
/// They are damaged, of Blosc 2, or compressed by Snappy.
pub fn unpacked(packed: &[u8], len_max: usize) -> anyhow::Result<Vec<u8>> {
    let header = Header::of(packed)?;
    let len = header.len;
    ensure!(len <= len_max, "a Blosc chunk has {len} bytes, and {len_max} are its most");
    let packed = packed.get(..header.packed_len).context("a Blosc chunk is cut short")?;
    if header.is_copied() {
        let copied = packed.get(HEADER_BYTES..).and_then(|copied| copied.get(..len));
        return Ok(copied.context("a Blosc chunk is cut short")?.to_vec());
    }
    if len == 0 {
        return Ok(vec![]);
    }
    ensure!(header.block > 0, "a Blosc chunk has blocks without bytes");
    // The places of all blocks have to be there.
    let blocks = len.div_ceil(header.block);
    ensure!(blocks <= (packed.len().saturating_sub(HEADER_BYTES)) / 4, "a Blosc chunk is cut short");
    let mut all = vec![0; len];
    let mut shuffled =
        vec![0; if header.is_shuffled() || header.is_bit_shuffled() { header.block.min(len) } else { 0 }];
    for (index, block) in all.chunks_mut(header.block).enumerate() {
        let at = number(packed, HEADER_BYTES + 4 * index)?;
        if header.is_shuffled() {
            header.block(packed, at, &mut shuffled[..block.len()])?;
            unshuffle(header.element, &shuffled[..block.len()], block);
        } else if header.is_bit_shuffled() {
            header.block(packed, at, &mut shuffled[..block.len()])?;
            unshuffle_bits(header.element, &shuffled[..block.len()], block);
        } else {
            header.block(packed, at, block)?;
        }
    }
    Ok(all)
}

/// Unpacks a stream that fills `to`.
fn unpack(format: u8, stream: &[u8], to: &mut [u8]) -> anyhow::Result<()> {
    let len = match format {
        0 => unpack_blosclz(stream, to).context("a stream of BloscLZ is damaged")?,
        1 => lz4_flex::block::decompress_into(stream, to).context("a stream of LZ4 is damaged")?,
        2 => bail!("it is compressed by Snappy, which is not known"),
        3 => fill(&mut ZlibDecoder::new(stream), to).context("a stream of zlib is damaged")?,
        4 => zstd(stream, to.len()).map(|bytes| {
            to[..bytes.len()].copy_from_slice(&bytes);
            bytes.len()
        })?,
        other => bail!("it is compressed by method {other}, which is not known"),
    };
    ensure!(len == to.len(), "a stream has {len} bytes in place of {}", to.len());
    Ok(())
}

/// Unpacks a stream of BloscLZ, and says how many bytes came of it; None if it is damaged.
fn unpack_blosclz(stream: &[u8], to: &mut [u8]) -> Option<usize> {
    let (mut rest, mut done) = (stream, 0);
    // Of the first byte, the upper bits say something else.
    let mut control = next(&mut rest)? & 31;
    loop {
        if control < 32 {
            let literals = rest.split_off(..=control)?;
            to.get_mut(done..=done + control)?.copy_from_slice(literals);
            done += control + 1;
        } else {
            let mut len = (control >> 5) + 2;
            if control >> 5 == 7 {
                loop {
                    let more = next(&mut rest)?;
                    len += more;
                    if more < 255 {
                        break;
                    }
                }
            }
            let (above, code) = ((control & 31) << 8, next(&mut rest)?);
            let back = match (above, code) {
                (0x1f00, 255) => (next(&mut rest)? << 8) + next(&mut rest)? + FAR + 1,
                _ => above + code + 1,
            };
            let from = done.checked_sub(back)?;
            if len > to.len() - done {
                return None;
            }
            copy_within(to, from, done, len);
            done += len;
        }
        match next(&mut rest) {
            Some(byte) => control = byte,
            None => return Some(done),
        }
    }
}

fn next(rest: &mut &[u8]) -> Option<usize> {
    rest.split_off_first().copied().map(usize::from)
}

/// Copies a run that may reach into itself.
fn copy_within(to: &mut [u8], from: usize, done: usize, len: usize) {
    if from + len <= done {
        to.copy_within(from..from + len, done);
    } else {
        for step in 0..len {
            to[done + step] = to[from + step];
        }
    }
}

/// Puts the bytes of elements of `element` bytes together: first there are all first bytes of them, then all second ones. Bytes behind
/// the last element stay where they are.
pub fn unshuffle(element: usize, from: &[u8], to: &mut [u8]) {
    fn of<const BYTES: usize>(from: &[u8], to: &mut [u8]) {
        let (elements, _) = to.as_chunks_mut::<BYTES>();
        let count = elements.len();
        let planes: [&[u8]; BYTES] = std::array::from_fn(|byte| &from[byte * count..][..count]);
        for (at, element) in elements.iter_mut().enumerate() {
            *element = planes.map(|plane| plane[at]);
        }
    }
    if element == 0 || to.len() < element {
        return to.copy_from_slice(from);
    }
    match element {
        2 => of::<2>(from, to),
        4 => of::<4>(from, to),
        8 => of::<8>(from, to),
        _ => {
            let count = to.len() / element;
            for byte in 0..element {
                let plane = &from[byte * count..][..count];
                to[byte..].iter_mut().step_by(element).zip(plane).for_each(|(to, from)| *to = *from);
            }
        }
    }
    let whole = to.len() / element * element;
    to[whole..].copy_from_slice(&from[whole..]);
}

/// The same with bits. Blosc does so with multiples of eight elements alone.
fn unshuffle_bits(element: usize, from: &[u8], to: &mut [u8]) {
    let count = to.len() / element.max(1);
    if element == 0 || !count.is_multiple_of(8) {
        return to.copy_from_slice(from);
    }
    let (eights, whole) = (count / 8, count * element);
    for byte in 0..element {
        for eight in 0..eights {
            let row = |bit: usize| from[(byte * 8 + bit) * eights + eight];
            let columns = transposed(u64::from_le_bytes(std::array::from_fn(row))).to_le_bytes();
            for (place, column) in columns.into_iter().enumerate() {
                to[(eight * 8 + place) * element + byte] = column;
            }
        }
    }
    to[whole..].copy_from_slice(&from[whole..]);
}

/// A matrix of 8 x 8 bits with its rows as columns (Warren, Hacker's Delight, section 7-3).
fn transposed(mut bits: u64) -> u64 {
    for (mask, shift) in [(0x00aa_00aa_00aa_00aa, 7), (0x0000_cccc_0000_cccc, 14), (0x0000_0000_f0f0_f0f0, 28)] {
        let moved = (bits ^ (bits >> shift)) & mask;
        bits ^= moved ^ (moved << shift);
    }
    bits
}
