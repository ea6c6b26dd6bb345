//! The plan of which rank writes which bytes, and in which round. Every rank makes the same plan, from the shares of all.
//!
//! The planner is `forebay-aggregate`; this is the way to it and back. The network that it plans for is that of `network`. File
//! domains are parts of the stripes that anybody touches; a round takes a window of each domain.

use std::collections::BTreeMap;

use forebay_aggregate::{Case, CaseDescription, RankDescription, RanksDescription, Strategy};

use crate::choice::{Work, aggregators_of_host};
use crate::error::Error;
use crate::hints::Hints;
use crate::network::Network;
use crate::share::Share;
use crate::view::Extent;

/// Extents of so many stripes on average gain nothing by being gathered: at most one request in as many is not whole.
const LARGE_STRIPES: u64 = 4;

/// Hosts up to which all strategies are tried before each exchange.
const HOSTS_OF_PORTFOLIO_MAX: usize = 64;

/// The inputs of a plan beside the shares.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The host of each rank, numbered in the order of their first ranks.
    pub host_of: Vec<usize>,
    /// Where the hosts are.
    pub network: Network,
    /// How many aggregators, where that was given.
    pub aggregators: Option<usize>,
    /// Ranks that may aggregate, in the order in which they are taken, where that was given.
    pub candidates: Option<Vec<usize>>,
    /// How to place them, where that was given.
    pub strategy: Option<Strategy>,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
    /// Bytes of an aggregator's buffer.
    pub buffer_bytes: u64,
    /// Processors of a host.
    pub processors: usize,
}

impl Terms {
    /// The terms for ranks on these hosts of so many processors, which are in that network.
    #[must_use]
    pub fn of(hints: &Hints, hosts: &[String], network: Network, processors: usize) -> Self {
        let (host_of, numbers) = numbered(hosts);
        let candidates = hints.config_list.as_ref().map(|list| list.candidates(hosts));
        let aggregators = hints.aggregators.map(|count| (count as usize).min(hosts.len()));
        let nodes = hints.nodes.map(|count| (count as usize).min(numbers.len()));
        Self {
            host_of,
            network,
            aggregators: aggregators.or(nodes),
            candidates,
            strategy: hints.strategy.as_deref().and_then(|name| name.parse().ok()),
            stripe_bytes: hints.stripe_bytes,
            buffer_bytes: hints.round_bytes,
            processors,
        }
    }

    /// How many hosts the ranks have.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.host_of.iter().max().map_or(1, |last| last + 1)
    }

    /// From so many bytes on, on average, extents gain nothing by being gathered.
    #[must_use]
    pub const fn large_bytes(&self) -> u64 {
        LARGE_STRIPES * self.stripe_bytes
    }

    /// Whether the extents of shares are so large on average.
    #[must_use]
    pub fn are_large(&self, shares: &[Share]) -> bool {
        let sum = |of: fn(&Share) -> u64| shares.iter().map(of).fold(0, u64::saturating_add);
        let bytes = sum(|share| share.bytes);
        bytes > 0 && bytes >= sum(|share| share.extent_count).saturating_mul(self.large_bytes())
    }

    /// Work, by the bytes of the rank that has most and of all, and the most pieces of a rank.
    #[must_use]
    pub fn work(&self, bytes_max: u64, bytes_total: u64, pieces_max: u64) -> Work {
        let (hosts, aggregators) = (self.hosts(), self.aggregators_max());
        Work { bytes_max, bytes_total, pieces_max, hosts, aggregators, stripe_bytes: self.stripe_bytes }
    }

    /// The work of shares.
    #[must_use]
    pub fn work_of_shares(&self, shares: &[Share]) -> Work {
        let most = |of: fn(&Share) -> u64| shares.iter().map(of).max().unwrap_or(0);
        let total = shares.iter().map(|share| share.bytes).fold(0, u64::saturating_add);
        self.work(most(|share| share.bytes), total, most(|share| share.extent_count))
    }

    /// How many aggregators there may be where nobody says otherwise.
    #[must_use]
    pub fn aggregators_max(&self) -> usize {
        let hosts = self.hosts();
        hosts * aggregators_of_host(self.processors, self.host_of.len() / hosts)
    }
}

