//! The processes that serve mounted images to programs of a node. The keeper runs them, so that they end with the node and
//! with nothing else: not with the program that was first, not with its launcher. It never looks at an image itself.
//!
//! A keeper that is killed takes them along (`PR_SET_PDEATHSIG`); their mounts are in namespaces of programs alone, and go with
//! the last of those.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::daemon::Program;

/// Images that are mounted at once. Each has a process with a cache of its own, 16 MiB or so.
const IMAGES_MAX: usize = 32;

/// How long a killed one may take to be gone: it frees its memory. One that the kernel holds longer is not waited for.
const IMAGE_SERVER_GRACE: Duration = Duration::from_secs(1);

/// Those that run. Dropped, they are killed.
#[derive(Debug, Default)]
pub struct ImageServers(Vec<Child>);

impl ImageServers {
    /// Starts one: `program` with a mount's connection, an image's file and somewhere to complain, in this order. This
    /// program does so in a process of its own (`images::serve`), because a program may lie on a file system that hangs.
    ///
    /// # Errors
    /// With too many or too few of anything.
    pub fn start(&mut self, own: &Program, program: &Path, descriptors: Vec<OwnedFd>) -> anyhow::Result<()> {
        self.reap();
        ensure!(self.0.len() < IMAGES_MAX, "the job has mounted {IMAGES_MAX} images here, and no more are possible");
        let Ok([mount, image, complaints]) = <[OwnedFd; 3]>::try_from(descriptors) else {
            bail!("descriptors are missing from the request");
        };
        let mut command = own.command();
        command.args(["node", "--serve-image"]).arg(program).arg("--kept-by").arg(std::process::id().to_string());
        command.stdin(mount).stdout(image).stderr(Stdio::from(complaints)).current_dir("/");
        self.0.push(command.spawn().context("the image's server cannot be started")?);
        Ok(())
    }

    /// Waits for those that have ended.
    pub fn reap(&mut self) {
        self.0.retain_mut(|server| matches!(server.try_wait(), Ok(None)));
    }
}

impl Drop for ImageServers {
    fn drop(&mut self) {
        let until = Instant::now() + IMAGE_SERVER_GRACE;
        for server in &mut self.0 {
            if let Err(error) = server.kill() {
                tracing::debug!(%error, "an image's server has ended already");
            }
        }
        for server in &mut self.0 {
            if !ends_before(server, until) {
                tracing::warn!(pid = server.id(), "an image's server is killed, but the kernel holds it");
            }
        }
    }
}

/// Waits for a process, but not for long.
fn ends_before(server: &mut Child, until: Instant) -> bool {
    let Ok(ended) = pidfd_open(Pid::from_child(server), PidfdFlags::empty()) else {
        return true;
    };
    let left = until.saturating_duration_since(Instant::now());
    let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
    let has_ended =
        poll(&mut [PollFd::new(&ended.as_fd(), PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0);
    has_ended && server.try_wait().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn null() -> OwnedFd {
        File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn too_little_is_refused() {
        let own = Program::this().unwrap();
        let refused = ImageServers::default().start(&own, Path::new("/bin/true"), vec![null(), null()]).unwrap_err();
        assert!(refused.to_string().contains("descriptors are missing"), "{refused}");
    }

    #[test]
    fn dropped_they_are_gone() {
        let server = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_child(&server);
        drop(ImageServers(vec![server]));
        assert!(rustix::process::test_kill_process(pid).is_err(), "it has ended and was waited for");
    }
}
