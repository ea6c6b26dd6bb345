//! The ways to get a Python tree from a parallel file system to many nodes: what careful users do today, and Forebay.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use forebay_bench::job::{Forebay, Job, shown};
use forebay_testkit::testbed::{BUSY, Testbed};
use forebay_testkit::{Place, run, stop};
use serde::Serialize;

use crate::bench::Bench;

/// One way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Programs read the file system itself.
    Direct,
    /// One zstd-compressed SquashFS image on the file system, mounted by every node.
    Squashfs,
    /// The same, compressed with LZ4, which is larger and faster to unpack.
    SquashfsLz4,
    /// One tar.zst on the file system, unpacked by every node into memory.
    Tar,
    /// Forebay's view.
    Forebay,
    /// The same, with what an earlier start used, compressed in a pack: by `--profile`.
    Profile,
    /// The SquashFS image, mounted by every node from Forebay's view.
    Image,
}

impl Way {
    /// Whether a job of Forebay is up in its runs.
    pub fn needs_job(self) -> bool {
        matches!(self, Self::Forebay | Self::Profile | Self::Image)
    }
}

/// How long a recorded start-up may take to be packed.
const RECORD_DEADLINE: Duration = Duration::from_secs(120);

/// All of them.
pub const WAYS: [Way; 7] =
    [Way::Direct, Way::Squashfs, Way::SquashfsLz4, Way::Tar, Way::Forebay, Way::Profile, Way::Image];

/// The tree on the test bed in every form that is needed.
pub struct Forms {
    /// The tree itself.
    pub tree: PathBuf,
    image: PathBuf,
    image_lz4: PathBuf,
    archive: PathBuf,
    /// The profile of a start-up, recorded by a job of one node, with its pack beside it.
    pub profile: PathBuf,
    /// Where a node mounts the image or unpacks the archive.
    local: PathBuf,
    /// Where a node's view is.
    view: PathBuf,
    /// The images that the kernel does not mount here; squashfuse does.
    by_squashfuse: Vec<PathBuf>,
}

impl Forms {
    /// Copies the tree to the test bed, packed or recorded as well where one of the `ways` needs it.
    fn make(bench: &Bench, testbed: &Testbed, ways: &[Way]) -> anyhow::Result<Self> {
        let mut forms = Self {
            tree: testbed.copy_in(&bench.tree, "tree")?,
            image: testbed.files().join("tree.squashfs"),
            image_lz4: testbed.files().join("tree-lz4.squashfs"),
            archive: testbed.files().join("tree.tar.zst"),
            profile: testbed.files().join("start.profile"),
            local: bench.scratch.dir("local")?,
            view: bench.scratch.dir("view")?,
            by_squashfuse: Vec::new(),
        };
        if ways.iter().any(|way| matches!(way, Way::Squashfs | Way::Image)) {
            forms.pack_image(bench, testbed, Way::Squashfs, &["-comp", "zstd"])?;
        }
        if ways.contains(&Way::SquashfsLz4) {
            forms.pack_image(bench, testbed, Way::SquashfsLz4, &["-comp", "lz4", "-Xhc"])?;
        }
        if ways.contains(&Way::Tar) {
            forms.pack_archive(bench, testbed)?;
        }
        if ways.contains(&Way::Profile) {
            forms.record(bench, testbed)?;
        }
        Ok(forms)
    }

    fn pack_image(&mut self, bench: &Bench, testbed: &Testbed, way: Way, compression: &[&str]) -> anyhow::Result<()> {
        let there = if way == Way::SquashfsLz4 { &self.image_lz4 } else { &self.image };
        let name = there.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let image = pack(bench, &name, &|image| {
            let options = ["-no-progress", "-quiet", "-noappend"];
            let options = compression.iter().copied().chain(options).map(OsString::from).collect();
            [vec!["mksquashfs".into(), bench.tree.clone().into(), image.into()], options].concat()
        })?;
        let there = testbed.copy_in(&image, &name)?;
        let script = format!("{} && {}", self.prepare(way), self.finish(way));
        if run::output(&mut testbed.place(0).command(&["sh", "-c", &script])).is_err() {
            self.by_squashfuse.push(there);
        }
        Ok(())
    }

    fn pack_archive(&self, bench: &Bench, testbed: &Testbed) -> anyhow::Result<()> {
        let archive = pack(bench, "tree.tar.zst", &|archive| {
            let options = ["tar", "--create", "--zstd", "--file"].map(OsString::from);
            [options.to_vec(), vec![archive.into(), "-C".into(), bench.tree.clone().into(), ".".into()]].concat()
        })?;
        testbed.copy_in(&archive, "tree.tar.zst").map(drop)
    }

