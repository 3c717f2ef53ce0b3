//! Opening a target once for the whole run: every refusal happens here, before anything is
//! issued.

use super::buffers::Buffers;
use super::calls::FileCalls;
use super::limits::{self, Limits};
use super::making::{not_opened, prepare};
use super::ring;
use super::threads::ThreadsTarget;
use super::uring::UringTarget;
use super::{Engine, FileSpec, FileTarget, Refusal, fill, guard, making};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What the workload will do to the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purpose {
    /// Whether any operation changes data: a write or a discard.
    pub writes: bool,
}

/// A file or device that may be used. Workers share the one open file.
#[derive(Debug)]
pub struct OpenFile {
    spec: FileSpec,
    file: Arc<File>,
    size_bytes: u64,
    block_bytes: u32,
    absent: Vec<String>,
    home: libc::cpu_set_t,
}

/// Opens what `spec` names for `purpose`; a regular file is made, and made larger, as asked.
/// Call it before threads are pinned: the threads engine runs where the caller may run.
///
/// # Errors
/// See [`Refusal`]; its codes all start with `target-`.
pub fn open(spec: &FileSpec, purpose: Purpose) -> Result<OpenFile, Refusal> {
    making::check_spec(spec)?;
    let path = spec.path.as_path();
    let device = is_device(spec)?;
    let mut absent = Vec::new();
    let checked = match device {
        true => None,
        false => prepare(spec, purpose, &mut absent)?,
    };
    let file = open_file(spec, purpose, device)?;
    match checked {
        Some(checked) => guard::refuse_other(path, &checked, &file)?,
        None if device && purpose.writes => check_device(spec, &file)?,
        None => {}
    }
    let (size_bytes, limits) = (size(spec, &file, device)?, limits::limits(path, &file));
    if let Some(hole) = (!device)
        .then(|| fill::first_hole(&file, size_bytes))
        .flatten()
    {
        absent.push(format!(
            "data from byte {hole} on: never written, so that reads there may not reach the device"
        ));
    }
    Ok(OpenFile {
        block_bytes: block(spec, limits)?,
        spec: spec.clone(),
        file: Arc::new(file),
        size_bytes,
        absent,
        home: affinity(),
    })
}

