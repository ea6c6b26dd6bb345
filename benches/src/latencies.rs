//! The part of a daemon's processor time that recording latencies takes: the number that it recorded, times the processor time of one
//! recording in this process.

use anyhow::Context;
use forebay_latency::Register;
use serde_json::Value;

use crate::cpu;

/// Recordings that are timed by themselves.
const RECORDINGS: u64 = 2_000_000;

/// Processor time of one recording, nanoseconds, on one thread.
///
/// # Errors
/// When the kernel does not tell.
pub fn recording_ns() -> anyhow::Result<f64> {
    let register = Register::new("setlkw");
    let before = cpu::of_this()?;
    for number in 0..RECORDINGS {
        let started = register.begin("read", number, 1);
        register.end(number, started);
    }
    Ok((cpu::of_this()? - before).as_nanos() as f64 / RECORDINGS as f64)
}

/// Latencies that a daemon has recorded, from `latency` of its node in `status --json`.
///
/// # Errors
/// When there are none.
pub fn recorded(latency: &Value) -> anyhow::Result<u64> {
    let places = latency.as_object().context("status has no latencies")?;
    let kinds = places.values().filter_map(Value::as_object).flat_map(|kinds| kinds.values());
    Ok(kinds.filter_map(|latency| latency["count"].as_u64()).sum())
}
