//! LZF, as h5py compresses chunks: copies of bytes, and of runs that stand before.

/// Bytes of a run that is not told apart, at most.
const COPIED_MAX: u8 = 32;

/// The bytes that were compressed to these, of `len` bytes at most; None if they are damaged.
pub fn unpacked(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    let mut rest = packed.iter();
    while let Some(&control) = rest.next() {
        if control < COPIED_MAX {
            let (copied, behind) = rest.as_slice().split_at_checked(usize::from(control) + 1)?;
            all.extend_from_slice(copied);
            rest = behind.iter();
        } else {
            let length = match control >> 5 {
                7 => 7 + usize::from(*rest.next()?),
                length => usize::from(length),
            };
            let back = (usize::from(control & 31) << 8) + usize::from(*rest.next()?) + 1;
            let from = all.len().checked_sub(back)?;
            // The run may reach into itself.
            for at in from..from + length + 2 {
                all.push(all[at]);
            }
        }
        if all.len() > len {
            return None;
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_copied_and_damage_is_noticed() {
        assert_eq!(unpacked(b"\x02abc", 3).as_deref(), Some(&b"abc"[..]));
        // A run of 9 bytes that begins one byte back.
        assert_eq!(unpacked(b"\x00a\xe0\x00\x00", 10).as_deref(), Some(&b"aaaaaaaaaa"[..]));
        assert_eq!(unpacked(b"\x01ab\x40\x01", 6).as_deref(), Some(&b"ababab"[..]));
        for (damaged, len) in [(&b"\x05ab"[..], 9), (b"\x00a\x20\x05", 9), (b"\x00a\xe0", 9), (b"\x02abc", 2)] {
            assert_eq!(unpacked(damaged, len), None, "{damaged:?}");
        }
        assert_eq!(unpacked(b"", 0).as_deref(), Some(&b""[..]));
    }
}
