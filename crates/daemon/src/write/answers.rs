//! Other nodes' requests about the burst tree and the logs that hold its contents.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_body::Body;
use forebay_transport::Replier;
use forebay_types::{Errno, NodeRank};
use forebay_wire::Outcome;
use forebay_wire::message::encode;
use forebay_wire::write::Change;
use forebay_wire::write_message::{LogPart, WriteMessage};
use serde::Serialize;

use super::contents::{open_backing, read_exactly};
use super::parts::WriteParts;
use crate::shared::gather::answer_all;

/// What only the owner can be asked.
const NOT_THE_OWNER: Errno = Errno::EPROTO;

impl WriteParts {
    /// Answers node `from`. May block.
    pub fn answer(&self, from: NodeRank, message: WriteMessage, reply: Replier) {
        match message {
            WriteMessage::Change(change) => answer(reply, &self.carry_out(from, &change)),
            WriteMessage::Question { caller, question } => {
                let owner = self.owner().ok_or(NOT_THE_OWNER);
                answer(reply, &owner.and_then(|owner| owner.tell(from, &caller, &question)));
            }
            WriteMessage::Contents { parts } => answer_contents(reply, self.read_parts(&parts)),
            WriteMessage::Unlinked { file, offset, len } => {
                let mut bytes = vec![0; len as usize];
                let owner = self.owner().ok_or(NOT_THE_OWNER);
                let read = owner.and_then(|owner| open_backing(owner, file));
                answer_contents(reply, read.and_then(|open| read_exactly(&open, offset, &mut bytes)).map(|()| bytes));
            }
            WriteMessage::CommitAll => answer(reply, &self.commit_all()),
            WriteMessage::Uncommitted { file } => {
                answer(reply, &self.files.find(file).map_or_else(Vec::new, |open| open.pending_ranges()));
            }
            WriteMessage::GiveBack => answer(reply, &self.give_back()),
            WriteMessage::Drain { wait_ms } => {
                answer_all(reply, &[self.drain(Duration::from_millis(wait_ms.into()))]);
            }
            WriteMessage::Landed { path } => answer_all(reply, &[self.landed(path.as_ref())]),
        }
    }

    fn carry_out(&self, from: NodeRank, change: &Change) -> Result<forebay_wire::write::Done, Errno> {
        if change.id.node != from {
            return Err(Errno::EPERM);
        }
        self.owner().ok_or(NOT_THE_OWNER)?.carry_out(change)
    }

    fn read_parts(&self, parts: &[LogPart]) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; parts.iter().map(|part| part.len as usize).sum()];
        let mut rest = &mut bytes[..];
        for part in parts {
            let (into, after) = rest.split_at_mut(part.len as usize);
            self.local.read(part.position, part.skip, into)?;
            rest = after;
        }
        Ok(bytes)
    }
}

fn answer(reply: Replier, told: &impl Serialize) {
    reply.answer(Outcome::Body, Some(Body::whole(Bytes::from(encode(told)))));
}

fn answer_contents(reply: Replier, read: Result<Vec<u8>, Errno>) {
    match read {
        Ok(bytes) => reply.answer(Outcome::Body, Some(Body::whole(Bytes::from(bytes)))),
        Err(errno) => reply.answer(Outcome::Bundle(vec![Some(errno)]), None),
    }
}

/// Hands a request to the write path of a node that has one.
pub fn take(write: Option<Arc<WriteParts>>, from: NodeRank, message: WriteMessage, reply: Replier) {
    match write {
        Some(write) => write.answer(from, message, reply),
        None => reply.answer(Outcome::Failed(Errno::EAGAIN), None),
    }
}
