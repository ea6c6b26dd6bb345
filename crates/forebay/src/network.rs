//! Which address a daemon listens on.
//!
//! Nobody but the job's peers needs to reach it, so it listens on as little as it can: the loopback address of a local
//! job, the interface that was named, else the one address by which the list of nodes knows this host. Where that is
//! not one of this host's, or a loopback address that others cannot reach (as Debian writes into /etc/hosts), it
//! listens on all.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};

use anyhow::{Context, anyhow, bail};
use forebay_launch::NodeAddress;
use nix::ifaddrs::getifaddrs;

/// An interface and one of its addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The address.
    pub address: IpAddr,
}

/// The addresses of this host.
///
/// # Errors
/// What the system says.
pub fn interfaces() -> anyhow::Result<Vec<Interface>> {
    let addresses = getifaddrs().context("cannot list the network interfaces")?;
    let found = addresses.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        let v6 = || address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()));
        Some(Interface { name: interface.interface_name, address: v4.or_else(v6)? })
    });
    Ok(found.collect())
}

/// The address of the interface that `wanted` names, or whose network it is (`10.1.0.0/16`).
///
/// # Errors
/// When there is none, with those that there are.
pub fn address_of(wanted: &str, interfaces: &[Interface]) -> anyhow::Result<IpAddr> {
    let network = Network::parse(wanted)?;
    let fits = |interface: &&Interface| match &network {
        Some(network) => network.contains(interface.address),
        None => interface.name == wanted,
    };
    // IPv4 first: a name's link-local IPv6 address is of no use without a scope.
    let mut found: Vec<IpAddr> = interfaces.iter().filter(fits).map(|interface| interface.address).collect();
    found.sort();
    found.first().copied().ok_or_else(|| {
        let known: Vec<String> =
            interfaces.iter().map(|interface| format!("{} ({})", interface.name, interface.address)).collect();
        anyhow!("no network interface is or lies in '{wanted}' (--interface); this host has {}", known.join(", "))
    })
}

/// A network: an address and the length of its prefix.
struct Network {
    address: IpAddr,
    prefix_bits: u32,
}

impl Network {
    /// `None` for the name of an interface.
    fn parse(text: &str) -> anyhow::Result<Option<Self>> {
        let Some((address, bits)) = text.split_once('/') else {
            // A bare address is a network of one.
            let address: Option<IpAddr> = text.parse().ok();
            return Ok(address.map(|address| Self { address, prefix_bits: if address.is_ipv4() { 32 } else { 128 } }));
        };
        let address: IpAddr = address.parse().with_context(|| format!("'{text}' is not a network (--interface)"))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        match bits.parse::<u32>() {
            Ok(prefix_bits) if prefix_bits <= most => Ok(Some(Self { address, prefix_bits })),
            _ => bail!("'{text}' is not a network (--interface): the prefix has 0 to {most} bits"),
        }
    }

    fn contains(&self, other: IpAddr) -> bool {
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

/// The address to listen on as `own`, one of `nodes`.
pub fn address_for(own: &NodeAddress, nodes: &[NodeAddress]) -> IpAddr {
    let all = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let Some(address) = resolve(own) else { return all };
    let is_local_job = || nodes.iter().all(|node| node.host == own.host || is_loopback(node));
    if address.is_loopback() && !is_local_job() {
        return all;
    }
    // The system knows best which addresses are its own: only those can be bound.
    if TcpListener::bind((address, 0)).is_ok() { address } else { all }
}

fn is_loopback(node: &NodeAddress) -> bool {
    resolve(node).is_some_and(|address| address.is_loopback())
}

fn resolve(node: &NodeAddress) -> Option<IpAddr> {
    let found = (node.host.as_str(), node.port).to_socket_addrs().ok()?;
    found.map(|address: SocketAddr| address.ip()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, address: &str) -> Interface {
        Interface { name: name.into(), address: address.parse().unwrap() }
    }

    #[test]
    fn by_name_by_network_by_address() {
        let interfaces = [
            interface("lo", "127.0.0.1"),
            interface("eth0", "fe80::1"),
            interface("eth0", "10.0.0.5"),
            interface("ib0", "10.1.2.3"),
        ];
        let found = |wanted| address_of(wanted, &interfaces).map(|address| address.to_string()).ok();
        assert_eq!(found("eth0").as_deref(), Some("10.0.0.5"));
        assert_eq!(found("10.1.0.0/16").as_deref(), Some("10.1.2.3"));
        assert_eq!(found("10.1.2.3").as_deref(), Some("10.1.2.3"));
        assert_eq!(found("0.0.0.0/0").as_deref(), Some("10.0.0.5"));
        assert_eq!(found("fe80::/10").as_deref(), Some("fe80::1"));
        for wrong in ["eth9", "192.168.0.0/16", "10.0.0.0/33", "x/8"] {
            assert_eq!(found(wrong), None, "{wrong}");
        }
        let message = address_of("eth9", &interfaces).unwrap_err().to_string();
        assert!(message.contains("ib0 (10.1.2.3)"), "{message}");
    }

    #[test]
    fn this_host_has_a_loopback_interface() {
        assert!(interfaces().unwrap().iter().any(|interface| interface.address.is_loopback()));
    }

    #[test]
    fn a_local_job_listens_on_its_loopback_address_only() {
        let node = |host: &str| NodeAddress { host: host.into(), port: 1 };
        let local = [node("127.0.0.1"), node("127.0.0.2")];
        assert_eq!(address_for(&local[1], &local).to_string(), "127.0.0.2");
        let mixed = [node("127.0.0.1"), node("192.0.2.1")];
        assert_eq!(address_for(&mixed[0], &mixed).to_string(), "0.0.0.0");
        assert_eq!(address_for(&mixed[1], &mixed).to_string(), "0.0.0.0");
    }
}
