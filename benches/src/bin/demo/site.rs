//! The nodes of the demo and the file system behind them.
//!
//! Over the model, a node is a mount and a view of its own on this machine; over GlusterFS it is a set of namespaces
//! with a network, a mount and a view of its own. The roots of Forebay read through the mount of the node they run on.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use forebay_bench::cpu;
use forebay_bench::job::{Forebay, Job};
use forebay_testkit::results::median;
use forebay_testkit::scratch::{Scratch, temporary};
use forebay_testkit::testbed::{BUSY, Testbed, Traffic};
use forebay_testkit::{Place, stop};
use forebay_trial::nodes::{ModelledNodes, model_described, speed_described};
use forebay_trial::show::Way;

use crate::options::Options;
use crate::show;

/// Nodes, their backing file system, and Forebay when it runs. The fields are dropped in this order: first who uses
/// a thing, then the thing.
pub struct Site {
    job: Option<Job>,
    backing: Backing,
    forebay: Forebay,
    nodes: usize,
    /// Forebay's processes while it runs.
    processes: Vec<u32>,
    ups: Vec<f64>,
    scratch: Scratch,
}

enum Backing {
    Model(ModelledNodes),
    /// With the tree, as every node sees it.
    Gluster {
        testbed: Testbed,
        tree: PathBuf,
    },
}

impl Site {
    /// Nodes on this machine over the modelled file system.
    pub fn model(options: &Options, nodes: usize) -> anyhow::Result<Self> {
        let scratch = scratch()?;
        let modelled = ModelledNodes::new(&options.tree, scratch.dir("pfs")?, nodes)?;
        Self::new(options, nodes, Vec::new(), Backing::Model(modelled), scratch)
    }

    /// Nodes in namespaces over GlusterFS.
    pub fn gluster(options: &Options, nodes: usize) -> anyhow::Result<Self> {
        show::progress(&format!("building the test bed: GlusterFS, {nodes} nodes, and the Python tree copied into it"));
        let testbed = Testbed::up(&options.testbed, nodes, BUSY.at_once)?;
        let tree = testbed.copy_in(&options.tree, "tree")?;
        testbed.slow_down(BUSY)?;
        show::ended("done");
        let environment = testbed.environment().to_vec();
        Self::new(options, nodes, environment, Backing::Gluster { testbed, tree }, scratch()?)
    }

