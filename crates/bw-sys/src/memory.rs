//! Memory from the kernel: mappings, stacks, files in memory, locking.
//!
//! Sources: mmap(2), mprotect(2), memfd_create(2), mlockall(2), mlock2(2).

use rustix::fs::{MemfdFlags, Mode, fchmod, ftruncate, memfd_create};
use rustix::mm::{
    Advice, MapFlags, MlockAllFlags, MlockFlags, MprotectFlags, ProtFlags, madvise, mlock_with,
    mlockall, mmap, mmap_anonymous, mprotect, munmap,
};
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Anonymous or shared pages, initially zero; unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory belongs to the mapping alone and is not tied to a thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared mapping gives out only its address and atomics.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes that forked children share. Errors: as mmap(2).
    pub fn shared(length: usize) -> io::Result<Self> {
        Self::anonymous(length, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)
    }

    /// Maps `length` bytes for this process alone, with large pages if the kernel supports them. Errors: as mmap(2);
    /// less may be locked (`mlockall` with `MCL_FUTURE`).
    pub fn private(length: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let mapping = Self::anonymous(length, ProtFlags::READ | ProtFlags::WRITE, flags)?;
        // SAFETY: our own mapping of that length; this advice changes no contents. It may be refused.
        let _ = unsafe { madvise(mapping.base.as_ptr().cast(), length, Advice::LinuxHugepage) };
        Ok(mapping)
    }

    /// Maps the first `length` bytes of a file, shared. Errors: as mmap(2).
    pub fn of_file(file: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address; nothing existing is replaced.
        let base = unsafe { mmap(null_mut(), length, access, MapFlags::SHARED, file, 0) }?;
        Self::at(base, length)
    }

    fn anonymous(length: usize, access: ProtFlags, flags: MapFlags) -> io::Result<Self> {
        // SAFETY: the kernel chooses the address; nothing existing is replaced.
        let base = unsafe { mmap_anonymous(null_mut(), length, access, flags) }?;
        Self::at(base, length)
    }

    fn at(base: *mut std::ffi::c_void, length: usize) -> io::Result<Self> {
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, length })
    }

    /// Returns the length [bytes].
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the address of byte `position`, which is inside or at the end.
    #[must_use]
    pub fn address(&self, position: usize) -> *mut u8 {
        assert!(position <= self.length, "outside the mapping");
        self.base.as_ptr().wrapping_add(position)
    }

    /// Returns the memory as 32-bit words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU32] {
        // SAFETY: page-aligned, readable and writable for `length` bytes while self lives; every bit pattern is an
        // AtomicU32, and atomics may be shared between processes.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.length / 4) }
    }

    /// Returns the memory as 64-bit words.
    #[must_use]
    pub fn long_words(&self) -> &[AtomicU64] {
        // SAFETY: as for `words`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.length / 8) }
    }

    /// Returns bytes `from..from + length`.
    ///
    /// # Safety
    /// Nobody, the kernel included, writes there while the slice lives.
    #[must_use]
    pub unsafe fn bytes(&self, from: usize, length: usize) -> &[u8] {
        assert!(
            from.saturating_add(length) <= self.length,
            "outside the mapping"
        );
        // SAFETY: inside the mapping, initialised by the kernel, and not written to by the contract.
        unsafe { std::slice::from_raw_parts(self.address(from), length) }
    }

    /// Returns all bytes for writing.
    ///
    /// # Safety
    /// The kernel does not use the memory: no operation that reads or writes it is in flight.
    pub unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the whole mapping, borrowed for the caller alone, and not with the kernel by the contract.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped. No slice outlives self; whoever gives an address to the kernel keeps the
        // mapping until the kernel is done.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// The stack of a child that runs in the memory of its parent. Below it is a page that nobody may touch, so a stack
/// that is too small ends the child instead of changing memory of the parent.
#[derive(Debug)]
pub struct GuardedStack(Mapping);

impl GuardedStack {
    /// Maps a stack of `length` bytes, a multiple of the page size, and its guard page. Errors: as mmap(2).
    pub fn new(length: usize) -> io::Result<Self> {
        let guard = page_size();
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let mapping = Mapping::anonymous(guard + length, ProtFlags::empty(), flags)?;
        let usable = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: our own mapping, without its first page; nothing refers to it yet.
        let allowed = unsafe { mprotect(mapping.address(guard).cast(), length, usable) };
        allowed?;
        Ok(Self(mapping))
    }

    /// Returns the end of the stack, from which it grows downwards; aligned to a page.
    #[must_use]
    pub fn top(&self) -> *mut u8 {
        self.0.address(self.0.length())
    }

    /// Returns the lowest usable address; the guard page ends there.
    #[must_use]
    pub fn bottom(&self) -> *mut u8 {
        self.0.address(page_size())
    }
}

/// Returns a file in memory of `length` bytes, close-on-exec. It has no name, so nothing remains when all processes
/// are killed. Errors: as memfd_create(2).
pub fn memory_file(name: &CStr, length: u64) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC)?;
    fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    ftruncate(&file, length)?;
    Ok(file)
}

/// Locks all memory of the process, now and later, so that no page fault occurs in a run.
///
/// # Errors
/// Not permitted, or only up to a limit: beyond the limit, memory needed later would be refused instead of left
/// unlocked, and the process would end.
pub fn lock_all() -> io::Result<()> {
    match lock_limit() {
        Some(bytes) if !may_lock(bytes) => Err(io::Error::other(format!(
            "no more than {} KiB may be locked (ulimit -l)",
            bytes / 1024
        ))),
        _ => Ok(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?),
    }
}

/// Returns how much memory may be locked without a privilege [bytes]; None for no limit.
#[must_use]
pub fn lock_limit() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// Returns whether more than `limit` bytes may be locked anyway, by trying with addresses without memory
/// behind them. The capabilities in /proc are no proof: in a container they may have no effect.
fn may_lock(limit: u64) -> bool {
    let Ok(length) = usize::try_from(limit.saturating_add(1 << 20)) else {
        return false;
    };
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let Ok(mapping) = Mapping::anonymous(length, ProtFlags::empty(), flags) else {
        return false;
    };
    // SAFETY: our own mapping of that length; pages would be locked when they are touched: never.
    unsafe { mlock_with(mapping.base.as_ptr().cast(), length, MlockFlags::ONFAULT) }.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    /// Has the kernel write a byte at this address; returns whether it could.
    fn writable(address: *mut u8) -> bool {
        let zeros = File::open("/dev/zero").unwrap();
        // SAFETY: the kernel verifies the address; nothing of Rust refers to the byte.
        unsafe { libc::read(zeros.as_raw_fd(), address.cast(), 1) == 1 }
    }

    #[test]
    fn a_stack_ends_at_a_page_that_cannot_be_written() {
        let stack = GuardedStack::new(64 * 1024).unwrap();
        assert!(writable(stack.top().wrapping_sub(1)) && writable(stack.bottom()));
        assert!(!writable(stack.bottom().wrapping_sub(1)));
        // The page belongs to the stack: nothing else can be mapped there.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let end = format!("-{:08x} ---p", stack.bottom().addr());
        assert!(maps.contains(&end), "{end} in {maps}");
    }
}
