//! Bounds of a directory of profiles: a budget of bytes and a number of profiles, the least recently used leave
//! first.
//!
//! Jobs of one user run at the same time on many hosts and share the directory, often on a file system without locks. So
//! nothing is locked: files come by a rename and go by a removal, either of which may happen to be done already, and the
//! last who writes sees to the bounds for all.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, Stat, statat, unlinkat};
use rustix::io::Errno;

use crate::limits;
use crate::unfinished::is_left_behind;
use crate::{ProfileError, ProfileKey};

/// The extension of a profile.
pub(crate) const PROFILE: &str = "profile";

/// The extension of a pack.
pub(crate) const PACK: &str = "pack";

/// How much a directory may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub budget_bytes: u64,
    pub profiles_max: usize,
}

/// The files of one key in the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    /// When it was used last.
    pub used: SystemTime,
    /// Bytes of its profile; `None` when there is none.
    pub profile_bytes: Option<u64>,
    /// Bytes of its pack; `None` when there is none.
    pub pack_bytes: Option<u64>,
}

impl Kept {
    fn bytes(&self) -> u64 {
        self.profile_bytes.unwrap_or(0) + self.pack_bytes.unwrap_or(0)
    }
}

impl Bounds {
    /// The bounds of a directory with this budget.
    pub fn new(budget_bytes: u64) -> Self {
        Self { budget_bytes, profiles_max: limits::PROFILES_MAX }
    }

    /// Removes what is too much, never the profile called `spared`, and what writers who died have left.
    pub fn make_room(&self, directory: &OwnedFd, shown: &Path, spared: &str, now: SystemTime) {
        let Ok((kept, left_behind)) = scan(directory, shown, now) else { return };
        let leaving = self.leaving(&kept, spared).into_iter().flat_map(names_of);
        for name in left_behind.into_iter().chain(leaving) {
            let _ = remove(directory, &name, shown);
        }
    }

    /// The keys that leave, the least recently used first.
    fn leaving(&self, kept: &BTreeMap<ProfileKey, Kept>, spared: &str) -> Vec<ProfileKey> {
        let mut oldest_first: Vec<(&ProfileKey, &Kept)> = kept.iter().collect();
        oldest_first.sort_by_key(|(key, each)| (each.used, **key));
        let (mut bytes, mut count) = (kept.values().map(Kept::bytes).sum::<u64>(), kept.len());
        let mut leaving = Vec::new();
        for (key, each) in oldest_first.into_iter().filter(|(key, _)| names_of(**key)[0] != spared) {
            if bytes <= self.budget_bytes && count <= self.profiles_max {
                break;
            }
            bytes -= each.bytes();
            count -= 1;
            leaving.push(*key);
        }
        leaving
    }
}

/// The names of a key's profile and pack.
pub(crate) fn names_of(key: ProfileKey) -> [String; 2] {
    [format!("{key}.{PROFILE}"), format!("{key}.{PACK}")]
}

/// The profiles and packs of the directory, and the names of unfinished files whose writers must have died. Other files are
/// ignored.
pub(crate) fn scan(
    directory: &OwnedFd,
    shown: &Path,
    now: SystemTime,
) -> Result<(BTreeMap<ProfileKey, Kept>, Vec<String>), ProfileError> {
    let failed = |errno| ProfileError::io("list", shown, errno);
    let (mut kept, mut left_behind) = (BTreeMap::new(), Vec::new());
    for entry in Dir::read_from(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        let key = name.split_once('.').and_then(|(stem, extension)| Some((ProfileKey::parse(stem)?, extension)));
        let is_ours = key.is_some_and(|(_, extension)| matches!(extension, PROFILE | PACK));
        if !is_ours && !name.starts_with('.') {
            continue;
        }
        // It may be gone by now.
        let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let used = modified(&stat);
        match key {
            Some((key, extension)) if is_ours => {
                let each = kept.entry(key).or_insert(Kept { used, profile_bytes: None, pack_bytes: None });
                each.used = each.used.max(used);
                let bytes = if extension == PROFILE { &mut each.profile_bytes } else { &mut each.pack_bytes };
                *bytes = Some(stat.st_size as u64);
            }
            _ if is_left_behind(name, used, now) => left_behind.push(name.to_owned()),
            _ => {}
        }
    }
    Ok((kept, left_behind))
}

fn modified(stat: &Stat) -> SystemTime {
    UNIX_EPOCH + Duration::new(u64::try_from(stat.st_mtime).unwrap_or(0), stat.st_mtime_nsec as u32)
}

/// Removes a file; whether it was there.
pub(crate) fn remove(directory: impl AsFd, name: &str, shown: &Path) -> Result<bool, ProfileError> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(ProfileError::io("remove", &shown.join(name), errno)),
    }
}
