//! No file outside an export can be reached, whatever takes the place of a directory.
use crate::fixture;

use std::fs;
use std::os::unix::fs::symlink;

use fixture::{Tree, generation, name, options, view};
use forebay_store::Store;
use forebay_types::{ChunkIndex, Errno};

#[test]
fn a_directory_replaced_by_a_link_leads_nowhere() {
    let tree = Tree::new();
    tree.make_dir("outside/sub");
    let secret = tree.write("outside/sub/secret", "secret");
    tree.make_dir("export/dir/sub");
    for link in ["../outside", "/", &tree.path("outside").to_string_lossy(), "/proc/self/root", "dir2"] {
        let store = Store::open(options(&[tree.path("export")])).unwrap();
        fs::rename(tree.path("export/dir"), tree.path("export/kept")).unwrap();
        symlink(link, tree.path("export/dir")).unwrap();
        for (dir, refusal) in [("export/dir", Errno::ENOTDIR), ("export/dir/sub", Errno::ESTALE)] {
            let dir = tree.view(dir);
            let allowed = [refusal, Errno::ESTALE, Errno::ENOTDIR];
            assert!(allowed.contains(&store.listing(&dir).unwrap_err()), "{link}");
            assert!(allowed.contains(&store.lookup(&dir, &name("secret")).unwrap_err()), "{link}");
            let file = dir.join(b"secret").unwrap();
            let read = store.read_chunk(&file, &generation(&secret), ChunkIndex(0), |_| panic!("begun"));
            assert!(allowed.contains(&read.unwrap_err()), "{link}");
            assert!(allowed.contains(&store.file_system(&file).unwrap_err()), "{link}");
        }
        fs::remove_file(tree.path("export/dir")).unwrap();
        fs::rename(tree.path("export/kept"), tree.path("export/dir")).unwrap();
    }
}

#[test]
fn a_link_is_told_about_and_never_followed() {
    let tree = Tree::new();
    let secret = tree.write("secret", "secret");
    tree.make_dir("export");
    symlink("../secret", tree.path("export/link")).unwrap();
    let store = Store::open(options(&[tree.path("export")])).unwrap();
    let record = store.lookup(&tree.view("export"), &name("link")).unwrap().unwrap();
    assert_eq!(record.target, b"../secret");
    for generation in [generation(&secret), record.attributes.generation()] {
        let read = store.read_chunk(&tree.view("export/link"), &generation, ChunkIndex(0), |_| panic!("begun"));
        assert_eq!(read.err(), Some(Errno::ESTALE));
    }
}

#[test]
fn a_neighbour_with_the_same_beginning_is_outside() {
    let tree = Tree::new();
    tree.make_dir("export");
    tree.make_dir("exported");
    let file = tree.write("exported/file", "x");
    let store = Store::open(options(&[tree.path("export")])).unwrap();
    assert_eq!(store.listing(&tree.view("exported")).unwrap_err(), Errno::ENOENT);
    let read = store.read_chunk(&view(&file), &generation(&file), ChunkIndex(0), |_| panic!("begun"));
    assert_eq!(read.err(), Some(Errno::ENOENT));
}
