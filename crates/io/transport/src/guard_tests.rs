use forebay_secret::JobKey;
use proptest::prelude::*;

use super::*;

const GREETINGS: Greetings<'static> = Greetings { asking: b"a", answering: b"b", place: PLACE };

const PLACE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 7);

fn key(byte: u8) -> JobKey {
    JobKey::from_bytes([byte; JOB_KEY_BYTES])
}

/// The asking side's guard for sending, and the answering side's for receiving.
fn direction(level: Level) -> (Guard, Guard) {
    let (mut sends, _) = guards(&key(1), Role::Asking, GREETINGS);
    let (_, mut receives) = guards(&key(1), Role::Answering, GREETINGS);
    sends.set_level(level);
    receives.set_level(level);
    (sends, receives)
}

fn protected(guard: &mut Guard, frame: &[u8]) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    guard.protect(&mut bytes, 0).unwrap();
    bytes
}

proptest! {
    #[test]
    fn what_is_protected_opens_once_and_any_changed_bit_is_noticed(
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 16..200), 1..5),
        sealed: bool,
        at: prop::sample::Index,
    ) {
        let level = if sealed { Level::Seal } else { Level::Auth };
        let (mut sends, mut receives) = direction(level);
        for frame in &frames {
            let sent = protected(&mut sends, frame);
            prop_assert_eq!(&sent[..16], &frame[..16], "the head stays readable");
            prop_assert_eq!(sealed && frame.len() > 24, frame.len() > 24 && sent[16..frame.len()] != frame[16..]);
            let (_, mut other) = direction(level);
            other.0.as_mut().unwrap().used = receives.0.as_ref().unwrap().used;
            let mut changed = sent.clone();
            changed[at.index(sent.len())] ^= 1;
            prop_assert_eq!(other.open(&mut changed), Err(WireError::Forged));
            let mut opened = sent;
            prop_assert_eq!(receives.open(&mut opened), Ok(()));
            prop_assert_eq!(&opened[..frame.len()], &frame[..]);
        }
    }
}

#[test]
fn a_frame_is_good_for_one_place_in_one_direction_of_one_connection_of_one_job() {
    for level in [Level::Auth, Level::Seal] {
        let (mut sends, mut receives) = direction(level);
        let [first, second] = [&[1; 20], &[2; 20]].map(|frame| protected(&mut sends, frame));
        let opens = |guard: &mut Guard, frame: &[u8]| guard.open(&mut frame.to_vec()).is_ok();
        assert!(!opens(&mut direction(level).1, &second), "left out");
        assert!(opens(&mut receives, &first));
        assert!(!opens(&mut receives, &first), "repeated");
        let (_, mut own) = guards(&key(1), Role::Asking, GREETINGS);
        own.set_level(level);
        assert!(!opens(&mut own, &first), "sent back");
        for (key, greetings) in [
            (key(2), GREETINGS),
            (key(1), Greetings { asking: b"x", ..GREETINGS }),
            (key(1), Greetings { answering: b"x", ..GREETINGS }),
            (key(1), at("10.0.0.1:8")),
            (key(1), at("10.0.0.2:7")),
            (key(1), at("[fd00::1]:7")),
        ] {
            let (_, mut other) = guards(&key, Role::Answering, greetings);
            other.set_level(level);
            assert!(!opens(&mut other, &first));
        }
    }
}

/// Greetings of a connection that was made to this place.
fn at(place: &str) -> Greetings<'static> {
    Greetings { place: place.parse().unwrap(), ..GREETINGS }
}

#[test]
fn both_sides_write_a_place_alike() {
    for (asking, answering) in
        [("10.0.0.1:7", "[::ffff:10.0.0.1]:7"), ("127.0.0.1:7", "127.0.0.2:7"), ("[fe80::1%3]:7", "[fe80::1%4]:7")]
    {
        let (mut sends, _) = guards(&key(1), Role::Asking, at(asking));
        let (_, mut receives) = guards(&key(1), Role::Answering, at(answering));
        assert_eq!(receives.open(&mut protected(&mut sends, &[1; 20])), Ok(()), "{asking} {answering}");
    }
}

#[test]
fn bodies_are_sealed_with_tags_of_their_own() {
    let (mut sends, mut receives) = direction(Level::Seal);
    let mut body = [7; 100];
    let tag = sends.seal_body(&mut body).unwrap().unwrap();
    assert_ne!(body, [7; 100]);
    receives.open_body(&mut body, tag.as_ref()).unwrap();
    assert_eq!(body, [7; 100]);
    assert_eq!(receives.open_body(&mut body, tag.as_ref()), Err(WireError::Forged), "repeated");
    let (mut sends, _) = direction(Level::Auth);
    assert!(sends.seal_body(&mut body).unwrap().is_none());
}

#[test]
fn a_key_that_is_used_up_protects_nothing_more() {
    let (mut sends, mut receives) = direction(Level::Auth);
    let mut sent = protected(&mut sends, &[1; 16]);
    sends.use_up();
    receives.use_up();
    assert_eq!(sends.protect(&mut vec![1; 16], 0), Err(UsedUp));
    assert_eq!(receives.open(&mut sent), Err(WireError::Forged));
}

#[test]
fn a_tag_that_is_cut_short_is_refused() {
    let (_, mut receives) = direction(Level::Auth);
    assert_eq!(receives.open(&mut [0; 8]), Err(WireError::Forged));
    assert_eq!(direction(Level::Seal).1.open_body(&mut [0; 8], &[0; 3]), Err(WireError::Forged));
}
