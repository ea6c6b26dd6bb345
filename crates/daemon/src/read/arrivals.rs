//! What sources answer, handed to the core.

use std::sync::Arc;

use forebay_body::Body;
use forebay_node::Answered;
use forebay_node::AttemptId;
use forebay_types::Errno;

use super::core::Core;
use super::pressure::Pressure;

/// The way of answers into the core.
pub struct Arrivals {
    core: Arc<Core>,
    pressure: Arc<Pressure>,
}

impl Arrivals {
    pub fn new(core: &Arc<Core>, pressure: &Arc<Pressure>) -> Arc<Self> {
        Arc::new(Self { core: Arc::clone(core), pressure: Arc::clone(pressure) })
    }

    /// Hands an answer over that is no body.
    pub fn answer(&self, call: AttemptId, answered: Answered) {
        self.core.decide(|core, now| core.handle_answer(now, call, answered));
    }

    pub fn fail(&self, call: AttemptId, errno: Errno) {
        self.answer(call, Answered::Failed(errno));
    }

    /// Hands a body over that begins to arrive; `false` when nobody wants it any more.
    pub fn begin(&self, call: AttemptId, body: Arc<Body>) -> bool {
        let expected_bytes = body.expected_bytes();
        self.core.decide(|core, now| core.handle_body_started(now, call, body, expected_bytes))
    }

    /// A body that was begun has arrived, or will not.
    pub fn end(&self, call: AttemptId, outcome: Result<(), Errno>, expected_bytes: usize) {
        self.core.decide(|core, _| core.handle_body_ended(call, outcome));
        self.pressure.on_arrival(expected_bytes);
    }

    /// The same for a bundle, by its parts.
    pub fn end_bundle(&self, call: AttemptId, outcome: Result<Vec<Arc<Body>>, Errno>) {
        self.core.decide(|core, _| core.handle_bundle_ended(call, outcome));
    }

    /// Hands a body over that is all there.
    pub fn answer_whole(&self, call: AttemptId, body: Arc<Body>) {
        let bytes = body.expected_bytes();
        if self.begin(call, body) {
            self.end(call, Ok(()), bytes);
        }
    }
}
