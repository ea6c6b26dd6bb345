//! The job that this host takes part in, as queries near the data see it: a daemon that answers, and the nodes that hold a file.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use forebay_launch::JobDirectory;
use forebay_offload::files::{FileSource, each_of_many};
use forebay_offload::{HOLDERS_FILES_MAX, HOLDERS_TIMEOUT, Made, Makers, files_holders_request};
use forebay_query::Collected;
use forebay_types::NodeRank;
use forebay_wire::QueryWants;
use serde_json::json;

use crate::cli::WherePlace;
use crate::commands::ask::ask_any;
use crate::commands::paths::{resolved, views, within_view};
use crate::jobs;
use crate::output::{tell, without_controls};
use crate::settings::Effective;

/// The job.
pub struct Near {
    directory: JobDirectory,
    wants: QueryWants,
}

impl Near {
    /// The job that there is, for queries that collect this; None if this host answers alone.
    ///
    /// # Errors
    /// Nodes were asked for, and there is no job.
    pub fn find(
        place: WherePlace,
        explains: bool,
        collected: Collected,
        effective: &Effective,
    ) -> anyhow::Result<Option<Self>> {
        let directory = match (place, jobs::find(effective)) {
            (WherePlace::Host, _) if !explains => return Ok(None),
            (_, Ok(directory)) => directory,
            (WherePlace::Host, Err(_)) => return Ok(None),
            (WherePlace::Auto, Err(_)) if effective.job()?.is_none() => return Ok(None),
            (_, Err(error)) => return Err(error.context("a query is answered near the data by the nodes of a job")),
        };
        let Collected { bytes: counts_bytes, columns: rows, sums: _, gramian, covariance, described } = collected;
        let gramian = gramian || covariance;
        Ok(Some(Self { directory, wants: QueryWants { counts_bytes, rows, gramian, described } }))
    }

    /// The nodes that can read each of some files as this host sees them; None if no node can.
    ///
    /// # Errors
    /// No daemon answers.
    pub fn makers(&self, sources: &[&FileSource]) -> anyhow::Result<Vec<Option<Makers>>> {
        let views = views(&self.directory);
        let files: Vec<_> =
            sources.iter().map(|source| Ok((*source, place(source, &views)?))).collect::<anyhow::Result<_>>()?;
        let paths: Vec<String> = files.iter().filter_map(|(_, path)| path.clone()).collect();
        let asked: Vec<&[String]> = paths.chunks(HOLDERS_FILES_MAX).collect();
        let found = each_of_many(asked.len(), |number| {
            let request = files_holders_request(asked[number], self.wants);
            let answer = ask_any(&self.directory, None, &request, HOLDERS_TIMEOUT)?;
            serde_json::from_value(answer).context("the answer cannot be decoded")
        })?;
        Ok(Makers::among(found, &files, answering_socket(&self.directory)?, self.wants))
    }
}

/// The path by which nodes know a file, which is that of its place; None if it is not valid UTF-8.
fn place(source: &FileSource, views: &[(NodeRank, PathBuf)]) -> anyhow::Result<Option<String>> {
    let path = std::path::absolute(source.path()).context("a path cannot be made absolute")?;
    let (_, path) = within_view(&path, views);
    Ok(resolved(&path).to_str().map(str::to_owned))
}

/// That of a daemon on this host that answers.
pub fn answering_socket(directory: &JobDirectory) -> anyhow::Result<PathBuf> {
    let mut sockets = directory.socket_ranks().into_iter().map(|rank| directory.socket(rank));
    let is_there =
        |socket: &PathBuf| forebay_control::ask(socket, &json!({"command": "ping"}), Duration::from_secs(1)).is_ok();
    sockets.find(is_there).context("no daemon of the job answers on this host")
}

/// Says which nodes were lost.
pub fn note_lost(made: &Made) {
    for lost in &made.lost {
        tell!("forebay: note: {}; other nodes computed its parts", without_controls(lost));
    }
}
