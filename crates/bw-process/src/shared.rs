//! Memory shared with children, and the futex on it.
//!
//! Stamps, start gate and barrier are words in MAP_SHARED pages. A memfd is the barrier's
//! file: it has no name to be left behind when everything is killed. A file in `logs` lost:
//! a mapped page of a disk file is written back while the trial runs.
//! Sources: mmap(2), memfd_create(2), futex(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// Pages mapped MAP_SHARED, zeroed at first.
#[derive(Debug)]
pub struct Mapping {
    address: *mut libc::c_void,
    length: usize,
}

impl Mapping {
    /// Maps fresh memory that forked children share. Errors: as mmap(2).
    pub fn anonymous(length: usize) -> io::Result<Self> {
        Self::map(length, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)
    }

    /// Maps the first `length` bytes of a file. Errors: as mmap(2).
    pub fn of_file(file: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        Self::map(length, libc::MAP_SHARED, file.as_raw_fd())
    }

    fn map(length: usize, flags: i32, file: i32) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address; nothing existing is replaced.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { address, length })
    }

    /// The memory as 32-bit words.
    pub fn words(&self) -> &[AtomicU32] {
        // SAFETY: page-aligned, valid for `length` bytes while self lives; every bit
        // pattern is an AtomicU32, and atomics may be shared between processes.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.length / 4) }
    }

    /// The memory as 64-bit words.
    pub fn long_words(&self) -> &[AtomicU64] {
        // SAFETY: as for `words`.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.length / 8) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped; no slice outlives self.
        unsafe { libc::munmap(self.address, self.length) };
    }
}

/// Returns a file in memory of `length` bytes, close-on-exec. Errors: as memfd_create(2).
pub fn memory_file(name: &std::ffi::CStr, length: usize) -> io::Result<OwnedFd> {
    // SAFETY: `name` is a NUL-terminated string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: plain system calls on an open descriptor.
    let sized = unsafe {
        libc::fchmod(fd, 0o600);
        libc::ftruncate(fd, length as libc::off_t)
    };
    if sized < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// Sleeps while `word` is `expected`, until woken, at most `limit`. Wakes spuriously too.
pub fn futex_wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) {
    let time = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(limit.subsec_nanos() as i32),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `word` is a valid aligned futex; `time` is null or valid for the call.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, expected, time) };
}

/// Wakes all who sleep on `word`.
pub fn futex_wake_all(word: &AtomicU32) {
    // SAFETY: `word` is a valid aligned futex.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
}
