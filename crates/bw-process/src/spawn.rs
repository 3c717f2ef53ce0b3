//! Creates children: one child by a vfork-like clone, several by fork with a start gate.
//!
//! Decision: clone(CLONE_VM | CLONE_VFORK) for one process copies no page tables and returns when execve has succeeded.
//! Several processes cannot share the parent's memory while they wait for each other (errno is one variable), so they
//! are forked. Rejected: posix_spawn, which has no stamp, no pidfd and no PDEATHSIG.
//!
//! A child makes only async-signal-safe calls between its creation and execve: a single child runs in the parent's
//! memory, so it allocates and locks nothing. The parent prepares the search for argv[0] once per run; the child
//! only tries the candidates in turn, so it finds a program that SETUP creates.
//! Sources: clone(2), vfork(2), prctl(2) PR_SET_PDEATHSIG, signal-safety(7), execvp(3) and its ENOEXEC rule.

use crate::barrier::{Barrier, Passage};
use crate::slots::Environment;
use bw_sys::clock::monotonic_ns;
use bw_sys::memory::{GuardedStack, Mapping};
use bw_sys::process::{
    Blocking, ProcessFd, ProcessId, die_with_parent, exit_now, own_id, wait_for,
};
use bw_sys::signals::prepare_child;
use rustix::process::{Pid, Signal, chdir, kill_process, setpgid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::cell::Cell;
use std::ffi::{CStr, CString, NulError};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, ptr};

const STACK_BYTES: usize = 64 * 1024;

/// A child that was created and not yet waited for.
#[derive(Debug)]
pub(crate) struct Spawned {
    /// Its process id.
    pub pid: ProcessId,
    /// Readable when it has ended.
    pub pidfd: ProcessFd,
}

/// The memory that creating children needs, made once.
#[derive(Debug)]
pub(crate) struct Spawner {
    stack: GuardedStack,
    reports: Mapping,
    parent: ProcessId,
}

impl Spawner {
    /// Allocates for up to `most` children at a time. Errors: no memory.
    pub(crate) fn new(most: usize) -> io::Result<Self> {
        Ok(Self {
            stack: GuardedStack::new(STACK_BYTES)?,
            reports: Mapping::shared(most.max(1) * REPORT_WORDS * 8)?,
            parent: own_id(),
        })
    }

    /// Returns the report of the `index`-th child of the current start.
    pub(crate) fn report(&self, index: usize) -> StartReport<'_> {
        StartReport::new(self.reports.long_words(), index)
    }

    /// Returns this process's id, for `Child::parent`.
    pub(crate) fn parent(&self) -> ProcessId {
        self.parent
    }

    /// Starts one child and returns when it has executed its program, or failed to.
    /// Errors: no process could be created.
    pub(crate) fn one(&self, child: &Child<'_>) -> io::Result<Spawned> {
        child.report.clear();
        let mut pidfd: i32 = -1;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        let top = self.stack.top().cast();
        // SAFETY: the end of the stack is 16-byte aligned and the stack unused: this thread
        // stands still until the child has left it. `enter` gets the child it expects.
        let pid = unsafe {
            let argument = std::ptr::from_ref(child).cast_mut().cast();
            libc::clone(enter, top, flags, argument, &raw mut pidfd)
        };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel stored a fresh descriptor (close-on-exec).
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) }.into();
        Ok(Spawned { pid, pidfd })
    }

    /// Starts one child by fork, for a parent that is not itself a light fork: the child then
    /// inherits only pages that the parent has written to, and less peak RSS. Errors: as `one`.
    pub(crate) fn light(&self, child: &Child<'_>) -> io::Result<Spawned> {
        forked(child)
    }

    /// Starts several children that wait for each other at `gate`, which is reset here.
    /// If a child cannot be created, its entry is an error and the gate is broken.
    pub(crate) fn together(
        &self,
        children: &[Child<'_>],
        gate: Barrier<'_>,
    ) -> Vec<io::Result<Spawned>> {
        gate.reset(children.len() as u32);
        children
            .iter()
            .map(|child| {
                let result = forked(child);
                if result.is_err() {
                    gate.break_up();
                }
                result
            })
            .collect()
    }
}

