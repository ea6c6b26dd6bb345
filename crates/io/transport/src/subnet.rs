//! Networks by which the addresses of a host are told apart: one that is in several is looked for in those that were named.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// A network: an address in it, and the length of its prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Subnet {
    address: IpAddr,
    prefix_bits: u32,
}

impl Subnet {
    /// `None` for a prefix longer than the address.
    #[must_use]
    pub fn new(address: IpAddr, prefix_bits: u32) -> Option<Self> {
        (prefix_bits <= Self::bits_max(address)).then_some(Self { address, prefix_bits })
    }

    /// Bits that a prefix of such an address may have.
    #[must_use]
    pub fn bits_max(address: IpAddr) -> u32 {
        if address.is_ipv4() { 32 } else { 128 }
    }

    /// Whether `other` lies in it.
    #[must_use]
    pub fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let different = own.to_bits() ^ other.to_bits();
                different.checked_shr(32 - self.prefix_bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let different = own.to_bits() ^ other.to_bits();
                different.checked_shr(128 - self.prefix_bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// Of the places at which a host may be, those in `subnets`; all where none is, because routers may lead there.
pub(crate) fn within(subnets: &[Subnet], places: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let is_within = |place: &&SocketAddr| subnets.iter().any(|subnet| subnet.contains(place.ip()));
    let chosen: Vec<SocketAddr> = places.iter().filter(is_within).copied().collect();
    if chosen.is_empty() { places } else { chosen }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_looked_for_where_it_was_said() {
        let subnet = |text: &str, bits| Subnet::new(text.parse().unwrap(), bits).unwrap();
        let places = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 7)).collect()
        };
        let host = ["10.0.0.4", "10.1.2.4", "fd00::4"];
        for (subnets, expected) in [
            (vec![], &host[..]),
            (vec![subnet("10.1.0.0", 16)], &host[1..2]),
            (vec![subnet("10.1.9.9", 16), subnet("fd00::1", 64)], &host[1..]),
            (vec![subnet("0.0.0.0", 0)], &host[..2]),
            (vec![subnet("192.168.0.0", 16)], &host[..]),
        ] {
            assert_eq!(within(&subnets, places(&host)), places(expected), "{subnets:?}");
        }
        assert_eq!(Subnet::new("10.0.0.0".parse().unwrap(), 33), None);
    }
}
