//! The network that a description means, checked: sizes within limits, tables that are square, hosts that are somewhere.

use forebay_types::limits::NODES_MAX;

use crate::checked::{counted, latency, positive};
use crate::description::{CaseDescription, HostNames, SlurmSwitches, TopologyDescription};
use crate::error::CaseError;
use crate::limits;
use crate::topology::{Links, Network, Tree, switched};

/// The network of a case.
///
/// # Errors
/// `CaseError` with what is wrong with the topology or its links.
pub fn network(description: &CaseDescription) -> Result<Network, CaseError> {
    let topology = &description.topology;
    if let TopologyDescription::Matrix { latency_s, bytes_per_s } = topology {
        check_matrix(latency_s, bytes_per_s)?;
        return Ok(Network::matrix(latency_s, bytes_per_s));
    }
    let links = Links {
        bytes_per_s: positive("link_bytes_per_s", description.link_bytes_per_s)?,
        latency_s: latency("link_latency_s", description.link_latency_s)?,
    };
    match topology {
        TopologyDescription::Torus(dimensions) => {
            counted("torus: dimensions", dimensions.len(), limits::TORUS_DIMENSIONS_MAX)?;
            product("torus", dimensions)?;
            Ok(Network::torus(dimensions, links))
        }
        TopologyDescription::Dragonfly { groups, routers, nodes } => {
            product("dragonfly", &[*groups, *routers, *nodes])?;
            product("dragonfly: links within groups", &[*groups, *routers, *routers])?;
            product("dragonfly: links between groups", &[*groups, *groups])?;
            Ok(Network::dragonfly(*groups, *routers, *nodes, links))
        }
        TopologyDescription::FatTree { levels } => {
            counted("fat_tree: levels", levels.len(), limits::FAT_TREE_LEVELS_MAX)?;
            let mut shape: Vec<(usize, usize)> = levels.iter().map(|level| (level.down, level.up)).collect();
            if let Some(top) = shape.last_mut() {
                top.1 = 1;
            }
            product("fat_tree", &shape.iter().map(|(down, _)| *down).collect::<Vec<_>>())?;
            for level in 1..shape.len() {
                // Links upwards from a level: a node's share of them is the product of `up` over that of `down` so far.
                let ups = shape[..level].iter().map(|(_, up)| *up);
                let downs = shape[level..].iter().map(|(down, _)| *down);
                product("fat_tree: links of a level", &ups.chain(downs).collect::<Vec<_>>())?;
            }
            Ok(Network::fat_tree(&shape, links))
        }
        TopologyDescription::Slurm(slurm) => Ok(Network::tree(slurm.tree()?, links)),
        TopologyDescription::HostNames(names) => Ok(Network::tree(names.tree()?, links)),
        TopologyDescription::Matrix { .. } => unreachable!("returned above"),
    }
}

/// The product of sizes, each at least one and all together at most as many links as are allowed.
fn product(what: &'static str, sizes: &[usize]) -> Result<usize, CaseError> {
    if sizes.contains(&0) {
        return Err(CaseError::Count { what, count: 0, max: NODES_MAX });
    }
    let product = sizes.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
    product.filter(|product| *product <= NODES_MAX).ok_or(CaseError::TooLarge { what, max: NODES_MAX })
}

fn check_matrix(latency_s: &[Vec<f64>], bytes_per_s: &[Vec<f64>]) -> Result<(), CaseError> {
    let nodes = counted("matrix: nodes", latency_s.len(), limits::MATRIX_NODES_MAX)?;
    for (what, table) in [("matrix: latency_s", latency_s), ("matrix: bytes_per_s", bytes_per_s)] {
        let found = table.iter().map(Vec::len).chain([table.len()]).find(|len| *len != nodes);
        if let Some(found) = found {
            return Err(CaseError::NotSquare { what, nodes, found });
        }
    }
    for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))).filter(|(from, to)| from != to) {
        latency("matrix: latency_s", latency_s[from][to])?;
        positive("matrix: bytes_per_s", bytes_per_s[from][to])?;
    }
    Ok(())
}

impl TopologyDescription {
    /// The switches that Slurm tells of, with the hosts of the job in the order of its nodes. `text` is that of
    /// `topology.conf` (topology/tree or topology/block) or what `scontrol show topology` prints. Switches are taken not to be
    /// oversubscribed.
    ///
    /// # Errors
    /// `CaseError` with the line that cannot be read, or the host that is on no switch.
    pub fn from_slurm(text: &str, hosts: &[String]) -> Result<Self, CaseError> {
        let (text, hosts) = (text.to_owned(), Some(hosts.join(",")));
        let slurm = SlurmSwitches { text, file: None, hosts, oversubscription: 1.0 };
        slurm.tree().map(|_| Self::Slurm(slurm))
    }

    /// The switches that the names of hosts tell of, which are those of the job in the order of its nodes. In the pattern `#`
    /// stands for a number and `/` ends the name of a switch: `r#/n#` has one for each rack, `x#/c#/s#b#n#` one for each
    /// chassis and cabinet of an HPE Cray EX.
    ///
    /// # Errors
    /// `CaseError` with the host that does not match.
    pub fn from_host_names(pattern: &str, hosts: &[String]) -> Result<Self, CaseError> {
        let names = HostNames { pattern: pattern.to_owned(), hosts: hosts.join(","), oversubscription: 1.0 };
        names.tree().map(|_| Self::HostNames(names))
    }
}

impl TopologyDescription {
    /// The same switches with these hosts as those of the job, in the order of its nodes. `None` for a topology that knows no
    /// hosts.
    ///
    /// # Errors
    /// `CaseError` with what cannot be read, or the host that is on no switch.
    pub fn on_hosts(&self, hosts: &[String]) -> Result<Option<Self>, CaseError> {
        let mut on = match self {
            Self::Slurm(slurm) => Self::from_slurm(&slurm.text, hosts)?,
            Self::HostNames(names) => Self::from_host_names(&names.pattern, hosts)?,
            _ => return Ok(None),
        };
        match (&mut on, self) {
            (Self::Slurm(on), Self::Slurm(slurm)) => on.oversubscription = slurm.oversubscription,
            (Self::HostNames(on), Self::HostNames(names)) => on.oversubscription = names.oversubscription,
            _ => {}
        }
        Ok(Some(on))
    }

    /// The hosts that it names, in the order of its nodes. `None` for a topology that knows no hosts.
    ///
    /// # Errors
    /// `CaseError` with what cannot be read.
    pub fn hosts(&self) -> Result<Option<Vec<String>>, CaseError> {
        match self {
            Self::Slurm(SlurmSwitches { hosts: Some(hosts), .. }) | Self::HostNames(HostNames { hosts, .. }) => {
                switched::distinct(hosts).map(Some)
            }
            Self::Slurm(slurm) => {
                switched::listed(&slurm.text, slurm.file.as_deref().unwrap_or("topology: slurm")).map(Some)
            }
            _ => Ok(None),
        }
    }
}

impl SlurmSwitches {
    fn tree(&self) -> Result<Tree, CaseError> {
        let file = self.file.as_deref().unwrap_or("topology: slurm");
        let oversubscription = positive("topology: oversubscription", self.oversubscription)?;
        switched::from_slurm(&self.text, file, self.hosts.as_deref(), oversubscription)
    }
}

impl HostNames {
    fn tree(&self) -> Result<Tree, CaseError> {
        let oversubscription = positive("topology: oversubscription", self.oversubscription)?;
        switched::from_host_names(&self.pattern, &self.hosts, oversubscription)
    }
}
