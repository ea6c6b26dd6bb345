//! The state of a store after a crash: a copy of its files, of which some sectors never reached the disk.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use forebay_types::LogPosition;

use crate::fixture::segment;

/// Bytes that a disk writes all or nothing.
const SECTOR_BYTES: usize = 512;

/// Copies the files of a store that a daemon has open.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        match fs::copy(file.path(), to.join(file.file_name())) {
            Ok(_) => {}
            // The log has just removed it.
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
        }
    }
}

/// Drops sectors behind `from`, each by a throw of a die that drops `permille` of them: they were never written.
pub fn lose_sectors(store: &Path, from: LogPosition, seed: u64, permille: u64) {
    let mut state = seed | 1;
    for file in fs::read_dir(store).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(number) = name.strip_prefix("segment-").map(|number| number.parse::<u64>().unwrap()) else { continue };
        let kept = match number.cmp(&from.segment) {
            std::cmp::Ordering::Less => continue,
            std::cmp::Ordering::Equal => from.offset as usize,
            std::cmp::Ordering::Greater => 0,
        };
        let mut bytes = fs::read(&path).unwrap();
        for (index, sector) in bytes.chunks_mut(SECTOR_BYTES).enumerate() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let start = kept.saturating_sub(index * SECTOR_BYTES).min(sector.len());
            if (state >> 20) % 1000 < permille {
                sector[start..].fill(0);
            }
        }
        fs::write(&path, bytes).unwrap();
    }
}

/// Leaves of a record only its first bytes: its writer died.
pub fn tear(store: &Path, position: LogPosition, record_bytes: usize, kept_bytes: usize) {
    let path = segment(store, position.segment);
    let mut bytes = fs::read(&path).unwrap();
    bytes[position.offset as usize..][kept_bytes..record_bytes].fill(0);
    fs::write(&path, bytes).unwrap();
}
