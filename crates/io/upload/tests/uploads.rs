//! Uploads: what is written where, what is compared, and what stays in the page cache.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;

use forebay_upload::{Immediately, LEAVES_BYTES_MIN, ReadBack, Run, Turns, Upload, UploadError};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// On the file system that the workspace lies on: one in memory keeps all pages.
fn file() -> File {
    tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn noise(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn run(offset: u64, len: usize) -> Run {
    Run { offset, len }
}

/// Notes the bytes of each write, and refuses the call of some number.
#[derive(Default)]
struct Noted {
    calls: RefCell<Vec<u64>>,
    refused: Option<usize>,
}

impl Turns for Noted {
    fn write(&self, bytes: u64, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut calls = self.calls.borrow_mut();
        calls.push(bytes);
        if self.refused == Some(calls.len()) { Err(Errno::AGAIN.into()) } else { call() }
    }

    fn call(&self, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.write(0, call)
    }
}

#[test]
fn runs_get_their_bytes_and_the_rest_of_the_file_stays() {
    let (file, bytes, turns) = (file(), noise(30), Noted::default());
    file.write_all_at(&[7; 100], 0).unwrap();
    let mut upload = Upload::default();
    upload.write((&file, &turns), vec![run(5, 10), run(50, 20)], &bytes).unwrap();
    upload.write((&file, &turns), vec![run(20, 3)], &bytes[..3]).unwrap();
    assert_eq!(
        (upload.bytes(), upload.largest_bytes(), upload.calls()),
        (33, 30, 4),
        "one sync and three reads follow"
    );
    let mut verified = vec![];
    upload.verify((&file, &turns), ReadBack::Cached, &mut [0; 30], |bytes| verified.push(bytes)).unwrap();
    assert_eq!(verified, [30, 3], "each part is counted when it is compared");
    assert_eq!(*turns.calls.borrow(), [10, 20, 3, 0, 0, 0, 0], "three writes, one sync, three reads");
    let mut there = [0; 100];
    file.read_exact_at(&mut there, 0).unwrap();
    let mut wanted = [7; 100];
    wanted[5..15].copy_from_slice(&bytes[..10]);
    wanted[50..70].copy_from_slice(&bytes[10..]);
    wanted[20..23].copy_from_slice(&bytes[..3]);
    assert_eq!(there, wanted);
}

#[test]
fn a_part_that_has_other_bytes_than_were_written_is_found() {
    for read_back in [ReadBack::Cached, ReadBack::Stored] {
        for changed in [0, 99, 100, 150] {
            let (file, bytes) = (file(), noise(200));
            let mut upload = Upload::default();
            for (offset, part) in (0..).step_by(100).zip(bytes.chunks(100)) {
                upload.write((&file, &Immediately), vec![run(offset, 100)], part).unwrap();
            }
            file.write_all_at(&[!bytes[changed]], changed as u64).unwrap();
            let mut verified = 0;
            let compared =
                upload.verify((&file, &Immediately), read_back, &mut [0; 100], |bytes| verified += bytes).unwrap_err();
            let part = changed as u64 / 100 * 100;
            assert!(matches!(compared, UploadError::Differs { offset } if offset == part), "{changed}: {compared:?}");
            assert_eq!(verified, part, "only parts before it are verified");
        }
    }
}

#[test]
fn parts_of_an_earlier_upload_and_holes_are_compared_too() {
    let (file, bytes) = (file(), noise(100));
    file.write_all_at(&bytes, 0).unwrap();
    file.set_len(200).unwrap();
    let mut upload = Upload::default();
    let checksum = Upload::default().write((&file, &Immediately), vec![run(0, 100)], &bytes).unwrap();
    let of_zeros = Upload::default().write((&file, &Immediately), vec![run(300, 100)], &[0; 100]).unwrap();
    upload.expect(vec![run(0, 100)], checksum);
    upload.expect(vec![run(100, 100)], of_zeros);
    assert!(upload.checksums().eq([checksum, of_zeros]));
    let compare = || upload.verify((&file, &Immediately), ReadBack::Stored, &mut [0; 100], |_| ());
    compare().unwrap();
    file.write_all_at(&[1], 199).unwrap();
    assert!(matches!(compare(), Err(UploadError::Differs { offset: 100 })));
}

#[test]
fn errors_say_whether_writing_or_reading_back_failed() {
    let write = |turns: &Noted| {
        let (file, mut upload) = (file(), Upload::default());
        upload.write((&file, turns), vec![run(0, 10)], &noise(10))?;
        upload.verify((&file, turns), ReadBack::Cached, &mut [0; 10], |_| panic!("nothing is verified"))
    };
    let refused = |call| write(&Noted { refused: Some(call), ..Noted::default() });
    assert!(matches!(refused(1), Err(UploadError::Write(_))), "the write");
    assert!(matches!(refused(2), Err(UploadError::Write(_))), "the sync");
    assert!(matches!(refused(3), Err(UploadError::ReadBack(_))), "the read");
}

/// Whether the page of a byte is in the page cache.
fn is_cached(file: &File, offset: u64) -> bool {
    match preadv2(file, &mut [IoSliceMut::new(&mut [0])], offset, ReadWriteFlags::NOWAIT) {
        Ok(read) => read == 1,
        Err(Errno::AGAIN) => false,
        Err(errno) => panic!("{errno}"),
    }
}

#[test]
fn a_large_upload_leaves_the_page_cache_and_a_small_one_stays() {
    const LARGE: usize = 4 * LEAVES_BYTES_MIN;
    let (file, bytes) = (file(), noise(LARGE));
    let upload_with = |read_back| {
        let mut upload = Upload::default();
        upload.write((&file, &Immediately), vec![run(0, LARGE)], &bytes).unwrap();
        upload.write((&file, &Immediately), vec![run(LARGE as u64 * 2, 4096)], &bytes[..4096]).unwrap();
        upload.verify((&file, &Immediately), read_back, &mut vec![0; LARGE], |_| ()).unwrap();
        [0, LARGE as u64 / 2, LARGE as u64 * 2].map(|offset| is_cached(&file, offset))
    };
    assert_eq!(upload_with(ReadBack::Stored), [true, true, true], "programs are about to read it");
    assert_eq!(upload_with(ReadBack::Cached), [false, false, true]);
}
