//! The memory of daemons while `find` walks through more files than they may know.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use forebay_testkit::results::{Bar, Measurement, Side};
use forebay_testkit::stop;
use tempfile::TempDir;

use crate::bed::{Bed, Setup, seconds};

/// Names of the tree, all and quick, in directories of a thousand.
const FILES: (usize, usize) = (10_000_000, 300_000);
const IN_DIRECTORY: usize = 1000;

/// Names of one file of the backing file system: ext4 takes 65,000. Each is a file of its own in the tree.
const LINKS: usize = 60_000;

const BUDGET_MIB: usize = 256;

/// Measures one walk.
pub fn measure(bed: &Bed) -> anyhow::Result<Measurement> {
    let backing = TempDir::new()?;
    let files = if bed.is_quick() { FILES.1 } else { FILES.0 };
    make(backing.path(), files)?;
    let budget = format!("{BUDGET_MIB}MiB");
    let setup = Setup {
        name: "walk",
        nodes: 2,
        backing: Some(backing.path()),
        stores: None,
        capacity: "8GiB",
        options: &["--drain", "manual", "--budget", &budget],
    };
    let job = bed.beside(&setup)?;
    let mut counted = 0;
    let walked = seconds(|| {
        counted = walk(&job.mount(0))?;
        Ok(())
    })?;
    ensure!(counted == files, "find has met {counted} of {files} files");
    let peaks = [0, 1].map(|node| job.pid(node).context("a daemon does not answer").and_then(peak_mib));
    let [leader, second] = peaks;
    let (leader, second) = (leader?, second?);
    let mut measurement = Measurement::under(format!(
        "`find -newermt` walks through {files} files in directories of {IN_DIRECTORY}, on the node that leads the tree; two nodes with \
         --budget {budget}; the files are names of one file each {LINKS}; one run"
    ));
    let most = (BUDGET_MIB + 64) as f64;
    measurement
        .bar(Bar::new("the most that the leader's daemon held", leader, Side::AtMost, most, "MiB"))
        .bar(Bar::new("the most that the daemon of its standby held", second, Side::AtMost, most, "MiB"))
        .figure("walk_seconds", walked);
    drop(job);
    Ok(measurement)
}

fn make(backing: &Path, files: usize) -> anyhow::Result<()> {
    let mut first = None;
    for directory in 0..files / IN_DIRECTORY {
        stop::check()?;
        let path = backing.join(directory.to_string());
        fs::create_dir(&path)?;
        if (directory * IN_DIRECTORY).is_multiple_of(LINKS) {
            first = None;
        }
        for name in 0..IN_DIRECTORY {
            let name = path.join(name.to_string());
            match &first {
                Some(first) => fs::hard_link(first, name)?,
                None => {
                    File::create(&name)?;
                    first = Some(name);
                }
            }
        }
    }
    Ok(())
}

/// How many files `find` meets, which asks for the attributes of each.
fn walk(directory: &Path) -> anyhow::Result<usize> {
    let words = ["-type", "f", "-newermt", "1970-01-02", "-printf", "."];
    let mut find = Command::new("find").arg(directory).args(words).stdout(Stdio::piped()).spawn()?;
    let mut printed = find.stdout.take().context("find has no output")?;
    let counted = std::io::copy(&mut printed, &mut std::io::sink())?;
    ensure!(find.wait()?.success(), "find has failed");
    Ok(counted as usize)
}

/// The most memory that a process has held.
fn peak_mib(pid: u64) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    Ok(peak.context("no VmHWM")?.parse::<f64>()? / 1024.0)
}
