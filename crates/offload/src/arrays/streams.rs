//! Bytes from decoders that deliver them in order, as many as there may be at most.

use std::io::{self, Read};

use anyhow::{Context, ensure};

use crate::packing::{Packing, Unpacker};

/// Bytes that a decoder is asked for at once.
const STEP_BYTES: usize = 256 << 10;

/// Bytes from frames of zstd, `len_max` at most.
///
/// # Errors
/// They are damaged, or there are more.
pub fn zstd(packed: &[u8], len_max: usize) -> anyhow::Result<Vec<u8>> {
    by_stream(packed, Packing::Zstd, len_max)
}

/// The same of a packing.
///
/// # Errors
/// The same.
pub fn by_stream(packed: &[u8], packing: Packing, len_max: usize) -> anyhow::Result<Vec<u8>> {
    let mut unpacker = Unpacker::new(packed, Some(packing));
    all(|to| unpacker.read(to), len_max).with_context(|| format!("its bytes are no {}, or damaged", packing.name()))
}

/// All that a decoder has, `len_max` bytes at most.
///
/// # Errors
/// The decoder's, or there are more.
pub fn all(mut read: impl FnMut(&mut [u8]) -> io::Result<usize>, len_max: usize) -> anyhow::Result<Vec<u8>> {
    let mut all = vec![];
    loop {
        let from = all.len();
        ensure!(from <= len_max, "there are more than {len_max} bytes");
        all.resize(from + STEP_BYTES.min(len_max + 1 - from), 0);
        let len = read(&mut all[from..])?;
        all.truncate(from + len);
        if len == 0 {
            return Ok(all);
        }
    }
}

/// Reads until a buffer is full or there is no more, and says how many bytes there were.
///
/// # Errors
/// The decoder's.
pub fn fill(from: &mut impl Read, to: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < to.len() {
        match from.read(&mut to[done..])? {
            0 => break,
            len => done += len,
        }
    }
    Ok(done)
}
