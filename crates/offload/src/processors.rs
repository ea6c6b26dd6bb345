//! The processors that a query may use here, and how many others want them.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use forebay_query::{Burst, share};

/// How often it is counted who runs, and how long apart.
const COUNTS: u32 = 3;
const APART: Duration = Duration::from_millis(1);

/// The share of the machine that threads of this process get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cores {
    /// Cores' worth of time: what others leave of the machine, or less where a control group gives less.
    pub cores: f64,
    /// The quota of the strictest control group, if that is less than the threads would take.
    pub quota: Option<Quota>,
}

/// The quota of a control group (version 1 or 2), whatever others do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quota {
    /// Cores' worth of time.
    pub cores: f64,
    /// How often it is given, seconds.
    pub period_s: f64,
}

impl Cores {
    /// The burst that they parse at the beginning, where a byte takes so many seconds of one.
    #[must_use]
    pub fn burst(&self, threads: usize, seconds_per_byte: f64) -> Burst {
        self.quota.map_or_else(Burst::default, |quota| {
            Burst::of(threads as f64 / seconds_per_byte, threads, quota.cores, quota.period_s)
        })
    }
}

/// The share that so many threads of this process get. Takes some milliseconds.
#[must_use]
pub fn cores_for(threads: usize) -> Cores {
    let all = thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let quotas = quotas(&own, Path::new("/sys/fs/cgroup")).into_iter();
    let strictest = quotas.min_by(|left, right| left.cores.total_cmp(&right.cores));
    let cores = share(threads, all, load());
    Cores {
        cores: strictest.map_or(cores, |quota| quota.cores.min(cores)),
        quota: strictest.filter(|quota| quota.cores < all.min(threads as f64)),
    }
}

/// Threads of this machine, beside the one that asks, that run or want to: the mean of a few looks.
fn load() -> f64 {
    let counts = (0..COUNTS).map(|count| {
        thread::sleep(APART * count.min(1));
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        running(&text).unwrap_or(1.0)
    });
    (counts.sum::<f64>() / f64::from(COUNTS) - 1.0).max(0.0)
}

fn running(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("procs_running "))?.trim().parse().ok()
}

/// The quotas of the groups of `own` (the text of `/proc/self/cgroup`) and of those around them.
fn quotas(own: &str, mounted: &Path) -> Vec<Quota> {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| *number > 0.0);
    let mut quotas = vec![];
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let is_cpu = controllers.split(',').any(|controller| controller == "cpu");
        for path in Path::new(path.trim_start_matches('/')).ancestors() {
            let quota = if is_cpu {
                let at = mounted.join(if mounted.join(controllers).exists() { controllers } else { "cpu" }).join(path);
                let file = |name: &str| read(&at.join(name)).and_then(|text| number(&text));
                file("cpu.cfs_quota_us").zip(file("cpu.cfs_period_us"))
            } else if controllers.is_empty() {
                let text = read(&mounted.join(path).join("cpu.max")).unwrap_or_default();
                text.split_once(' ').and_then(|(quota, period)| number(quota).zip(number(period)))
            } else {
                None
            };
            quotas.extend(quota.map(|(quota, period)| Quota { cores: quota / period, period_s: period / 1e6 }));
        }
    }
    quotas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_limit_the_cores() {
        let directory = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("cpu/device/cpu.cfs_quota_us", "15000\n");
        write("cpu/device/cpu.cfs_period_us", "100000\n");
        write("cpu/cpu.cfs_quota_us", "-1\n");
        write("cpu/cpu.cfs_period_us", "100000\n");
        write("job/cpu.max", "150000 100000\n");
        write("job/step/cpu.max", "max 100000\n");
        let of = |own| quotas(own, directory.path()).iter().map(|quota| quota.cores).collect::<Vec<_>>();
        assert_eq!(of("3:cpu,cpuacct:/device/inner\n2:memory:/job\n"), [0.15]);
        assert_eq!(of("0::/job/step\n"), [1.5]);
        assert!(of("0::/\n").is_empty());
        assert_eq!(running("cpu 1 2\nprocs_running 7\nprocs_blocked 1\n"), Some(7.0));
        assert_eq!(quotas("0::/job\n", directory.path()), [Quota { cores: 1.5, period_s: 0.1 }]);
        assert!(cores_for(1).cores > 0.0 && cores_for(1).cores <= 1.0);
        let quota = Some(Quota { cores: 0.15, period_s: 0.1 });
        let burst = Cores { cores: 0.15, quota }.burst(2, 1e-9);
        assert!((burst.bytes - 7.5e6).abs() < 1.0 && (burst.bytes_per_s - 2e9).abs() < 1.0, "{burst:?}");
        assert_eq!(Cores { cores: 1.0, quota: None }.burst(2, 1e-9), Burst::default());
    }
}
