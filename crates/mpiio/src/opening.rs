//! What the ranks of a file agree on when they open it: rank 0 looks, decides and tells the others.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::group::Group;
use crate::hints::{self, Choice, Hints};
use crate::network::{Network, NetworkFile, switches_of_names};
use crate::plan::numbered;
use crate::say;
use crate::storage::Access;

/// Bytes of a host's name that are told; longer ones are cut.
const HOST_BYTES: usize = 64;

/// Bytes of its switches' names, as Slurm puts them.
const ADDRESS_BYTES: usize = 192;

/// Bytes of a file that describes a network: some 60 for each of 65,536 hosts, and a measured matrix.
const TOPOLOGY_MAX_BYTES: u64 = 64 << 20;

/// Prefixes by which ROMIO names a driver for files that POSIX can open.
const POSIX_PREFIXES: [&str; 6] = ["ufs:", "nfs:", "lustre:", "xfs:", "gpfs:", "panfs:"];

/// Bytes of a `ROMIO_HINTS` file that are read.
const ROMIO_HINTS_MAX_BYTES: u64 = 64 << 10;

/// How a program opens a file.
#[derive(Debug)]
pub struct Opening<'a> {
    /// As the program names it.
    pub name: &'a [u8],
    /// For what.
    pub access: Access,
    /// The hints of its `MPI_Info`.
    pub hints: &'a [(String, String)],
    /// The host of this rank.
    pub host: &'a str,
    /// The switches that this host is below, from the top down, where Slurm tells.
    pub switches: &'a [&'a str],
    /// Where records of runs lie, if they are kept.
    pub records: Option<&'a Path>,
}

/// What holds for all ranks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Agreement {
    /// The file's absolute path, as bytes.
    path: Vec<u8>,
    /// Its inode.
    pub inode: u64,
    /// What rank 0 resolved.
    pub hints: Hints,
    /// What rank 0 read of the network.
    network: Option<NetworkFile>,
}

impl Agreement {
    /// The file's absolute path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(std::ffi::OsString::from_vec(self.path.clone()))
    }
}

/// What all ranks agree on; `None` if nothing is to be aggregated.
///
/// # Errors
/// [`Error::Communication`], [`Error::Message`].
pub fn agree<G: Group>(group: &G, opening: &Opening<'_>) -> Result<Option<Agreement>, Error> {
    let own = if group.rank() == 0 { decide(opening) } else { None };
    let told = group.broadcast(serde_json::to_vec(&own).map_err(|_| Error::Message)?)?;
    serde_json::from_slice(&told).map_err(|_| Error::Message)
}

/// The path in a file's name, which may begin with the driver that ROMIO is to use.
#[must_use]
pub fn path_of(name: &[u8]) -> &Path {
    let path = POSIX_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix.as_bytes()));
    Path::new(OsStr::from_bytes(path.unwrap_or(name)))
}

/// What rank 0 makes of the hints of the program.
///
/// # Errors
/// [`Error::Communication`], [`Error::Message`].
pub fn agree_on_hints<G: Group>(group: &G, said: &[(String, String)]) -> Result<Hints, Error> {
    let own = if group.rank() == 0 { serde_json::to_vec(&resolve(said)).map_err(|_| Error::Message)? } else { vec![] };
    serde_json::from_slice(&group.broadcast(own)?).map_err(|_| Error::Message)
}

fn resolve(said: &[(String, String)]) -> Hints {
    let variable = |name: &str| std::env::var(name).ok();
    let romio_file = variable("ROMIO_HINTS").and_then(|path| read_start(Path::new(&path)));
    let resolved = hints::resolve(said, &variable, romio_file.as_deref());
    for complaint in &resolved.complaints {
        say::complain(complaint);
    }
    resolved.hints
}

fn decide(opening: &Opening<'_>) -> Option<Agreement> {
    let hints = resolve(opening.hints);
    if hints.write == Choice::Disable && hints.read == Choice::Disable {
        return None;
    }
    let path = std::path::absolute(path_of(opening.name)).ok()?;
    // A driver without POSIX files, or a thing that is no file: MPI knows what to do with it.
    let found = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let network = hints.topology.as_deref().and_then(read_network);
    Some(Agreement { path: path.into_os_string().into_vec(), inode: found.ino(), hints, network })
}

fn read_start(path: &Path) -> Option<String> {
    read_up_to(path, ROMIO_HINTS_MAX_BYTES).ok()
}

fn read_up_to(path: &Path, max_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(max_bytes).read_to_string(&mut text)?;
    Ok(text)
}

fn read_network(name: &str) -> Option<NetworkFile> {
    let text = read_up_to(Path::new(name), TOPOLOGY_MAX_BYTES).map_err(|error| error.to_string());
    let read = text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
    read.inspect_err(|error| say::complain(format_args!("no topology is known from {name}: {error}"))).ok()
}

/// The hosts of all ranks, and the network that they are in. Collective.
///
/// # Errors
/// [`Error::Communication`].
pub fn hosts<G: Group>(
    group: &G,
    opening: &Opening<'_>,
    agreement: &Agreement,
) -> Result<(Vec<String>, Network), Error> {
    let mut own = opening.host.as_bytes().to_vec();
    own.resize(HOST_BYTES, 0);
    own.extend(opening.switches.join("/").bytes());
    own.resize(HOST_BYTES + ADDRESS_BYTES, 0);
    let told = group.all_gather(&own)?;
    let text = |name: &[u8]| String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
    let told: Vec<(String, String)> = told
        .chunks(HOST_BYTES + ADDRESS_BYTES)
        .map(|told| (text(&told[..HOST_BYTES]), text(&told[HOST_BYTES..])))
        .collect();
    let hosts: Vec<String> = told.iter().map(|(host, _)| host.clone()).collect();
    let (_, names) = numbered(&hosts);
    let network = match agreement.network.as_ref().map(|file| Network::of_file(file, &names)) {
        Some(Ok(network)) => Some(network),
        Some(Err(host)) => {
            if group.rank() == 0 {
                let file = agreement.hints.topology.as_deref().unwrap_or_default();
                say::complain(format_args!("{file} does not cover the job: host {host} is not there; it is left out"));
            }
            None
        }
        None => None,
    };
    let by_slurm = || {
        let address = |name: &&str| told.iter().find(|(host, _)| host == name).map_or("", |(_, address)| address);
        let above: Vec<Vec<&str>> =
            names.iter().map(|name| address(name).split('/').filter(|switch| !switch.is_empty()).collect()).collect();
        Network::of_switches(&above, "slurm")
    };
    let network = network
        .or_else(by_slurm)
        .or_else(|| Network::of_switches(&switches_of_names(&names), "host names"))
        .unwrap_or_else(|| Network::one_switch(names.len()));
    Ok((hosts, network))
}
