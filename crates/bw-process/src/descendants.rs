//! Who descends from this process: found in /proc, told apart by pid and start time.
//!
//! As a subreaper this process inherits every orphan below it, so what a trial started,
//! double-forked daemons too, hangs below it until it ends. Decision: walk the `children`
//! files, which costs in proportion to our own tree; a scan of all of /proc is the way out
//! where the kernel has none of them (CONFIG_PROC_CHILDREN). A cgroup lost: it needs rights
//! that a benchmark in a container does not have.
//! Sources: proc(5), prctl(2) PR_SET_CHILD_SUBREAPER.

use std::collections::HashMap;
use std::fs;

/// A process, not to be mistaken for a later one with its pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Process id.
    pub pid: libc::pid_t,
    /// Start time since boot [clock ticks].
    pub started: u64,
}

struct Stat {
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
    let mut table = Table::new(own);
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
enum Table {
    Lists,
    Scan(HashMap<libc::pid_t, Vec<libc::pid_t>>),
}

impl Table {
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

fn read_stat(pid: libc::pid_t) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&text)
}

/// The name may hold anything, `)` too: fields are counted from the last one.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&text[end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Stat {
        gone: matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
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
