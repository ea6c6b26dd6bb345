//! A profile: what a start-up used, in the order of first use, and how that is written down.
//!
//! Names that exist are not recorded one by one: a listing is complete, so the directories that were used answer every
//! name in them. Names that do not exist are, for a kernel must be told of each that it shall know as absent. Contents are
//! recorded as chunks, which is how they are asked for. Every directory and file has the generation that was seen;
//! whoever uses a profile compares it with the present one, file by file, so that a profile can be old but never makes
//! anybody see what was.

use forebay_types::{ChunkIndex, Generation, ViewPath, chunk_bytes, limits};
use ring::digest;
use serde::{Deserialize, Serialize};

use crate::FormatError;
use crate::sealed::Sealed;

/// Exports that a profile may name.
const PROFILE_EXPORTS_MAX: usize = 1024;

pub(crate) const FORMAT: Sealed = Sealed { magic: *b"FBpr", version: 1, name: "profile" };

/// The directories, files and absent names that a start-up of a command used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// The command (`command_of`): printable text.
    pub command: String,
    /// The exports of its jobs, as paths of the backing file system.
    pub exports: Vec<ViewPath>,
    /// When it was recorded first, seconds since 1970.
    pub made_unix_s: u64,
    /// Starts that it has learned from.
    pub starts: u32,
    /// Uses, in the order of first use; a path at most once of each kind.
    pub uses: Vec<Use>,
}

/// Something that was used.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Use {
    /// Names in it were looked up, or it was listed.
    Directory {
        /// Which.
        path: ViewPath,
        /// Its version then.
        generation: Generation,
    },
    /// It was read.
    File {
        /// Which.
        path: ViewPath,
        /// Its version then.
        generation: Generation,
        /// The chunks that were read, in the order of first use; never empty, each at most once.
        chunks: Vec<ChunkIndex>,
    },
    /// It was looked for and did not exist.
    Absent {
        /// The path that was looked for.
        path: ViewPath,
    },
}

impl Use {
    /// The directory, file or name.
    #[must_use]
    pub fn path(&self) -> &ViewPath {
        match self {
            Self::Directory { path, .. } | Self::File { path, .. } | Self::Absent { path } => path,
        }
    }

    /// Its version when it was used; `None` of what did not exist.
    #[must_use]
    pub fn generation(&self) -> Option<&Generation> {
        match self {
            Self::Directory { generation, .. } | Self::File { generation, .. } => Some(generation),
            Self::Absent { .. } => None,
        }
    }

    /// The chunks of a file; none of anything else.
    #[must_use]
    pub fn chunks(&self) -> &[ChunkIndex] {
        match self {
            Self::File { chunks, .. } => chunks,
            Self::Directory { .. } | Self::Absent { .. } => &[],
        }
    }

    /// Bytes of these chunks.
    #[must_use]
    pub fn content_bytes(&self) -> u64 {
        let size_bytes = self.generation().map_or(0, |generation| generation.size_bytes);
        self.chunks().iter().map(|index| chunk_bytes(size_bytes, *index) as u64).sum()
    }

    fn check(&self) -> Result<(), FormatError> {
        if let Self::File { generation, chunks, .. } = self {
            if chunks.is_empty() {
                return Err(FormatError::Content("a file of which nothing was used"));
            }
            if chunks.iter().any(|index| chunk_bytes(generation.size_bytes, *index) == 0) {
                return Err(FormatError::Content("a chunk past its file's end"));
            }
        }
        Ok(())
    }
}

/// The part of a profile before its uses.
#[derive(Serialize, Deserialize)]
struct Head {
    command: String,
    exports: Vec<ViewPath>,
    made_unix_s: u64,
    starts: u32,
    uses_count: u32,
}

impl Profile {
    /// A profile that has recorded nothing yet.
    #[must_use]
    pub fn new(command: String, exports: Vec<ViewPath>, made_unix_s: u64) -> Self {
        Self { command, exports, made_unix_s, starts: 0, uses: Vec::new() }
    }

