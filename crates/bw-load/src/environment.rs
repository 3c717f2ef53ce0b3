//! What is asked of the machine for the whole process, before anything runs.

use crate::request::{LoadRequest, Pacer};
use crate::seat;
use crate::trouble::Trouble;
use serde::Serialize;

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
pub fn prepare(request: &LoadRequest) -> Result<EnvironmentReport, Trouble> {
    let mut report = EnvironmentReport {
        fifo: request.fifo,
        ..EnvironmentReport::default()
    };
    let spins = matches!(request.pacer, Pacer::Spin | Pacer::DedClock);
    if let Some(why) = seat::throttle().filter(|_| request.fifo.is_some() && spins) {
        let remedy =
            "set it aside with 'sysctl kernel.sched_rt_runtime_us=-1', or leave the priority out";
        return Err(Trouble::request("fifo-throttled", why, remedy));
    }
    if !request.lock_memory {
        report.absent.push("mlockall: not asked for".to_owned());
    } else if let Err(error) = seat::lock_memory() {
        report.absent.push(format!("mlockall: {error}"));
    } else {
        report.memory_locked = true;
    }
    Ok(report)
}
