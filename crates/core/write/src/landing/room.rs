//! Files that may be removed before their turn, because what is to land before them finds no room.

use forebay_types::{FileId, Kind};
use forebay_wire::write::Place;

use super::action::Removable;
use super::{Landing, Step};

impl Landing {
    /// Files whose only name goes with a later step than the first, in that order. Steps in between that are about them bring nothing any
    /// more, whether they are there or not.
    pub fn removable(&self) -> impl Iterator<Item = Removable> {
        let steps = (self.first + 1..).map_while(|number| Some((number, self.steps.get(&number)?)));
        steps.filter_map(|(step, event)| match event {
            Step::Unname { file, place } if self.has_only(*file, place) => {
                let size_bytes = self.backed.get(*file)?.generation.size_bytes;
                Some(Removable { step, file: *file, place: place.clone(), size_bytes })
            }
            _ => None,
        })
    }

    /// Whether a file lies at this place by its own name, and nothing else of it is there or in the tree.
    fn has_only(&self, file: FileId, place: &Place) -> bool {
        self.kinds.get(&file) == Some(&Kind::File)
            && self.is_as_imported(file, place)
            && self.backed.names_elsewhere(file) == 0
    }
}
