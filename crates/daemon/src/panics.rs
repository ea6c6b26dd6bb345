//! A panic ends the process, in every profile.
//!
//! A daemon whose thread has panicked would leave every reader of its mount hanging, and a simulated history would go on
//! without one of its tasks. Release builds abort by their profile. Development builds unwind, since programs of tests do
//! and every crate would be compiled twice otherwise; there the panic's hook aborts.

/// Has the first panic of any thread say what is wrong and end the process. For the first line of a program's `main`.
pub fn end_the_process() {
    if cfg!(panic = "unwind") {
        let say = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            say(panic);
            std::process::abort();
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    const CHILD: &str = "FOREBAY_TEST_PANICS";

    /// Alone it passes. As its own child a thread of it panics, and nobody looks at the thread.
    #[test]
    fn a_panic_of_any_thread_says_so_and_ends_the_process() {
        const NAME: &str = "panics::tests::a_panic_of_any_thread_says_so_and_ends_the_process";
        if std::env::var_os(CHILD).is_some() {
            super::end_the_process();
            let _ = std::thread::spawn(|| panic!("as it is meant")).join();
            return;
        }
        let program = std::env::current_exe().unwrap();
        let child = Command::new(program).args(["--exact", NAME, "--nocapture"]).env(CHILD, "1").output().unwrap();
        assert_eq!(child.status.signal(), Some(rustix::process::Signal::ABORT.as_raw()), "{child:?}");
        assert!(String::from_utf8_lossy(&child.stderr).contains("as it is meant"), "{child:?}");
    }
}
