//! A page of memory for one secret: nothing else lies in it, so the kernel can be told about it alone.

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;

use memmap2::{Advice, MmapMut};
use zeroize::Zeroize;

/// Why a page is never shorter than its secret.
const WHOLE: &str = "the mapping was made as long as this";

/// `N` bytes in a page of their own.
pub(crate) struct Page<const N: usize>(MmapMut);

impl<const N: usize> Page<N> {
    /// Zeros.
    pub(crate) fn new() -> Self {
        let Ok(mapping) = MmapMut::map_anon(N) else { handle_alloc_error(Layout::new::<[u8; N]>()) };
        // Every kernel since 3.4 takes the advice; where it does not, the limit on core dumps is left.
        let _ = mapping.advise(Advice::DontDump);
        Self(mapping)
    }

    pub(crate) fn get(&self) -> &[u8; N] {
        self.0.first_chunk().expect(WHOLE)
    }

    pub(crate) fn get_mut(&mut self) -> &mut [u8; N] {
        self.0.first_chunk_mut().expect(WHOLE)
    }
}

impl<const N: usize> Drop for Page<N> {
    fn drop(&mut self) {
        self.get_mut().zeroize();
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
