//! The bytes of a file, as libraries that know formats read them.

use std::sync::Arc;

use hdf5_reader::storage::{Storage, StorageBuffer};

use crate::contents::Contents;

/// The bytes of a file for libraries that know formats.
pub struct Stored(pub Arc<dyn Contents + Send>);

impl Storage for Stored {
    fn len(&self) -> u64 {
        self.0.bytes()
    }

    fn read_range(&self, offset: u64, len: usize) -> hdf5_reader::error::Result<StorageBuffer> {
        let is_within = offset.checked_add(len as u64).is_some_and(|end| end <= self.0.bytes());
        let available = self.0.bytes().saturating_sub(offset);
        if !is_within {
            return Err(hdf5_reader::error::Error::UnexpectedEof { offset, needed: len as u64, available });
        }
        let mut bytes = vec![0; len];
        let read = self.0.read(&mut bytes, offset);
        read.map_err(|error| hdf5_reader::error::Error::Io(std::io::Error::other(format!("{error:#}"))))?;
        Ok(StorageBuffer::from_vec(bytes))
    }
}
