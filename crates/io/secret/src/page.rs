//! A page of memory for one secret: nothing else lies in it, so the kernel can be told about it alone.

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::ops::DerefMut;

use memmap2::{Advice, MmapMut};
use zeroize::Zeroize;

/// Why a page is never shorter than its secret.
const WHOLE: &str = "the mapping was made as long as this";

/// `N` bytes in a page of their own.
pub(crate) struct Page<const N: usize>(Wiped<MmapMut>);

impl<const N: usize> Page<N> {
    /// Zeros.
    pub(crate) fn new() -> Self {
        let Ok(mapping) = MmapMut::map_anon(N) else { handle_alloc_error(Layout::new::<[u8; N]>()) };
        // Every kernel since 3.4 takes the advice; where it does not, the limit on core dumps is left.
        let _ = mapping.advise(Advice::DontDump);
        Self(Wiped(mapping))
    }

    pub(crate) fn get(&self) -> &[u8; N] {
        self.0.0.first_chunk().expect(WHOLE)
    }

    pub(crate) fn get_mut(&mut self) -> &mut [u8; N] {
        self.0.0.first_chunk_mut().expect(WHOLE)
    }
}

/// Memory that is wiped before it is given back.
struct Wiped<M: DerefMut<Target = [u8]>>(M);

impl<M: DerefMut<Target = [u8]>> Drop for Wiped<M> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<const N: usize> fmt::Debug for Page<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Page(secret)")
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::ops::Deref;
    use std::rc::Rc;

    use super::*;

    /// Memory that shows what is in it when it is given back.
    struct Shown(Vec<u8>, Rc<RefCell<Vec<u8>>>);

    impl Deref for Shown {
        type Target = [u8];

        fn deref(&self) -> &[u8] {
            &self.0
        }
    }

    impl DerefMut for Shown {
        fn deref_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }

    impl Drop for Shown {
        fn drop(&mut self) {
            self.1.borrow_mut().clone_from(&self.0);
        }
    }

    #[test]
    fn memory_that_held_a_key_is_wiped_before_it_is_given_back() {
        let given_back = Rc::default();
        let secret = Wiped(Shown(vec![7; 32], Rc::clone(&given_back)));
        assert_eq!(*secret.0, [7; 32]);
        drop(secret);
        assert_eq!(*given_back.borrow(), [0; 32]);
    }

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
