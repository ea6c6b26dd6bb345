//! The document that `up` sends to the daemons it starts: one for all of them, in a file or on their standard input. On
//! standard input the line with the job's key goes before it (`carried_key`); the job spec itself holds no secret.
//!
//! It is complete: a daemon that has a job spec looks neither at its environment nor at a configuration file, which may
//! differ from host to host.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use forebay_daemon::JobLabels;
use forebay_launch::{MemoryFile, NodeAddress, Ports, Process, ProcessSpace, StartId, ViewLayout};
use forebay_secret::Zeroizing;
use forebay_wire::message::PROTOCOL_VERSION;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::carried_key::{self, CarriedKey};

/// A job spec, bytes: a million nodes with long names.
const JOB_SPEC_BYTES_MAX: u64 = 256 << 20;

/// The version of this program; daemons of one job are of one build.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The job spec, the same for all daemons of a job.
#[derive(Serialize, Deserialize, Debug)]
pub struct JobSpec {
    version: String,
    protocol: u16,
    /// The job's name.
    pub job: String,
    /// Which of its starts.
    #[serde(default)]
    pub start_id: StartId,
    /// The job's directory, the same on every host.
    pub job_directory: PathBuf,
    /// The nodes in the order of their ranks.
    pub nodes: Vec<NodeAddress>,
    /// Where those of them listen that name no port of their own.
    pub ports: Ports,
    /// Where their views are, below the directory that the settings name.
    pub view_layout: ViewLayout,
    /// The switches that the nodes are on, by numbers; empty where that is not known.
    #[serde(default)]
    pub switches: Vec<u32>,
    /// The labels of metrics.
    #[serde(default)]
    pub labels: JobLabels,
    /// The job's script, with which the job ends, where its scheduler does not end the daemons.
    #[serde(default)]
    pub script: Option<Script>,
    /// Directories on nodes' own disks that the environment of `up` names.
    #[serde(default)]
    pub node_local: BTreeMap<String, String>,
    /// The settings that are not at their defaults, as text.
    pub settings: BTreeMap<String, Vec<String>>,
}

/// The build that wrote a job spec.
#[derive(Deserialize)]
struct Build {
    version: String,
    /// 0 where builds did not write it.
    #[serde(default)]
    protocol: u16,
}

/// The script of a job, and the host where it runs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Script {
    /// The process.
    pub process: Process,
    /// Where its number counts.
    pub space: ProcessSpace,
}

impl JobSpec {
    /// A job spec of this version.
    pub fn new(
        job: String,
        job_directory: PathBuf,
        nodes: Vec<NodeAddress>,
        ports: Ports,
        view_layout: ViewLayout,
        settings: BTreeMap<String, Vec<String>>,
    ) -> Self {
        Self {
            version: VERSION.to_owned(),
            protocol: PROTOCOL_VERSION,
            job,
            start_id: StartId::default(),
            job_directory,
            nodes,
            ports,
            view_layout,
            switches: vec![],
            labels: JobLabels::default(),
            script: None,
            node_local: BTreeMap::new(),
            settings,
        }
    }

    /// Writes it to a file.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        std::fs::write(path, self.text()?).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The key and the job spec, for a standard input.
    pub fn with_key(&self, key: Option<CarriedKey>) -> anyhow::Result<MemoryFile> {
        Ok(MemoryFile::new("forebay-job-spec", &[&carried_key::line(key)?, &self.text()?])?)
    }

    /// Reads it from a file in which the key comes before it.
    pub fn read_keyed(path: &Path) -> anyhow::Result<(Self, Option<CarriedKey>)> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        let file = opened.map(std::fs::File::from).with_context(|| {
            format!(
                "{host} cannot read {}, where forebay up left the job spec; all hosts must see it, or start the nodes by ssh: \
                 --launcher ssh",
                path.display()
            )
        })?;
        let found = file.metadata().with_context(|| format!("cannot look at {}", path.display()))?;
        let is_own = found.is_file() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0;
        ensure!(
            is_own,
            "{} on {host} is no file of mode 0600 of this user, as forebay up makes it: somebody else may have put it there",
            path.display()
        );
        let refused = || format!("{} is not a job spec of forebay up", path.display());
        let key = CarriedKey::of_line(&carried_key::read_line(&file).with_context(refused)?)?;
        let mut text = Vec::new();
        (&file).take(JOB_SPEC_BYTES_MAX).read_to_end(&mut text).with_context(refused)?;
        Ok((Self::parse(&text).with_context(refused)?, key))
    }

    fn text(&self) -> anyhow::Result<Vec<u8>> {
        serde_json::to_vec(self).context("cannot encode the job spec")
    }

    /// Reads it from a file, `-` for standard input; there the key comes before it.
    pub fn read(path: &Path) -> anyhow::Result<(Self, Option<CarriedKey>)> {
        let refused = || format!("{} is not a job spec of forebay up", path.display());
        let key =
            if path == Path::new("-") { CarriedKey::of_line(&read_key_line().with_context(refused)?)? } else { None };
        Ok((Self::parse(&read_input(path)?).with_context(refused)?, key))
    }

    /// Decodes it.
    pub fn parse(text: &[u8]) -> anyhow::Result<Self> {
        // Before the rest, which another build may have written otherwise.
        let Build { version, protocol } = serde_json::from_slice(text)?;
        ensure!(
            version == VERSION && protocol == PROTOCOL_VERSION,
            "it is of version {version} (protocol {protocol}), this program is of version {VERSION} (protocol {PROTOCOL_VERSION}): \
             start the same build on every host"
        );
        Ok(serde_json::from_slice(text)?)
    }
}

