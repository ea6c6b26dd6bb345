//! Memory that outlives its process: a memfd, mapped by whoever serves the view at the time.
//!
//! A keeper makes the memory and holds its descriptor; the daemon of the time maps it, and after its death the next one
//! does. Two processes never use it at once. A killed process leaves all that it had stored, in the order in which its
//! program stored it: `set_word` is what makes a record valid, after `write` has filled it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, MremapFlags, ProtFlags};

/// A mapped part of a memfd, from an offset to where the mapping ends.
#[derive(Debug)]
pub struct SharedMemory {
    descriptor: Arc<OwnedFd>,
    /// Where the mapping begins: at a page.
    base: NonNull<u8>,
    /// From there to the offset asked for.
    before: usize,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone and is valid in every thread of the process.
unsafe impl Send for SharedMemory {}

// SAFETY: a shared value gives atomic access to words, and plain access only where nothing is stored (`bytes_at_rest`).
unsafe impl Sync for SharedMemory {}

/// Memory of `len` bytes, all zero, that can grow and never shrinks (a mapping of it never faults). Pages that nobody
/// has written take no room.
///
/// # Errors
/// The error of `memfd_create(2)`.
pub fn create_shared_memory(name: &str, len: usize) -> io::Result<OwnedFd> {
    let descriptor = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&descriptor, len as u64)?;
    rustix::fs::fcntl_add_seals(&descriptor, SealFlags::SHRINK)?;
    Ok(descriptor)
}

/// The size of the memory behind a descriptor, bytes.
///
/// # Errors
/// The error of `fstat(2)`.
pub fn shared_memory_bytes(descriptor: BorrowedFd<'_>) -> io::Result<usize> {
    usize::try_from(rustix::fs::fstat(descriptor)?.st_size).map_err(io::Error::other)
}

impl SharedMemory {
    /// Maps `len` bytes from `offset` on, a multiple of 8. Layouts need not know how large a page is (4, 16 or 64 KiB):
    /// the mapping begins at the page that holds `offset`.
    ///
    /// # Errors
    /// EINVAL when the memory is smaller or was not made by `create_shared_memory`, else what `mmap(2)` says.
    pub fn map(descriptor: impl Into<Arc<OwnedFd>>, offset: usize, len: usize) -> io::Result<Self> {
        let descriptor = descriptor.into();
        let is_sealed = rustix::fs::fcntl_get_seals(&descriptor)?.contains(SealFlags::SHRINK);
        if len == 0
            || !offset.is_multiple_of(8)
            || !is_sealed
            || shared_memory_bytes(descriptor.as_fd())? < offset.saturating_add(len)
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let before = offset % rustix::param::page_size();
        let page_at = (offset - before) as u64;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours; the seal keeps all of
        // it backed.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), before + len, access, MapFlags::SHARED, &descriptor, page_at)?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { descriptor, base, before, len })
    }

    /// Bytes mapped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is mapped; never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes it larger; only for a mapping from the beginning on.
    ///
    /// # Errors
    /// The error of `ftruncate(2)` or `mremap(2)`; the mapping stays as it was.
    pub fn grow(&mut self, len: usize) -> io::Result<()> {
        rustix::fs::ftruncate(&self.descriptor, len as u64)?;
        let (old_len, new_len) = (self.before + self.len, self.before + len);
        // SAFETY: the mapping is ours, of that length, and `&mut self` proves that nobody holds a reference into it.
        let base = unsafe { rustix::mm::mremap(self.base.as_ptr().cast(), old_len, new_len, MremapFlags::MAYMOVE)? };
        self.base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        self.len = len;
        Ok(())
    }

