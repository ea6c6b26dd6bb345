//! The ways to get a Python tree from a parallel file system to many nodes: what careful users do today, and Forebay.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use forebay_bench::job::{Forebay, Job};
use forebay_bench::testbed::Testbed;
use forebay_bench::{Place, run};
use serde::Serialize;

use crate::bench::{Bench, in_view};

/// One way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Programs read the file system itself.
    Direct,
    /// One zstd-compressed SquashFS image on the file system, mounted by every node.
    Squashfs,
    /// One tar.zst on the file system, unpacked by every node into memory.
    Tar,
    /// Forebay's view.
    Forebay,
}

/// All of them.
pub const WAYS: [Way; 4] = [Way::Direct, Way::Squashfs, Way::Tar, Way::Forebay];

/// The tree on the test bed in every form a way needs.
pub struct Forms {
    /// The tree itself.
    pub tree: PathBuf,
    image: PathBuf,
    archive: PathBuf,
    /// Where a node mounts the image or unpacks the archive.
    local: PathBuf,
    /// Whether the kernel mounts images here; else squashfuse does.
    loop_mounts: bool,
}

impl Forms {
    /// Packs the tree and copies all forms to the test bed.
    pub fn make(bench: &Bench, testbed: &Testbed) -> anyhow::Result<Self> {
        let image = pack(bench, "tree.squashfs", &|image| {
            let options = ["-comp", "zstd", "-no-progress", "-quiet", "-noappend"].map(OsString::from);
            [vec!["mksquashfs".into(), bench.tree.clone().into(), image.into()], options.to_vec()].concat()
        })?;
        let archive = pack(bench, "tree.tar.zst", &|archive| {
            let options = ["tar", "--create", "--zstd", "--file"].map(OsString::from);
            [options.to_vec(), vec![archive.into(), "-C".into(), bench.tree.clone().into(), ".".into()]].concat()
        })?;
        let local = bench.scratch.dir("local")?;
        let (image, archive) = (testbed.copy_in(&image, "tree.squashfs")?, testbed.copy_in(&archive, "tree.tar.zst")?);
        let tree = testbed.copy_in(&bench.tree, "tree")?;
        let mut forms = Self { tree, image, archive, local, loop_mounts: true };
        let place = testbed.place(0);
        let script = format!("{} && {}", forms.prepare(Way::Squashfs), forms.finish(Way::Squashfs));
        forms.loop_mounts = run::output(&mut place.command(&["sh", "-c", &script])).is_ok();
        Ok(forms)
    }

    /// How images are mounted.
    pub fn mounted_by(&self) -> &'static str {
        if self.loop_mounts { "the kernel, through a loop device" } else { "squashfuse" }
    }

    /// The shell line that brings the tree to a node before the work; part of the time.
    pub fn prepare(&self, way: Way) -> String {
        let (image, archive, local) = (self.image.display(), self.archive.display(), self.local.display());
        match way {
            Way::Direct | Way::Forebay => String::new(),
            Way::Squashfs if self.loop_mounts => format!("mount -t squashfs -o loop,ro '{image}' '{local}'"),
            Way::Squashfs => format!("squashfuse '{image}' '{local}'"),
            Way::Tar => {
                format!("mount -t tmpfs tmpfs '{local}' && zstd -dcq '{archive}' | tar -x -C '{local}'")
            }
        }
    }

    /// The shell line that undoes it; not part of the time.
    pub fn finish(&self, way: Way) -> String {
        match way {
            Way::Direct | Way::Forebay => ":".to_owned(),
            Way::Squashfs | Way::Tar => format!("umount '{}'", self.local.display()),
        }
    }

    /// Where a node's programs find the tree.
    pub fn seen(&self, way: Way, job: Option<&Job>, rank: usize) -> anyhow::Result<PathBuf> {
        match (way, job) {
            (Way::Direct, _) => Ok(self.tree.clone()),
            (Way::Squashfs | Way::Tar, _) => Ok(self.local.clone()),
            (Way::Forebay, job) => in_view(&job.context("Forebay is up in its own runs")?.status()?, rank, &self.tree),
        }
    }
}

/// Makes a packed form of the tree, once a run of the bench.
fn pack(bench: &Bench, name: &str, command: &dyn Fn(&Path) -> Vec<OsString>) -> anyhow::Result<PathBuf> {
    let path = bench.files.path().join(name);
    if !path.exists() {
        run::output(&mut Place::here().command(&command(&path))).context("packing the tree")?;
    }
    Ok(path)
}

/// A Forebay job on the first `nodes` nodes of the test bed, exporting its file system.
pub fn up_on(bench: &Bench, testbed: &Testbed, nodes: usize, more: &[&str]) -> anyhow::Result<Job> {
    let hosts = bench.scratch.path().join("hosts");
    fs::write(&hosts, testbed.names(nodes).join("\n") + "\n")?;
    let mut options = vec!["--export".into(), OsString::from(testbed.files()), "--hostfile".into(), hosts.into()];
    options.extend(["--remote-shell", &testbed.shell(), "--interface", "eth0"].map(OsString::from));
    options.extend(more.iter().map(OsString::from));
    let forebay = Forebay { environment: testbed.environment().to_vec(), ..bench.forebay.clone() };
    forebay.up(&format!("b{}", std::process::id()), &bench.scratch.dir("view")?, &options)
}
