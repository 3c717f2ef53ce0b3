//! Processes in /proc: their `stat`, their children, their threads. Sources: proc_pid_stat(5), proc_tid_children(5).

use crate::process::ProcessId;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The identity of a process, from `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identification {
    /// The parent's process id.
    pub parent: ProcessId,
    /// Start time since boot [clock ticks]: distinguishes a process from a later one with its pid.
    pub started: u64,
    /// Whether the process has ended and was not collected: a zombie.
    pub gone: bool,
}

/// Returns the identity; None if there is no such process.
#[must_use]
pub fn identify(pid: ProcessId) -> Option<Identification> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&text)
}

/// Splits a `stat` into the name and the fields after it. A name may contain anything, also brackets and blanks, so
/// the last bracket ends it.
#[must_use]
pub fn split_stat(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let begin = text.iter().position(|&byte| byte == b'(')?;
    let end = text.iter().rposition(|&byte| byte == b')')?;
    Some((text.get(begin + 1..end)?, &text[end + 1..]))
}

fn parse_stat(text: &[u8]) -> Option<Identification> {
    let (_, rest) = split_stat(text)?;
    let mut fields = std::str::from_utf8(rest).ok()?.split_whitespace();
    let gone = matches!(fields.next()?, "Z" | "X" | "x");
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Identification {
        parent,
        started,
        gone,
    })
}

/// Returns whether there is no such process, or only a zombie.
#[must_use]
pub fn is_gone(pid: ProcessId) -> bool {
    identify(pid).is_none_or(|found| found.gone)
}

/// Returns the entries of a directory that are numbers, in order: processes in /proc, threads in a `task` directory.
#[must_use]
pub fn numbers(directory: &Path) -> Vec<ProcessId> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<ProcessId> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    found.sort_unstable();
    found
}

/// Returns the threads of a process.
#[must_use]
pub fn threads(pid: ProcessId) -> Vec<ProcessId> {
    numbers(Path::new(&format!("/proc/{pid}/task")))
}

/// Returns the children of a process by the kernel's lists; empty if the kernel does not provide them.
#[must_use]
pub fn listed_children(pid: ProcessId) -> Vec<ProcessId> {
    let mut found = Vec::new();
    for thread in threads(pid) {
        let list = fs::read_to_string(format!("/proc/{pid}/task/{thread}/children"));
        let list = list.unwrap_or_default();
        found.extend(list.split_whitespace().flat_map(str::parse::<ProcessId>));
    }
    found
}

/// The source of children.
///
/// Decision: the `children` files, whose cost is proportional to one's own tree; if the kernel does not provide them
/// (CONFIG_PROC_CHILDREN), one scan of all of /proc.
#[derive(Debug)]
pub enum Children {
    /// The kernel's lists.
    Lists,
    /// One scan of /proc: the children of each parent.
    Scan(HashMap<ProcessId, Vec<ProcessId>>),
}

impl Children {
    /// Returns the lists if the kernel provides them, as tested with this process, otherwise a scan.
    #[must_use]
    pub fn now() -> Self {
        if Path::new("/proc/thread-self/children").exists() {
            return Self::Lists;
        }
        Self::scan()
    }

    /// Returns a scan of /proc.
    #[must_use]
    pub(crate) fn scan() -> Self {
        let mut map: HashMap<_, Vec<_>> = HashMap::new();
        for pid in numbers(Path::new("/proc")) {
            if let Some(found) = identify(pid) {
                map.entry(found.parent).or_default().push(pid);
            }
        }
        Self::Scan(map)
    }

    /// Returns the children of a process; a scan gives each only once.
    pub fn of(&mut self, pid: ProcessId) -> Vec<ProcessId> {
        match self {
            Self::Lists => listed_children(pid),
            Self::Scan(map) => map.remove(&pid).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::own_id;
    use std::io::Write as _;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let text = b"7 (a) Z 1) S 3 7 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9";
        let found = parse_stat(text).unwrap();
        assert_eq!((found.parent, found.started, found.gone), (3, 4242, false));
        assert_eq!(parse_stat(b") x ("), None);
    }

    #[test]
    fn lists_and_scan_agree_about_a_child() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = ProcessId::try_from(child.id()).unwrap();
        let scanned = Children::scan().of(own_id());
        let listed = listed_children(own_id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(scanned.contains(&pid));
        if listed.is_empty() {
            let why = "skipped: this kernel has no /proc/PID/task/TID/children";
            writeln!(std::io::stderr(), "{why}").unwrap();
        } else {
            assert!(listed.contains(&pid));
        }
    }
}
