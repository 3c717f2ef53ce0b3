//! Where a thread of the trial waits in the kernel: its system call, its wait channel, and what the call waits for.
//!
//! Purpose: a thread that is neither on a CPU nor ready to run waits for something; this names it without tracing. A
//! thread that has not run since the last sample still waits in the same place, so its files are not read
//! again. A call with a descriptor names the open file; poll and select have their descriptors in the process's memory, an
//! epoll in its fdinfo. Whether the call ends at a time is among its arguments; whether an event loop can only be woken
//! by its own process is asked of `own_ends`. All of these need the permission to trace the process. Non-goal: waits
//! shorter than the interval between two samples are counted only where a sample falls into them.
//! Sources: proc_pid_syscall(5), proc_pid_wchan(5), proc_pid_fd(5), proc_pid_fdinfo(5), poll(2), select(2), futex(2).

use crate::columns::{KernelFile, Text};
use crate::own_ends::OwnEnds;
use crate::text::{after, lines, number, socket_inode, words};
use bw_sys::reason;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Where a thread waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The name of its system call; `page fault` outside of one, `syscall N` for one that is not in our table, empty if
    /// it may not be read.
    pub call: String,
    /// The kernel's function that it sleeps in; empty if that is not reported.
    pub channel: Vec<u8>,
    /// What the call waits for: at most `MOST_OBJECTS`.
    pub objects: Vec<Object>,
    /// Whether the call has a time limit; None: a call without one, or one that is not known.
    pub limited: Option<bool>,
}

/// What a call waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A socket, by its inode.
    Socket(u64),
    /// Another open file: its kind (`file`, `memory`, `pipe`, `device`, `timer`, `event`, ...) and, after a blank, its
    /// path. `own pipe`, `own socket`: only the process itself has the other end.
    Other(String),
}

impl Object {
    /// Returns whether only the process itself, or a timer, can end a wait for it.
    fn is_inner(&self) -> bool {
        let Self::Other(text) = self else {
            return false;
        };
        text.starts_with("own ") || matches!(text.as_str(), "event" | "timer")
    }
}

/// Maximum number of objects that are reported of one call.
const MOST_OBJECTS: usize = 4;
/// The bit of a futex's operation that says that only threads of one process use it. Source: futex(2).
const FUTEX_PRIVATE: u64 = 0x80;
/// The bits of a futex's operation without those that say how: private, and which clock.
const FUTEX_COMMAND: u64 = 0x7f;
/// WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2: their fourth argument is a time limit.
const FUTEX_WAITS: [u64; 5] = [0, 6, 9, 11, 13];
/// Maximum number of descriptors of a poll, a select or an epoll that are examined.
const MOST_DESCRIPTORS: usize = 64;

/// The files that show where a thread waits.
#[derive(Debug)]
pub(crate) struct PlaceFiles {
    syscall: Result<KernelFile, String>,
    channel: Option<KernelFile>,
    memory: MemoryFiles,
}

impl PlaceFiles {
    /// Opens them.
    pub(crate) fn open(thread: &Path) -> Self {
        let path = thread.join("syscall");
        Self {
            syscall: KernelFile::open(&path).map_err(|error| refusal(&path, &error)),
            channel: KernelFile::open(thread.join("wchan")).ok(),
            memory: MemoryFiles::default(),
        }
    }

    /// Returns why system calls cannot be read; empty if they can.
    pub(crate) fn absent(&self) -> &str {
        self.syscall.as_ref().err().map_or("", String::as_str)
    }

    /// Returns where the thread waits; None: it runs, is ready to run, has ended, or that cannot be read. Without
    /// permission to trace the process only the kernel's function is known.
    pub(crate) fn place(
        &mut self,
        process: &Path,
        own: &mut OwnEnds,
        text: &mut Text,
    ) -> Option<Place> {
        let mut call = None;
        if let Ok(file) = &self.syscall {
            match file.read_record(text) {
                Ok(()) => call = Some(Call::of(text.bytes())?),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return None,
                Err(error) => self.syscall = Err(refusal(&process.join("syscall"), &error)),
            }
        }
        let read = self.channel.as_ref().map(|file| file.read_record(text));
        let channel = match read {
            Some(Ok(())) if text.bytes() != b"0" => text.bytes().to_vec(),
            _ => Vec::new(),
        };
        let Some(call) = call else {
            return (!channel.is_empty()).then(|| Place {
                channel,
                ..Place::default()
            });
        };
        let mut files = OpenFiles {
            process,
            remote: is_remote(&channel),
            memory: &mut self.memory,
            own,
        };
        Some(Place {
            call: call.name(),
            objects: call.objects(&mut files),
            limited: call.limited(),
            channel,
        })
    }
}

