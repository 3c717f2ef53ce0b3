//! Makes a ring with as many of the desired features as this kernel has.
//!
//! Desired: `DEFER_TASKRUN` with `SINGLE_ISSUER`, so that completions never interrupt a thread
//! that spins towards a deadline, but wait until the thread asks; `TASKRUN_FLAG`, which reports waiting
//! completions by a bit in shared memory, so that looking for them costs no system call;
//! `COOP_TASKRUN` for kernels without the first; `SUBMIT_ALL`, so that one bad operation does
//! not stop a batch; `NO_SQARRAY`. A kernel that does not know one of them answers `EINVAL` to all.
//!
//! Source: io_uring_setup(2); fio's t/io_uring drops flags in the same way.

use io_uring::{Builder, IoUring};
use std::io;
use std::os::fd::AsRawFd;

/// A ring and its features.
pub(crate) struct Ring {
    pub ring: IoUring,
    /// Features in use.
    pub features: Vec<String>,
    /// Unavailable features, each with its reason.
    pub absent: Vec<String>,
    /// Whether the kernel sets a bit when completions wait to be made visible.
    pub flagged: bool,
}

/// The desired features: name, the kernel version that introduced it, whether `TASKRUN_FLAG` is set with it.
const WISHES: [(&str, &str, bool); 5] = [
    ("no submission array", "Linux 6.6", false),
    ("deferred completions", "Linux 6.1", true),
    ("cooperative completions", "Linux 5.19", true),
    ("whole batches", "Linux 5.18", false),
    ("single issuer", "Linux 6.0", false),
];

/// Returns a ring for `entries` submissions, made by the thread that will use it.
///
/// # Errors
/// The kernel refuses a ring, or provides one that cannot wait for a limited time (before 5.11).
pub(crate) fn build(entries: u32) -> io::Result<Ring> {
    let mut wanted = [true; WISHES.len()];
    let mut absent = Vec::new();
    // Newest first: an old kernel lacks the newest flags.
    let newest_first = [0, 1, 4, 2, 3];
    let mut next = newest_first.iter();
    let ring = loop {
        match attempt(entries, wanted) {
            Ok(ring) => break ring,
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                let dropped = *next.next().ok_or(error)?;
                wanted[dropped] = false;
                let (name, since, _) = WISHES[dropped];
                absent.push(format!(
                    "{name}: this kernel refuses them, {since} has them"
                ));
            }
            Err(error) => return Err(error),
        }
    };
    if !ring.params().is_feature_ext_arg() {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    let names = WISHES.iter().zip(wanted).filter(|(_, wanted)| *wanted);
    Ok(Ring {
        ring,
        features: names.map(|((name, _, _), _)| (*name).to_owned()).collect(),
        absent,
        flagged: WISHES
            .iter()
            .zip(wanted)
            .any(|((_, _, flags), wanted)| *flags && wanted),
    })
}

/// Returns in words why the kernel refuses a ring.
pub(crate) fn refused(error: &io::Error) -> String {
    let why = match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has none, or seccomp hides it",
        Some(libc::EPERM) => "kernel.io_uring_disabled or seccomp forbids it",
        Some(libc::EACCES) => "a security module forbids it",
        Some(libc::ENOMEM) => "the limit of locked memory (ulimit -l) is too small",
        Some(libc::EMFILE | libc::ENFILE) => "no file descriptor is left",
        _ => return error.to_string(),
    };
    format!("{why} ({error})")
}

fn attempt(entries: u32, wanted: [bool; WISHES.len()]) -> io::Result<IoUring> {
    let [no_array, deferred, cooperative, whole, single] = wanted;
    let mut builder: Builder = IoUring::builder();
    builder.dontfork();
    if no_array {
        builder.setup_no_sqarray();
    }
    if deferred {
        builder.setup_defer_taskrun();
    }
    if cooperative {
        builder.setup_coop_taskrun();
    }
    if deferred || cooperative {
        builder.setup_taskrun_flag();
    }
    if whole {
        builder.setup_submit_all();
    }
    // Deferred completions need a single issuer.
    if single || deferred {
        builder.setup_single_issuer();
    }
    builder.build(entries)
}

