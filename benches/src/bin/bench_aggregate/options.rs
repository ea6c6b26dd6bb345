//! The options of every measurement.

use clap::Args;

/// How thoroughly is measured.
#[derive(Args)]
pub struct BenchOptions {
    /// Seeds of what is simulated, from 1 on
    #[arg(long, default_value_t = 20)]
    pub seeds: u64,
}
