//! Measures the transport over loopback: round trips by payload, processor time by gigabyte and by small request.
//!
//! Two endpoints, each on a one-thread runtime of its own as in the daemon. Processor time is of both ends together.
//! Run with `cargo run --release -p forebay-transport --example round_trip -- auth` (or `seal`; without a word: `off`).

use std::future::Future;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use forebay_body::{Body, Pool};
use forebay_secret::JobKey;
use forebay_transport::{Address, Endpoint, EndpointOptions, IncomingCall, Security, Service};
use forebay_types::{NodeRank, PIECE_BYTES};
use forebay_wire::{JobMessage, Message, Outcome};
use rustix::time::{ClockId, clock_gettime};

const PAYLOADS_BYTES: [u32; 7] = [64, 4 << 10, 16 << 10, 64 << 10, 128 << 10, 1 << 20, 4 << 20];
const ROUND_TRIPS: usize = 2000;
const DEADLINE: Duration = Duration::from_secs(30);

/// Answers probes from one block of memory, in pieces, as a cache would.
struct Probes(Bytes);

impl Service for Probes {
    fn handle(&self, call: IncomingCall) {
        let Message::Job(JobMessage::Probe { payload_bytes }) = call.request.message else {
            return;
        };
        let body = Body::filling(payload_bytes as usize);
        for start in (0..payload_bytes as usize).step_by(PIECE_BYTES) {
            body.push(self.0.slice(start..(start + PIECE_BYTES).min(payload_bytes as usize)));
        }
        call.reply.answer(Outcome::Body, Some(body));
    }
}

fn main() -> Result<()> {
    let listeners = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    let mut addresses = Vec::new();
    for listener in &listeners {
        addresses.push(Address::Tcp { host: "127.0.0.1".to_owned(), ports: vec![listener.local_addr()?.port()] });
    }
    let service: Arc<dyn Service> = Arc::new(Probes(vec![7; 4 << 20].into()));
    let [root, leaf] = listeners;
    let options = EndpointOptions::new("bench", NodeRank(0), addresses.clone(), Pool::new(64), security()?);
    let served = Arc::clone(&service);
    std::thread::spawn(move || {
        on_runtime(async move {
            let _endpoint = Endpoint::start(options, root, served)?;
            std::future::pending().await
        })
    });
    let options = EndpointOptions::new("bench", NodeRank(1), addresses, Pool::new(64), security()?);
    on_runtime(async move {
        let leaf = Endpoint::start(options, leaf, service)?;
        println!("blocking sockets, 64 bytes: p50 {:.1} us", blocking_round_trip_us()?);
        round_trips(&leaf).await?;
        bulk(&leaf).await?;
        small_requests(&leaf).await?;
        leaf.shutdown().await;
        Ok(())
    })
}

fn security() -> Result<Security> {
    let key = JobKey::from_bytes([7; 32]);
    match std::env::args().nth(1).as_deref() {
        None | Some("off") => Ok(Security::Off),
        Some("auth") => Ok(Security::Auth(key)),
        Some("seal") => Ok(Security::Seal(key)),
        Some(other) => anyhow::bail!("'{other}' is none of off, auth and seal"),
    }
}

fn on_runtime(work: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

async fn probe(leaf: &Endpoint, payload_bytes: u32) -> Result<()> {
    let reply = leaf.call(NodeRank(0), JobMessage::Probe { payload_bytes }, DEADLINE).await?;
    reply.body.context("no body")?.whole_bytes().await?;
    Ok(())
}

async fn round_trips(leaf: &Endpoint) -> Result<()> {
    println!("payload bytes   p50 us   p99 us");
    for payload_bytes in PAYLOADS_BYTES {
        let rounds = if payload_bytes < 1 << 20 { ROUND_TRIPS } else { ROUND_TRIPS / 10 };
        let mut times_us = Vec::with_capacity(rounds);
        for round in 0..rounds + rounds / 10 {
            let start = Instant::now();
            probe(leaf, payload_bytes).await?;
            if round >= rounds / 10 {
                times_us.push(start.elapsed().as_secs_f64() * 1e6);
            }
        }
        times_us.sort_by(f64::total_cmp);
        println!("{payload_bytes:13} {:8.1} {:8.1}", times_us[rounds / 2], times_us[rounds * 99 / 100]);
    }
    Ok(())
}

/// The time of the machine itself for 64 bytes there and back between two threads, at this moment.
fn blocking_round_trip_us() -> Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    std::thread::spawn(move || {
        let mut bytes = [0; 64];
        while far.read_exact(&mut bytes).is_ok() && far.write_all(&bytes).is_ok() {}
    });
    let mut times_us = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let start = Instant::now();
        near.write_all(&[7; 64])?;
        near.read_exact(&mut [0; 64])?;
        times_us.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times_us.sort_by(f64::total_cmp);
    Ok(times_us[ROUND_TRIPS / 2])
}

/// Four bodies of 1 MiB at a time.
async fn bulk(leaf: &Endpoint) -> Result<()> {
    let bodies = 4096u32;
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    for _ in 0..bodies / 4 {
        let one = || probe(leaf, 1 << 20);
        tokio::try_join!(one(), one(), one(), one())?;
    }
    let gigabytes = f64::from(bodies) * f64::from(1u32 << 20) / 1e9;
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    println!("1 MiB bodies, 4 at a time: {:.2} CPU s/GB, {:.2} GB/s", cpu / gigabytes, gigabytes / wall);
    Ok(())
}

/// 64 requests of 1 KiB at a time.
async fn small_requests(leaf: &Endpoint) -> Result<()> {
    let (batches, batch) = (1000, 64);
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    for _ in 0..batches {
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..batch {
            let leaf = leaf.clone();
            calls.spawn(async move { probe(&leaf, 1 << 10).await });
        }
        while let Some(outcome) = calls.join_next().await {
            outcome??;
        }
    }
    let requests = f64::from(batches * batch);
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    println!("1 KiB bodies, 64 at a time: {:.1} CPU us each, {:.0} a second", cpu / requests * 1e6, requests / wall);
    Ok(())
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
