//! The locations of cgroups, the names of their files in both versions, and their limits.
//!
//! The parsers of limits are pure. Sources: cgroups(7), proc_pid_mountinfo(5), the kernel's admin-guide/cgroup-v2 and
//! admin-guide/cgroup-v1.

use crate::arguments::Roots;
use crate::disks;
use crate::text::{lines, number, only, words};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// The controllers of v1 whose hierarchies are read.
const CONTROLLERS: [&str; 6] = ["cpu", "cpuacct", "cpuset", "memory", "pids", "blkio"];

/// One mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// 1 or 2.
    pub version: u8,
    /// As in /proc/PID/cgroup: `cpu,cpuacct`; empty for version 2.
    pub controllers: String,
    /// The cgroup at the top of the mount.
    pub top: String,
    /// The mount point.
    pub mounted: PathBuf,
}

impl Hierarchy {
    /// Returns the directory of a cgroup, if it is below the mount.
    pub(crate) fn directory(&self, path: &str) -> Option<PathBuf> {
        let below = Path::new(path).strip_prefix(&self.top).ok()?;
        let plain = |part| matches!(part, std::path::Component::Normal(_));
        below
            .components()
            .all(plain)
            .then(|| self.mounted.join(below))
    }
}

/// Returns the hierarchies of /proc/self/mountinfo.
pub fn hierarchies(mountinfo: &str) -> Vec<Hierarchy> {
    mountinfo.lines().filter_map(hierarchy).collect()
}

/// Parses `32 31 0:29 TOP MOUNTED options [tags] - cgroup SOURCE super-options`.
fn hierarchy(line: &str) -> Option<Hierarchy> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let mut system = system.split(' ');
    let version = match system.next()? {
        "cgroup" => 1,
        "cgroup2" => 2,
        _ => return None,
    };
    let options = system.nth(1)?;
    let controllers = if version == 1 {
        known_controllers(options)
    } else {
        String::new()
    };
    (version == 2 || !controllers.is_empty()).then_some(())?;
    Some(Hierarchy {
        version,
        controllers,
        top: mount.next()?.to_owned(),
        mounted: PathBuf::from(mount.next()?),
    })
}

/// Returns the memberships of a /proc/PID/cgroup: `(version, controllers, path)`.
pub fn memberships(text: &str) -> impl Iterator<Item = (u8, String, &str)> {
    text.lines().filter_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        let version = if number == "0" && controllers.is_empty() {
            2
        } else {
            1
        };
        let controllers = known_controllers(controllers);
        (version == 2 || !controllers.is_empty()).then_some((version, controllers, path))
    })
}

/// Returns the controllers of a list that are read, in our order: the kernel uses several orders.
fn known_controllers(list: &str) -> String {
    let mut found: Vec<&str> = list
        .split(',')
        .filter(|name| CONTROLLERS.contains(name))
        .collect();
    found.sort_by_key(|name| CONTROLLERS.iter().position(|known| known == name));
    found.join(",")
}

/// Reads the limits of a cgroup; a missing file means no limit.
pub fn limits(directory: &Path, version: u8, roots: &Roots) -> CgroupLimits {
    let read = |name: &str| fs::read(directory.join(name)).unwrap_or_default();
    let online = fs::read(roots.sys.join("devices/system/cpu/online")).unwrap_or_default();
    let mut limits = match version {
        2 => limits_v2(&read),
        _ => limits_v1(&read),
    };
    limits.cpus = limits
        .cpus
        .filter(|cpus| cpus.as_bytes() != online.trim_ascii());
    let diskstats = fs::read(roots.proc.join("diskstats")).unwrap_or_default();
    for limit in &mut limits.io {
        limit.name = disks::name_of(&diskstats, &limit.device).unwrap_or_default();
    }
    limits
}

fn limits_v2(read: &impl Fn(&str) -> Vec<u8>) -> CgroupLimits {
    let high = amount(&read("memory.high"));
    let most = amount(&read("memory.max"));
    CgroupLimits {
        cpu_cores: cpu_max(&read("cpu.max")),
        memory_bytes: high.into_iter().chain(most).min(),
        swap_bytes: amount(&read("memory.swap.max")),
        pids: amount(&read("pids.max")),
        cpus: first_word(&read("cpuset.cpus.effective")),
        io: io_max(&read("io.max")),
    }
}

