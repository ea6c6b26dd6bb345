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
    place.succeeds(&["down"]);
    place.assert_clean();
}
