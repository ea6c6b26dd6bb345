use super::*;
use crate::limits;
use crate::samples::{path, profile};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_profile_reads_back(profile in profile()) {
        prop_assert_eq!(Profile::decode(&profile.encode().unwrap()), Ok(profile));
    }

    #[test]
    fn a_spoiled_or_cut_profile_is_refused(profile in profile(), at: prop::sample::Index, flip in 1u8..) {
        let mut bytes = profile.encode().unwrap();
        let at = at.index(bytes.len());
        prop_assert!(Profile::decode(&bytes[..at]).is_err());
        bytes[at] ^= flip;
        prop_assert!(Profile::decode(&bytes).is_err());
    }

    #[test]
    fn a_body_that_lies_is_refused_or_within_the_limits(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(profile) = Profile::decode(&FORMAT.seal(&body).unwrap()) {
            prop_assert_eq!(profile.check(), Ok(()));
        }
    }
}

#[test]
fn profiles_above_a_limit_are_not_written() {
    let good = Profile::new("train".into(), vec![ViewPath::root()], 7);
    let mut bad = good.clone();
    bad.command = "x".repeat(limits::PROFILE_COMMAND_BYTES_MAX + 1);
    assert!(bad.encode().is_err());
    bad.command = "a\x1b[2J".into();
    assert_eq!(bad.encode(), Err(FormatError::Content("its command is not printable")));
    let size = |size_bytes| Generation { size_bytes, ..Generation::default() };
    let file = |chunks| vec![Use::File { path: path("a"), generation: size(10), chunks }];
    assert!(Profile { uses: file(vec![ChunkIndex(1)]), ..good.clone() }.encode().is_err());
    assert!(Profile { uses: file(vec![]), ..good.clone() }.encode().is_err());
    assert!(Profile { uses: file(vec![ChunkIndex(0)]), ..good }.encode().is_ok());
}

#[test]
fn a_count_that_lies_allocates_nothing() {
    let head = Head { command: String::new(), exports: vec![], made_unix_s: 0, starts: 0, uses_count: u32::MAX };
    let bytes = FORMAT.seal(&postcard::to_stdvec(&head).unwrap()).unwrap();
    assert_eq!(Profile::decode(&bytes), Err(FormatError::Limit("its directories and files")));
    let head = Head { uses_count: 1000, ..head };
    let bytes = FORMAT.seal(&postcard::to_stdvec(&head).unwrap()).unwrap();
    assert!(matches!(Profile::decode(&bytes), Err(FormatError::Content(_))));
}

#[test]
fn the_key_depends_on_command_and_exports_alone() {
    let (a, b) = (path("soft"), path("scratch/b"));
    let key = ProfileKey::of("train", &[a.clone(), b.clone()]);
    assert_eq!(key, ProfileKey::of("train", &[b.clone(), a.clone(), b.clone()]));
    for other in
        [ProfileKey::of("trai", &[path("nsoft"), b.clone()]), ProfileKey::of("train", &[a]), ProfileKey::of("", &[])]
    {
        assert_ne!(key, other);
    }
    assert_eq!(ProfileKey::parse(&key.to_string()), Some(key));
    assert_eq!(ProfileKey::of("train", &[b]).to_string(), "22b70823bb9dd7e6");
    for text in ["", "0", "00000000000000000", "000000000000000G", "000000000000000A", "../../../../etc/"] {
        assert_eq!(ProfileKey::parse(text), None, "{text}");
    }
}
