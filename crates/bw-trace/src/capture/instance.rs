//! A private tracefs instance: its own buffer, events and filters, no clash with other tracers.
//!
//! Decision: where tracefs is not mounted it is mounted in a mount namespace of this process's own,
//! so that the machine's mounts stay as they were. The instance itself belongs to the kernel
//! and outlives its maker: its name carries our process id, and instances of processes
//! that are gone are removed by the next capture. Source: Linux Documentation/trace/ftrace.rst.

use crate::error::{TraceCode, TraceError};
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "benchwright-";
/// How many instances this process has made: each has a name of its own.
static MADE: AtomicU32 = AtomicU32::new(0);
const MOUNT_POINT: &str = "/sys/kernel/tracing";

/// A private instance; removed when dropped.
#[derive(Debug)]
pub struct Instance {
    directory: PathBuf,
}

/// A tracefs file system that can be used, and how it was come by.
#[derive(Debug)]
pub struct Tracefs(PathBuf);

impl Tracefs {
    /// Finds tracefs, or mounts it for this process alone.
    ///
    /// # Errors
    /// This kernel has none, or the user may not use it; says what to do.
    pub fn open() -> Result<Self, TraceError> {
        let root = mounted().map_or_else(mount_privately, Ok)?;
        fs::read_dir(root.join("instances"))
            .map_err(|error| refused("read its instances", &root, &error))?;
        Ok(Self(root))
    }

    /// Makes a private instance with a buffer of `buffer_kib` per processor.
    ///
    /// # Errors
    /// The user may not, or the kernel has no block events.
    pub fn instance(&self, buffer_kib: u32) -> Result<Instance, TraceError> {
        let instances = self.0.join("instances");
        remove_abandoned(&instances);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let directory = instances.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&directory)
            .map_err(|error| refused("make a private instance", &directory, &error))?;
        let instance = Instance { directory };
        instance.set("tracing_on", "0")?;
        instance.set("trace_clock", "mono")?;
        instance.set("options/irq-info", "0")?;
        instance.set("buffer_size_kb", &buffer_kib.to_string())?;
        Ok(instance)
    }
}

impl Instance {
    /// Begins or ends recording an event such as `block/block_rq_issue`, with a filter if it is not empty.
    ///
    /// # Errors
    /// This kernel has no such event or refuses the filter.
    pub fn record(&self, event: &str, filter: &str) -> Result<(), TraceError> {
        if !filter.is_empty() {
            self.set(&format!("events/{event}/filter"), filter)?;
        }
        self.set(&format!("events/{event}/enable"), "1")
    }

    /// Lets the events flow, or stops them.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn switch(&self, on: bool) -> Result<(), TraceError> {
        self.set("tracing_on", if on { "1" } else { "0" })
    }

    /// Opens the stream of lines; reading takes them away, and never blocks.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn lines(&self) -> Result<File, TraceError> {
        let path = self.directory.join("trace_pipe");
        OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)
            .map_err(|error| refused("read the events", &path, &error))
    }

    fn set(&self, name: &str, value: &str) -> Result<(), TraceError> {
        let path = self.directory.join(name);
        fs::write(&path, value).map_err(|error| refused("set this", &path, &error))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.switch(false);
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Removes what captures left that were killed.
fn remove_abandoned(instances: &Path) {
    let Ok(entries) = fs::read_dir(instances) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(owner);
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The process that made an instance of ours, from its name.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

fn mounted() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/thread-self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let place = words.nth(1)?;
        (words.next()? == "tracefs").then(|| PathBuf::from(place))
    })
}

/// Mounts tracefs where only this process sees it.
fn mount_privately() -> Result<PathBuf, TraceError> {
    let point = Path::new(MOUNT_POINT);
    if !point.is_dir() {
        return Err(TraceError::new(
            TraceCode::TraceCapture,
            MOUNT_POINT,
            "this kernel has no tracefs",
            "capture on a kernel with CONFIG_TRACING and CONFIG_BLOCK; blktrace and fio's \
             write_iolog make traces that `bw trace convert` reads",
        ));
    }
    let refuse = |what, result| match result {
        0 => Ok(()),
        _ => Err(refused(what, point, &io::Error::last_os_error())),
    };
    // SAFETY: unshare takes no pointers; it is called before any other thread uses the
    // file system namespace (the capture's first act).
    refuse("have mounts of its own", unsafe {
        libc::unshare(libc::CLONE_NEWNS)
    })?;
    let (root, none, kind, target) = (c"/", c"none", c"tracefs", c_path(point)?);
    // SAFETY: all strings are NUL-terminated and outlive the calls; data may be null.
    refuse("keep its mounts private", unsafe {
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        libc::mount(
            none.as_ptr(),
            root.as_ptr(),
            std::ptr::null(),
            flags,
            std::ptr::null(),
        )
    })?;
    // SAFETY: as above.
    refuse("mount tracefs", unsafe {
        libc::mount(
            none.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            0,
            std::ptr::null(),
        )
    })?;
    Ok(point.to_owned())
}

fn c_path(path: &Path) -> Result<CString, TraceError> {
    CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| {
        TraceError::new(
            TraceCode::TraceCapture,
            MOUNT_POINT,
            "a NUL byte",
            "report this",
        )
    })
}

fn refused(what: &str, path: &Path, error: &io::Error) -> TraceError {
    let remedy = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "recording block I/O needs root (or CAP_SYS_ADMIN): run it with sudo"
        }
        Some(libc::ENOENT) => {
            "this kernel has not what a capture needs: CONFIG_BLK_DEV_IO_TRACE, block events"
        }
        _ => "see whether another tracer holds the resource (ls /sys/kernel/tracing/instances)",
    };
    let message = format!("a capture may not {what}: {error}");
    TraceError::new(
        TraceCode::TraceCapture,
        &path.to_string_lossy(),
        message,
        remedy,
    )
}
