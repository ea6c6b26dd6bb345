//! Files that another user could have prepared are not used, and the message says why.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use forebay_profile::{ProfileDirectory, ProfileError, ProfileFiles};
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::files::place::{AMPLE_BYTES, Place, is_root, profile, write_pack};

/// A user that is not root.
const SOMEBODY: u32 = 12_345;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A profile and its pack.
fn written(place: &Place) -> (ProfileDirectory, ProfileFiles) {
    let directory = place.open();
    directory.store(&profile("train")).unwrap();
    let files = directory.files(profile("train").key());
    write_pack(&files);
    (directory, files)
}

/// Neither file may be used, and both messages hold `part`.
fn assert_refused(files: &ProfileFiles, part: &str) {
    for error in [files.read().unwrap_err(), files.open_pack().unwrap_err()] {
        assert!(matches!(error, ProfileError::Untrusted { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn written_files_are_private() {
    let place = Place::new();
    let (_, files) = written(&place);
    assert_eq!(mode(&place.path()), 0o700);
    assert_eq!((mode(&files.profile_path()), mode(&files.pack_path())), (0o600, 0o600));
    assert_eq!(place.names().len(), 2, "nothing unfinished stays");
}

#[test]
fn files_that_others_may_write_to() {
    let place = Place::new();
    let (directory, files) = written(&place);
    for (mode, is_used) in [(0o644, true), (0o660, false), (0o602, false), (0o400, true)] {
        chmod(&files.profile_path(), mode);
        chmod(&files.pack_path(), mode);
        if is_used {
            assert_eq!(files.read().unwrap(), Some(profile("train")));
            assert!(files.open_pack().unwrap().is_some());
        } else {
            assert_refused(&files, &format!("others may write to it (mode {mode:04o})"));
        }
    }
    chmod(&files.profile_path(), 0o666);
    assert!(matches!(directory.list().unwrap()[0].profile, Err(ProfileError::Untrusted { .. })), "it is listed");
    directory.store(&profile("train")).unwrap();
    assert_eq!(files.read().unwrap(), Some(profile("train")), "and replaced by the next one");
}

#[test]
fn files_of_somebody_else() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let (_, files) = written(&place);
    for path in [files.profile_path(), files.pack_path()] {
        chown(path, Some(SOMEBODY), None).unwrap();
    }
    assert_refused(&files, "it belongs to user 12345, not to you (user 0)");
    // Nor is it taken from him.
    assert!(files.write(&profile("train")).unwrap_err().to_string().contains("user 12345"));
    assert!(files.begin_pack(3).err().unwrap().to_string().contains("user 12345"));
    assert_eq!(fs::metadata(files.profile_path()).unwrap().uid(), SOMEBODY);
    assert_eq!(place.names().len(), 2);
}

#[test]
fn what_is_no_file() {
    let place = Place::new();
    let (_, files) = written(&place);
    let paths = [files.profile_path(), files.pack_path()];
    for path in &paths {
        let elsewhere = path.with_extension("elsewhere");
        fs::rename(path, &elsewhere).unwrap();
        symlink(&elsewhere, path).unwrap();
    }
    assert_refused(&files, "it is a symbolic link");
    for path in &paths {
        fs::remove_file(path).unwrap();
        mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
    }
    // No process writes to them: this must not wait.
    assert_refused(&files, "it is not a regular file");
    for path in &paths {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    }
    assert_refused(&files, "it is not a regular file");
}

#[test]
fn directories_that_are_not_ones_own() {
    let place = Place::new();
    written(&place);
    let path = place.path();
    let refused = |path: &Path| ProfileDirectory::open(path, AMPLE_BYTES).unwrap_err().to_string();
    chmod(&path, 0o770);
    assert!(refused(&path).contains("others may write to it (mode 0770)"));
    chmod(&path, 0o755);
    ProfileDirectory::open(&path, AMPLE_BYTES).unwrap();
    let link = path.with_file_name("link");
    symlink(&path, &link).unwrap();
    assert!(refused(&link).contains("it is a symbolic link"));
    let file = path.with_file_name("file");
    fs::write(&file, "").unwrap();
    assert!(refused(&file).contains("cannot create the directory"));
    if is_root() {
        chown(&path, Some(SOMEBODY), None).unwrap();
        assert!(refused(&path).contains("it belongs to user 12345"));
    }
}

#[test]
fn a_profile_under_another_key_is_of_another_command() {
    let place = Place::new();
    let (directory, files) = written(&place);
    let other = profile("other");
    fs::rename(files.profile_path(), directory.files(other.key()).profile_path()).unwrap();
    assert!(directory.find("train", &other.exports).unwrap().is_none());
    let error = directory.find("other", &other.exports).unwrap_err();
    assert!(error.to_string().contains("it is of another command"), "{error}");
}

#[test]
fn a_file_that_the_user_names_may_lie_anywhere() {
    let place = Place::new();
    written(&place);
    let path = place.path().join("mine.bin");
    let files = ProfileFiles::at(&path, AMPLE_BYTES).unwrap();
    assert!(files.read().unwrap().is_none() && files.open_pack().unwrap().is_none());
    files.write(&profile("x")).unwrap();
    write_pack(&files);
    assert_eq!(files.read().unwrap(), Some(profile("x")));
    assert!(path.with_file_name("mine.pack").exists());
    assert!(files.remove().unwrap() && !files.remove().unwrap() && !path.exists());
    assert!(ProfileFiles::at(&path.with_extension("pack"), AMPLE_BYTES).is_err());
    assert!(
        ProfileFiles::at(Path::new("/nonexistent/x"), AMPLE_BYTES).unwrap_err().to_string().contains("cannot open")
    );
}
