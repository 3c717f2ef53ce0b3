//! The engine as a process: pinning, locked memory, real-time priority, signals, and panics.
//!
//! Decisions. What is unavailable is reported in the result and the run goes on, except what the user asked for by name
//! (a CPU, a priority). `SCHED_FIFO` is refused where the kernel's real-time throttle would stop a spinning worker: 50 ms
//! of every second, a p98 of 30 ms measured. Sources: sched(7), mlockall(2), prctl(2).
//!
//! SIGINT, SIGTERM and SIGHUP: the first ends the run early, the second does not even wait for what is in flight, the
//! third ends the process, whatever it waits for (the writer of a FIFO, a disk that hangs). A handler counts and the
//! reporter looks: nothing else may be done in a handler, and a worker must not have to poll a descriptor.
//!
//! A panic in any thread is still exactly one answer: a panic hook, since the shipped program aborts on a panic and does
//! not unwind, writes the error and ends the process; a worker that is gone would be waited for forever.

use crate::request::{LoadRequest, Pacer};
use crate::trouble::Trouble;
use serde::Serialize;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::{fs, io};

/// What was to be had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EnvironmentReport {
    /// Whether memory is locked.
    pub memory_locked: bool,
    /// The real-time priority of the workers.
    pub fifo: Option<u8>,
    /// What was not to be had, each with its reason.
    pub absent: Vec<String>,
}

/// Locks memory, and makes sure that a real-time priority does no harm.
///
/// # Errors
/// `fifo-throttled`: the kernel would stop the spinning workers.
pub fn prepare_process(request: &LoadRequest) -> Result<EnvironmentReport, Trouble> {
    let mut report = EnvironmentReport {
        fifo: request.fifo,
        ..EnvironmentReport::default()
    };
    let spins = matches!(request.pacer, Pacer::Spin | Pacer::DedClock);
    if let Some(why) = throttle().filter(|_| request.fifo.is_some() && spins) {
        let remedy =
            "set it aside with 'sysctl kernel.sched_rt_runtime_us=-1', or leave the priority out";
        return Err(Trouble::request("fifo-throttled", why, remedy));
    }
    if !request.lock_memory {
        report.absent.push("mlockall: not asked for".to_owned());
    } else if let Err(error) = lock_memory() {
        report.absent.push(format!("mlockall: {error}"));
    } else {
        report.memory_locked = true;
    }
    Ok(report)
}

/// Binds the calling thread to one processor.
///
/// # Errors
/// There is no such processor, or this process may not use it.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: a cpu_set_t of zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is below CPU_SETSIZE.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is valid and its size is given; 0 is the calling thread.
    succeed(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) })
}

/// Binds the calling thread to one processor, or says what is wrong with it.
///
/// # Errors
/// `no-such-cpu`.
pub fn take_cpu(cpu: usize) -> Result<(), Trouble> {
    pin(cpu).map_err(|error| {
        let message = format!("processor {cpu} cannot be had: {error}");
        Trouble::request(
            "no-such-cpu",
            message,
            "name processors that this process may use",
        )
    })
}

/// Locks all memory of the process, now and later: no page fault in a run.
///
/// # Errors
/// Not permitted, or not without a limit: under one, memory that a run needs later would not
/// be locked but refused, and end the process.
pub fn lock_memory() -> io::Result<()> {
    match lock_limit()? {
        Some(bytes) if !may_lock(bytes) => Err(io::Error::other(format!(
            "no more than {} KiB may be locked (ulimit -l)",
            bytes / 1024
        ))),
        _ => {
            // SAFETY: flags only.
            succeed(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) })
        }
    }
}

/// Returns how much memory may be locked without a privilege [bytes]; None for no limit.
fn lock_limit() -> io::Result<Option<u64>> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes to the limit, which is ours.
    succeed(unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) })?;
    Ok((limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur))
}

/// Returns whether more than `limit` bytes may be locked all the same, by trying with addresses
/// that have no memory behind them. A capability in /proc tells less: in a container it may be void.
fn may_lock(limit: u64) -> bool {
    let Ok(length) = usize::try_from(limit.saturating_add(1 << 20)) else {
        return false;
    };
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice, which nobody can read or write.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_NONE, kind, -1, 0) };
    if base == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: our own mapping, of that length; pages would be locked when they are touched: never.
    let locked = unsafe { libc::mlock2(base, length, libc::MLOCK_ONFAULT as libc::c_uint) };
    // SAFETY: our own mapping, which nobody has the address of.
    unsafe { libc::munmap(base, length) };
    locked == 0
}

/// Lets the calling thread's sleeps end when they are due: the kernel delays them by 50 us else.
///
/// # Errors
/// Never, on a Linux of this century.
pub fn sharpen_timers() -> io::Result<()> {
    // SAFETY: integers only.
    succeed(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0_u64, 0_u64, 0_u64) })
}

/// Returns the process that started this one, or another one if that is dead by now: to be called
/// first of all.
#[must_use]
pub fn parent() -> libc::pid_t {
    // SAFETY: no arguments.
    unsafe { libc::getppid() }
}

