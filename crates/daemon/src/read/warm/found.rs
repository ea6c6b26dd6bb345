//! The files at and below paths, one after the other: depth first, so that only the listings on the way are held.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_types::{Errno, Generation, Kind, Name, ViewPath};
use forebay_wire::{EntryRecord, Listing, ReadMessage};

use crate::read::own::Own;

/// Links on the way to one file, at most.
const LINKS_MAX: usize = 40;

/// A file in its version.
#[derive(Clone, Debug)]
pub struct Found {
    pub file: ViewPath,
    pub generation: Generation,
}

/// A walk over files.
pub struct Walk {
    own: Arc<Own>,
    paths: VecDeque<ViewPath>,
    levels: Vec<Level>,
}

/// A directory that is being walked.
struct Level {
    dir: ViewPath,
    listing: Listing,
    next: usize,
}

/// The kind of thing at a path.
enum At {
    File(Generation),
    Directory,
    Link(ViewPath),
    /// A socket, a pipe or a device.
    Other,
}

impl Walk {
    pub fn new(own: &Arc<Own>, paths: Vec<ViewPath>) -> Self {
        Self { own: Arc::clone(own), paths: paths.into(), levels: Vec::new() }
    }

    /// The next file, or what cannot be looked at.
    pub async fn next(&mut self) -> Option<Result<Found, (ViewPath, Errno)>> {
        loop {
            let (path, at, is_given) = match self.step()? {
                Step::Given(path) => {
                    let at = look(&self.own, &path).await;
                    (path, at, true)
                }
                Step::Entry(path, Some(at)) => (path, Ok(at), false),
                Step::Entry(path, None) => {
                    let at = look(&self.own, &path).await;
                    (path, at, false)
                }
                Step::Up => continue,
            };
            match self.take(path.clone(), at, is_given).await {
                Ok(Some(found)) => return Some(Ok(found)),
                Ok(None) => {}
                Err(errno) => return Some(Err((path, errno))),
            }
        }
    }

    /// A file is found, a directory is walked next. Links below a directory are followed to files only, so the walk ends.
    async fn take(&mut self, path: ViewPath, at: Result<At, Errno>, is_given: bool) -> Result<Option<Found>, Errno> {
        let (mut file, mut at, mut is_linked) = (path, at?, false);
        for _ in 0..LINKS_MAX {
            match at {
                At::File(generation) => return Ok(Some(Found { file, generation })),
                At::Directory if is_given || !is_linked => {
                    let listing = listing(&self.own, file.clone()).await?;
                    self.levels.push(Level { dir: file, listing, next: 0 });
                    return Ok(None);
                }
                At::Directory | At::Other => return Ok(None),
                At::Link(target) => {
                    at = look(&self.own, &target).await?;
                    (file, is_linked) = (target, true);
                }
            }
        }
        Err(Errno::ELOOP)
    }

    fn step(&mut self) -> Option<Step> {
        let Some(level) = self.levels.last_mut() else {
            return self.paths.pop_front().map(Step::Given);
        };
        if level.next == level.listing.len() {
            self.levels.pop();
            return Some(Step::Up);
        }
        let entry = level.listing.entry(level.next);
        level.next += 1;
        let Ok(path) = level.dir.join(entry.name) else { return Some(Step::Up) };
        let at = match (entry.kind, entry.attributes) {
            (Kind::Directory, _) => Some(At::Directory),
            (Kind::File, Some(attributes)) => Some(At::File(attributes.generation())),
            (Kind::Symlink, Some(_)) => target_of(&level.dir, entry.target).map(At::Link).or(Some(At::Other)),
            (Kind::File | Kind::Symlink, None) => None,
            _ => Some(At::Other),
        };
        Some(Step::Entry(path, at))
    }
}

enum Step {
    /// A path that was given.
    Given(ViewPath),
    /// An entry of a directory, and what the listing says of it.
    Entry(ViewPath, Option<At>),
    /// A directory is done.
    Up,
}

async fn look(own: &Own, path: &ViewPath) -> Result<At, Errno> {
    let Some((dir, name)) = path.split() else { return Ok(At::Directory) };
    let name = Name::new(name).map_err(|_| Errno::EINVAL)?;
    let record = own.record(ReadMessage::Lookup { dir: dir.clone(), name }).await?.ok_or(Errno::ENOENT)?;
    let EntryRecord { attributes, target } = record;
    Ok(match attributes.kind() {
        Kind::File => At::File(attributes.generation()),
        Kind::Directory => At::Directory,
        Kind::Symlink => target_of(&dir, &target).map_or(At::Other, At::Link),
        _ => At::Other,
    })
}

async fn listing(own: &Own, dir: ViewPath) -> Result<Listing, Errno> {
    own.listing(ReadMessage::Listing { dir }).await
}

/// Where a link in `dir` leads, by its text alone; `None` where it leaves the view.
fn target_of(dir: &ViewPath, target: &[u8]) -> Option<ViewPath> {
    let is_absolute = target.starts_with(b"/");
    let mut at: Vec<&[u8]> = if is_absolute { Vec::new() } else { dir.components().collect() };
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(at.pop()?),
            name => at.push(name),
        }
    }
    ViewPath::new(&at.join(&b'/')).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_where_their_text_says() {
        let dir = ViewPath::new(b"hub/snapshots/1").unwrap();
        let leads = |target: &str| {
            target_of(&dir, target.as_bytes()).map(|path| String::from_utf8(path.as_bytes().to_vec()).unwrap())
        };
        assert_eq!(leads("../../blobs/ab").as_deref(), Some("hub/blobs/ab"));
        assert_eq!(leads("./x//y").as_deref(), Some("hub/snapshots/1/x/y"));
        assert_eq!(leads("/data/x").as_deref(), Some("data/x"));
        assert_eq!(leads("../../../../x"), None, "above the view");
    }
}
