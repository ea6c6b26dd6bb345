//! The job's key within an order: as it is, or sealed by MUNGE where the order goes through Slurm.
//!
//! Which of both is decided where the job is started. A node opens what it gets; it does not guess.

use anyhow::Context;
use forebay_launch::{KeySealing, LaunchError, Munge, MungeProblem};
use forebay_types::JobKey;
use serde::{Deserialize, Serialize};

use crate::output::causes;

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

    /// The key for Slurm's connections.
    pub fn through_slurm(key: &JobKey, sealing: &KeySealing) -> anyhow::Result<Self> {
        let Some(munge) = munge(sealing) else {
            return Ok(Self::plain(key));
        };
        match (munge.seal(key), sealing) {
            (Ok(sealed), _) => Ok(Self::Munge(sealed)),
            (Err(error), KeySealing::Socket(_)) => {
                Err(error).context("the job's key cannot be protected; start munged here, or give --munge off")
            }
            // Who has no MUNGE knows.
            (Err(LaunchError::Munge { source: MungeProblem::NotInstalled(_), .. }), _) => Ok(Self::plain(key)),
            (Err(error), _) => {
                let why = causes(&error.into()).join(": ");
                eprintln!("forebay: note: the job's key goes through Slurm's connections as it is: {why}");
                Ok(Self::plain(key))
            }
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
