//! Mounts of the model's clients.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use forebay_fuse::{Mount, MountOptions, Session, SessionOptions, mount};

use super::client::Client;
use super::server::Model;

/// A client's read-ahead, bytes: the kernel's default.
const READ_AHEAD_BYTES: u32 = 128 << 10;

/// A client's mount; unmounted when dropped.
pub struct ClientMount {
    mount: Option<Mount>,
    session: Session,
}

impl Drop for ClientMount {
    fn drop(&mut self) {
        if let Some(mount) = self.mount.take()
            && let Err(error) = mount.unmount()
        {
            eprintln!("cleaning up: {error}");
        }
        self.session.stop();
    }
}

impl Model {
    /// Mounts a client at `at`: one node's own, with caches of its own.
    ///
    /// # Errors
    /// When mounting is not possible here.
    pub fn mount(self: &Arc<Self>, at: &Path) -> anyhow::Result<ClientMount> {
        // The type must not be that of Forebay's own views: those are never exported.
        let options = MountOptions {
            source: "modelled-server".into(),
            subtype: "model".into(),
            read_ahead_bytes: READ_AHEAD_BYTES,
            ..MountOptions::default()
        };
        let mount = mount(at, &options)?;
        let options = SessionOptions { no_open: false, read_ahead_bytes: READ_AHEAD_BYTES, ..Default::default() };
        let session = Session::start(mount.descriptor(), &options, Arc::new(Client::new(Arc::clone(self))))
            .context("the model's FUSE session")?;
        Ok(ClientMount { mount: Some(mount), session })
    }
}
