//! A page of memory for one secret: nothing else lies in it, so the kernel can be told about it alone.

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use zeroize::Zeroize;

/// `N` bytes in a page of their own.
pub(crate) struct Page<const N: usize>(NonNull<[u8; N]>);

// SAFETY: the page belongs to this value alone, and is changed by whoever has it exclusively.
unsafe impl<const N: usize> Send for Page<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Sync for Page<N> {}

impl<const N: usize> Page<N> {
    /// Zeros.
    pub(crate) fn new() -> Self {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address that the kernel chooses touches nothing that is there.
        let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), N, protection, flags) };
        let out_of_memory = || handle_alloc_error(Layout::new::<[u8; N]>());
        let Some(start) = mapped.ok().and_then(NonNull::new) else { out_of_memory() };
        // SAFETY: the range is the mapping just made, to which the advice does nothing but keep it out of dumps. Every kernel
        // since 3.4 takes it; where it fails the limit on core dumps is left.
        let _ = unsafe { madvise(start.as_ptr(), N, Advice::LinuxDontDump) };
        Self(start.cast())
    }

    pub(crate) fn get(&self) -> &[u8; N] {
        // SAFETY: the mapping holds N initialised bytes, aligned for bytes, as long as `self` lives; it is changed through
        // `&mut self` only.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn get_mut(&mut self) -> &mut [u8; N] {
        // SAFETY: as in `get`, and nobody else has a reference.
        unsafe { self.0.as_mut() }
    }
}

impl<const N: usize> Drop for Page<N> {
    fn drop(&mut self) {
        self.get_mut().zeroize();
        // SAFETY: the mapping was made by `new` with this length, and no reference to it is left.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), N) };
    }
}

impl<const N: usize> fmt::Debug for Page<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Page(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_left_out_of_core_dumps_and_is_no_neighbours() {
        let mut page = Page::<32>::new();
        assert_eq!(page.get(), &[0; 32]);
        page.get_mut()[31] = 7;
        let address = page.get().as_ptr() as usize;
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let holds = |line: &str| {
            let range = line.split(' ').next()?.split_once('-')?;
            let [start, end] = [range.0, range.1].map(|text| usize::from_str_radix(text, 16).ok());
            Some((start?..end?).contains(&address))
        };
        let mapping = maps.lines().skip_while(|line| holds(line) != Some(true));
        let flags = mapping.skip(1).find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
        assert!(flags.split(' ').any(|flag| flag == "dd"), "{flags}");
        assert_eq!(address % rustix::param::page_size(), 0);
    }
}
