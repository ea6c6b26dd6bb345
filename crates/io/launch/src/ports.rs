//! The ports of a job's nodes where the user names none: a few candidates that every node of the job knows, so that nobody
//! needs to be asked where a node listens.
//!
//! A node takes the first that is free. Which they are must not be known before: whoever knows them can take them all on
//! some host of the job and keep it from starting.

use std::io;

use forebay_secret::JobKey;
use ring::hkdf::{HKDF_SHA256, Salt};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};

use crate::NodeAddress;

/// First port of the range that candidates are drawn from: above the registered services, below the range from which
/// Linux takes the ports of outgoing connections by default (32768).
const FIRST: u16 = 20_000;

/// Ports in that range.
const COUNT: u16 = 12_768;

/// The first and the last one.
pub(crate) const RANGE: (u16, u16) = (FIRST, FIRST + COUNT - 1);

/// Candidates. Where one port in a hundred is taken, all four are on one host of 10^8.
const CANDIDATES: usize = 4;

/// The ports of a job whose nodes name none of their own. No ports at all for a job whose nodes all do.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ports(Vec<u16>);

impl Ports {
    /// The one that the user names.
    #[must_use]
    pub fn named(port: u16) -> Self {
        Self(vec![port])
    }

    /// Candidates from the system's source of random numbers.
    ///
    /// # Errors
    /// When the system has none.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 32];
        // Of this length the system gives all or fails.
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        Ok(Self::drawn(&bytes))
    }

    /// The candidates of nodes that are started each by itself. They follow from the key, which nobody else has; without
    /// one from what anybody may know.
    ///
    /// # Panics
    /// Never: HKDF gives one hash of output.
    #[must_use]
    pub fn derived(job: &str, uid: u32, key: Option<&JobKey>) -> Self {
        let secret = Salt::new(HKDF_SHA256, b"forebay ports").extract(key.map_or(&[], |key| key.secret_bytes()));
        let mut bytes = [0; 32];
        let info = [job.as_bytes(), &uid.to_be_bytes()];
        let okm = secret.expand(&info, HKDF_SHA256).and_then(|okm| okm.fill(&mut bytes));
        okm.expect("as long as one hash");
        Self::drawn(&bytes)
    }

    fn drawn(bytes: &[u8; 32]) -> Self {
        let (numbers, _) = bytes.as_chunks::<8>();
        let mut ports: Vec<u16> = Vec::with_capacity(CANDIDATES);
        for number in numbers.iter().map(|number| u64::from_be_bytes(*number)) {
            let port = FIRST + (number % u64::from(COUNT)) as u16;
            if !ports.contains(&port) {
                ports.push(port);
            }
        }
        Self(ports)
    }

    /// The first, which stands in the list of nodes for all of them.
    #[must_use]
    pub fn first(&self) -> u16 {
        self.0.first().copied().unwrap_or(FIRST)
    }

    /// The ports of `node`: all candidates, unless it has one of its own.
    #[must_use]
    pub fn of<'a>(&'a self, node: &'a NodeAddress) -> &'a [u16] {
        if self.0.first() == Some(&node.port) { &self.0 } else { std::slice::from_ref(&node.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(port: u16) -> NodeAddress {
        NodeAddress { host: "a".into(), port }
    }

    #[test]
    fn candidates_are_some_of_their_range_and_unlike_others() {
        for ports in [Ports::random().unwrap(), Ports::derived("train", 7, None)] {
            assert!(ports.0.len() > 1 && ports.0.iter().all(|port| (20_000..32_768).contains(port)), "{ports:?}");
        }
        assert_ne!(Ports::random().unwrap(), Ports::random().unwrap());
        let (one, other) = (JobKey::from_bytes([1; 32]), JobKey::from_bytes([2; 32]));
        let derived = [
            Ports::derived("train", 7, None),
            Ports::derived("train", 8, None),
            Ports::derived("other", 7, None),
            Ports::derived("train", 7, Some(&one)),
            Ports::derived("train", 7, Some(&other)),
        ];
        assert!((1..derived.len()).all(|at| !derived[..at].contains(&derived[at])), "{derived:?}");
        assert_eq!(derived[3], Ports::derived("train", 7, Some(&one)));
    }

    #[test]
    fn a_node_with_a_port_of_its_own_has_no_other() {
        let ports = Ports::drawn(&[7; 32]);
        assert_eq!(ports.0.len(), 1, "none twice");
        let ports = Ports(vec![20_001, 30_000]);
        assert_eq!(ports.of(&node(ports.first())), [20_001, 30_000]);
        assert_eq!(ports.of(&node(30_000)), [30_000]);
        assert_eq!(Ports::named(5).of(&node(5)), [5]);
        assert_eq!(Ports::default().of(&node(9)), [9]);
    }
}
