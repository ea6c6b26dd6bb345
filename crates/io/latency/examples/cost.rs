//! The processor time that recording one request takes: `cargo run --release -p forebay-latency --example cost`.

use std::time::Duration;

use forebay_latency::Register;
use rustix::time::{ClockId, clock_gettime};

/// Requests of each thread.
const REQUESTS: u64 = 5_000_000;

fn main() {
    for threads in [1, 2, 4] {
        let register = Register::new("setlkw");
        let before = processor_time();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let register = &register;
                scope.spawn(move || {
                    for index in 0..REQUESTS {
                        // As the kernel numbers them.
                        let number = 2 * (index * threads + thread);
                        let started = register.begin(if index % 2 == 0 { "read" } else { "lookup" }, number, 1);
                        register.end(number, started);
                    }
                });
            }
        });
        let ns = (processor_time() - before).as_nanos() as f64 / (REQUESTS * threads) as f64;
        println!("{threads} threads: {ns:.0} ns of a processor for each request");
    }
}

/// Of this process, all threads together.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}
