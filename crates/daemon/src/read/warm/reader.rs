//! The process by which this node's kernel reads files through the view, started at the first need.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_types::{Errno, Extent, ViewPath};

use crate::environment::Walker;
use crate::shared::node::Node;

/// It; the next one after it has ended.
#[derive(Default)]
pub struct Reader(Mutex<Option<Arc<dyn Walker>>>);

impl Reader {
    /// Has the kernel read bytes of a file, all there are.
    ///
    /// # Errors
    /// As the view gives it; `EIO` where there is no such process.
    pub async fn read(self: &Arc<Self>, node: &Arc<Node>, file: ViewPath, extent: Extent) -> Result<(), Errno> {
        let (reader, on) = (Arc::clone(self), Arc::clone(node));
        let read = node.block_long(move || reader.read_now(&on, &file, extent));
        read.await.unwrap_or(Err(Errno::EIO))
    }

    fn read_now(&self, node: &Node, file: &ViewPath, extent: Extent) -> Result<(), Errno> {
        let walker = self.walker(node).map_err(|error| Errno::of(&error))?;
        match walker.read(file, extent) {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::warn!(%error, "the process that reads files for a warm-up has ended");
                drop(self.lock().take_if(|other| Arc::ptr_eq(other, &walker)));
                Err(Errno::EIO)
            }
        }
    }

    fn walker(&self, node: &Node) -> io::Result<Arc<dyn Walker>> {
        let mut kept = self.lock();
        if kept.is_none() {
            *kept = Some(node.environment.start_walker(&node.options.view)?);
        }
        kept.clone().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// A panic ends the process, so a poisoned lock is never seen.
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<dyn Walker>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
