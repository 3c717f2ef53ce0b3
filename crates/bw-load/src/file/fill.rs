//! Making a regular file as large as asked, so that reading it reads the device.
//!
//! Decision: the space is reserved first (fallocate: a full disk is told at once), then really
//! written with pseudo-random bytes. Reserving alone lost: blocks that were never written are
//! answered with zeros by the file system, and the device is never asked. Zeros lost: disks
//! that compress or know zeros would look faster than they are.
//!
//! What was written is made durable and dropped from the page cache as the filling goes, so that
//! the run starts cold and a file larger than memory does not push everything else out.

use crate::signals;
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

const CHUNK_BYTES: usize = 1 << 20;
/// How much is written between two syncs [bytes].
const SYNC_BYTES: u64 = 64 << 20;

/// Writes pseudo-random bytes from `from` to `to`; on trouble the file is cut to `from` again.
///
/// # Errors
/// The disk is full, a limit is reached, the device fails; `Interrupted`: by a signal.
pub fn fill(file: &File, from: u64, to: u64) -> io::Result<()> {
    reserve(file, from, to)
        .and_then(|()| write(file, from, to))
        .inspect_err(|_| {
            // Best effort: the error that is reported is the first one.
            let _ = file.set_len(from);
        })
}

/// Reserves the space; a file system that cannot is not an error.
fn reserve(file: &File, from: u64, to: u64) -> io::Result<()> {
    let (start, length) = (signed(from)?, signed(to - from)?);
    loop {
        // SAFETY: no memory is involved.
        let status = unsafe { libc::fallocate(file.as_raw_fd(), 0, start, length) };
        if status == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) if signals::caught() == 0 => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(()),
            _ => return Err(error),
        }
    }
}

fn signed(bytes: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))
}

fn write(file: &File, from: u64, to: u64) -> io::Result<()> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(from ^ to);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = from;
    while at < to {
        if signals::caught() > 0 {
            // Filling a disk takes hours: whoever asks to stop is not made to wait for it.
            return Err(io::ErrorKind::Interrupted.into());
        }
        let length = usize::try_from(to - at).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        random.fill_bytes(&mut chunk[..length]);
        file.write_all_at(&chunk[..length], at)?;
        at += length as u64;
        if (at - from).is_multiple_of(SYNC_BYTES) || at == to {
            file.sync_data()?;
            forget(file);
        }
    }
    file.sync_all()
}

/// Drops the file's clean pages from the page cache. Only advice: what it returns is no trouble.
fn forget(file: &File) {
    // SAFETY: no memory is involved.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

/// Returns where the first hole before `end` is: bytes that no device holds; None for none.
#[must_use]
pub fn first_hole(file: &File, end: u64) -> Option<u64> {
    // SAFETY: no memory is involved; operations give their own offsets, so that moving the
    // file's position disturbs nobody.
    let at = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_HOLE) };
    u64::try_from(at).ok().filter(|hole| *hole < end)
}
