//! Pipes and pairs of sockets whose other end only the process itself has: how event loops wake themselves up.
//!
//! Purpose: who waits for these waits for nobody else, and with a time limit it sleeps. A pipe is one's own if the process
//! has both ends of it open, a Unix socket if it has its peer; and if no other process of the tree has one of them: a queue
//! between processes is a pipe of which all have both ends after a fork. Decision: answers are kept as long as
//! the tree has the same processes, and are looked for at most 0.1 % of the time, because all open files of
//! the tree have to be listed; without an answer nothing is claimed. Only sockets of the sampler's own network namespace
//! are found. Sources: proc_pid_fd(5), sock_diag(7), the kernel's linux/unix_diag.h.

use crate::sockets::unix_peer;
use crate::system::{cpu_ns, each_open, monotonic_ns};
use crate::text::socket_inode;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Part of the elapsed time that may be spent [1/n], and the time that may be spent at any rate [ns].
const SHARE: i64 = 1000;
const AT_ANY_RATE_NS: i64 = 4_000_000;
/// Maximum number of open files that are listed for an answer.
const MOST_DESCRIPTORS: usize = 1024;

/// The answers so far.
#[derive(Debug, Default)]
pub(crate) struct OwnEnds {
    /// The processes of the tree.
    pids: Vec<i32>,
    /// By process and link: `pipe:[7]`, `socket:[8]`.
    known: HashMap<(i32, String), bool>,
    begin_ns: i64,
    spent_ns: i64,
}

impl OwnEnds {
    /// Takes the processes of the tree.
    pub(crate) fn note_processes(&mut self, pids: impl Iterator<Item = i32> + Clone) {
        if self.begin_ns == 0 {
            self.begin_ns = monotonic_ns();
        }
        if !pids.clone().eq(self.pids.iter().copied()) {
            self.pids = pids.collect();
            self.known.clear();
        }
    }

    /// Returns whether only this process has the other end of what `link` names; false if that is not known.
    pub(crate) fn has(&mut self, process: &Path, link: &str) -> bool {
        let Some(pid) = pid_of(process) else {
            return false;
        };
        let key = (pid, link.to_owned());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        if self.spent_ns > (monotonic_ns() - self.begin_ns) / SHARE + AT_ANY_RATE_NS {
            return false;
        }
        let before = cpu_ns();
        let found = self.look(process, pid, link);
        self.spent_ns += cpu_ns() - before;
        if self.known.len() >= MOST_DESCRIPTORS {
            self.known.clear();
        }
        self.known.insert(key, found);
        found
    }

    fn look(&self, process: &Path, pid: i32, link: &str) -> bool {
        let peer = match socket_inode(link) {
            None => None,
            Some(inode) => match unix_peer(inode) {
                Some(peer) => Some(format!("socket:[{peer}]")),
                None => return false,
            },
        };
        let ends = [Some(link), peer.as_deref()];
        let mut left = MOST_DESCRIPTORS;
        let (mut reads, mut writes, mut has_peer) = (false, false, false);
        let complete = each_open(process, &mut left, |name, path| {
            has_peer |= Some(name) == peer.as_deref();
            if peer.is_none() && name == link {
                let mode = open_mode(path);
                reads |= mode & 0o400 != 0;
                writes |= mode & 0o200 != 0;
            }
        });
        if !complete || !(has_peer || reads && writes) {
            return false;
        }
        self.pids
            .iter()
            .filter(|other| **other != pid)
            .all(|other| {
                let mut shares = false;
                let other = process.with_file_name(other.to_string());
                let complete = each_open(&other, &mut left, |name, _| {
                    shares |= ends.contains(&Some(name))
                });
                complete && !shares
            })
    }
}

fn pid_of(process: &Path) -> Option<i32> {
    process.file_name()?.to_str()?.parse().ok()
}

/// Returns how a file is open, as the owner's permissions of its link; 0 if it was closed.
fn open_mode(link: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::symlink_metadata(link).map_or(0, |found| found.permissions().mode())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    fn link(descriptor: &impl AsRawFd) -> String {
        let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
        fs::read_link(path).unwrap().to_string_lossy().into_owned()
    }

    fn has(pids: &[i32], descriptor: &impl AsRawFd) -> bool {
        let me = format!("/proc/{}", std::process::id());
        let mut ends = OwnEnds::default();
        ends.note_processes(pids.iter().copied());
        ends.has(Path::new(&me), &link(descriptor))
    }

    #[test]
    fn a_pipe_and_a_pair_are_ones_own_while_the_process_has_both_ends() {
        let me = i32::try_from(std::process::id()).unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        assert!(has(&[me], &reader));
        assert!(has(&[me], &writer));
        let (one, two) = UnixStream::pair().unwrap();
        // Without sock_diag nothing is known of sockets.
        let known = unix_peer(socket_inode(&link(&one)).unwrap()).is_some();
        assert_eq!(has(&[me], &one), known);
        drop(two);
        assert!(!has(&[me], &one));
        drop(writer);
        assert!(!has(&[me], &reader));
    }

    #[test]
    fn a_pipe_that_another_process_of_the_tree_has_open_is_not_ones_own() {
        let me = i32::try_from(std::process::id()).unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut child = Command::new("cat")
            .stdin(reader.try_clone().unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It writes only after it has its files.
        std::io::Write::write_all(&mut writer, b"x").unwrap();
        let mut byte = [0];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut byte)
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(!has(&[me, pid], &reader));
        assert!(has(&[me], &reader));
        drop(writer);
        child.wait().unwrap();
    }
}
