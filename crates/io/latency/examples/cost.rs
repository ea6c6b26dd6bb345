//! The processor time that recording one request takes: `cargo run --release -p forebay-latency --example cost`.

use std::time::Instant;

use forebay_latency::Register;

/// Requests of each thread.
const REQUESTS: u64 = 5_000_000;

fn main() {
    for threads in [1, 2, 4] {
        let register = Register::new("setlkw");
        let began = Instant::now();
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
        let cores = std::thread::available_parallelism().map_or(1, usize::from).min(threads as usize) as f64;
        let ns = began.elapsed().as_nanos() as f64 * cores / (REQUESTS * threads) as f64;
        println!("{threads} threads: {ns:.0} ns of a processor for each request");
    }
}
