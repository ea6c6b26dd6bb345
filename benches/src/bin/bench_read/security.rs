//! The cost of protecting connections: processor time of both ends for a gigabyte of bodies, by level.
//!
//! Two endpoints as daemons have them, each on a thread and a runtime of its own, over loopback. Bodies begin here, so
//! that the sending end makes each checksum and the receiving end verifies it, on every level; what that alone costs is
//! measured beside.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use forebay_bench::cpu;
use forebay_body::{Body, Piece, Pool};
use forebay_secret::JobKey;
use forebay_testkit::results::{Bar, Measurement, Samples, Side};
use forebay_testkit::stop;
use forebay_transport::{Address, Endpoint, EndpointOptions, IncomingCall, Security, Service};
use forebay_types::{NodeRank, PIECE_BYTES};
use forebay_wire::{JobMessage, Outcome};

use crate::bench::Bench;

/// Bytes of a body: a chunk.
const BODY_BYTES: u32 = 1 << 20;

/// Bodies of one run, and how many are under way at once.
const BODIES: u32 = 512;
const AT_ONCE: u32 = 4;

const DEADLINE: Duration = Duration::from_secs(60);

/// Measures every level, in turn.
pub fn measure(bench: &Bench) -> anyhow::Result<Measurement> {
    let key = || JobKey::from_bytes([7; 32]);
    let pairs = [Security::Off, Security::Auth(key()), Security::Seal(key())].map(Pair::start);
    let [off, auth, seal] = pairs;
    let pairs = [off?, auth?, seal?];
    let mut samples: [Samples; 3] = Default::default();
    let mut checksum = Samples::default();
    // The first run of each connects and fills the pools.
    for run in 0..=bench.runs(61) {
        stop::check()?;
        // Each begins as often as the others: what ran before leaves its caches.
        for turn in 0..pairs.len() {
            let level = (run + turn) % pairs.len();
            let seconds = pairs[level].cpu_seconds_per_gb()?;
            if run > 0 {
                samples[level].add(seconds);
            }
        }
        checksum.add(checksum_seconds_per_gb());
    }
    let [off, auth, seal] = samples;
    let (auth_ratio, seal_ratio) = (auth.over(&off), seal.over(&off));
    let mut measurement = Measurement::under(format!(
        "{BODIES} bodies of 1 MiB a run, {AT_ONCE} at once, between two endpoints over loopback, processor time of both; \
         {} runs of each level in turn, ratios run by run; checksums are made and verified on every level, off among them",
        off.len()
    ));
    measurement
        .bar(Bar::new("CPU a byte, auth against off", auth_ratio.median(), Side::AtMost, 1.03, "x"))
        .bar(Bar::new("CPU a byte, seal against off", seal_ratio.median(), Side::AtMost, 2.2, "x"))
        .figure("off_cpu_seconds_per_gb", off)
        .figure("auth_cpu_seconds_per_gb", auth)
        .figure("seal_cpu_seconds_per_gb", seal)
        .figure("checksums_of_both_ends_cpu_seconds_per_gb", checksum)
        .figure("auth_over_off", auth_ratio)
        .figure("seal_over_off", seal_ratio);
    Ok(measurement)
}

/// Two endpoints of one level. They end with their channels.
struct Pair {
    runs: Sender<()>,
    done: Receiver<anyhow::Result<()>>,
    _serving: tokio::sync::oneshot::Sender<()>,
}

impl Pair {
    fn start(security: Security) -> anyhow::Result<Self> {
        let listeners = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
        let mut addresses = Vec::new();
        for listener in &listeners {
            addresses.push(Address::Tcp { host: "127.0.0.1".to_owned(), ports: vec![listener.local_addr()?.port()] });
        }
        let options =
            |rank| EndpointOptions::new("bench", NodeRank(rank), addresses.clone(), Pool::new(64), security.clone());
        let service: Arc<dyn Service> = Arc::new(Bodies(vec![7; BODY_BYTES as usize].into()));
        let [root, leaf] = listeners;
        let (serving, served) = tokio::sync::oneshot::channel::<()>();
        let (at_root, at_leaf) = (options(0), options(1));
        let answers = Arc::clone(&service);
        std::thread::spawn(move || {
            on_runtime(async move {
                let _endpoint = Endpoint::start(at_root, root, answers)?;
                served.await.ok();
                Ok(())
            })
        });
        let (runs, to_run) = channel();
        let (tell, done) = channel();
        std::thread::spawn(move || on_runtime(ask_when_told(at_leaf, leaf, service, to_run, tell)));
        Ok(Self { runs, done, _serving: serving })
    }

    fn cpu_seconds_per_gb(&self) -> anyhow::Result<f64> {
        let before = cpu::of_this()?;
        self.runs.send(()).context("the asking end is gone")?;
        self.done.recv().context("the asking end is gone")??;
        Ok((cpu::of_this()? - before).as_secs_f64() / gigabytes())
    }
}

fn gigabytes() -> f64 {
    f64::from(BODIES) * f64::from(BODY_BYTES) / 1e9
}

fn on_runtime(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

async fn ask_when_told(
    options: EndpointOptions,
    listener: TcpListener,
    service: Arc<dyn Service>,
    runs: Receiver<()>,
    done: Sender<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let leaf = Endpoint::start(options, listener, service)?;
    // This thread has no other work between runs.
    while runs.recv().is_ok() {
        done.send(fetch_all(&leaf).await)?;
    }
    Ok(())
}

async fn fetch_all(leaf: &Endpoint) -> anyhow::Result<()> {
    for _ in 0..BODIES / AT_ONCE {
        let one = || fetch(leaf);
        tokio::try_join!(one(), one(), one(), one())?;
    }
    Ok(())
}

async fn fetch(leaf: &Endpoint) -> anyhow::Result<()> {
    let reply = leaf.call(NodeRank(0), JobMessage::Probe { payload_bytes: BODY_BYTES }, DEADLINE).await?;
    let body = reply.body.context("no body")?;
    if let Err(errno) = body.whole_bytes().await {
        bail!("a body failed: {errno}");
    }
    Ok(())
}

/// Answers with one block of memory, in pieces, as if it had just been read.
struct Bodies(Bytes);

impl Service for Bodies {
    fn handle(&self, call: IncomingCall) {
        call.reply.answer(Outcome::Body, Some(Body::whole(self.0.clone())));
    }
}

/// Of one end's making and the other's verifying.
fn checksum_seconds_per_gb() -> f64 {
    let piece = Bytes::from(vec![7; PIECE_BYTES]);
    let pieces = u64::from(BODIES) * u64::from(BODY_BYTES) / PIECE_BYTES as u64;
    let began = std::time::Instant::now();
    let sound = (0..pieces).filter(|_| std::hint::black_box(Piece::new(piece.clone())).is_sound()).count() as u64;
    assert_eq!(sound, pieces, "checksums that do not verify");
    began.elapsed().as_secs_f64() / gigabytes()
}
