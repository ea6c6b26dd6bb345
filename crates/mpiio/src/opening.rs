//! The agreement of a file's ranks when they open it: rank 0 looks, decides and tells the others.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::choice::{FileSystem, Rates};
use crate::error::Error;
use crate::group::Group;
use crate::hints::{self, Choice, Hints};
use crate::layout;
use crate::mark;
use crate::message::{Reader, put};
use crate::missing::Missing;
use crate::network::{Network, NetworkFile, switches_of_names};
use crate::plan::numbered;
use crate::say;
use crate::storage::{Access, Storage};
use crate::view::Extent;

/// Bytes of a host's name that are told; longer ones are cut.
const HOST_BYTES: usize = 64;

/// Bytes of its switches' names, as Slurm puts them.
const ADDRESS_BYTES: usize = 192;

/// Bytes of a file that describes a network: some 60 for each of 65,536 hosts, and a measured matrix.
const TOPOLOGY_MAX_BYTES: u64 = 64 << 20;

/// Prefixes by which ROMIO names a driver for files that POSIX can open.
const POSIX_PREFIXES: [&str; 6] = ["ufs:", "nfs:", "lustre:", "xfs:", "gpfs:", "panfs:"];

/// Bytes of the mark beside an incomplete file that are read: a line for each of its failures.
const MARK_MAX_BYTES: u64 = 64 << 10;

/// Bytes of a `ROMIO_HINTS` file that are read.
const ROMIO_HINTS_MAX_BYTES: u64 = 64 << 10;

/// How a program opens a file.
#[derive(Debug)]
pub struct Opening<'a> {
    /// As the program names it.
    pub name: &'a [u8],
    /// For what.
    pub access: Access,
    /// Whether MPI deletes the file when it is closed.
    pub deletes: bool,
    /// Whether other threads than the program's, or several of the program's, may write what is held.
    pub has_threads: bool,
    /// How often it turned out wrong for other files of this process to hold bytes (`following`).
    pub doublings: u32,
    /// The kind of file system, where it is not to be asked for.
    pub file_system: Option<FileSystem>,
    /// The extended attribute that has a file's layout.
    pub layout_attribute: &'a str,
    /// The costs that this process has measured, and of which kind of file system.
    pub measured: Option<(FileSystem, Rates)>,
    /// The hints of its `MPI_Info`.
    pub hints: &'a [(String, String)],
    /// The host of this rank.
    pub host: &'a str,
    /// The switches that this host is below, from the top down, where Slurm tells.
    pub switches: &'a [&'a str],
    /// Where records of runs lie, if they are kept.
    pub records: Option<&'a Path>,
}

/// The agreement that holds for all ranks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Agreement {
    /// The file's absolute path, as bytes.
    path: Vec<u8>,
    /// Hints that rank 0 resolved.
    pub hints: Hints,
    /// Extents that an earlier run has left out, by the mark beside the file; `None` without one.
    missing: Option<Vec<(u64, u64)>>,
    /// The network that rank 0 read.
    network: Option<NetworkFile>,
    /// The kind of file system, as rank 0 sees it.
    pub file_system: FileSystem,
    /// The costs that all count on.
    pub rates: Rates,
    /// Processors of the host of rank 0.
    pub processors: usize,
}

impl Agreement {
    /// The file's absolute path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(std::ffi::OsString::from_vec(self.path.clone()))
    }

    /// Bytes that an earlier run has left out, if the file is marked.
    #[must_use]
    pub fn missing(&self) -> Option<Missing> {
        let extents = self.missing.as_ref()?.iter().map(|&(offset, len)| Extent { offset, len });
        Some(Missing::new(&extents.collect::<Vec<_>>()))
    }
}

/// The agreement of all ranks; `None` if the file is not to be aggregated.
///
/// # Errors
/// [`Error::Communication`], [`Error::Message`].
pub fn agree<G: Group>(group: &G, opening: &Opening<'_>) -> Result<Option<Agreement>, Error> {
    let own = if group.rank() == 0 { decide(opening, group.size()) } else { None };
    let told = group.broadcast(serde_json::to_vec(&own).map_err(|_| Error::Message)?)?;
    serde_json::from_slice(&told).map_err(|_| Error::Message)
}

/// The path in a file's name, which may begin with the driver that ROMIO is to use.
#[must_use]
pub fn path_of(name: &[u8]) -> &Path {
    let path = POSIX_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix.as_bytes()));
    Path::new(OsStr::from_bytes(path.unwrap_or(name)))
}

/// The decision of rank 0 from the hints of the program.
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

fn decide(opening: &Opening<'_>, ranks: usize) -> Option<Agreement> {
    let mut hints = resolve(opening.hints);
    if hints.write == Choice::Disable && hints.read == Choice::Disable {
        return None;
    }
    let path = std::path::absolute(path_of(opening.name)).ok()?;
    if !hints.is_stripe_given {
        hints.take_stripe(layout::stripe_bytes(&path, opening.layout_attribute));
    }
    // A driver without POSIX files, or a thing that is no file: MPI knows what to do with it.
    let found = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let network = hints.topology.as_deref().and_then(read_network);
    // A run that only reads has no use for the mark.
    let mark = opening.access.writes.then(|| mark::open(&path).and_then(|mark| read_all(mark, MARK_MAX_BYTES)));
    let mark = mark.and_then(Result::ok);
    // Of a file that begins anew nothing is missing.
    let missing = mark.map(|text| match text.len() as u64 {
        _ if found.len() == 0 => Missing::default(),
        // There is more, which was not read.
        MARK_MAX_BYTES => Missing::of_mark(""),
        _ => Missing::of_mark(&text),
    });
    let missing = missing.map(|missing| missing.extents().iter().map(|part| (part.offset, part.len)).collect());
    // Where ROMIO is to take its driver with locks, calls are its own as over NFS.
    let forced = std::env::var("ROMIO_FSTYPE_FORCE").unwrap_or_default();
    let has_locks = opening.name.starts_with(b"nfs:") || forced.starts_with("nfs");
    let given = opening.file_system.or(has_locks.then_some(FileSystem::Nfs));
    let file_system = given.unwrap_or_else(|| FileSystem::of(&path));
    let measured = opening.measured.filter(|(of, _)| *of == file_system).map(|(_, rates)| rates);
    let rates = measured.unwrap_or_else(|| Rates::guessed(file_system, ranks));
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let path = path.into_os_string().into_vec();
    Some(Agreement { path, hints, missing, network, file_system, rates, processors })
}

