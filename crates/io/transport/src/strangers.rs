//! The connections that have not shaken hands yet: few, and nobody can keep the others out by opening many.
//!
//! When all places are taken, the newcomer gets the place of the oldest stranger of the address that holds the most. A
//! flood from one host so displaces itself, while the job's nodes on other hosts keep their places; a node on the same
//! host needs its place for two round trips, and loses it only if as many others as there are places come meanwhile.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use forebay_types::limits;
use tokio::sync::oneshot;

use crate::lock;

/// All strangers, by address.
#[derive(Default)]
pub(crate) struct Strangers(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    places: usize,
    next: u64,
    /// The oldest first; no address without places.
    by_address: HashMap<IpAddr, VecDeque<(u64, oneshot::Sender<()>)>>,
}

/// One stranger's place, until it is dropped or lost to another.
pub(crate) struct Place {
    strangers: Arc<Strangers>,
    address: IpAddr,
    number: u64,
    /// Ends when the place is lost.
    kept: oneshot::Receiver<()>,
}

impl Strangers {
    /// A place for a connection from `address`, and whether somebody lost theirs for it.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> (Place, bool) {
        let mut taken = lock(&self.0);
        let crowded = taken.places >= limits::STRANGERS_MAX;
        if crowded {
            taken.push_out();
        }
        let (holds, kept) = oneshot::channel();
        let number = taken.next;
        taken.next += 1;
        taken.places += 1;
        taken.by_address.entry(address).or_default().push_back((number, holds));
        (Place { strangers: Arc::clone(self), address, number, kept }, crowded)
    }
}

impl Taken {
    fn push_out(&mut self) {
        let most = self.by_address.iter().max_by_key(|(_, places)| places.len()).map(|(address, _)| *address);
        if let Some(address) = most {
            self.leave(address, None);
        }
    }

    /// Frees the place of that number, or the oldest.
    fn leave(&mut self, address: IpAddr, number: Option<u64>) {
        let Some(places) = self.by_address.get_mut(&address) else { return };
        let index = number.map_or(Some(0), |number| places.iter().position(|(other, _)| *other == number));
        if index.and_then(|index| places.remove(index)).is_some() {
            self.places -= 1;
        }
        if places.is_empty() {
            self.by_address.remove(&address);
        }
    }
}

impl Place {
    /// Waits until the place is lost to another.
    pub(crate) async fn lost(&mut self) {
        // Nothing is ever sent: the sender is dropped.
        let _ = (&mut self.kept).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.strangers.0).leave(self.address, Some(self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::sync::oneshot::error::TryRecvError;

    fn is_lost(place: &mut Place) -> bool {
        place.kept.try_recv() == Err(TryRecvError::Closed)
    }

    #[test]
    fn a_flood_displaces_itself_oldest_first() {
        let strangers = Arc::new(Strangers::default());
        let [few, flood] = [1, 2].map(|host| IpAddr::from(Ipv4Addr::new(10, 0, 0, host)));
        let mut early = strangers.enter(few).0;
        let mut flooding = VecDeque::new();
        for count in 1..10 * limits::STRANGERS_MAX {
            let (place, crowded) = strangers.enter(flood);
            assert_eq!(crowded, count >= limits::STRANGERS_MAX);
            flooding.push_back(place);
            if crowded {
                assert!(is_lost(&mut flooding.pop_front().unwrap()), "the oldest of them");
            }
        }
        assert!(!is_lost(&mut early));
        assert!(flooding.iter_mut().all(|place| !is_lost(place)));
        assert_eq!(lock(&strangers.0).places, limits::STRANGERS_MAX);
        drop((early, flooding));
        let taken = lock(&strangers.0);
        assert_eq!((taken.places, taken.by_address.len()), (0, 0), "nothing stays behind");
    }
}
