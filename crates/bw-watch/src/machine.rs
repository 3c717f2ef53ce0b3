//! The machine as a whole: its sources in the order of their columns, its constants, and copies of its statistics
//! files.

use crate::arguments::Roots;
use crate::columns::{ColumnSource, FileSource};
use crate::disks::Disks;
use crate::memory::{FileTable, MEMORY_LINES, Memory, VM_LINES, Vm};
use crate::network::{Interfaces, NETSTAT, SNMP, Sockets, Softnet};
use crate::output;
use crate::processors::{Clocks, Cpu, Pressure, SoftIrqs};
use crate::text::only;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// How often a source is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// At every sample.
    Sample,
    /// Once a second and at both ends; between these its columns keep their values.
    Second,
}

/// A source, how often it is read, and how many columns it has now.
pub(crate) struct PacedSource {
    pub source: Box<dyn ColumnSource>,
    /// How often it is read.
    pub pace: Pace,
    /// Its columns.
    pub width: usize,
}

/// Returns the sources, the CPUs first. Two of the network's files cost as much as all
/// others together and count rare events: they are read at the slow pace.
pub(crate) fn sources(roots: &Roots) -> Vec<PacedSource> {
    let proc = |name: &str| roots.proc.join(name);
    let disks = Disks::new(roots.sys.join("block"));
    vec![
        paced(Pace::Sample, FileSource::new(proc("stat"), Cpu::default())),
        paced(
            Pace::Sample,
            FileSource::new(proc("softirqs"), SoftIrqs::default()),
        ),
        paced(
            Pace::Sample,
            FileSource::new(proc("meminfo"), Memory::new("memory/", MEMORY_LINES)),
        ),
        paced(
            Pace::Sample,
            FileSource::new(proc("vmstat"), Vm::new("vm/", VM_LINES)),
        ),
        paced(Pace::Sample, FileSource::new(proc("diskstats"), disks)),
        paced(
            Pace::Sample,
            FileSource::new(proc("net/dev"), Interfaces::default()),
        ),
        paced(
            Pace::Second,
            FileSource::new(proc("net/snmp"), Sockets::new(SNMP)),
        ),
        paced(
            Pace::Second,
            FileSource::new(proc("net/netstat"), Sockets::new(NETSTAT)),
        ),
        paced(
            Pace::Second,
            FileSource::new(proc("net/softnet_stat"), Softnet),
        ),
        paced(
            Pace::Sample,
            FileSource::new(proc("sys/fs/file-nr"), FileTable),
        ),
        paced(
            Pace::Sample,
            FileSource::new(proc("pressure/cpu"), Pressure::new("cpu")),
        ),
        paced(
            Pace::Sample,
            FileSource::new(proc("pressure/memory"), Pressure::new("memory")),
        ),
        paced(
            Pace::Sample,
            FileSource::new(proc("pressure/io"), Pressure::new("io")),
        ),
        paced(Pace::Second, Clocks::new(roots)),
    ]
}

fn paced(pace: Pace, source: impl ColumnSource + 'static) -> PacedSource {
    PacedSource {
        source: Box::new(source),
        pace,
        width: 0,
    }
}

/// Returns `net/I/speed_mbit` (of a device or a bond, where reported), `disk/D/{size_bytes,requests,rotational}`,
/// `processes`, `threads`, `files`.
pub(crate) fn of_machine(roots: &Roots) -> BTreeMap<String, i64> {
    let mut found = BTreeMap::new();
    for name in entries(&roots.sys.join("class/net")) {
        let link = roots.sys.join("class/net").join(&name);
        // A virtual interface reports a speed that does not limit it: veth 10000, tun 10.
        if link.join("device").exists() || link.join("bonding").exists() {
            // -1: unknown.
            let path = link.join("speed");
            add_limit(&mut found, format!("net/{name}/speed_mbit"), &path, 1);
        }
    }
    for name in entries(&roots.sys.join("block")) {
        let block = roots.sys.join("block").join(&name);
        let disk = format!("disk/{}", name.replace('!', "/"));
        add_limit(
            &mut found,
            format!("{disk}/size_bytes"),
            &block.join("size"),
            512,
        );
        add_limit(
            &mut found,
            format!("{disk}/requests"),
            &block.join("queue/nr_requests"),
            1,
        );
        add_limit(
            &mut found,
            format!("{disk}/rotational"),
            &block.join("queue/rotational"),
            1,
        );
    }
    for (name, path) in [
        ("processes", "sys/kernel/pid_max"),
        ("threads", "sys/kernel/threads-max"),
        ("files", "sys/fs/file-max"),
    ] {
        add_limit(&mut found, name.to_owned(), &roots.proc.join(path), 1);
    }
    found
}

fn add_limit(found: &mut BTreeMap<String, i64>, name: String, path: &Path, unit: i64) {
    let value = fs::read(path).ok().and_then(|text| only(&text));
    if let Some(value) = value.filter(|value| *value >= 0) {
        found.insert(name, value.saturating_mul(unit));
    }
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Maximum length of a copy; the rest is cut [bytes].
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

/// Writes a line `file` for each file that exists. `groups` are directories of cgroups.
pub(crate) fn write<'a>(
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
        if let Some(text) = read_copy(&path) {
            out.extend_from_slice(b"{\"type\":\"file\",\"at\":");
            output::string(out, at.as_bytes());
            out.extend_from_slice(b",\"path\":");
            output::string(out, path.as_os_str().as_encoded_bytes());
            out.extend_from_slice(b",\"text\":");
            output::string(out, &text);
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

fn read_copy(path: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let file = File::open(path).ok()?;
    file.take(LARGEST).read_to_end(&mut text).ok()?;
    Some(text)
}
