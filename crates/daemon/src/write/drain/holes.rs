//! Holes of a file that is changed where it lies: zeros are written where it has anything, and compared like all else.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use forebay_types::Errno;
use forebay_upload::{Run, Upload};
use rustix::fs::SeekFrom;

use super::uploading::{PART_BYTES, PARTS_AT_ONCE, errno, verify};
use crate::write::calls::{By, Cost, MayLand};
use crate::write::contents::Reader;

/// Holes that are looked at in one turn: a turn writes no more than a part then, and lasts no longer than that of a part.
const HOLES_AT_ONCE: usize = 256;

/// Clears holes of a file, where it has anything: what is a hole there stays one. The zeros that are written and not compared yet: they are to be
/// made durable together with what follows.
///
/// # Errors
/// The backing file system's error; EIO when it has other bytes than were written.
pub async fn clear(reader: &Reader, file: &Arc<File>, holes: &[Range<u64>]) -> Result<Upload, Errno> {
    let mut zeros = Upload::default();
    for holes in in_turns(holes) {
        let cost = Cost::calls(holes.len() as u64);
        let file = Arc::clone(file);
        let clear = move |may_land: &MayLand| {
            holes.into_iter().try_for_each(|hole| clear_hole(&file, hole, may_land, &mut zeros))?;
            // No more pages wait for the disks of a file that programs of others may use.
            if zeros.bytes() >= PARTS_AT_ONCE * PART_BYTES as usize {
                verify(&std::mem::take(&mut zeros), (&file, may_land), vec![])?;
            }
            Ok(zeros)
        };
        zeros = reader.local.calls.write(By::Leader, cost, clear).await?;
    }
    Ok(zeros)
}

/// Holes by turns: so many, and a part together, at most.
fn in_turns(holes: &[Range<u64>]) -> Vec<Vec<Range<u64>>> {
    let (mut turns, mut room) = (vec![], 0);
    for hole in holes {
        let mut at = hole.start;
        while at < hole.end {
            if room == 0 || turns.last().is_none_or(|turn: &Vec<_>| turn.len() >= HOLES_AT_ONCE) {
                turns.push(vec![]);
                room = PART_BYTES;
            }
            let end = hole.end.min(at + room);
            turns.last_mut().into_iter().for_each(|turn| turn.push(at..end));
            (room, at) = (room - (end - at), end);
        }
    }
    turns
}

fn clear_hole(file: &File, hole: Range<u64>, may_land: &MayLand, zeros: &mut Upload) -> Result<(), Errno> {
    let runs = may_land.call(|| runs_with_data(file, hole))?;
    let bytes = runs.iter().map(|run| run.len).sum();
    if bytes > 0 {
        zeros.write((file, may_land), runs, &vec![0; bytes]).map_err(|error| errno(&error))?;
    }
    Ok(())
}

/// Where a range of a file has anything.
fn runs_with_data(file: &File, range: Range<u64>) -> Result<Vec<Run>, Errno> {
    let of = |error: rustix::io::Errno| Errno::of(&error.into());
    let (mut at, mut runs) = (range.start, vec![]);
    while at < range.end {
        let (start, end) = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) if start < range.end => {
                (start, rustix::fs::seek(file, SeekFrom::Hole(start)).map_err(of)?.min(range.end))
            }
            Ok(_) | Err(rustix::io::Errno::NXIO) => break,
            // It cannot tell.
            Err(rustix::io::Errno::INVAL) => (at, range.end),
            Err(error) => return Err(of(error)),
        };
        runs.push(Run { offset: start, len: (end - start) as usize });
        at = end;
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn turns_have_all_holes_in_order_and_no_more_than_a_part_each() {
        let holes = [0..MIB, 2 * MIB..12 * MIB, 20 * MIB..20 * MIB + 5];
        let turns = in_turns(&holes);
        let bytes: Vec<u64> = turns.iter().map(|turn| turn.iter().map(|hole| hole.end - hole.start).sum()).collect();
        assert_eq!(bytes, [4 * MIB, 4 * MIB, 3 * MIB + 5]);
        assert_eq!(turns.concat().first(), Some(&(0..MIB)));
        assert_eq!(turns.concat().last(), Some(&(20 * MIB..20 * MIB + 5)));
        let islands: Vec<_> = (0..1000).map(|island| island * 10..island * 10 + 1).collect();
        assert_eq!(in_turns(&islands).iter().map(Vec::len).collect::<Vec<_>>(), [256, 256, 256, 232]);
    }

    #[test]
    fn what_is_cleared_is_zero_and_compared_and_holes_stay_holes() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 * MIB).unwrap();
        file.write_all_at(&[7; 10_000], MIB).unwrap();
        file.write_all_at(&[8; 10_000], 3 * MIB).unwrap();
        let (mut zeros, may_land) = (Upload::default(), MayLand::default());
        clear_hole(&file, MIB..4 * MIB, &may_land, &mut zeros).unwrap();
        assert!(zeros.bytes() >= 20_000 && zeros.bytes() < 100_000, "{} bytes are written", zeros.bytes());
        assert_eq!(zeros.calls(), 3, "one sync for both, and a read of each");
        verify(&zeros, (&file, &may_land), vec![]).unwrap();
        let mut found = vec![1; 3 * MIB as usize];
        file.read_exact_at(&mut found, MIB).unwrap();
        assert!(found.iter().all(|byte| *byte == 0));
        // The file system keeps something else than was written.
        file.write_all_at(&[9], 3 * MIB + 5).unwrap();
        assert_eq!(verify(&zeros, (&file, &may_land), vec![]).unwrap_err(), Errno::EIO);
    }
}
