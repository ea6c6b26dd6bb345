//! Files as a node is to see them: those of a fragment by their names in the job, wherever they lie here, and no others.

use std::collections::HashMap;
use std::fmt;

use async_trait::async_trait;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use futures::StreamExt;
use futures::stream::{self, BoxStream};

/// Files by their names.
#[derive(Debug)]
pub struct Placed {
    files: LocalFileSystem,
    places: HashMap<Path, Path>,
}

impl Placed {
    /// These and no others.
    pub fn new(places: HashMap<Path, Path>) -> Self {
        Self { files: LocalFileSystem::new(), places }
    }

    fn place(&self, name: &Path) -> Result<&Path> {
        let none = || Error::NotFound { path: name.to_string(), source: "it is not a file of this fragment".into() };
        self.places.get(name).ok_or_else(none)
    }
}

impl fmt::Display for Placed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the files of a fragment")
    }
}

fn refused<T>() -> Result<T> {
    Err(Error::NotImplemented { operation: "anything but reading".to_owned(), implementer: "a fragment".to_owned() })
}

#[async_trait]
impl ObjectStore for Placed {
    async fn get_opts(&self, name: &Path, options: GetOptions) -> Result<GetResult> {
        self.files.get_opts(self.place(name)?, options).await
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        refused()
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        refused()
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::once(async { refused() }).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::once(async { refused() }).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        refused()
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        refused()
    }
}
