//! The status of a job: the daemons' answer, what the job's record adds to it, and the overview of both.

use std::time::Duration;

use forebay_launch::JobDirectory;
use serde_json::{Value, json};

use crate::commands::ask::{ask_any, ask_hosts};
use crate::health::Overview;
use crate::recorded;

/// How long the nodes may take to say how they are: it goes down the tree and back.
const STATUS_TIMEOUT: Duration = Duration::from_secs(15);

/// The answer of the daemons, and the overview of it.
pub fn ask(directory: &JobDirectory, local_only: bool) -> anyhow::Result<(Value, Overview)> {
    let mut status = match ask_any(directory, None, &json!({"command": "status"}), STATUS_TIMEOUT) {
        Ok(status) => status,
        Err(error) if local_only => return Err(error),
        Err(error) => ask_hosts(directory)?.ok_or(error)?,
    };
    recorded::complete(directory, &mut status);
    let overview = Overview::of(&directory.job(), &status);
    Ok((status, overview))
}