fn refusal(path: &Path, error: &io::Error) -> String {
    format!("{}: {}", path.display(), reason(error))
}

/// A system call as `/proc/PID/syscall` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Its number; -1: blocked outside of a system call, in a page fault.
    pub number: i64,
    /// Its first five arguments.
    pub arguments: [u64; 5],
}

impl Call {
    /// Returns the call of a text; None: the thread runs, or the text is not complete.
    #[must_use]
    pub fn of(text: &[u8]) -> Option<Self> {
        let mut fields = words(lines(text).next()?);
        let number = crate::text::signed(fields.next()?)?;
        let mut arguments = [0; 5];
        if number >= 0 {
            for argument in &mut arguments {
                let digits = std::str::from_utf8(fields.next()?).ok()?;
                *argument = u64::from_str_radix(digits.strip_prefix("0x")?, 16).ok()?;
            }
        }
        Some(Self { number, arguments })
    }

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> String {
        if self.number < 0 {
            return "page fault".to_owned();
        }
        match self.known() {
            Some(known) => known.name.to_owned(),
            None => format!("syscall {}", self.number),
        }
    }

    fn known(self) -> Option<&'static KnownCall> {
        CALLS
            .iter()
            .chain(OLDER_CALLS)
            .find(|known| known.number == self.number)
    }

    /// Returns whether it ends at a time at the latest; None: it has no such argument.
    #[must_use]
    pub fn limited(self) -> Option<bool> {
        if self.number == libc::SYS_futex {
            let operation = self.arguments[1] & FUTEX_COMMAND;
            // Of the others, the fourth argument is something else.
            return FUTEX_WAITS
                .contains(&operation)
                .then(|| self.arguments[3] != 0);
        }
        match self.known()?.limit {
            Limit::None => None,
            Limit::Pointer(nth) => Some(self.arguments[nth] != 0),
            // The upper half of the register is undefined.
            Limit::Milliseconds(nth) => Some((self.arguments[nth] as u32).cast_signed() >= 0),
        }
    }

    /// Returns what it waits for, first what others than the process itself can end.
    fn objects(self, files: &mut OpenFiles<'_>) -> Vec<Object> {
        if self.number == libc::SYS_futex {
            // Threads that wait at one address wait for the same lock.
            let [address, operation, ..] = self.arguments;
            let private = operation & FUTEX_PRIVATE != 0;
            let scope = if private { "" } else { "shared " };
            return vec![Object::Other(format!("{scope}{address:#x}"))];
        }
        let operands = self.known().map_or(Operands::None, |known| known.operands);
        let process = files.process;
        let descriptors = match operands {
            Operands::None => Vec::new(),
            Operands::First => vec![self.arguments[0]],
            Operands::FirstTwo => self.arguments[..2].to_vec(),
            Operands::FirstAndThird => vec![self.arguments[0], self.arguments[2]],
            Operands::Poll => polled(process, self.arguments),
            Operands::Select => selected(process, self.arguments),
            Operands::Epoll => registered(process, self.arguments[0]),
        };
        // A call on one descriptor has no timer, and a reader may share its pipe with programs that we do not see.
        let loops = matches!(
            operands,
            Operands::Poll | Operands::Select | Operands::Epoll
        );
        let (mut outer, mut inner) = (Vec::new(), Vec::new());
        for descriptor in descriptors {
            let Some(object) = files.object(descriptor, loops) else {
                continue;
            };
            let found = if object.is_inner() {
                &mut inner
            } else {
                &mut outer
            };
            if !found.contains(&object) {
                found.push(object);
            }
            if outer.len() == MOST_OBJECTS {
                break;
            }
        }
        outer.append(&mut inner);
        outer.truncate(MOST_OBJECTS);
        outer
    }
}