    /// The name of its files.
    #[must_use]
    pub fn key(&self) -> ProfileKey {
        ProfileKey::of(&self.command, &self.exports)
    }

    /// Directories that it names.
    #[must_use]
    pub fn directory_count(&self) -> usize {
        self.uses.iter().filter(|each| matches!(each, Use::Directory { .. })).count()
    }

    /// Files that it names.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.uses.iter().filter(|each| matches!(each, Use::File { .. })).count()
    }

    /// Bytes of all chunks that it names.
    #[must_use]
    pub fn content_bytes(&self) -> u64 {
        self.uses.iter().map(Use::content_bytes).sum()
    }

    /// The bytes of its file.
    ///
    /// # Errors
    /// `Limit` and `Content` for what could not be read again.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        self.check()?;
        let unwritable = |_| FormatError::Content("it cannot be encoded");
        let head = Head {
            command: self.command.clone(),
            exports: self.exports.clone(),
            made_unix_s: self.made_unix_s,
            starts: self.starts,
            uses_count: self.uses.len() as u32,
        };
        let mut body = postcard::to_stdvec(&head).map_err(unwritable)?;
        for each in &self.uses {
            body = postcard::to_extend(each, body).map_err(unwritable)?;
        }
        FORMAT.seal(&body)
    }

    /// The profile in the bytes of a file, whatever they are.
    ///
    /// # Errors
    /// The error in them.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let body = FORMAT.open(bytes)?;
        let (head, mut rest) = postcard::take_from_bytes::<Head>(body).map_err(unreadable)?;
        if head.uses_count as usize > limits::PROFILE_USES_MAX {
            return Err(FormatError::Limit("its directories and files"));
        }
        let mut profile = Self::new(head.command, head.exports, head.made_unix_s);
        profile.starts = head.starts;
        for _ in 0..head.uses_count {
            let (each, left) = postcard::take_from_bytes::<Use>(rest).map_err(unreadable)?;
            profile.uses.push(each);
            rest = left;
        }
        if !rest.is_empty() {
            return Err(FormatError::Length);
        }
        profile.check()?;
        Ok(profile)
    }

    fn check(&self) -> Result<(), FormatError> {
        if self.command.len() > crate::limits::PROFILE_COMMAND_BYTES_MAX || self.exports.len() > PROFILE_EXPORTS_MAX {
            return Err(FormatError::Limit("its command or exports"));
        }
        // It is shown on terminals.
        if self.command.chars().any(char::is_control) {
            return Err(FormatError::Content("its command is not printable"));
        }
        let chunks: usize = self.uses.iter().map(|each| each.chunks().len()).sum();
        if self.uses.len() > limits::PROFILE_USES_MAX || chunks > crate::limits::PROFILE_CHUNKS_MAX {
            return Err(FormatError::Limit("its directories, files or chunks"));
        }
        self.uses.iter().try_for_each(Use::check)
    }
}

fn unreadable(_: postcard::Error) -> FormatError {
    FormatError::Content("it cannot be decoded")
}

/// The name of a profile's files: the first 64 bits of the SHA-256 of its command and exports.
///
/// Generations are no part of it: a changed tree keeps its profile, which is corrected at the next start. Two commands
/// with one key would overwrite each other's profile, once in billions of commands, and lose nothing but time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProfileKey(u64);

impl ProfileKey {
    /// The key of a command with these exports, in whatever order.
    #[must_use]
    pub fn of(command: &str, exports: &[ViewPath]) -> Self {
        let mut exports: Vec<&ViewPath> = exports.iter().collect();
        exports.sort();
        exports.dedup();
        let mut hash = digest::Context::new(&digest::SHA256);
        for part in std::iter::once(command.as_bytes()).chain(exports.iter().map(|path| path.as_bytes())) {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let bits = hash.finish().as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        Self(bits)
    }

    /// The key that is written `text`: 16 hexadecimal digits in lower case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (text.len() == 16 && digits).then(|| u64::from_str_radix(text, 16).ok()).flatten().map(Self)
    }
}

impl std::fmt::Display for ProfileKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
