//! How a profile is shown: as a row of a table, as lines, as JSON.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_profile::{KeptProfile, PackIndex, PackReader, Profile, ProfileError, ProfileKey, Use};
use forebay_types::{CHUNK_BYTES, ChunkIndex, Generation, ViewPath};
use serde_json::{Value, json};

use crate::columns::count;
use crate::settings::values::{show_duration, show_size};

/// A profile and what is known of its pack.
pub struct Listed<'a> {
    kept: &'a KeptProfile,
    pack: Result<Option<PackReader>, ProfileError>,
}

impl<'a> Listed<'a> {
    /// The head of the table.
    pub const HEAD: [&'static str; 9] =
        ["key", "used", "starts", "directories", "files", "contents", "pack", "exports", "command"];

    /// A profile with what opening its pack gave.
    pub fn of(kept: &'a KeptProfile, pack: Result<Option<PackReader>, ProfileError>) -> Self {
        Self { kept, pack }
    }

    /// Its key.
    pub fn key(&self) -> ProfileKey {
        self.kept.key
    }

    /// The profile, where it can be used.
    pub fn profile(&self) -> Option<&'a Profile> {
        self.kept.profile.as_ref().ok().and_then(Option::as_ref)
    }

    /// Bytes of its files.
    pub fn file_bytes(&self) -> u64 {
        self.kept.profile_bytes + self.kept.pack_bytes.unwrap_or(0)
    }

    /// Why the profile or its pack cannot be used.
    pub fn problems(&self) -> Vec<String> {
        let problems = [self.kept.profile.as_ref().err(), self.pack.as_ref().err()];
        problems.into_iter().flatten().map(ToString::to_string).collect()
    }

    fn pack_text(&self) -> String {
        match (&self.pack, self.kept.pack_bytes) {
            (Err(_), _) => "unusable".to_owned(),
            (Ok(Some(_)), Some(bytes)) => show_size(bytes),
            _ => "-".to_owned(),
        }
    }

    /// A row of the table.
    pub fn row(&self) -> Vec<String> {
        let mut row = vec![self.key().to_string(), ago(self.kept.used)];
        match self.profile() {
            Some(profile) => row.extend([
                count(profile.starts.into()),
                count(profile.directory_count() as u64),
                count(profile.file_count() as u64),
                show_size(profile.content_bytes()),
                self.pack_text(),
                exports(profile),
                profile.command.clone(),
            ]),
            None => {
                row.extend(["-"; 4].map(str::to_owned));
                row.extend([self.pack_text(), "-".to_owned(), self.lack()]);
            }
        }
        row
    }

    /// In the place of a command.
    fn lack(&self) -> String {
        let lack = if self.kept.profile.is_err() { "(unusable)" } else { "(a pack without its profile)" };
        lack.to_owned()
    }

    /// The same for one alone.
    pub fn lines(&self) -> Vec<String> {
        let Some(profile) = self.profile() else { return self.problems() };
        let made = UNIX_EPOCH + Duration::from_secs(profile.made_unix_s);
        let mut lines = vec![
            format!("profile {} of: {}", self.key(), profile.command),
            format!("exports: {}", exports(profile)),
            format!("recorded {}, used {}, starts: {}", ago(made), ago(self.kept.used), count(profile.starts.into())),
            format!(
                "directories: {}, files: {}, contents: {}, pack: {}",
                count(profile.directory_count() as u64),
                count(profile.file_count() as u64),
                show_size(profile.content_bytes()),
                self.pack_text()
            ),
        ];
        lines.extend(self.problems());
        lines
    }

    /// The same for programs.
    pub fn as_json(&self) -> Value {
        let mut object = json!({
            "key": self.key().to_string(),
            "used_unix_s": self.kept.used.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            "profile_bytes": self.kept.profile_bytes,
            "pack": self.pack_as_json(),
            "problems": self.problems(),
        });
        if let Some(profile) = self.profile() {
            let exports: Vec<String> = profile.exports.iter().map(ToString::to_string).collect();
            object["command"] = json!(profile.command);
            object["exports"] = json!(exports);
            object["made_unix_s"] = json!(profile.made_unix_s);
            object["starts"] = json!(profile.starts);
            object["directories"] = json!(profile.directory_count());
            object["files"] = json!(profile.file_count());
            object["content_bytes"] = json!(profile.content_bytes());
        }
        object
    }

