//! `explain`: from the node whose view the path is in, up to the root.

use crate::place::Place;

#[test]
fn the_way_of_an_answer() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--local", "3", "--fanout", "1", "--export", &place.source()]);
    let file = format!("{}/file", place.source());
    let in_view = format!("{}/view/2{file}", place.job("default").display());
    std::fs::read(&in_view).unwrap();
    let ranks = |arguments: &[&str]| -> Vec<u64> {
        let steps = place.json(arguments);
        steps.as_array().unwrap().iter().map(|step| step["rank"].as_u64().unwrap()).collect()
    };
    let from_leaf = ranks(&["explain", &in_view]);
    assert_eq!(from_leaf[0], 2);
    assert_eq!(ranks(&["explain", "--rank", "1", &file])[0], 1);
    let text = place.succeeds(&["explain", &in_view]);
    assert!(text.starts_with(&file) && text.contains("why"), "{text}");
    assert_eq!(place.json(&["explain", "/etc/hosts"])[0]["answer"], "outside");
    let absent = format!("{in_view}-absent");
    assert!(!std::fs::exists(&absent).unwrap());
    let steps = place.json(&["explain", &absent]);
    assert_eq!(steps.as_array().unwrap().last().unwrap()["answer"], "absent", "{steps}");
    let many: Vec<String> = (0..65).map(|number| format!("{file}-{number}")).collect();
    let many: Vec<&str> = std::iter::once("refresh").chain(many.iter().map(String::as_str)).collect();
    assert!(place.fails(2, &many).contains("at most 64 paths, and a link counts as two; refresh the directory"));
    let refreshed = place.run(&["refresh", "/etc/hosts", &file]);
    let note = String::from_utf8(refreshed.stderr).unwrap();
    assert_eq!(note, "forebay: note: /etc/hosts is outside the job's exports, so there is nothing to refresh\n");
    for (status, command) in [(1, &["explain", "--rank", "7", &file][..]), (125, &["run", "--rank", "7", "--", "true"])]
    {
        assert!(place.fails(status, command).contains("no node 7"), "{command:?}");
    }
    place.succeeds(&["down"]);
    place.assert_clean();
}

/// A site's `/soft` is often a link.
#[test]
fn a_path_through_a_link_is_refreshed_and_explained() {
    let Some(place) = Place::with_views() else { return };
    let link = place.path("link").display().to_string();
    std::os::unix::fs::symlink("source", &link).unwrap();
    place.succeeds(&["up", "--export", &place.source()]);
    let in_view = format!("{}/view{}/file", place.job("default").display(), place.source());
    let read = || std::fs::read_to_string(&in_view).unwrap();
    assert_eq!(read(), "contents of file\n");
    std::fs::write(place.path("source/file"), "other\n").unwrap();
    assert_eq!(read(), "contents of file\n", "a job sees one snapshot");
    place.succeeds(&["refresh", &format!("{link}/below/../file")]);
    assert_eq!(read(), "other\n");
    let text = place.succeeds(&["explain", &format!("{link}/file")]);
    assert!(text.starts_with(&format!("{}/file\n", place.source())), "{text}");
    place.succeeds(&["down"]);
    place.assert_clean();
}
