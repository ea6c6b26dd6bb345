//! A modelled network file system: a local directory behind a slow metadata server and a narrow link.
//!
//! It stands in for a real one where none can be set up, and whatever prints its figures calls it a model. It shows
//! what the shape of such a system does to many clients at once, and no more than that: a metadata server that works
//! on few requests at a time, one link that all the clients share, and clients that cache as network file systems
//! commonly do ([`client`]). There are no round-trip times, no disks, no locks and no faults.
//!
//! Requests are answered by a [`timer::Timer`] at the moment their queue says, so that a slow answer holds no thread.
//! The local directory must not change while the model serves it.

mod client;
mod mount;
mod queue;
mod server;
mod timer;

pub use mount::ClientMount;
pub use queue::{BUSY, Parameters};
pub use server::Model;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::scratch::Scratch;

    /// Whether FUSE mounts are possible; where tests must not be skipped, that they are not is a failure.
    fn can_mount() -> bool {
        let can = fs::File::options().read(true).write(true).open("/dev/fuse").is_ok()
            && rustix::process::geteuid().is_root();
        assert!(can || std::env::var_os("CI").is_none_or(|ci| ci != "true"), "needs root and /dev/fuse");
        if !can {
            eprintln!("skipped: needs root and /dev/fuse");
        }
        can
    }

    #[test]
    fn a_client_sees_the_directory_and_every_request_is_counted_and_takes_its_time() {
        if !can_mount() {
            return;
        }
        let scratch = Scratch::new(&std::env::temp_dir(), "forebay-model-test").unwrap();
        let source = scratch.dir("source/below").unwrap();
        let contents: Vec<u8> = (0..300_000u32).map(|index| (index % 251) as u8).collect();
        fs::write(source.join("file"), &contents).unwrap();
        std::os::unix::fs::symlink("file", source.join("link")).unwrap();
        let model = Model::new(&scratch.path().join("source"), BUSY).unwrap();
        let at = scratch.dir("mount").unwrap();
        let client = model.mount(&at).unwrap();
        let start = Instant::now();
        assert_eq!(fs::read(at.join("below/link")).unwrap(), contents);
        assert_eq!(fs::metadata(at.join("below/none")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
        let mut names: Vec<_> =
            fs::read_dir(at.join("below")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["file", "link"]);
        let took = start.elapsed();
        let traffic = model.traffic();
        let kinds = ["lookup", "open", "read", "readlink", "opendir", "readdirplus"];
        assert!(kinds.iter().all(|kind| traffic.requests.contains_key(*kind)), "{traffic:?}");
        assert!(traffic.sent_bytes >= contents.len() as u64);
        let metadata_requests = traffic.total() - traffic.requests["read"];
        // One process asks one thing at a time, so at most as many are worked on at once as the server can.
        let least = Duration::from_millis(2) * u32::try_from(metadata_requests).unwrap() / BUSY.at_once;
        assert!(took >= least, "{metadata_requests} metadata requests took {took:?}");
        drop(client);
        assert!(fs::read_dir(&at).unwrap().next().is_none(), "still mounted");
    }
}
