//! What the ranks of a file agree on when they open it: rank 0 looks, decides and tells the others.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::group::Group;
use crate::hints::{self, Choice, Hints};
use crate::storage::Access;

/// Bytes of a host's name that are told; longer ones are cut.
const HOST_BYTES: usize = 64;

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
        crate::say::complain(complaint);
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
    Some(Agreement { path: path.into_os_string().into_vec(), inode: found.ino(), hints })
}

fn read_start(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    fs::File::open(path).ok()?.take(ROMIO_HINTS_MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The hosts of all ranks.
///
/// # Errors
/// [`Error::Communication`].
pub fn hosts<G: Group>(group: &G, own: &str) -> Result<Vec<String>, Error> {
    let mut name = own.as_bytes().to_vec();
    name.resize(HOST_BYTES, 0);
    let names = group.all_gather(&name)?;
    let text = |name: &[u8]| String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
    Ok(names.chunks(HOST_BYTES).map(text).collect())
}
