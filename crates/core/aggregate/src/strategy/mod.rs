//! Strategies: how many aggregators and rounds, and where.
//!
//! A strategy chooses a shape, by which the file is divided, and then a seat for every domain. Numbers that the case pins
//! hold for all of them; memory gives way to pinned numbers. None is best everywhere, which is why `portfolio` tries all.

mod poster;
mod shapes;
mod single;

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::division::{Division, Shape};
use crate::error::UnknownStrategy;
use crate::flow::Seat;

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
}

impl Strategy {
    /// All of them, in that order.
    pub const ALL: [Self; 7] =
        [Self::First, Self::Romio, Self::Nearest, Self::Largest, Self::Smallest, Self::Poster, Self::Balanced];

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
        };
        place(case, division)
    }
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