    fn pack_as_json(&self) -> Value {
        match &self.pack {
            Ok(Some(pack)) => json!({
                "bytes": self.kept.pack_bytes,
                "is_usable": true,
                "blocks": pack.index().blocks().len(),
                "pieces": pack.index().pieces_count(),
                "content_bytes": pack.index().contents_bytes(),
            }),
            Ok(None) => Value::Null,
            Err(_) => json!({"bytes": self.kept.pack_bytes, "is_usable": false}),
        }
    }
}

fn exports(profile: &Profile) -> String {
    let exports: Vec<String> = profile.exports.iter().map(ToString::to_string).collect();
    exports.join(" ")
}

/// How long ago something was.
fn ago(then: SystemTime) -> String {
    match SystemTime::now().duration_since(then) {
        Ok(since) if since.as_secs() >= 2 * 86_400 => format!("{} days ago", since.as_secs() / 86_400),
        Ok(since) => format!("{} ago", show_duration(since)),
        // Clocks of two hosts differ.
        Err(_) => "just now".to_owned(),
    }
}

/// The chunks that a pack holds.
fn packed(index: Option<&PackIndex>) -> BTreeSet<(&ViewPath, &Generation, ChunkIndex)> {
    let pieces = index.into_iter().flat_map(|index| index.blocks()).flat_map(|block| &block.pieces);
    pieces.map(|piece| (&piece.path, &piece.generation, piece.index)).collect()
}

/// The uses in a profile, a line each.
pub fn uses_as_lines(profile: &Profile, index: Option<&PackIndex>) -> impl Iterator<Item = String> {
    let packed = packed(index);
    profile.uses.iter().map(move |each| match each {
        Use::Directory { path, .. } => format!("directory  {}", printable(path)),
        Use::Absent { path } => format!("absent     {}", printable(path)),
        Use::File { path, generation, chunks } => {
            let in_pack = chunks.iter().filter(|index| packed.contains(&(path, generation, **index))).count();
            let is_whole = generation.size_bytes.div_ceil(CHUNK_BYTES) as usize == chunks.len();
            let part = if is_whole { String::new() } else { format!(", chunks {}", ranges(chunks)) };
            let pack = match in_pack {
                0 => "",
                all if all == chunks.len() => ", in the pack",
                _ => ", partly in the pack",
            };
            format!("file       {} ({}{part}{pack})", printable(path), show_size(generation.size_bytes))
        }
    })
}

/// The uses in a profile, for programs.
pub fn uses_as_json(profile: &Profile, index: Option<&PackIndex>) -> Value {
    let packed = packed(index);
    let uses = profile.uses.iter().map(|each| match each {
        Use::Directory { path, .. } => json!({"kind": "directory", "path": path.to_string()}),
        Use::Absent { path } => json!({"kind": "absent", "path": path.to_string()}),
        Use::File { path, generation, chunks } => {
            let in_pack = chunks.iter().filter(|index| packed.contains(&(path, generation, **index))).count();
            json!({"kind": "file", "path": path.to_string(), "size_bytes": generation.size_bytes, "chunks": chunks,
                   "chunks_in_pack": in_pack})
        }
    });
    uses.collect()
}

/// A path that does nothing to a terminal.
fn printable(path: &ViewPath) -> String {
    path.to_string().chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// `0-3,7`, in the order of first use.
fn ranges(chunks: &[ChunkIndex]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for ChunkIndex(index) in chunks {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let text = |(first, last): (u64, u64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_chunks_are_ranges() {
        let chunks: Vec<ChunkIndex> = [0, 1, 2, 7, 4, 5].map(ChunkIndex).to_vec();
        assert_eq!(ranges(&chunks), "0-2,7,4-5");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn ages_are_said_in_the_unit_that_tells() {
        let before = |seconds| ago(SystemTime::now() - Duration::from_secs(seconds));
        assert_eq!(before(3 * 86_400 + 5), "3 days ago");
        assert!(before(3700).starts_with("1 h 1 min"));
        assert_eq!(ago(SystemTime::now() + Duration::from_secs(60)), "just now");
    }

    #[test]
    fn a_name_does_nothing_to_a_terminal() {
        assert_eq!(printable(&ViewPath::new(b"a/\x1b[2J").unwrap()), "/a/?[2J");
    }
}
