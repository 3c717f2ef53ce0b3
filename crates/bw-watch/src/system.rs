//! What the sampler asks of the kernel by system call: clocks, signals, its own limits.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static TOLD: AtomicBool = AtomicBool::new(false);

/// Returns CLOCK_MONOTONIC [ns].
pub fn monotonic_ns() -> i64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Returns CLOCK_REALTIME [ns since 1970].
pub fn realtime_ns() -> i64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// Returns the processor time of this process [ns].
pub fn cpu_ns() -> i64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to write to; these clocks always exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Returns the page size [bytes] and the clock ticks of a second.
pub fn units() -> (i64, i64) {
    // SAFETY: integer arguments only.
    unsafe {
        (
            libc::sysconf(libc::_SC_PAGESIZE),
            libc::sysconf(libc::_SC_CLK_TCK),
        )
    }
}

/// Lets the kernel wake this process up to `slack_ns` late, together with others.
pub fn set_timer_slack(slack_ns: i64) {
    // SAFETY: integer arguments only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns.max(1), 0, 0, 0) };
}

/// `struct sched_attr` of sched_setattr(2), its first version.
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks for short turns on a processor [ns]: from Linux 6.12 who asks for less is served
/// sooner, at no cost to others' share. Older kernels do as before; none needs a right.
pub fn ask_for_short_turns(turn_ns: u64) {
    // SAFETY: integer arguments, and a structure of the size that it tells.
    unsafe {
        let attributes = SchedAttr {
            size: std::mem::size_of::<SchedAttr>() as u32,
            policy: libc::SCHED_OTHER as u32,
            flags: 0,
            nice: libc::getpriority(libc::PRIO_PROCESS, 0),
            priority: 0,
            runtime: turn_ns,
            deadline: 0,
            period: 0,
        };
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0_u32);
    }
}

/// Raises the soft limit of open files to the hard one and returns it.
pub fn raise_open_files() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid rlimit to write to and to read from.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return 256;
        }
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
    }
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

/// Asks for SIGTERM at the parent's death, and takes SIGTERM and SIGHUP as "finish the file
/// and end". Ctrl-C is `bw`'s to answer and is ignored. False: the parent is gone already.
pub fn die_with_parent() -> bool {
    let action = told as extern "C" fn(libc::c_int);
    // SAFETY: the handler only stores into an atomic. The signals are blocked but while
    // `wait` sleeps, so none is missed.
    unsafe {
        let parent = libc::getppid();
        for signal in [libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, action as libc::sighandler_t);
        }
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        // A limit of the file's size is an error of write(2), as a full disk is.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        let mut mask = std::mem::zeroed();
        libc::sigemptyset(&mut mask);
        libc::sigaddset(&mut mask, libc::SIGTERM);
        libc::sigaddset(&mut mask, libc::SIGHUP);
        libc::sigprocmask(libc::SIG_BLOCK, &mask, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
        libc::getppid() == parent
    }
}

extern "C" fn told(_signal: libc::c_int) {
    TOLD.store(true, Ordering::Relaxed);
}

/// Returns whether this process was told to end.
pub fn told_to_end() -> bool {
    TOLD.load(Ordering::Relaxed)
}

/// Sleeps until `deadline_ns` (CLOCK_MONOTONIC; None: for ever), a signal, or something to
/// read on standard input; returns whether there is something to read.
pub fn wait(deadline_ns: Option<i64>) -> io::Result<bool> {
    let left_ns = deadline_ns.map(|deadline| (deadline - monotonic_ns()).max(0));
    let time = left_ns.map(|left| libc::timespec {
        tv_sec: left / 1_000_000_000,
        tv_nsec: left % 1_000_000_000,
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let mut input = libc::pollfd {
        fd: 0,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one valid pollfd, a valid or null timespec, and a mask that lives long enough.
    let found = unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::ppoll(&mut input, 1, time, &none)
    };
    if found < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::Interrupted => Ok(false),
            _ => Err(error),
        };
    }
    Ok(found > 0)
}

/// Returns what an error says, without the number that Rust adds.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
