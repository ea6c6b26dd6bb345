//! The nodes of the demo and the file system behind them.
//!
//! Over the model, a node is a mount and a view of its own on this machine; over GlusterFS it is a set of namespaces
//! with a network, a mount and a view of its own. The roots of Forebay read through the mount of the node they run on.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use forebay_bench::job::{Forebay, Job};
use forebay_testkit::model::{BUSY as MODEL_BUSY, ClientMount, Model};
use forebay_testkit::results::median;
use forebay_testkit::scratch::Scratch;
use forebay_testkit::testbed::{BUSY, Testbed, Traffic};
use forebay_testkit::{Place, stop};

use crate::document::Way;
use crate::options::Options;

/// Nodes, their backing file system, and Forebay when it runs. The fields are dropped in this order: first who uses
/// a thing, then the thing.
pub struct Site {
    job: Option<Job>,
    backing: Backing,
    forebay: Forebay,
    nodes: usize,
    ups: Vec<f64>,
    scratch: Scratch,
}

enum Backing {
    Model {
        mounts: Vec<ClientMount>,
        model: Arc<Model>,
    },
    /// With the tree, as every node sees it.
    Gluster {
        testbed: Testbed,
        tree: PathBuf,
    },
}

impl Site {
    /// Nodes on this machine over the modelled file system.
    pub fn model(options: &Options) -> anyhow::Result<Self> {
        let model = Model::new(&options.tree, MODEL_BUSY)?;
        Self::new(options, Vec::new(), Backing::Model { mounts: Vec::new(), model })
    }

    /// Nodes in namespaces over GlusterFS.
    pub fn gluster(options: &Options) -> anyhow::Result<Self> {
        eprintln!("Building the test bed: GlusterFS, {} nodes, and the Python tree copied into it.", options.nodes);
        let testbed = Testbed::up(&options.testbed, options.nodes.into(), BUSY.at_once)?;
        let tree = testbed.copy_in(&options.tree, "tree")?;
        testbed.slow_down(BUSY)?;
        let environment = testbed.environment().to_vec();
        Self::new(options, environment, Backing::Gluster { testbed, tree })
    }

    fn new(options: &Options, environment: Vec<(&'static str, OsString)>, backing: Backing) -> anyhow::Result<Self> {
        let scratch = Scratch::new(&std::env::temp_dir(), "forebay-demo")?;
        let binary = options.forebay.canonicalize();
        let binary = binary.with_context(|| format!("no forebay binary at {}", options.forebay.display()))?;
        let forebay = Forebay { binary, runtime: scratch.dir("run")?, environment };
        Ok(Self { job: None, backing, forebay, nodes: options.nodes.into(), ups: Vec::new(), scratch })
    }

    /// How many nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The backing file system in words.
    pub fn described(&self) -> String {
        let speed = |metadata_us: u32, at_once: u32, link: &str| {
            let ms = f64::from(metadata_us) / 1000.0;
            format!("{ms} ms a metadata request, {at_once} at once, one link of {link} for all the nodes")
        };
        match &self.backing {
            Backing::Model { .. } => {
                let link = format!("{} Mbit/s", MODEL_BUSY.link_bits_per_second / 1_000_000);
                let speed = speed(MODEL_BUSY.metadata_us, MODEL_BUSY.at_once, &link);
                format!("a MODEL of a network file system over a local directory: {speed}, client caches valid for 1 s")
            }
            Backing::Gluster { .. } => {
                format!(
                    "GlusterFS in network namespaces on this machine: {}",
                    speed(BUSY.metadata_us, BUSY.at_once, BUSY.link)
                )
            }
        }
    }

    /// Fresh mounts of the backing file system on every node.
    pub fn make_cold(&mut self) -> anyhow::Result<()> {
        stop::check()?;
        match &mut self.backing {
            Backing::Gluster { testbed, .. } => testbed.remount(self.nodes),
            Backing::Model { mounts, model } => {
                mounts.clear();
                for node in 0..self.nodes {
                    mounts.push(model.mount(&self.scratch.dir(&format!("pfs/{node}"))?)?);
                }
                Ok(())
            }
        }
    }

    /// `forebay up` on all the nodes.
    pub fn start_forebay(&mut self) -> anyhow::Result<()> {
        let view = self.scratch.dir("view")?;
        let name = format!("demo-{}", std::process::id());
        let mut options = vec![OsString::from("--export"), self.export()?.into()];
        match &self.backing {
            Backing::Model { .. } => options.extend(["--local".into(), self.nodes.to_string().into()]),
            Backing::Gluster { testbed, .. } => {
                let hosts = self.scratch.path().join("hosts");
                fs::write(&hosts, testbed.names(self.nodes).join("\n") + "\n")?;
                options.extend(["--hostfile".into(), hosts.into()]);
                options.extend(["--remote-shell", &testbed.shell(), "--interface", "eth0"].map(OsString::from));
            }
        }
        let job = self.forebay.up(&name, &view, &options)?;
        self.ups.push(job.ready().as_secs_f64());
        self.job = Some(job);
        Ok(())
    }

    /// `forebay down`, when it is up.
    pub fn stop_forebay(&mut self) -> anyhow::Result<()> {
        self.job.take().map_or(Ok(()), |job| job.down().map(drop))
    }

    /// The median time of the starts of Forebay.
    pub fn up_seconds(&self) -> f64 {
        median(&self.ups)
    }

    /// What Forebay exports: node 0's mount in the model, where all daemons run on one machine.
    fn export(&self) -> anyhow::Result<PathBuf> {
        match &self.backing {
            Backing::Model { .. } => self.scratch.dir("pfs/0"),
            Backing::Gluster { tree, .. } => Ok(tree.clone()),
        }
    }

    /// On every node, the tree as its programs shall see it.
    pub fn trees(&self, way: Way) -> anyhow::Result<Vec<(Place, PathBuf)>> {
        if way == Way::Direct {
            return (0..self.nodes).map(|node| Ok((self.place(node), self.direct(node)))).collect();
        }
        let (job, export) = (self.job.as_ref().context("Forebay runs in this run")?, self.export()?);
        (0..self.nodes).map(|node| Ok((self.place(node), job.in_view(node, &export)?))).collect()
    }

    fn place(&self, node: usize) -> Place {
        match &self.backing {
            Backing::Model { .. } => Place::here(),
            Backing::Gluster { testbed, .. } => testbed.place(node),
        }
    }

    fn direct(&self, node: usize) -> PathBuf {
        match &self.backing {
            Backing::Model { .. } => self.scratch.path().join(format!("pfs/{node}")),
            Backing::Gluster { tree, .. } => tree.clone(),
        }
    }

    /// Requests and bytes at the backing file system so far.
    pub fn traffic(&self) -> anyhow::Result<Traffic> {
        match &self.backing {
            Backing::Model { model, .. } => Ok(model.traffic()),
            Backing::Gluster { testbed, .. } => testbed.traffic(),
        }
    }

    /// Processor time of Forebay's daemons so far.
    pub fn daemons_cpu(&self) -> anyhow::Result<Duration> {
        self.job.as_ref().map_or(Ok(Duration::ZERO), |job| Ok(job.status()?.cpu_now()))
    }
}
