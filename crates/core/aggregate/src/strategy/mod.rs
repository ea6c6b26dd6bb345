//! Strategies: how many aggregators and rounds, and where.
//!
//! A strategy chooses a shape, by which the file is divided, and then a seat for every domain. Numbers that the case pins
//! hold for all of them; memory gives way to pinned numbers. None is best everywhere, which is why `portfolio` tries all.

mod joint;
mod poster;
mod shapes;
mod single;

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::division::{Division, Shape};
use crate::error::UnknownStrategy;
use crate::flow::simulate;
use crate::seat::Seat;

/// The strategies, simple ones first: of equal ones the simplest is the best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// The first rank of each domain.
    First,
    /// ROMIO's default: the first rank of each node, domains even by offset.
    Romio,
    /// The rank nearest to its I/O node.
    Nearest,
    /// The rank with most bytes.
    Largest,
    /// The rank with fewest bytes.
    Smallest,
    /// C1 + C2, each aggregator by itself.
    Poster,
    /// The I/O node with least to do, domain by domain.
    Balanced,
    /// All aggregators together, refined from the others' placements.
    Joint,
}

impl Strategy {
    /// All of them, in that order.
    pub const ALL: [Self; 8] = [
        Self::First,
        Self::Romio,
        Self::Nearest,
        Self::Largest,
        Self::Smallest,
        Self::Poster,
        Self::Balanced,
        Self::Joint,
    ];

    /// Its name on the command line and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Romio => "romio",
            Self::Nearest => "nearest",
            Self::Largest => "largest",
            Self::Smallest => "smallest",
            Self::Poster => "poster",
            Self::Balanced => "balanced",
            Self::Joint => "joint",
        }
    }

    /// The shape that it divides the file by.
    #[must_use]
    pub fn shape(self, case: &Case) -> Shape {
        match self {
            Self::Romio => shapes::romio(case),
            _ => shapes::poster(case),
        }
    }

    /// A seat for every domain.
    #[must_use]
    pub fn place(self, case: &Case, division: &Division) -> Vec<Seat> {
        let place = match self {
            Self::First => single::first,
            Self::Romio => single::romio,
            Self::Nearest => single::nearest,
            Self::Largest => single::largest,
            Self::Smallest => single::smallest,
            Self::Poster => poster::place,
            Self::Balanced => single::balanced,
            Self::Joint => place_jointly,
        };
        place(case, division)
    }
}

/// Of the simple placements, and of what becomes of each when it is refined, the one that takes least time.
fn place_jointly(case: &Case, division: &Division) -> Vec<Seat> {
    let simple = [Strategy::First, Strategy::Nearest, Strategy::Poster, Strategy::Balanced];
    let mut placements = simple.map(|strategy| strategy.place(case, division)).to_vec();
    let refined = joint::refine(case, division, &placements[2..]);
    placements.extend(refined);
    let mut best: Option<(f64, Vec<Seat>)> = None;
    for seats in placements {
        let total_s = simulate(case, division, &seats).total_s;
        if best.as_ref().is_none_or(|(least, _)| total_s < *least) {
            best = Some((total_s, seats));
        }
    }
    best.map(|(_, seats)| seats).unwrap_or_default()
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|strategy| strategy.name() == name)
            .ok_or_else(|| UnknownStrategy { name: name.to_owned(), known: Self::ALL.map(Self::name).join(", ") })
    }
}