/// Returns the descriptors of an array of `struct pollfd`.
fn polled(process: &Path, [address, count, ..]: [u64; 5]) -> Vec<u64> {
    let count = usize::try_from(count).unwrap_or(0).min(MOST_DESCRIPTORS);
    let mut bytes = vec![0; count * 8];
    if !read_memory(process, address, &mut bytes) {
        return Vec::new();
    }
    let each = bytes.chunks_exact(8);
    // A negative descriptor is ignored by poll(2).
    each.filter_map(|each| u64::try_from(i32::from_ne_bytes(each[..4].try_into().ok()?)).ok())
        .collect()
}

/// Returns the descriptors of the first two sets of a select.
fn selected(process: &Path, [count, readable, writable, ..]: [u64; 5]) -> Vec<u64> {
    let mut found = Vec::new();
    for address in [readable, writable].into_iter().filter(|&at| at != 0) {
        let mut bits = vec![0; usize::try_from(count.min(1024).div_ceil(64) * 8).unwrap_or(0)];
        if read_memory(process, address, &mut bits) {
            let set = (0..count.min(1024)).filter(|&nth| {
                let byte = usize::try_from(nth / 8).unwrap_or(usize::MAX);
                bits.get(byte)
                    .is_some_and(|byte| byte >> (nth % 8) & 1 == 1)
            });
            found.extend(set.take(MOST_DESCRIPTORS));
        }
    }
    found
}

/// Returns the descriptors that are registered in an epoll.
fn registered(process: &Path, epoll: u64) -> Vec<u64> {
    let text = fs::read(process.join(format!("fdinfo/{epoll}"))).unwrap_or_default();
    let listed = lines(&text).filter_map(|line| after(line, b"tfd"));
    let each = listed.filter_map(|rest| number(words(rest).next()?));
    each.filter_map(|each| u64::try_from(each).ok())
        .take(MOST_DESCRIPTORS)
        .collect()
}

fn read_memory(process: &Path, address: u64, bytes: &mut [u8]) -> bool {
    let memory = File::open(process.join("mem"));
    memory.is_ok_and(|file| file.read_exact_at(bytes, address).is_ok())
}

/// Returns whether a thread that sleeps in this function waits for the server of a file system.
fn is_remote(channel: &[u8]) -> bool {
    channel.starts_with(b"rpc_") || channel.starts_with(b"nfs")
}

/// The open files of a process in a call.
struct OpenFiles<'a> {
    process: &'a Path,
    /// The file system may have a server, which may not answer a stat either.
    remote: bool,
    memory: &'a mut MemoryFiles,
    own: &'a mut OwnEnds,
}

impl OpenFiles<'_> {
    /// Returns what a descriptor is open on; None if it is closed, or not readable. `own`: also whether the process has
    /// both ends of it.
    fn object(&mut self, descriptor: u64, own: bool) -> Option<Object> {
        let link = self.process.join(format!("fd/{descriptor}"));
        let name = fs::read_link(&link).ok()?;
        let name = name.to_string_lossy();
        if let Some(kind) = name.strip_prefix("anon_inode:") {
            let kind = kind.trim_matches(['[', ']']);
            let kind = match kind {
                "eventfd" => "event",
                "timerfd" => "timer",
                "eventpoll" => "epoll",
                other => other,
            };
            return Some(Object::Other(kind.to_owned()));
        }
        let inode = socket_inode(&name);
        if inode.is_some() || name.starts_with("pipe:") {
            let kind = inode.map_or("pipe", |_| "socket");
            if own && self.own.has(self.process, &name) {
                return Some(Object::Other(format!("own {kind}")));
            }
            let other = || Object::Other(kind.to_owned());
            return Some(inode.map_or_else(other, Object::Socket));
        }
        let kind = if self.remote {
            "file"
        } else {
            self.kind_of(&link, &name)
        };
        Some(Object::Other(format!("{kind} {name}")))
    }

    fn kind_of(&mut self, link: &Path, name: &str) -> &'static str {
        // Without asking the server of a file system: a stat may wait as long as the thread does.
        let found = statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE);
        let Ok(found) = found else {
            return "file";
        };
        match FileType::from_raw_mode(found.stx_mode.into()) {
            FileType::Fifo => "pipe",
            FileType::CharacterDevice => "device",
            FileType::RegularFile | FileType::Directory
                if found.stx_dev_major == 0
                    && self.memory.has(self.process, name, found.stx_dev_minor) =>
            {
                "memory"
            }
            _ => "file",
        }
    }
}

