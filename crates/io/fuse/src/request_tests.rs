use std::fs;
use std::path::Path;

use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::*;
use crate::abi::{InHeader, opcode};

/// A request of `code` with `arguments`, its length told truly.
fn request(code: u32, arguments: &[u8]) -> Vec<u8> {
    let len = (size_of::<InHeader>() + arguments.len()) as u32;
    let head = InHeader { len, opcode: code, unique: 2, nodeid: 3, uid: 4, gid: 5, pid: 6, ..InHeader::default() };
    [head.as_bytes(), arguments].concat()
}

/// Decodes and touches everything that borrows from the bytes.
fn exercise(bytes: &[u8]) -> bool {
    match decode(bytes) {
        Ok(request) => {
            if let Operation::BatchForget(forgets) = request.operation.clone() {
                assert!(forgets.count() <= bytes.len() / size_of::<abi::ForgetOne>());
            }
            let _ = (request.operation.default_error(), request.operation.wants_reply(), format!("{request:?}"));
            true
        }
        Err(malformed) => {
            assert!(malformed.unique.is_some() || bytes.len() < size_of::<InHeader>());
            false
        }
    }
}

#[test]
fn the_head_is_read() {
    let bytes = request(opcode::STATFS, &[]);
    let request = decode(&bytes).unwrap();
    assert_eq!((request.unique, request.node, request.uid, request.gid, request.pid), (2, 3, 4, 5, 6));
    assert!(matches!(request.operation, Operation::Statfs));
}

#[test]
fn names_end_at_their_nul_and_may_hold_anything_else() {
    let bytes = request(opcode::LOOKUP, b"\xff\n name\0");
    assert!(matches!(decode(&bytes).unwrap().operation, Operation::Lookup { name: b"\xff\n name" }));
    let bytes = request(opcode::GETXATTR, &[&[7, 0, 0, 0, 0, 0, 0, 0][..], b"user.a\0"].concat());
    assert!(matches!(decode(&bytes).unwrap().operation, Operation::Getxattr { name: b"user.a", size: 7 }));
}

#[test]
fn a_batch_of_forgets_is_as_long_as_it_says_and_no_longer() {
    let nodes: [u64; 4] = [10, 1, 20, 2];
    let bytes = request(opcode::BATCH_FORGET, &[[2u32, 0].as_bytes(), nodes.as_bytes()].concat());
    let Operation::BatchForget(forgets) = decode(&bytes).unwrap().operation else { panic!("a batch") };
    assert_eq!(forgets.collect::<Vec<_>>(), [(10, 1), (20, 2)]);
    let lying = request(opcode::BATCH_FORGET, &[[u32::MAX, 0].as_bytes(), nodes.as_bytes()].concat());
    assert_eq!(decode(&lying).unwrap_err().reason, "more nodes than bytes");
}

#[test]
fn an_ioctl_gets_the_input_it_has_and_no_more() {
    let head = abi::IoctlIn { fh: 1, flags: abi::ioctl_flag::DIR, cmd: 9, arg: 8, in_size: 3, out_size: 4 };
    let bytes = request(opcode::IOCTL, &[head.as_bytes(), b"abcd"].concat());
    let Operation::Ioctl { command: 9, input: b"abc", output_bytes: 4, is_dir: true, .. } =
        decode(&bytes).unwrap().operation
    else {
        panic!("an ioctl")
    };
    assert!(decode(&request(opcode::IOCTL, &[head.as_bytes(), b"ab"].concat())).is_err());
}

#[test]
fn init_flags_of_both_words_are_read() {
    let words = [7, 45, 131_072, abi::init_flag::INIT_EXT as u32 | 1, 0x80];
    let bytes = request(opcode::INIT, words.as_bytes());
    let Operation::Init { major: 7, minor: 45, read_ahead_bytes: 131_072, flags } = decode(&bytes).unwrap().operation
    else {
        panic!("an init")
    };
    assert_eq!(flags, 0x80 << 32 | abi::init_flag::INIT_EXT | 1);
    assert!(decode(&request(opcode::INIT, words[..4].as_bytes())).is_err(), "the second word is missing");
}

#[test]
fn extensions_are_cut_off_and_may_not_be_longer_than_the_request() {
    let mut bytes = request(opcode::LOOKUP, b"name\0\0\0\0extended");
    bytes[36] = 1;
    assert!(matches!(decode(&bytes).unwrap().operation, Operation::Lookup { name: b"name" }));
    bytes[36] = 3;
    assert!(decode(&bytes).is_err());
}

#[test]
fn changes_are_refused_as_read_only() {
    for code in [opcode::SETATTR, opcode::WRITE, opcode::CREATE, opcode::COPY_FILE_RANGE_64] {
        let operation = decode(&request(code, &[0; 120])).unwrap().operation.default_error();
        assert_eq!(operation, Errno::EROFS);
    }
    assert_eq!(Operation::Other(9999).default_error(), Errno::ENOSYS);
}

/// The bytes that fuzzing starts from, and what it found: each must decode, or be refused, as quietly as ever.
#[test]
fn the_fuzzing_corpus_is_decoded() {
    let corpus = Path::new("../../../fuzz/corpus/fuse_request");
    let mut decoded = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        decoded += usize::from(exercise(&fs::read(entry.unwrap().path()).unwrap()));
    }
    assert!(decoded >= 20, "{decoded} requests of the corpus are well formed");
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        exercise(&bytes);
    }

    #[test]
    fn any_arguments_decode_or_are_refused(
        code in 0u32..60,
        extensions in 0u8..4,
        arguments in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..120),
    ) {
        let mut bytes = request(code, &arguments);
        bytes[36] = extensions;
        exercise(&bytes);
    }

    #[test]
    fn a_request_cut_short_is_refused(
        code in 0u32..60,
        arguments in proptest::collection::vec(any::<u8>(), 1..120),
        keep in 0.0..1.0f64,
    ) {
        let bytes = request(code, &arguments);
        let cut = (bytes.len() as f64 * keep) as usize;
        prop_assert!(decode(&bytes[..cut]).is_err());
    }
}
