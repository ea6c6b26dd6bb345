//! Which I/O node each domain goes to: every I/O node its share, and each domain where it comes soonest.
//!
//! First the shares. The I/O node that would take longest gives a domain to another one, if need be by way of others,
//! each of which gives one of its own on: the shortest such chain at the end of which an I/O node takes less than the first
//! did. Then the ways: as long as some I/O nodes can pass domains on in a circle so that they come sooner altogether, and
//! none takes longer for it, they do. Domains differ in size by a stripe at most where data are even, so neither looks for
//! sizes that fit.

use std::collections::VecDeque;

use crate::case::Case;
use crate::division::Division;

use super::candidates::Candidates;

/// The inputs of a plan of domains over I/O nodes.
#[derive(Clone, Copy)]
pub struct Market<'c> {
    /// The case.
    pub case: &'c Case,
    /// Its domains.
    pub division: &'c Division,
    /// The seats that may have them.
    pub candidates: &'c Candidates,
}

/// The domain that is given away and the candidate that takes it.
type Step = Option<(usize, usize)>;

/// I/O nodes among which circles are looked for: their pairs are, in each of many rounds.
const SHORTENED_MAX: usize = 256;

/// Sums of costs that differ by less, relatively to one domain's, are equal.
const WORTHWHILE: f64 = 1e-6;

impl Market<'_> {
    /// Changes choices until no chain makes the longest I/O node's time shorter.
    pub fn even_out(&self, chosen: &mut [usize]) {
        // Each chain takes one domain from the fullest; more of them than this means that sizes make it go round in circles.
        for _ in 0..chosen.len() * 2 {
            let seconds = self.seconds(chosen);
            let most = seconds.iter().copied().fold(0.0, f64::max);
            let mut fullest = (0..seconds.len()).filter(|io| seconds[*io] >= most);
            if !fullest.any(|io| self.relieve(chosen, io, &seconds)) {
                return;
            }
        }
    }

    /// Changes choices, each I/O node having as many domains as before, until no circle makes them come sooner.
    pub fn shorten(&self, chosen: &mut [usize]) {
        if self.case.io_nodes.len() > SHORTENED_MAX {
            return;
        }
        for _ in 0..chosen.len() {
            let before = self.seconds(chosen).into_iter().fold(0.0, f64::max);
            let Some(circle) = self.circle(chosen) else { return };
            let old: Vec<usize> = circle.iter().map(|(domain, _)| chosen[*domain]).collect();
            circle.iter().for_each(|(domain, choice)| chosen[*domain] = *choice);
            if self.seconds(chosen).into_iter().fold(0.0, f64::max) > before * (1.0 + WORTHWHILE) {
                circle.iter().zip(old).for_each(|((domain, _), old)| chosen[*domain] = old);
                return;
            }
        }
    }

    fn io(&self, domain: usize, choice: usize) -> usize {
        self.candidates.of_domain(domain)[choice].io
    }

    /// The time of each I/O node for its domains.
    fn seconds(&self, chosen: &[usize]) -> Vec<f64> {
        let mut seconds = vec![0.0; self.case.io_nodes.len()];
        for (domain, choice) in chosen.iter().enumerate() {
            let io = self.io(domain, *choice);
            seconds[io] += self.division.domains[domain].bytes as f64 / self.case.io_nodes[io].bytes_per_s;
        }
        seconds
    }

    /// Finds a chain that relieves an I/O node and follows it. Whether there was one.
    fn relieve(&self, chosen: &mut [usize], from: usize, seconds: &[f64]) -> bool {
        let mut by_io: Vec<Vec<usize>> = vec![vec![]; seconds.len()];
        chosen.iter().enumerate().for_each(|(domain, choice)| by_io[self.io(domain, *choice)].push(domain));
        let mut steps: Vec<Step> = vec![None; seconds.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(io) = queue.pop_front() {
            for &domain in &by_io[io] {
                for (choice, candidate) in self.candidates.best_of_io_nodes(domain) {
                    if candidate.io == from || steps[candidate.io].is_some() {
                        continue;
                    }
                    steps[candidate.io] = Some((domain, choice));
                    let bytes = self.division.domains[domain].bytes as f64;
                    let more = bytes / self.case.io_nodes[candidate.io].bytes_per_s;
                    if seconds[candidate.io] + more < seconds[from] * (1.0 - WORTHWHILE) {
                        self.follow(chosen, &steps, (from, candidate.io));
                        return true;
                    }
                    queue.push_back(candidate.io);
                }
            }
        }
        false
    }

    /// Takes the steps from the end of a chain back to its beginning.
    fn follow(&self, chosen: &mut [usize], steps: &[Step], (from, to): (usize, usize)) {
        let mut io = to;
        while let Some((domain, choice)) = steps[io].filter(|_| io != from) {
            io = self.io(domain, chosen[domain]);
            chosen[domain] = choice;
        }
    }

    /// The cost of a domain at its candidate: late ones count for more than early ones save.
    fn cost(&self, domain: usize, choice: usize) -> f64 {
        self.candidates.of_domain(domain)[choice].comes_s.powi(2)
    }

    /// Domains with new choices that make up a circle of less cost: a negative one among the I/O nodes (Bellman and Ford).
    fn circle(&self, chosen: &[usize]) -> Option<Vec<(usize, usize)>> {
        let count = self.case.io_nodes.len();
        let edges = self.edges(chosen);
        let threshold =
            (0..chosen.len()).map(|domain| self.cost(domain, chosen[domain])).fold(0.0, f64::max) * WORTHWHILE;
        let mut distance = vec![0.0; count];
        let mut into: Vec<Option<Edge>> = vec![None; count];
        let mut last = None;
        for _ in 0..count {
            last = None;
            for edge in &edges {
                let through = distance[edge.from] + edge.cost;
                if through < distance[edge.to] - threshold {
                    distance[edge.to] = through;
                    into[edge.to] = Some(*edge);
                    last = Some(edge.to);
                }
            }
            last?;
        }
        // After as many rounds as there are I/O nodes what still changes hangs on a circle: so many steps back are in it.
        let mut io = last?;
        for _ in 0..count {
            io = into[io]?.from;
        }
        let (start, mut circle) = (io, vec![]);
        loop {
            let edge = into[io]?;
            circle.push((edge.domain, edge.choice));
            io = edge.from;
            if io == start {
                return Some(circle);
            }
        }
    }

    /// For each two I/O nodes the domain that one gives to the other at least cost.
    fn edges(&self, chosen: &[usize]) -> Vec<Edge> {
        let count = self.case.io_nodes.len();
        let mut cheapest: Vec<Option<Edge>> = vec![None; count * count];
        for (domain, now) in chosen.iter().enumerate() {
            let (from, cost_now) = (self.io(domain, *now), self.cost(domain, *now));
            for (choice, candidate) in self.candidates.best_of_io_nodes(domain).filter(|(_, other)| other.io != from) {
                let edge = Edge { from, to: candidate.io, domain, choice, cost: self.cost(domain, choice) - cost_now };
                let place = &mut cheapest[from * count + candidate.io];
                if place.is_none_or(|cheapest| edge.cost < cheapest.cost) {
                    *place = Some(edge);
                }
            }
        }
        cheapest.into_iter().flatten().collect()
    }
}

/// A domain that could go from one I/O node to another.
#[derive(Clone, Copy)]
struct Edge {
    from: usize,
    to: usize,
    domain: usize,
    choice: usize,
    cost: f64,
}
