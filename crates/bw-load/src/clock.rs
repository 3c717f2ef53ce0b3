//! The clocks of a run: what they promise, the kernel's, and one that tests move by hand.
//!
//! Decision: the worker is generic over its clock, so that the very loop that runs in real time
//! runs in a simulation too; a clock behind a pointer would cost a call for every read.

use bw_model::Nanos;
use std::cell::Cell;
use std::rc::Rc;

/// Tells the time since the start of the run. Each worker has its own copy.
pub trait Clock {
    /// Returns the time since the start of the run; zero before it. Never steps backwards.
    fn now(&mut self) -> Nanos;

    /// Sleeps for about `length`, and may wake early or late: by a signal, by the kernel.
    fn sleep(&mut self, length: Nanos) {
        sleep(length);
    }

    /// Takes over a better slope, where the clock has one. Called between operations.
    fn refine(&mut self) {}
}

/// Reads `CLOCK_MONOTONIC` [ns].
#[must_use]
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Reads `CLOCK_REALTIME` [ns since 1970].
#[must_use]
pub fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec, and both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Sleeps for about `length` by `clock_nanosleep`, which wakes from the timer interrupt itself.
pub fn sleep(length: Nanos) {
    let time = libc::timespec {
        tv_sec: i64::try_from(length.0 / 1_000_000_000).unwrap_or(i64::MAX),
        #[allow(clippy::cast_possible_wrap)] // below 1e9
        tv_nsec: (length.0 % 1_000_000_000) as i64,
    };
    // SAFETY: `time` is a valid timespec; the remainder is not asked for.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &time, std::ptr::null_mut()) };
}

/// `CLOCK_MONOTONIC`, counted from the start of the run.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic {
    zero_ns: u64,
}

impl Monotonic {
    /// Returns a clock that reads zero at `zero_ns` of `CLOCK_MONOTONIC`, and before it.
    #[must_use]
    pub fn starting_at(zero_ns: u64) -> Self {
        Self { zero_ns }
    }
}

impl Clock for Monotonic {
    fn now(&mut self) -> Nanos {
        Nanos(monotonic_ns().saturating_sub(self.zero_ns))
    }
}

/// A clock that moves only when someone sleeps on it. Copies show the same time.
#[derive(Clone, Debug, Default)]
pub struct Virtual {
    time: Rc<Cell<u64>>,
    cost: u64,
}

impl Virtual {
    /// Returns a clock at zero of which every reading takes `cost`: a generator of limited speed.
    #[must_use]
    pub fn with_cost(cost: Nanos) -> Self {
        Self {
            time: Rc::default(),
            cost: cost.0,
        }
    }

    /// Moves the time forward by `length`.
    pub fn advance(&self, length: Nanos) {
        self.time.set(self.time.get().saturating_add(length.0));
    }
}

impl Clock for Virtual {
    fn now(&mut self) -> Nanos {
        let time = self.time.get();
        self.time.set(time + self.cost);
        Nanos(time)
    }

    fn sleep(&mut self, length: Nanos) {
        self.advance(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_virtual_clock_show_the_same_time() {
        let mut one = Virtual::default();
        let mut other = one.clone();
        one.sleep(Nanos(5));
        assert_eq!((one.now(), other.now()), (Nanos(5), Nanos(5)));
    }

    #[test]
    fn before_the_start_it_is_zero() {
        let mut clock = Monotonic::starting_at(monotonic_ns() + 1_000_000_000_000);
        assert_eq!(clock.now(), Nanos::ZERO);
    }

    #[test]
    fn the_kernels_clock_never_steps_back() {
        let mut clock = Monotonic::starting_at(monotonic_ns());
        let times: Vec<_> = (0..1000).map(|_| clock.now()).collect();
        assert!(times.is_sorted());
    }
}
