//! The threads of this process, one at a time, in virtual time.
//!
//! A thread has its turn until it waits: for a lock, for another thread, for a time. The next turn follows from the seed
//! alone. When all wait, the clock goes on to the first time that one of them waits for. So the order of all events is the
//! seed's, and the code that runs does not notice. Its locks, threads and clocks are the standard library's, whose calls
//! end here (`calls`, `symbols`).
//!
//! Every thread belongs to a life, as threads belong to a process: lives are stopped, go on and end as a whole. If a life is to stop,
//! its threads run until they wait. A thread that waits holds no lock that other lives need. Lives share only the network, and no
//! thread waits while it holds a lock of that.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use forebay_random::Random;

use crate::pass::{await_death, own_number, park, unpark};

/// A life, by the order in which they began. 0 is that of the world around the nodes.
pub type Life = usize;

/// A thread, by the order in which they began.
pub type Thread = usize;

/// As what a thread waits for another one's end: no address of a lock.
const END_OF: usize = 1;

/// The time that a look at the clock takes, so that nobody looks at it for ever.
const LOOK_NS: u64 = 200;

/// Turns that threads of a life may still take before they must have come to wait. As many are no end.
const LAST_TURNS_MAX: u32 = 100_000;

struct Kept {
    word: &'static AtomicU32,
    life: Life,
    wait: Wait,
    /// It waits no more since its time has come.
    is_late: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Ready,
    For { on: usize, until: Option<u64> },
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Runs,
    /// Its threads go on until they wait.
    Stops,
    Stopped,
    Ended,
}

struct State {
    random: Random,
    now_ns: u64,
    threads: Vec<Kept>,
    lives: Vec<Phase>,
    /// The life whose threads go on until they wait.
    stops: Option<Life>,
    last_turns: u32,
    turns: u64,
    /// Of all turns so far.
    history: u64,
}

struct Shared(UnsafeCell<Option<State>>);

// SAFETY: only the thread whose turn it is reaches it (`with`).
unsafe impl Sync for Shared {}

static STATE: Shared = Shared(UnsafeCell::new(None));
static IS_ON: AtomicBool = AtomicBool::new(false);

/// The kernel's number of a thread that has had its last turn, and has not ended yet.
static LEAVES: AtomicI32 = AtomicI32::new(0);

thread_local! {
    static ME: Cell<Thread> = const { Cell::new(0) };
    static HAS_TURN: Cell<bool> = const { Cell::new(false) };
}

/// From now on threads take turns. The caller is the first.
pub fn begin(seed: u64) {
    let first = Kept { word: word(), life: 0, wait: Wait::Ready, is_late: false };
    let state = State {
        random: Random::new(seed),
        now_ns: 1_000_000_000,
        threads: vec![first],
        lives: vec![Phase::Runs],
        stops: None,
        last_turns: 0,
        turns: 0,
        history: seed,
    };
    // SAFETY: no other thread has begun.
    unsafe { *STATE.0.get() = Some(state) };
    HAS_TURN.set(true);
    IS_ON.store(true, Ordering::SeqCst);
}

/// Whether it is the calling thread's turn: it has begun, and has not had its last one.
pub fn has_turn() -> bool {
    HAS_TURN.get()
}

/// Whether threads take turns.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

fn with<T>(look: impl FnOnce(&mut State) -> T) -> T {
    // SAFETY: one thread has its turn, and `look` neither waits nor comes here again.
    let state = unsafe { &mut *STATE.0.get() };
    match state {
        Some(state) => look(state),
        None => unreachable!("threads take turns once `begin` was called"),
    }
}

fn word() -> &'static AtomicU32 {
    Box::leak(Box::new(AtomicU32::new(0)))
}

/// The time since the world began.
pub fn now_ns() -> u64 {
    with(|state| state.now_ns)
}

/// The same, for who looks at a clock, which takes time.
pub fn look_at_clock() -> u64 {
    with(|state| {
        state.now_ns += LOOK_NS;
        state.now_ns
    })
}

/// A number below `limit`.
pub fn below(limit: u64) -> u64 {
    with(|state| state.random.below(limit))
}

/// A number of all turns so far, and how many they were.
pub fn history() -> (u64, u64) {
    with(|state| (state.history, state.turns))
}

/// The life of the calling thread.
pub fn life() -> Life {
    with(|state| state.threads[ME.get()].life)
}

/// A new life.
pub fn new_life() -> Life {
    with(|state| {
        state.lives.push(Phase::Runs);
        state.lives.len() - 1
    })
}

/// The calling thread belongs to a life, and all threads that it begins.
pub fn join_life(life: Life) {
    with(|state| state.threads[ME.get()].life = life);
}

/// A thread that the caller begins. It has no turn before it calls `enter`.
pub fn new_thread() -> Thread {
    with(|state| {
        let life = state.threads[ME.get()].life;
        state.threads.push(Kept { word: word(), life, wait: Wait::Ready, is_late: false });
        state.threads.len() - 1
    })
}

/// The calling thread is this one; returns when it has its turn. `arrived` tells its creator that it waits for that.
pub fn enter(thread: Thread, word: &'static AtomicU32, arrived: &AtomicU32) {
    ME.set(thread);
    give_turn(arrived);
    await_turn(word);
    HAS_TURN.set(true);
}

/// Waits until a thread that was begun waits for its turn: until then both run.
pub fn await_arrival(arrived: &AtomicU32) {
    while arrived.load(Ordering::SeqCst) == 0 {
        park(arrived);
    }
}

