//! Names of hosts, and lists of them in Slurm's notation: `n[1-4,7],login2`, `rack[1-2]n[01-16]`.
//!
//! Expanded here, not by `scontrol show hostnames`, because lists are read where no Slurm is installed.

use thiserror::Error;

use crate::limits;

/// Groups of brackets one name may have: more only multiplies towards the limit on nodes.
const GROUPS_MAX: usize = 8;

/// The longest name of a host, bytes (RFC 1035).
const HOST_BYTES_MAX: usize = 253;

/// Why a list does not say which hosts. No host is expanded then.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum HostListError {
    /// It cannot be read.
    #[error("the host list '{list}' cannot be read: {problem}")]
    Notation {
        /// As given.
        list: String,
        /// The error in it, and where.
        problem: String,
    },
    /// A name in it is none.
    #[error("'{host}' is not a host name: {problem}")]
    Host {
        /// As expanded.
        host: String,
        /// The error in it.
        problem: &'static str,
    },
    /// It is empty.
    #[error("the host list '{list}' names no hosts")]
    Empty {
        /// As given.
        list: String,
    },
}

/// The hosts of a list, in its order.
///
/// # Errors
/// `HostListError` with what is wrong and where.
pub fn expand_host_list(list: &str) -> Result<Vec<String>, HostListError> {
    let fail = |problem: String| HostListError::Notation { list: list.to_owned(), problem };
    let mut hosts = Vec::new();
    for item in split_outside_brackets(list).map_err(fail)? {
        let item = item.trim();
        if item.is_empty() {
            continue;
        }
        for host in expand_item(item, limits::NODES_MAX - hosts.len()).map_err(fail)? {
            check_host_name(&host).map_err(|problem| HostListError::Host { host: host.clone(), problem })?;
            hosts.push(host);
        }
    }
    if hosts.is_empty() {
        return Err(HostListError::Empty { list: list.to_owned() });
    }
    Ok(hosts)
}

/// Whether a text can be a host's name or address. Names go onto command lines of remote shells, so what could be taken
/// for an option or for shell syntax is refused here.
///
/// # Errors
/// The error in it.
pub fn check_host_name(host: &str) -> Result<(), &'static str> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
    match host.as_bytes() {
        [] => Err("it is empty"),
        [b'-', ..] => Err("it begins with '-'"),
        bytes if bytes.len() > HOST_BYTES_MAX => Err("it is longer than 253 bytes"),
        bytes if !bytes.iter().all(|byte| allowed(*byte)) => {
            Err("only letters, digits, '.', '-', '_' and ':' are allowed")
        }
        _ => Ok(()),
    }
}

/// Cuts at the commas that stand outside brackets.
fn split_outside_brackets(list: &str) -> Result<Vec<&str>, String> {
    let (mut items, mut start, mut open) = (Vec::new(), 0, None);
    for (at, byte) in list.bytes().enumerate() {
        match (byte, open) {
            (b'[', None) => open = Some(at),
            (b'[', Some(_)) => return Err(format!("a bracket within a bracket at character {}", at + 1)),
            (b']', Some(_)) => open = None,
            (b']', None) => return Err(format!("']' without '[' at character {}", at + 1)),
            (b',', None) => {
                items.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if let Some(at) = open {
        return Err(format!("the bracket at character {} is not closed", at + 1));
    }
    items.push(&list[start..]);
    Ok(items)
}

/// The hosts of one item; `room` is how many may still come.
fn expand_item(item: &str, room: usize) -> Result<Vec<String>, String> {
    check_length(item)?;
    let mut names = vec![String::new()];
    let mut rest = item;
    for _ in 0..GROUPS_MAX {
        let Some((before, after)) = rest.split_once('[') else {
            break;
        };
        let (group, after) = after.split_once(']').ok_or_else(|| format!("'{item}' has an open bracket"))?;
        let numbers = expand_group(group, room)?;
        if names.len().saturating_mul(numbers.len()) > room {
            return Err(too_many());
        }
        names = names.iter().flat_map(|name| numbers.iter().map(move |n| format!("{name}{before}{n}"))).collect();
        rest = after;
    }
    if rest.contains('[') {
        return Err(format!("'{item}' has more than {GROUPS_MAX} brackets"));
    }
    if names.len() > room {
        return Err(too_many());
    }
    Ok(names.into_iter().map(|name| name + rest).collect())
}

/// Whether what all hosts of an item have alike can be part of a name: it is repeated for each.
fn check_length(item: &str) -> Result<(), String> {
    let mut within = false;
    let alike = item.bytes().filter(|byte| {
        within = (within || *byte == b'[') && *byte != b']';
        !within && *byte != b']'
    });
    let bytes = alike.count();
    if bytes > HOST_BYTES_MAX {
        return Err(format!("{bytes} bytes outside of brackets are longer than a name of a host"));
    }
    Ok(())
}

/// The numbers of `1-4,7`, as text: leading zeros set the width.
fn expand_group(group: &str, room: usize) -> Result<Vec<String>, String> {
    let mut numbers = Vec::new();
    for part in group.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (number(first, group)?, number(last, group)?);
        if from > to {
            return Err(format!("'{part}' counts downwards"));
        }
        if to - from >= room.saturating_sub(numbers.len()) as u64 {
            return Err(too_many());
        }
        let width = first.len();
        numbers.extend((from..=to).map(|n| format!("{n:0width$}")));
    }
    Ok(numbers)
}

fn number(text: &str, group: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("'{text}' in '[{group}]' is not a number"));
    }
    if text.len() > HOST_BYTES_MAX {
        return Err(format!("a number of {} digits is longer than a name of a host", text.len()));
    }
    text.parse().map_err(|_| format!("'{text}' in '[{group}]' is too large"))
}

