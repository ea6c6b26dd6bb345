//! The ways that bytes take without hints, on every kind of file system: the bytes, the errors and the order are those of one another.

use forebay_mpiio::choice::Rates;

use super::*;

const KINDS: [FileSystem; 3] = [FileSystem::Local, FileSystem::Shared, FileSystem::Nfs];

/// Without hints, on a kind of file system whose requests take so long.
fn open_on(rank: Rank, path: &Path, kind: FileSystem, request_s: f64) -> File<Rank> {
    let host = format!("host{}", rank.number() / 2);
    let rates = Rates { request_s, sync_s: 50e-6 };
    let name = path.to_str().unwrap().as_bytes();
    let opening = Opening { name, host: &host, file_system: Some(kind), measured: Some((kind, rates)), ..AS_ALWAYS };
    File::open(rank, &opening).unwrap().unwrap()
}

fn empty() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"").unwrap();
    (directory, path)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Requests cost little or much, so that calls take all ways.
    #[test]
    fn every_way_leaves_the_bytes_of_the_writers(calls in calls(), kind in 0usize..2, micros in 1u32..2000) {
        let (_directory, path) = empty();
        on_ranks(calls[0].len(), |rank| {
            let number = rank.number();
            let mut file = open_on(rank, &path, KINDS[kind], f64::from(micros) * 1e-6);
            for (index, ranks) in calls.iter().enumerate() {
                let (view, len) = view_of(&ranks[number]);
                file.set_view(Some(view));
                let answer = file.write_collective(0, Some(&row(&mut vec![mark(index, number); len as usize]))).unwrap();
                assert_eq!(answer, Answer::Done(len), "nothing is left to MPI");
                if index % 2 == 1 {
                    let mut back = vec![0; len as usize];
                    assert_eq!(file.read_collective(0, Some(&row(&mut back))).unwrap(), Answer::Done(len));
                    assert!(back.iter().all(|byte| *byte != 0));
                }
            }
            file.close().unwrap();
        });
        let (file, may) = (std::fs::read(&path).unwrap(), model(&calls));
        prop_assert_eq!(file.len(), may.len());
        for (at, (byte, may)) in file.iter().zip(may).enumerate() {
            prop_assert!(may.contains(byte) || (may.is_empty() && *byte == 0), "byte {} is {}, not of {:?}", at, byte, may);
        }
    }
}

fn told(file: &File<Rank>) -> (u64, u64, u64) {
    let told: serde_json::Value = serde_json::from_str(&file.explain()).unwrap();
    let count = |name: &str| told[name].as_u64().unwrap();
    (count("alone_calls"), count("held_calls"), count("exchanges"))
}

/// Where requests are dear small pieces are gathered; large ones never travel.
#[test]
fn the_way_is_chosen_by_what_requests_cost() {
    let ways = |kind: FileSystem, request_s: f64, len: usize| {
        let (_directory, path) = empty();
        let ways = on_ranks(4, |rank| {
            let number = rank.number() as u64;
            let mut file = open_on(rank, &path, kind, request_s);
            let mut bytes = vec![7; len];
            // Eight pieces, each beside one of every other rank.
            let tile = Flat::basic([Piece { offset: 0, len: len as u64 / 8 }], len as i64 / 2).unwrap();
            file.set_view(View::new((number * len as u64 / 8) as i64, 1, tile));
            assert_eq!(file.write_collective(0, Some(&row(&mut bytes))).unwrap(), Answer::Done(len as u64));
            let ways = told(&file);
            file.close().unwrap();
            ways
        });
        assert_eq!(std::fs::read(&path).unwrap(), vec![7; len * 4]);
        ways[0]
    };
    assert_eq!(ways(FileSystem::Local, 2e-6, 1000), (1, 0, 0));
    assert_eq!(ways(FileSystem::Shared, 10e-3, 1000), (0, 1, 1));
    assert_eq!(ways(FileSystem::Shared, 100e-6, 32 << 20), (1, 0, 0));
}

/// A later collective call wins wherever the bytes are, and a rank that wrote by itself has them in the file when the call returns.
#[test]
fn bytes_are_in_the_file_when_a_call_that_is_not_held_returns() {
    for (kind, request_s) in [(FileSystem::Local, 2e-6), (FileSystem::Shared, 10e-3)] {
        let (_directory, path) = empty();
        on_ranks(2, |rank| {
            let number = rank.number();
            let mut file = open_on(rank, &path, kind, request_s);
            for (writer, value) in [(0, 1), (1, 2)] {
                let mut bytes = vec![value; if writer == number { 1000 } else { 0 }];
                // Each call is made after another one, so that nothing is held.
                file.interrupted();
                let _ = file.write_collective(0, Some(&row(&mut bytes))).unwrap();
                if writer == number {
                    assert_eq!(std::fs::read(&path).unwrap(), [value; 1000]);
                }
            }
            file.close().unwrap();
        });
        assert_eq!(std::fs::read(&path).unwrap(), [2; 1000]);
    }
}