extern "C" fn enter(argument: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `Spawner::one` passes a valid `Child` that outlives this call.
    let child: &Child<'_> = unsafe { &*argument.cast_const().cast() };
    child.start()
}

fn forked(child: &Child<'_>) -> io::Result<Spawned> {
    child.report.clear();
    // SAFETY: single-threaded; the child only makes async-signal-safe calls.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => child.start(),
        pid => match ProcessFd::open(pid) {
            Ok(pidfd) => Ok(Spawned { pid, pidfd }),
            Err(error) => {
                // A child of this process that was not waited for: the id still belongs to it.
                if let Some(child) = Pid::from_raw(pid) {
                    let _ = kill_process(child, Signal::KILL);
                }
                let _ = wait_for(pid, Blocking::Yes);
                Err(error)
            }
        },
    }
}

/// Words of shared memory in which one child reports.
pub(crate) const REPORT_WORDS: usize = 2;

/// The last step that a child tried; explains what an errno refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartStep {
    /// Entering the working directory.
    Directory = 1,
    /// Connecting stdin, stdout and stderr.
    Files = 2,
    /// Waiting for the other threads of the trial.
    Gate = 3,
    /// execve.
    Execute = 4,
}

/// A child's start stamp and start error, readable after its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartReport<'a> {
    start_ns: &'a AtomicU64,
    trouble: &'a AtomicU64,
}

impl<'a> StartReport<'a> {
    /// Returns the `index`-th report in shared words.
    pub(crate) fn new(words: &'a [AtomicU64], index: usize) -> Self {
        Self {
            start_ns: &words[REPORT_WORDS * index],
            trouble: &words[REPORT_WORDS * index + 1],
        }
    }

    /// Clears the report, before a child is created.
    pub(crate) fn clear(&self) {
        self.start_ns.store(0, Ordering::Relaxed);
        self.trouble.store(0, Ordering::Relaxed);
    }

    /// Returns CLOCK_MONOTONIC just before execve [ns]; 0 if the child did not reach it.
    pub(crate) fn start_ns(&self) -> u64 {
        self.start_ns.load(Ordering::Acquire)
    }

    /// Returns the step that failed and its errno, if the program could not be started.
    pub(crate) fn trouble(&self) -> Option<(StartStep, i32)> {
        let word = self.trouble.load(Ordering::Acquire);
        let step = match word >> 32 {
            1 => StartStep::Directory,
            2 => StartStep::Files,
            3 => StartStep::Gate,
            4 => StartStep::Execute,
            _ => return None,
        };
        Some((step, word as u32 as i32))
    }

    fn fail(&self, step: StartStep, errno: i32) {
        let word = (step as u64) << 32 | u64::from(errno as u32);
        self.trouble.store(word, Ordering::Release);
    }
}

/// Everything that one child needs, prepared by its parent.
#[derive(Debug)]
pub(crate) struct Child<'a> {
    /// What to execute.
    pub program: &'a Program,
    pub environment: &'a Environment,
    /// Working directory; none: the parent's.
    pub directory: Option<&'a CStr>,
    /// stdin, stdout, stderr; none: the parent's, and also its process group.
    pub files: Option<[i32; 3]>,
    /// The parent's process id.
    pub parent: ProcessId,
    /// The report to fill.
    pub report: StartReport<'a>,
    /// The start gate shared with the other threads.
    pub gate: Option<Barrier<'a>>,
}

