//! Opens a target once for the whole run, and makes the regular file that the spec requests. Every refusal happens
//! here, before anything is issued.
//!
//! Decision: the space is reserved first (fallocate: a full disk is reported at once), then written with
//! pseudo-random bytes. Rejected: reserving alone (the file system answers reads of unwritten blocks with zeros
//! and never asks the device) and zeros (disks that compress or detect zeros would look faster than they are).
//! Written data are made durable and dropped from the page cache during the filling, so the run starts cold and a
//! file larger than memory does not evict everything else.
//!
//! Each worker then gets a [`FileTarget`] on the one open file.
//!
//! Sizes and alignments are those that the kernel reports: statx(2) `STATX_DIOALIGN` (Linux 6.1); ioctl_blk(2)
//! `BLKSSZGET`.

use crate::file::engines::{Engines, FileTarget};
use crate::file::operand::Operand;
use crate::file::overwrite;
use crate::file::spec::{FileSpec, not_opened};
use bw_model::EngineError;
use bw_sys::cpus::Affinity;
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rustix::fs::{
    Advice, AtFlags, CWD, FallocateFlags, SeekFrom, StatxFlags, fadvise, fallocate,
    ioctl_blksszget, seek, statx,
};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What the workload will do to the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetUse {
    /// Whether any operation changes data: a write or a discard.
    pub writes: bool,
}

/// A file or device that may be used. Workers share the one open file.
#[derive(Debug)]
pub struct OpenFile {
    spec: FileSpec,
    size_bytes: u64,
    block_bytes: u32,
    engines: Engines,
}

/// Opens what `spec` names for `purpose`; makes or enlarges a regular file as requested.
/// Call it before threads are pinned: the threads engine runs where the caller may run.
///
/// # Errors
/// See [`EngineError`]; its codes all start with `target-`.
pub fn open(spec: &FileSpec, purpose: TargetUse) -> Result<OpenFile, EngineError> {
    check_spec(spec)?;
    let path = spec.path.as_path();
    let device = is_device(spec)?;
    let mut absent = Vec::new();
    let checked = match device {
        true => None,
        false => make_or_check(spec, purpose, &mut absent)?,
    };
    let file = open_file(spec, purpose, device)?;
    match checked {
        Some(checked) => overwrite::refuse_other(path, &checked, &file)?,
        None if device && purpose.writes => check_device(spec, &file)?,
        None => {}
    }
    let (size_bytes, limits) = (size(spec, &file, device)?, limits(path, &file));
    if let Some(hole) = (!device).then(|| first_hole(&file, size_bytes)).flatten() {
        absent.push(format!(
            "data from byte {hole} on: never written, so that reads there may not reach the device"
        ));
    }
    Ok(OpenFile {
        block_bytes: block(spec, limits)?,
        spec: spec.clone(),
        engines: Engines {
            operand: Operand::File(Arc::new(file)),
            engine: spec.engine,
            threads: spec.threads,
            unique_data: purpose.writes && !spec.repeat_data,
            affinity: Affinity::current(),
            features: Vec::new(),
            absent,
        },
        size_bytes,
    })
}

impl OpenFile {
    /// Returns how much of the target is used [bytes].
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns what offsets and sizes must be multiples of [bytes]; 1 if there is no constraint.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Refuses offsets or sizes that are not multiples of the block; `what` names them
    /// in the message, for example `access.size`.
    ///
    /// # Errors
    /// `target-unaligned`.
    pub fn check_multiple(&self, what: &str, bytes: u64) -> Result<(), EngineError> {
        let block = u64::from(self.block_bytes);
        if bytes.is_multiple_of(block) {
            return Ok(());
        }
        let (path, before) = (self.spec.path.display(), bytes - bytes % block);
        let near = match before {
            0 => format!("{block}"),
            _ => format!("{before} or {}", before + block),
        };
        Err(EngineError::request(
            "target-unaligned",
            format!(
                "{path}: {what} is {bytes} bytes, not a multiple of the block of {block} bytes"
            ),
            format!("take {near}, or leave out --direct"),
        ))
    }

