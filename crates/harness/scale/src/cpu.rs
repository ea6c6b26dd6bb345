//! Processor time, by who took it.

use super::servers::{Nanos, seconds};

/// Processor time by who took it.
#[derive(Clone, Copy, Default)]
pub(super) struct Taken {
    pub launcher: Nanos,
    pub programs: Nanos,
    pub daemons: Nanos,
    pub walkers: Nanos,
    pub file_system: Nanos,
}

impl Taken {
    pub fn seconds(self) -> Cpu {
        Cpu {
            launcher_seconds: seconds(self.launcher),
            programs_seconds: seconds(self.programs),
            daemons_seconds: seconds(self.daemons),
            walkers_seconds: seconds(self.walkers),
            file_system_seconds: seconds(self.file_system),
        }
    }
}

/// Processor time of all nodes together, by who took it, seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// The launcher, and daemons until they are ready.
    pub launcher_seconds: f64,
    /// Programs, with what the kernel does for them.
    pub programs_seconds: f64,
    /// Daemons.
    pub daemons_seconds: f64,
    /// The processes that look at names for daemons.
    pub walkers_seconds: f64,
    /// The file system's clients, and its server where it is on the same processors.
    pub file_system_seconds: f64,
}

impl Cpu {
    /// All of it.
    #[must_use]
    pub fn all_seconds(&self) -> f64 {
        let Self { launcher_seconds, programs_seconds, daemons_seconds, walkers_seconds, file_system_seconds } = self;
        launcher_seconds + programs_seconds + daemons_seconds + walkers_seconds + file_system_seconds
    }
}
