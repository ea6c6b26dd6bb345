//! The end of a job's nodes on other hosts, by the remote shell: for `down`, and for an `up` that fails.

use std::collections::BTreeSet;
use std::time::Duration;

use forebay_keeper::UP_TOLD_WITHIN;
use forebay_launch::{FailedCall, JobDirectory, JobRecord, RemoteCall};

use crate::commands::job::up_report::named;
use crate::exit::NOT_UP;
use crate::patience::after_a_second;

/// How long a host may take to end what runs there when it is asked by the remote shell.
pub const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The outcome of asking hosts to end their nodes.
#[derive(Default)]
pub struct HostEnds {
    /// Hosts where all has ended.
    pub ended: Vec<String>,
    /// Hosts where that failed, with the reason.
    pub failed: Vec<(String, String)>,
    /// Hosts where nothing of the job was found: it has ended, or the remote shell sees another directory than the nodes.
    pub without: Vec<String>,
}

impl HostEnds {
    /// The conclusion about a host that has nothing of the job.
    pub fn doubt(directory: &JobDirectory) -> String {
        format!(
            "nothing of the job was found there: it has ended, or its nodes see another {} than the remote shell does; a node \
             that still begins there ends within {:?} by itself",
            directory.base().display(),
            UP_TOLD_WITHIN
        )
    }
}

/// Ends and cleans up on all hosts of a job, all at once, within `timeout`: what belongs to the start of the record, and no other job of
/// the name.
pub fn end_on_hosts(call: &RemoteCall, record: &JobRecord, directory: &JobDirectory, timeout: Duration) -> HostEnds {
    let hosts: BTreeSet<&str> = record.nodes.iter().map(|node| node.host.as_str()).collect();
    let hosts: Vec<&str> = hosts.into_iter().collect();
    let named = named(&hosts);
    let _told = after_a_second(move || format!("ending what runs on {named}; a host may take {timeout:?}"));
    let base = directory.base().display().to_string();
    let start = record.start_id.to_string();
    let of_start = ["--of-start", &start];
    let arguments = ["down", "--local-only", "--must-be-up", "--directory", &base, "--job", &record.job];
    let arguments = [&arguments[..], &of_start].concat();
    let failed = call.run_on_all(&hosts, &arguments, timeout);
    let ended = hosts.iter().filter(|host| !failed.iter().any(|failed| failed.host == **host));
    let ended = ended.map(|host| (*host).to_owned()).collect();
    let (without, failed): (Vec<_>, Vec<_>) =
        failed.into_iter().partition(|failed| failed.code == Some(i32::from(NOT_UP)));
    let failed = failed.into_iter().map(|FailedCall { host, reason, .. }| (host, reason)).collect();
    HostEnds { ended, failed, without: without.into_iter().map(|failed| failed.host).collect() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use forebay_launch::{Launched, NodeAddress, Process, ProcessSpace, Progress, Reach, StartId};

    use super::*;

    #[test]
    fn a_host_has_nothing_of_the_job_by_exit_status_alone() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = JobDirectory::create(&temporary.path().join("jobs"), "job").unwrap().unwrap();
        let said = "echo 'login: the licence server is up on this host' >&2";
        let script = format!("case $0 in ended) ;; without) {said}; exit {NOT_UP} ;; failed) {said}; exit 1 ;; esac");
        let shell = ["sh", "-c", &script].map(str::to_owned).to_vec();
        let call = RemoteCall { reach: Reach::by_shell(&shell), program: "forebay".into() };
        let nodes = ["ended", "failed", "without"].map(|host| NodeAddress { host: host.to_owned(), port: 1 }).to_vec();
        let record = JobRecord {
            job: "job".to_owned(),
            start_id: StartId::default(),
            progress: Progress::Ready,
            started_by: Process::this(),
            started_in: ProcessSpace::of_this(),
            started_unix_ms: 0,
            launched: Launched::Local,
            program: "forebay".into(),
            nodes,
            views: vec![],
            missing: BTreeMap::new(),
            start: None,
            settings: serde_json::Value::Null,
        };
        let HostEnds { ended, failed, without } = end_on_hosts(&call, &record, &directory, Duration::from_secs(60));
        let failed: Vec<String> = failed.into_iter().map(|(host, _)| host).collect();
        assert_eq!(
            (ended, failed, without),
            (vec!["ended".to_owned()], vec!["failed".to_owned()], vec!["without".to_owned()])
        );
    }
}
