//! Warm-up: data are brought to the nodes before programs ask for them, and files that a program says that it reads next.
//!
//! A file is brought to its homes by asking each for its share (`JobMessage::Keep`), which costs the asking node no bytes; or to every
//! node's kernel, which reads it through its view (`JobMessage::ReadFile`), so that the nodes send each chunk on to each other. A part that
//! is there already costs a question, so a warm-up that is begun again after an interruption goes on.

mod announced;
mod found;
mod reader;
mod session;
mod spread;

use std::sync::Arc;

use forebay_transport::Replier;
use forebay_types::{Errno, ViewPath};
use forebay_wire::{JobMessage, Outcome};

use announced::Announced;
use reader::Reader;
pub use session::Mode;
use session::Told;

use super::own::Own;
use crate::shared::gather::answer_all;
use crate::shared::node::Node;

/// This node's part in warm-ups.
pub struct Warm {
    node: Arc<Node>,
    own: Arc<Own>,
    reader: Arc<Reader>,
    announced: Announced,
}

impl Warm {
    pub fn new(node: &Arc<Node>, own: &Arc<Own>) -> Arc<Self> {
        let (node, own) = (Arc::clone(node), Arc::clone(own));
        Arc::new(Self { node, own, reader: Arc::default(), announced: Announced::default() })
    }

    /// Begins a warm-up; it goes on as long as the future is polled.
    pub fn begin(&self, paths: Vec<ViewPath>, mode: Mode) -> (Arc<Told>, impl Future<Output = ()> + Send + use<>) {
        session::begin(&self.node, &self.own, &self.reader, paths, mode)
    }

    /// Keeps chunks of a file for other nodes, or has the kernel read some of it, for a warm-up of the job.
    pub async fn answer(self: Arc<Self>, message: JobMessage, reply: Replier) {
        let outcome = match message {
            JobMessage::Keep { file, generation, first, count } => {
                spread::keep(&self.own, &file, &generation, first, u64::from(count)).await
            }
            JobMessage::ReadFile { file, extent } => self.reader.read(&self.node, file, extent).await,
            _ => Err(Errno::EINVAL),
        };
        match outcome {
            Ok(()) => answer_all(reply, &[(); 0]),
            Err(errno) => reply.answer(Outcome::Failed(errno), None),
        }
    }

    /// Takes files in that a program here reads next, as many as have room. Returns how many.
    pub fn announce(&self, files: Vec<ViewPath>) -> usize {
        self.announced.take(files)
    }

    /// Brings them, for as long as the daemon runs.
    pub async fn bring_announced(self: Arc<Self>) {
        self.announced.bring(&self.node, &self.own).await;
    }
}