/// Has this process killed when `parent` dies.
///
/// # Errors
/// The parent died before the kernel was told: nothing would end this process with it.
pub fn die_with_parent(parent: libc::pid_t) -> io::Result<()> {
    let signal = libc::SIGKILL as u64;
    // SAFETY: integers only.
    succeed(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0_u64, 0_u64, 0_u64) })?;
    if self::parent() == parent {
        Ok(())
    } else {
        Err(io::Error::other("the parent died"))
    }
}

/// Gives the calling thread a real-time priority.
///
/// # Errors
/// Not permitted.
pub fn set_fifo(priority: u8) -> io::Result<()> {
    let parameter = libc::sched_param {
        sched_priority: i32::from(priority),
    };
    // SAFETY: the parameter is valid; 0 is the calling thread.
    succeed(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) })
}

/// Returns why a spinning worker must not have a real-time priority here; None if it may.
#[must_use]
pub fn throttle() -> Option<String> {
    let read = |name| fs::read_to_string(format!("/proc/sys/kernel/{name}"));
    let number = |name| read(name).ok()?.trim().parse::<i64>().ok();
    throttled(
        number("sched_rt_runtime_us")?,
        number("sched_rt_period_us")?,
    )
}

fn throttled(runtime_us: i64, period_us: i64) -> Option<String> {
    (runtime_us >= 0 && runtime_us < period_us).then(|| {
        format!(
            "the kernel stops a real-time thread that spins for {} ms of every {} ms \
             (sched_rt_runtime_us is {runtime_us})",
            (period_us - runtime_us) / 1000,
            period_us / 1000
        )
    })
}

fn succeed(status: libc::c_int) -> io::Result<()> {
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

static CAUGHT: AtomicU8 = AtomicU8::new(0);

/// The exit status of a process that the third one ends.
const INTERRUPTED: libc::c_int = 130;

extern "C" fn count(_signal: libc::c_int) {
    if CAUGHT.fetch_add(1, Ordering::Relaxed) >= 2 {
        // SAFETY: it ends the process, and is one of the calls that a handler may make.
        unsafe { libc::_exit(INTERRUPTED) };
    }
}

/// Counts SIGINT, SIGTERM and SIGHUP from now on, instead of dying of them. System calls go on. A write past
/// the limit of file sizes (`ulimit -f`) is an error of that write, as on a full disk.
pub fn catch() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: a sigaction of zeros has an empty mask and no flags.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = count as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the action is valid; its handler adds to an atomic, or ends the process.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, &action, &raw mut before);
            // nohup: a hang-up that the caller ignores is ignored here too.
            if signal == libc::SIGHUP && before.sa_sigaction == libc::SIG_IGN {
                libc::sigaction(signal, &raw const before, std::ptr::null_mut());
            }
        }
    }
    // SAFETY: to ignore a signal touches no memory.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Returns how many of them came.
#[must_use]
pub fn caught() -> u8 {
    CAUGHT.load(Ordering::Relaxed)
}

static BEGUN: AtomicBool = AtomicBool::new(false);

/// From now on a panic in any thread is given to `say`, and ends the process with the trouble's status.
pub fn answer_with(say: fn(&Trouble)) {
    let on_stderr = take_hook();
    set_hook(Box::new(move |panic| {
        if BEGUN.swap(true, Ordering::SeqCst) {
            // Another thread's panic came first and ends the process.
            loop {
                std::thread::park();
            }
        }
        on_stderr(panic);
        let trouble = panic_error(panic);
        say(&trouble);
        // SAFETY: it ends the process; nothing of ours is to be done at its end.
        unsafe { libc::_exit(trouble.status) };
    }));
}

fn panic_error(panic: &PanicHookInfo<'_>) -> Trouble {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a thread");
    let payload = panic.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    let what = text.unwrap_or("no message");
    let place = panic.location().map(ToString::to_string);
    let place = place.unwrap_or_default();
    Trouble::operating(
        "engine-panic",
        format!("the engine met a defect of its own in {name} and has ended: {what} ({place})"),
        "please report this, with the request",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_throttle_is_off_at_minus_one_and_at_the_whole_period() {
        assert!(throttled(-1, 1_000_000).is_none());
        assert!(throttled(1_000_000, 1_000_000).is_none());
        let told = throttled(950_000, 1_000_000).unwrap();
        assert!(told.contains("50 ms of every 1000 ms"), "{told}");
    }

    #[test]
    fn a_processor_that_is_none_is_refused() {
        assert!(pin(1023).is_err());
        assert!(pin(usize::MAX).is_err());
    }

    #[test]
    fn a_parent_that_is_dead_already_is_told() {
        assert!(die_with_parent(parent()).is_ok());
        // No process has the number 0.
        assert!(die_with_parent(0).is_err());
        // SAFETY: integers only. The tests are not to die with who started them.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0_u64, 0_u64, 0_u64, 0_u64) };
    }
}
