//! Sizes and alignments, as the kernel tells them.
//!
//! Source: statx(2) `STATX_DIOALIGN` (Linux 6.1), ioctl_blk: `BLKGETSIZE64`, `BLKSSZGET`.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// `_IOR(0x12, 114, size_t)`, which the libc crate does not have.
const BLKGETSIZE64: libc::Ioctl = 0x8008_1272;
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
/// It is no block device, or has no medium.
pub fn device_bytes(device: &File) -> io::Result<u64> {
    let mut bytes: u64 = 0;
    // SAFETY: the request writes one u64 to an address of ours.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), BLKGETSIZE64, &raw mut bytes) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes)
}

/// Returns the logical block size of the block device [bytes]; None where it does not tell.
fn sector_bytes(device: &File) -> Option<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one int to an address of ours.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), libc::BLKSSZGET, &raw mut bytes) };
    (status == 0).then(|| u32::try_from(bytes).ok()).flatten()
}

/// Returns what statx says about direct I/O on `path`: None where the kernel or the file
/// system does not tell, zeros where there is no direct I/O.
fn told(path: &Path) -> Option<DirectIoLimits> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: statx is plain numbers, for which all zeros is a value.
    let mut about: libc::statx = unsafe { std::mem::zeroed() };
    let mask = libc::STATX_DIOALIGN;
    // SAFETY: the path ends with NUL and the buffer is ours; both outlive the call.
    let status = unsafe { libc::statx(libc::AT_FDCWD, path.as_ptr(), 0, mask, &raw mut about) };
    (status == 0 && about.stx_mask & mask != 0).then_some(DirectIoLimits {
        offset_bytes: about.stx_dio_offset_align,
        memory_bytes: about.stx_dio_mem_align,
    })
}

/// Returns what direct operations on the open `file` at `path` must be multiples of: what the
/// kernel says, else the device's sector, else 4096, on which every disk agrees.
#[must_use]
pub fn limits(path: &Path, file: &File) -> DirectIoLimits {
    told(path)
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
