//! Which address a daemon listens on, and in which networks it looks for others.
//!
//! Only the job's peers need to reach it, so it listens on as little as it can: the loopback address of a local
//! job, the interface that was named, else the one address by which the list of nodes knows this host. Where that is
//! not one of this host's, or a loopback address that others cannot reach (as Debian writes into /etc/hosts), it
//! listens on all.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};

use anyhow::{Context, anyhow, bail};
use forebay_launch::NodeAddress;
use forebay_transport::Subnet;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

/// An interface and one of its addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// The length of the prefix of its network.
    pub prefix_bits: u32,
}

/// The addresses of this host.
///
/// # Errors
/// The system's error.
pub fn interfaces() -> anyhow::Result<Vec<Interface>> {
    let addresses = getifaddrs().context("cannot list the network interfaces")?;
    let found = addresses.filter_map(|interface| {
        let ip = |address: SockaddrStorage| {
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
        };
        let address = ip(interface.address?)?;
        let prefix_bits = match interface.netmask.and_then(ip) {
            Some(IpAddr::V4(mask)) => mask.to_bits().count_ones(),
            Some(IpAddr::V6(mask)) => mask.to_bits().count_ones(),
            None => Subnet::bits_max(address),
        };
        Some(Interface { name: interface.interface_name, address, prefix_bits })
    });
    Ok(found.collect())
}

/// The address of the interface that `wanted` names, or whose network it is (`10.1.0.0/16`).
///
/// # Errors
/// When there is none, with those that there are.
pub fn address_of(wanted: &str, interfaces: &[Interface]) -> anyhow::Result<IpAddr> {
    let network = network(wanted)?;
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
        anyhow!(
            "--interface: no network interface is named '{wanted}' or has an address in that network; this host has {}",
            known.join(", ")
        )
    })
}

/// Whether it can be one: a name, or a network.
///
/// # Errors
/// When it looks like a network and is none.
pub fn check(wanted: &str) -> anyhow::Result<()> {
    network(wanted).map(drop)
}

/// The network that `text` is: `10.1.0.0/16`, or an address alone, which is one of itself. `None` for the name of an interface.
fn network(text: &str) -> anyhow::Result<Option<Subnet>> {
    let Some((address, bits)) = text.split_once('/') else {
        let address: Option<IpAddr> = text.parse().ok();
        return Ok(address.and_then(|address| Subnet::new(address, Subnet::bits_max(address))));
    };
    let address: IpAddr = address.parse().with_context(|| format!("'{text}' is not a network (--interface)"))?;
    match bits.parse().ok().and_then(|prefix_bits| Subnet::new(address, prefix_bits)) {
        Some(network) => Ok(Some(network)),
        None => {
            bail!("'{text}' is not a network (--interface): the prefix has 0 to {} bits", Subnet::bits_max(address))
        }
    }
}

/// The networks in which a node that listens at `own` looks for its peers; nodes of one machine do so at its loopback addresses.
///
/// # Errors
/// When `wanted` is no network, or the interfaces cannot be listed.
pub fn subnets_from(own: IpAddr, wanted: Option<&str>) -> anyhow::Result<Vec<Subnet>> {
    wanted.filter(|_| !own.is_loopback()).map_or(Ok(vec![]), |wanted| peer_subnets(wanted, &interfaces()?))
}

/// The networks in which `wanted` has peers looked for, of the addresses that their names lead to: itself if it is a network, those
/// of the interface of that name. An address alone says where this host listens, and nothing of others.
fn peer_subnets(wanted: &str, interfaces: &[Interface]) -> anyhow::Result<Vec<Subnet>> {
    if let Some(network) = network(wanted)? {
        return Ok(wanted.contains('/').then_some(network).into_iter().collect());
    }
    let named = interfaces.iter().filter(|interface| interface.name == wanted);
    Ok(named.filter_map(|interface| Subnet::new(interface.address, interface.prefix_bits)).collect())
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
        let address: IpAddr = address.parse().unwrap();
        Interface { name: name.into(), address, prefix_bits: if address.is_ipv4() { 16 } else { 64 } }
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
    fn peers_are_looked_for_in_the_network_that_was_named() {
        let interfaces = [interface("eth0", "10.0.0.5"), interface("ib0", "10.1.2.3"), interface("ib0", "fd00::3")];
        let subnets = |wanted| peer_subnets(wanted, &interfaces).unwrap();
        let subnet = |address: &str, bits| Subnet::new(address.parse().unwrap(), bits).unwrap();
        assert_eq!(subnets("ib0"), [subnet("10.1.2.3", 16), subnet("fd00::3", 64)]);
        assert_eq!(subnets("10.1.0.0/12"), [subnet("10.1.0.0", 12)]);
        assert_eq!(subnets("10.1.2.3"), []);
        assert!(peer_subnets("10.1.0.0/33", &interfaces).is_err());
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
