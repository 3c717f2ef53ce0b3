//! Ends every descendant that is not spared, and does not return before they are gone.
//!
//! SIGTERM, a grace, then SIGSTOP to all before SIGKILL to all: a fork storm that is only
//! killed one by one outruns its killer, one that is stopped does not fork.
//! Sources: pidfd_send_signal(2), kill(2).

use std::os::fd::{AsRawFd, OwnedFd};

use crate::clock::monotonic_ns;
use crate::control::readable;
use crate::descendants::{Identity, descendants, lives};
use crate::pidfd;
use crate::wait::{Process, poll, reap};

/// After this long SIGKILL is thought not to help (uninterruptible sleep) [ns].
const HOPELESS_NS: u64 = 10_000_000_000;
const LOOK_AGAIN_NS: u64 = 50_000_000;
const STOP_ROUNDS: usize = 1000;

/// What became of descendants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Left {
    /// So many had to be ended.
    pub ended: u32,
    /// So many still run: they belong to another user, and we may not signal them.
    pub not_permitted: u32,
}

impl Left {
    /// Says on stderr what still runs: at the end of everything there is no record to say it in.
    pub fn complain(self) {
        if self.not_permitted > 0 {
            eprintln!(
                "bw-launcher: {} processes belong to another user and still run",
                self.not_permitted
            );
        }
    }
}

/// Ends what descends from this process and is not spared. `processes` whose end is seen
/// on the way get their `ended`.
pub fn end_descendants(spared: &[Identity], grace_ns: u64, processes: &mut [Process]) -> Left {
    if !reap(processes) {
        return Left::default();
    }
    let mut asked = Vec::new();
    ask(spared, grace_ns, processes, &mut asked);
    let not_permitted = kill(spared, processes, &mut asked);
    Left {
        ended: asked.len() as u32,
        not_permitted: not_permitted as u32,
    }
}

/// SIGTERM to each, then waits for them at most `grace_ns`: also for those that we may not signal, which may end
/// because their parents did.
fn ask(spared: &[Identity], grace_ns: u64, processes: &mut [Process], asked: &mut Vec<Identity>) {
    let deadline = monotonic_ns().saturating_add(grace_ns);
    loop {
        let mut waiting = Vec::new();
        for identity in descendants(spared) {
            let Some(process) = hold(identity) else {
                continue;
            };
            if !asked.contains(&identity) && pidfd::send(&process, libc::SIGTERM) {
                asked.push(identity);
                pidfd::send(&process, libc::SIGCONT);
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

/// SIGSTOP to all until there is no new one, SIGKILL to all; again until none is left but those that we may
/// not signal: returns how many these are.
fn kill(spared: &[Identity], processes: &mut [Process], ended: &mut Vec<Identity>) -> usize {
    let deadline = monotonic_ns() + HOPELESS_NS;
    loop {
        reap(processes);
        let (stopped, not_permitted) = stop_all(spared);
        if stopped.is_empty() {
            return not_permitted;
        }
        for (identity, process) in &stopped {
            pidfd::send(process, libc::SIGKILL);
            if !ended.contains(identity) {
                ended.push(*identity);
            }
        }
        if monotonic_ns() >= deadline {
            eprintln!("bw-launcher: {} processes survive SIGKILL", stopped.len());
            return not_permitted;
        }
        let waiting: Vec<OwnedFd> = stopped.into_iter().map(|(_, process)| process).collect();
        wait_for_any(&waiting, deadline);
    }
}

/// Returns those that were stopped, and how many we may not signal.
fn stop_all(spared: &[Identity]) -> (Vec<(Identity, OwnedFd)>, usize) {
    let mut stopped: Vec<(Identity, OwnedFd)> = Vec::new();
    let mut not_permitted = 0;
    for _ in 0..STOP_ROUNDS {
        let before = stopped.len();
        not_permitted = 0;
        for identity in descendants(spared) {
            if stopped.iter().any(|(known, _)| *known == identity) {
                continue;
            }
            match hold(identity) {
                Some(process) if pidfd::send(&process, libc::SIGSTOP) => {
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

/// Opens a process, making sure that its pid has not passed to another.
fn hold(identity: Identity) -> Option<OwnedFd> {
    let process = pidfd::open(identity.pid).ok()?;
    lives(identity).then_some(process)
}

fn wait_for_any(processes: &[OwnedFd], deadline_ns: u64) {
    let mut fds: Vec<_> = processes.iter().map(|p| readable(p.as_raw_fd())).collect();
    let soon = monotonic_ns() + LOOK_AGAIN_NS;
    poll(&mut fds, Some(deadline_ns.min(soon)));
}
