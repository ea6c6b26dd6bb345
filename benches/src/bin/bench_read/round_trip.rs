//! The round trip from a leaf to the root and back by payload, as in Fig. 3 of the Copper paper.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use forebay_testkit::results::{Bar, Measurement, Side, median};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::bench::Bench;

/// A full binary tree of depth 4; its last node is a leaf.
const NODES: usize = 31;
const LEAF: usize = 30;

/// Payload sizes, bytes.
const PAYLOADS: [u64; 10] = [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 128 << 10, 512 << 10, 1 << 20, 4 << 20];

/// Up to this payload the bar holds, bytes.
const BARRED_UP_TO: u64 = 128 << 10;

/// The time that the slowest probe may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ok(Probed),
    Error(String),
}

#[derive(Deserialize)]
struct Probed {
    round_trip_us: Vec<f64>,
}

#[derive(Serialize)]
struct Distribution {
    p50_us: f64,
    p99_us: f64,
    count: usize,
}

/// Measures round trips of every payload.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let job = bench.up_local(NODES, &bench.tree, &["--fanout", "2"])?;
    let socket = find_socket(&bench.forebay.runtime, &format!("node-{LEAF}.sock"))?;
    let mut by_payload = BTreeMap::new();
    // The first connection to each parent is made on demand.
    probe(&socket, 64, 10)?;
    for payload in PAYLOADS {
        let count = if payload <= BARRED_UP_TO { 400 } else { 60 };
        let mut times = probe(&socket, payload, bench.runs(count).max(20))?;
        times.sort_by(f64::total_cmp);
        let p99_us = times[(times.len() * 99).div_ceil(100) - 1];
        by_payload.insert(payload, Distribution { p50_us: median(&times), p99_us, count: times.len() });
    }
    job.down()?;
    let worst = by_payload.range(..=BARRED_UP_TO).map(|(_, times)| times.p50_us).fold(0.0, f64::max);
    let mut measurement = Measurement::under(format!(
        "{NODES} nodes with fan-out 2 on this machine; the payload goes from node {LEAF} over its three ancestors to the \
         root and back, one at a time"
    ));
    measurement
        .bar(Bar::new("round trip leaf-root-leaf up to 128 KiB, p50", worst / 1000.0, Side::Below, 1.0, "ms"))
        .figure("round_trip_by_payload_bytes", by_payload);
    Ok(measurement)
}

/// Asks the daemon behind `socket` for round trips; their times in microseconds.
fn probe(socket: &Path, payload_bytes: u64, count: usize) -> anyhow::Result<Vec<f64>> {
    let mut stream = UnixStream::connect(socket).with_context(|| format!("cannot reach {}", socket.display()))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let question = json!({"command": "probe", "payload_bytes": payload_bytes, "count": count});
    writeln!(stream, "{question}")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).context("no answer to a probe")?;
    match serde_json::from_str(&line).with_context(|| format!("not an answer to a probe: {line}"))? {
        Answer::Ok(Probed { round_trip_us }) if !round_trip_us.is_empty() => Ok(round_trip_us),
        Answer::Ok(_) => bail!("a probe of {payload_bytes} bytes came back without times"),
        Answer::Error(error) => bail!("a probe of {payload_bytes} bytes: {error}"),
    }
}

/// The file called `name` somewhere below the runtime directory, which holds one job only.
fn find_socket(directory: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_name() == name {
                return Ok(entry.path());
            }
            if entry.file_type()?.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    bail!("no control socket {name} below {}", directory.display())
}
