//! The layout of a file on Lustre, as its extended attribute `lustre.lov` has it: domains of aggregators end where stripes do, so that
//! no two clients take turns in the lock of one stripe.
//!
//! The structures are `lov_user_md_v1`, `lov_user_md_v3` and `lov_comp_md_v1` of Lustre's `lustre_user.h`, packed and in the byte order
//! of the host. Of a composite layout the largest stripe counts: those of the components before it are its divisors.

use std::path::Path;

/// The attribute of Lustre.
pub const ATTRIBUTE: &str = "lustre.lov";

/// The file system, as in Lustre's headers.
const LUSTRE_SUPER_MAGIC: u64 = 0x0bd0_0bd0;

const MAGIC_V1: u32 = 0x0bd1_0bd0;
const MAGIC_V3: u32 = 0x0bd3_0bd0;
const MAGIC_COMPOSITE: u32 = 0x0bd6_0bd0;

/// Bits of a pattern: stripes on servers, as opposed to bytes with the metadata.
const PATTERN_STRIPES: u32 = 1;

/// Where fields are, bytes.
const PATTERN_AT: usize = 4;
const STRIPE_BYTES_AT: usize = 24;
const ENTRY_COUNT_AT: usize = 14;
const ENTRIES_AT: usize = 32;
const ENTRY_BYTES: usize = 48;
const ENTRY_OFFSET_AT: usize = 24;

/// Lustre's stripes are multiples of 64 KiB: anything else is no layout.
const UNIT_BYTES: u32 = 64 << 10;

/// Bytes of an attribute in Linux at most.
const ATTRIBUTE_MAX_BYTES: usize = 64 << 10;

/// Bytes of a stripe of a file; `None` where its file system tells none.
#[must_use]
pub fn stripe_bytes(path: &Path, attribute: &str) -> Option<u64> {
    // Elsewhere the question would be a request to a server for nothing.
    let is_lustre = || rustix::fs::statfs(path).is_ok_and(|found| found.f_type as u64 == LUSTRE_SUPER_MAGIC);
    if attribute == ATTRIBUTE && !is_lustre() {
        return None;
    }
    let mut layout = vec![0; ATTRIBUTE_MAX_BYTES];
    let len = rustix::fs::getxattr(path, attribute, &mut layout[..]).ok()?;
    stripe_bytes_of(&layout[..len]).map(u64::from)
}

fn stripe_bytes_of(layout: &[u8]) -> Option<u32> {
    match number(layout, 0)? {
        MAGIC_V1 | MAGIC_V3 => plain(layout),
        MAGIC_COMPOSITE => {
            let count = u16::from_ne_bytes(*layout.get(ENTRY_COUNT_AT..)?.first_chunk()?);
            let component = |index: usize| {
                let at = number(layout, ENTRIES_AT + index * ENTRY_BYTES + ENTRY_OFFSET_AT)?;
                // Components with other patterns have no stripes of this kind.
                plain(layout.get(at as usize..)?)
            };
            (0..usize::from(count)).filter_map(component).max()
        }
        _ => None,
    }
}

/// Of a layout, or component, without components.
fn plain(layout: &[u8]) -> Option<u32> {
    let has_stripes = number(layout, PATTERN_AT)? & PATTERN_STRIPES != 0;
    let is_plain = matches!(number(layout, 0)?, MAGIC_V1 | MAGIC_V3);
    let stripe = number(layout, STRIPE_BYTES_AT)?;
    (has_stripes && is_plain && stripe > 0 && stripe.is_multiple_of(UNIT_BYTES)).then_some(stripe)
}

fn number(layout: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*layout.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain_layout(magic: u32, pattern: u32, stripe: u32) -> Vec<u8> {
        let mut layout = [magic, pattern].map(u32::to_ne_bytes).concat();
        layout.extend([7; 16]);
        layout.extend(stripe.to_ne_bytes());
        layout.extend([4u16, 0].map(u16::to_ne_bytes).concat());
        // Objects, or a pool's name before them.
        layout.extend([0; 24 * 4]);
        layout
    }

    fn composite(components: &[Vec<u8>]) -> Vec<u8> {
        let mut layout = [MAGIC_COMPOSITE, 0, 1].map(u32::to_ne_bytes).concat();
        layout.extend([0u16, components.len() as u16].map(u16::to_ne_bytes).concat());
        layout.resize(ENTRIES_AT, 0);
        let mut at = ENTRIES_AT + components.len() * ENTRY_BYTES;
        for component in components {
            let mut entry = vec![0; ENTRY_BYTES];
            entry[ENTRY_OFFSET_AT..][..4].copy_from_slice(&(at as u32).to_ne_bytes());
            entry[ENTRY_OFFSET_AT + 4..][..4].copy_from_slice(&(component.len() as u32).to_ne_bytes());
            layout.extend(entry);
            at += component.len();
        }
        layout.extend(components.concat());
        layout
    }

    #[test]
    fn plain_layouts_tell_their_stripe() {
        assert_eq!(stripe_bytes_of(&plain_layout(MAGIC_V1, 1, 1 << 20)), Some(1 << 20));
        assert_eq!(stripe_bytes_of(&plain_layout(MAGIC_V3, 1, 4 << 20)), Some(4 << 20));
        assert_eq!(stripe_bytes_of(&plain_layout(MAGIC_V1, 0x100, 1 << 20)), None, "bytes with the metadata");
        assert_eq!(stripe_bytes_of(&plain_layout(MAGIC_V1, 1, 1000)), None);
        assert_eq!(stripe_bytes_of(&plain_layout(0x0bd4_0bd0, 1, 1 << 20)), None, "a layout of no file");
    }

    /// As of a progressive layout whose first bytes are with the metadata.
    #[test]
    fn the_largest_stripe_of_a_composite_layout_counts() {
        let components =
            [(0x100, 1 << 20), (1, 1 << 20), (1, 8 << 20)].map(|(of, stripe)| plain_layout(MAGIC_V3, of, stripe));
        assert_eq!(stripe_bytes_of(&composite(&components)), Some(8 << 20));
        assert_eq!(stripe_bytes_of(&composite(&[])), None);
    }

    proptest! {
        #[test]
        fn nonsense_is_no_layout(mut layout in prop::collection::vec(any::<u8>(), 0..300), magic in 0usize..3) {
            let magic = [MAGIC_V1, MAGIC_V3, MAGIC_COMPOSITE][magic].to_ne_bytes();
            layout.iter_mut().zip(magic).for_each(|(byte, of)| *byte = of);
            let _ = stripe_bytes_of(&layout);
        }
    }
}
