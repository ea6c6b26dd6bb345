//! A node that does not lead the tree gives back the room of what the tree does not need any more: it has landed, was overwritten
//! or removed.
//!
//! The node asks. Extents that were pending before it asked stay, since they may have been committed since.

use std::sync::Arc;
use std::time::Duration;

use forebay_types::{Errno, LogPosition};

use super::commits::Commits;
use super::contents::Reader;
use super::files::Files;
use super::partner::Partner;
use super::tree::checkpoint::{self, Parts};
use super::tree::standby::Standby;

/// How often it is asked while the log holds what is not pending.
const EVERY: Duration = Duration::from_millis(500);
const EVERY_WHILE_FILLING: Duration = Duration::from_millis(50);

/// See the module.
pub struct Reclaim {
    reader: Arc<Reader>,
    files: Arc<Files>,
    commits: Arc<Commits>,
    second: Option<Arc<Standby>>,
    partner: Option<Arc<Partner>>,
    /// Whether the leader sends ahead what is old.
    sends_old: bool,
}

impl Reclaim {
    pub fn new(
        reader: &Arc<Reader>,
        files: &Arc<Files>,
        commits: &Arc<Commits>,
        second: Option<&Arc<Standby>>,
        partner: Option<&Arc<Partner>>,
        sends_old: bool,
    ) -> Arc<Self> {
        let (reader, files, commits) = (Arc::clone(reader), Arc::clone(files), Arc::clone(commits));
        Arc::new(Self {
            reader,
            files,
            commits,
            second: second.map(Arc::clone),
            partner: partner.map(Arc::clone),
            sends_old,
        })
    }

    /// Gives back regularly, until all is over.
    pub async fn go_on(&self) {
        let nodes = &self.reader.nodes;
        loop {
            nodes.pause(if self.reader.local.is_filling() { EVERY_WHILE_FILLING } else { EVERY }).await;
            if nodes.is_ending() {
                return;
            }
            checkpoint::write_if_due(&self.reader.local, self.parts(), &self.files);
            // Only what is committed can be sent ahead.
            let committed = match self.reader.local.is_filling() {
                true => self.commits.commit_all().await,
                false if self.sends_old => self.commits.commit_old().await,
                false => Ok(()),
            };
            if let Err(errno) = committed {
                tracing::warn!(%errno, "space of open files cannot be released yet");
            }
            if self.reader.local.log.space().live_bytes > 0
                && let Err(errno) = self.once().await
            {
                tracing::warn!(%errno, "space of landed files cannot be released yet");
            }
        }
    }

    /// Of a node that does not lead the tree.
    pub fn parts(&self) -> Parts<'_> {
        Parts { leader: None, second: self.second.as_deref() }
    }

    /// The same at the end: nodes that do not answer do not come back for what was copied.
    ///
    /// # Errors
    /// The leader's error.
    pub async fn all(&self) -> Result<(), Errno> {
        if let Some(partner) = &self.partner {
            let nodes = self.reader.local.copies().nodes();
            for of in nodes {
                partner.drop_unneeded(of, true).await?;
            }
        }
        self.once().await
    }

    /// Gives back what can be.
    ///
    /// # Errors
    /// The leader's error.
    pub async fn once(&self) -> Result<(), Errno> {
        let log = &self.reader.local.log;
        if self.reader.tree.here().is_some() {
            return Ok(());
        }
        let ((held, copies), pending) =
            self.files.with_pending_bytes(|| (log.live_by_segment(), self.reader.local.copies().by_segment()));
        let needed = self.reader.tree.needed(self.reader.local.is_filling()).await?;
        for (segment, bytes) in held {
            let kept = |by: &std::collections::BTreeMap<u64, u64>| by.get(&segment).copied().unwrap_or(0);
            let free = bytes.saturating_sub(kept(&pending) + kept(&copies) + kept(&needed));
            if free > 0
                && let Err(error) = log.release(LogPosition { segment, offset: 0 }, free)
            {
                tracing::warn!(%error, "room in the store that is not given back");
            }
        }
        Ok(())
    }
}
