//! The part of a job's status that its record alone has.

use std::time::{SystemTime, UNIX_EPOCH};

use forebay_launch::{JobDirectory, JobRecord};
use forebay_types::NodeRank;
use serde_json::Value;

/// Adds what the job's record alone has. A node without which the job came up, and that does not answer, is missing: not lost. The job is
/// as old as its start, not as its daemons.
pub fn complete(directory: &JobDirectory, status: &mut Value) {
    let Some(JobRecord { missing, started_unix_ms, .. }) = JobRecord::read(directory).ok().flatten() else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    status["job"]["uptime_ms"] = (now.as_millis() as u64).saturating_sub(started_unix_ms).into();
    for node in status["nodes"].as_array_mut().into_iter().flatten().filter(|node| node["state"] != "ready") {
        let rank = node["rank"].as_u64().and_then(|rank| u32::try_from(rank).ok()).map_or(NodeRank(u32::MAX), NodeRank);
        if let Some(why) = missing.get(&rank) {
            node["state"] = "missing".into();
            node["why"] = format!("it failed to start: {why}").into();
        }
    }
}
