//! Compressed files, read as what they hold by the stores of a session: gzip and Zstandard, by their names.
//!
//! A plan says that such files are compressed only as long as it is made, so that they are not cut. The engine's own decompression is
//! left out of this build, because it brings more libraries than these two.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::Result as EngineResult;
use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::source::DataSourceExec;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use datafusion::physical_plan::ExecutionPlan;
use flate2::read::MultiGzDecoder;
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use crate::checked::Checks;
use crate::quotes::Extent;
use crate::residency::scan_of;

/// Bytes that are decompressed at once.
const CHUNK_BYTES: usize = 1 << 20;

/// A name without the ending that its compression has, in letters of either case.
pub fn uncompressed(name: &str) -> (&str, CompressionTypeVariant) {
    let kind = |ending: &str| match &*ending.to_ascii_lowercase() {
        "gz" => CompressionTypeVariant::GZIP,
        "zst" => CompressionTypeVariant::ZSTD,
        _ => CompressionTypeVariant::UNCOMPRESSED,
    };
    match name.rsplit_once('.').map(|(name, ending)| (name, kind(ending))) {
        Some((name, compression)) if compression != CompressionTypeVariant::UNCOMPRESSED => (name, compression),
        _ => (name, CompressionTypeVariant::UNCOMPRESSED),
    }
}

/// Bytes as they were before they were compressed.
///
/// # Errors
/// The decoder cannot be made.
pub fn reader(bytes: impl Read + Send + 'static, kind: CompressionTypeVariant) -> io::Result<Box<dyn Read + Send>> {
    Ok(match kind {
        CompressionTypeVariant::GZIP => Box::new(MultiGzDecoder::new(bytes)),
        CompressionTypeVariant::ZSTD => Box::new(zstd::Decoder::new(bytes)?),
        CompressionTypeVariant::UNCOMPRESSED => Box::new(bytes),
        CompressionTypeVariant::BZIP2 | CompressionTypeVariant::XZ => {
            return Err(io::Error::other("neither gzip nor Zstandard"));
        }
    })
}

/// The contents of a compressed file, decompressed away from the engine's threads.
///
/// # Errors
/// The decoder cannot be made.
pub fn stream(
    name: &Path,
    bytes: impl Read + Send + 'static,
    kind: CompressionTypeVariant,
) -> Result<BoxStream<'static, Result<Bytes>>> {
    let name = name.clone();
    let failed = move |source: io::Error| Error::Generic { store: "file", source: format!("/{name}: {source}").into() };
    let reader = reader(bytes, kind).map_err(&failed)?;
    let chunks = stream::try_unfold(reader, move |mut reader| {
        let failed = failed.clone();
        async move {
            let read = move || {
                let mut chunk = vec![];
                reader.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut chunk).map(|_| (Bytes::from(chunk), reader))
            };
            #[expect(clippy::disallowed_methods, reason = "a command may end where it has no thread")]
            let read = tokio::task::spawn_blocking(read).await.map_err(|error| failed(io::Error::other(error)))?;
            let (chunk, reader) = read.map_err(failed)?;
            Ok((!chunk.is_empty()).then_some((chunk, reader)))
        }
    });
    Ok(chunks.boxed())
}

/// A plan whose compressed files are plain ones to the engine: its store decompresses them.
///
/// # Errors
/// None.
pub fn executable(plan: Arc<dyn ExecutionPlan>) -> EngineResult<Arc<dyn ExecutionPlan>> {
    let plain = plan.transform_down(|plan| match scan_of(plan.as_ref()) {
        Some(scan) if scan.file_compression_type.is_compressed() => {
            let plain = FileScanConfigBuilder::from(scan.clone());
            let plain = plain.with_file_compression_type(FileCompressionType::UNCOMPRESSED).build();
            Ok(Transformed::yes(DataSourceExec::from_data_source(plain)))
        }
        _ => Ok(Transformed::no(plan)),
    });
    plain.map(|plain| plain.data)
}

/// The files of this host, and how they are looked at.
#[derive(Debug)]
pub struct Inflating(pub LocalFileSystem, pub Arc<Checks>);

impl fmt::Display for Inflating {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[async_trait]
impl ObjectStore for Inflating {
    async fn get_opts(&self, name: &Path, options: GetOptions) -> Result<GetResult> {
        let is_whole = options.range.is_none();
        let (_, kind) = uncompressed(name.as_ref());
        let kind = if is_whole { kind } else { CompressionTypeVariant::UNCOMPRESSED };
        let is_streamed = kind != CompressionTypeVariant::UNCOMPRESSED || self.1.has(name);
        let is_asked = !options.head;
        let mut found = self.0.get_opts(name, options).await?;
        found.payload = match found.payload {
            GetResultPayload::File(mut file, _) if is_asked && is_streamed => {
                let failed = |source: io::Error| Error::Generic { store: "file", source: source.into() };
                let from = found.range.start;
                let mut before = *b"\n";
                if from > 0 {
                    file.read_exact_at(&mut before, from - 1).map_err(failed)?;
                }
                file.seek(SeekFrom::Start(from)).map_err(failed)?;
                let bytes = stream(name, file.take(found.range.end - from), kind)?;
                let extent = Extent { from, begins_line: before == *b"\n" };
                GetResultPayload::Stream(self.1.checked(name, extent, bytes))
            }
            other => other,
        };
        Ok(found)
    }

    async fn get_ranges(&self, name: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.get_ranges(name, ranges).await
    }

    async fn put_opts(&self, name: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.0.put_opts(name, payload, options).await
    }

    async fn put_multipart_opts(&self, name: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(name, options).await
    }

    fn delete_stream(&self, names: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.0.delete_stream(names)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}
