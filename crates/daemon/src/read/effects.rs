//! Carrying out what the core decides: each decision goes to the part that can do it.

use std::sync::Arc;

use forebay_read::{Effect, Source};

use super::core::ReadEffect;
use super::entry_ttl::EntryTtl;
use super::fetch::Fetcher;
use super::kernel::Kernel;
use super::peers::Peers;
use super::prefill::Prefill;
use super::view::{View, invalidate};
use crate::shared::node::Node;

/// The parts that do.
pub struct Effects {
    pub node: Arc<Node>,
    pub fetcher: Arc<Fetcher>,
    pub kernel: Arc<Kernel>,
    pub peers: Arc<Peers>,
    pub prefill: Arc<Prefill>,
    pub view: Arc<View>,
}

impl Effects {
    /// Carries out one decision; returns at once.
    pub fn carry_out(&self, effect: ReadEffect, ttl: &EntryTtl) {
        match effect {
            Effect::Fetch { attempt: call, source: Source::Peer(peer), request, deadline } => {
                self.fetcher.from_peer(vec![call], peer, request, deadline);
            }
            Effect::FetchBundle { attempts, peer, request, deadline } => {
                self.fetcher.from_peer(attempts, peer, request, deadline);
            }
            Effect::Fetch { attempt: call, source: Source::Backing, request, .. } => {
                self.fetcher.from_backing(call, request);
            }
            Effect::Promote { attempt: call, source: Source::Peer(_) } => self.fetcher.promote_from_peer(call),
            Effect::Promote { attempt: call, source: Source::Backing } => self.fetcher.promote_from_backing(call),
            Effect::Ping { peer, epoch, deadline } => self.fetcher.ping(peer, epoch, deadline),
            Effect::NoteSlow { peer, time } => {
                let seconds = time.as_secs();
                tracing::warn!(%peer, seconds, "a node takes far longer than others for chunks; others are asked in its place");
            }
            Effect::OpenParcel { index, body } => self.prefill.open(index, body),
            Effect::Cancel { attempt: call } => self.fetcher.cancel(call),
            Effect::AnswerKernel { ticket, answer } => self.kernel.answer_parked(ticket, answer, ttl),
            Effect::AnswerPeer { ticket, answer } => self.peers.answer(ticket, answer),
            Effect::Stale(stale) => {
                if let Some(notifier) = self.view.notifier() {
                    drop(self.node.block(move || invalidate(&notifier, &stale)));
                }
            }
        }
    }
}