    fn new(
        options: &Options,
        nodes: usize,
        environment: Vec<(&'static str, OsString)>,
        backing: Backing,
        scratch: Scratch,
    ) -> anyhow::Result<Self> {
        let binary = options.forebay.canonicalize();
        let binary = binary.with_context(|| format!("no forebay binary at {}", options.forebay.display()))?;
        let forebay = Forebay { binary, runtime: scratch.dir("run")?, environment };
        Ok(Self { job: None, backing, forebay, nodes, processes: Vec::new(), ups: Vec::new(), scratch })
    }

    /// The backing file system in words.
    pub fn described(&self) -> String {
        match &self.backing {
            Backing::Model(_) => model_described(),
            Backing::Gluster { .. } => {
                let speed = speed_described(BUSY.metadata_us, BUSY.at_once, BUSY.link);
                format!("GlusterFS in network namespaces on this machine: {speed}")
            }
        }
    }

    /// Everything cold: fresh mounts on every node, and a fresh Forebay if that is the way.
    pub fn prepare(&mut self, way: Way) -> anyhow::Result<()> {
        self.stop_forebay()?;
        self.make_cold()?;
        if way == Way::Forebay { self.start_forebay() } else { Ok(()) }
    }

    /// Fresh mounts of the backing file system on every node.
    fn make_cold(&mut self) -> anyhow::Result<()> {
        stop::check()?;
        match &mut self.backing {
            Backing::Gluster { testbed, .. } => testbed.remount(self.nodes),
            Backing::Model(modelled) => modelled.make_cold(),
        }
    }

    /// `forebay up` on all the nodes.
    fn start_forebay(&mut self) -> anyhow::Result<()> {
        let export = [OsString::from("--export"), self.export()?.into()];
        let job = self.up("read", self.nodes, &export)?;
        self.processes = job.status()?.processes();
        self.ups.push(job.ready().as_secs_f64());
        self.job = Some(job);
        Ok(())
    }

    /// `forebay up` on the first `nodes` nodes, with `options`.
    pub fn up(&self, purpose: &str, nodes: usize, options: &[OsString]) -> anyhow::Result<Job> {
        let view = self.scratch.dir(&format!("view-{purpose}"))?;
        let name = format!("demo-{purpose}-{}", std::process::id());
        let mut options = options.to_vec();
        match &self.backing {
            Backing::Model(_) => options.extend(["--local".into(), nodes.to_string().into()]),
            Backing::Gluster { testbed, .. } => {
                let hosts = self.scratch.path().join("hosts");
                fs::write(&hosts, testbed.names(nodes).join("\n") + "\n")?;
                options.extend(["--hostfile".into(), hosts.into()]);
                options.extend(["--remote-shell", &testbed.shell(), "--interface", "eth0"].map(OsString::from));
            }
        }
        self.forebay.up(&name, &view, &options)
    }

    /// `forebay down`, when it is up.
    pub fn stop_forebay(&mut self) -> anyhow::Result<()> {
        self.processes.clear();
        self.job.take().map_or(Ok(()), |job| job.down().map(drop))
    }

    /// The median time of the starts of Forebay.
    pub fn up_seconds(&self) -> f64 {
        median(&self.ups)
    }

    /// The directory that Forebay exports: node 0's mount in the model, where all daemons run on one machine.
    fn export(&self) -> anyhow::Result<PathBuf> {
        match &self.backing {
            Backing::Model(modelled) => Ok(modelled.mount(0)),
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

    /// Where the programs of a node run.
    pub fn place(&self, node: usize) -> Place {
        match &self.backing {
            Backing::Model(_) => Place::here(),
            Backing::Gluster { testbed, .. } => testbed.place(node),
        }
    }

    fn direct(&self, node: usize) -> PathBuf {
        match &self.backing {
            Backing::Model(modelled) => modelled.mount(node),
            Backing::Gluster { tree, .. } => tree.clone(),
        }
    }

    /// Requests and bytes at the backing file system so far.
    pub fn traffic(&self) -> anyhow::Result<Traffic> {
        match &self.backing {
            Backing::Model(modelled) => Ok(modelled.traffic()),
            Backing::Gluster { testbed, .. } => testbed.traffic(),
        }
    }

    /// Processor time of Forebay's daemons so far.
    pub fn daemons_cpu(&self) -> Duration {
        self.processes.iter().filter_map(|pid| cpu::of_process(*pid)).sum()
    }

    /// Processor time so far of all that belongs to the demo: this process with the model in it, its children that have ended,
    /// the file system's servers and clients, and Forebay's daemons, those of `job` included.
    pub fn own_cpu(&self, job: &[u32]) -> anyhow::Result<Duration> {
        let servers = match &self.backing {
            Backing::Model(_) => Vec::new(),
            Backing::Gluster { testbed, .. } => testbed.processes()?,
        };
        let others: Duration = servers.iter().chain(job).filter_map(|pid| cpu::of_process(*pid)).sum();
        Ok(cpu::of_this()? + cpu::of_children()? + others + self.daemons_cpu())
    }

    /// A directory of the backing file system that can be written to, where it is a real one.
    pub fn writable(&self) -> Option<PathBuf> {
        match &self.backing {
            Backing::Model(_) => None,
            Backing::Gluster { testbed, .. } => Some(testbed.files()),
        }
    }

    /// How `forebay` is called.
    pub fn forebay(&self) -> &Forebay {
        &self.forebay
    }

    /// A directory that is gone with this.
    pub fn directory(&self, name: &str) -> anyhow::Result<PathBuf> {
        self.scratch.dir(name)
    }
}

fn scratch() -> anyhow::Result<Scratch> {
    Scratch::new(&temporary(), "forebay-demo")
}
