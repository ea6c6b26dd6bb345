//! The write path: a program writes a checkpoint to the burst tier and goes on computing while the file lands.
//!
//! Over the model, which takes no writes, files land in a directory of this machine's own disk, and `--drain-rate` holds
//! landing to the rate of a slow file system. That says how Forebay behaves, not how much faster it is, so no ratio is
//! printed. Over GlusterFS files land on it, and the same program writes there directly for comparison.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use forebay_bench::job::Job;
use forebay_bench::python::Python;
use forebay_bench::quiet::{Gauge, Measured, Observed, Repeater};
use forebay_testkit::run::{self, Group};
use forebay_testkit::scratch::Scratch;
use forebay_testkit::{Place, stop};

use crate::document::Checkpoint;
use crate::options::Options;
use crate::show;
use crate::site::Site;

/// Large enough that landing takes seconds, and small enough for the disk and memory of a laptop.
const MIB: u64 = 128;

/// The `--drain-rate` where the backing file system is the machine's own disk: landing takes 4 s.
const DRAIN_RATE: &str = "32MB/s";

/// A draft and its segments take less than this, and a disk that lacks it is too full for the demo.
const STORE_CAPACITY: &str = "1GiB";

/// How often the backing file system is looked at for the file.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Landing takes seconds; beyond this it has failed.
const LANDING_MOST: Duration = Duration::from_secs(60);

/// A job of one node with a burst tier. The fields are dropped in this order.
struct Bed {
    job: Job,
    /// The daemon and its keeper.
    processes: Vec<u32>,
    place: Place,
    /// The burst mount's directory.
    mount: PathBuf,
    backing: PathBuf,
    /// Of the store, and of the backing directory over the model.
    _scratch: Scratch,
}

/// The file system that the checkpoint lands on, in words.
pub fn described(site: &Site) -> String {
    match site.writable() {
        Some(_) => "GlusterFS, as above, with no limit on the drain".to_owned(),
        None => format!(
            "this machine's own disk, with landing held to {DRAIN_RATE} by --drain-rate in place of a slow file system"
        ),
    }
}

/// Measures it.
pub fn measure(
    site: &Site,
    python: &Python,
    options: &Options,
    repeater: &mut Repeater,
) -> anyhow::Result<Measured<Checkpoint>> {
    let bed = Bed::up(site, options)?;
    let program = options.programs.join("checkpoint.py").canonicalize().context("the program that writes")?;
    let mut number = 0;
    let words = |path: &Path| python.script(&program, &[path.into(), MIB.to_string().into()]);
    let told = |run: &Checkpoint, reason: &str| show::repeated(run.landed_seconds, reason);
    let measured = repeater.measure(told, || {
        number += 1;
        one_run(site, &bed, &words, number)
    })?;
    show::done(&measured, measured.value.landed_seconds);
    bed.job.down()?;
    Ok(measured)
}

impl Bed {
    fn up(site: &Site, options: &Options) -> anyhow::Result<Self> {
        let scratch = Scratch::new(&local_directory(options), "forebay-demo-write")?;
        let place = site.place(0);
        let backing = match site.writable() {
            Some(files) => files.join("checkpoints"),
            None => scratch.dir("backing")?,
        };
        let argv = ["mkdir".as_ref(), "-p".as_ref(), backing.as_os_str()];
        run::output(&mut place.command(&argv)).context("cannot create the directory that files land in")?;
        let dir = scratch.dir("checkpoints")?;
        let mut pair = dir.clone().into_os_string();
        pair.push("=");
        pair.push(&backing);
        let mut words = [OsString::from("--export"), scratch.dir("export")?.into(), "--burst".into(), pair].to_vec();
        let store = scratch.dir("store")?;
        // A store that others may enter is refused.
        fs::set_permissions(&store, fs::Permissions::from_mode(0o700)).context("cannot close the store to others")?;
        words.extend(["--burst-store".into(), store.into()]);
        words.extend(["--burst-capacity", STORE_CAPACITY].map(OsString::from));
        if site.writable().is_none() {
            words.extend(["--drain-rate", DRAIN_RATE].map(OsString::from));
        }
        let job = site.up("write", 1, &words)?;
        let status = job.status()?;
        let burst = status.nodes.first().and_then(|node| node.burst.as_ref()).context("the job has no burst tier")?;
        let mount = burst.mount.join(dir.strip_prefix("/").context("a directory of the demo is not absolute")?);
        Ok(Self { processes: status.processes(), mount, job, place, backing, _scratch: scratch })
    }