fn too_many() -> String {
    format!("it names more than {} hosts", limits::NODES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expanded(list: &str) -> Vec<String> {
        expand_host_list(list).unwrap()
    }

    #[test]
    fn a_width_that_no_name_has_is_refused() {
        for zeros in [254, 60_000, 70_000] {
            let list = format!("n[{}-999999]", "0".repeat(zeros));
            assert!(expand_host_list(&list).unwrap_err().to_string().contains("digits"));
        }
    }

    /// They were repeated for each host before the names were looked at.
    #[test]
    fn names_that_are_too_long_are_refused_before_they_are_made() {
        let (most, name) = ("n".repeat(HOST_BYTES_MAX), "n".repeat(HOST_BYTES_MAX - 4));
        for list in [format!("{most}n[1-1048576]"), format!("n[1-2]{most}"), format!("[1]{name}[2]nnnnn")] {
            let message = expand_host_list(&list).unwrap_err().to_string();
            assert!(message.contains("outside of brackets"), "{message}");
        }
        assert_eq!(expanded(&format!("{name}[1-2]n")).len(), 2);
    }

    #[test]
    fn ranges_lists_and_widths() {
        assert_eq!(expanded("n[1-3,7]"), ["n1", "n2", "n3", "n7"]);
        assert_eq!(expanded("n[08-11]"), ["n08", "n09", "n10", "n11"]);
        assert_eq!(expanded("login2, gpu[1]-ib"), ["login2", "gpu1-ib"]);
        assert_eq!(expanded("r[1-2]n[1-2]"), ["r1n1", "r1n2", "r2n1", "r2n2"]);
        assert_eq!(expanded("n[9-10]"), ["n9", "n10"]);
    }

    #[test]
    fn bad_lists_say_what_is_wrong() {
        for (list, part) in [
            ("n[1-3", "not closed"),
            ("n1]", "without '['"),
            ("n[[1]]", "within a bracket"),
            ("n[3-1]", "downwards"),
            ("n[a-b]", "is not a number"),
            ("n[]", "is not a number"),
            ("n[1,,2]", "is not a number"),
            ("n[0-99999999]", "more than"),
            ("n[1-99999999999999999999]", "too large"),
            ("n[0-9999][0-9999]", "more than"),
            ("", "names no hosts"),
            (" , ", "names no hosts"),
            ("-oProxyCommand=x", "not a host name"),
        ] {
            let message = expand_host_list(list).unwrap_err().to_string();
            assert!(message.contains(part), "{list}: {message}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_expanded_or_refused(list in "[n\\[\\],0-9-]{0,12}") {
            if let Ok(hosts) = expand_host_list(&list) {
                prop_assert!(!hosts.is_empty() && hosts.len() <= limits::NODES_MAX);
                prop_assert!(hosts.iter().all(|host| !host.contains(['[', ']', ','])));
            }
        }

        #[test]
        fn a_range_has_as_many_hosts_as_it_counts(from in 0u32..500, count in 1u32..500) {
            let hosts = expanded(&format!("x[{from}-{}]", from + count - 1));
            prop_assert_eq!(hosts.len(), count as usize);
            prop_assert_eq!(&hosts[0], &format!("x{from}"));
        }
    }
}
