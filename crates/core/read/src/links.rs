//! Absolute symbolic links that lead into an export, shown as links into the view.
//!
//! A link's size is the length of its target, and the kernel cuts targets off there, so both change together. Only what is
//! told to the kernel changes: nodes hand on targets as they are, since each has a view of its own. Links are read as
//! text, never followed: one whose text may lead out of its export (`..`) or into something that is not shown is left.

use forebay_types::{Attributes, Kind, ViewPath, limits};

/// Which links are changed, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Links {
    /// The view's absolute path.
    pub view: Vec<u8>,
    /// The exports that it shows.
    pub exports: Vec<ViewPath>,
    /// Paths within them that it does not show.
    pub except: Vec<ViewPath>,
}

impl Links {
    /// `target` inside the view; `None` where it stays as it is.
    fn inside(&self, target: &[u8]) -> Option<Vec<u8>> {
        let is_changed = target.first() == Some(&b'/') && self.shows(target);
        let fits = self.view.len() + target.len() <= limits::PATH_BYTES_MAX;
        (is_changed && fits).then(|| [&self.view, target].concat())
    }

    /// Whether the text of an absolute path stays within one export all the way from its top.
    fn shows(&self, path: &[u8]) -> bool {
        let mut at = ViewPath::root();
        let mut depth_of_export = self.exports.contains(&at).then_some(0);
        let mut depth = 0;
        for component in path.split(|byte| *byte == b'/') {
            let next = match component {
                b"" | b"." => continue,
                b".." if depth_of_export.is_some_and(|least| depth > least) => {
                    depth -= 1;
                    at.split().map(|(parent, _)| parent)
                }
                b".." => None,
                name => {
                    depth += 1;
                    at.join(name).ok()
                }
            };
            let Some(next) = next else { return false };
            at = next;
            if self.except.contains(&at) {
                return false;
            }
            if depth_of_export.is_none() && self.exports.contains(&at) {
                depth_of_export = Some(depth);
            }
        }
        depth_of_export.is_some()
    }
}

/// The target of a link as the kernel is told it.
pub(crate) fn shown_target(links: Option<&Links>, target: Vec<u8>) -> Vec<u8> {
    links.and_then(|links| links.inside(&target)).unwrap_or(target)
}

/// Attributes as the kernel is told them; `target` is the link's, if it is one.
pub(crate) fn shown_attributes(links: Option<&Links>, attributes: Attributes, target: &[u8]) -> Attributes {
    let links = links.filter(|_| attributes.kind() == Kind::Symlink);
    match links.and_then(|links| links.inside(target)) {
        Some(inside) => Attributes { size_bytes: inside.len() as u64, ..attributes },
        None => attributes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(exports: &[&str], except: &[&str]) -> Links {
        let paths = |texts: &[&str]| texts.iter().map(|text| ViewPath::new(text.as_bytes()).unwrap()).collect();
        Links { view: b"/view".to_vec(), exports: paths(exports), except: paths(except) }
    }

    fn shown(links: &Links, target: &str) -> String {
        String::from_utf8(shown_target(Some(links), target.into())).unwrap()
    }

    #[test]
    fn links_into_an_export_lead_into_the_view() {
        let links = links(&["soft", "data/in"], &["soft/run"]);
        for inside in ["/soft", "/soft/", "/soft/a/../b", "//soft/./a", "/data/in/x", "/soft/runs"] {
            assert_eq!(shown(&links, inside), format!("/view{inside}"));
        }
        for outside in
            ["a", "../soft/a", "/", "/softer", "/data", "/data/x", "/soft/../etc", "/x/../soft/a", "/soft/run/x", ""]
        {
            assert_eq!(shown(&links, outside), outside);
        }
    }

    #[test]
    fn of_the_whole_file_system_all_is_inside_but_what_is_hidden() {
        let links = links(&[""], &["proc", "dev"]);
        assert_eq!(shown(&links, "/usr/lib"), "/view/usr/lib");
        assert_eq!(shown(&links, "/"), "/view/");
        for outside in ["/proc/self/mounts", "/dev/null", "/..", "/usr/../../x"] {
            assert_eq!(shown(&links, outside), outside);
        }
    }

    #[test]
    fn a_target_that_would_be_too_long_stays() {
        let long = format!("/soft/{}", "x/".repeat(limits::PATH_BYTES_MAX / 2 - 4));
        assert_eq!(shown(&links(&["soft"], &[]), &long), long);
    }

    #[test]
    fn the_size_is_that_of_the_target() {
        let links = links(&["soft"], &[]);
        let link = Attributes { mode: 0o120_777, size_bytes: 7, ..Attributes::default() };
        assert_eq!(shown_attributes(Some(&links), link, b"/soft/a").size_bytes, 12);
        assert_eq!(shown_attributes(Some(&links), link, b"soft/ab").size_bytes, 7);
        assert_eq!(shown_attributes(None, link, b"/soft/a").size_bytes, 7);
        let file = Attributes { mode: 0o100_644, ..link };
        assert_eq!(shown_attributes(Some(&links), file, b"/soft/a").size_bytes, 7);
    }
}