/// The line on standard input that is before a job spec. It is read past the buffer of `stdin`, which is never wiped.
pub fn read_key_line() -> anyhow::Result<Zeroizing<Vec<u8>>> {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().context("cannot read standard input")?;
    carried_key::read_line(std::fs::File::from(stdin))
}

/// The contents of a file, of standard input for `-`.
pub fn read_input(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().take(JOB_SPEC_BYTES_MAX).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(JOB_SPEC_BYTES_MAX).read_to_end(&mut bytes))
    };
    read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_spec_of_another_version_is_refused() {
        let nodes = vec![NodeAddress { host: "n1".into(), port: 5 }];
        let directory = "/tmp/forebay-0/job".into();
        let ports = Ports::named(5);
        let spec = JobSpec::new("job".into(), directory, nodes.clone(), ports, ViewLayout::Numbered, BTreeMap::new());
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(JobSpec::parse(text.as_bytes()).unwrap().nodes, nodes);
        // The rest, which another build may write otherwise, is not looked at.
        let other = text.replace(VERSION, "99.0.0").replace("view_layout", "layout");
        let refused = JobSpec::parse(other.as_bytes()).unwrap_err().to_string();
        assert!(refused.contains("version 99.0.0 (protocol ") && refused.contains(&format!("version {VERSION} (")));
        let own = format!("\"protocol\":{PROTOCOL_VERSION}");
        let refused = JobSpec::parse(text.replace(&own, "\"protocol\":9999").as_bytes()).unwrap_err().to_string();
        let both = format!("(protocol 9999), this program is of version {VERSION} (protocol {PROTOCOL_VERSION})");
        assert!(refused.contains(&both), "{refused}");
        let refused = JobSpec::parse(text.replace(&format!("{own},"), "").as_bytes()).unwrap_err().to_string();
        assert!(refused.contains("(protocol 0)"), "{refused}");
        assert!(JobSpec::parse(b"{}").is_err());
    }

    #[test]
    fn a_file_that_others_may_have_put_there_is_no_job_spec() {
        use std::os::unix::fs::PermissionsExt;
        let temporary = tempfile::tempdir().unwrap();
        let spec = JobSpec::new(
            "job".into(),
            "/tmp/job".into(),
            vec![],
            Ports::named(5),
            ViewLayout::Numbered,
            BTreeMap::new(),
        );
        let path = temporary.path().join("spec");
        std::fs::write(&path, [&carried_key::line(None).unwrap()[..], &spec.text().unwrap()].concat()).unwrap();
        let allow = |mode: u32| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        allow(0o600);
        assert_eq!(JobSpec::read_keyed(&path).unwrap().0.job, "job");
        let link = temporary.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(JobSpec::read_keyed(&link).is_err());
        allow(0o640);
        let refused = JobSpec::read_keyed(&path).unwrap_err().to_string();
        assert!(refused.contains("is no file of mode 0600 of this user"), "{refused}");
        allow(0o600);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
            assert!(JobSpec::read_keyed(&path).is_err());
        }
        let pipe = temporary.path().join("pipe");
        let (kind, mode) = (rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        assert!(JobSpec::read_keyed(&pipe).is_err(), "and nobody waits for its writer");
    }

    /// Cut short or with a character changed at any place, it is refused, or one that is written as it was read.
    #[test]
    fn a_spoiled_job_spec_is_refused_or_another() {
        let nodes = vec![NodeAddress { host: "n1".into(), port: 5 }, NodeAddress { host: "::1".into(), port: 7 }];
        let settings = BTreeMap::from([("export".to_owned(), vec!["/soft".to_owned(), "/a b".to_owned()])]);
        let layout = ViewLayout::ByHost;
        let spec = JobSpec::new("job".into(), "/tmp/job".into(), nodes, Ports::named(5), layout, settings);
        let text = spec.text().unwrap();
        for at in 0..text.len() {
            assert!(JobSpec::parse(&text[..at]).is_err(), "cut at {at}");
            for letter in *b"0-\"[]{}\\,\xff" {
                let changed = [&text[..at], &[letter], &text[at + 1..]].concat();
                let Ok(read) = JobSpec::parse(&changed) else { continue };
                let written = read.text().unwrap();
                assert_eq!(JobSpec::parse(&written).unwrap().text().unwrap(), written);
            }
        }
    }
}