fn limits_v1(read: &impl Fn(&str) -> Vec<u8>) -> CgroupLimits {
    let memory_bytes = amount(&read("memory.limit_in_bytes"));
    let both = amount(&read("memory.memsw.limit_in_bytes"));
    let mut limits = CgroupLimits {
        cpu_cores: cpu_quota(&read("cpu.cfs_quota_us"), &read("cpu.cfs_period_us")),
        memory_bytes,
        swap_bytes: both
            .zip(memory_bytes)
            .map(|(both, memory)| (both - memory).max(0)),
        pids: amount(&read("pids.max")),
        cpus: first_word(&read("cpuset.effective_cpus")),
        io: Vec::new(),
    };
    for (name, what) in [
        ("read_bps", Throttle::ReadBytes),
        ("write_bps", Throttle::WriteBytes),
        ("read_iops", Throttle::Reads),
        ("write_iops", Throttle::Writes),
    ] {
        let text = read(&format!("blkio.throttle.{name}_device"));
        add_throttle(&mut limits.io, what, &text);
    }
    limits
}

fn first_word(bytes: &[u8]) -> Option<String> {
    let word = words(lines(bytes).next()?).next()?;
    Some(String::from_utf8_lossy(word).into_owned())
}

/// A memory limit from here on means no limit, because v1 has no word for that [bytes].
const NO_LIMIT: i64 = 1 << 60;

/// The limits that are set.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub struct CgroupLimits {
    /// CPU time, in CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<f64>,
    /// The lower of memory.max and memory.high.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<i64>,
    /// Swap in addition to memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_bytes: Option<i64>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<i64>,
    /// The permitted CPUs, as a list, if these are not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// I/O limits by device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub io: Vec<IoLimit>,
}

/// Limits on one device.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct IoLimit {
    /// `MAJOR:MINOR`.
    pub device: String,
    /// Its name, if there is one.
    pub name: String,
    /// Bytes read per second.
    pub read_bytes_per_s: Option<i64>,
    /// Bytes written per second.
    pub write_bytes_per_s: Option<i64>,
    /// Reads per second.
    pub reads_per_s: Option<i64>,
    /// Writes per second.
    pub writes_per_s: Option<i64>,
}

impl CgroupLimits {
    /// Returns whether any limit is set.
    pub(crate) fn any(&self) -> bool {
        *self != Self::default()
    }
}

/// Returns the CPUs of v2's `cpu.max`, such as `50000 100000`; None for `max`.
pub fn cpu_max(text: &[u8]) -> Option<f64> {
    let mut found = words(lines(text).next()?);
    let quota = number(found.next()?)?;
    let period = found.next().map_or(Some(100_000), number)?;
    cores(quota, period)
}

/// Returns the CPUs of v1's `cpu.cfs_quota_us` (-1: none) and `cpu.cfs_period_us`.
pub fn cpu_quota(quota: &[u8], period: &[u8]) -> Option<f64> {
    cores(only(quota)?, only(period)?)
}

