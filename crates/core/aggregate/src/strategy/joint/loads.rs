//! The loads of a placement on links, in seconds, and their cost.
//!
//! I/O nodes begin when the first round has come, and that has when its busiest links are done. So its cost is the sum of
//! fourth powers of loads: mostly that of the worst links, but a placement that relieves any is better than one that
//! relieves none. From then on the I/O nodes take what they take anyway; a link costs only where it would take longer
//! than that. With one round it carries nothing but I/O then; with several, the exchange as well.

use crate::case::Case;
use crate::division::Domain;
use crate::seat::Seat;

/// The weight of a second on an overloaded link, against one in the exchange.
const OVERLOAD: f64 = 16.0;

/// Loads of links.
#[derive(Debug)]
pub struct Loads {
    /// Seconds, in the first round's exchange.
    exchange: Vec<f64>,
    /// Seconds, in the I/O phase, with several rounds in the whole exchange too.
    io: Vec<f64>,
    per_byte: Vec<f64>,
    /// The time of the I/O nodes if all have their share.
    floor_s: f64,
    phases_overlap: bool,
    route: Vec<u32>,
}

impl Loads {
    /// Links without load.
    pub fn new(case: &Case, phases_overlap: bool) -> Self {
        let per_byte: Vec<f64> = case.network.rates().iter().map(|rate| 1.0 / rate).collect();
        Self {
            exchange: vec![0.0; per_byte.len()],
            io: vec![0.0; per_byte.len()],
            per_byte,
            floor_s: case.io_floor_s(),
            phases_overlap,
            route: vec![],
        }
    }

    /// A domain is aggregated there (`sign` 1), or no longer (-1). By how much the cost changes.
    pub fn add(&mut self, case: &Case, domain: &Domain, seat: Seat, sign: f64) -> f64 {
        let mut change = 0.0;
        for sender in &domain.windows[seat.first_window].senders {
            let bytes = sender.bytes as f64 * f64::from(sender.ranks) * sign;
            change += self.add_route(case, (sender.node, seat.node), bytes, Self::add_exchange);
        }
        if self.phases_overlap {
            for holder in &domain.holders {
                let bytes = holder.bytes as f64 * sign;
                change += self.add_route(case, (holder.node, seat.node), bytes, Self::add_io);
            }
        }
        let to = case.io_nodes[case.io_of(seat.node)].node;
        change + self.add_route(case, (seat.node, to), domain.bytes as f64 * sign, Self::add_io)
    }

    fn add_route(
        &mut self,
        case: &Case,
        ends: (usize, usize),
        bytes: f64,
        add: fn(&mut Self, usize, f64) -> f64,
    ) -> f64 {
        let mut route = std::mem::take(&mut self.route);
        route.clear();
        case.network.route(ends.0, ends.1, &mut route);
        let change = route.iter().map(|link| add(self, *link as usize, bytes)).sum();
        self.route = route;
        change
    }

    fn add_exchange(&mut self, link: usize, bytes: f64) -> f64 {
        let before = self.exchange[link];
        let after = before + bytes * self.per_byte[link];
        self.exchange[link] = after;
        let cost = |load: f64| (load / self.floor_s).powi(4);
        cost(after) - cost(before)
    }

    fn add_io(&mut self, link: usize, bytes: f64) -> f64 {
        let before = self.io[link];
        let after = before + bytes * self.per_byte[link];
        self.io[link] = after;
        let cost = |load: f64| OVERLOAD * (load / self.floor_s - 1.0).max(0.0);
        cost(after) - cost(before)
    }
}
