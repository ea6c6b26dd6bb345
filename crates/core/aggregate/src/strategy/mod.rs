//! Strategies: how many aggregators and rounds, and where.
//!
//! A strategy chooses a shape, by which the file is divided, and then a seat for every domain. Numbers that the case pins
//! hold for all of them; memory gives way to pinned numbers. None is best everywhere, which is why `portfolio` tries all.

mod joint;
mod poster;
mod shapes;
mod single;

use std::rc::Rc;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::division::Division;
use crate::divisions::Divisions;
use crate::error::{PlanError, UnknownStrategy};
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

    /// A division of the file, and a seat for each of its domains.
    ///
    /// # Errors
    /// `PlanError` if the ranks' data fall into too many parts.
    pub fn choose(self, divisions: &mut Divisions<'_>) -> Result<(Rc<Division>, Vec<Seat>), PlanError> {
        let case = divisions.case;
        let place = match self {
            Self::First => single::first,
            Self::Romio => single::romio,
            Self::Nearest => single::nearest,
            Self::Largest => single::largest,
            Self::Smallest => single::smallest,
            Self::Poster => poster::place,
            Self::Balanced => single::balanced,
            Self::Joint => return joint::choose(divisions),
        };
        let shape = if self == Self::Romio { shapes::romio(case) } else { shapes::poster(case) };
        let division = divisions.of(shape)?;
        let seats = place(case, &division);
        Ok((division, seats))
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
