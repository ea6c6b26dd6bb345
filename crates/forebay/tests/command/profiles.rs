//! `profile`: what is recorded is listed, shown and removed; what cannot be used says why.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use forebay_profile::{Piece, Profile, ProfileDirectory, ProfileKey, Use};
use forebay_types::{CHUNK_BYTES, ChunkIndex, Generation, ViewPath};
use serde_json::{Value, json};

use crate::place::{Place, wait_until};

fn view(text: &str) -> ViewPath {
    ViewPath::new(text.as_bytes()).unwrap()
}

/// A profile of `command` that names a directory, an absent name, and of a file of three chunks two.
fn profile(command: &str) -> Profile {
    let generation = Generation { size_bytes: 2 * CHUNK_BYTES + 5, ..Generation::default() };
    let mut profile = Profile::new(command.to_owned(), vec![view("soft")], 1_700_000_000);
    profile.starts = 3;
    profile.uses = vec![
        Use::Directory { path: view("soft"), generation },
        Use::Absent { path: view("soft/a.so") },
        Use::File { path: view("soft/a.py"), generation, chunks: vec![ChunkIndex(0), ChunkIndex(2)] },
    ];
    profile
}

/// Stores it, with a pack of the file's last chunk.
fn store(place: &Place, command: &str) -> ProfileKey {
    let directory = ProfileDirectory::open(&place.path("profiles"), 1 << 30).unwrap();
    let profile = profile(command);
    directory.store(&profile).unwrap();
    let mut pack = directory.files(profile.key()).begin_pack(3).unwrap();
    let generation = *profile.uses[2].generation().unwrap();
    pack.add(Piece::of(view("soft/a.py"), generation, ChunkIndex(2), b"12345").unwrap(), b"12345").unwrap();
    pack.finish().unwrap();
    profile.key()
}

#[test]
fn without_profiles_there_is_nothing_to_show() {
    let place = Place::new();
    let path = place.path("profiles");
    assert_eq!(place.succeeds(&["profile", "list"]), format!("there are no profiles in {}\n", path.display()));
    let list = place.json(&["profile", "list"]);
    assert_eq!((&list["profiles"], &list["directory"]), (&json!([]), &json!(path)));
    assert!(place.fails(1, &["profile", "show", "train"]).contains("there is no profile 'train'"));
    assert!(place.succeeds(&["profile", "drop", "--all"]).contains("removed 0 profiles"));
    assert!(!path.exists(), "looking makes nothing");
}

/// The job does not need one, but a person who waits for the second start would wonder.
#[test]
fn a_job_says_that_its_profile_has_no_place() {
    let Some(place) = Place::with_views() else { return };
    let profiles = place.path("profiles");
    fs::create_dir(&profiles).unwrap();
    fs::set_permissions(&profiles, fs::Permissions::from_mode(0o777)).unwrap();
    let up = place.run(&["up", "--profile", "auto", "--export", &place.source()]);
    let said = String::from_utf8_lossy(&up.stderr);
    assert!(up.status.success() && said.contains("the job has no profile: "), "{said}");
    assert!(said.contains("others may write to it (mode 0777)"), "{said}");
    assert!(!String::from_utf8_lossy(&up.stdout).contains("profile:"), "{up:?}");
    place.succeeds(&["down"]);
    place.assert_clean();
}

#[test]
fn a_profile_is_listed_and_shown() {
    let place = Place::new();
    let key = store(&place, "train gpt").to_string();
    let list = place.succeeds(&["profile", "list"]);
    for part in [&*key, "train gpt", "/soft", "1.0MiB", "ago", "of 4GiB"] {
        assert!(list.contains(part), "{part}: {list}");
    }
    let json = place.json(&["profile", "list"]);
    let one = &json["profiles"][0];
    assert_eq!((&one["key"], &one["command"], &one["exports"]), (&json!(key), &json!("train gpt"), &json!(["/soft"])));
    assert_eq!((&one["starts"], &one["directories"], &one["files"]), (&json!(3), &json!(1), &json!(1)));
    assert_eq!((&one["content_bytes"], &one["made_unix_s"]), (&json!(CHUNK_BYTES + 5), &json!(1_700_000_000)));
    assert_eq!((&one["pack"]["pieces"], &one["pack"]["is_usable"]), (&json!(1), &json!(true)));
    assert_eq!(json["bytes"], json!(one["profile_bytes"].as_u64().unwrap() + one["pack"]["bytes"].as_u64().unwrap()));
    for which in [&*key, &key[..4], "train gpt"] {
        let shown = place.succeeds(&["profile", "show", which]);
        let uses: Vec<&str> = shown.lines().skip(4).collect();
        let file = "file       /soft/a.py (2.0MiB, chunks 0,2, partly in the pack)";
        assert_eq!(uses, ["directory  /soft", "absent     /soft/a.so", file]);
    }
    let uses = &place.json(&["profile", "show", &key])["uses"];
    assert_eq!(uses[1], json!({"kind": "absent", "path": "/soft/a.so"}));
    assert_eq!((&uses[2]["chunks"], &uses[2]["chunks_in_pack"]), (&json!([0, 2]), &json!(1)));
}