    /// Has a start-up recorded by a job of one node, and waits for its pack.
    fn record(&self, bench: &Bench, testbed: &Testbed) -> anyhow::Result<()> {
        let job = up_on(bench, testbed, 1, &["--profile", &self.profile.to_string_lossy()])?;
        run::output(&mut testbed.place(0).command(&bench.python.replay(&self.seen(Way::Profile))))?;
        let pack = self.profile.with_extension("pack");
        let deadline = Instant::now() + RECORD_DEADLINE;
        while run::output(&mut testbed.place(0).command(&["test".as_ref(), "-e".as_ref(), pack.as_os_str()])).is_err() {
            stop::check()?;
            ensure!(Instant::now() < deadline, "no pack was written within {RECORD_DEADLINE:?}");
            thread::sleep(stop::LOOK_EVERY);
        }
        job.down().map(drop)
    }

    /// The bytes of the profile and its pack.
    pub fn recorded_bytes(&self, testbed: &Testbed) -> anyhow::Result<u64> {
        let (profile, pack) = (&self.profile, self.profile.with_extension("pack"));
        let stat = ["stat".as_ref(), "-c".as_ref(), "%s".as_ref(), profile.as_os_str(), pack.as_os_str()];
        let sizes = run::output(&mut testbed.place(0).command(&stat))?;
        Ok(sizes.lines().map(str::parse::<u64>).sum::<Result<u64, _>>()?)
    }

    /// How images are mounted.
    pub fn mounted_by(&self) -> &'static str {
        match self.by_squashfuse.len() {
            0 => "the kernel, through a loop device",
            _ if self.by_squashfuse.contains(&self.image) => "squashfuse",
            _ => "the kernel, through a loop device; with LZ4 squashfuse",
        }
    }

    /// The shell line that brings the tree to a node before the work; part of the time.
    pub fn prepare(&self, way: Way) -> String {
        let (archive, local) = (self.archive.display(), self.local.display());
        match way {
            Way::Direct | Way::Forebay | Way::Profile => String::new(),
            Way::Image => self.mount(&shown(&self.view, &self.image)),
            Way::Squashfs => self.mount(&self.image),
            Way::SquashfsLz4 => self.mount(&self.image_lz4),
            Way::Tar => {
                format!("mount -t tmpfs tmpfs '{local}' && zstd -dcq '{archive}' | tar -x -C '{local}'")
            }
        }
    }

    fn mount(&self, image: &Path) -> String {
        let by_kernel = !self.by_squashfuse.iter().any(|other| image.ends_with(other.file_name().unwrap_or_default()));
        let (image, local) = (image.display(), self.local.display());
        match by_kernel {
            true => format!("mount -t squashfs -o loop,ro '{image}' '{local}'"),
            false => format!("squashfuse '{image}' '{local}'"),
        }
    }

    /// The shell line that undoes it; not part of the time.
    pub fn finish(&self, way: Way) -> String {
        match way {
            Way::Direct | Way::Forebay | Way::Profile => ":".to_owned(),
            Way::Squashfs | Way::SquashfsLz4 | Way::Tar | Way::Image => format!("umount '{}'", self.local.display()),
        }
    }

    /// Where the programs of every node find the tree after `prepare`.
    pub fn seen(&self, way: Way) -> PathBuf {
        match way {
            Way::Direct => self.tree.clone(),
            Way::Squashfs | Way::SquashfsLz4 | Way::Tar | Way::Image => self.local.clone(),
            Way::Forebay | Way::Profile => shown(&self.view, &self.tree),
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

/// A busy test bed of `nodes` nodes with the tree in every form that these ways need.
pub fn set_up(bench: &Bench, nodes: usize, ways: &[Way]) -> anyhow::Result<(Testbed, Forms)> {
    println!("  building the test bed and packing the tree");
    let testbed = Testbed::up(&bench.testbed, nodes, BUSY.at_once)?;
    let forms = Forms::make(bench, &testbed, ways)?;
    testbed.slow_down(BUSY)?;
    Ok((testbed, forms))
}

/// A Forebay job on the first `nodes` nodes of the test bed, exporting its file system.
pub fn up_on(bench: &Bench, testbed: &Testbed, nodes: usize, more: &[&str]) -> anyhow::Result<Job> {
    let hosts = bench.scratch.path().join("hosts");
    fs::write(&hosts, testbed.names(nodes).join("\n") + "\n")?;
    let mut options = vec!["--export".into(), OsString::from(testbed.files()), "--hostfile".into(), hosts.into()];
    options.extend(["--remote-shell", &testbed.shell(), "--interface", "eth0"].map(OsString::from));
    options.extend(more.iter().map(OsString::from));
    let forebay = Forebay { environment: testbed.environment().to_vec(), ..bench.forebay.clone() };
    let view = bench.scratch.dir("view")?;
    let job = forebay.up(&format!("b{}", std::process::id()), &view, &options)?;
    // Programs that were started before rely on it.
    ensure!((0..nodes).all(|rank| job.view(rank) == Some(&view)), "the views are not at {}", view.display());
    Ok(job)
}
