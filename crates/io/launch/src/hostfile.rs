//! Host files: one `host` or `host:port` a line, `#` begins a comment.
//!
//! The first line is rank 0. A host named twice with one port would be two daemons of one rank list on one socket, so
//! it is refused with both lines named; different ports on one host are allowed, for tests.

use std::collections::HashMap;

use forebay_types::{HostListError, check_host_name, expand_host_list, limits};

use crate::{LaunchError, NodeAddress};

/// The nodes of a host file's `text`; `file` is its name for messages, `port` is for lines that name none.
///
/// # Errors
/// `HostFile` with file and line; `NoHosts` when there are none.
pub fn parse_hostfile(text: &str, file: &str, port: u16) -> Result<Vec<NodeAddress>, LaunchError> {
    let mut nodes = Vec::new();
    let mut seen: HashMap<(String, u16), usize> = HashMap::new();
    for (line, text) in text.lines().enumerate().map(|(index, text)| (index + 1, text)) {
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let fail = |problem: String| LaunchError::HostFile { file: file.to_owned(), line, problem };
        let node = parse_entry(text, port).map_err(fail)?;
        if let Some(first) = seen.insert((node.host.to_ascii_lowercase(), node.port), line) {
            return Err(fail(format!("{text} is on line {first} already; each node needs a host or port of its own")));
        }
        nodes.push(node);
        if nodes.len() > limits::NODES_MAX {
            return Err(fail(format!("more than {} hosts", limits::NODES_MAX)));
        }
    }
    if nodes.is_empty() {
        return Err(LaunchError::NoHosts(format!("the host file {file}")));
    }
    Ok(nodes)
}

/// `host`, `host:port`, `[v6]:port` or a bare IPv6 address.
fn parse_entry(text: &str, default: u16) -> Result<NodeAddress, String> {
    if text.contains(char::is_whitespace) {
        return Err(format!("'{text}' is more than a host; one host or host:port a line"));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or_else(|| format!("'{text}' lacks a ']'"))?;
            (host, after.strip_prefix(':'))
        }
        None if text.matches(':').count() == 1 => {
            let (host, port) = text.split_once(':').unwrap_or((text, ""));
            (host, Some(port))
        }
        None => (text, None),
    };
    check_host(host).map_err(|error| error.to_string())?;
    let port = port.map_or(Ok(default), |port| {
        port.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("'{port}' is not a port (1 to 65535)"))
    })?;
    Ok(NodeAddress { host: host.to_owned(), port })
}

/// Whether `host` can be a name or an address.
///
/// # Errors
/// `Host` with what is wrong.
pub(crate) fn check_host(host: &str) -> Result<(), LaunchError> {
    check_host_name(host).map_err(|problem| LaunchError::Host { host: host.to_owned(), problem })
}

/// The hosts of a list in Slurm's notation, in its order.
///
/// # Errors
/// `HostList` with what is wrong and where; `NoHosts` for an empty list.
pub fn expand_hostlist(list: &str) -> Result<Vec<String>, LaunchError> {
    expand_host_list(list).map_err(|error| match error {
        HostListError::Notation { list, problem } => LaunchError::HostList { list, problem },
        HostListError::Host { host, problem } => LaunchError::Host { host, problem },
        HostListError::Empty { list } => LaunchError::NoHosts(format!("the host list '{list}'")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(text: &str) -> String {
        parse_hostfile(text, "hosts", 7000).unwrap_err().to_string()
    }

    #[test]
    fn hosts_ports_comments_and_blank_lines() {
        let nodes = parse_hostfile("# two racks\nn1\n\nn2:9 # slow\n[::1]:8\nfe80::1\n", "hosts", 7000).unwrap();
        let shown: Vec<String> = nodes.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["n1:7000", "n2:9", "[::1]:8", "[fe80::1]:7000"]);
    }

    #[test]
    fn errors_name_file_and_line() {
        assert_eq!(
            failure("a\n\nA # again"),
            "hosts, line 3: A is on line 1 already; each node needs a host or port of its own"
        );
        assert!(failure("a:0").starts_with("hosts, line 1: '0' is not a port"));
        assert!(failure("a:x").contains("not a port"));
        assert!(failure("ok\na b").starts_with("hosts, line 2"));
        assert!(failure("[::1").contains("lacks"));
        assert!(failure("-oX").contains("begins with '-'"));
        assert!(failure("a;reboot").contains("only letters"));
        assert!(failure("# nothing\n").contains("names no hosts"));
    }

    #[test]
    fn one_host_may_have_several_ports() {
        let nodes = parse_hostfile("a:1\na:2\n", "hosts", 7000).unwrap();
        assert_eq!(nodes.len(), 2);
        assert!(failure("a\na:7000").contains("line 1 already"));
    }
}
