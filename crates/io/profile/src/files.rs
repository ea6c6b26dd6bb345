//! The files of one profile: the profile and, beside it, its pack.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens};

use crate::bounds::{self, Bounds, PACK};
use crate::limits;
use crate::unfinished::Unfinished;
use crate::{FormatError, Profile, ProfileError, trusted};

/// Where a profile and its pack lie: in a `ProfileDirectory`, or wherever the user says.
#[derive(Clone, Debug)]
pub struct ProfileFiles {
    pub(crate) directory: Arc<OwnedFd>,
    /// The directory's path.
    pub(crate) shown: PathBuf,
    pub(crate) profile_name: String,
    pub(crate) pack_name: String,
    pub(crate) budget_bytes: u64,
    /// The bounds of the directory; `None` for a file that the user named.
    pub(crate) bounds: Option<Bounds>,
}

impl ProfileFiles {
    /// A profile at `path`, and its pack beside it with the extension `pack`, of at most `budget_bytes` together. The
    /// files need not be there; the directory must.
    ///
    /// # Errors
    /// `Io` when its directory cannot be opened or its name is none.
    pub fn at(path: &Path, budget_bytes: u64) -> Result<Self, ProfileError> {
        let wrong = || ProfileError::io("use", path, io::Error::other("a profile's name is plain text"));
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(wrong)?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // It may be anybody's: the files in it are looked at one by one.
        let directory = File::open(parent).map_err(|error| ProfileError::io("open", parent, error))?;
        let pack_name = Path::new(name).with_extension(PACK).to_string_lossy().into_owned();
        if pack_name == name {
            return Err(ProfileError::io("use", path, io::Error::other("that is the name of its pack")));
        }
        Ok(Self {
            directory: Arc::new(directory.into()),
            shown: parent.to_owned(),
            profile_name: name.to_owned(),
            pack_name,
            budget_bytes,
            bounds: None,
        })
    }

    /// The profile's path.
    #[must_use]
    pub fn profile_path(&self) -> PathBuf {
        self.shown.join(&self.profile_name)
    }

    /// The pack's path.
    #[must_use]
    pub fn pack_path(&self) -> PathBuf {
        self.shown.join(&self.pack_name)
    }

    /// The profile; `None` when there is none.
    ///
    /// # Errors
    /// `Untrusted`, `Broken` and `Io`: it is not to be used.
    pub fn read(&self) -> Result<Option<Profile>, ProfileError> {
        Ok(self.read_file()?.map(|(profile, _)| profile))
    }

    /// The profile, which counts as used from now: the least recently used ones leave first.
    ///
    /// # Errors
    /// As `read`.
    pub fn read_to_use(&self) -> Result<Option<Profile>, ProfileError> {
        let Some((profile, file)) = self.read_file()? else { return Ok(None) };
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let as_it_is = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        // Where it cannot be noted (a read-only file system) nothing leaves either.
        let _ = futimens(&file, &Timestamps { last_access: as_it_is, last_modification: now });
        Ok(Some(profile))
    }

    fn read_file(&self) -> Result<Option<(Profile, File)>, ProfileError> {
        let path = self.profile_path();
        let Some((file, stat)) = trusted::open_file(&self.directory, &self.profile_name, &path)? else {
            return Ok(None);
        };
        if stat.st_size as u64 > limits::PROFILE_BYTES_MAX as u64 {
            return Err(ProfileError::broken(&path, FormatError::Limit("its size")));
        }
        let mut bytes = Vec::with_capacity(stat.st_size as usize);
        let limit = limits::PROFILE_BYTES_MAX as u64 + 1;
        (&file).take(limit).read_to_end(&mut bytes).map_err(|error| ProfileError::io("read", &path, error))?;
        let profile = Profile::decode(&bytes).map_err(|problem| ProfileError::broken(&path, problem))?;
        Ok(Some((profile, file)))
    }

    /// Writes the profile, whole or not at all, in the place of the one before; it counts as used from now.
    ///
    /// # Errors
    /// `Refused` for a profile above a limit, `Untrusted` when somebody else's is there, `Io`; the one before stays.
    pub fn write(&self, profile: &Profile) -> Result<(), ProfileError> {
        let path = self.profile_path();
        let bytes = profile.encode().map_err(|problem| ProfileError::Refused { path, problem })?;
        let mut file = Unfinished::begin(&self.directory, &self.profile_name, &self.shown)?;
        file.write(&bytes)?;
        file.finish()?;
        self.make_room();
        Ok(())
    }

    /// Removes both files; whether there was one.
    ///
    /// # Errors
    /// `Io` for the first that stays.
    pub fn remove(&self) -> Result<bool, ProfileError> {
        let profile = bounds::remove(&self.directory, &self.profile_name, &self.shown)?;
        Ok(bounds::remove(&self.directory, &self.pack_name, &self.shown)? || profile)
    }

    /// Has the directory's least recently used profiles leave where it has become too large. A file that cannot be removed now
    /// is met again after the next profile.
    pub(crate) fn make_room(&self) {
        if let Some(bounds) = &self.bounds {
            bounds.make_room(&self.directory, &self.shown, &self.profile_name, SystemTime::now());
        }
    }
}
