//! Files that can be forgotten, since they are only there, or of which newer contents are to follow.

use forebay_types::FileId;
use forebay_wire::write::Place;

use super::{Landing, Step};

impl Landing {
    /// Whether a file has this place alone, by its own name, and nothing is known of it but what it was when it was imported.
    pub fn is_as_imported(&self, file: FileId, place: &Place) -> bool {
        self.there.get(place) == Some(&file)
            && self.names.get(&file).is_some_and(|places| places[..] == [place.clone()])
            && !self.aside.contains_key(place)
            && !self.backed.is_changing(file)
            && !self.left.contains_key(&file)
            && !self.drafts.contains_key(&file)
    }

    /// Whether newer contents of a file are to follow.
    pub fn brings(&self, file: FileId) -> bool {
        self.steps.iter().any(|(_, step)| matches!(step, Step::Publish { file: brought, .. } if *brought == file))
    }

    /// A file that has this place alone is not known any more.
    pub fn forget(&mut self, file: FileId, place: &Place) {
        self.there.remove(place);
        self.names.remove(&file);
        self.kinds.remove(&file);
        self.backed.remove(file);
    }
}
