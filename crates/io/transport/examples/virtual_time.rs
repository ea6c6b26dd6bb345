//! Measures what nodes in virtual time cost in processor time: a body, a small request, and a connection that does nothing.
//!
//! Endpoints on one memory network and one runtime whose clock stands still while anybody runs, as in the simulator. Run
//! with `cargo run --release -p forebay-transport --example virtual_time`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use forebay_body::{Body, Pool};
use forebay_transport::life::Life;
use forebay_transport::memory::Network;
use forebay_transport::{Endpoint, EndpointOptions, IncomingCall, Security, Service};
use forebay_types::NodeRank;
use forebay_wire::{JobMessage, Message, Outcome};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

const NODES: u32 = 300;
const DEADLINE: Duration = Duration::from_secs(30);

/// Answers probes from one block of memory.
struct Probes(Bytes);

impl Service for Probes {
    fn handle(&self, call: IncomingCall) {
        if let Message::Job(JobMessage::Probe { payload_bytes }) = call.request.message {
            let body = Body::whole(self.0.slice(..payload_bytes as usize));
            call.reply.answer(Outcome::Body, Some(body));
        }
    }
}

fn main() -> Result<()> {
    for latency_ms in [0, 1] {
        println!("{latency_ms} ms from node to node");
        Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(measure(latency_ms))?;
    }
    Ok(())
}

async fn measure(latency_ms: u64) -> Result<()> {
    let network = match latency_ms {
        0 => Network::new(NODES),
        _ => Network::new(NODES).with_latency(move |_, _| Duration::from_millis(latency_ms)),
    };
    let service = Arc::new(Probes(vec![7; 1 << 20].into()));
    let start = |rank| {
        let made = EndpointOptions::new("bench", NodeRank(rank), Vec::new(), Pool::new(64), Security::Off);
        let options = EndpointOptions { life: Some(Life::new()), ..made };
        Endpoint::start_memory(options, &network, Arc::clone(&service) as _)
    };
    let nodes: Vec<Endpoint> = (0..NODES).map(start).collect();
    calls(&nodes[0], "call with a body of 1 MiB", 1 << 20, 2_000).await?;
    calls(&nodes[0], "call with a body of 1 KiB", 1 << 10, 50_000).await?;
    let cpu = cpu_seconds();
    let pairs: Vec<_> = (0..NODES).flat_map(|from| (1..=8).map(move |to| (from, (from + to) % NODES))).collect();
    for (from, to) in &pairs {
        probe(&nodes[*from as usize], NodeRank(*to), 64).await?;
    }
    println!(
        "{} links: {:.1} us each to make and ask once",
        pairs.len(),
        (cpu_seconds() - cpu) * 1e6 / pairs.len() as f64
    );
    let (cpu, seconds) = (cpu_seconds(), 3_600);
    sleep(Duration::from_secs(seconds)).await;
    let per_second_ns = (cpu_seconds() - cpu) * 1e9 / (seconds * pairs.len() as u64) as f64;
    println!("an idle link: {per_second_ns:.3} ns a second");
    Ok(())
}

async fn calls(node: &Endpoint, what: &str, payload_bytes: u32, times: u32) -> Result<()> {
    let (begun, cpu) = (Instant::now(), cpu_seconds());
    for _ in 0..times {
        probe(node, NodeRank(1), payload_bytes).await?;
    }
    let virtual_ms = begun.elapsed().as_secs_f64() * 1e3 / f64::from(times);
    let cpu_us = (cpu_seconds() - cpu) * 1e6 / f64::from(times);
    println!("a {what}: {cpu_us:.1} us of processor, {virtual_ms:.2} ms of virtual time");
    Ok(())
}

async fn probe(node: &Endpoint, to: NodeRank, payload_bytes: u32) -> Result<()> {
    let reply = node.call(to, JobMessage::Probe { payload_bytes }, DEADLINE).await?;
    reply.body.context("no body")?.whole_bytes().await?;
    Ok(())
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
