//! The kernel's part of a capture: a private tracefs instance, and the block devices of this machine.
//!
//! Decision: where tracefs is not mounted it is mounted in a mount namespace of this process, so the machine's mounts
//! do not change. An instance belongs to the kernel and outlives its process: its name contains our process
//! id, and the next capture removes instances of processes that have ended. Source: Linux
//! Documentation/trace/ftrace.rst.

use crate::capture::format::Format;
use crate::error::TraceCode;
use bw_model::EngineError;
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "benchwright-";
/// Number of instances made by this process: makes their names distinct.
static MADE: AtomicU32 = AtomicU32::new(0);
const MOUNT_POINT: &str = "/sys/kernel/tracing";

/// A private instance; removed when dropped.
#[derive(Debug)]
pub(crate) struct Instance {
    directory: PathBuf,
}

/// A usable tracefs file system.
#[derive(Debug)]
pub(crate) struct Tracefs(PathBuf);

impl Tracefs {
    /// Finds tracefs, or mounts it for this process alone.
    ///
    /// # Errors
    /// This kernel has none, or the user may not use it; the remedy says what to do.
    pub(crate) fn open() -> Result<Self, EngineError> {
        let root = mounted().map_or_else(mount_privately, Ok)?;
        fs::read_dir(root.join("instances"))
            .map_err(|error| refused("read its instances", &root, &error))?;
        Ok(Self(root))
    }

    /// Makes a private instance with a buffer of `buffer_kib` per CPU.
    ///
    /// # Errors
    /// The user has no permission, or the kernel has no block events.
    pub(crate) fn instance(&self, buffer_kib: u32) -> Result<Instance, EngineError> {
        let instances = self.0.join("instances");
        remove_abandoned(&instances);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let directory = instances.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&directory)
            .map_err(|error| refused("make a private instance", &directory, &error))?;
        let instance = Instance { directory };
        instance.set("tracing_on", "0")?;
        instance.set("trace_clock", "mono")?;
        instance.set("buffer_size_kb", &buffer_kib.to_string())?;
        Ok(instance)
    }
}

impl Instance {
    /// Starts recording an event such as `block/block_rq_issue`, with a filter unless it is empty. Returns its fields.
    ///
    /// # Errors
    /// This kernel has no such event or refuses the filter.
    pub(crate) fn record(&self, event: &str, filter: &str) -> Result<Format, EngineError> {
        if !filter.is_empty() {
            self.set(&format!("events/{event}/filter"), filter)?;
        }
        self.set(&format!("events/{event}/enable"), "1")?;
        Ok(Format::parse(
            &self.text(&format!("events/{event}/format"))?,
        ))
    }

    /// Starts or stops the events.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn switch(&self, on: bool) -> Result<(), EngineError> {
        self.set("tracing_on", if on { "1" } else { "0" })
    }

    /// Returns the fields of the head of a page.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn page_header(&self) -> Result<Format, EngineError> {
        Ok(Format::parse(&self.text("events/header_page")?))
    }

    /// Opens the pages of each CPU; reading one consumes it and never blocks.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn pages(&self) -> Result<Vec<File>, EngineError> {
        let open = |cpu: PathBuf| {
            let path = cpu.join("trace_pipe_raw");
            let mut options = OpenOptions::new();
            let options = options.read(true).custom_flags(libc::O_NONBLOCK);
            let file = options.open(&path);
            file.map_err(|error| refused("read the events", &path, &error))
        };
        self.cpus()?.into_iter().map(open).collect()
    }

    /// Returns how many events the buffers could not hold.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn lost(&self) -> Result<u64, EngineError> {
        let lost = |cpu: PathBuf| {
            let text = self.text(&format!("{}/stats", cpu.display()))?;
            let mut counts = text
                .lines()
                .filter_map(|line| line.strip_prefix("overrun: "));
            Ok(counts
                .next()
                .and_then(|count| count.trim().parse().ok())
                .unwrap_or(0))
        };
        self.cpus()?.into_iter().map(lost).sum()
    }

    fn cpus(&self) -> Result<Vec<PathBuf>, EngineError> {
        let directory = self.directory.join("per_cpu");
        let listed = fs::read_dir(&directory).and_then(|entries| {
            let paths = entries.map(|entry| Ok(entry?.path()));
            paths.collect::<io::Result<_>>()
        });
        listed.map_err(|error| refused("list the CPUs", &directory, &error))
    }

    fn text(&self, name: &str) -> Result<String, EngineError> {
        let path = self.directory.join(name);
        let mut text = vec![0; 1 << 12];
        let mut length = 0;
        // The kernel gives `header_page` only to a first read that has room for all of it.
        let read = File::open(&path).and_then(|mut file| {
            loop {
                match file.read(&mut text[length..])? {
                    0 => return Ok(()),
                    count => length += count,
                }
                text.resize(length + (1 << 12), 0);
            }
        });
        read.map_err(|error| refused("read this", &path, &error))?;
        Ok(String::from_utf8_lossy(&text[..length]).into_owned())
    }

    fn set(&self, name: &str, value: &str) -> Result<(), EngineError> {
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

/// Removes the instances of captures that were killed.
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

/// Returns the process that made an instance of ours, from its name.
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

/// Mounts tracefs so that only this process sees it.
fn mount_privately() -> Result<PathBuf, EngineError> {
    let point = Path::new(MOUNT_POINT);
    if !point.is_dir() {
        return Err(TraceCode::TraceCapture.error(
            MOUNT_POINT,
            "this kernel has no tracefs",
            "capture on a kernel with CONFIG_TRACING and CONFIG_BLOCK; blktrace and fio's \
             write_iolog make traces that `bw trace convert` reads",
        ));
    }
    let refuse = |what| move |error: Errno| refused(what, point, &error.into());
    // SAFETY: it changes the mounts of this thread only, and nothing else relies on them: it is the capture's first
    // act.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.map_err(refuse("have mounts of its own"))?;
    // What the machine unmounts is unmounted here too, or its device would stay in use until the capture ends.
    let downstream = MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM;
    mount_change("/", downstream).map_err(refuse("keep its mounts private"))?;
    mount("none", point, "tracefs", MountFlags::empty(), None).map_err(refuse("mount tracefs"))?;
    Ok(point.to_owned())
}

fn refused(what: &str, path: &Path, error: &io::Error) -> EngineError {
    let remedy = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "recording block I/O needs root (or CAP_SYS_ADMIN): run it with sudo"
        }
        Some(libc::ENOENT) => {
            "this kernel does not support captures: it needs CONFIG_BLK_DEV_IO_TRACE and block events"
        }
        _ => "check whether another tracer holds the resource (ls /sys/kernel/tracing/instances)",
    };
    let message = format!("a capture is not permitted to {what}: {error}");
    TraceCode::TraceCapture.error(&path.to_string_lossy(), message, remedy)
}

