//! The descendants of this process: finds them in /proc by pid and start time, and ends those that are left running.
//!
//! As a subreaper this process inherits every orphan below it, so whatever a trial started, including double-forked
//! daemons, stays below it. To end descendants: SIGTERM, a grace period, then SIGSTOP to all before SIGKILL to
//! all. Processes that fork in a loop escape a killer that kills one by one; a stopped process does not fork.
//! Rejected: a cgroup, which needs privileges that a benchmark in a container does not have.
//! Sources: proc(5), prctl(2) PR_SET_CHILD_SUBREAPER, pidfd_send_signal(2), kill(2).

use crate::wait::{ChildProcess, poll, reap};
use bw_sys::clock::monotonic_ns;
use bw_sys::poll::readable;
use bw_sys::process::{ProcessFd, ProcessId, own_id};
use bw_sys::procfs::{Children, identify};
use std::os::fd::AsRawFd;

/// A process, distinguished from a later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Process id.
    pub pid: ProcessId,
    /// Start time since boot [clock ticks].
    pub started: u64,
}

/// Returns every living descendant, except those in `spared` and their own descendants.
pub(crate) fn descendants(spared: &[Identity]) -> Vec<Identity> {
    let mut table = Children::now();
    let mut found = Vec::new();
    let mut open = table.of(own_id());
    while let Some(pid) = open.pop() {
        let Some(stat) = identify(pid) else { continue };
        let started = stat.started;
        let identity = Identity { pid, started };
        if stat.gone || spared.contains(&identity) {
            continue;
        }
        found.push(identity);
        open.extend(table.of(pid));
    }
    found
}

/// Returns whether the process is still the same and alive.
pub(crate) fn lives(identity: Identity) -> bool {
    identify(identity.pid).is_some_and(|stat| !stat.gone && stat.started == identity.started)
}

/// After this time without success SIGKILL is given up (uninterruptible sleep) [ns].
const HOPELESS_NS: u64 = 10_000_000_000;
const LOOK_AGAIN_NS: u64 = 50_000_000;
const STOP_ROUNDS: usize = 1000;

/// The result of ending descendants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EndedDescendants {
    /// Number of processes that had to be ended.
    pub ended: u32,
    /// Number of processes that still run: they belong to another user, and we may not signal them.
    pub not_permitted: u32,
}

impl EndedDescendants {
    /// Reports on stderr what still runs, because no record follows at the end of the program.
    pub(crate) fn complain(self) {
        if self.not_permitted > 0 {
            eprintln!(
                "bw-launcher: {} processes belong to another user and still run",
                self.not_permitted
            );
        }
    }
}

/// Ends the descendants of this process that are not spared. Sets `ended` of those `processes`
/// that end meanwhile.
pub(crate) fn end_descendants(
    spared: &[Identity],
    grace_ns: u64,
    processes: &mut [ChildProcess],
) -> EndedDescendants {
    if !reap(processes) {
        return EndedDescendants::default();
    }
    let mut asked = Vec::new();
    ask(spared, grace_ns, processes, &mut asked);
    let not_permitted = kill(spared, processes, &mut asked);
    EndedDescendants {
        ended: asked.len() as u32,
        not_permitted: not_permitted as u32,
    }
}

/// Sends SIGTERM to each, then waits for them at most `grace_ns`: also for those that we may not signal, which may end
/// because their parents do.
fn ask(
    spared: &[Identity],
    grace_ns: u64,
    processes: &mut [ChildProcess],
    asked: &mut Vec<Identity>,
) {
    let deadline = monotonic_ns().saturating_add(grace_ns);
    loop {
        let mut waiting = Vec::new();
        for identity in descendants(spared) {
            let Some(process) = hold(identity) else {
                continue;
            };
            if !asked.contains(&identity) && process.send(libc::SIGTERM) {
                asked.push(identity);
                process.send(libc::SIGCONT);
            }
            waiting.push(process);
        }
        if waiting.is_empty() || monotonic_ns() >= deadline {
            return;
        }
        wait_for_any(&waiting, deadline);
        reap(processes);
    }
}

/// Sends SIGSTOP to all until there is no new one, then SIGKILL to all; repeats until only processes are left
/// that we may not signal, and returns their number.
fn kill(spared: &[Identity], processes: &mut [ChildProcess], ended: &mut Vec<Identity>) -> usize {
    let deadline = monotonic_ns() + HOPELESS_NS;
    loop {
        reap(processes);
        let (stopped, not_permitted) = stop_all(spared);
        if stopped.is_empty() {
            return not_permitted;
        }
        for (identity, process) in &stopped {
            process.send(libc::SIGKILL);
            if !ended.contains(identity) {
                ended.push(*identity);
            }
        }
        if monotonic_ns() >= deadline {
            eprintln!("bw-launcher: {} processes survive SIGKILL", stopped.len());
            return not_permitted;
        }
        let waiting: Vec<ProcessFd> = stopped.into_iter().map(|(_, process)| process).collect();
        wait_for_any(&waiting, deadline);
    }
}

/// Returns the stopped processes, and the number of those that we may not signal.
fn stop_all(spared: &[Identity]) -> (Vec<(Identity, ProcessFd)>, usize) {
    let mut stopped: Vec<(Identity, ProcessFd)> = Vec::new();
    let mut not_permitted = 0;
    for _ in 0..STOP_ROUNDS {
        let before = stopped.len();
        not_permitted = 0;
        for identity in descendants(spared) {
            if stopped.iter().any(|(known, _)| *known == identity) {
                continue;
            }
            match hold(identity) {
                Some(process) if process.send(libc::SIGSTOP) => {
                    stopped.push((identity, process));
                }
                Some(_) => not_permitted += 1,
                None => {}
            }
        }
        if stopped.len() == before {
            break;
        }
    }
    (stopped, not_permitted)
}

/// Opens a process, and verifies that its pid has not passed to another process.
fn hold(identity: Identity) -> Option<ProcessFd> {
    let process = ProcessFd::open(identity.pid).ok()?;
    lives(identity).then_some(process)
}

fn wait_for_any(processes: &[ProcessFd], deadline_ns: u64) {
    let mut fds: Vec<_> = processes.iter().map(|p| readable(p.as_raw_fd())).collect();
    let soon = monotonic_ns() + LOOK_AGAIN_NS;
    poll(&mut fds, Some(deadline_ns.min(soon)));
}
