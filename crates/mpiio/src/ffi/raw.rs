//! Helpers that all functions for the shim share.

/// The slice at a pointer, which may be null where there is nothing.
///
/// # Safety
/// `len` values are at the pointer, and stay while the slice is used.
pub unsafe fn slice<'a, T>(at: *const T, len: usize) -> &'a [T] {
    // SAFETY: as above.
    if at.is_null() || len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(at, len) } }
}
