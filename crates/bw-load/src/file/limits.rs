//! Sizes and alignments, as the kernel reports them.
//!
//! Source: statx(2) `STATX_DIOALIGN` (Linux 6.1); ioctl_blk(2) `BLKSSZGET`.

use rustix::fs::{AtFlags, CWD, StatxFlags, ioctl_blksszget, statx};
use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What no file system or disk we know asks more than.
const CAUTIOUS_BYTES: u32 = 4096;

/// What direct operations must be multiples of [bytes].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectIoLimits {
    /// Offsets and sizes.
    pub offset_bytes: u32,
    /// Addresses in memory.
    pub memory_bytes: u32,
}

/// Returns the size of the block device [bytes].
///
/// # Errors
/// It has no medium.
pub(crate) fn device_bytes(mut device: &File) -> io::Result<u64> {
    device.seek(io::SeekFrom::End(0))
}

/// Returns the logical block size of the block device [bytes]; None where it does not say.
fn sector_bytes(device: &File) -> Option<u32> {
    ioctl_blksszget(device).ok()
}

/// Returns what statx says about direct I/O on `path`: None where the kernel or the file system does not say, zeros
/// where there is no direct I/O.
fn from_statx(path: &Path) -> Option<DirectIoLimits> {
    let about = statx(CWD, path, AtFlags::empty(), StatxFlags::DIOALIGN).ok()?;
    let known = about.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    known.then_some(DirectIoLimits {
        offset_bytes: about.stx_dio_offset_align,
        memory_bytes: about.stx_dio_mem_align,
    })
}

/// Returns what direct operations on the open `file` at `path` must be multiples of: what the
/// kernel says, else the device's sector, else 4096, on which every disk agrees.
#[must_use]
pub(crate) fn limits(path: &Path, file: &File) -> DirectIoLimits {
    from_statx(path)
        .filter(|limits| limits.offset_bytes > 0)
        .unwrap_or_else(|| {
            let bytes = sector_bytes(file).unwrap_or(CAUTIOUS_BYTES);
            DirectIoLimits {
                offset_bytes: bytes,
                memory_bytes: bytes,
            }
        })
}

/// Returns the limits of direct I/O on `path` (a file, device or directory), by trying: a file
/// is opened for reading, in a directory an unnamed file is made.
///
/// # Errors
/// The file system has no direct I/O (`EINVAL`), or the path cannot be opened.
pub fn direct_io(path: &Path) -> io::Result<DirectIoLimits> {
    let mut options = File::options();
    if path.is_dir() {
        options.write(true);
        options.custom_flags(libc::O_DIRECT | libc::O_TMPFILE);
    } else {
        options.read(true);
        options.custom_flags(libc::O_DIRECT | libc::O_NONBLOCK);
    }
    let file = options.open(path)?;
    // An unnamed file has a name here, as long as it is open.
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(limits(Path::new(&name), &file))
}
