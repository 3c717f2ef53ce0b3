//! Which processes belong to a tree: one process and everything it begins.

use super::event::Line;
use std::collections::HashSet;
use std::fs;

/// The processes and threads of a tree, kept up to date by fork events.
#[derive(Debug)]
pub struct Tree(HashSet<u32>);

impl Tree {
    /// Returns the tree of `root` as /proc shows it now. Forks from before the first event and
    /// after this reading are lost; so begin recording forks first.
    #[must_use]
    pub fn of(root: u32) -> Self {
        let mut members = HashSet::new();
        let mut unread = vec![root];
        while let Some(process) = unread.pop() {
            if members.insert(process) {
                for thread in threads(process) {
                    members.insert(thread);
                    unread.extend(children(process, thread));
                }
            }
        }
        Self(members)
    }

    /// Follows a fork: the child of a member is a member.
    pub fn follow(&mut self, line: &Line) {
        if let Line::Fork { parent, child } = line
            && self.0.contains(parent)
        {
            self.0.insert(*child);
        }
    }

    /// Returns whether the process or thread is a member.
    #[must_use]
    pub fn has(&self, pid: u32) -> bool {
        self.0.contains(&pid)
    }
}

fn threads(process: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

fn children(process: u32, thread: u32) -> Vec<u32> {
    fs::read_to_string(format!("/proc/{process}/task/{thread}/children"))
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_that_runs_already_and_one_that_is_begun_later_are_members() {
        let mut child = Command::new("sleep")
            .arg("60")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut tree = Tree::of(std::process::id());
        assert!(tree.has(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        tree.follow(&Line::Fork {
            parent: child.id(),
            child: 4_000_001,
        });
        tree.follow(&Line::Fork {
            parent: 4_000_009,
            child: 4_000_002,
        });
        assert!(tree.has(4_000_001));
        assert!(!tree.has(4_000_002));
    }
}
