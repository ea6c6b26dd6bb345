//! Files that may appear at the same time: each waits for its disks more than once.

use std::collections::{BTreeMap, BTreeSet};

use forebay_types::{FileId, Kind};
use forebay_wire::write::{BURST_ROOT, Place};

use super::action::Action;
use super::{Landing, Step};

impl Landing {
    /// The steps after the first whose files may appear together with what that brings, with their numbers: what is between
    /// them brings nothing.
    pub fn publications_after_first(&self) -> impl Iterator<Item = (u64, Action)> {
        let mut names: BTreeMap<FileId, Vec<Place>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let (mut is_first, mut is_last) = (true, false);
        let steps = (self.first..).map_while(|number| Some((number, self.steps.get(&number)?)));
        let found = steps.map_while(move |(number, step)| {
            let is_there = |file: &FileId| *file == BURST_ROOT || self.place(*file).is_some() || seen.contains(file);
            match step {
                _ if is_last => None,
                Step::Name { file, kind: Kind::File, place } if !is_there(file) => {
                    let places =
                        names.entry(*file).or_insert_with(|| self.names.get(file).cloned().unwrap_or_default());
                    places.push(place.clone());
                    Some(None)
                }
                Step::Attributes { file } if !is_there(file) => Some(None),
                Step::Publish { file, version } if !is_there(file) => {
                    let places =
                        names.get(file).or_else(|| self.names.get(file)).filter(|places| !places.is_empty())?;
                    seen.insert(*file);
                    // Its other names come after it.
                    is_last = places.len() > 1;
                    let action = Action::Publish { file: *file, version: *version, places: places.clone() };
                    Some((!std::mem::take(&mut is_first)).then_some((number, action)))
                }
                _ => None,
            }
        });
        found.flatten()
    }
}
