//! Directories of the backing file system in which a burst tier may land.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

use crate::place::Place;

#[test]
fn a_directory_that_others_could_exchange_is_refused() {
    let Some(place) = Place::with_views() else { return };
    let above = place.path("above");
    fs::create_dir_all(above.join("backing")).unwrap();
    let tier = above.join("backing").display().to_string();
    let up = ["up", "--export", &place.source(), "--burst", &tier, "--burst-store", "store"];
    fs::set_permissions(above.join("backing"), Permissions::from_mode(0o777)).unwrap();
    for (mode, owner, why) in [
        (0o777, 0, "others may write to it"),
        (0o775, 0, "others may write to it"),
        (0o755, 65_533, "belongs to user 65533"),
    ] {
        fs::set_permissions(&above, Permissions::from_mode(mode)).unwrap();
        chown(&above, Some(owner), None).unwrap();
        let message = place.fails(1, &up);
        for part in [above.to_str().unwrap(), "other users could exchange it", why] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(!place.path("store").exists(), "nothing was made");
    }
    place.assert_clean();
    // Others may write to the directory itself: it stays the one that was named.
    chown(&above, Some(0), None).unwrap();
    fs::set_permissions(&above, Permissions::from_mode(0o1777)).unwrap();
    place.succeeds(&[&up[..], &["--burst-capacity", "256MiB"]].concat());
    place.succeeds(&["down"]);
    place.assert_clean();
}
