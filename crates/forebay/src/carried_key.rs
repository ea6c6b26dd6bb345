//! The job's key within an order: as it is, or sealed by MUNGE where the order goes through Slurm.
//!
//! Which of both is decided where the job is started. A node opens what it gets; it does not guess.

use anyhow::Context;
use forebay_launch::{KeySealing, LaunchError, Munge, MungeProblem};
use forebay_types::JobKey;
use serde::{Deserialize, Serialize};

/// A key on its way, which nothing shows.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CarriedKey {
    /// As text, for a channel that others cannot read.
    Plain(String),
    /// A credential of MUNGE.
    Munge(String),
}

impl std::fmt::Debug for CarriedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CarriedKey(secret)")
    }
}

impl CarriedKey {
    /// The key as it is.
    pub fn plain(key: &JobKey) -> Self {
        Self::Plain(key.secret_hex())
    }

    /// The key for Slurm's connections. A cluster that has MUNGE has it for such things: where it fails, the key does not go
    /// out unprotected unless the user says so.
    pub fn through_slurm(key: &JobKey, sealing: &KeySealing) -> anyhow::Result<Self> {
        let Some(munge) = munge(sealing) else {
            return Ok(Self::plain(key));
        };
        match (munge.seal(key), sealing) {
            (Ok(sealed), _) => Ok(Self::Munge(sealed)),
            // Sites without MUNGE know that they have none.
            (Err(LaunchError::Munge { source: MungeProblem::NotInstalled(_), .. }), KeySealing::Auto) => {
                Ok(Self::plain(key))
            }
            (Err(error), _) => Err(error).context(
                "the job's key cannot be protected on its way through Slurm; start munged on this host, name its socket \
                 with --munge SOCKET, or give --munge off to send the key as it is",
            ),
        }
    }

    /// The key in it.
    pub fn open(&self, sealing: &KeySealing) -> anyhow::Result<JobKey> {
        match self {
            Self::Plain(text) => JobKey::from_hex(text).context("the order's key is no key"),
            Self::Munge(sealed) => munge(sealing).unwrap_or_else(|| Munge::at(None)).open(sealed).context(
                "the order's key cannot be read; every node needs munged with the MUNGE key of the host of forebay up, \
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
