//! The descendants of this process: finds them in /proc by pid and start time, and ends those that are left.
//!
//! As a subreaper this process inherits every orphan below it, so whatever a trial started, double-forked daemons
//! included, stays below it until it ends. To end them: SIGTERM, a grace period, then SIGSTOP to all before SIGKILL to
//! all. Processes that fork in a loop outrun a killer that kills one by one; a stopped process does not fork.
//! Rejected: a cgroup, which needs rights that a benchmark in a container does not have.
//! Sources: proc(5), prctl(2) PR_SET_CHILD_SUBREAPER, pidfd_send_signal(2), kill(2).

use crate::clock::monotonic_ns;
use crate::control::readable;
use crate::pidfd;
use crate::wait::{ChildProcess, poll, reap};
use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};

/// A process, not to be mistaken for a later one with its pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Process id.
    pub pid: libc::pid_t,
    /// Start time since boot [clock ticks].
    pub started: u64,
}

struct ProcessStat2 {
    parent: libc::pid_t,
    started: u64,
    gone: bool,
}

/// Makes this process inherit its orphaned descendants.
pub fn become_subreaper() {
    // SAFETY: integer arguments only.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// Returns every living descendant, except those in `spared` and what is below these.
pub fn descendants(spared: &[Identity]) -> Vec<Identity> {
    let own = std::process::id() as libc::pid_t;
    let mut table = ChildTable::new(own);
    let mut found = Vec::new();
    let mut open = table.children(own);
    while let Some(pid) = open.pop() {
        let Some(stat) = read_stat(pid) else { continue };
        let started = stat.started;
        let identity = Identity { pid, started };
        if stat.gone || spared.contains(&identity) {
            continue;
        }
        found.push(identity);
        open.extend(table.children(pid));
    }
    found
}

/// Returns whether the process is still the same and alive.
pub fn lives(identity: Identity) -> bool {
    read_stat(identity.pid).is_some_and(|stat| !stat.gone && stat.started == identity.started)
}

/// Returns whether there is no such process, or only its remains.
pub fn is_gone(pid: libc::pid_t) -> bool {
    read_stat(pid).is_none_or(|stat| stat.gone)
}

/// Where children are looked up: the kernel's lists, or one scan of /proc.
enum ChildTable {
    Lists,
    Scan(HashMap<libc::pid_t, Vec<libc::pid_t>>),
}

impl ChildTable {
    fn new(own: libc::pid_t) -> Self {
        if fs::exists(format!("/proc/{own}/task/{own}/children")).unwrap_or(false) {
            return Self::Lists;
        }
        Self::Scan(scan())
    }

    fn children(&mut self, pid: libc::pid_t) -> Vec<libc::pid_t> {
        match self {
            Self::Lists => listed_children(pid),
            Self::Scan(map) => map.remove(&pid).unwrap_or_default(),
        }
    }
}

fn listed_children(pid: libc::pid_t) -> Vec<libc::pid_t> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists = tasks.flatten().filter_map(|task| {
        let list = fs::read_to_string(task.path().join("children")).ok()?;
        Some(list.split_whitespace().flat_map(str::parse).collect())
    });
    lists.collect::<Vec<Vec<_>>>().concat()
}

fn scan() -> HashMap<libc::pid_t, Vec<libc::pid_t>> {
    let mut map: HashMap<_, Vec<_>> = HashMap::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        if let Some(stat) = read_stat(pid) {
            map.entry(stat.parent).or_default().push(pid);
        }
    }
    map
}

fn read_stat(pid: libc::pid_t) -> Option<ProcessStat2> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&text)
}

/// The name may hold anything, `)` too: fields are counted from the last one.
fn parse_stat(text: &[u8]) -> Option<ProcessStat2> {
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(ProcessStat2 {
        gone: matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

/// After this long SIGKILL is thought not to help (uninterruptible sleep) [ns].
const HOPELESS_NS: u64 = 10_000_000_000;
const LOOK_AGAIN_NS: u64 = 50_000_000;
const STOP_ROUNDS: usize = 1000;

/// What became of descendants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndedDescendants {
    /// So many had to be ended.
    pub ended: u32,
    /// So many still run: they belong to another user, and we may not signal them.
    pub not_permitted: u32,
}

impl EndedDescendants {
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
pub fn end_descendants(
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

/// SIGTERM to each, then waits for them at most `grace_ns`: also for those that we may not signal, which may end
/// because their parents did.
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
fn kill(spared: &[Identity], processes: &mut [ChildProcess], ended: &mut Vec<Identity>) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let text = b"7 (a) Z 1) S 3 7 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.parent, stat.started, stat.gone), (3, 4242, false));
    }

    #[test]
    fn lists_and_scan_agree_about_a_child() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = child.id() as libc::pid_t;
        let own = std::process::id() as libc::pid_t;
        let scanned = scan().remove(&own).unwrap_or_default();
        let listed = listed_children(own);
        let found = descendants(&[]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(scanned.contains(&pid));
        assert!(found.iter().any(|identity| identity.pid == pid));
        if listed.is_empty() {
            writeln!(
                std::io::stderr(),
                "skipped: this kernel has no /proc/PID/task/TID/children"
            )
            .unwrap();
        } else {
            assert!(listed.contains(&pid));
        }
    }
}