/// The host of each rank, numbered in the order of their first ranks, and each host's name in that order.
#[must_use]
pub fn numbered(hosts: &[String]) -> (Vec<usize>, Vec<&str>) {
    let (mut numbers, mut names) = (BTreeMap::new(), vec![]);
    let number = |host| {
        *numbers.entry(host).or_insert_with(|| {
            names.push(host);
            names.len() - 1
        })
    };
    let host_of = hosts.iter().map(String::as_str).map(number).collect();
    (host_of, names)
}

/// The ranks that write or read, their bytes, and the rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The rank that has each file domain; one rank may have several.
    pub aggregators: Vec<usize>,
    /// How often every aggregator fills its buffer at most.
    pub rounds: usize,
    /// How it was planned.
    pub strategy: &'static str,
    /// The windows that each round takes of each domain, in the order of the file.
    windows: Vec<Window>,
}

/// How held bytes come into the file.
#[derive(Debug)]
pub enum Writing {
    /// No rank has any.
    Nothing,
    /// Every rank writes its own.
    Alone,
    /// By an exchange.
    Planned(Plan),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    span: Extent,
    domain: usize,
    round: usize,
}

/// A part of an extent that lies in one file domain and one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index of the file domain.
    pub domain: usize,
    /// The round.
    pub round: usize,
    /// Which bytes.
    pub extent: Extent,
}

impl Plan {
    /// The plan for these shares; `None` if nobody has bytes.
    ///
    /// # Errors
    /// [`Error::Plan`] if the planner refuses the case; the same on every rank.
    pub fn new(shares: &[Share], terms: &Terms) -> Result<Option<Self>, Error> {
        if shares.iter().all(|share| share.spans.is_empty()) {
            return Ok(None);
        }
        let refused = |error: &dyn std::fmt::Display| Error::Plan(error.to_string());
        let case = Case::new(describe(shares, terms)).map_err(|error| refused(&error))?;
        let hosts = terms.hosts();
        let strategy = terms.strategy.or(match hosts {
            // Bytes do not travel.
            1 => Some(Strategy::First),
            2..=HOSTS_OF_PORTFOLIO_MAX => None,
            _ => Some(Strategy::Balanced),
        });
        let planned = match strategy {
            Some(strategy) => forebay_aggregate::plan(&case, strategy),
            None => forebay_aggregate::plan_best(&case),
        };
        let planned = planned.map_err(|error| refused(&error))?;
        let mut windows = vec![];
        for (domain, aggregator) in planned.aggregators.iter().enumerate() {
            let spans = aggregator.windows.iter().enumerate().filter(|(_, span)| span.len > 0);
            windows.extend(spans.map(|(round, span)| Window {
                span: Extent { offset: span.offset, len: span.len },
                domain,
                round,
            }));
        }
        // An aggregator's first round need not be the first in the file.
        windows.sort_unstable_by_key(|window| window.span.offset);
        let seated = planned.aggregators.iter().map(|aggregator| aggregator.rank);
        let (aggregators, strategy) = match &terms.candidates {
            Some(candidates) => {
                (candidates.iter().copied().take(planned.aggregators.len()).collect(), "cb_config_list")
            }
            None => (seated.collect(), planned.strategy.name()),
        };
        Ok(Some(Self { aggregators, rounds: planned.rounds, strategy, windows }))
    }

    /// The domains of a rank.
    pub fn domains_of(&self, rank: usize) -> impl Iterator<Item = usize> {
        self.aggregators
            .iter()
            .enumerate()
            .filter(move |(_, aggregator)| **aggregator == rank)
            .map(|(domain, _)| domain)
    }

