//! Agreeing with the kernel on how to talk, once a mount.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use forebay_types::Errno;
use zerocopy::IntoBytes;

use crate::abi;
use crate::device::{Device, Kernel, Received};
use crate::init::{self, Negotiated};
use crate::options::SessionOptions;
use crate::request::{self, Operation};

/// Agrees with the kernel on how to talk: answers INIT, the first request of a connection. Once a mount, whoever serves it.
///
/// # Errors
/// EPROTO when the kernel speaks a version older than 7.31; else what reading and writing the descriptor says.
pub fn agree(descriptor: &Arc<OwnedFd>, options: &SessionOptions) -> io::Result<Negotiated> {
    let device = Device::new(Kernel::Device(Arc::clone(descriptor)), None, options.access);
    let negotiated = shake_hands(&device, options)?;
    tracing::debug!(?negotiated, "FUSE session agreed");
    Ok(negotiated)
}

fn shake_hands(device: &Device, options: &SessionOptions) -> io::Result<Negotiated> {
    let mut buffer = vec![0; device.request_bytes_max];
    loop {
        let len = match device.receive(&mut buffer)? {
            Received::Request(len) => len,
            Received::Nothing => continue,
            Received::Ended => return Err(Errno::ENODEV.into()),
        };
        let request = request::decode(&buffer[..len]).map_err(io::Error::other)?;
        let Operation::Init { major, minor, flags, .. } = request.operation else {
            return Err(io::Error::other("the first request of the connection is not INIT"));
        };
        if major > abi::MAJOR {
            // The kernel asks again with the version it is told here.
            let out = abi::InitOut { major: abi::MAJOR, minor: abi::MINOR, ..Default::default() };
            device.send(0, request.unique, &[out.as_bytes()], &[])?;
            continue;
        }
        if major < abi::MAJOR || minor < abi::MINOR_MIN {
            device.send(-Errno::EPROTO.number(), request.unique, &[], &[])?;
            return Err(Errno::EPROTO.into());
        }
        let negotiated = init::negotiate(minor, flags, options);
        device.send(0, request.unique, &[init::answer(&negotiated, options).as_bytes()], &[])?;
        return Ok(negotiated);
    }
}
