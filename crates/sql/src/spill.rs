//! Files that the engine spills to. They have no names, so that none stays behind, however their process ends.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};

/// Bytes that are read from a file at once.
const READ_BYTES: usize = 256 << 10;

/// The part of the free space that one process may take: the node has other uses for the rest.
const FREE_SHARE: u64 = 4;

/// Where files are made, and how much all of them may have.
#[derive(Debug)]
pub struct Spill {
    directory: PathBuf,
    used_bytes: Arc<AtomicU64>,
    most_bytes: u64,
}

impl Spill {
    /// Files in a directory; where there is none, in the temporary one.
    ///
    /// # Errors
    /// Its file system does not say how much is free.
    pub fn new(directory: Option<PathBuf>) -> io::Result<Self> {
        let directory = directory.unwrap_or_else(std::env::temp_dir);
        let there = rustix::fs::statvfs(&directory)?;
        let most_bytes = there.f_bavail.saturating_mul(there.f_frsize) / FREE_SHARE;
        Ok(Self { directory, used_bytes: Arc::default(), most_bytes })
    }
}

impl TempFileFactory for Spill {
    fn create_temp_file(&self, description: &str) -> Result<Arc<dyn SpillFile>> {
        let file = tempfile::tempfile_in(&self.directory).map_err(|error| {
            DataFusionError::Execution(format!("{description}: spilling to {}: {error}", self.directory.display()))
        })?;
        let used_bytes = Arc::clone(&self.used_bytes);
        let own = Own { file, bytes: AtomicU64::new(0), used_bytes, most_bytes: self.most_bytes };
        Ok(Arc::new(Spilled(Arc::new(own))))
    }
}

/// A file, as long as anybody has it.
struct Own {
    file: File,
    bytes: AtomicU64,
    used_bytes: Arc<AtomicU64>,
    most_bytes: u64,
}

impl Drop for Own {
    fn drop(&mut self) {
        self.used_bytes.fetch_sub(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

struct Spilled(Arc<Own>);

impl SpillFile for Spilled {
    fn size(&self) -> Option<u64> {
        Some(self.0.bytes.load(Ordering::Relaxed))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let read = |(own, offset): (Arc<Own>, u64)| async move {
            let read = blocking(move || {
                let mut bytes = vec![0; READ_BYTES];
                let read = own.file.read_at(&mut bytes, offset)?;
                bytes.truncate(read);
                Ok((Bytes::from(bytes), own))
            });
            let (bytes, own) = read.await?;
            let offset = offset + bytes.len() as u64;
            Ok((!bytes.is_empty()).then_some((bytes, (own, offset))))
        };
        Ok(Box::pin(stream::try_unfold((Arc::clone(&self.0), 0), read)))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Appending(Arc::clone(&self.0))))
    }
}

async fn blocking<T: Send + 'static>(read: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T> {
    #[expect(clippy::disallowed_methods, reason = "a command may end where it has no thread")]
    let done = tokio::task::spawn_blocking(read).await;
    done.map_err(|error| DataFusionError::External(error.into()))?.map_err(DataFusionError::IoError)
}

struct Appending(Arc<Own>);

impl Write for Appending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Own { file, bytes: there, used_bytes, most_bytes } = &*self.0;
        let len = bytes.len() as u64;
        if used_bytes.fetch_add(len, Ordering::Relaxed) + len > *most_bytes {
            used_bytes.fetch_sub(len, Ordering::Relaxed);
            let said = format!("a quarter of the free space is {most_bytes} bytes, and spilling takes no more");
            return Err(io::Error::new(io::ErrorKind::StorageFull, said));
        }
        // Counted before it is written: an error ends the statement.
        let at = there.fetch_add(len, Ordering::Relaxed);
        file.write_all_at(bytes, at)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Appending {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::TryStreamExt;

    #[tokio::test]
    async fn a_file_comes_back_without_a_name_and_gives_its_space_back() {
        let temporary = tempfile::tempdir().unwrap();
        let spill = Spill::new(Some(temporary.path().to_owned())).unwrap();
        let file = spill.create_temp_file("a sort").unwrap();
        let all: Vec<u8> = (0..3 * READ_BYTES + 5).map(|at| (at % 249) as u8).collect();
        let mut writer = file.open_writer().unwrap();
        all.chunks(1000).for_each(|chunk| writer.write_all(chunk).unwrap());
        writer.finish().unwrap();
        assert_eq!((file.size(), file.path()), (Some(all.len() as u64), None));
        for _ in 0..2 {
            let read: Vec<Bytes> = file.read_stream().unwrap().try_collect().await.unwrap();
            assert!(read.concat() == all);
        }
        assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
        drop((writer, file));
        assert_eq!(spill.used_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn no_more_is_written_than_there_may_be() {
        let temporary = tempfile::tempdir().unwrap();
        let spill = Spill { most_bytes: 10, ..Spill::new(Some(temporary.path().to_owned())).unwrap() };
        let mut writer = spill.create_temp_file("a sort").unwrap().open_writer().unwrap();
        writer.write_all(b"12345678").unwrap();
        assert_eq!(writer.write_all(b"123").unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
