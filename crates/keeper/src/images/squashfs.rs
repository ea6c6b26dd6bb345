//! The head of a SquashFS file: enough to tell a broken or unreadable file before a server starts that would say less.
//! Source: the kernel's Documentation/filesystems/squashfs.rst and fs/squashfs/squashfs_fs.h.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, bail, ensure};

/// The superblock, bytes.
const SUPERBLOCK_BYTES: usize = 96;

/// The compressions by their numbers in the format, from 1.
const COMPRESSIONS: [&str; 6] = ["gzip", "lzma", "lzo", "xz", "lz4", "zstd"];

/// The blocks that the format allows, bytes.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 4 << 10..=1 << 20;

/// Checks the file of `image`.
///
/// # Errors
/// Saying why it is none that can be mounted, and what to do.
pub fn check(file: &File, image: &Path) -> anyhow::Result<()> {
    let shown = image.display();
    let mut head = [0; SUPERBLOCK_BYTES];
    match file.read_exact_at(&mut head, 0) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            bail!("{shown} is not an image: neither a directory nor a SquashFS file; it is too short");
        }
        read => read.with_context(|| format!("cannot read the image {shown}"))?,
    }
    let file_bytes = file.metadata().with_context(|| format!("cannot look at the image {shown}"))?.len();
    check_superblock(&head, file_bytes).with_context(|| format!("the image {shown} cannot be used"))
}

fn check_superblock(head: &[u8; SUPERBLOCK_BYTES], file_bytes: u64) -> anyhow::Result<()> {
    let short = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let word = |at: usize| u32::from(short(at)) | u32::from(short(at + 2)) << 16;
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    ensure!(
        &head[..4] == b"hsqs",
        "it is neither a directory nor a SquashFS file; ch-convert makes a directory or a SquashFS file of a tar file, or of what \
         ch-image, Docker or Podman have built"
    );
    let (major, minor) = (short(28), short(30));
    ensure!(
        major == 4,
        "it is of SquashFS {major}.{minor}, and only version 4 can be mounted; make it again with mksquashfs"
    );
    let (block_bytes, block_log) = (word(12), short(22));
    ensure!(
        BLOCK_BYTES.contains(&block_bytes) && 1_u32.checked_shl(block_log.into()) == Some(block_bytes),
        "its SquashFS superblock is broken: blocks of {block_bytes} bytes"
    );
    let compression = short(20);
    ensure!(
        (1..=COMPRESSIONS.len()).contains(&compression.into()),
        "it is compressed by method {compression}, which SquashFS 4 does not have (it has {})",
        COMPRESSIONS.join(", ")
    );
    let used_bytes = long(40);
    ensure!(
        used_bytes <= file_bytes,
        "it is cut short: {file_bytes} of {used_bytes} bytes; copy it again, and forebay refresh it"
    );
    ensure!(used_bytes >= SUPERBLOCK_BYTES as u64, "its SquashFS superblock is broken: {used_bytes} bytes in all");
    Ok(())
}

/// The compression's name, for who must install it.
pub fn compression(file: &File) -> &'static str {
    let mut number = [0; 2];
    let is_read = file.read_exact_at(&mut number, 20).is_ok();
    let index = usize::from(u16::from_le_bytes(number)).checked_sub(1).filter(|_| is_read);
    index.and_then(|index| COMPRESSIONS.get(index)).copied().unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A superblock as mksquashfs writes it: version 4.0, blocks of 128 KiB, zstd, 4,096 bytes in all.
    fn superblock() -> [u8; SUPERBLOCK_BYTES] {
        let mut head = [0; SUPERBLOCK_BYTES];
        head[..4].copy_from_slice(b"hsqs");
        head[12..16].copy_from_slice(&(128_u32 << 10).to_le_bytes());
        head[20..22].copy_from_slice(&6_u16.to_le_bytes());
        head[22..24].copy_from_slice(&17_u16.to_le_bytes());
        head[28..30].copy_from_slice(&4_u16.to_le_bytes());
        head[40..48].copy_from_slice(&4096_u64.to_le_bytes());
        head
    }

    fn refusal(at: usize, byte: u8) -> String {
        let mut head = superblock();
        head[at] = byte;
        check_superblock(&head, 4096).unwrap_err().to_string()
    }

    #[test]
    fn each_fault_is_named() {
        check_superblock(&superblock(), 4096).unwrap();
        check_superblock(&superblock(), 9000).unwrap();
        assert!(refusal(0, b's').contains("neither a directory nor a SquashFS file"));
        assert!(refusal(28, 3).contains("of SquashFS 3.0"));
        assert!(refusal(20, 9).contains("method 9"));
        assert!(refusal(20, 0).contains("method 0"));
        assert!(refusal(22, 16).contains("broken"));
        assert!(refusal(22, 200).contains("broken"));
        assert!(refusal(15, 1).contains("broken"));
        assert!(refusal(41, 17).contains("cut short: 4096 of 4352 bytes"));
        assert!(refusal(41, 0).contains("broken"));
    }
}
