//! Listings of directories, as the kernel takes them.

use forebay_fuse::{DirectoryBuffer, Reply};
use forebay_types::{Errno, Kind};
use forebay_wire::write_message::Entries;

use super::kernel::{Kernel, TTL};
use crate::write::kernel_words::{file_of, node_of};

impl Kernel {
    pub fn read_directory(&self, node: u64, (handle, offset, size): (u64, u64, u32), is_plus: bool, reply: Reply) {
        let read = self.readings.at(handle, offset, || self.reader.tree.list(file_of(node)));
        match read.and_then(|reading| self.fill(node, &reading, (offset, size), is_plus)) {
            Ok(buffer) => reply.directory(buffer),
            Err(errno) => reply.error(errno),
        }
    }

    /// Positions are indexes: 1 and 2 stand behind `.` and `..`, `i + 3` behind entry `i`.
    fn fill(
        &self,
        own: u64,
        reading: &Entries,
        (offset, size): (u64, u32),
        is_plus: bool,
    ) -> Result<DirectoryBuffer, Errno> {
        let ways = self.ways()?;
        let mut buffer = DirectoryBuffer::new(size);
        let dots = [(&b"."[..], node_of(reading.own.file)), (b"..", node_of(reading.parent))];
        for (index, (name, node)) in dots.into_iter().enumerate().skip(offset as usize) {
            let at = index as u64 + 1;
            let fits = match is_plus {
                true => buffer.push_plus(None, node, at, Kind::Directory, name),
                false => buffer.push(node, at, Kind::Directory, name),
            };
            if !fits {
                return Ok(buffer);
            }
        }
        let first = offset.saturating_sub(2) as usize;
        for (index, (name, state)) in reading.entries.iter().enumerate().skip(first) {
            let (state, at) = (self.seen(*state), index as u64 + 3);
            let (kind, name) = (state.attributes.kind(), name.as_bytes());
            let fits = match is_plus {
                true => {
                    let entry = ways.check(own, name).is_ok().then(|| ways.entry(own, &state, TTL));
                    buffer.push_plus(entry.as_ref(), node_of(state.file), at, kind, name)
                }
                false => buffer.push(node_of(state.file), at, kind, name),
            };
            if !fits {
                break;
            }
        }
        Ok(buffer)
    }
}
