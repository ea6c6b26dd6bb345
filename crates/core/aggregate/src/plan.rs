//! A plan: who aggregates which bytes in which round, and how long that should take.
//!
//! A plan holds all that an exchange needs: with it, a rank knows by itself what to send to whom in which round, and an
//! aggregator what will come. Reads go the same ways backwards.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::description::Serves;
use crate::division::Division;
use crate::extents::{Extent, bytes, within};
use crate::flow::simulate;
use crate::formula::Cost;
use crate::seat::Seat;
use crate::strategy::Strategy;

/// A plan.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Whose it is.
    pub strategy: Strategy,
    /// Rounds of every aggregator.
    pub rounds: usize,
    /// In the order of their domains in the file. None if there is nothing to write.
    pub aggregators: Vec<Aggregator>,
    /// The models' results for it.
    pub predicted: Predicted,
}

/// An aggregator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Aggregator {
    /// Its rank.
    pub rank: usize,
    /// The node of that rank.
    pub node: usize,
    /// The I/O node that it writes to, by its number in the case.
    pub io_node: usize,
    /// The bytes of its domain that somebody has.
    pub domain: Vec<Extent>,
    /// The span of its domain that each round takes, which may have holes or be empty. Not always in the order of the file:
    /// the first round takes what comes soonest.
    pub windows: Vec<Extent>,
}

/// The models' results for a plan.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Predicted {
    /// The most of C1 of any aggregator, seconds: without contention.
    pub c1_s: f64,
    /// The most of C2, likewise.
    pub c2_s: f64,
    /// By the flow model, seconds from the start to the last byte at the I/O nodes.
    pub total_s: f64,
    /// By the flow model, seconds from the start until local storage has the last byte; without any as `total_s`.
    pub staged_s: f64,
    /// The least time of the I/O node with most to do for the bytes that this plan sends to it, seconds. I/O nodes that serve any
    /// node count as one.
    pub io_floor_s: f64,
    /// Bytes over the busiest link of the network.
    pub busiest_link_bytes: u64,
}

impl Aggregator {
    /// The part of a rank's bytes that goes to this aggregator in a round. `extents` are sorted and do not overlap.
    #[must_use]
    pub fn part(&self, round: usize, extents: &[Extent]) -> Vec<Extent> {
        self.windows.get(round).map(|window| within(extents, *window)).unwrap_or_default()
    }
}

impl Plan {
    /// The bytes that it sends over each link of the network, all rounds together.
    ///
    /// # Panics
    /// If it is a plan of another case.
    #[must_use]
    pub fn link_bytes(&self, case: &Case) -> Vec<u64> {
        let network = &case.network;
        let mut loads = vec![0; network.link_count()];
        let mut route = vec![];
        let mut send = |from: usize, to: usize, bytes: u64| {
            route.clear();
            network.route(from, to, &mut route);
            route.iter().for_each(|link| loads[*link as usize] += bytes);
        };
        for ((node, aggregator), bytes) in self.node_bytes(case) {
            send(node, self.aggregators[aggregator].node, bytes);
        }
        for aggregator in &self.aggregators {
            send(aggregator.node, case.io_nodes[aggregator.io_node].node, bytes(&aggregator.domain));
        }
        loads
    }

    /// The bytes that each node has for each aggregator.
    fn node_bytes(&self, case: &Case) -> BTreeMap<(usize, usize), u64> {
        let span = |(index, aggregator): (usize, &Aggregator)| {
            let (first, last) = (aggregator.domain.first()?, aggregator.domain.last()?);
            Some((Extent::between(first.offset, last.end()), index))
        };
        let spans: Vec<(Extent, usize)> = self.aggregators.iter().enumerate().filter_map(span).collect();
        let mut all = BTreeMap::new();
        for rank in 0..case.rank_count() {
            for extent in case.extents_of(rank) {
                let first = spans.partition_point(|(span, _)| span.end() <= extent.offset);
                for (span, index) in spans[first..].iter().take_while(|(span, _)| span.offset < extent.end()) {
                    *all.entry((case.node_of(rank), *index)).or_default() += extent.and(*span).len;
                }
            }
        }
        all
    }

    /// The plan of seats for the domains of a division.
    #[must_use]
    pub fn new(case: &Case, strategy: Strategy, division: &Division, seats: &[Seat]) -> Self {
        let aggregators = division.domains.iter().zip(seats).map(|(domain, seat)| Aggregator {
            rank: seat.rank,
            node: seat.node,
            io_node: case.io_of(seat.node),
            domain: domain.extents.clone(),
            windows: (0..division.rounds)
                .map(|round| domain.windows[seat.window(round, division.rounds)].span)
                .collect(),
        });
        let aggregators = aggregators.collect();
        Self { strategy, rounds: division.rounds, aggregators, predicted: predicted(case, division, seats) }
    }
}

fn predicted(case: &Case, division: &Division, seats: &[Seat]) -> Predicted {
    let costs = division.domains.iter().zip(seats).map(|(domain, seat)| Cost::of(case, domain, seat.node));
    let Cost { c1_s, c2_s } = costs.fold(Cost::default(), Cost::max);
    let flowed = simulate(case, division, seats);
    Predicted {
        c1_s,
        c2_s,
        total_s: flowed.total_s,
        staged_s: flowed.staged_s,
        io_floor_s: io_floor_s(case, division, seats),
        busiest_link_bytes: flowed.busiest_link_bytes,
    }
}

fn io_floor_s(case: &Case, division: &Division, seats: &[Seat]) -> f64 {
    let mut loads = vec![0.0; case.io_nodes.len()];
    for (domain, seat) in division.domains.iter().zip(seats) {
        loads[case.io_of(seat.node)] += domain.bytes as f64;
    }
    let (mut floor, mut any_bytes, mut any_rate): (f64, f64, f64) = (0.0, 0.0, 0.0);
    for (io, bytes) in case.io_nodes.iter().zip(loads) {
        match io.serves {
            Serves::Range(..) => floor = floor.max(bytes / io.bytes_per_s),
            Serves::Any(_) => {
                any_bytes += bytes;
                any_rate += io.bytes_per_s;
            }
        }
    }
    if any_rate > 0.0 { floor.max(any_bytes / any_rate) } else { floor }
}