fn read_start(path: &Path) -> Option<String> {
    read_up_to(path, ROMIO_HINTS_MAX_BYTES).ok()
}

fn read_up_to(path: &Path, max_bytes: u64) -> io::Result<String> {
    read_all(fs::File::open(path)?, max_bytes)
}

fn read_all(file: fs::File, max_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(max_bytes).read_to_string(&mut text)?;
    Ok(text)
}

fn read_network(name: &str) -> Option<NetworkFile> {
    let text = read_up_to(Path::new(name), TOPOLOGY_MAX_BYTES).map_err(|error| error.to_string());
    let read = text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
    let read = read.and_then(|mut file: NetworkFile| {
        if let Some((switches, text)) = file.switches_file() {
            // As the command has it: from where the file lies.
            let path = Path::new(name).parent().unwrap_or(Path::new("")).join(switches);
            let read = read_up_to(&path, TOPOLOGY_MAX_BYTES);
            *text = read.map_err(|error| format!("the switches cannot be read from {}: {error}", path.display()))?;
        }
        Ok(file)
    });
    read.inspect_err(|error| say::complain(format_args!("no topology is known from {name}: {error}"))).ok()
}

/// The file as a rank has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Has {
    Nothing = 0,
    /// A file of that name, opened after MPI opened it.
    Named = 1,
    /// The file that MPI has open.
    Open = 2,
}

/// The numbers by which a rank tells of the file that it has.
#[must_use]
pub fn identity(opened: &io::Result<Storage>) -> [u64; 2] {
    let (inode, is_mpis) = opened.as_ref().ok().and_then(|storage| storage.identity().ok()).unwrap_or_default();
    let has = match opened {
        Ok(_) if is_mpis => Has::Open,
        Ok(_) => Has::Named,
        Err(_) => Has::Nothing,
    };
    [inode, has as u64]
}

/// Why the ranks do not have the same file open, and the first rank that has not.
#[must_use]
pub fn differs(identities: &[[u64; 2]]) -> Option<(usize, &'static str)> {
    let mut first = None;
    identities.iter().enumerate().find_map(|(rank, &[inode, has])| {
        // Devices have other numbers on other hosts; the inode is the file system's own, unless it makes inodes up.
        if has == Has::Nothing as u64 {
            Some((rank, "it cannot be opened there"))
        } else if has == Has::Named as u64 && *first.get_or_insert(inode) != inode {
            Some((rank, "the name leads to another inode there"))
        } else {
            None
        }
    })
}

/// The hosts of all ranks, the network that they are in, and whether all have the same file open. If not, it is left to MPI, and that
/// is said. Collective.
///
/// # Errors
/// [`Error::Communication`], [`Error::Message`].
pub fn hosts<G: Group>(
    group: &G,
    opening: &Opening<'_>,
    agreement: &Agreement,
    opened: &io::Result<Storage>,
) -> Result<(Vec<String>, Network, bool), Error> {
    let mut own = opening.host.as_bytes().to_vec();
    own.resize(HOST_BYTES, 0);
    own.extend(opening.switches.join("/").bytes());
    own.resize(HOST_BYTES + ADDRESS_BYTES, 0);
    identity(opened).iter().for_each(|number| put(&mut own, *number));
    let told = group.all_gather(&own)?;
    let (mut names_told, mut identities) = (vec![], vec![]);
    for told in told.chunks(own.len()) {
        let (names, numbers) = told.split_at(HOST_BYTES + ADDRESS_BYTES);
        let mut numbers = Reader::new(numbers);
        names_told.extend_from_slice(names);
        identities.push([numbers.number()?, numbers.number()?]);
    }
    let told = names_told;
    let text = |name: &[u8]| String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
    let told: Vec<(String, String)> = told
        .chunks(HOST_BYTES + ADDRESS_BYTES)
        .map(|told| (text(&told[..HOST_BYTES]), text(&told[HOST_BYTES..])))
        .collect();
    let hosts: Vec<String> = told.iter().map(|(host, _)| host.clone()).collect();
    let (_, names) = numbered(&hosts);
    let differs = differs(&identities);
    if let Some((rank, why)) = differs.filter(|_| group.rank() == 0) {
        let (path, host) = (agreement.path(), &hosts[rank]);
        say::complain(format_args!("{} is left to MPI: rank {rank} on {host}: {why}", path.display()));
    }
    let network = match agreement.network.as_ref().map(|file| Network::of_file(file, &names)) {
        Some(Ok(network)) => Some(network),
        Some(Err(why)) => {
            if group.rank() == 0 {
                let file = agreement.hints.topology.as_deref().unwrap_or_default();
                say::complain(format_args!("the topology of {file} is ignored: {why}"));
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
    Ok((hosts, network, differs.is_none()))
}