    /// Makes a worker's own target for `depth` operations in flight of up to `largest_bytes`
    /// each. Call it in the worker's thread: a ring belongs to the thread that made it.
    ///
    /// # Errors
    /// `target-engine`: the requested engine is not available.
    pub fn worker(&self, depth: u32, largest_bytes: u32) -> Result<FileTarget, EngineError> {
        self.engines.worker(depth, largest_bytes)
    }
}

/// Returns whether the path is a block device; false for a missing file.
fn is_device(spec: &FileSpec) -> Result<bool, EngineError> {
    let path = spec.path.display();
    let about = match fs::metadata(&spec.path) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound && spec.size_bytes.is_some() => {
            return Ok(false);
        }
        Err(error) => return Err(not_opened(&spec.path, &error)),
    };
    let kind = about.file_type();
    let what = if kind.is_file() || kind.is_block_device() {
        return Ok(kind.is_block_device());
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_char_device() {
        "a character device"
    } else {
        "a pipe or socket"
    };
    Err(EngineError::request(
        "target-kind",
        format!("{path}: {what}, not a regular file or a block device"),
        "name a file in it, or a block device",
    ))
}

fn open_file(spec: &FileSpec, purpose: TargetUse, device: bool) -> Result<File, EngineError> {
    let path = spec.path.as_path();
    let exclusive = device && purpose.writes && !spec.allow_writes_to_mounted;
    let mut options = File::options();
    options.read(true).write(purpose.writes);
    let flag = |wanted: bool, flag: i32| if wanted { flag } else { 0 };
    options.custom_flags(flag(spec.direct, libc::O_DIRECT) | flag(exclusive, libc::O_EXCL));
    opened(&options, path).map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) if exclusive => {
            let number = fs::metadata(path).map(|about| overwrite::device_number(&about));
            overwrite::held(path, number.unwrap_or_default())
        }
        Some(libc::EINVAL) if spec.direct => EngineError::request(
            "target-no-direct-io",
            format!("{}: its file system has no direct I/O", path.display()),
            "leave out --direct, or name a file on another file system",
        ),
        _ => not_opened(path, &error),
    })
}