/// File systems without any storage behind them: files in memory, and those of the kernel.
const IN_MEMORY: [&[u8]; 10] = [
    b"tmpfs",
    b"ramfs",
    b"devtmpfs",
    b"hugetlbfs",
    b"proc",
    b"sysfs",
    b"cgroup",
    b"cgroup2",
    b"debugfs",
    b"tracefs",
];

/// Which file systems without a device of their own have their files in memory, by the minor number that the kernel gave
/// them. Decision: the table of mounts, because statfs asks the server of a file system.
#[derive(Debug, Default)]
struct MemoryFiles {
    known: HashMap<u32, bool>,
}

impl MemoryFiles {
    /// Returns whether the file system of an open file with this name is one.
    fn has(&mut self, process: &Path, name: &str, minor: u32) -> bool {
        *self.known.entry(minor).or_insert_with(|| {
            let mounts = fs::read(process.join("mountinfo")).unwrap_or_default();
            match file_system(&mounts, minor) {
                Some(kind) => IN_MEMORY.contains(&kind),
                // The kernel's own mount of files that have a name only in the process: memfd_create(2).
                None => name.starts_with("/memfd:"),
            }
        })
    }
}

/// Returns the type of the file system with the device 0:`minor` in a `mountinfo`. Source: proc_pid_mountinfo(5).
fn file_system(mounts: &[u8], minor: u32) -> Option<&[u8]> {
    let device = format!("0:{minor}").into_bytes();
    lines(mounts)
        .find(|line| words(line).nth(2) == Some(&device))
        .and_then(|line| words(line).skip_while(|word| *word != b"-").nth(1))
}

/// Where a call's descriptors are.
#[derive(Debug, Clone, Copy)]
enum Operands {
    None,
    First,
    FirstTwo,
    FirstAndThird,
    Poll,
    Select,
    Epoll,
}

/// Which argument is a call's time limit, from 0.
#[derive(Debug, Clone, Copy)]
enum Limit {
    None,
    /// A pointer to a time, null for none.
    Pointer(usize),
    /// A number, below 0 for none.
    Milliseconds(usize),
}

/// A call in which threads wait.
struct KnownCall {
    number: i64,
    name: &'static str,
    operands: Operands,
    limit: Limit,
}

/// Makes the rows of the table of calls: the kernel's number of a name differs between architectures.
macro_rules! calls {
    ($($operands:ident $(, $limit:ident $nth:literal)?: $($number:ident $name:literal),+;)+) => {
        calls!(@ $($operands, ($(Limit::$limit($nth))?): $($number $name),+;)+)
    };
    (@ $($operands:ident, $limit:tt: $($number:ident $name:literal),+;)+) => {
        &[$($(KnownCall {
            number: libc::$number,
            name: $name,
            operands: Operands::$operands,
            limit: calls!(limit $limit),
        },)+)+]
    };
    (limit ()) => { Limit::None };
    (limit ($limit:expr)) => { $limit };
}

