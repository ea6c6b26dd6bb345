//! Whether a statement is answered near the data, and what came of it.

use std::fmt;
use std::fs;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::bail;
use datafusion::physical_plan::ExecutionPlan;
use tokio::task::JoinHandle;

use crate::cli::{Arguments, Place};
use crate::cut::cut;
use crate::daemon::Daemon;
use crate::gathered::{Gathered, Tally};
use crate::pieces;

/// Of tables that are no larger, `auto` reads all: asking takes longer.
const WEIGHED_BYTES_MIN: u64 = 8 << 20;

/// The bytes read and moved.
pub struct Near {
    tally: Arc<Tally>,
    /// Bytes of the files that were cut out.
    table_bytes: u64,
}

/// The plan with its fragments carried out by the nodes that hold their files, as far as that is asked for and possible.
///
/// # Errors
/// Nodes were asked for, and none holds the files.
pub async fn planned(
    plan: Arc<dyn ExecutionPlan>,
    arguments: &Arguments,
) -> anyhow::Result<(Arc<dyn ExecutionPlan>, Near)> {
    let mut near = Near { tally: Arc::default(), table_bytes: 0 };
    let Some(socket) = arguments.daemon.clone().filter(|_| arguments.place != Place::Host) else {
        if arguments.place == Place::Data {
            bail!("SQL is answered near the data only within a job: forebay query --where data");
        }
        return Ok((plan, near));
    };
    let daemon = Arc::new(Daemon { socket, views: arguments.views.clone() });
    let mut fragments = vec![];
    cut(Arc::clone(&plan), &mut |fragment| {
        fragments.push(fragment);
        Ok(None)
    })?;
    let mut makings = vec![];
    for fragment in fragments {
        let files = fragment.files();
        let bytes: u64 = files.iter().map(|file| file.object_meta.size).sum();
        let found = match arguments.place {
            Place::Auto if bytes < WEIGHED_BYTES_MIN => None,
            // A user who left the choice to us gets an answer, whatever state the job is in.
            Place::Auto => pieces::of(&fragment, &daemon).await.unwrap_or(None),
            _ => pieces::of(&fragment, &daemon).await?,
        };
        if found.is_none() && arguments.place == Place::Data {
            let first = files.first().map_or_else(String::new, |file| format!("/{}", file.object_meta.location));
            bail!("no node of the job holds the table of {first}; --where host reads it here");
        }
        near.table_bytes += found.as_ref().map_or(0, |_| bytes);
        makings.push(found);
    }
    let mut makings = makings.into_iter();
    let plan = cut(plan, &mut |fragment| {
        let Some(found) = makings.next().flatten() else { return Ok(None) };
        let (daemon, tally) = (Arc::clone(&daemon), Arc::clone(&near.tally));
        let gathered: Arc<dyn ExecutionPlan> = Arc::new(Gathered::new(fragment, found, daemon, tally));
        Ok(Some(gathered))
    })?;
    Ok((plan, near))
}

impl Near {
    /// Shows how far it is, where somebody looks, until it is dropped.
    pub fn progress(&self) -> Progress {
        let tally = Arc::clone(&self.tally);
        let shows = std::io::stderr().is_terminal();
        Progress(shows.then(|| tokio::spawn(shown(tally))))
    }
}

/// The display of progress.
pub struct Progress(Option<JoinHandle<()>>);

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(shown) = &self.0 {
            shown.abort();
            eprint!("\r\x1b[K");
        }
    }
}

async fn shown(tally: Arc<Tally>) {
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let pieces = match of(&tally.pieces) {
            0 => String::new(),
            all => format!(", {} of {all} pieces made by nodes", of(&tally.made)),
        };
        eprint!("\r\x1b[Kforebay-sql: {} MB read here{pieces}", read_bytes() / 1_000_000);
    }
}

/// The bytes that this process has read so far, its own program included; 0 where the kernel does not say.
fn read_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}

impl fmt::Display for Near {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let Tally { plan_bytes, answer_bytes, by, .. } = &*self.tally;
        for (who, (pieces, bytes)) in by.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let who = who.map_or_else(|| "this host".to_owned(), |rank| format!("node {rank}"));
            writeln!(formatter, "made by {who}: {pieces} pieces of {bytes} bytes")?;
        }
        let (plans, answers, table) = (of(plan_bytes), of(answer_bytes), self.table_bytes);
        if table > 0 {
            writeln!(
                formatter,
                "moved: {plans} bytes of plans, {answers} bytes of answers, for tables of {table} bytes"
            )?;
        }
        write!(formatter, "read here: {} bytes", read_bytes())
    }
}