fn cores(quota: i64, period: i64) -> Option<f64> {
    (quota >= 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// Returns a limit in bytes or a count; None for `max` and v1's very large number.
pub fn amount(text: &[u8]) -> Option<i64> {
    number(words(lines(text).next()?).next()?).filter(|&limit| limit < NO_LIMIT)
}

/// Parses v2's `io.max`, with lines such as `8:16 rbps=2097152 wbps=max riops=max wiops=120`.
pub fn io_max(text: &[u8]) -> Vec<IoLimit> {
    let limits = lines(text).filter_map(|line| {
        let mut rest = words(line);
        let mut limit = of_device(rest.next()?);
        for word in rest {
            let place = word.iter().position(|&byte| byte == b'=')?;
            let value = number(&word[place + 1..]);
            match &word[..place] {
                b"rbps" => limit.read_bytes_per_s = value,
                b"wbps" => limit.write_bytes_per_s = value,
                b"riops" => limit.reads_per_s = value,
                b"wiops" => limit.writes_per_s = value,
                _ => {}
            }
        }
        limits_anything(&limit).then_some(limit)
    });
    limits.collect()
}

/// One file of v1's `blkio.throttle.*_device`, by the quantity it limits.
#[derive(Debug, Clone, Copy)]
pub enum Throttle {
    /// `read_bps_device`.
    ReadBytes,
    /// `write_bps_device`.
    WriteBytes,
    /// `read_iops_device`.
    Reads,
    /// `write_iops_device`.
    Writes,
}

/// Adds the lines `MAJOR:MINOR LIMIT` of one such file.
pub fn add_throttle(limits: &mut Vec<IoLimit>, what: Throttle, text: &[u8]) {
    for line in lines(text) {
        let mut rest = words(line);
        let (Some(device), Some(value)) = (rest.next(), rest.next().and_then(number)) else {
            continue;
        };
        let device = of_device(device);
        let place = limits
            .iter()
            .position(|known| known.device == device.device);
        let place = place.unwrap_or_else(|| {
            limits.push(device);
            limits.len() - 1
        });
        let limit = &mut limits[place];
        let into = match what {
            Throttle::ReadBytes => &mut limit.read_bytes_per_s,
            Throttle::WriteBytes => &mut limit.write_bytes_per_s,
            Throttle::Reads => &mut limit.reads_per_s,
            Throttle::Writes => &mut limit.writes_per_s,
        };
        *into = Some(value);
    }
}

fn of_device(device: &[u8]) -> IoLimit {
    IoLimit {
        device: String::from_utf8_lossy(device).into_owned(),
        ..IoLimit::default()
    }
}

fn limits_anything(limit: &IoLimit) -> bool {
    let all = [
        limit.read_bytes_per_s,
        limit.write_bytes_per_s,
        limit.reads_per_s,
        limit.writes_per_s,
    ];
    all.iter().any(Option::is_some)
}

#[cfg(test)]
mod cgroup_files_tests {
    use super::*;

    const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 /docker/a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn hierarchies_of_both_versions_are_found() {
        let found = hierarchies(HYBRID);
        let names: Vec<&str> = found.iter().map(|one| &one.controllers[..]).collect();
        assert_eq!(names, ["cpu,cpuacct", "memory", ""]);
        let memory = &found[1];
        let place = Some(PathBuf::from("/sys/fs/cgroup/memory/b"));
        assert_eq!(memory.directory("/docker/a/b"), place);
        assert_eq!(memory.directory("/other"), None);
        assert_eq!(memory.directory("/docker/a/../x"), None);
    }

    #[test]
    fn memberships_leave_out_what_limits_nothing() {
        let text = "9:name=systemd:/\n4:memory:/a b (deleted)\n2:cpuacct,cpu:/c\n0::/d\n";
        let found: Vec<_> = memberships(text).collect();
        assert_eq!(found[0], (1, "memory".to_owned(), "/a b"));
        assert_eq!(found[1].1, "cpu,cpuacct");
        assert_eq!(found[2], (2, String::new(), "/d"));
    }
}

#[cfg(test)]
mod cgroup_limits_tests {
    use super::*;

    #[test]
    fn both_versions_say_no_limit_in_their_own_way() {
        assert_eq!(cpu_max(b"max 100000\n"), None);
        assert_eq!(cpu_max(b"50000 100000\n"), Some(0.5));
        assert_eq!(cpu_quota(b"-1\n", b"100000\n"), None);
        assert_eq!(cpu_quota(b"150000\n", b"100000\n"), Some(1.5));
        assert_eq!(amount(b"max\n"), None);
        assert_eq!(amount(b"9223372036854771712\n"), None);
        assert_eq!(amount(b"67108864\n"), Some(67_108_864));
    }

    #[test]
    fn io_limits_are_by_device() {
        let found = io_max(b"8:16 rbps=2097152 wbps=max riops=max wiops=120\n8:0 rbps=max\n");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].device, "8:16");
        assert_eq!(found[0].read_bytes_per_s, Some(2_097_152));
        assert_eq!(
            (found[0].write_bytes_per_s, found[0].writes_per_s),
            (None, Some(120))
        );
    }

    #[test]
    fn v1_has_a_file_for_each_kind() {
        let mut limits = Vec::new();
        add_throttle(&mut limits, Throttle::ReadBytes, b"7:0 1048576\n");
        add_throttle(&mut limits, Throttle::Writes, b"7:0 20\n7:1 30\n");
        assert_eq!(limits.len(), 2);
        assert_eq!(limits[0].read_bytes_per_s, Some(1_048_576));
        assert_eq!(
            (limits[0].writes_per_s, limits[1].writes_per_s),
            (Some(20), Some(30))
        );
    }
}