/// Opens the path. A busy device is tried again for 200 ms, because the kernel releases a device, or scans a new
/// one for partitions, a moment after the call that started this.
fn opened(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let mut tries = 10;
    loop {
        match options.open(path) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && tries > 0 => tries -= 1,
            other => return other,
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Refuses a device that holds data, or is used through another device. It is already open exclusively, so
/// no other process can take it between this check and the first write.
fn check_device(spec: &FileSpec, device: &File) -> Result<(), EngineError> {
    let path = spec.path.as_path();
    let about = device
        .metadata()
        .map_err(|error| not_opened(path, &error))?;
    if !spec.allow_writes_to_mounted {
        overwrite::refuse_other_loops(path, overwrite::device_number(&about))?;
    }
    if spec.overwrite {
        return Ok(());
    }
    // Opened a second time, because direct reads would have to be aligned.
    let readable = File::open(path).map_err(|error| not_opened(path, &error))?;
    overwrite::refuse_other(path, device, &readable)?;
    overwrite::refuse_contents(path, &readable)
}

fn size(spec: &FileSpec, file: &File, device: bool) -> Result<u64, EngineError> {
    let held = if device {
        device_bytes(file)
    } else {
        file.metadata().map(|about| about.len())
    };
    let held = held.map_err(|error| not_opened(&spec.path, &error))?;
    let asked = spec.size_bytes.unwrap_or(held);
    let path = spec.path.display();
    if held == 0 {
        let message = format!("{path}: it is empty");
        return Err(EngineError::request("target-size", message, "give a size"));
    }
    if asked > held {
        let message = format!("{path}: the device has {held} bytes, not {asked}");
        return Err(EngineError::request(
            "target-size",
            message,
            "use a smaller size",
        ));
    }
    Ok(asked)
}

/// Returns what offsets and sizes must be multiples of: the user's value, if the device permits it.
fn block(spec: &FileSpec, limits: DirectIoLimits) -> Result<u32, EngineError> {
    let least = if spec.direct { limits.offset_bytes } else { 1 };
    match spec.block_bytes {
        Some(asked) if !asked.is_multiple_of(least) => Err(EngineError::request(
            "target-unaligned",
            format!(
                "{}: a block of {asked} bytes, but direct I/O here needs multiples of {least}",
                spec.path.display()
            ),
            format!("take {least}, or leave out --direct"),
        )),
        Some(asked) => Ok(asked),
        None => Ok(least),
    }
}

/// Refuses a spec that is contradictory, whatever is at its path.
///
/// # Errors
/// `target-spec`.
pub(crate) fn check_spec(spec: &FileSpec) -> Result<(), EngineError> {
    let wrong = |what: &str, remedy: &str| {
        let message = format!("{}: {what}", spec.path.display());
        Err(EngineError::request("target-spec", message, remedy))
    };
    if !(1..=1024).contains(&spec.threads) {
        return wrong("threads must be 1 to 1024", "take 16");
    }
    if spec.size_bytes == Some(0) {
        return wrong(
            "a size of 0 leaves nothing to read or write",
            "leave out the size",
        );
    }
    if spec
        .block_bytes
        .is_some_and(|bytes| !bytes.is_power_of_two())
    {
        return wrong("the block must be a power of two", "take 4096");
    }
    Ok(())
}

/// Makes or enlarges the regular file, if that is requested and permitted. Returns the
/// checked file if it will be written to; None if it is only read.
///
/// # Errors
/// `target-open`, `target-has-data`, `target-held`, `target-size`, `target-interrupted`.
pub(crate) fn make_or_check(
    spec: &FileSpec,
    purpose: TargetUse,
    absent: &mut Vec<String>,
) -> Result<Option<File>, EngineError> {
    let path = spec.path.as_path();
    let held = fs::metadata(path).map(|about| about.len());
    let smaller = |held: &u64| spec.size_bytes.is_some_and(|asked| *held < asked);
    match (held, spec.size_bytes) {
        (Err(_), Some(asked)) => make(path, asked, absent).map(Some),
        (Ok(held), _) if purpose.writes || smaller(&held) => check_and_grow(spec).map(Some),
        _ => Ok(None),
    }
}

fn check_and_grow(spec: &FileSpec) -> Result<File, EngineError> {
    let path = spec.path.as_path();
    let file = File::options().read(true).write(true).open(path);
    let file = file.map_err(|error| not_opened(path, &error))?;
    let about = file.metadata().map_err(|error| not_opened(path, &error))?;
    if !spec.allow_writes_to_mounted {
        overwrite::refuse_loop(path, &about, "")?;
    }
    if !spec.overwrite {
        overwrite::refuse_data(path, &file)?;
    }
    match spec.size_bytes {
        Some(asked) if about.is_file() && about.len() < asked => {
            let filled = fill(&file, about.len(), asked);
            filled.map_err(|error| not_filled(path, asked, &error))?;
        }
        _ => {}
    }
    Ok(file)
}

fn make(path: &Path, bytes: u64, absent: &mut Vec<String>) -> Result<File, EngineError> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let file = file.map_err(|error| not_opened(path, &error))?;
    if let Err(error) = overwrite::mark(&file) {
        absent.push(format!(
            "the mark of a file made by bw: {error}; the next run that writes needs --overwrite"
        ));
    }
    if let Err(error) = fill(&file, 0, bytes) {
        remove_made(path, &file);
        return Err(not_filled(path, bytes, &error));
    }
    Ok(file)
}

/// Removes the file that was just made and failed; but not another file that has
/// taken its name.
fn remove_made(path: &Path, made: &File) {
    let identity = |about: fs::Metadata| (about.dev(), about.ino());
    let there = fs::symlink_metadata(path).map(identity).ok();
    if there.is_some() && there == made.metadata().map(identity).ok() {
        let _ = fs::remove_file(path);
    }
}

fn not_filled(path: &Path, bytes: u64, error: &io::Error) -> EngineError {
    if error.kind() == io::ErrorKind::Interrupted {
        let message = format!("{}: a signal interrupted its creation", path.display());
        return EngineError::request("target-interrupted", message, "run it again");
    }
    EngineError::request(
        "target-size",
        format!(
            "{}: cannot be made {bytes} bytes large: {error}",
            path.display()
        ),
        "use a smaller size, make room, or raise the limit (ulimit -f)",
    )
}

const CHUNK_BYTES: usize = 1 << 20;
/// How much is written between two syncs [bytes].
const SYNC_BYTES: u64 = 64 << 20;

/// Writes pseudo-random bytes from `from` to `to`; on error the file is truncated to `from` again.
///
/// # Errors
/// The disk is full, a limit is reached, the device fails; `Interrupted`: a signal.
pub fn fill(file: &File, from: u64, to: u64) -> io::Result<()> {
    reserve(file, from, to)
        .and_then(|()| write_random(file, from, to))
        .inspect_err(|_| {
            // Best effort: the first error is the one that is reported.
            let _ = file.set_len(from);
        })
}

/// Reserves the space; a file system that cannot is not an error.
fn reserve(file: &File, from: u64, to: u64) -> io::Result<()> {
    loop {
        match fallocate(file, FallocateFlags::empty(), from, to - from) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
            Err(Errno::INTR) if bw_sys::signals::caught() == 0 => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn write_random(file: &File, from: u64, to: u64) -> io::Result<()> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(from ^ to);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = from;
    while at < to {
        if bw_sys::signals::caught() > 0 {
            // Filling a disk can take hours, so a request to stop takes effect here.
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

/// Drops the file's clean pages from the page cache. Only advice: its result is ignored.
fn forget(file: &File) {
    let _ = fadvise(file, 0, None, Advice::DontNeed);
}

/// Returns the position of the first hole before `end`: bytes that no device holds; None if there is none.
#[must_use]
pub(crate) fn first_hole(file: &File, end: u64) -> Option<u64> {
    // Operations carry their own offsets, so moving the file's position affects nothing.
    seek(file, SeekFrom::Hole(0))
        .ok()
        .filter(|hole| *hole < end)
}

/// An alignment that satisfies every file system and disk we know [bytes].
const CAUTIOUS_BYTES: u32 = 4096;

/// The alignment that direct I/O requires [bytes].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectIoLimits {
    /// Offsets and sizes.
    pub offset_bytes: u32,
    /// Addresses in memory.
    pub memory_bytes: u32,
}

/// Returns the size of the block device [bytes].
///
/// # Errors
/// The device has no medium.
pub(crate) fn device_bytes(mut device: &File) -> io::Result<u64> {
    device.seek(io::SeekFrom::End(0))
}

/// Returns the logical block size of the block device [bytes]; None if it reports none.
fn sector_bytes(device: &File) -> Option<u32> {
    ioctl_blksszget(device).ok()
}

/// Returns what statx reports about direct I/O on `path`: None if the kernel or the file system reports nothing,
/// zeros if direct I/O is not supported.
fn from_statx(path: &Path) -> Option<DirectIoLimits> {
    let about = statx(CWD, path, AtFlags::empty(), StatxFlags::DIOALIGN).ok()?;
    let known = about.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    known.then_some(DirectIoLimits {
        offset_bytes: about.stx_dio_offset_align,
        memory_bytes: about.stx_dio_mem_align,
    })
}

/// Returns what direct operations on the open `file` at `path` must be multiples of: the kernel's value,
/// otherwise the device's sector, otherwise 4096, which suits every disk.
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

/// Returns the limits of direct I/O on `path` (a file, device or directory), by trying: it opens a file
/// for reading, and makes an unnamed file in a directory.
///
/// # Errors
/// Direct I/O is not supported (`EINVAL`), or the path cannot be opened.
pub(crate) fn direct_io(path: &Path) -> io::Result<DirectIoLimits> {
    let mut options = File::options();
    if path.is_dir() {
        options.write(true);
        options.custom_flags(libc::O_DIRECT | libc::O_TMPFILE);
    } else {
        options.read(true);
        options.custom_flags(libc::O_DIRECT | libc::O_NONBLOCK);
    }
    let file = options.open(path)?;
    // An unnamed file has this name as long as it is open.
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(limits(Path::new(&name), &file))
}
