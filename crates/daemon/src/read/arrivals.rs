//! Answers of sources, handed to the core.

use std::sync::Arc;

use forebay_body::Body;
use forebay_read::Answered;
use forebay_read::AttemptId;
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

    /// Hands the same over for attempts that travelled together.
    pub fn answer_all(&self, calls: &[AttemptId], answered: &Answered) {
        self.core.decide(|core, now| calls.iter().for_each(|call| core.handle_answer(now, *call, answered.clone())));
    }

    pub fn fail(&self, call: AttemptId, errno: Errno) {
        self.answer(call, Answered::Failed(errno));
    }

    /// Hands a body over that begins to arrive; `false` when nobody wants it any more.
    pub fn begin(&self, call: AttemptId, body: Arc<Body>) -> bool {
        let expected_bytes = body.expected_bytes();
        self.core.decide(|core, now| core.handle_body_started(now, call, body, expected_bytes))
    }

    /// The first bytes of a body that was begun have come from another node.
    pub fn note_bytes(&self, call: AttemptId) {
        self.core.decide(|core, now| core.note_bytes(now, call));
    }

    /// A body that was begun has arrived, or will not.
    pub fn end(&self, call: AttemptId, outcome: Result<(), Errno>, expected_bytes: usize) {
        self.core.decide(|core, now| core.handle_body_ended(now, call, outcome));
        self.pressure.on_arrival(expected_bytes);
    }

    /// Hands over what became of each file of a bundle.
    pub fn answer_bundle(&self, calls: &[AttemptId], files: Vec<Result<Arc<Body>, Errno>>) {
        let bytes = files.iter().flatten().map(|body| body.expected_bytes()).sum();
        self.core.decide(|core, now| {
            for (call, file) in calls.iter().zip(files) {
                match file {
                    Ok(body) => {
                        let bytes = body.expected_bytes();
                        if core.handle_body_started(now, *call, body, bytes) {
                            core.handle_body_ended(now, *call, Ok(()));
                        }
                    }
                    Err(errno) => core.handle_answer(now, *call, Answered::Failed(errno)),
                }
            }
        });
        self.pressure.on_arrival(bytes);
    }

    /// Hands a body over that is all there.
    pub fn answer_whole(&self, call: AttemptId, body: Arc<Body>) {
        let bytes = body.expected_bytes();
        if self.begin(call, body) {
            self.end(call, Ok(()), bytes);
        }
    }
}