impl Child<'_> {
    /// Executes the program, or exits with status 127 after reporting the error.
    pub(crate) fn start(&self) -> ! {
        if let Err((step, errno)) = self.prepare() {
            self.report.fail(step, errno);
        } else {
            let stamp = self.gate.is_none();
            let errno = self.program.execute(self.environment, || {
                if stamp {
                    self.report
                        .start_ns
                        .store(monotonic_ns(), Ordering::Release);
                }
            });
            self.report.fail(StartStep::Execute, errno);
        }
        exit_now(127)
    }

    fn prepare(&self) -> Result<(), (StartStep, i32)> {
        if !die_with_parent(self.parent, libc::SIGKILL) {
            // The parent has ended already, so PDEATHSIG would never come.
            exit_now(127);
        }
        if let Some(files) = self.files {
            // A new child may always become the leader of its own group.
            let _ = setpgid(None, None);
            connect(files).map_err(|error| (StartStep::Files, error.raw_os_error()))?;
        }
        if let Some(directory) = self.directory {
            chdir(directory).map_err(|error| (StartStep::Directory, error.raw_os_error()))?;
        }
        prepare_child();
        self.gate.map_or(Ok(()), |gate| self.through(gate))
    }

    /// Waits at the gate; the moment of release is the start. With more threads than CPUs, the
    /// execve of one thread would otherwise count as the lateness of the next.
    fn through(&self, gate: Barrier<'_>) -> Result<(), (StartStep, i32)> {
        match gate.pass() {
            Passage::Released(at_ns) => {
                self.report.start_ns.store(at_ns, Ordering::Release);
                Ok(())
            }
            Passage::Broken => Err((StartStep::Gate, libc::ECANCELED)),
        }
    }
}

fn connect([input, output, errors]: [i32; 3]) -> rustix::io::Result<()> {
    // SAFETY: the parent holds these descriptors open while the child starts.
    let file = |fd| unsafe { BorrowedFd::borrow_raw(fd) };
    dup2_stdin(file(input))?;
    dup2_stdout(file(output))?;
    dup2_stderr(file(errors))
}

/// A command ready for execve.
///
/// Its strings are in `Rc<CStr>`, because pointers to them are stored: a `Box` or `CString` that moves ends the
/// validity of pointers that were made before, although the bytes stay where they are (Stacked Borrows).
#[derive(Debug)]
pub(crate) struct Program {
    candidates: Vec<CString>,
    words: Vec<Rc<CStr>>,
    /// argv..., null.
    vector: Vec<*const libc::c_char>,
    /// `/bin/sh`, the script, the words after argv[0], null. The child sets the script: it may be any of the candidates.
    by_shell: Vec<Cell<*const libc::c_char>>,
}

/// Executes scripts without `#!`.
const SHELL: &CStr = c"/bin/sh";

impl Program {
    /// Prepares `argv`, searched for in `path` (a PATH value), then in the working directory.
    /// Errors: a word with a NUL byte.
    pub(crate) fn new(argv: &[String], path: &str) -> Result<Self, NulError> {
        let words: Vec<Rc<CStr>> = argv
            .iter()
            .map(|word| Ok(CString::new(word.as_str())?.into()))
            .collect::<Result<_, NulError>>()?;
        let ends_with_null = words.iter().map(|word| word.as_ptr()).chain([ptr::null()]);
        let vector: Vec<_> = ends_with_null.collect();
        let by_shell = [SHELL.as_ptr()].into_iter().chain(vector.clone());
        Ok(Self {
            candidates: candidates(&argv[0], path)?,
            words,
            by_shell: by_shell.map(Cell::new).collect(),
            vector,
        })
    }

    /// Returns argv[0], for messages.
    pub(crate) fn name(&self) -> std::borrow::Cow<'_, str> {
        self.words[0].to_string_lossy()
    }

    /// Executes the program; returns the errno only if that is impossible. Calls `before` just
    /// before each attempt. Async-signal-safe; meant for a new child.
    pub(crate) fn execute(&self, environment: &Environment, before: impl Fn()) -> i32 {
        let mut answer = libc::ENOENT;
        for candidate in &self.candidates {
            before();
            // SAFETY: strings and null-terminated vectors live as long as self.
            unsafe {
                libc::execve(
                    candidate.as_ptr(),
                    self.vector.as_ptr(),
                    environment.as_ptr(),
                )
            };
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::ENOEXEC) => return self.by_shell(candidate, environment),
                Some(libc::EACCES) => answer = libc::EACCES,
                Some(errno) if is_absence(errno) => {
                    // As execvp(3): that a file may not be executed says more than that the last one is missing.
                    if answer != libc::EACCES {
                        answer = errno;
                    }
                }
                other => return other.unwrap_or(libc::EIO),
            }
        }
        answer
    }

    /// Executes a script without `#!` by the shell. Only a child calls it: its parent stands still, or has a copy.
    fn by_shell(&self, path: &CStr, environment: &Environment) -> i32 {
        self.by_shell[1].set(path.as_ptr());
        // SAFETY: as in `execute`; a cell has the layout of its pointer.
        unsafe {
            libc::execve(
                SHELL.as_ptr(),
                self.by_shell.as_ptr().cast(),
                environment.as_ptr(),
            )
        };
        libc::ENOEXEC
    }
}

