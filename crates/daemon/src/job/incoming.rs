//! Other nodes' requests: each goes to the part that it is about.

use std::sync::Arc;

use forebay_transport::IncomingCall;
use forebay_wire::{Outcome, Request};

use super::requests::Job;

/// Takes peers' requests.
pub struct Incoming(pub Arc<Job>);

impl forebay_transport::Service for Incoming {
    fn handle(&self, call: IncomingCall) {
        let job = &self.0;
        match call.request {
            Request::Report { report } => match &job.starting {
                Some(starting) => starting.answer(call.from, report, call.reply),
                None => call.reply.answer(Outcome::Noted { settled: Some(Vec::new()) }, None),
            },
            Request::Status | Request::Shutdown | Request::Explain { .. } | Request::Probe { .. } => {
                job.node.runtime.spawn(Arc::clone(job).answer(call));
            }
            _ => job.read.take(call),
        }
    }
}
