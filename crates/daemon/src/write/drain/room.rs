//! Room on the backing file system, where what is to land finds none.
//!
//! Programs remove old files to make room for new ones. In the tree's order such a removal comes after what needs the room, and both would
//! wait for ever. So the drain takes files that are gone before their turn then.

use forebay_types::Errno;
use forebay_wire::journal::LeaderEntry;
use forebay_write::Removable;

use super::conflicts::Conflicts;
use crate::write::tree::leader::Leader;

/// Files that are removed before what needs room is tried again.
const FILES_MAX: usize = 64;

/// Removes files by steps below `end` until so many bytes may be free. Whether there was any.
///
/// # Errors
/// The error of the first removal that failed.
pub async fn make(leader: &Leader, end: u64, bytes: u64) -> Result<bool, Errno> {
    let removable = leader.tree().removable(end, FILES_MAX, bytes);
    if removable.is_empty() {
        return Ok(false);
    }
    // No loss of power or of this node brings their names back.
    leader.make_durable().await?;
    for Removable { place, file, size_bytes, .. } in &removable {
        // Programs may have changed the tree meanwhile; a removed file stays removed.
        let is_there = leader.tree().file_at(place) == Some(*file);
        if !is_there || (Conflicts { leader }).make_way_to_remove(place).await? {
            continue;
        }
        let path = leader.path_of(place)?;
        tracing::info!(%path, size_bytes, "a file that programs have removed goes before its turn: there is no room for what lands");
        leader.local.land(move |at| at.remove(&path, false)).await?;
        leader.note_found(LeaderEntry::NotThere { place: place.clone() }).await?;
    }
    Ok(true)
}
