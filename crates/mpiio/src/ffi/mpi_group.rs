//! The ranks of an MPI communicator, by way of the five functions that the shim has for it.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::error::Error;
use crate::group::{Group, Message};

/// Bytes of a broadcast that go with its length: hints, a path and what is missing are seldom more.
const BROADCAST_BYTES: usize = 2048;

/// A message of the shim.
#[repr(C)]
pub struct RawMessage {
    peer: c_int,
    bytes: *mut u8,
    len: usize,
}

/// The shim's functions for a group of ranks; every function returns MPI's error code.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawCalls {
    // SAFETY: these are the shim's own functions, which take what `MpiGroup` gives them; as for all five.
    all_gather: unsafe extern "C" fn(*mut c_void, *const u8, *mut u8, usize) -> c_int,
    // SAFETY: as above.
    all_max: unsafe extern "C" fn(*mut c_void, *mut i64, usize) -> c_int,
    // SAFETY: as above.
    broadcast: unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> c_int,
    // SAFETY: as above.
    begin: unsafe extern "C" fn(
        *mut c_void,
        usize,
        *const RawMessage,
        usize,
        *const RawMessage,
        *mut *mut c_void,
    ) -> c_int,
    // SAFETY: as above.
    finish: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
}

/// The ranks of a communicator.
pub struct MpiGroup {
    calls: RawCalls,
    context: *mut c_void,
    rank: usize,
    size: usize,
}

impl MpiGroup {
    /// The ranks of the communicator that the context stands for.
    pub const fn new(calls: RawCalls, context: *mut c_void, rank: usize, size: usize) -> Self {
        Self { calls, context, rank, size }
    }
}

/// Messages under way; their memory lives until MPI has done with it.
pub struct Exchange {
    calls: RawCalls,
    context: *mut c_void,
    request: *mut c_void,
    _sends: Vec<Message>,
    receives: Vec<Message>,
}

impl Exchange {
    fn wait(&mut self) -> c_int {
        if self.request.is_null() {
            return 0;
        }
        let request = std::mem::replace(&mut self.request, ptr::null_mut());
        // SAFETY: the request is one of `begin` that was not finished yet.
        unsafe { (self.calls.finish)(self.context, request) }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.wait();
    }
}

fn checked(code: c_int) -> Result<(), Error> {
    if code == 0 { Ok(()) } else { Err(Error::Communication(code)) }
}

fn raw(messages: &mut [Message]) -> Vec<RawMessage> {
    let raw = |message: &mut Message| RawMessage {
        peer: message.peer as c_int,
        bytes: message.bytes.as_mut_ptr(),
        len: message.bytes.len(),
    };
    messages.iter_mut().map(raw).collect()
}

impl Group for MpiGroup {
    type Exchange = Exchange;

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_gather(&self, own: &[u8]) -> Result<Vec<u8>, Error> {
        let mut all = vec![0; own.len() * self.size];
        // SAFETY: `all` has room for as many bytes of every rank.
        checked(unsafe { (self.calls.all_gather)(self.context, own.as_ptr(), all.as_mut_ptr(), own.len()) })?;
        Ok(all)
    }

    fn all_max(&self, values: &mut [i64]) -> Result<(), Error> {
        // SAFETY: the values are read and written in place.
        checked(unsafe { (self.calls.all_max)(self.context, values.as_mut_ptr(), values.len()) })
    }

    fn broadcast(&self, mut bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
        // The length, and as much as nearly all messages have.
        let mut first = (bytes.len() as u64).to_ne_bytes().to_vec();
        first.extend(bytes.iter().take(BROADCAST_BYTES));
        first.resize(size_of::<u64>() + BROADCAST_BYTES, 0);
        // SAFETY: the bytes are read or written in place.
        checked(unsafe { (self.calls.broadcast)(self.context, first.as_mut_ptr(), first.len()) })?;
        let (len, first) = first.split_first_chunk().ok_or(Error::Message)?;
        bytes.resize(usize::try_from(u64::from_ne_bytes(*len)).map_err(|_| Error::Message)?, 0);
        let start = bytes.len().min(BROADCAST_BYTES);
        let (head, rest) = bytes.split_at_mut(start);
        head.copy_from_slice(&first[..start]);
        if !rest.is_empty() {
            // SAFETY: the rest has the length that rank 0 said.
            checked(unsafe { (self.calls.broadcast)(self.context, rest.as_mut_ptr(), rest.len()) })?;
        }
        Ok(bytes)
    }

    fn begin(&self, mut sends: Vec<Message>, mut receives: Vec<Message>) -> Result<Exchange, Error> {
        let (to, from) = (raw(&mut sends), raw(&mut receives));
        let mut request = ptr::null_mut();
        // SAFETY: the messages' bytes are on the heap and live in the exchange until it is finished.
        let code = unsafe {
            (self.calls.begin)(self.context, to.len(), to.as_ptr(), from.len(), from.as_ptr(), &raw mut request)
        };
        checked(code)?;
        Ok(Exchange { calls: self.calls, context: self.context, request, _sends: sends, receives })
    }

    fn finish(&self, mut exchange: Exchange) -> Result<Vec<Message>, Error> {
        checked(exchange.wait())?;
        Ok(std::mem::take(&mut exchange.receives))
    }
}