/// The calls of every architecture.
const CALLS: &[KnownCall] = calls! {
    First:
        SYS_read "read", SYS_write "write", SYS_readv "readv", SYS_writev "writev",
        SYS_pread64 "pread64", SYS_pwrite64 "pwrite64", SYS_preadv "preadv",
        SYS_pwritev "pwritev", SYS_preadv2 "preadv2", SYS_pwritev2 "pwritev2",
        SYS_fsync "fsync", SYS_fdatasync "fdatasync", SYS_syncfs "syncfs",
        SYS_ftruncate "ftruncate",
        SYS_fallocate "fallocate", SYS_getdents64 "getdents64", SYS_close "close",
        SYS_flock "flock", SYS_fcntl "fcntl", SYS_ioctl "ioctl",
        SYS_recvfrom "recvfrom", SYS_recvmsg "recvmsg",
        SYS_sendto "sendto", SYS_sendmsg "sendmsg", SYS_sendmmsg "sendmmsg",
        SYS_connect "connect", SYS_accept "accept", SYS_accept4 "accept4",
        SYS_io_uring_enter "io_uring_enter";
    First, Pointer 4: SYS_recvmmsg "recvmmsg";
    FirstTwo: SYS_sendfile "sendfile";
    FirstAndThird: SYS_splice "splice", SYS_copy_file_range "copy_file_range";
    Poll, Pointer 2: SYS_ppoll "ppoll";
    Select, Pointer 4: SYS_pselect6 "pselect6";
    Epoll, Milliseconds 3: SYS_epoll_pwait "epoll_pwait";
    Epoll, Pointer 3: SYS_epoll_pwait2 "epoll_pwait2";
    None:
        SYS_futex "futex",
        SYS_nanosleep "nanosleep", SYS_clock_nanosleep "clock_nanosleep",
        SYS_wait4 "wait4", SYS_waitid "waitid", SYS_clone "clone", SYS_clone3 "clone3",
        SYS_execve "execve", SYS_exit_group "exit_group", SYS_openat "openat",
        SYS_openat2 "openat2", SYS_unlinkat "unlinkat", SYS_mkdirat "mkdirat",
        SYS_renameat2 "renameat2", SYS_newfstatat "newfstatat",
        SYS_statx "statx", SYS_sync "sync", SYS_msync "msync", SYS_madvise "madvise",
        SYS_mmap "mmap", SYS_munmap "munmap",
        SYS_rt_sigsuspend "rt_sigsuspend", SYS_semop "semop",
        SYS_msgrcv "msgrcv", SYS_msgsnd "msgsnd",
        SYS_restart_syscall "restart_syscall";
    None, Pointer 2: SYS_rt_sigtimedwait "rt_sigtimedwait";
    None, Pointer 3: SYS_futex_waitv "futex_waitv", SYS_semtimedop "semtimedop";
    None, Pointer 4:
        SYS_io_getevents "io_getevents",
        SYS_mq_timedreceive "mq_timedreceive", SYS_mq_timedsend "mq_timedsend";
};

/// Those that only older architectures have, or that libc names only there.
#[cfg(target_arch = "x86_64")]
const OLDER_CALLS: &[KnownCall] = calls! {
    First: SYS_sync_file_range "sync_file_range";
    Poll, Milliseconds 2: SYS_poll "poll";
    Select, Pointer 4: SYS_select "select";
    Epoll, Milliseconds 3: SYS_epoll_wait "epoll_wait";
    None:
        SYS_pause "pause", SYS_vfork "vfork", SYS_open "open", SYS_unlink "unlink",
        SYS_rename "rename", SYS_mkdir "mkdir", SYS_stat "stat", SYS_lstat "lstat";
};
#[cfg(not(target_arch = "x86_64"))]
const OLDER_CALLS: &[KnownCall] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: i64, arguments: [u64; 5]) -> Call {
        Call { number, arguments }
    }

    #[test]
    fn the_time_limit_of_a_call_is_among_its_arguments() {
        let minus_one = u64::from(u32::MAX);
        let futex = libc::SYS_futex;
        for (number, arguments, limited) in [
            (libc::SYS_epoll_pwait, [3, 9, 1, 600, 0], Some(true)),
            (libc::SYS_epoll_pwait, [3, 9, 1, minus_one, 0], Some(false)),
            (libc::SYS_epoll_pwait, [3, 9, 1, u64::MAX, 0], Some(false)),
            (libc::SYS_epoll_pwait2, [3, 9, 1, 0, 0], Some(false)),
            (libc::SYS_ppoll, [9, 1, 0x7f, 0, 0], Some(true)),
            (libc::SYS_pselect6, [1, 9, 0, 0, 0x7f], Some(true)),
            (libc::SYS_pselect6, [1, 9, 0, 0, 0], Some(false)),
            (futex, [9, 0x80, 2, 0, 0], Some(false)),
            (futex, [9, 0x189, 2, 0x7f, 0], Some(true)),
            // FUTEX_WAKE has a fourth argument too.
            (futex, [9, 0x81, 2, 0x7f, 0], None),
            (libc::SYS_read, [9, 1, 1, 1, 1], None),
        ] {
            let found = call(number, arguments).limited();
            assert_eq!(found, limited, "{number} {arguments:x?}");
        }
    }

    #[test]
    fn a_mount_has_its_type_after_any_number_of_optional_fields() {
        let mounts = b"22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
            30 22 0:26 / /dev/shm rw,nosuid shared:4 master:1 - tmpfs shm rw\n\
            31 22 0:27 / /mnt/a\\040-\\040b rw - nfs4 server:/ rw\n";
        assert_eq!(file_system(mounts, 26), Some(&b"tmpfs"[..]));
        assert_eq!(file_system(mounts, 27), Some(&b"nfs4"[..]));
        assert_eq!(file_system(mounts, 2), None);
    }
}