#[test]
fn profiles_are_removed_by_name_or_all() {
    let place = Place::new();
    let keys = ["a", "b", "c"].map(|command| store(&place, command).to_string());
    fs::write(place.path("profiles/note"), "mine").unwrap();
    assert!(place.fails(1, &["profile", "drop", "nothing", "a"]).contains("there is no profile 'nothing'"));
    assert_eq!(place.json(&["profile", "list"])["profiles"].as_array().unwrap().len(), 3, "nothing was done");
    let removed = place.json(&["profile", "drop", "a", &keys[0]]);
    assert_eq!(removed["removed"].as_array().unwrap().len(), 1, "named twice");
    let left = place.succeeds(&["profile", "list"]);
    assert!(!left.contains(&keys[0]) && left.contains(&keys[1]) && left.contains(&keys[2]));
    assert!(place.succeeds(&["profile", "drop", "--all"]).contains("removed 2 profiles"));
    let names: Vec<_> = fs::read_dir(place.path("profiles")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["note"]);
}

#[test]
fn unusable_profiles_are_listed_with_the_reason() {
    let place = Place::new();
    let (broken, open) = (store(&place, "broken").to_string(), store(&place, "open").to_string());
    let path = |key: &str, extension: &str| place.path(&format!("profiles/{key}.{extension}"));
    fs::write(path(&broken, "profile"), "nonsense, longer than a head").unwrap();
    fs::set_permissions(path(&open, "pack"), fs::Permissions::from_mode(0o666)).unwrap();
    let list = place.succeeds(&["profile", "list"]);
    assert!(list.contains("it is not a profile of Forebay"), "{list}");
    assert!(list.contains("others may write to it (mode 0666)"), "{list}");
    let json = place.json(&["profile", "list"]);
    let unusable = json["profiles"].as_array().unwrap().iter().find(|each| each["key"] == json!(broken)).unwrap();
    assert!(unusable["problems"][0].as_str().unwrap().contains("is not used"));
    assert!(place.fails(1, &["profile", "show", &broken]).contains("cannot be shown"));
    place.succeeds(&["profile", "drop", &broken]);
    assert!(!path(&broken, "profile").exists() && !path(&broken, "pack").exists());
    place.succeeds(&["profile", "show", "open"]);
}

#[test]
fn a_directory_of_somebody_else_is_refused() {
    let place = Place::new();
    store(&place, "train");
    if fs::metadata(place.path("profiles")).unwrap().uid() != 0 {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "must not be skipped in CI: not root");
        return println!("skipped: not root");
    }
    chown(place.path("profiles"), Some(12_345), None).unwrap();
    let message = place.fails(1, &["profile", "list"]);
    assert!(message.contains("it belongs to user 12345, not to you (user 0)"), "{message}");
    assert!(place.fails(1, &["profile", "drop", "--all"]).contains("12345"));
    assert_eq!(fs::read_dir(place.path("profiles")).unwrap().count(), 2);
}

/// The one profile that is there, once `is_it` holds of it.
fn wait_for_profile(place: &Place, is_it: impl Fn(&Value) -> bool) -> Value {
    let one = || place.json(&["profile", "list"])["profiles"][0].clone();
    wait_until("the start-up is written down", || is_it(&one()));
    one()
}

/// Starts a job of one node that keeps a profile for `train`, and reads a file on its view.
fn start(place: &Place, profile: &str) {
    let (source, view) = (place.source(), place.path("view"));
    let options = ["--local", "1", "--job", "p", "--export", &source, "--view", view.to_str().unwrap()];
    place.succeeds(&[&["up", "--profile", profile, "--profile-command", "train"], &options[..]].concat());
    let shown = view.join(format!("0{source}"));
    assert_eq!(fs::read(shown.join("below/large")).unwrap(), vec![7; 3 << 20]);
    assert!(fs::metadata(shown.join("absent")).is_err());
}

