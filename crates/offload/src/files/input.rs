//! The bytes that a path names where these are no file of a size: standard input, a shell's pipes, and files of `/proc`.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::packing::MAGIC_BYTES;

/// Bytes of a file whose size is said to be 0, as those of `/proc` are: it is held in memory.
pub const UNSIZED_BYTES_MAX: u64 = 64 << 20;

/// The path of standard input.
pub const STANDARD_INPUT: &str = "/dev/stdin";

/// Where a shell has the pipes that it makes of commands (`<(zcat FILE)`): nobody waits who opens one.
const DESCRIPTORS: [&str; 2] = ["/dev/fd", "/proc/self/fd"];

/// Whether a path is one of those whose bytes are taken as they come. A redirected file is read by place like any other, unless some of it
/// was read before.
pub fn is_input(path: &Path, metadata: &Metadata) -> bool {
    let is_pipe = !metadata.is_file();
    match path == Path::new(STANDARD_INPUT) {
        true => is_pipe || rustix::fs::tell(std::io::stdin()).is_ok_and(|at| at > 0),
        false => {
            is_pipe && path.parent().is_some_and(|parent| DESCRIPTORS.iter().any(|place| parent == Path::new(place)))
        }
    }
}

/// The bytes that say how a file is compressed.
pub fn beginning(file: &File, held: &[u8]) -> std::io::Result<Vec<u8>> {
    if !held.is_empty() {
        return Ok(held[..held.len().min(MAGIC_BYTES)].to_vec());
    }
    let mut bytes = [0; MAGIC_BYTES];
    let len = file.read_at(&mut bytes, 0)?;
    Ok(bytes[..len].to_vec())
}

/// The bytes of a file, up to one more than may be held.
pub fn read_to_end(file: &File) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![];
    file.take(UNSIZED_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