    /// The word at `offset`, a multiple of 8; 0 beyond the end.
    #[must_use]
    pub fn word(&self, offset: usize) -> u64 {
        self.atomic(offset).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Stores a word at `offset`, a multiple of 8, after everything that was stored before. Beyond the end nothing happens.
    pub fn set_word(&self, offset: usize, value: u64) {
        if let Some(word) = self.atomic(offset) {
            word.store(value, Ordering::Release);
        }
    }

    fn atomic(&self, offset: usize) -> Option<&AtomicU64> {
        if !offset.is_multiple_of(8) || offset.checked_add(8)? > self.len {
            return None;
        }
        // SAFETY: within the mapping and aligned, since a mapping begins at a page and what is asked for at a word; others
        // are not given plain references to it while `self` is shared, except `bytes`, whose callers do not store meanwhile.
        Some(unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(self.before + offset).cast()) })
    }

    /// All of it, where nothing is stored as long as others look.
    #[must_use]
    pub(crate) fn bytes_at_rest(&self) -> &[u8] {
        // SAFETY: the mapping is valid for `before + len` bytes, and this crate stores into such memory by `&mut` alone.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(self.before), self.len) }
    }

    /// All of it.
    #[must_use]
    pub fn bytes(&mut self) -> &[u8] {
        self.bytes_mut()
    }

    /// All of it, to be written.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is valid for `before + len` bytes, and `&mut self` makes this the only reference to it.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(self.before), self.len) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        if let Err(errno) = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.before + self.len) } {
            tracing::warn!(%errno, "memory stays mapped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_of_one_mapping_are_read_by_the_next() {
        let descriptor = create_shared_memory("test", 8192).unwrap();
        let mut first = SharedMemory::map(descriptor.try_clone().unwrap(), 0, 8192).unwrap();
        first.bytes_mut()[4096..4100].copy_from_slice(b"kept");
        first.set_word(8, 7);
        first.grow(1 << 20).unwrap();
        first.set_word((1 << 20) - 8, 9);
        drop(first);
        let len = shared_memory_bytes(descriptor.as_fd()).unwrap();
        let mut second = SharedMemory::map(descriptor, 0, len).unwrap();
        assert_eq!((second.word(8), second.word((1 << 20) - 8)), (7, 9));
        assert_eq!(&second.bytes()[4096..4100], b"kept");
    }

    /// An offset of 4,096 is as far from the pages of a kernel with larger ones as these are from those of this kernel.
    #[test]
    fn parts_begin_where_a_layout_says_whatever_the_size_of_a_page() {
        let descriptor = create_shared_memory("test", 64 << 10).unwrap();
        let part = |offset, len| SharedMemory::map(descriptor.try_clone().unwrap(), offset, len).unwrap();
        let mut whole = part(0, 64 << 10);
        for (offset, len) in [(512, 512), (4096 + 512, 512), (8192 - 8, 16), (3 * 4096 + 8, 4 * 4096)] {
            let mut mapped = part(offset, len);
            mapped.bytes_mut().fill(7);
            mapped.set_word(len - 8, offset as u64);
            assert_eq!(mapped.word(len), 0, "beyond the end");
            assert_eq!(whole.word(offset + len - 8), offset as u64);
            assert!(whole.bytes()[offset..offset + len - 8].iter().all(|byte| *byte == 7));
            assert!(whole.bytes()[..offset].iter().all(|byte| *byte == 0) && whole.word(offset + len) == 0);
            whole.bytes_mut().fill(0);
        }
        assert!(SharedMemory::map(descriptor, 4, 8).is_err(), "no word begins there");
    }

    #[test]
    fn words_beyond_the_end_or_astride_are_none() {
        let memory = SharedMemory::map(create_shared_memory("test", 4096).unwrap(), 0, 4096).unwrap();
        for offset in [4, 4090, 4096, usize::MAX] {
            memory.set_word(offset, 1);
            assert_eq!(memory.word(offset), 0);
        }
    }

    #[test]
    fn memory_that_could_shrink_is_refused() {
        let plain = rustix::fs::memfd_create("plain", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&plain, 8192).unwrap();
        assert!(SharedMemory::map(plain, 0, 8192).is_err());
        assert!(SharedMemory::map(create_shared_memory("small", 4096).unwrap(), 0, 8192).is_err());
    }
}
