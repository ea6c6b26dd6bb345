//! Pending handshakes: connections that are not authenticated yet. They are few, and nobody can keep the others out by
//! opening many.
//!
//! When all places are taken, the newcomer gets the place of one of the source that holds the most. A source is what one
//! attacker has at his disposal: all loopback addresses together, since any local user connects from each of them without
//! asking; the 64 bits of prefix of an IPv6 network; else one address. Of that source, an address that holds more than a
//! child needs loses its oldest, else the oldest of all goes. A flood so displaces itself, while the job's nodes on other
//! hosts keep their places; a node on the same host needs its place for two round trips, and loses it only if as many
//! others as there are places come meanwhile.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::limits;
use crate::lock::lock;

/// Pending handshakes of one child: its control and its bulk connection.
const OF_A_CHILD: usize = 2;

/// Bits of an IPv6 address that whoever has a network chooses freely.
const FREE_BITS: u32 = 64;

/// All pending handshakes, by source and address.
#[derive(Default)]
pub(crate) struct PendingHandshakes(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    places: usize,
    next: u64,
    /// No source without addresses.
    by_source: BTreeMap<IpAddr, Source>,
}

/// The places that one source holds.
#[derive(Default)]
struct Source {
    places: usize,
    /// The oldest first; no address without places.
    by_address: BTreeMap<IpAddr, VecDeque<(u64, oneshot::Sender<()>)>>,
}

/// The place of one pending handshake, until it is dropped or lost to another.
pub(crate) struct Place {
    pending: Arc<PendingHandshakes>,
    address: IpAddr,
    number: u64,
    /// Ends when the place is lost.
    kept: oneshot::Receiver<()>,
}

impl PendingHandshakes {
    /// A place for a connection from `address`, and whether somebody lost theirs for it.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> (Place, bool) {
        let mut taken = lock(&self.0);
        let crowded = taken.places >= limits::PENDING_HANDSHAKES_MAX;
        if crowded {
            taken.push_out();
        }
        let (holds, kept) = oneshot::channel();
        let number = taken.next;
        taken.next += 1;
        taken.places += 1;
        let source = taken.by_source.entry(source_of(address)).or_default();
        source.places += 1;
        source.by_address.entry(address).or_default().push_back((number, holds));
        (Place { pending: Arc::clone(self), address, number, kept }, crowded)
    }
}

/// The name of the source that has `address`.
fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address if address.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> FREE_BITS << FREE_BITS).into(),
        v4 => v4,
    }
}

impl Taken {
    fn push_out(&mut self) {
        let most = self.by_source.values().max_by_key(|source| source.places);
        if let Some((address, number)) = most.and_then(Source::first_to_go) {
            self.leave(address, number);
        }
    }

    fn leave(&mut self, address: IpAddr, number: u64) {
        let name = source_of(address);
        let Some(source) = self.by_source.get_mut(&name) else { return };
        if source.leave(address, number) {
            self.places -= 1;
        }
        if source.places == 0 {
            self.by_source.remove(&name);
        }
    }
}

impl Source {
    fn first_to_go(&self) -> Option<(IpAddr, u64)> {
        let oldest = |(address, places): (&IpAddr, &VecDeque<(u64, _)>)| Some((*address, places.front()?.0));
        let most = self.by_address.iter().max_by_key(|(_, places)| places.len())?;
        if most.1.len() > OF_A_CHILD {
            return oldest(most);
        }
        self.by_address.iter().filter_map(oldest).min_by_key(|(_, number)| *number)
    }

    /// Whether the place was still held.
    fn leave(&mut self, address: IpAddr, number: u64) -> bool {
        let Some(places) = self.by_address.get_mut(&address) else { return false };
        let index = places.iter().position(|(other, _)| *other == number);
        let was_held = index.and_then(|index| places.remove(index)).is_some();
        if places.is_empty() {
            self.by_address.remove(&address);
        }
        self.places -= usize::from(was_held);
        was_held
    }
}

impl Place {
    /// Waits until the place is lost to another.
    pub(crate) async fn lost(&mut self) {
        // No value is ever sent: the sender is dropped.
        let _ = (&mut self.kept).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.pending.0).leave(self.address, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot::error::TryRecvError;

    fn is_lost(place: &mut Place) -> bool {
        place.kept.try_recv() == Err(TryRecvError::Closed)
    }

    /// Holds two places of `child` and takes ten times as many as there are, from the addresses of `flood` in turn; each
    /// newcomer beyond the limit takes the place of the oldest of the flood.
    fn flood_from(child: IpAddr, flood: &[IpAddr]) {
        let pending = Arc::new(PendingHandshakes::default());
        let mut of_child = [pending.enter(child).0, pending.enter(child).0];
        let mut flooding = VecDeque::new();
        for (count, address) in (2..10 * limits::PENDING_HANDSHAKES_MAX).zip(flood.iter().cycle()) {
            let (place, crowded) = pending.enter(*address);
            assert_eq!(crowded, count >= limits::PENDING_HANDSHAKES_MAX);
            flooding.push_back(place);
            if crowded {
                assert!(is_lost(&mut flooding.pop_front().unwrap()), "the oldest of them");
            }
        }
        assert!(of_child.iter_mut().chain(&mut flooding).all(|place| !is_lost(place)));
        assert_eq!(lock(&pending.0).places, limits::PENDING_HANDSHAKES_MAX);
        drop((of_child, flooding));
        let taken = lock(&pending.0);
        assert_eq!((taken.places, taken.by_source.len()), (0, 0), "nothing stays behind");
    }

    #[test]
    fn a_flood_displaces_itself_oldest_first() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let loopback: Vec<IpAddr> = (1..60_000).map(|host| Ipv4Addr::from_bits(0x7f01_0000 + host).into()).collect();
        let network: Vec<IpAddr> = (1..60_000).map(|host| address(&format!("2001:db8::{host:x}"))).collect();
        flood_from(address("10.0.0.1"), &[address("10.0.0.2")]);
        flood_from(address("127.0.0.1"), &[address("127.0.0.2")]);
        flood_from(address("10.0.0.1"), &loopback);
        flood_from(address("2001:db8:0:1::1"), &network);
    }

    #[test]
    fn a_child_on_the_floods_own_host_goes_when_it_is_the_oldest() {
        let pending = Arc::new(PendingHandshakes::default());
        let mut flooding: Vec<Place> = Vec::new();
        let mut come = |host: u32| flooding.push(pending.enter(Ipv4Addr::from_bits(0x7f01_0000 + host).into()).0);
        (0..limits::PENDING_HANDSHAKES_MAX as u32).for_each(&mut come);
        let child = Ipv4Addr::LOCALHOST.into();
        let mut of_child = [pending.enter(child).0, pending.enter(child).0];
        let until_it_is_oldest = limits::PENDING_HANDSHAKES_MAX as u32 - 2;
        (1_000..1_000 + until_it_is_oldest).for_each(&mut come);
        assert!(of_child.iter_mut().all(|place| !is_lost(place)), "as many as there are places must come meanwhile");
        come(9_000);
        assert!(is_lost(&mut of_child[0]) && !is_lost(&mut of_child[1]));
    }
}
