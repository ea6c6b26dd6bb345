//! Other nodes' requests: each goes to the part that it is about.

use std::sync::Arc;

use forebay_transport::IncomingCall;
use forebay_wire::{JobMessage, Message, Outcome, QueryMessage, Request};

use super::requests::Job;
use crate::write::answers;

/// Takes peers' requests.
pub struct Incoming(pub Arc<Job>);

impl forebay_transport::Service for Incoming {
    fn handle(&self, call: IncomingCall) {
        let job = &self.0;
        let IncomingCall { from, request, remaining, reply } = call;
        let Request { epoch, priority, referral, message } = request;
        match message {
            Message::Write(message) => answers::take(&job.node, job.write.clone(), from, message, reply),
            Message::Query(message @ (QueryMessage::OpenStream(_) | QueryMessage::PullStream { .. })) => {
                job.queries.statements.take(from, message, remaining, reply)
            }
            Message::Query(message) => job.queries.parts.take(message, remaining, reply),
            Message::Read(message) => {
                job.read.take(from, Request { epoch, priority, referral, message }, remaining, reply);
            }
            Message::Job(JobMessage::Report { report }) => match &job.starting {
                Some(starting) => starting.answer(from, report, reply),
                None => reply.answer(Outcome::Noted { settled: Some(Vec::new()) }, None),
            },
            Message::Job(
                message @ (JobMessage::Status
                | JobMessage::Shutdown
                | JobMessage::Explain { .. }
                | JobMessage::Holders { .. }
                | JobMessage::Probe { .. }),
            ) => drop(job.node.spawn(Arc::clone(job).answer(message, remaining, reply))),
            Message::Job(message) => job.read.take_job(epoch, message, remaining, reply),
        }
    }
}
