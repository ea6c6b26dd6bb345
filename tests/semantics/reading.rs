//! Reads: whole files, any part of them, at the end and past it, straight and through holes.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Barrier;

use forebay_tests::tree::{self, BIG_BYTES, BIG_WRITES, CHUNK_BYTES, MARK, SIZES};
use forebay_tests::{compare, on_both};
use rustix::fs::{OFlags, SeekFrom as Seeking, seek};

on_both!(contents_are_those_of_the_source, |site| {
    for size in SIZES {
        let path = site.view(format!("plain/{size}"));
        compare::same(&tree::contents(size), &fs::read(&path).unwrap(), &path);
    }
});

on_both!(any_part_can_be_read, |site| {
    let size = 3 * CHUNK_BYTES + 17;
    let (expected, file) = (tree::contents(size), File::open(site.view(format!("plain/{size}"))).unwrap());
    let offsets = [0, 1, 4095, CHUNK_BYTES - 1, CHUNK_BYTES, 2 * CHUNK_BYTES - 7, size - 1, 3 * CHUNK_BYTES, 777_777];
    for offset in offsets {
        for len in [1, 7, 4096, 131_072, CHUNK_BYTES + 1] {
            let mut bytes = vec![0; len.min(size - offset)];
            file.read_exact_at(&mut bytes, offset as u64).unwrap();
            assert!(bytes == expected[offset..offset + bytes.len()], "{len} bytes at {offset}");
        }
    }
});

on_both!(reads_end_at_the_end, |site| {
    for size in SIZES {
        let file = File::open(site.view(format!("plain/{size}"))).unwrap();
        let mut bytes = vec![0; 8192];
        for past in [0, 1, 4096, 1 << 20, 1 << 40] {
            assert_eq!(file.read_at(&mut bytes, size as u64 + past).unwrap(), 0, "{past} past the end of {size}");
        }
        let last = file.read_at(&mut bytes, (size as u64).saturating_sub(3)).unwrap();
        assert_eq!(last, size.min(3), "the last bytes of {size}");
    }
});

on_both!(holes_read_as_zeros, |site| {
    compare::bytes(&site.source("sparse/holes"), &site.view("sparse/holes"));
    assert!(fs::read(site.view("sparse/hole")).unwrap().iter().all(|&byte| byte == 0));
});

on_both!(files_beyond_32_bits_are_read_where_asked, |site| {
    let path = site.view("sparse/big");
    assert_eq!(fs::metadata(&path).unwrap().len(), BIG_BYTES);
    let mut file = File::open(&path).unwrap();
    for offset in BIG_WRITES {
        let mut bytes = [0; 100];
        file.read_exact_at(&mut bytes, offset).unwrap();
        assert_eq!(bytes, MARK, "at {offset}");
        let before = offset.saturating_sub(5000);
        let mut around = vec![1; usize::try_from(offset - before).unwrap()];
        file.read_exact_at(&mut around, before).unwrap();
        assert!(around.iter().all(|&byte| byte == 0), "before {offset}");
    }
    assert_eq!(file.seek(SeekFrom::End(-100)).unwrap(), BIG_BYTES - 100);
    let mut rest = vec![];
    file.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, MARK);
});

on_both!(seeking_finds_the_end, |site| {
    let (source, view) = (site.source("sparse/holes"), site.view("sparse/holes"));
    let (source, view) = (File::open(source).unwrap(), File::open(view).unwrap());
    let size = 64 << 20;
    assert_eq!(seek(&view, Seeking::End(0)).unwrap(), size);
    assert_eq!(seek(&view, Seeking::End(10)).unwrap(), size + 10);
    for offset in [size, size + 1] {
        let error = |file| (seek(file, Seeking::Data(offset)), seek(file, Seeking::Hole(offset)));
        assert_eq!(error(&source), error(&view), "no data and no hole at or past the end");
    }
});

on_both!(seeking_never_skips_data, |site| {
    let (source, view) = (site.source("sparse/holes"), site.view("sparse/holes"));
    let (source, view) = (File::open(source).unwrap(), File::open(view).unwrap());
    for offset in [0, 50, 5 << 20, 10 << 20, (10 << 20) + 200, 20 << 20, (33 << 20) - 1] {
        let (data, shown) = (seek(&source, Seeking::Data(offset)), seek(&view, Seeking::Data(offset)));
        let shown = shown.unwrap();
        assert!(shown >= offset && shown <= data.unwrap(), "data at or after {offset}: {shown}, source {data:?}");
        let (hole, shown) =
            (seek(&source, Seeking::Hole(offset)).unwrap(), seek(&view, Seeking::Hole(offset)).unwrap());
        assert!(shown == hole || shown == 64 << 20, "hole at or after {offset}: {shown}, source {hole}");
    }
});

on_both!(direct_reads_see_the_same, |site| {
    let size = 3 * CHUNK_BYTES + 17;
    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap();
    let path = site.view(format!("plain/{size}"));
    let file = fs::OpenOptions::new().read(true).custom_flags(direct).open(&path).unwrap();
    let expected = tree::contents(size);
    let mut space = vec![0; 2 * CHUNK_BYTES + 4096];
    let start = space.as_ptr().align_offset(4096);
    for offset in [0, 4096, CHUNK_BYTES - 4096, 2 * CHUNK_BYTES, 3 * CHUNK_BYTES] {
        let buffer = &mut space[start..start + 2 * CHUNK_BYTES];
        let mut done = 0;
        while let read @ 1.. = file.read_at(&mut buffer[done..], (offset + done) as u64).unwrap() {
            done += read;
            if read % 4096 != 0 || done == buffer.len() {
                break;
            }
        }
        let wanted = &expected[offset..size.min(offset + 2 * CHUNK_BYTES)];
        compare::same(wanted, &buffer[..done], &path);
    }
});

on_both!(many_readers_see_the_same, |site| {
    let size = 9 * CHUNK_BYTES;
    let (expected, path) = (tree::contents(size), site.view(format!("plain/{size}")));
    let (barrier, expected, path): (_, &[u8], &Path) = (Barrier::new(16), &expected, &path);
    std::thread::scope(|scope| {
        for reader in 0..16 {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                let file = File::open(path).unwrap();
                let mut bytes = vec![0; 300_000];
                for step in 0..30 {
                    let offset = (reader * 555_555 + step * 1_234_567) % (size - bytes.len());
                    file.read_exact_at(&mut bytes, offset as u64).unwrap();
                    assert!(bytes == expected[offset..offset + bytes.len()], "at {offset}");
                }
            });
        }
    });
});

on_both!(offsets_out_of_range_are_treated_alike, |site| {
    let mut file = File::open(site.view("plain/1")).unwrap();
    assert_eq!(file.seek(SeekFrom::Current(-1)).unwrap_err().kind(), ErrorKind::InvalidInput);
    let source = File::open(site.source("plain/1")).unwrap();
    let mut bytes = [0; 1];
    for offset in [1 << 43, i64::MAX as u64 - 1, i64::MAX as u64] {
        let (expected, read) = (source.read_at(&mut bytes, offset), file.read_at(&mut bytes, offset));
        let number = |done: std::io::Result<usize>| done.map_err(|error| error.raw_os_error());
        assert_eq!(number(expected), number(read), "at {offset}");
    }
    assert_eq!(file.read(&mut bytes).unwrap(), 1, "the file offset was not moved");
});
