//! The one thing about a data set that the library reads past: whether chunks at the border are filtered.
//!
//! The flag is in the layout message of an object header (HDF5 File Format Specification, section IV.A), which is found here again.

use anyhow::{Context, ensure};
use hdf5_reader::storage::Storage;

/// Messages that are looked for: where data are, and where more messages are.
const LAYOUT: u16 = 0x08;
const CONTINUATION: u16 = 0x10;

/// Blocks of messages; the library reads as many.
const BLOCKS_MAX: usize = 1024;

/// Bytes of a block.
const BLOCK_BYTES_MAX: usize = 64 << 20;

/// How messages begin.
enum Envelope {
    /// With eight bytes.
    First,
    /// With four, and two more if messages are numbered.
    Second { has_numbers: bool },
}

/// Whether the chunks of an object that the border cuts are stored without filters.
///
/// # Errors
/// The header cannot be read, or has no layout.
pub fn are_edges_plain(
    storage: &dyn Storage,
    address: u64,
    offset_bytes: u8,
    length_bytes: u8,
) -> anyhow::Result<bool> {
    /// The versions of the message that have flags, the class of data in chunks, and the flag.
    const VERSIONS_WITH_FLAGS: u8 = 4;
    const CHUNKED: u8 = 2;
    const EDGES_ARE_PLAIN: u8 = 1;
    let (envelope, first) = beginning(storage, address)?;
    let mut blocks = vec![first];
    let mut read = 0;
    while let Some((begin, len)) = blocks.get(read).copied() {
        read += 1;
        ensure!(read <= BLOCKS_MAX && len <= BLOCK_BYTES_MAX, "its header is too long");
        let block = storage.read_range(begin, len)?;
        for (kind, message) in messages(&block, &envelope) {
            match (kind, message) {
                (LAYOUT, [version, CHUNKED, flags, ..]) if *version >= VERSIONS_WITH_FLAGS => {
                    return Ok(flags & EDGES_ARE_PLAIN != 0);
                }
                (LAYOUT, _) => return Ok(false),
                (CONTINUATION, message) => {
                    let (offset, length) = (usize::from(offset_bytes), usize::from(length_bytes));
                    let at = number(message, 0, offset).context("its header is damaged")?;
                    let len = number(message, offset, length).context("its header is damaged")? as usize;
                    // A block of the second version begins with a signature, and ends with a checksum.
                    let around = if matches!(envelope, Envelope::First) { (0, 0) } else { (4, 8) };
                    blocks.push((at.saturating_add(around.0), len.saturating_sub(around.1)));
                }
                _ => {}
            }
        }
    }
    anyhow::bail!("its header has no layout")
}

/// How the messages of a header begin, and where the first block of them is: its address and bytes.
fn beginning(storage: &dyn Storage, address: u64) -> anyhow::Result<(Envelope, (u64, usize))> {
    const SIGNATURE: &[u8] = b"OHDR";
    const FIRST_BYTES: u64 = 16;
    let prefix = storage.read_range(address, 16)?;
    if !prefix.starts_with(SIGNATURE) {
        let len = number(&prefix, 8, 4).context("its header is damaged")?;
        return Ok((Envelope::First, (address + FIRST_BYTES, len as usize)));
    }
    let flags = prefix[5];
    let times = if flags & 0x20 == 0 { 0 } else { 16 };
    let phases = if flags & 0x10 == 0 { 0 } else { 4 };
    let (at, bytes) = (6 + times + phases, 1 << (flags & 3));
    let len = number(&storage.read_range(address + at, bytes)?, 0, bytes).context("its header is damaged")?;
    let envelope = Envelope::Second { has_numbers: flags & 4 != 0 };
    Ok((envelope, (address + at + bytes as u64, len as usize)))
}

/// The messages of a block: their types and bytes.
fn messages<'a>(mut block: &'a [u8], envelope: &Envelope) -> Vec<(u16, &'a [u8])> {
    let mut messages = vec![];
    loop {
        let (kind, len, before) = match (envelope, block) {
            (Envelope::First, [kind, high, len, long, _, _, _, _, ..]) => {
                (u16::from_le_bytes([*kind, *high]), u16::from_le_bytes([*len, *long]), 8)
            }
            (Envelope::Second { has_numbers }, [kind, len, long, _, ..]) => {
                (u16::from(*kind), u16::from_le_bytes([*len, *long]), if *has_numbers { 6 } else { 4 })
            }
            _ => return messages,
        };
        let Some(message) = block.get(before..before + usize::from(len)) else { return messages };
        messages.push((kind, message));
        block = &block[before + message.len()..];
    }
}

/// A number of so many bytes, the least significant first.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let mut number = [0; 8];
    number.get_mut(..len)?.copy_from_slice(bytes.get(at..at + len)?);
    Some(u64::from_le_bytes(number))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use hdf5_reader::storage::BytesStorage;

    use super::*;

    /// A message of the first version.
    fn first(kind: u8, message: &[u8]) -> Vec<u8> {
        [&[kind, 0, message.len() as u8, 0, 0, 0, 0, 0], message].concat()
    }

    /// One of the second version with a number.
    fn second(kind: u8, message: &[u8]) -> Vec<u8> {
        [&[kind, message.len() as u8, 0, 0, 9, 0], message].concat()
    }

    fn said(bytes: Vec<u8>) -> anyhow::Result<bool> {
        are_edges_plain(&BytesStorage::new(bytes), 0, 8, 8)
    }

    #[test]
    fn the_flag_is_found_in_any_block_of_either_version() {
        for (layout, known) in
            [([4, 2, 1, 3], true), ([4, 2, 2, 3], false), ([3, 2, 1, 3], false), ([4, 1, 1, 3], false)]
        {
            let here = first(8, &layout);
            let old = [&[1, 0, 1, 0, 1, 0, 0, 0, here.len() as u8, 0, 0, 0, 0, 0, 0, 0][..], &here].concat();
            assert_eq!(said(old).unwrap(), known, "{layout:?}");
            // Behind another message and a gap.
            let more = first(16, &[48_u64.to_le_bytes(), (here.len() as u64).to_le_bytes()].concat());
            let prefix = [1, 0, 2, 0, 1, 0, 0, 0, more.len() as u8, 0, 0, 0, 0, 0, 0, 0];
            let old = [&prefix[..], &more, &[0; 8], &here].concat();
            assert_eq!(said(old).unwrap(), known, "{layout:?}");
            let here = second(8, &layout);
            let more = [
                second(12, &[7; 3]),
                second(16, &{
                    let len = here.len() as u64 + 8;
                    [64_u64.to_le_bytes(), len.to_le_bytes()].concat()
                }),
            ]
            .concat();
            // Times and phases are there; two bytes tell the length.
            let prefix = [&b"OHDR\x02\x35"[..], &[0; 20], &[more.len() as u8, 0]].concat();
            let mut new = [prefix, more].concat();
            new.resize(64, 0);
            let new = [new, b"OCHK".to_vec(), here, vec![0; 4]].concat();
            assert_eq!(said(new).unwrap(), known, "{layout:?}");
        }
    }

    #[test]
    fn a_header_that_leads_in_circles_ends() {
        let again = first(16, &[16_u64.to_le_bytes(), 24_u64.to_le_bytes()].concat());
        let prefix = [1, 0, 1, 0, 1, 0, 0, 0, again.len() as u8, 0, 0, 0, 0, 0, 0, 0];
        assert!(said([&prefix[..], &again].concat()).is_err());
        assert!(said(vec![0; 20]).is_err() && said(b"OHDR".to_vec()).is_err());
    }
}