/// The block devices at the start of the capture, in the order of their names.
#[derive(Debug, Default)]
pub(crate) struct BlockDevices {
    /// The names, by the index that rows carry.
    pub names: Vec<String>,
    indices: HashMap<(u32, u32), u16>,
}

impl BlockDevices {
    /// Returns the devices that /sys lists now.
    #[must_use]
    pub(crate) fn listed() -> Self {
        let mut found: Vec<(String, (u32, u32))> = fs::read_dir("/sys/class/block")
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let numbers = fs::read_to_string(entry.path().join("dev")).ok()?;
                Some((entry.file_name().into_string().ok()?, pair(numbers.trim())?))
            })
            .collect();
        found.sort();
        let borrowed: Vec<_> = found
            .iter()
            .map(|(name, pair)| (name.as_str(), *pair))
            .collect();
        Self::of(&borrowed)
    }

    /// Returns these devices, by name and numbers; more than 65,535 are not listed.
    #[must_use]
    pub(crate) fn of(list: &[(&str, (u32, u32))]) -> Self {
        let mut devices = Self::default();
        for (index, (name, numbers)) in (0..u16::MAX).zip(list) {
            devices.names.push((*name).to_owned());
            devices.indices.insert(*numbers, index);
        }
        devices
    }

    /// Returns the index of a device; None for one that appeared later.
    #[must_use]
    pub(crate) fn index(&self, numbers: (u32, u32)) -> Option<u16> {
        self.indices.get(&numbers).copied()
    }
}

/// Returns the events' filter for one device.
///
/// # Errors
/// The path does not exist, is not a block device, or is one whose events the block layer does not report: its
/// events name whole disks, and only those that receive requests.
pub(crate) fn filter(path: &str) -> Result<String, EngineError> {
    let wrong =
        |message: String, remedy: &str| TraceCode::TraceCapture.error(path, message, remedy);
    let about = fs::metadata(path).map_err(|error| {
        let remedy = "name a block device, such as /dev/vda (lsblk lists them)";
        wrong(format!("the device cannot be examined: {error}"), remedy)
    })?;
    if !about.file_type().is_block_device() {
        let remedy = "of a file, name the device that it lies on (df FILE shows it), or capture a process tree";
        return Err(wrong("this is not a block device".to_owned(), remedy));
    }
    let (major, minor) = (libc::major(about.rdev()), libc::minor(about.rdev()));
    let place = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    if place.join("partition").exists() {
        let remedy = "name the disk that it is a part of (lsblk shows it)";
        return Err(wrong(
            "events name whole disks, and this is a partition".to_owned(),
            remedy,
        ));
    }
    if place.exists() && !place.join("mq").exists() {
        let message = "this device gets no requests: it passes I/O on, or is memory";
        let remedy = "name a device below it (lsblk shows them), or capture a process tree";
        return Err(wrong(message.to_owned(), remedy));
    }
    // The kernel's own dev_t, which is not the one of user space (include/linux/kdev_t.h).
    Ok(format!(
        "dev == {}",
        (u64::from(major) << 20) | u64::from(minor)
    ))
}

fn pair(numbers: &str) -> Option<(u32, u32)> {
    let (major, minor) = numbers.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_no_device_and_says_what_to_do() {
        let error = filter("/proc/self/status").unwrap_err();
        assert!(error.remedy.contains("df FILE"), "{error:?}");
        assert!(
            filter("/nonexistent/x")
                .unwrap_err()
                .message
                .contains("cannot be examined")
        );
    }

    #[test]
    fn of_partitions_and_devices_without_requests_nothing_is_recorded() {
        let (mut recorded, mut refused) = (0, 0);
        for name in BlockDevices::listed().names {
            let (path, place) = (format!("/dev/{name}"), PathBuf::from("/sys/class/block"));
            let place = place.join(&name);
            if fs::metadata(&path).is_err() {
                continue;
            }
            let whole = place.join("mq").exists();
            assert_eq!(filter(&path).is_ok(), whole, "{name}");
            recorded += u32::from(whole);
            refused += u32::from(!whole);
        }
        println!("{recorded} devices can be recorded, {refused} cannot");
    }

    #[test]
    fn listed_devices_are_found_by_number() {
        let devices = BlockDevices::listed();
        for (name, numbers) in devices.names.iter().zip(0_u16..) {
            let text = fs::read_to_string(format!("/sys/class/block/{name}/dev")).unwrap();
            assert_eq!(devices.index(pair(text.trim()).unwrap()), Some(numbers));
        }
        assert_eq!(devices.index((4095, 1)), None);
    }
}
