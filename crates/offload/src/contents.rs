//! The source of blocks: a file in one generation, wherever its bytes lie.

/// A file in one generation.
pub trait Contents: Sync {
    /// Its size.
    fn bytes(&self) -> u64;

    /// Reads all of `buffer`, which lies within the file's size.
    ///
    /// # Errors
    /// They cannot be had, or are of another generation.
    fn read(&self, buffer: &mut [u8], offset: u64) -> anyhow::Result<()>;

    /// Fails if the file is no longer as it was: what was read may be of two generations.
    ///
    /// # Errors
    /// It is not, or that cannot be told.
    fn check(&self) -> anyhow::Result<()>;
}