/// The rank hears it at once, the others at the next call that they make together, and the file is marked.
#[test]
fn an_error_of_a_rank_that_writes_its_own_reaches_all() {
    let (_file, path) = that_cannot_grow(500);
    let heard = on_ranks(2, |rank| {
        let number = rank.number() as u64;
        let mut file = open_on(rank, &path, FileSystem::Local, 2e-6);
        let first = file.write_collective(number * 1000, Some(&row(&mut [1; 100])));
        let first = matches!(first, Err(Error::Rank { rank: 1, errno: Errno::PERM }));
        let next = file.write_collective(number * 100, Some(&row(&mut [2; 100])));
        let next = matches!(next, Err(Error::Rank { rank: 1, errno: Errno::PERM }));
        let third = file.write_collective(number * 100, Some(&row(&mut [3; 100]))).is_ok();
        let last = file.write_collective(number * 1000, Some(&row(&mut [4; 100]))).is_err();
        let closed = matches!(file.close(), Err(Error::Rank { rank: 1, errno: Errno::PERM }));
        (first, next, third, last, closed)
    });
    assert_eq!(heard, [(false, true, true, false, true), (true, true, true, true, true)]);
    assert_eq!(std::fs::read(&path).unwrap()[..200], [[4; 100], [3; 100]].concat(), "what could be written is there");
}

/// Hints for an open file are told with the next collective call, and count from there on.
#[test]
fn hints_for_an_open_file_count_from_the_next_call_on() {
    let (_directory, path) = empty();
    let answers = on_ranks(2, |rank| {
        let number = rank.number() as u64;
        let mut file = open_on(rank, &path, FileSystem::Local, 2e-6);
        let write = |file: &mut File<Rank>| file.write_collective(number * 100, Some(&row(&mut [1; 100]))).unwrap();
        let hint = |value: &str| vec![("forebay_aggregation".to_owned(), value.to_owned())];
        file.set_hints(if number == 0 { hint("disable") } else { vec![] }).unwrap();
        let disabled = write(&mut file);
        file.set_hints(if number == 0 { hint("enable") } else { vec![] }).unwrap();
        let enabled = write(&mut file);
        let ways = told(&file);
        file.close().unwrap();
        (disabled, enabled, ways)
    });
    assert_eq!(answers, [(Answer::Pass(Passing::Disabled), Answer::Done(100), (0, 1, 0)); 2]);
}

/// More ranks than tell each other everything at once.
#[test]
fn many_ranks_agree_by_the_largest_values() {
    let (_directory, path) = empty();
    on_ranks(520, |rank| {
        let number = rank.number() as u64;
        let mut file = open_on(rank, &path, FileSystem::Shared, 10e-3);
        for call in 0..2 {
            let mut bytes = [number as u8; 16];
            let answer = file.write_collective((call * 520 + number) * 16, Some(&row(&mut bytes))).unwrap();
            assert_eq!(answer, Answer::Done(16));
        }
        file.close().unwrap();
    });
    let file = std::fs::read(&path).unwrap();
    assert_eq!(file.len(), 2 * 520 * 16);
    assert!(file.chunks(16).enumerate().all(|(index, bytes)| bytes == [(index % 520) as u8; 16]));
}

/// As Lustre tells it, by an attribute that any file system takes; a hint wins.
#[test]
fn aggregators_meet_on_the_stripes_of_the_files_layout() {
    let (_directory, path) = empty();
    // lov_user_md_v1: magic, pattern, object, bytes of a stripe, count and generation.
    let layout = [0x0bd1_0bd0u32, 1, 0, 0, 0, 0, 262_144, 4].map(u32::to_ne_bytes).concat();
    rustix::fs::setxattr(&path, "user.lov", &layout, rustix::fs::XattrFlags::empty()).unwrap();
    let stripes = |hints: &[(&str, &str)]| {
        on_ranks(2, |rank| {
            let mut file = open(rank, &path, &[&[("forebay_aggregators", "2")], hints].concat(), BOTH);
            let number = file.group().number() as u64;
            let tile = Flat::basic([Piece { offset: 0, len: 1000 }], 2000).unwrap();
            file.set_view(View::new(number as i64 * 1000, 1, tile));
            let _ = file.write_collective(0, Some(&row(&mut vec![1; 400_000]))).unwrap();
            file.flush().unwrap();
            let told: serde_json::Value = serde_json::from_str(&file.explain()).unwrap();
            file.close().unwrap();
            told["stripe_bytes"].as_u64().unwrap()
        })
    };
    assert_eq!(stripes(&[]), [262_144; 2]);
    assert_eq!(stripes(&[("striping_unit", "65536")]), [65_536; 2]);
    assert_eq!(stripes(&[("striping_unit", "0"), ("striping_factor", "0")]), [262_144; 2]);
    assert_eq!(std::fs::read(&path).unwrap(), [1; 800_000]);
}

#[test]
fn a_read_of_each_ranks_own_ends_where_the_file_does() {
    let (_directory, path) = empty();
    let content: Vec<u8> = (0..50_000u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(&path, &content).unwrap();
    let done = on_ranks(3, |rank| {
        let number = rank.number() as u64;
        let mut file = open_on(rank, &path, FileSystem::Local, 2e-6);
        let mut back = vec![9; 20_000];
        let done = file.read_collective(number * 20_000, Some(&row(&mut back))).unwrap();
        let len = content.len().min((number as usize + 1) * 20_000) - number as usize * 20_000;
        assert_eq!(back[..len], content[number as usize * 20_000..][..len]);
        assert!(back[len..].iter().all(|byte| *byte == 9), "the program's memory stays as it was");
        assert_eq!(told(&file).0, 1);
        file.close().unwrap();
        done
    });
    assert_eq!(done, [20_000, 20_000, 10_000].map(Answer::Done));
}
