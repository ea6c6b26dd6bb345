//! A directory stays as small as it was told to; the least recently used leave first.

use std::fs::{self, FileTimes};
use std::time::{Duration, SystemTime};

use forebay_profile::{Piece, ProfileDirectory, ProfileError, ProfileFiles, ProfileKey};
use forebay_types::ChunkIndex;

use crate::files::place::{AMPLE_BYTES, Place, contents, generation, profile, view, write_pack};

/// Makes a key's files look as if they had been used so long ago.
fn age(directory: &ProfileDirectory, key: ProfileKey, age: Duration) {
    let files = directory.files(key);
    for path in [files.profile_path(), files.pack_path()] {
        if let Ok(file) = fs::File::open(path) {
            file.set_times(FileTimes::new().set_modified(SystemTime::now() - age)).unwrap();
        }
    }
}

fn commands(directory: &ProfileDirectory) -> Vec<String> {
    directory.list().unwrap().into_iter().map(|kept| kept.profile.unwrap().unwrap().command).collect()
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn stored_profiles_are_found_and_listed() {
    let place = Place::new();
    let directory = place.open();
    let one = profile("train");
    assert_eq!(directory.find("train", &one.exports).unwrap(), None);
    directory.store(&one).unwrap();
    write_pack(&directory.files(one.key()));
    assert_eq!(directory.find("train", &one.exports).unwrap(), Some(one.clone()));
    let kept = directory.list().unwrap();
    assert_eq!((kept.len(), kept[0].key), (1, one.key()));
    assert_eq!(kept[0].pack_bytes, Some(fs::metadata(directory.files(one.key()).pack_path()).unwrap().len()));
    assert_eq!(kept[0].profile_bytes, one.encode().unwrap().len() as u64);
    fs::write(place.path().join("note.txt"), "mine").unwrap();
    assert!(directory.remove(one.key()).unwrap() && !directory.remove(one.key()).unwrap());
    assert_eq!(place.names(), ["note.txt"], "what is not ours stays");
}

#[test]
fn the_least_recently_used_leave_for_bytes() {
    let place = Place::new();
    let directory = place.open();
    for (hours, command) in (0..).zip(["d", "c", "b", "a"]) {
        directory.store(&profile(command)).unwrap();
        write_pack(&directory.files(profile(command).key()));
        age(&directory, profile(command).key(), HOUR * hours);
    }
    assert_eq!(commands(&directory), ["d", "c", "b", "a"]);
    // The oldest is used, the second oldest is the one to go.
    directory.find("a", &profile("a").exports).unwrap().unwrap();
    assert_eq!(commands(&directory)[0], "a");
    let kept = directory.list().unwrap();
    let each_bytes = kept[0].profile_bytes + kept[0].pack_bytes.unwrap();
    let small = ProfileDirectory::open(&place.path(), each_bytes * 4).unwrap();
    small.store(&profile("e")).unwrap();
    assert_eq!(commands(&small), ["e", "a", "d", "c"]);
    // A pack makes room too.
    write_pack(&small.files(profile("e").key()));
    assert_eq!(commands(&small), ["e", "a", "d", "c"]);
    small.store(&profile("f")).unwrap();
    assert_eq!(commands(&small), ["f", "e", "a", "d"]);
    assert!(!small.files(profile("c").key()).pack_path().exists(), "its pack goes with it");
}

#[test]
fn a_file_that_the_user_names_makes_nobody_leave() {
    let place = Place::new();
    let directory = place.open();
    directory.store(&profile("a")).unwrap();
    let named = ProfileFiles::at(&place.path().join("mine"), 10).unwrap();
    named.write(&profile("b")).unwrap();
    assert_eq!(commands(&directory), ["a"]);
}

#[test]
fn the_least_recently_used_leave_for_number() {
    let place = Place::new();
    let directory = place.open();
    let name = |number: usize| format!("command {number}");
    for number in 0..forebay_profile::limits::PROFILES_MAX {
        directory.store(&profile(&name(number))).unwrap();
    }
    age(&directory, profile(&name(3)).key(), HOUR);
    directory.store(&profile("one more")).unwrap();
    let left = commands(&directory);
    assert_eq!(left.len(), forebay_profile::limits::PROFILES_MAX);
    assert!(!left.contains(&name(3)) && left.contains(&"one more".to_owned()));
}

#[test]
fn a_pack_that_never_fits_is_not_written() {
    let place = Place::new();
    let directory = ProfileDirectory::open(&place.path(), 64 << 10).unwrap();
    directory.store(&profile("train")).unwrap();
    let mut pack = directory.files(profile("train").key()).begin_pack(1).unwrap();
    let bytes = contents(1, 1 << 20);
    let piece = Piece::of(view("a"), generation(1 << 20), ChunkIndex(0), &bytes).unwrap();
    pack.add(piece, &bytes).unwrap();
    let error = pack.finish().unwrap_err();
    assert!(matches!(error, ProfileError::OverBudget { .. }), "{error}");
    assert_eq!(place.names().len(), 1, "the profile stays, nothing unfinished does");
}

#[test]
fn leftovers_of_a_dead_writer_go_when_they_are_old() {
    let place = Place::new();
    let directory = ProfileDirectory::open(&place.path(), AMPLE_BYTES).unwrap();
    let key = profile("train").key();
    let names = [format!(".{key}.pack.0123.unfinished"), format!(".{key}.pack.4567.unfinished"), ".other".to_owned()];
    for name in &names {
        fs::write(place.path().join(name), "x").unwrap();
    }
    for name in [&names[0], &names[2]] {
        let file = fs::File::open(place.path().join(name)).unwrap();
        file.set_times(FileTimes::new().set_modified(SystemTime::now() - 2 * HOUR)).unwrap();
    }
    directory.store(&profile("train")).unwrap();
    assert_eq!(place.names(), [names[1].clone(), names[2].clone(), format!("{key}.profile")]);
}

#[test]
fn the_default_place() {
    let place = |variables: &[(&str, &str)]| {
        let variable = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, text)| (*text).to_owned());
        ProfileDirectory::default_path(&variable).map(|path| path.display().to_string())
    };
    assert_eq!(place(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")]).unwrap(), "/c/forebay/profiles");
    assert_eq!(place(&[("XDG_CACHE_HOME", "c"), ("HOME", "/h")]).unwrap(), "/h/.cache/forebay/profiles");
    assert!(place(&[("HOME", "")]).unwrap_err().to_string().contains("--profile-dir"));
}