#[test]
fn a_start_up_is_recorded_and_the_next_one_learns() {
    let Some(place) = Place::with_views() else { return };
    start(&place, "auto");
    let one = wait_for_profile(&place, |one| one["pack"]["is_usable"] == json!(true));
    assert_eq!((&one["command"], &one["starts"], &one["files"]), (&json!("train"), &json!(1), &json!(1)));
    assert_eq!(one["pack"]["content_bytes"], json!(3 << 20));
    let shown = place.succeeds(&["profile", "show", "train"]);
    let (file, absent) =
        (format!("{}/below/large (3MiB, in the pack)", place.source()), format!("{}/absent", place.source()));
    assert!(shown.contains(&file) && shown.contains(&absent), "{shown}");
    place.succeeds(&["down", "--job", "p"]);
    start(&place, "auto");
    let recorded = place.json(&["profile", "record", "--job", "p"]);
    assert!(recorded["path"].as_str().unwrap().ends_with(".profile"));
    assert_eq!(wait_for_profile(&place, |_| true)["starts"], json!(2));
    place.succeeds(&["down", "--job", "p"]);
    place.assert_clean();
}

/// One in so many of the known contents is left to be asked for at each start, another one each time.
const SAMPLE: u64 = 16;

/// So many that of any sixteenth some are used.
const FILES: usize = 640;

/// Starts a job whose programs read the first `count` files of `many`; how many known uses were not used and left.
fn use_files(place: &Place, count: usize, is_known: bool) -> u64 {
    let (source, view) = (place.source(), place.path("view"));
    let options = ["--local", "1", "--job", "p", "--export", &source, "--view", view.to_str().unwrap()];
    place.succeeds(&[&["up", "--profile", "auto", "--profile-command", "train"], &options[..]].concat());
    let prefill = || place.json(&["status", "--job", "p"])["nodes"][0]["prefill"]["state"].clone();
    wait_until("what is known has come", || !is_known || prefill() == "filled");
    (0..count).for_each(|file| drop(fs::read(view.join(format!("0{source}/many/{file}"))).unwrap()));
    let told = place.json(&["profile", "record", "--job", "p"]);
    place.succeeds(&["down", "--job", "p"]);
    told["dropped"].as_u64().unwrap()
}

#[test]
fn unused_files_are_reported_and_leave() {
    let Some(place) = Place::with_views() else { return };
    fs::create_dir(place.path("source/many")).unwrap();
    (0..FILES).for_each(|file| fs::write(place.path(&format!("source/many/{file}")), [7; 100]).unwrap());
    assert_eq!(use_files(&place, FILES, false), 0);
    let told: u64 = (0..SAMPLE).map(|_| use_files(&place, FILES / 2, true)).sum();
    assert_eq!(told, FILES as u64 / 2);
    let shown = place.json(&["profile", "show", "train"]);
    let paths = shown["uses"].as_array().unwrap().iter().filter(|each| each["kind"] == "file");
    let mut left: Vec<usize> =
        paths.map(|each| each["path"].as_str().unwrap().rsplit('/').next().unwrap().parse().unwrap()).collect();
    left.sort_unstable();
    assert_eq!(left, (0..FILES / 2).collect::<Vec<_>>());
    place.assert_clean();
}

#[test]
fn a_job_goes_on_without_a_profile_that_cannot_be_used() {
    let Some(place) = Place::with_views() else { return };
    let mine = place.path("mine.profile");
    fs::write(&mine, "nonsense").unwrap();
    chown(&mine, Some(12_345), None).unwrap();
    start(&place, mine.to_str().unwrap());
    let refused = place.fails(1, &["profile", "record", "--job", "p"]);
    assert!(refused.contains("it belongs to user 12345, not to you (user 0)"), "{refused}");
    place.succeeds(&["down", "--job", "p"]);
    assert_eq!(fs::read(&mine).unwrap(), b"nonsense");
    start(&place, "off");
    assert!(place.fails(1, &["profile", "record", "--job", "p"]).contains("the job keeps no profile"));
    place.succeeds(&["down", "--job", "p"]);
    assert!(!place.path("profiles").exists());
    place.assert_clean();
}

#[test]
fn wrong_settings_of_profiles() {
    let place = Place::new();
    for (arguments, part) in [
        (&["profile"][..], "Usage: forebay profile"),
        (&["profile", "drop"], "KEY|COMMAND"),
        (&["profile", "drop", "--all", "x"], "cannot be used with"),
        (&["profile", "list", "--profile-dir", ""], "not an absolute path"),
        (&["up", "--pack", "on"], "neither auto nor off"),
        (&["up", "--profile-command", ""], "has 1 to 1024 bytes"),
    ] {
        let message = place.fails(2, arguments);
        assert!(message.contains(part), "{arguments:?}: {message}");
    }
    let output = place.command(&["profile", "list"]).env("FOREBAY_FANOUT", "many").output().unwrap();
    assert!(output.status.success(), "a mistake elsewhere is no matter: {output:?}");
    let output = place.command(&["profile", "list"]).env("FOREBAY_PROFILE_BUDGET", "many").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
