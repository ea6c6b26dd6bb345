//! The options of an endpoint: its node, the peers that it may meet, and how long it waits for them.

use std::fmt;
use std::time::Duration;

use forebay_body::Pool;
use forebay_secret::JobKey;
use forebay_types::NodeRank;
use forebay_wire::Level;

use crate::life::Life;
use crate::limits;
use crate::subnet::Subnet;

/// How a node is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// By TCP. A name is resolved at every connect, so that a node that moved is found again.
    Tcp {
        /// Name or number of the host.
        host: String,
        /// Ports of which its daemon listens on one; who listens on the others may be anybody.
        ports: Vec<u16>,
    },
    /// Within the process, over the `memory::Network` the endpoint was started on.
    Memory,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, ports } => {
                let ports = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
                if host.contains(':') { write!(f, "[{host}]:{ports}") } else { write!(f, "{host}:{ports}") }
            }
            Self::Memory => write!(f, "memory"),
        }
    }
}

/// How connections are protected, with what that takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Security {
    /// Not at all: for tests, and where the network itself admits the job's nodes only.
    Off,
    /// Peers prove that they hold the key; heads and messages are authenticated.
    Auth(JobKey),
    /// The same, and everything is encrypted.
    Seal(JobKey),
}

impl Security {
    /// A level with what it takes; `None` where it lacks a key.
    #[must_use]
    pub fn new(level: Level, key: Option<JobKey>) -> Option<Self> {
        match level {
            Level::Off => Some(Self::Off),
            Level::Auth => key.map(Self::Auth),
            Level::Seal => key.map(Self::Seal),
        }
    }

    /// Its level.
    #[must_use]
    pub fn level(&self) -> Level {
        match self {
            Self::Off => Level::Off,
            Self::Auth(_) => Level::Auth,
            Self::Seal(_) => Level::Seal,
        }
    }

    pub(crate) fn key(&self) -> Option<&JobKey> {
        match self {
            Self::Off => None,
            Self::Auth(key) | Self::Seal(key) => Some(key),
        }
    }
}

/// The address book: how to reach each node rank.
#[derive(Clone, Debug)]
pub struct Peers(Vec<Address>);

impl Peers {
    /// The book of a job whose node `i` is reached at `addresses[i]`.
    #[must_use]
    pub fn new(addresses: Vec<Address>) -> Self {
        Self(addresses)
    }

    /// Number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the book is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How to reach `rank`; `None` for a rank the job does not have.
    #[must_use]
    pub fn address(&self, rank: NodeRank) -> Option<&Address> {
        self.0.get(rank.0 as usize)
    }

    /// The ports to look for `rank` at; what stands for one where there are none.
    pub(crate) fn ports(&self, rank: NodeRank) -> Vec<u16> {
        match self.address(rank) {
            Some(Address::Tcp { ports, .. }) => ports.clone(),
            Some(Address::Memory) | None => vec![0],
        }
    }
}

/// The options of an endpoint.
#[derive(Clone)]
pub struct EndpointOptions {
    /// Name of the job; peers of another are refused.
    pub job: String,
    /// The rank of this node.
    pub rank: NodeRank,
    /// How each node is reached, by rank.
    pub addresses: Vec<Address>,
    /// Where hosts with several addresses are looked for; at all of them where none is given.
    pub subnets: Vec<Subnet>,
    /// How connections are protected; peers of another level or key are refused.
    pub security: Security,
    /// Where buffers for received bodies come from.
    pub pool: Pool,
    /// Bytes of the bodies that one peer may have under way; requests for more wait.
    pub bodies_bytes: usize,
    /// How long to try to connect to a peer and shake hands with it; a call's own deadline ends its wait earlier.
    pub connect_deadline: Duration,
    /// How long a peer that connected may take to shake hands.
    pub handshake_deadline: Duration,
    /// The life that the endpoint's tasks are part of, where nodes are simulated; none otherwise.
    pub life: Option<Life>,
}

impl EndpointOptions {
    /// Options with the usual deadlines.
    #[must_use]
    pub fn new(
        job: impl Into<String>,
        rank: NodeRank,
        addresses: Vec<Address>,
        pool: Pool,
        security: Security,
    ) -> Self {
        Self {
            job: job.into(),
            rank,
            addresses,
            subnets: vec![],
            security,
            pool,
            bodies_bytes: limits::PEER_BODIES_BYTES_MAX,
            connect_deadline: limits::HANDSHAKE_DEADLINE,
            handshake_deadline: limits::HANDSHAKE_DEADLINE,
            life: None,
        }
    }
}