    /// The parts of an extent by domain and round; in order.
    ///
    /// # Errors
    /// [`Error::Message`] if no share said that it would have these bytes.
    pub fn cut(&self, extent: Extent, mut part: impl FnMut(Part)) -> Result<(), Error> {
        let mut offset = extent.offset;
        let mut index = self.windows.partition_point(|window| window.span.end() <= offset);
        while offset < extent.end() {
            let Window { span, domain, round } = *self.windows.get(index).ok_or(Error::Message)?;
            if offset < span.offset {
                return Err(Error::Message);
            }
            let end = extent.end().min(span.end());
            part(Part { domain, round, extent: Extent { offset, len: end - offset } });
            offset = end;
            index += 1;
        }
        Ok(())
    }
}

fn describe(shares: &[Share], terms: &Terms) -> CaseDescription {
    let network = &terms.network;
    let rank = |(share, host): (&Share, &usize)| {
        let extents = share.spans.iter().map(|span| forebay_aggregate::Extent { offset: span.offset, len: span.len });
        let bytes = share.spans.iter().map(|span| span.len).sum();
        RankDescription { node: network.node_of[*host], bytes, extents: Some(extents.collect()) }
    };
    let most = terms.candidates.as_ref().map(Vec::len);
    // As many as the buffers ask for, but no more than processors serve: beyond that a host's writers get in each other's way.
    let aggregators_max = terms.aggregators_max();
    let bytes: u64 = shares.iter().flat_map(|share| &share.spans).map(|span| span.len).sum();
    let default = most.or((bytes.div_ceil(terms.buffer_bytes) > aggregators_max as u64).then_some(aggregators_max));
    CaseDescription {
        topology: network.topology.clone(),
        link_bytes_per_s: network.link_bytes_per_s,
        link_latency_s: network.link_latency_s,
        nodes: network.nodes,
        io_nodes: network.io_nodes.clone(),
        ranks: RanksDescription::Each(shares.iter().zip(&terms.host_of).map(rank).collect()),
        aggregators: terms.aggregators.map_or(default, |given| Some(most.map_or(given, |most| given.min(most)))),
        rounds: None,
        // Each of its two buffers holds a round.
        aggregator_memory_bytes: terms.buffer_bytes,
        buffer_bytes: terms.buffer_bytes,
        buffers: 2,
        stripe_bytes: terms.stripe_bytes,
        nvme: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_aggregate::Strategy;
    use proptest::prelude::*;

    fn extents(pairs: &[(u64, u64)]) -> Vec<Extent> {
        pairs.iter().map(|&(offset, len)| Extent { offset, len }).collect()
    }

    fn terms(ranks: usize, aggregators: usize, stripe_bytes: u64, buffer_bytes: u64) -> Terms {
        let (host_of, network) = ((0..ranks).collect(), Network::one_switch(ranks));
        Terms {
            host_of,
            network,
            aggregators: Some(aggregators),
            candidates: None,
            strategy: None,
            stripe_bytes,
            buffer_bytes,
            processors: 1,
        }
    }

    fn parts(plan: &Plan, extent: Extent) -> Vec<(usize, usize, u64, u64)> {
        let mut parts = vec![];
        plan.cut(extent, |part| parts.push((part.domain, part.round, part.extent.offset, part.extent.len))).unwrap();
        parts
    }

    #[test]
    fn domains_are_equal_parts_on_stripe_boundaries() {
        let shares = [Share::of(&extents(&[(5, 50)]), 10), Share::of(&extents(&[(55, 60)]), 10)];
        let terms = Terms { strategy: Some(Strategy::First), ..terms(2, 3, 10, 20) };
        let plan = Plan::new(&shares, &terms).unwrap().unwrap();
        let all = parts(&plan, Extent { offset: 5, len: 110 });
        assert_eq!(
            all,
            [(0, 0, 5, 15), (0, 1, 20, 20), (1, 0, 40, 20), (1, 1, 60, 20), (2, 0, 80, 20), (2, 1, 100, 15)]
        );
    }

    #[test]
    fn rounds_need_not_follow_the_file() {
        // Rank 1 has the domain's end and most of it: an aggregator there begins with what need not travel.
        let shares = [Share::of(&extents(&[(0, 20)]), 10), Share::of(&extents(&[(20, 60)]), 10)];
        let terms = Terms { strategy: Some(Strategy::Joint), ..terms(2, 1, 10, 20) };
        let plan = Plan::new(&shares, &terms).unwrap().unwrap();
        let all = parts(&plan, Extent { offset: 0, len: 80 });
        assert_eq!(all.iter().map(|part| part.2).collect::<Vec<_>>(), [0, 20, 40, 60]);
        assert_ne!(all[0].1, 0, "{all:?}");
    }

    #[test]
    fn untouched_domains_cost_no_rounds() {
        let share = Share::of(&extents(&[(3, 4), (1 << 40, 4)]), 10);
        let plan = Plan::new(&[share], &terms(1, 2, 10, 10)).unwrap().unwrap();
        assert_eq!((plan.aggregators.len(), plan.rounds), (2, 1));
    }

    #[test]
    fn an_empty_write_is_no_plan() {
        assert_eq!(Plan::new(&[Share::default(), Share::default()], &terms(2, 2, 10, 10)).unwrap(), None);
    }

    /// 4 hosts of 4 ranks whose buffers are full: one aggregator a host, which takes a round for each of its ranks.
    #[test]
    fn there_is_one_aggregator_a_host_however_much_there_is() {
        let shares: Vec<Share> = (0..16).map(|rank| Share::of(&extents(&[(rank * 100, 100)]), 10)).collect();
        let host_of: Vec<usize> = (0..16).map(|rank| rank / 4).collect();
        let terms = Terms {
            host_of: host_of.clone(),
            network: Network::one_switch(4),
            aggregators: None,
            ..terms(16, 1, 10, 100)
        };
        let plan = Plan::new(&shares, &terms).unwrap().unwrap();
        let hosts: Vec<usize> = plan.aggregators.iter().map(|rank| host_of[*rank]).collect();
        assert_eq!((hosts, plan.rounds), (vec![0, 1, 2, 3], 4));
    }

    #[test]
    fn candidates_are_taken_in_their_order() {
        let shares = vec![Share::of(&extents(&[(0, 100)]), 10); 4];
        let terms = Terms { candidates: Some(vec![3, 1, 2]), aggregators: Some(2), ..terms(4, 2, 10, 100) };
        assert_eq!(Plan::new(&shares, &terms).unwrap().unwrap().aggregators, [3, 1]);
    }

    #[test]
    fn bytes_that_nobody_announced_are_refused() {
        let plan = Plan::new(&[Share::of(&extents(&[(0, 10)]), 10)], &terms(1, 1, 10, 10)).unwrap().unwrap();
        assert!(plan.cut(Extent { offset: 5, len: 10 }, |_| {}).is_err());
    }

    proptest! {
        /// Every byte is cut into one part, in order of domains; what a round takes of a domain lies together.
        #[test]
        fn every_byte_has_one_place(gaps in prop::collection::vec((0u64..500, 1u64..50), 1..120), ranks in 1usize..4) {
            let mut offset = 0;
            let mut of_rank = vec![vec![]; ranks];
            for (index, (gap, len)) in gaps.into_iter().enumerate() {
                let extent = Extent { offset: offset + gap, len };
                offset = extent.end();
                of_rank[index % ranks].push(extent);
            }
            let shares: Vec<Share> = of_rank.iter().map(|extents| Share::of(extents, 16)).collect();
            let plan = Plan::new(&shares, &terms(ranks, 3, 16, 64)).unwrap().unwrap();
            for extents in of_rank {
                let mut met = vec![(0, 0)];
                for extent in extents {
                    let mut next = extent.offset;
                    for (domain, round, offset, len) in parts(&plan, extent) {
                        prop_assert_eq!(offset, next);
                        prop_assert!(met[met.len() - 1].0 <= domain && round < plan.rounds);
                        if met[met.len() - 1] != (domain, round) {
                            prop_assert!(met[1..].iter().all(|before| *before != (domain, round)));
                            met.push((domain, round));
                        }
                        next = offset + len;
                    }
                    prop_assert_eq!(next, extent.end());
                }
            }
        }
    }
}
