use std::io::Write as _;

use super::*;
use crate::require;

/// The contents, after a cut, of two files, one with `fsync` and one without.
#[test]
fn power_loss_takes_unsynced_bytes_and_no_synced_ones() {
    require!(Root, Fuse, LoopDevices, Command("mkfs.ext4"));
    std::thread::spawn(|| {
        let _power = Power::begin();
        let at = tempfile::tempdir().unwrap();
        let mut disk = PowerDisk::new(at.path(), 1);
        for round in 0..3 {
            let write = |name: &str, is_synced: bool| {
                let mut file = fs::File::create(at.path().join(name)).unwrap();
                file.write_all(&[7; 300_000]).unwrap();
                if is_synced {
                    file.sync_all().unwrap();
                }
            };
            let [safe, lost] = ["safe", "lost"].map(|name| format!("{name}-{round}"));
            write(&safe, true);
            write(&lost, false);
            disk.off();
            disk = disk.on_again();
            assert_eq!(fs::read(at.path().join(&safe)).unwrap(), [7; 300_000]);
            assert_ne!(fs::read(at.path().join(&lost)).unwrap_or_default(), [7; 300_000]);
        }
    })
    .join()
    .unwrap();
}

/// A program that waits for data not on the disk waits for ever, until it is told that the disk is gone.
#[test]
fn no_request_is_answered_from_the_cut_on() {
    require!(Root, Fuse, LoopDevices, Command("mkfs.ext4"));
    std::thread::spawn(|| {
        let _power = Power::begin();
        let at = tempfile::tempdir().unwrap();
        let disk = PowerDisk::new(at.path(), 1);
        let before = disk.done();
        disk.cut_after(20);
        let file = fs::File::create(at.path().join("file")).unwrap();
        let synced = std::thread::spawn(move || {
            (0..100).take_while(|_| (&file).write_all(&[1; 5000]).and_then(|()| file.sync_all()).is_ok()).count()
        });
        crate::program::wait_until("the power goes", Duration::from_secs(20), || disk.is_off());
        assert!(!synced.is_finished());
        let done = disk.done();
        disk.fail();
        let synced = synced.join().unwrap();
        assert!((1..20).contains(&synced) && done == before + 20, "{synced} {before} {done}");
        let disk = disk.on_again();
        let found = fs::metadata(at.path().join("file")).map_or(0, |file| file.len());
        assert!(found >= 5000 * synced as u64, "{found}");
        drop(disk);
    })
    .join()
    .unwrap();
}
