//! Whole texts of the statistic files, before and after: evidence for what no column has.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::json;
use crate::roots::Roots;

/// No copy is longer; the rest is cut [bytes].
const LARGEST: u64 = 1 << 20;

const OF_PROC: [&str; 23] = [
    "stat",
    "meminfo",
    "vmstat",
    "diskstats",
    "interrupts",
    "softirqs",
    "net/dev",
    "net/snmp",
    "net/netstat",
    "net/sockstat",
    "net/sockstat6",
    "net/softnet_stat",
    "schedstat",
    "loadavg",
    "sys/fs/file-nr",
    "swaps",
    "pressure/cpu",
    "pressure/memory",
    "pressure/io",
    "slabinfo",
    "buddyinfo",
    "zoneinfo",
    "mdstat",
];

const OF_CGROUP: [&str; 12] = [
    "cpu.stat",
    "cpuacct.stat",
    "memory.stat",
    "memory.events",
    "memory.failcnt",
    "memory.oom_control",
    "io.stat",
    "blkio.throttle.io_service_bytes",
    "blkio.throttle.io_serviced",
    "cpu.pressure",
    "memory.pressure",
    "io.pressure",
];

/// Writes a line `file` for each file there is. `groups` are directories of cgroups.
pub fn write<'a>(
    roots: &Roots,
    groups: impl Iterator<Item = &'a Path>,
    at: &str,
    out: &mut Vec<u8>,
) {
    let nodes = numa_nodes(roots);
    let of_groups = groups.flat_map(|group| OF_CGROUP.iter().map(|name| group.join(name)));
    let all = OF_PROC
        .iter()
        .map(|name| roots.proc.join(name))
        .chain(nodes);
    for path in all.chain(of_groups) {
        if let Some(text) = read(&path) {
            out.extend_from_slice(b"{\"type\":\"file\",\"at\":");
            json::string(out, at.as_bytes());
            out.extend_from_slice(b",\"path\":");
            json::string(out, path.as_os_str().as_encoded_bytes());
            out.extend_from_slice(b",\"text\":");
            json::string(out, &text);
            out.extend_from_slice(b"}\n");
        }
    }
}

fn numa_nodes(roots: &Roots) -> Vec<PathBuf> {
    let directory = roots.sys.join("devices/system/node");
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path().join("numastat")).collect();
    found.retain(|path| path.is_file());
    found.sort();
    found
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let file = File::open(path).ok()?;
    file.take(LARGEST).read_to_end(&mut text).ok()?;
    Some(text)
}
