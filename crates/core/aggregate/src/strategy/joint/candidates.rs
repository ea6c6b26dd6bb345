//! The nodes that may aggregate a domain, and how soon it would come there.
//!
//! Nodes that hold some of it, so that what they hold need not travel; and for each I/O node some others to which its bytes
//! come over many links at once. The latter are what lets every I/O node have its share, wherever the bytes are. Where
//! there are very many holders or nodes, only some of them are looked at, spread over all, so that every part of the
//! network has some.

use crate::case::Case;
use crate::division::{Division, Domain, Window};
use crate::seat::Seat;
use crate::topology::Network;

/// Routes that are looked at to find candidates: a tenth of a second.
const ROUTES_MAX: usize = 1 << 21;

/// Holders, and other nodes, of a domain that are looked at however many routes that takes.
const LOOKED_AT_MIN: usize = 4;

/// Candidates of all domains, but for those that hold them: some 32 MiB.
const OTHERS_MAX: usize = 1 << 20;

/// Candidates of a domain that do not hold it, for each I/O node.
const OTHERS_OF_IO_NODE: usize = 4;

/// The candidates of every domain, by I/O node, and by how soon the domain comes there.
#[derive(Debug)]
pub struct Candidates {
    of_domain: Vec<Vec<Candidate>>,
    ingress: Ingress,
}

/// One of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Candidate {
    /// The I/O node that it would write to.
    pub io: usize,
    /// How soon the window that comes soonest would be there, seconds, if nothing else were on the network.
    pub comes_s: f64,
    /// The rank and its node.
    pub seat: Seat,
}

impl Candidates {
    /// Those of every domain.
    pub fn of(case: &Case, division: &Division) -> Self {
        let routes: usize = division.domains.iter().map(|domain| domain.holders.len()).sum();
        let looked_at = (ROUTES_MAX / routes.max(1)).max(LOOKED_AT_MIN);
        let others_most = OTHERS_MAX / division.domains.len().max(1);
        let hosts = case.hosts();
        let mut ingress = Ingress::new(&case.network);
        let of_domain = division.domains.iter().map(|domain| {
            let held = spread(&domain.holders, looked_at).map(|holder| Seat::new(holder.rank, holder.node));
            let mut candidates: Vec<Candidate> = held.map(|seat| ingress.candidate(case, domain, seat)).collect();
            let mut nodes: Vec<usize> = domain.holders.iter().map(|holder| holder.node).collect();
            nodes.sort_unstable();
            let others = spread(&hosts, looked_at).filter(|host| nodes.binary_search(&host.node).is_err());
            let mut others: Vec<Candidate> = others.map(|seat| ingress.candidate(case, domain, *seat)).collect();
            others.sort_by(by_io_node);
            let best = others
                .chunk_by(|left, right| left.io == right.io)
                .flat_map(|of_io| of_io.iter().take(OTHERS_OF_IO_NODE));
            candidates.extend(best.take(others_most));
            candidates.sort_by(by_io_node);
            candidates
        });
        Self { of_domain: of_domain.collect(), ingress }
    }

    /// Which candidate each of these seats is; a seat that is none becomes one.
    pub fn choices(&mut self, case: &Case, division: &Division, seats: &[Seat]) -> Vec<usize> {
        for ((domain, candidates), seat) in division.domains.iter().zip(&mut self.of_domain).zip(seats) {
            if candidates.iter().all(|candidate| candidate.seat.node != seat.node) {
                candidates.push(self.ingress.candidate(case, domain, *seat));
                candidates.sort_by(by_io_node);
            }
        }
        let choice = |(candidates, seat): (&Vec<Candidate>, &Seat)| {
            candidates.iter().position(|candidate| candidate.seat.node == seat.node).unwrap_or(0)
        };
        self.of_domain.iter().zip(seats).map(choice).collect()
    }

    /// The candidates of a domain.
    pub fn of_domain(&self, domain: usize) -> &[Candidate] {
        &self.of_domain[domain]
    }

    /// For each I/O node that a domain has candidates for, the one to which it comes soonest.
    pub fn best_of_io_nodes(&self, domain: usize) -> impl Iterator<Item = (usize, &Candidate)> {
        let candidates = &self.of_domain[domain];
        let is_first = |place: usize| place == 0 || candidates[place - 1].io != candidates[place].io;
        candidates.iter().enumerate().filter(move |(place, _)| is_first(*place))
    }

    /// The seats that these choices mean.
    pub fn seats(&self, chosen: &[usize]) -> Vec<Seat> {
        self.of_domain.iter().zip(chosen).map(|(candidates, chosen)| candidates[*chosen].seat).collect()
    }
}

fn by_io_node(left: &Candidate, right: &Candidate) -> std::cmp::Ordering {
    left.io.cmp(&right.io).then(left.comes_s.total_cmp(&right.comes_s)).then(left.seat.cmp(&right.seat))
}

/// How soon a window would come to a node if nothing else were on the network: its busiest link decides.
#[derive(Debug)]
struct Ingress {
    per_byte: Vec<f64>,
    loads: Vec<f64>,
    route: Vec<u32>,
}

impl Ingress {
    fn new(network: &Network) -> Self {
        let per_byte: Vec<f64> = network.rates().iter().map(|rate| 1.0 / rate).collect();
        Self { loads: vec![0.0; per_byte.len()], per_byte, route: vec![] }
    }

    /// A seat that begins with the window that comes to it soonest.
    fn candidate(&mut self, case: &Case, domain: &Domain, seat: Seat) -> Candidate {
        let windows = domain.windows.iter().enumerate().filter(|(_, window)| window.bytes > 0);
        let comes = windows.map(|(place, window)| (self.seconds(&case.network, window, seat.node), place));
        let soonest = comes.min_by(|left, right| left.0.total_cmp(&right.0));
        let (comes_s, first_window) = soonest.unwrap_or_default();
        Candidate { io: case.io_of(seat.node), comes_s, seat: Seat { first_window, ..seat } }
    }

    fn seconds(&mut self, network: &Network, window: &Window, node: usize) -> f64 {
        let mut most: f64 = 0.0;
        self.route.clear();
        for senders in window.senders.chunk_by(|left, right| left.node == right.node) {
            let before = self.route.len();
            let bytes: u64 = senders.iter().map(|sender| sender.bytes * u64::from(sender.ranks)).sum();
            network.route(senders[0].node, node, &mut self.route);
            for link in &self.route[before..] {
                let link = *link as usize;
                self.loads[link] += bytes as f64 * self.per_byte[link];
                most = most.max(self.loads[link]);
            }
        }
        self.route.iter().for_each(|link| self.loads[*link as usize] = 0.0);
        most
    }
}

/// At most so many of a list, evenly spread over it.
fn spread<T>(list: &[T], most: usize) -> impl Iterator<Item = &T> {
    let count = list.len().min(most);
    (0..count).map(move |number| &list[number * list.len() / count])
}