impl OpenFile {
    /// Returns how much of the target is used [bytes].
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns what offsets and sizes must be multiples of [bytes]: 1 where everything goes.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Refuses offsets or sizes that are not multiples of the block; `what` names them
    /// in the message, as `access.size`.
    ///
    /// # Errors
    /// `target-unaligned`.
    pub fn check_multiple(&self, what: &str, bytes: u64) -> Result<(), Refusal> {
        let block = u64::from(self.block_bytes);
        if bytes.is_multiple_of(block) {
            return Ok(());
        }
        let (path, before) = (self.spec.path.display(), bytes - bytes % block);
        let near = match before {
            0 => format!("{block}"),
            _ => format!("{before} or {}", before + block),
        };
        Err(Refusal::new(
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
    /// `target-engine`: the engine that was asked for is not to be had.
    pub fn worker(&self, depth: u32, largest_bytes: u32) -> Result<FileTarget, Refusal> {
        let uring = match self.spec.engine {
            Engine::Threads => Err("io_uring: threads were asked for".to_owned()),
            _ => self.uring(depth, largest_bytes),
        };
        match (uring, self.spec.engine) {
            (Ok(target), _) => Ok(FileTarget::Uring(Box::new(target))),
            (Err(why), Engine::IoUring) => Err(Refusal::new(
                "target-engine",
                why,
                "leave out the engine, or ask for threads",
            )),
            (Err(why), _) => self.threads(depth, largest_bytes, why),
        }
    }

    /// Returns what executes operations while its caller waits; one for each thread.
    ///
    /// # Errors
    /// `target-engine`: there is no memory for buffers.
    pub fn synchronous(&self, largest_bytes: u32) -> Result<FileCalls, Refusal> {
        let buffers = Buffers::new(1, largest_bytes).map_err(|error| no_memory(&error))?;
        Ok(FileCalls::new(Arc::clone(&self.file), buffers))
    }

    fn uring(&self, depth: u32, largest_bytes: u32) -> Result<UringTarget, String> {
        let buffers = Buffers::new(depth, largest_bytes)
            .map_err(|error| format!("io_uring: no memory for buffers: {error}"))?;
        let target = UringTarget::new(Arc::clone(&self.file), buffers, depth);
        let mut target = target.map_err(|error| format!("io_uring: {}", ring::refused(&error)))?;
        target.note_absent(&self.absent);
        Ok(target)
    }

    fn threads(&self, depth: u32, largest: u32, why: String) -> Result<FileTarget, Refusal> {
        let buffers = Buffers::new(depth, largest).map_err(|error| no_memory(&error))?;
        let count = u32::from(self.spec.threads).min(depth);
        let file = Arc::clone(&self.file);
        let mut target =
            ThreadsTarget::new(file, buffers, (depth, count), self.home).map_err(|error| {
                Refusal::new(
                    "target-engine",
                    format!("{count} threads cannot be started: {error}"),
                    "ask for fewer threads",
                )
            })?;
        target.note_absent(&self.absent);
        target.note_absent(&[why]);
        Ok(FileTarget::Threads(Box::new(target)))
    }
}

fn no_memory(error: &io::Error) -> Refusal {
    Refusal::new(
        "target-engine",
        format!("no memory for the buffers of the target: {error}"),
        "ask for a smaller depth or smaller operations, or raise the limit (ulimit -l)",
    )
}

/// Returns whether the path is a block device; a missing file is none.
fn is_device(spec: &FileSpec) -> Result<bool, Refusal> {
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
    Err(Refusal::new(
        "target-kind",
        format!("{path}: {what}, not a regular file or a block device"),
        "name a file in it, or a block device",
    ))
}

fn open_file(spec: &FileSpec, purpose: Purpose, device: bool) -> Result<File, Refusal> {
    let path = spec.path.as_path();
    let exclusive = device && purpose.writes && !spec.allow_writes_to_mounted;
    let mut options = File::options();
    options.read(true).write(purpose.writes);
    let flag = |wanted: bool, flag: i32| if wanted { flag } else { 0 };
    options.custom_flags(flag(spec.direct, libc::O_DIRECT) | flag(exclusive, libc::O_EXCL));
    opened(&options, path).map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) if exclusive => {
            let number = fs::metadata(path).map(|about| guard::number(&about));
            guard::held(path, number.unwrap_or_default())
        }
        Some(libc::EINVAL) if spec.direct => Refusal::new(
            "target-no-direct-io",
            format!("{}: its file system has no direct I/O", path.display()),
            "leave out --direct, or name a file on another file system",
        ),
        _ => not_opened(path, &error),
    })
}

/// Opens the path; a device that is busy is tried again for 200 ms, because the kernel lets go
/// of one, or looks for partitions on a new one, a moment after the call that began it.
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

/// Refuses a device that holds data, or is used by way of another one. It is ours already, so that
/// nobody can take it between this look and the first write.
fn check_device(spec: &FileSpec, device: &File) -> Result<(), Refusal> {
    let path = spec.path.as_path();
    let about = device
        .metadata()
        .map_err(|error| not_opened(path, &error))?;
    if !spec.allow_writes_to_mounted {
        guard::refuse_other_loops(path, guard::number(&about))?;
    }
    if spec.overwrite {
        return Ok(());
    }
    // Once more, since direct reads would have to be aligned.
    let readable = File::open(path).map_err(|error| not_opened(path, &error))?;
    guard::refuse_other(path, device, &readable)?;
    guard::refuse_contents(path, &readable)
}

fn size(spec: &FileSpec, file: &File, device: bool) -> Result<u64, Refusal> {
    let held = if device {
        limits::device_bytes(file)
    } else {
        file.metadata().map(|about| about.len())
    };
    let held = held.map_err(|error| not_opened(&spec.path, &error))?;
    let asked = spec.size_bytes.unwrap_or(held);
    let path = spec.path.display();
    if held == 0 {
        let message = format!("{path}: it is empty");
        return Err(Refusal::new("target-size", message, "give a size"));
    }
    if asked > held {
        let message = format!("{path}: the device has {held} bytes, not {asked}");
        return Err(Refusal::new("target-size", message, "ask for less"));
    }
    Ok(asked)
}

/// Returns what offsets and sizes are multiples of: what the user says, if the device agrees.
fn block(spec: &FileSpec, limits: Limits) -> Result<u32, Refusal> {
    let least = if spec.direct { limits.offset_bytes } else { 1 };
    match spec.block_bytes {
        Some(asked) if !asked.is_multiple_of(least) => Err(Refusal::new(
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

/// Returns where the calling thread may run.
fn affinity() -> libc::cpu_set_t {
    // SAFETY: a set of processors is plain bits, for which all zeros is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the size it is told to the set, which is ours.
    unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    set
}
