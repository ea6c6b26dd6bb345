//! Listings of directories, as the kernel takes them.

use forebay_fuse::{DirectoryBuffer, Reply};
use forebay_types::Kind;
use forebay_wire::write_message::Entries;

use super::kernel::{Kernel, entry};
use crate::write::kernel_ids::{file_of, node_of};

impl Kernel {
    pub async fn read_directory(
        &self,
        node: u64,
        (handle, offset, size): (u64, u64, u32),
        is_plus: bool,
        reply: Reply,
    ) {
        let read = match self.readings.kept(handle, offset) {
            Some(kept) => Ok(kept),
            None => self.reader.tree.list(file_of(node)).await.map(|entries| self.readings.keep(handle, entries)),
        };
        match read {
            Ok(reading) => reply.directory(self.fill(&reading, (offset, size), is_plus)),
            Err(errno) => reply.error(errno),
        }
    }

    /// Positions are indexes: 1 and 2 stand behind `.` and `..`, `i + 3` behind entry `i`.
    fn fill(&self, reading: &Entries, (offset, size): (u64, u32), is_plus: bool) -> DirectoryBuffer {
        let mut buffer = DirectoryBuffer::new(size);
        let dots = [(&b"."[..], node_of(reading.own.file)), (b"..", node_of(reading.parent))];
        for (index, (name, node)) in dots.into_iter().enumerate().skip(offset as usize) {
            let at = index as u64 + 1;
            let fits = match is_plus {
                true => buffer.push_plus(None, node, at, Kind::Directory, name),
                false => buffer.push(node, at, Kind::Directory, name),
            };
            if !fits {
                return buffer;
            }
        }
        let first = offset.saturating_sub(2) as usize;
        for (index, (name, state)) in reading.entries.iter().enumerate().skip(first) {
            let (state, at) = (self.seen(*state), index as u64 + 3);
            let (kind, name) = (state.attributes.kind(), name.as_bytes());
            let fits = match is_plus {
                true => buffer.push_plus(Some(&entry(&state)), node_of(state.file), at, kind, name),
                false => buffer.push(node_of(state.file), at, kind, name),
            };
            if !fits {
                break;
            }
        }
        buffer
    }
}
