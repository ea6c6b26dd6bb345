//! Telling the kernel a directory's contents, from any position.
//!
//! Positions are indexes in the listing's order of names: 1 and 2 stand behind `.` and `..`, `i + 3` behind entry `i`.
//! They mean the same on every node and after every restart, as long as the generation is the same.

use forebay_fuse::{DirectoryBuffer, Reply};
use forebay_types::Kind;
use forebay_wire::Listing;

use super::core::{Core, ReadCore};
use super::entry_ttl::EntryTtl;
use super::kernel_entry::for_kernel;
use super::waiting::Position;

/// Entries before the listing's own.
const DOTS: u64 = 2;

/// Fills the answer with what fits.
pub fn answer(core: &Core, ttl: &EntryTtl, position: Position, listing: &Listing, reply: Reply) {
    let mut buffer = DirectoryBuffer::new(position.size);
    let dots_fit = push_dots(&mut buffer, position, listing);
    if dots_fit {
        let first = position.offset.saturating_sub(DOTS) as usize;
        let mut core = core.lock();
        for index in first..listing.len() {
            if !push_entry(&mut buffer, &mut core, ttl, position, listing, index) {
                break;
            }
        }
    }
    reply.directory(buffer);
}

fn push_dots(buffer: &mut DirectoryBuffer, position: Position, listing: &Listing) -> bool {
    let ino = listing.directory().ino;
    [&b"."[..], b".."].iter().zip(1..).filter(|(_, offset)| *offset > position.offset).all(|(name, offset)| {
        match position.plus {
            true => buffer.push_plus(None, ino, offset, Kind::Directory, name),
            false => buffer.push(ino, offset, Kind::Directory, name),
        }
    })
}

/// Adds one entry. With attributes it counts as a lookup, which is taken back when the entry does not fit.
fn push_entry(
    buffer: &mut DirectoryBuffer,
    core: &mut ReadCore,
    ttl: &EntryTtl,
    position: Position,
    listing: &Listing,
    index: usize,
) -> bool {
    let entry = listing.entry(index);
    let offset = index as u64 + DOTS + 1;
    if !position.plus {
        return buffer.push(entry.ino, offset, entry.kind, entry.name);
    }
    let remembered = core.remember_entry(position.inode, &entry);
    let told = remembered.map(|entry| for_kernel(entry, ttl));
    let fits = buffer.push_plus(told.as_ref(), entry.ino, offset, entry.kind, entry.name);
    if let Some(entry) = remembered.filter(|_| !fits) {
        core.handle_forget(entry.inode, 1);
    }
    fits
}
