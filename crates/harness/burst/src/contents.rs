//! Programs' contents: slots that say of which file they are, and which write of its program made them.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::pass::pass;

/// No multiple of what disks and file systems write at once.
pub const SLOT_BYTES: usize = 700;

const HEAD_BYTES: usize = 24;
const MAGIC: u64 = 0x666f_7265_6261_7921;

/// The content of a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Slot {
    Hole,
    /// The file, and the number of the write.
    Written(u64, u64),
    /// No write has made it.
    Torn,
}

/// The bytes of a slot.
pub fn slot(file: u64, number: u64, index: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SLOT_BYTES);
    [MAGIC, file << 20 | index, number].iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    let mut fill = file.wrapping_mul(31).wrapping_add(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index;
    while bytes.len() < SLOT_BYTES {
        fill = fill.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        bytes.push((fill >> 56) as u8 | 1);
    }
    bytes
}

/// The slots of a file, whose last one may be cut off.
pub fn slots(bytes: &[u8]) -> Vec<Slot> {
    bytes.chunks(SLOT_BYTES).enumerate().map(|(index, bytes)| found(bytes, Some(index as u64))).collect()
}

/// The same where slots are anywhere, as in a file to whose end programs append.
pub fn records(bytes: &[u8]) -> Vec<Slot> {
    bytes.chunks(SLOT_BYTES).map(|bytes| found(bytes, None)).collect()
}

fn found(bytes: &[u8], at: Option<u64>) -> Slot {
    if bytes.iter().all(|byte| *byte == 0) {
        return Slot::Hole;
    }
    if bytes.len() < SLOT_BYTES {
        return Slot::Torn;
    }
    let word = |index: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
        u64::from_le_bytes(word)
    };
    let (file, index, number) = (word(1) >> 20, word(1) & 0xf_ffff, word(2));
    let is_right = at.is_none_or(|at| at == index) && bytes == slot(file, number, index);
    if is_right { Slot::Written(file, number) } else { Slot::Torn }
}

/// The bytes of a file of the backing file system, read from outside, without turns.
pub fn read(path: &Path) -> Vec<u8> {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return vec![] };
    let open = [libc::AT_FDCWD as u64, name.as_ptr() as u64, (libc::O_RDONLY | libc::O_CLOEXEC) as u64, 0, 0];
    let descriptor = pass(libc::SYS_openat, open);
    let (mut bytes, mut part) = (vec![], vec![0; 64 << 10]);
    if descriptor < 0 {
        return bytes;
    }
    loop {
        let said = pass(libc::SYS_read, [descriptor as u64, part.as_mut_ptr() as u64, part.len() as u64, 0, 0]);
        if said <= 0 {
            break;
        }
        bytes.extend_from_slice(&part[..said as usize]);
    }
    pass(libc::SYS_close, [descriptor as u64, 0, 0, 0, 0]);
    bytes
}

const _: () = assert!(HEAD_BYTES < SLOT_BYTES);