/// Where a thread waits for its turn.
pub fn word_of(thread: Thread) -> &'static AtomicU32 {
    with(|state| state.threads[thread].word)
}

/// The calling thread ends.
pub fn leave() {
    let me = ME.get();
    wake(END_OF + 2 * me, usize::MAX);
    let next = with(|state| {
        state.threads[me].wait = Wait::Over;
        let next = state.choose();
        state.threads[next].word
    });
    LEAVES.store(own_number(), Ordering::SeqCst);
    HAS_TURN.set(false);
    give_turn(next);
}

/// Waits until a thread has ended.
pub fn await_end(thread: Thread) {
    while with(|state| state.threads[thread].wait != Wait::Over) {
        wait(END_OF + 2 * thread, None);
    }
}

/// Another thread may have its turn first.
pub fn give_way() {
    pass_on();
}

/// The same, in one of so many cases.
pub fn may_give_way(one_of: u64) {
    if below(one_of) == 0 {
        pass_on();
    }
}

/// Waits for a time.
pub fn sleep_ns(time_ns: u64) {
    let until = now_ns().saturating_add(time_ns);
    wait(0, Some(until));
}

/// Waits for a wake-up at an address, or until a time. Returns whether the time has come.
pub fn wait(on: usize, until: Option<u64>) -> bool {
    with(|state| state.threads[ME.get()].wait = Wait::For { on, until });
    pass_on();
    with(|state| std::mem::take(&mut state.threads[ME.get()].is_late))
}

/// Wakes so many at most who wait at an address. How many.
pub fn wake(on: usize, count: usize) -> usize {
    with(|state| {
        let waits = |kept: &Kept| matches!(kept.wait, Wait::For { on: at, .. } if at == on);
        let mut waiting: Vec<Thread> = (0..state.threads.len())
            .filter(|thread| waits(&state.threads[*thread]) && state.lives[state.threads[*thread].life] == Phase::Runs)
            .collect();
        let mut woken = 0;
        while woken < count && !waiting.is_empty() {
            let chosen = waiting.swap_remove(state.random.below(waiting.len() as u64) as usize);
            state.threads[chosen].wait = Wait::Ready;
            woken += 1;
        }
        woken
    })
}

/// A life stands still, or ends, from now on: its threads have come to wait.
pub fn stop(life: Life, for_ever: bool) {
    with(|state| {
        state.lives[life] = Phase::Stops;
        state.stops = Some(life);
        state.last_turns = 0;
    });
    while with(|state| state.lives[life] == Phase::Stops) {
        pass_on();
    }
    if for_ever {
        with(|state| state.lives[life] = Phase::Ended);
    }
}

/// A life that stands still goes on.
pub fn go_on(life: Life) {
    with(|state| {
        if state.lives[life] == Phase::Stopped {
            state.lives[life] = Phase::Runs;
            for kept in state.threads.iter_mut().filter(|kept| kept.life == life) {
                // The threads woken meanwhile are not known: all look.
                if matches!(kept.wait, Wait::For { on, .. } if on != 0) {
                    kept.wait = Wait::Ready;
                }
            }
        }
    });
}

fn pass_on() {
    let me = ME.get();
    let (next, own) = with(|state| {
        let next = state.choose();
        (state.threads[next].word, (next != me).then_some(state.threads[me].word))
    });
    if let Some(own) = own {
        give_turn(next);
        await_turn(own);
    }
}

fn give_turn(word: &AtomicU32) {
    word.store(1, Ordering::SeqCst);
    unpark(word);
}

fn await_turn(word: &AtomicU32) {
    while word.swap(0, Ordering::SeqCst) == 0 {
        park(word);
    }
    // No other thread runs then.
    match LEAVES.swap(0, Ordering::SeqCst) {
        0 => {}
        leaves => await_death(leaves),
    }
}

impl State {
    /// Whose turn is next.
    fn choose(&mut self) -> Thread {
        loop {
            let ready = self.ready();
            if !ready.is_empty() {
                let chosen = ready[self.random.below(ready.len() as u64) as usize];
                self.turns += 1;
                self.history = (self.history ^ chosen as u64).wrapping_mul(0x0000_0100_0000_01b3) ^ self.now_ns;
                return chosen;
            }
            match self.stops.take() {
                Some(life) => self.lives[life] = Phase::Stopped,
                None => self.let_time_pass(),
            }
        }
    }

    fn ready(&mut self) -> Vec<Thread> {
        let of = self.stops;
        if of.is_some() {
            self.last_turns += 1;
            assert!(self.last_turns < LAST_TURNS_MAX, "a life that is to stop never waits");
        }
        let lives = &self.lives;
        let may = |kept: &Kept| match of {
            Some(life) => kept.life == life,
            None => lives[kept.life] == Phase::Runs,
        };
        let ready = self.threads.iter().enumerate().filter(|(_, kept)| kept.wait == Wait::Ready && may(kept));
        ready.map(|(thread, _)| thread).collect()
    }

    fn let_time_pass(&mut self) {
        let lives = &self.lives;
        let due = |kept: &Kept| match kept.wait {
            Wait::For { until, .. } if lives[kept.life] == Phase::Runs => until,
            _ => None,
        };
        let Some(first) = self.threads.iter().filter_map(due).min() else { unreachable!("everything waits for ever") };
        self.now_ns = self.now_ns.max(first);
        for kept in &mut self.threads {
            if let Wait::For { until: Some(until), .. } = kept.wait
                && until <= self.now_ns
                && lives[kept.life] == Phase::Runs
            {
                (kept.wait, kept.is_late) = (Wait::Ready, true);
            }
        }
    }
}
