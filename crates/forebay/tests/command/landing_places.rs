//! Directories of the backing file system in which a burst tier may land.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

use crate::place::Place;

#[test]
fn a_directory_that_every_user_could_exchange_is_refused() {
    let Some(place) = Place::with_views() else { return };
    let above = place.path("above");
    fs::create_dir_all(above.join("backing")).unwrap();
    let tier = above.join("backing").display().to_string();
    let up = ["up", "--export", &place.source(), "--burst", &tier, "--burst-store", "store"];
    fs::set_permissions(above.join("backing"), Permissions::from_mode(0o777)).unwrap();
    for mode in [0o777, 0o757] {
        fs::set_permissions(&above, Permissions::from_mode(mode)).unwrap();
        let message = place.fails(1, &up);
        for part in [above.to_str().unwrap(), "every user could exchange it", "others may write to it", "chmod +t"] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(!place.path("store").exists(), "nothing was made");
    }
    place.assert_clean();
    // A directory of a project is its owner's, and its group writes there.
    chown(&above, Some(65_533), None).unwrap();
    fs::set_permissions(&above, Permissions::from_mode(0o2775)).unwrap();
    place.succeeds(&[&up[..], &["--burst-capacity", "256MiB"]].concat());
    place.succeeds(&["down"]);
    place.assert_clean();
}
