//! How many messages of each kind the kernel sent: the measure of how much of the work it does itself.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi::opcode;

/// Names by opcode; the last place counts every opcode without a name.
const NAMES: [(u32, &str); 49] = [
    (opcode::LOOKUP, "lookup"),
    (opcode::FORGET, "forget"),
    (opcode::GETATTR, "getattr"),
    (opcode::SETATTR, "setattr"),
    (opcode::READLINK, "readlink"),
    (opcode::SYMLINK, "symlink"),
    (opcode::MKNOD, "mknod"),
    (opcode::MKDIR, "mkdir"),
    (opcode::UNLINK, "unlink"),
    (opcode::RMDIR, "rmdir"),
    (opcode::RENAME, "rename"),
    (opcode::LINK, "link"),
    (opcode::OPEN, "open"),
    (opcode::READ, "read"),
    (opcode::WRITE, "write"),
    (opcode::STATFS, "statfs"),
    (opcode::RELEASE, "release"),
    (opcode::FSYNC, "fsync"),
    (opcode::SETXATTR, "setxattr"),
    (opcode::GETXATTR, "getxattr"),
    (opcode::LISTXATTR, "listxattr"),
    (opcode::REMOVEXATTR, "removexattr"),
    (opcode::FLUSH, "flush"),
    (opcode::INIT, "init"),
    (opcode::OPENDIR, "opendir"),
    (opcode::READDIR, "readdir"),
    (opcode::RELEASEDIR, "releasedir"),
    (opcode::FSYNCDIR, "fsyncdir"),
    (opcode::GETLK, "getlk"),
    (opcode::SETLK, "setlk"),
    (opcode::SETLKW, "setlkw"),
    (opcode::ACCESS, "access"),
    (opcode::CREATE, "create"),
    (opcode::INTERRUPT, "interrupt"),
    (opcode::BMAP, "bmap"),
    (opcode::DESTROY, "destroy"),
    (opcode::IOCTL, "ioctl"),
    (opcode::POLL, "poll"),
    (opcode::NOTIFY_REPLY, "notify_reply"),
    (opcode::BATCH_FORGET, "batch_forget"),
    (opcode::FALLOCATE, "fallocate"),
    (opcode::READDIRPLUS, "readdirplus"),
    (opcode::RENAME2, "rename2"),
    (opcode::LSEEK, "lseek"),
    (opcode::COPY_FILE_RANGE, "copy_file_range"),
    (opcode::SYNCFS, "syncfs"),
    (opcode::TMPFILE, "tmpfile"),
    (opcode::STATX, "statx"),
    (OTHER, "other"),
];

/// The place of opcodes without a name.
const OTHER: u32 = 63;

/// Bit set of the opcodes that have a name.
const NAMED: u64 = {
    let (mut set, mut index) = (0, 0);
    while index < NAMES.len() {
        set |= 1 << NAMES[index].0;
        index += 1;
    }
    set
};

/// Names by opcode, "other" where there is none.
const BY_OPCODE: [&str; OTHER as usize + 1] = {
    let (mut names, mut index) = (["other"; OTHER as usize + 1], 0);
    while index < NAMES.len() {
        names[NAMES[index].0 as usize] = NAMES[index].1;
        index += 1;
    }
    names
};

/// The name of a kind of message.
pub(crate) fn name_of(code: u32) -> &'static str {
    BY_OPCODE[code.min(OTHER) as usize]
}

/// Counters of one session. Reading them while it runs gives values that were true a moment ago.
pub struct MessageCounts {
    by_opcode: [AtomicU64; OTHER as usize + 1],
    bytes_read: AtomicU64,
}

impl Default for MessageCounts {
    fn default() -> Self {
        Self { by_opcode: std::array::from_fn(|_| AtomicU64::new(0)), bytes_read: AtomicU64::new(0) }
    }
}

impl MessageCounts {
    pub(crate) fn count(&self, code: u32) {
        let place = if code < OTHER && NAMED >> code & 1 == 1 { code } else { OTHER };
        self.by_opcode[place as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_bytes_read(&self, bytes: u64) {
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Every kind with its count, zeros too, in the order of the opcodes.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        NAMES.iter().map(|(code, name)| (*name, self.load(*code)))
    }

    /// The count of one kind (`"lookup"`); 0 for a name there is not.
    #[must_use]
    pub fn of(&self, name: &str) -> u64 {
        self.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| count)
    }

    /// All messages.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.iter().map(|(_, count)| count).sum()
    }

    /// Bytes given in answer to READ, also where a signal made the kernel give the request up.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    fn load(&self, code: u32) -> u64 {
        self.by_opcode[code as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_opcodes_are_counted_as_other() {
        let counts = MessageCounts::default();
        for code in [opcode::LOOKUP, 7, 62, 63, 4096, u32::MAX] {
            counts.count(code);
        }
        assert_eq!((counts.of("lookup"), counts.of("other"), counts.total()), (1, 5, 6));
    }
}