    /// Waits until the file has its name on the backing file system, and says when that was.
    fn wait_until_landed(&self, name: &str) -> anyhow::Result<Instant> {
        let file = self.backing.join(name);
        let deadline = Instant::now() + LANDING_MOST;
        let argv = ["test".as_ref(), "-e".as_ref(), file.as_os_str()];
        while !self.place.command(&argv).status().context("cannot start test")?.success() {
            stop::check()?;
            ensure!(Instant::now() < deadline, "{} has not landed within {LANDING_MOST:?}", file.display());
            thread::sleep(LOOK_EVERY);
        }
        let at = Instant::now();
        self.job.landed(&self.mount.join(name))?;
        Ok(at)
    }

    /// Without Forebay; how long it took until the program was free to continue.
    fn write_directly(&self, words: &dyn Fn(&Path) -> Vec<OsString>) -> anyhow::Result<Duration> {
        let file = self.backing.join("direct.ckpt");
        let mut writer = Writer::start(&self.place, &words(&file))?;
        let (_, free) = writer.write()?;
        writer.finish()?;
        let argv = ["rm".as_ref(), "-f".as_ref(), file.as_os_str()];
        run::output(&mut self.place.command(&argv))?;
        Ok(free)
    }

    fn digest(&self, path: &Path) -> anyhow::Result<String> {
        let argv = ["sha256sum".as_ref(), path.as_os_str()];
        let text = run::output(&mut self.place.command(&argv))?;
        Ok(text.split_whitespace().next().unwrap_or_default().to_owned())
    }
}

/// Where a store and other large files may lie: beside the results, or below the temporary directory if that is a network file system.
pub fn local_directory(options: &Options) -> PathBuf {
    let beside = options.json.parent().map_or_else(|| PathBuf::from("."), Path::to_owned);
    let is_local = fs::create_dir_all(&beside).is_ok()
        && forebay_log::network_file_system(if beside.as_os_str().is_empty() { ".".as_ref() } else { &beside })
            .is_ok_and(|network| network.is_none());
    if is_local { beside } else { std::env::temp_dir() }
}

fn one_run(
    site: &Site,
    bed: &Bed,
    words: &dyn Fn(&Path) -> Vec<OsString>,
    number: u32,
) -> anyhow::Result<(Checkpoint, Observed)> {
    let name = format!("step-{number}.ckpt");
    // Around both ways, and all that the programs do: what they use before they write is theirs, too.
    let gauge = Gauge::start(site.own_cpu(&bed.processes)?)?;
    let direct_free = bed.write_directly(words)?;
    let mut writer = Writer::start(&bed.place, &words(&bed.mount.join(&name)))?;
    let (start, free) = writer.write()?;
    let landed = bed.wait_until_landed(&name)?;
    let digest = writer.digest.clone();
    let steps = writer.finish()?;
    let observed = gauge.finish(site.own_cpu(&bed.processes)?)?;
    ensure!(
        bed.digest(&bed.backing.join(&name))? == digest,
        "the checkpoint on the backing file system differs from what the program has written; this is a defect of Forebay"
    );
    let checkpoint = Checkpoint {
        bytes: MIB << 20,
        free_seconds: free.as_secs_f64(),
        landed_seconds: (landed - start).as_secs_f64(),
        steps,
        direct_seconds: direct_free.as_secs_f64(),
    };
    Ok((checkpoint, observed))
}

/// A program that writes and then goes on; ended when dropped.
struct Writer {
    group: Group,
    lines: Receiver<String>,
    /// Of what it writes.
    digest: String,
}

impl Writer {
    /// Starts it and waits until it is ready to write.
    fn start(place: &Place, words: &[OsString]) -> anyhow::Result<Self> {
        let mut group = Group::start(place.command(words).stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let stdout = group.child().stdout.take().context("a piped child has its pipe")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            // The receiver is gone when the program is no longer needed.
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut writer = Self { group, lines, digest: String::new() };
        let line = writer.line()?;
        writer.digest = line.strip_prefix("ready ").context("the program that writes did not start")?.to_owned();
        Ok(writer)
    }

    /// Lets it write; when that began, and how long it took until the program was free to go on.
    fn write(&mut self) -> anyhow::Result<(Instant, Duration)> {
        let stdin = self.group.child().stdin.as_mut().context("a piped child has its pipe")?;
        let start = Instant::now();
        stdin.write_all(b"go\n").context("the program that writes ended before the start")?;
        let line = self.line()?;
        ensure!(line == "free", "the program that writes failed: {line}");
        Ok((start, start.elapsed()))
    }

    /// Has it end; how many steps it has computed since it was free.
    fn finish(mut self) -> anyhow::Result<u64> {
        drop(self.group.child().stdin.take());
        let steps = self.line()?.parse().context("the program that writes prints its steps")?;
        ensure!(self.group.wait()?.success(), "the program that writes failed");
        Ok(steps)
    }

    fn line(&self) -> anyhow::Result<String> {
        loop {
            match self.lines.recv_timeout(stop::LOOK_EVERY) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) => stop::check()?,
                Err(RecvTimeoutError::Disconnected) => bail!("the program that writes has ended early"),
            }
        }
    }
}
