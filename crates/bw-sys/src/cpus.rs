//! CPUs and how the scheduler treats the calling thread: affinity, priority, timer slack.
//!
//! Sources: sched(7), sched_setaffinity(2), sched_setscheduler(2), setpriority(2), prctl(2) PR_SET_TIMERSLACK.

use crate::checked;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use std::io;
use std::num::NonZeroU64;

/// The CPUs that a thread may run on.
#[derive(Clone, Debug)]
pub struct Affinity(CpuSet);

impl Affinity {
    /// Returns the CPUs that the calling thread may run on; all permitted CPUs if the kernel does not report them.
    #[must_use]
    pub fn current() -> Self {
        Self(sched_getaffinity(None).unwrap_or_default())
    }

    /// Returns the CPUs that a thread may run on; None if it has ended, or the kernel does not report them.
    #[must_use]
    pub fn of(tid: i32) -> Option<Self> {
        sched_getaffinity(Some(Pid::from_raw(tid)?)).ok().map(Self)
    }

    /// Returns its CPUs, in order.
    pub fn cpus(&self) -> impl Iterator<Item = usize> {
        (0..CpuSet::MAX_CPU).filter(|cpu| self.0.is_set(*cpu))
    }

    /// Restricts the calling thread to these CPUs. Errors: as sched_setaffinity(2).
    pub fn apply(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.0)?)
    }
}

/// Binds the calling thread to one CPU.
///
/// # Errors
/// There is no such CPU, or this process may not use it.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Lets other threads run on this CPU first. Async-signal-safe.
pub fn yield_now() {
    rustix::thread::sched_yield();
}

/// Gives the calling thread a real-time priority (`SCHED_FIFO`).
///
/// # Errors
/// Not permitted.
pub fn set_fifo(priority: u8) -> io::Result<()> {
    set_policy(libc::SCHED_FIFO, priority)
}

/// Lets the calling thread run only while no thread of another policy wants its CPU (`SCHED_IDLE`).
///
/// # Errors
/// As sched_setscheduler(2); it needs no privilege.
pub fn set_idle() -> io::Result<()> {
    set_policy(libc::SCHED_IDLE, 0)
}

fn set_policy(policy: i32, priority: u8) -> io::Result<()> {
    let parameter = libc::sched_param {
        sched_priority: i32::from(priority),
    };
    // SAFETY: the parameter is valid and outlives the call; 0 is the calling thread.
    checked(unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) })?;
    Ok(())
}

/// Gives the calling thread a nice value. Errors: as setpriority(2); a higher one needs no privilege.
pub fn set_nice(nice: i32) -> io::Result<()> {
    // On Linux, 0 of PRIO_PROCESS is the calling thread.
    Ok(rustix::process::setpriority_process(None, nice)?)
}

/// How the scheduler treats a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// Its policy: `SCHED_OTHER`, `SCHED_IDLE`, `SCHED_FIFO` and so on.
    pub policy: &'static str,
    /// Its nice value, from -20 to 19; without effect under the real-time policies and `SCHED_IDLE`.
    pub nice: i32,
}

impl Scheduling {
    /// Returns how the kernel treats the calling thread.
    ///
    /// # Errors
    /// As sched_getscheduler(2) and getpriority(2).
    pub fn current() -> io::Result<Self> {
        // SAFETY: no memory is involved; 0 is the calling thread.
        let policy = checked(unsafe { libc::sched_getscheduler(0) })?;
        Ok(Self {
            policy: match policy & !libc::SCHED_RESET_ON_FORK {
                libc::SCHED_OTHER => "SCHED_OTHER",
                libc::SCHED_BATCH => "SCHED_BATCH",
                libc::SCHED_IDLE => "SCHED_IDLE",
                libc::SCHED_FIFO => "SCHED_FIFO",
                libc::SCHED_RR => "SCHED_RR",
                libc::SCHED_DEADLINE => "SCHED_DEADLINE",
                _ => "unknown",
            },
            nice: rustix::process::getpriority_process(None)?,
        })
    }
}

/// Lets the kernel end the calling thread's sleeps up to `slack_ns` late, to combine wake-ups; 50 us by default.
///
/// # Errors
/// A kernel without timer slack.
pub fn set_timer_slack(slack_ns: u64) -> io::Result<()> {
    Ok(set_current_timer_slack(NonZeroU64::new(slack_ns.max(1)))?)
}

/// `struct sched_attr` of sched_setattr(2), its first version.
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// `SCHED_FLAG_KEEP_POLICY`.
const KEEP_POLICY: u64 = 8;

/// Requests short time slices [ns]: from Linux 6.12 a thread with shorter slices is scheduled sooner, at no cost to the
/// share of others. Zero requests the usual ones. Older kernels ignore it; no privilege is needed.
pub fn ask_for_short_slices(slice_ns: u64) {
    let attributes = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: 0,
        flags: KEEP_POLICY,
        nice: rustix::process::getpriority_process(None).unwrap_or(0),
        priority: 0,
        runtime: slice_ns,
        deadline: 0,
        period: 0,
    };
    // SAFETY: a structure of the size that it states, which outlives the call.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0_u32) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_does_not_exist_is_refused() {
        assert!(pin(1023).is_err());
        assert!(pin(usize::MAX).is_err());
    }

    #[test]
    fn a_low_priority_is_the_threads_own() {
        let others = Scheduling::current().unwrap();
        let lowered = std::thread::spawn(|| {
            set_nice(19).unwrap();
            let nice = Scheduling::current().unwrap();
            set_idle().unwrap();
            (nice, Scheduling::current().unwrap().policy)
        });
        let (nice, policy) = lowered.join().unwrap();
        assert_eq!((nice.policy, nice.nice), (others.policy, 19));
        assert_eq!(policy, "SCHED_IDLE");
        assert_eq!(Scheduling::current().unwrap(), others);
    }

    #[test]
    fn the_cpus_are_those_of_the_process() {
        let count = std::thread::available_parallelism().unwrap().get();
        let allowed = Affinity::current().cpus().count();
        assert!(allowed >= count, "quotas may allow fewer, never more");
    }
}
