//! The changes of a job's burst tier that had not landed when its daemons ended, as these have reported them.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::health::amounts::size;
use crate::output::{in_one_line, quoted_path};

/// Ranges of one file that are printed at most; `--json` has more.
const RANGES_PRINTED_MAX: usize = 4;

/// Files that are printed at most.
const FILES_PRINTED_MAX: usize = 20;

/// Of one node.
#[derive(Serialize, Deserialize, Debug)]
pub struct Left {
    node: u32,
    #[serde(default)]
    store: String,
    uncommitted_bytes: u64,
    #[serde(default)]
    has_unsent: bool,
    steps: u64,
    files: Vec<LeftFile>,
    more_files: u64,
}

#[derive(Serialize, Deserialize, Debug)]
struct LeftFile {
    path: String,
    #[serde(default)]
    missing_bytes: u64,
    missing: Vec<(u64, u64)>,
    #[serde(default)]
    more_ranges: u64,
}

/// A daemon's report of itself and those below it.
pub fn all(told: &Value) -> Vec<Left> {
    serde_json::from_value(told.clone()).unwrap_or_default()
}

/// Bytes and files.
pub fn amount(left: &[Left]) -> (u64, u64) {
    let bytes = |left: &Left| left.uncommitted_bytes + left.files.iter().map(|file| file.missing_bytes).sum::<u64>();
    let files = |left: &Left| left.files.len() as u64 + left.more_files;
    (left.iter().map(bytes).sum(), left.iter().map(files).sum())
}

/// Where the changes are kept and how they land: `Kept in STORE (250 MiB, 1 file). Land it: forebay salvage --burst-store STORE`.
/// `store` is the setting of the job, which stands for all nodes' stores.
pub fn kept(left: &[Left], store: Option<&str>) -> String {
    let named = left.iter().map(|left| left.store.as_str()).find(|store| !store.is_empty());
    let store = store.filter(|store| *store != "auto").or(named).unwrap_or("DIR");
    let amount = match amount(left) {
        (0, _) => String::new(),
        (bytes, 0) => format!(" ({})", size(bytes)),
        (bytes, 1) => format!(" ({}, 1 file)", size(bytes)),
        (bytes, files) => format!(" ({}, {files} files)", size(bytes)),
    };
    let (shown, quoted) = (in_one_line(store), quoted_path(Path::new(store)));
    format!(
        "Kept in {shown}{amount}. Land it: forebay salvage --burst-store {quoted}; the next job of this name with this store lands it, too"
    )
}

impl Left {
    /// One line for each of what there is.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.files.iter().take(FILES_PRINTED_MAX).map(LeftFile::line).collect();
        match self.files.len().saturating_sub(FILES_PRINTED_MAX) as u64 + self.more_files {
            0 => {}
            1 => lines.push("1 more file has not landed".to_owned()),
            more => lines.push(format!("{more} more files have not landed")),
        }
        match self.steps {
            0 => {}
            _ if !lines.is_empty() => {}
            1 => lines.push("1 change of names or attributes has not landed".to_owned()),
            steps => lines.push(format!("{steps} changes of names or attributes have not landed")),
        }
        if self.uncommitted_bytes > 0 {
            let Self { node, uncommitted_bytes: bytes, .. } = self;
            lines.push(format!(
                "{bytes} bytes that programs of node {node} wrote, and that were not committed, have not landed"
            ));
        }
        if self.has_unsent {
            lines.push(format!(
                "what programs of node {} stored in maps may not have landed: its kernel did not send it",
                self.node
            ));
        }
        lines
    }
}

impl LeftFile {
    fn line(&self) -> String {
        let bytes = self.missing_bytes;
        let printed = self.missing.iter().take(RANGES_PRINTED_MAX);
        let ranges: Vec<String> = printed.map(|(offset, len)| format!("{offset}+{len}")).collect();
        let more = if self.missing.len() > RANGES_PRINTED_MAX { ", ..." } else { "" };
        // Others may have named it.
        let path = in_one_line(&self.path);
        match ranges.is_empty() {
            true => format!("{path} has not landed"),
            false => format!("{path} has not landed: {bytes} bytes at {}{more}", ranges.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_are_named_with_their_ranges() {
        let told = json!([
            {"node": 0, "uncommitted_bytes": 0, "steps": 3, "more_files": 2, "files": [
                {"path": "/b/empty", "missing_bytes": 0, "missing": [], "more_ranges": 0},
                {"path": "/b/x", "missing_bytes": 15, "missing": [[0, 10], [20, 5]], "more_ranges": 0},
                {"path": "/b/y", "missing_bytes": 9, "missing": [[0, 1], [2, 1], [4, 1], [6, 1], [8, 1]], "more_ranges": 4},
            ]},
            {"node": 1, "uncommitted_bytes": 7, "has_unsent": true, "steps": 0, "more_files": 0, "files": []},
        ]);
        let lines: Vec<String> = all(&told).iter().flat_map(Left::lines).collect();
        assert_eq!(
            lines,
            [
                "/b/empty has not landed",
                "/b/x has not landed: 15 bytes at 0+10, 20+5",
                "/b/y has not landed: 9 bytes at 0+1, 2+1, 4+1, 6+1, ...",
                "2 more files have not landed",
                "7 bytes that programs of node 1 wrote, and that were not committed, have not landed",
                "what programs of node 1 stored in maps may not have landed: its kernel did not send it",
            ]
        );
        assert_eq!(
            kept(
                &all(
                    &json!([{"node": 0, "store": "/s/0", "uncommitted_bytes": 0, "steps": 1, "more_files": 0, "files": [
                {"path": "/b/x", "missing_bytes": 250u64 << 20, "missing": [], "more_ranges": 0}]}])
                ),
                Some("auto")
            ),
            "Kept in /s/0 (250 MiB, 1 file). Land it: forebay salvage --burst-store /s/0; the next job of this name with this store \
             lands it, too"
        );
        assert!(kept(&[], Some("/s")).starts_with("Kept in /s. Land it: "));
        assert_eq!(all(&Value::Null).len(), 0, "a job without a burst tier");
    }
}
