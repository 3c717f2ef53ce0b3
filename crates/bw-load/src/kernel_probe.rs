//! What this kernel and machine offer the engine, determined by trying.
//!
//! Decision: a ring is really made and direct I/O really opened, because kernel versions say nothing
//! about seccomp, sysctls and containers. What cannot be determined is `null`, never zero or false.
//!
//! Source: docs/engine-protocol.md (probe); io_uring_setup(2); proc(5); kernel documentation
//! of `sched_rt_runtime_us` and tracefs.

use crate::clock;
use crate::file::{direct_io, ring};
use bw_sys::cpus::Affinity;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The result of the probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelProbe {
    /// The kernel's release, as `6.18.44`.
    pub kernel: Option<String>,
    /// Whether rings are available, and their features.
    pub io_uring: RingProbe,
    /// Direct I/O on the requested paths.
    pub direct_io: Vec<DirectProbe>,
    /// The kernel's clock source, as `tsc`.
    pub clock_source: Option<String>,
    /// Whether the CPU's counter always runs at one rate; None if that is unknown.
    pub invariant_tsc: Option<bool>,
    /// How much memory may be locked.
    pub locked_memory: Limit,
    /// How long real-time threads may run in each `rt_period_us` [us]; -1: no limit.
    pub rt_runtime_us: Option<i64>,
    /// The period of `rt_runtime_us` [us].
    pub rt_period_us: Option<i64>,
    /// The CPUs that this process may use.
    pub cpus: Vec<usize>,
    /// The CPUs that are isolated from the scheduler, as `2-3`; empty: none.
    pub isolated_cpus: Option<String>,
    /// Whether block device requests can be traced.
    pub tracefs: TraceProbe,
}

/// Whether rings are available.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RingProbe {
    /// Whether a ring could be made.
    pub available: bool,
    /// Its features.
    pub features: Vec<String>,
    /// Unavailable features, each with its reason.
    pub absent: Vec<String>,
}

/// Whether direct I/O on a path is possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DirectProbe {
    /// The file, device or directory.
    pub path: PathBuf,
    /// Whether it is possible.
    pub available: bool,
    /// What offsets and sizes must be multiples of [bytes].
    pub offset_bytes: Option<u32>,
    /// What addresses must be multiples of [bytes].
    pub memory_bytes: Option<u32>,
    /// Why it is not possible.
    pub absent: Option<String>,
}

/// A resource limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// This number of bytes.
    Bytes(u64),
    /// No limit.
    Unlimited,
    /// The kernel does not report it.
    Unknown,
}

/// Whether block device requests can be traced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceProbe {
    /// Whether the events can be used.
    pub available: bool,
    /// Where tracefs is mounted.
    pub path: Option<PathBuf>,
    /// Why they cannot be used.
    pub absent: Option<String>,
}

/// Returns what this kernel and machine offer; direct I/O is tried on each of `paths`.
#[must_use]
pub fn probe(paths: &[PathBuf]) -> KernelProbe {
    let scheduler = |name: &str| number(&format!("/proc/sys/kernel/{name}"));
    KernelProbe {
        kernel: line("/proc/sys/kernel/osrelease"),
        io_uring: rings(),
        direct_io: paths.iter().map(|path| direct(path)).collect(),
        clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        invariant_tsc: clock::invariant_tsc(),
        locked_memory: locked_memory(),
        rt_runtime_us: scheduler("sched_rt_runtime_us"),
        rt_period_us: scheduler("sched_rt_period_us"),
        cpus: Affinity::current().cpus().collect(),
        isolated_cpus: line("/sys/devices/system/cpu/isolated"),
        tracefs: tracing(&["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]),
    }
}

/// Returns the first line of a kernel file; None if it cannot be read.
fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().next().unwrap_or_default().trim().to_owned())
}

fn number(path: &str) -> Option<i64> {
    line(path)?.parse().ok()
}

fn rings() -> RingProbe {
    match ring::build(8) {
        Ok(made) => RingProbe {
            available: true,
            features: made.features,
            absent: made.absent,
        },
        Err(error) => RingProbe {
            available: false,
            features: Vec::new(),
            absent: vec![format!("io_uring: {}", ring::refused(&error))],
        },
    }
}

fn direct(path: &Path) -> DirectProbe {
    let limits = direct_io(path);
    DirectProbe {
        path: path.to_owned(),
        available: limits.is_ok(),
        offset_bytes: limits.as_ref().ok().map(|limits| limits.offset_bytes),
        memory_bytes: limits.as_ref().ok().map(|limits| limits.memory_bytes),
        absent: limits.err().map(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => "its file system has no direct I/O".to_owned(),
            _ => error.to_string(),
        }),
    }
}

fn locked_memory() -> Limit {
    bw_sys::memory::lock_limit().map_or(Limit::Unlimited, Limit::Bytes)
}

/// Looks for the block events under the first of `mounts` that exists.
fn tracing(mounts: &[&str]) -> TraceProbe {
    let found = mounts
        .iter()
        .map(Path::new)
        .find(|mount| mount.join("instances").exists());
    let tried = match found {
        None => Err("tracefs is not mounted, or this user may not look into it".to_owned()),
        Some(mount) => may_trace(mount),
    };
    TraceProbe {
        available: tried.is_ok(),
        path: found.map(Path::to_owned),
        absent: tried.err(),
    }
}

fn may_trace(mount: &Path) -> Result<(), String> {
    let event = mount.join("events/block/block_rq_issue/enable");
    let opened = fs::File::options().write(true).open(&event);
    opened.map(drop).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "this kernel has no block events".to_owned(),
        _ => format!("{}: {error}", event.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_has_a_reason() {
        let missing = PathBuf::from("/no/such/file");
        let found = probe(&[missing.clone(), PathBuf::from("/proc/self/status")]);
        assert!(!found.direct_io[0].available);
        assert_eq!(found.direct_io[0].offset_bytes, None);
        assert!(found.direct_io.iter().all(|path| path.absent.is_some()));
        assert!(found.io_uring.available || !found.io_uring.absent.is_empty());
        let nowhere = tracing(&["/no/tracefs"]);
        assert!(!nowhere.available && nowhere.path.is_none() && nowhere.absent.is_some());
    }

    #[test]
    fn unknown_is_not_zero_in_json() {
        let json = serde_json::to_value([Limit::Unknown, Limit::Bytes(0)]).unwrap();
        assert_eq!(json, serde_json::json!(["unknown", {"bytes": 0}]));
    }
}
