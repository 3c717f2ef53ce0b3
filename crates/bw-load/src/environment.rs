//! The engine as a process: pinning, locked memory, real-time priority, signals, and panics.
//!
//! Decisions. What is unavailable is reported in the result and the run continues, except what the user requested by
//! name (a CPU, a priority). `SCHED_FIFO` is refused where the kernel's real-time throttle would stop a spinning
//! worker: 50 ms of every second, a p98 of 30 ms measured. Sources: sched(7), mlockall(2), prctl(2).
//!
//! SIGINT, SIGTERM and SIGHUP: the first ends the run early; the second ends it without waiting for operations in
//! flight; the third ends the process, whatever it waits for (the writer of a FIFO, a disk that hangs). The handler
//! only counts, and the reporter reads the count: a handler may do nothing else, and a worker must not poll descriptors.
//!
//! A panic in any thread still produces exactly one answer. The shipped program aborts on a panic instead of
//! unwinding, so a panic hook writes the error and ends the process. Otherwise the run would wait for the lost worker.

use crate::request::{LoadRequest, Pacer};
use bw_model::EngineError;
use bw_sys::process::exit_now;
use bw_sys::signals::{self, Disposition};
use serde::Serialize;
use std::fs;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, Ordering};

/// Which features of the environment are in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EnvironmentReport {
    /// Whether memory is locked.
    pub memory_locked: bool,
    /// The real-time priority of the workers.
    pub fifo: Option<u8>,
    /// What is unavailable, each with its reason.
    pub absent: Vec<String>,
}

/// Locks memory, and checks that a real-time priority does no harm.
///
/// # Errors
/// `fifo-throttled`: the kernel would stop the spinning workers.
pub(crate) fn prepare_process(request: &LoadRequest) -> Result<EnvironmentReport, EngineError> {
    let mut report = EnvironmentReport {
        fifo: request.fifo,
        ..EnvironmentReport::default()
    };
    let spins = matches!(request.pacer, Pacer::Spin | Pacer::DedClock);
    if let Some(why) = throttle().filter(|_| request.fifo.is_some() && spins) {
        let remedy =
            "set it aside with 'sysctl kernel.sched_rt_runtime_us=-1', or leave the priority out";
        return Err(EngineError::request("fifo-throttled", why, remedy));
    }
    if !request.lock_memory {
        report.absent.push("mlockall: not requested".to_owned());
    } else if let Err(error) = bw_sys::memory::lock_all() {
        report.absent.push(format!("mlockall: {error}"));
    } else {
        report.memory_locked = true;
    }
    Ok(report)
}

/// Binds the calling thread to one CPU.
///
/// # Errors
/// `no-such-cpu`.
pub fn take_cpu(cpu: usize) -> Result<(), EngineError> {
    bw_sys::cpus::pin(cpu).map_err(|error| {
        let message = format!("CPU {cpu} cannot be used: {error}");
        EngineError::request(
            "no-such-cpu",
            message,
            "name CPUs that this process may use",
        )
    })
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

/// Counts SIGINT, SIGTERM and SIGHUP from now on, instead of ending the process. System calls are restarted. A write
/// beyond the file size limit (`ulimit -f`) is an error of that write, as on a full disk.
pub fn catch_signals() {
    let ending = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
    signals::count_caught(&ending, Some(3));
    signals::set_disposition(libc::SIGXFSZ, Disposition::Ignore);
}

static BEGUN: AtomicBool = AtomicBool::new(false);

/// From now on a panic in any thread is passed to `say`, and ends the process with the error's status.
pub fn on_panic(say: fn(&EngineError)) {
    let on_stderr = take_hook();
    set_hook(Box::new(move |panic| {
        if BEGUN.swap(true, Ordering::SeqCst) {
            // Another thread's panic came first and ends the process.
            loop {
                std::thread::park();
            }
        }
        on_stderr(panic);
        let error = panic_error(panic);
        say(&error);
        exit_now(error.status);
    }));
}

fn panic_error(panic: &PanicHookInfo<'_>) -> EngineError {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a thread");
    let payload = panic.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    let what = text.unwrap_or("no message");
    let place = panic.location().map(ToString::to_string);
    let place = place.unwrap_or_default();
    EngineError::operating(
        "engine-panic",
        format!("an internal error in {name} ended the engine: {what} ({place})"),
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
        let text = throttled(950_000, 1_000_000).unwrap();
        assert!(text.contains("50 ms of every 1000 ms"), "{text}");
    }
}