/// Returns whether the search goes on in the next directory of PATH: with the errors of a missing file, and those of a
/// directory on a file system or a server that is gone, as execvp(3) of glibc does.
fn is_absence(errno: i32) -> bool {
    matches!(
        errno,
        libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT
    )
}

fn candidates(name: &str, path: &str) -> Result<Vec<CString>, NulError> {
    if name.contains('/') {
        return Ok(vec![CString::new(name)?]);
    }
    path.split(':')
        .map(|folder| if folder.is_empty() { "." } else { folder })
        .chain(["."])
        .map(|folder| CString::new(format!("{folder}/{name}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_comes_first_then_the_directory() {
        let found = candidates("true", "/a::/b").unwrap();
        let names: Vec<_> = found.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(names, ["/a/true", "./true", "/b/true", "./true"]);
    }

    #[test]
    fn a_slash_means_no_search() {
        assert_eq!(candidates("./x", "/a").unwrap(), [c"./x".to_owned()]);
    }

    #[test]
    fn a_file_system_that_is_gone_does_not_end_the_search() {
        assert!([libc::ESTALE, libc::ENODEV, libc::ETIMEDOUT].map(is_absence) == [true; 3]);
        assert!([libc::EACCES, libc::E2BIG, libc::ENOMEM].map(is_absence) == [false; 3]);
    }

    #[test]
    fn nul_is_refused() {
        assert!(Program::new(&["a\0b".to_owned()], "/bin").is_err());
    }

    /// Returns the strings of a null-terminated vector.
    ///
    /// # Safety
    /// It is one, and its strings are valid.
    unsafe fn strings_of(vector: &[*const libc::c_char]) -> Vec<String> {
        let strings = vector.iter().take_while(|pointer| !pointer.is_null());
        // SAFETY: by the contract.
        let text = |pointer: &*const libc::c_char| unsafe { CStr::from_ptr(*pointer) };
        strings
            .map(|pointer| text(pointer).to_str().unwrap().to_owned())
            .collect()
    }

    /// `make soundness` runs it under miri, which reports a pointer that a move has ended.
    #[test]
    fn pointers_of_a_program_survive_its_moves() {
        let argv = ["printf", "a b"].map(str::to_owned);
        let mut moved = vec![Program::new(&argv, "/bin").unwrap()];
        moved.reserve(16);
        let program = Box::new(moved.remove(0));
        // SAFETY: the vector of a program that lives.
        let words = unsafe { strings_of(&program.vector) };
        assert_eq!(words, ["printf", "a b"]);
        let shell: Vec<_> = program.by_shell.iter().map(Cell::get).collect();
        // SAFETY: as above.
        assert_eq!(unsafe { strings_of(&shell) }, ["/bin/sh", "printf", "a b"]);
        assert_eq!(program.name(), "printf");
    }

    #[test]
    fn the_stack_of_a_child_has_a_guard_page() {
        let spawner = Spawner::new(1).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let guard = format!("-{:08x} ---p", spawner.stack.bottom().addr());
        assert!(maps.contains(&guard), "{guard} in {maps}");
        let size = spawner.stack.top().addr() - spawner.stack.bottom().addr();
        assert_eq!(size, STACK_BYTES);
    }
}
