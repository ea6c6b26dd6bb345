//! What is done on the backing file system, in words.

use forebay_wire::write::Place;
use forebay_write::Action;

use crate::write::tree::owner::Owner;

/// An action in words.
pub fn of(owner: &Owner, action: &Action) -> String {
    let path = |place: &Place| owner.path_of(place).map_or_else(|_| "?".to_owned(), |path| path.to_string());
    match action {
        Action::Make { place, .. } => format!("making {}", path(place)),
        Action::Publish { places, .. } => format!("publishing {}", places.first().map(path).unwrap_or_default()),
        Action::Update { place, .. } => format!("updating {}", path(place)),
        Action::Link { from, to, .. } => format!("linking {} to {}", path(to), path(from)),
        Action::Rename { from, to, .. } => format!("renaming {} to {}", path(from), path(to)),
        Action::Remove { place, .. } => format!("removing {}", path(place)),
        Action::SetAttributes { place: Some(place), .. } => format!("setting the attributes of {}", path(place)),
        Action::SetAttributes { place: None, .. } => "setting the attributes of the directory itself".to_owned(),
        Action::Discard { file, .. } => format!("removing the draft of file {file}, which is gone"),
    }
}
