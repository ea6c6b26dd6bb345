//! Settings that contradict each other, or the list of nodes. `up` finds them before it starts anything, and a node that another launcher
//! starts finds them itself: wrong usage, which no other node and no second try can mend.

use std::collections::BTreeMap;

use forebay_launch::NodeAddress;

use crate::burst_mount;
use crate::cache_store;
use crate::network;
use crate::settings::values::Role;
use crate::settings::{Settings, UsageError};

/// Looks for them.
///
/// # Errors
/// The first that was found.
pub fn check(settings: &Settings, nodes: &[NodeAddress]) -> Result<(), UsageError> {
    burst_mount::check(settings, nodes.len()).map_err(|error| UsageError(format!("{error:#}")))?;
    cache_store::check(settings).map_err(|error| UsageError(format!("{error:#}")))?;
    if let Some(wanted) = &settings.interface {
        network::check(wanted).map_err(|error| UsageError(format!("{error:#}")))?;
    }
    let wrong = match (settings.role, &settings.data) {
        (Role::Node, Some(_)) => Some("--data is for devices; give --role device too".to_owned()),
        (Role::Device, None) => Some("--role device needs --data DIR: the directory that the device holds".to_owned()),
        _ => shared_port(settings, nodes),
    };
    wrong.map_or(Ok(()), |wrong| Err(UsageError(wrong)))
}

/// Nodes of one host that would all serve metrics at one port.
fn shared_port(settings: &Settings, nodes: &[NodeAddress]) -> Option<String> {
    settings.metrics_listen.filter(|address| address.port() != 0)?;
    let mut by_host = BTreeMap::<&str, usize>::new();
    nodes.iter().for_each(|node| *by_host.entry(&node.host).or_default() += 1);
    let together = by_host.into_values().max().filter(|nodes| *nodes > 1)?;
    Some(format!(
        "--metrics-listen: {together} nodes on one host cannot share a port; give port 0, and forebay status --json has the ports"
    ))
}