/// How `io_uring_enter` identifies the ring: by its descriptor, or by its index among the rings that the
/// thread registered, which saves the lookup of the descriptor with each call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingHandle {
    number: i32,
    flags: u32,
}

/// The timeout of a wait, as the kernel reads it.
#[repr(C)]
struct Arguments {
    mask: u64,
    mask_bytes: u32,
    least_wait_us: u32,
    limit: u64,
}

impl RingHandle {
    /// Returns the handle of `ring`, by index if the kernel supports that (5.18).
    #[must_use]
    pub(crate) fn of(ring: &IoUring) -> Self {
        let number = ring.as_raw_fd();
        registered(number).map_or(Self { number, flags: 0 }, |number| Self {
            number,
            flags: 1 << 4, // IORING_ENTER_REGISTERED_RING
        })
    }

    /// Returns whether the ring is identified by its index.
    #[must_use]
    pub(crate) fn is_registered(self) -> bool {
        self.flags != 0
    }

    /// Ends the registration, which would keep the ring alive as long as the thread. The thread that made the
    /// handle must call this, as its last call.
    pub(crate) fn close(self, ring: &IoUring) {
        if let (true, Ok(index)) = (self.is_registered(), u32::try_from(self.number)) {
            change(ring.as_raw_fd(), IORING_UNREGISTER_RING_FDS, index, 0);
        }
    }

    /// Submits `count` prepared operations, and makes completions visible if `complete`.
    ///
    /// # Errors
    /// As io_uring_enter(2).
    #[inline]
    pub(crate) fn enter(self, count: u32, complete: bool) -> io::Result<()> {
        let flags = self.flags | u32::from(complete); // IORING_ENTER_GETEVENTS is 1
        // SAFETY: no memory is handed over but the ring's own, which the kernel knows.
        answer(unsafe {
            let nothing = std::ptr::null::<libc::c_void>();
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.number,
                count,
                0,
                flags,
                nothing,
                0,
            )
        })
    }

    /// Submits `count` prepared operations and sleeps until one completes, or for `limit`.
    ///
    /// # Errors
    /// As io_uring_enter(2); a timeout (`ETIME`) is not an error.
    pub(crate) fn wait(self, count: u32, limit: libc::timespec) -> io::Result<()> {
        let arguments = Arguments {
            mask: 0,
            mask_bytes: 8,
            least_wait_us: 0,
            limit: std::ptr::from_ref(&limit) as u64,
        };
        let flags = self.flags | 1 | (1 << 3); // GETEVENTS, EXT_ARG
        // SAFETY: the arguments and the limit outlive the call, which only reads them.
        let waited = answer(unsafe {
            let (arguments, size) = (&raw const arguments, size_of::<Arguments>());
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.number,
                count,
                1,
                flags,
                arguments,
                size,
            )
        });
        match waited {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => Ok(()),
            other => other,
        }
    }
}

fn answer(status: libc::c_long) -> io::Result<()> {
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// `struct io_uring_rsrc_update`.
#[repr(C)]
struct Update {
    index: u32,
    reserved: u32,
    data: u64,
}

const IORING_REGISTER_RING_FDS: libc::c_uint = 20;
const IORING_UNREGISTER_RING_FDS: libc::c_uint = 21;

/// Registers the ring with the calling thread and returns its index; None if that is not
/// possible.
fn registered(descriptor: i32) -> Option<i32> {
    let data = u64::try_from(descriptor).ok()?;
    let index = u32::MAX; // any free one
    let update = change(descriptor, IORING_REGISTER_RING_FDS, index, data)?;
    i32::try_from(update.index).ok()
}

/// Performs `operation` on the calling thread's registered rings; None if the kernel does not support it.
fn change(descriptor: i32, operation: libc::c_uint, index: u32, data: u64) -> Option<Update> {
    let reserved = 0;
    let mut update = Update {
        index,
        reserved,
        data,
    };
    // SAFETY: the kernel reads and writes the one update, which is ours.
    let done = unsafe {
        let update = &raw mut update;
        libc::syscall(
            libc::SYS_io_uring_register,
            descriptor,
            operation,
            update,
            1,
        )
    };
    (done == 1).then_some(update)
}
