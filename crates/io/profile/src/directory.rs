//! The directory that holds a user's profiles: `KEY.profile` and `KEY.pack`, by default in `~/.cache/forebay/profiles`.

use std::fs::DirBuilder;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use forebay_types::ViewPath;

use crate::bounds::{Bounds, names_of, scan};
use crate::{FormatError, Profile, ProfileError, ProfileFiles, ProfileKey, trusted};

/// A directory of profiles. It is private to the user, and never larger than its budget but for a moment.
#[derive(Clone, Debug)]
pub struct ProfileDirectory {
    directory: Arc<OwnedFd>,
    path: PathBuf,
    bounds: Bounds,
}

/// The files of one key in a directory.
#[derive(Debug)]
pub struct KeptProfile {
    /// The key.
    pub key: ProfileKey,
    /// When it was used or written last.
    pub used: SystemTime,
    /// The profile; `None` when only a pack is there.
    pub profile: Result<Option<Profile>, ProfileError>,
    /// Bytes of the profile's file.
    pub profile_bytes: u64,
    /// Bytes of the pack's file; `None` when there is none.
    pub pack_bytes: Option<u64>,
}

impl ProfileDirectory {
    /// Where profiles lie when nobody says: below `$XDG_CACHE_HOME`, or `$HOME/.cache`.
    ///
    /// # Errors
    /// `NoPlace` when neither is an absolute path.
    pub fn default_path(variable: &dyn Fn(&str) -> Option<String>) -> Result<PathBuf, ProfileError> {
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        Ok(cache.ok_or(ProfileError::NoPlace)?.join("forebay/profiles"))
    }

    /// Opens the directory at `path`, which is made (mode 0700) if it is not there.
    ///
    /// # Errors
    /// `Untrusted` when others could have put something there, and `Io`.
    pub fn open(path: &Path, budget_bytes: u64) -> Result<Self, ProfileError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| ProfileError::io("create the directory", path, error))?;
        Self::open_existing(path, budget_bytes)
    }

    /// Opens the directory at `path`; it is not made.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_existing(path: &Path, budget_bytes: u64) -> Result<Self, ProfileError> {
        let directory = Arc::new(trusted::open_directory(path)?);
        Ok(Self { directory, path: path.to_owned(), bounds: Bounds::new(budget_bytes) })
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files of a key, whether they are there or not.
    #[must_use]
    pub fn files(&self, key: ProfileKey) -> ProfileFiles {
        let [profile_name, pack_name] = names_of(key);
        ProfileFiles {
            directory: Arc::clone(&self.directory),
            shown: self.path.clone(),
            profile_name,
            pack_name,
            budget_bytes: self.bounds.budget_bytes,
            bounds: Some(self.bounds),
        }
    }

    /// The profile of a command with these exports, which counts as used from now; `None` when there is none.
    ///
    /// # Errors
    /// `Untrusted`, `Broken` and `Io`: it is not to be used.
    pub fn find(&self, command: &str, exports: &[ViewPath]) -> Result<Option<Profile>, ProfileError> {
        let key = ProfileKey::of(command, exports);
        let files = self.files(key);
        match files.read_to_use()? {
            Some(profile) if profile.key() != key => {
                Err(ProfileError::broken(&files.profile_path(), FormatError::Content("it is of another command")))
            }
            found => Ok(found),
        }
    }

    /// Writes a profile, in the place of the one before; others leave if there are too many.
    ///
    /// # Errors
    /// As `ProfileFiles::write`.
    pub fn store(&self, profile: &Profile) -> Result<(), ProfileError> {
        self.files(profile.key()).write(profile)
    }

    /// All that is there, the most recently used first. Unreadable profiles are listed too.
    ///
    /// # Errors
    /// `Io` when the directory cannot be listed.
    pub fn list(&self) -> Result<Vec<KeptProfile>, ProfileError> {
        let (kept, _) = scan(&self.directory, &self.path, SystemTime::now())?;
        let mut list: Vec<KeptProfile> = kept
            .into_iter()
            .map(|(key, kept)| KeptProfile {
                key,
                used: kept.used,
                profile: self.files(key).read(),
                profile_bytes: kept.profile_bytes.unwrap_or(0),
                pack_bytes: kept.pack_bytes,
            })
            .collect();
        list.sort_by(|a, b| b.used.cmp(&a.used).then(a.key.cmp(&b.key)));
        Ok(list)
    }

    /// Removes what there is of a key; whether there was something.
    ///
    /// # Errors
    /// `Io`.
    pub fn remove(&self, key: ProfileKey) -> Result<bool, ProfileError> {
        self.files(key).remove()
    }
}
