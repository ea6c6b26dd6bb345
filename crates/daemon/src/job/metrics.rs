//! This node's numbers as lines of a file, for graphs.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::status::NodeStatus;
use crate::read::ReadParts;
use crate::shared::node::Node;
use crate::write::WriteParts;

/// Metrics are not written more often than this: they are for graphs.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Writes this node's object of `status --json` as a line to the file that the options name, as long as the daemon runs.
pub async fn write_regularly(node: Arc<Node>, read: Arc<ReadParts>, write: Option<Arc<WriteParts>>) {
    let Some(file) = &node.options.metrics_file else { return };
    let path = file.with_extension(format!("{}.jsonl", node.rank()));
    let mut ticks = tokio::time::interval(node.options.metrics_interval.max(INTERVAL_MIN));
    loop {
        ticks.tick().await;
        // Fails only for maps whose keys are no text.
        let mut line = serde_json::to_string(&NodeStatus::of(&node, &read, write.as_deref())).unwrap_or_default();
        line.push('\n');
        let to = path.clone();
        let written = node.block(move || append(&to, &line)).await;
        if let Some(Err(error)) = written {
            tracing::warn!(path = %path.display(), %error, "writing metrics failed; no more are written");
            return;
        }
    }
}

fn append(path: &Path, line: &str) -> std::io::Result<()> {
    std::fs::OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
}
