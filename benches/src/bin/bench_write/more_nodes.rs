//! The bandwidth of several nodes, each with a disk of its own that has an eighth of the rate of this machine's, and what it costs the daemons.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;
use tempfile::TempDir;

use crate::bed::{Bed, MIB, Setup, noise, seconds};
use crate::limited_disk::LimitedDisk;

const NODES: usize = 4;

/// MiB that each node writes.
const NODE_MIB: usize = 192;

/// Names of each node but the leader's.
const NAMES: usize = 2000;

/// MiB a second of each disk: about an eighth of the disk of the machine on which the bars were set.
const DISK_MIB_PER_S: u64 = 64;

/// Measures 1, 2 and 4 nodes in turn.
pub fn measure(bed: &Bed) -> anyhow::Result<Measurement> {
    let place = TempDir::new()?;
    let disks = disks(place.path())?;
    let setup = Setup {
        name: "more-nodes",
        nodes: NODES,
        backing: None,
        stores: Some(place.path()),
        capacity: "512MiB",
        options: &["--drain", "manual"],
    };
    let job = bed.beside(&setup)?;
    disks.iter().try_for_each(|disk| disk.limit(Some(DISK_MIB_PER_S << 20)))?;
    let bytes = noise(MIB);
    let mut rates = [1, 2, 4].map(|nodes| (nodes, Samples::default()));
    let mut cpu = Samples::default();
    for _ in 0..bed.runs(5) {
        for (nodes, rate) in &mut rates {
            stop::check()?;
            let (mib, before) = ((*nodes * NODE_MIB) as f64, job.daemons_cpu()?);
            rate.add(mib / seconds(|| write(&job, *nodes, &bytes))?);
            cpu.add((job.daemons_cpu()? - before).as_secs_f64() / (mib / 1024.0));
            for node in 0..*nodes {
                fs::remove_file(file(&job, node))?;
            }
            job.settle()?;
        }
    }
    disks.iter().try_for_each(|disk| disk.limit(None))?;
    let leader = leader_costs(&job, bed.runs(5))?;
    // No file is to land.
    drop(job);
    drop(disks);
    let [(_, one), (_, two), (_, four)] = rates;
    let (two_ratio, four_ratio) = (two.over(&one), four.over(&one));
    let mut measurement = Measurement::under(format!(
        "a writer on each of 1, 2 and {NODES} nodes: {NODE_MIB} MiB in writes of 1 MiB and one fsync, a file per node; stores on ext4 on loop \
         devices in memory, {DISK_MIB_PER_S} MiB/s each; nothing lands meanwhile; {} times in turn",
        one.len()
    ));
    measurement
        .bar(Bar::new("2 nodes against one (2 less 5 %)", two_ratio.median(), Side::AtLeast, 1.9, "x"))
        .bar(Bar::new("4 nodes against one (4 less 5 %)", four_ratio.median(), Side::AtLeast, 3.8, "x"))
        .bar(Bar::new("the daemons' processor time, without landing", cpu.median(), Side::AtMost, 0.5, "s/GiB"))
        .figure("daemons_cpu_seconds_per_gib", cpu)
        .figure("two_over_one", two_ratio)
        .figure("four_over_one", four_ratio)
        .figure("one_mib_per_second", one)
        .figure("two_mib_per_second", two)
        .figure("four_mib_per_second", four);
    for (name, samples) in leader {
        measurement.figure(name, samples);
    }
    Ok(measurement)
}

/// A disk for the store of each node, where `--burst-store` looks for it.
fn disks(place: &Path) -> anyhow::Result<Vec<LimitedDisk>> {
    let of_node = |node: usize| {
        let at = place.join(node.to_string());
        fs::create_dir(&at)?;
        LimitedDisk::new(1 << 30, &at)
    };
    (0..NODES).map(of_node).collect()
}

/// Processor time of the leader's daemon for a file of another node, microseconds: its name; its name, its commit and its close; a name
/// that is looked up. These are the parameters of `forebay simulate checkpoint`.
fn leader_costs(job: &Bed, runs: usize) -> anyhow::Result<[(&'static str, Samples); 3]> {
    let mut costs = ["owner_us_per_name", "owner_us_per_file_written", "owner_us_per_lookup"]
        .map(|name| (name, Samples::default()));
    let steps: [fn(&Path) -> std::io::Result<()>; 3] = [
        |path| File::create(path.with_extension("empty")).map(drop),
        |path| fs::write(path, [1; 4096]),
        |path| fs::metadata(path).map(drop),
    ];
    for run in 0..runs {
        for (place, (step, (_, samples))) in steps.into_iter().zip(&mut costs).enumerate() {
            stop::check()?;
            let before = job.daemon_cpu(0)?;
            std::thread::scope(|scope| {
                let of_node = |node: usize| -> anyhow::Result<()> {
                    // A name is looked up by a node that has not made it.
                    let maker = if place == 2 { node % (NODES - 1) + 1 } else { node };
                    let directory = job.mount(node as u32).join(format!("names-{run}-{maker}"));
                    fs::create_dir_all(&directory)?;
                    Ok((0..NAMES).try_for_each(|number| step(&directory.join(number.to_string())))?)
                };
                let nodes: Vec<_> = (1..NODES).map(|node| scope.spawn(move || of_node(node))).collect();
                nodes
                    .into_iter()
                    .try_for_each(|node| node.join().unwrap_or_else(|_| anyhow::bail!("a program panicked")))
            })?;
            let spent = (job.daemon_cpu(0)? - before).as_secs_f64();
            samples.add(spent * 1e6 / ((NODES - 1) * NAMES) as f64);
        }
    }
    Ok(costs)
}

fn file(job: &Bed, node: usize) -> PathBuf {
    job.mount(node as u32).join(format!("of-{node}"))
}

/// All nodes at once.
fn write(job: &Bed, nodes: usize, bytes: &[u8]) -> anyhow::Result<()> {
    let of_node = |node: usize| -> anyhow::Result<()> {
        let mut file = File::create(file(job, node))?;
        (0..NODE_MIB).try_for_each(|_| file.write_all(bytes))?;
        Ok(file.sync_all()?)
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..nodes).map(|node| scope.spawn(move || of_node(node))).collect();
        writers.into_iter().try_for_each(|writer| writer.join().unwrap_or_else(|_| anyhow::bail!("a writer panicked")))
    })
}
