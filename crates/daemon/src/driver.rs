//! The driver of a node: its paths' cores, with all that carries their decisions out over an `Environment`, the overlay's
//! endpoint and the kernel's session. Daemons run it on their machines, and simulated jobs in virtual time.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, MutexGuard, OnceLock};

use anyhow::Context;
use forebay_fuse::{Handler, Session};
use forebay_overlay::{Forest, Shape};
use forebay_transport::{Endpoint, Service};
use forebay_types::ViewPath;
use tokio::task::JoinHandle;

use crate::environment::Environment;
use crate::job::incoming::Incoming;
use crate::job::requests::Job;
use crate::options::DaemonOptions;
use crate::read::{ReadCore, ReadParts, Refreshed};
use crate::shared::node::Node;
use crate::shared::readiness::Starting;
use crate::write::{self, WriteParts};

/// One node's. The parts that it needs of the outside come in this order: `new`, `take_part`, `service`, `handler`,
/// `start`. `set_endpoint` gets the endpoint of the service, `set_session` the session of the handler.
pub struct Driver {
    /// The node.
    pub node: Arc<Node>,
    /// Its read path.
    pub read: Arc<ReadParts>,
    /// Its part of the burst tier.
    pub(crate) write: OnceLock<Arc<WriteParts>>,
}

impl Driver {
    /// The driver of the node that `options` describe. Its tasks run in the runtime it is made in.
    ///
    /// # Errors
    /// When the options make no forest, or when this node is a root and its exports cannot be opened.
    pub fn new(options: DaemonOptions, environment: Arc<dyn Environment>) -> anyhow::Result<Self> {
        let forest = Forest::new(Shape {
            node_count: options.nodes.len() as u32,
            roots: options.roots,
            fan_out: options.fan_out,
            stripe_fan_out: options.stripe_fan_out,
            has_homes: options.has_homes,
            row_chunks: options.row_chunks(),
        })?;
        let node = Node::new(options, forest, environment);
        let read = ReadParts::new(&node)?;
        Ok(Self { node, read, write: OnceLock::new() })
    }

    /// Opens its store, where it has a part of the burst tier: after the daemon before has let go of it, and before it takes requests
    /// of others. `made_at_ms` tells its burst mount from those before it.
    ///
    /// # Errors
    /// The fault in the store or in the directory of the backing file system.
    pub fn open_burst(&self, mount: &Path, made_at_ms: u64, kernel_leases: Option<OwnedFd>) -> anyhow::Result<()> {
        if let Some(options) = &self.node.options.burst {
            let opened =
                write::open(&self.node, &self.read.backing.threads, options, mount, (made_at_ms, kernel_leases));
            let opened = opened.context("the burst tier")?;
            let _ = self.write.set(Arc::new(opened));
        }
        Ok(())
    }

    /// Its part of the burst tier, once that is open.
    pub fn burst(&self) -> Option<&Arc<WriteParts>> {
        self.write.get()
    }

    /// Its part in the job, and, if it has one, in the job's start.
    pub fn job(&self, starting: Option<Arc<Starting>>) -> Arc<Job> {
        Job::new(&self.node, &self.read, starting, self.write.get().map(Arc::clone))
    }

    /// The service for other nodes' requests.
    pub fn service(job: &Arc<Job>) -> Arc<dyn Service> {
        Arc::new(Incoming(Arc::clone(job)))
    }

    /// The handler of the kernel's requests.
    pub fn handler(&self) -> Arc<impl Handler + use<>> {
        self.read.handler()
    }

    /// It is connected from now on.
    pub fn set_endpoint(&self, endpoint: Endpoint) {
        self.node.set_endpoint(endpoint);
    }

    /// The view is served from now on.
    pub fn set_session(&self, session: Arc<Session>) {
        self.read.set_session(session);
    }

    /// Its core, to be looked at.
    pub fn core(&self) -> MutexGuard<'_, ReadCore> {
        self.read.core.lock()
    }

    /// Into how many parcels its profile is cut, once that is known.
    pub fn parcel_count(&self) -> Option<usize> {
        self.read.prefill.parcel_count()
    }

    /// Refreshes `paths` on the whole job.
    ///
    /// # Errors
    /// When no node that may lead can be reached.
    pub async fn refresh(&self, paths: Vec<ViewPath>) -> Result<Refreshed, String> {
        self.read.refresh.refresh(paths).await
    }

    /// Lets go of everything, where the process goes on: its tasks have ended, and its kernel is gone.
    pub fn end(&self) {
        self.read.core.end();
    }

    /// Starts what goes on as long as the node runs, to be aborted at its end.
    pub fn start(&self) -> Vec<JoinHandle<()>> {
        let read = || Arc::clone(&self.read);
        vec![
            self.node.spawn(read().run_timers()),
            self.node.spawn(read().watch_interrupts()),
            self.node.spawn(read().look_after_memory()),
            self.node.spawn(Arc::clone(&self.read.warm).bring_announced()),
            self.read.prefill.start(),
        ]
    }
}
