//! The job's key on the way to other hosts: as it is, or sealed by MUNGE where it goes through a launcher's connections or a file. It is a line of its
//! own before the job spec, so that no more than this line has to be wiped wherever both come through.
//!
//! Which of both is decided where the job is started. A node opens what it gets; it does not guess.

use std::io::Read;

use anyhow::{Context, anyhow, ensure};
use forebay_launch::{KeySealing, LaunchError, LauncherName, Munge, MungeProblem};
use forebay_secret::{JobKey, Zeroizing};
use serde::{Deserialize, Serialize};

/// A line with a key, bytes: a credential, and the names around it.
const LINE_BYTES_MAX: usize = forebay_launch::limits::MUNGE_BYTES_MAX + 64;

/// A key on its way, which nothing shows.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CarriedKey {
    /// As text, for a channel that others cannot read.
    Plain(Zeroizing<String>),
    /// A credential of MUNGE.
    Munge(String),
}

impl std::fmt::Debug for CarriedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CarriedKey(secret)")
    }
}

/// The contents of the line.
#[derive(Serialize, Deserialize)]
struct Line {
    key: Option<CarriedKey>,
}

/// The line that says which key a job has.
pub fn line(key: Option<CarriedKey>) -> anyhow::Result<Zeroizing<Vec<u8>>> {
    // As long as it can be: what grows leaves copies behind.
    let mut text = Zeroizing::new(Vec::with_capacity(LINE_BYTES_MAX));
    serde_json::to_writer(&mut *text, &Line { key }).context("cannot encode the job's key")?;
    text.push(b'\n');
    Ok(text)
}

/// Reads such a line and nothing of what comes after it.
pub fn read_line(mut input: impl Read) -> anyhow::Result<Zeroizing<Vec<u8>>> {
    let mut text = Zeroizing::new(Vec::with_capacity(LINE_BYTES_MAX));
    while text.last() != Some(&b'\n') {
        ensure!(text.len() < LINE_BYTES_MAX, "the line with the job's key is too long");
        let mut byte = [0];
        input.read_exact(&mut byte).context("the line with the job's key is cut off")?;
        text.push(byte[0]);
    }
    Ok(text)
}

impl CarriedKey {
    /// The key in a line.
    pub fn of_line(line: &[u8]) -> anyhow::Result<Option<Self>> {
        // The parser's error is not shown: it would contain the key.
        serde_json::from_slice(line).map(|Line { key }| key).map_err(|_| anyhow!("the job's key cannot be read"))
    }

    /// The key as it is.
    pub fn plain(key: &JobKey) -> Self {
        Self::Plain(key.secret_hex())
    }

    /// The key for a launcher's connections and files. A cluster that has MUNGE has it for such things: where it fails, the key does not go
    /// out unprotected unless the user says so.
    pub fn through(launcher: LauncherName, key: &JobKey, sealing: &KeySealing) -> anyhow::Result<Self> {
        let Some(munge) = munge(sealing) else {
            return Ok(Self::plain(key));
        };
        match (munge.seal(key), sealing) {
            (Ok(sealed), _) => Ok(Self::Munge(sealed)),
            // Sites without MUNGE know that they have none.
            (Err(LaunchError::Munge { source: MungeProblem::NotInstalled(_), .. }), KeySealing::Auto) => {
                Ok(Self::plain(key))
            }
            (Err(error), _) => Err(error).with_context(|| {
                format!(
                    "the job's key cannot be protected on its way through {}; start munged on this host, name its socket \
                     with --munge SOCKET, or give --munge off to send the key as it is",
                    if launcher == LauncherName::Slurm { "Slurm" } else { launcher.word() }
                )
            }),
        }
    }

    /// The key in it.
    pub fn open(&self, sealing: &KeySealing) -> anyhow::Result<JobKey> {
        match self {
            Self::Plain(text) => JobKey::from_hex(text).context("the key in the job spec is not a valid key"),
            Self::Munge(sealed) => munge(sealing).unwrap_or_else(|| Munge::at(None)).open(sealed).context(
                "the job spec's key cannot be read; every node needs munged with the MUNGE key of the host of forebay up, \
                 at the same socket, and a clock that agrees with its, or start with --munge off",
            ),
        }
    }
}

/// The service to ask; `None` when none is.
pub fn munge(sealing: &KeySealing) -> Option<Munge> {
    match sealing {
        KeySealing::Off => None,
        KeySealing::Auto => Some(Munge::at(None)),
        KeySealing::Socket(socket) => Some(Munge::at(Some(socket))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_back_and_what_follows_is_left() {
        let key = JobKey::from_bytes([0xab; 32]);
        let text = [&line(Some(CarriedKey::plain(&key))).unwrap()[..], b"the job spec"].concat();
        let mut input = &text[..];
        let read = read_line(&mut input).unwrap();
        assert_eq!(input, b"the job spec");
        let carried = CarriedKey::of_line(&read).unwrap().unwrap();
        assert_eq!(carried.open(&KeySealing::Off).unwrap(), key);
        assert!(!format!("{carried:?}").contains("abab"));
        assert!(CarriedKey::of_line(&line(None).unwrap()).unwrap().is_none());
    }

    #[test]
    fn an_invalid_key_line_is_refused_and_not_shown() {
        let key = JobKey::from_bytes([0xab; 32]);
        let text = String::from_utf8(line(Some(CarriedKey::plain(&key))).unwrap().to_vec()).unwrap();
        let bad = CarriedKey::of_line(text.replace("abab", "zzzz").as_bytes()).unwrap().unwrap();
        assert!(bad.open(&KeySealing::Off).is_err());
        let message = format!("{:#}", CarriedKey::of_line(text.replace("plain", "plane").as_bytes()).unwrap_err());
        assert!(!message.contains("abab"), "{message}");
        assert!(read_line(&text.as_bytes()[..9]).is_err());
        assert!(read_line(&vec![b'x'; 1 << 20][..]).is_err());
    }
}
