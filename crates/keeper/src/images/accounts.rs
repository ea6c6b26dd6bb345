//! The user's own line of the accounts, for an image that knows nobody of this host. The accounts of a site are often in a
//! directory service, which an image cannot ask; so a container is told its user, root and nobody, as `ch-run` tells it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

/// The program's user and groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accounts {
    user: u32,
    group: u32,
    user_name: String,
    group_name: String,
    home: PathBuf,
}

impl Accounts {
    /// Of this process, by the host's files; a name that they lack is `user_name`, or its number.
    pub fn of_this(user_name: Option<&str>, home: Option<&Path>) -> Self {
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        let name_in = |file: &str, id: u32| name_of(&fs::read_to_string(file).unwrap_or_default(), id);
        let is_usable = |name: &&str| !name.is_empty() && !name.contains([':', '\n']);
        let given = user_name.filter(is_usable).map(str::to_owned);
        Self {
            user,
            group,
            user_name: name_in("/etc/passwd", user).or(given).unwrap_or_else(|| format!("user{user}")),
            group_name: name_in("/etc/group", group).unwrap_or_else(|| format!("group{group}")),
            home: home.unwrap_or(Path::new("/")).to_owned(),
        }
    }

    /// The text of `/etc/passwd` (`passwd(5)`).
    pub fn passwd(&self) -> String {
        let mut text = String::new();
        let Self { user, group, user_name, home, .. } = self;
        // A colon or a line break in a path would make more of it than one field.
        let home = home.to_str().filter(|home| !home.contains([':', '\n'])).unwrap_or("/");
        let _ = writeln!(text, "{user_name}:x:{user}:{group}:{user_name}:{home}:/bin/sh");
        for (id, name, home) in [(0, "root", "/root"), (65_534, "nobody", "/")] {
            if id != *user {
                let _ = writeln!(text, "{name}:x:{id}:{id}:{name}:{home}:/bin/false");
            }
        }
        text
    }

    /// The text of `/etc/group` (`group(5)`).
    pub fn group(&self) -> String {
        let mut text = format!("{}:x:{}:\n", self.group_name, self.group);
        for (id, name) in [(0, "root"), (65_534, "nogroup")] {
            if id != self.group {
                let _ = writeln!(text, "{name}:x:{id}:");
            }
        }
        text
    }
}

/// Whose line of `passwd(5)` or `group(5)` has this number: both have it third.
fn name_of(text: &str, id: u32) -> Option<String> {
    let has_number = |line: &&str| line.split(':').nth(2).is_some_and(|number| number.parse() == Ok(id));
    text.lines().find(has_number)?.split(':').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_one_line() {
        let of = |user, group| Accounts {
            user,
            group,
            user_name: "ada".into(),
            group_name: "staff".into(),
            home: "/people/ada".into(),
        };
        assert_eq!(
            of(7, 8).passwd(),
            "ada:x:7:8:ada:/people/ada:/bin/sh\nroot:x:0:0:root:/root:/bin/false\nnobody:x:65534:65534:nobody:/:/bin/false\n"
        );
        assert_eq!(of(7, 8).group(), "staff:x:8:\nroot:x:0:\nnogroup:x:65534:\n");
        assert_eq!(of(0, 0).passwd().matches(":0:").count(), 1);
        assert_eq!(of(0, 65_534).group(), "staff:x:65534:\nroot:x:0:\n");
        assert_eq!(name_of("root:x:0:0::/:\nada:x:7:8::/:\n", 7), Some("ada".to_owned()));
        assert_eq!(name_of("broken\n+::::\n", 7), None);
    }
}
