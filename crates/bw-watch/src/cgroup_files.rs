//! Where cgroups are and what their files are called, in both versions.
//! Sources: cgroups(7), proc_pid_mountinfo(5).

use std::fs;
use std::path::{Path, PathBuf};

use crate::cgroup_limits::{self as text, Limits, Throttle};
use crate::disks;
use crate::roots::Roots;
use crate::text::{lines, words};

/// Controllers of v1 whose hierarchies are looked at.
const TOLD: [&str; 6] = ["cpu", "cpuacct", "cpuset", "memory", "pids", "blkio"];

/// One mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// 1 or 2.
    pub version: u8,
    /// As in /proc/PID/cgroup: `cpu,cpuacct`; empty for version 2.
    pub controllers: String,
    /// The cgroup that the mount shows at its top.
    pub top: String,
    /// Where it is mounted.
    pub mounted: PathBuf,
}

impl Hierarchy {
    /// Returns the directory of a cgroup, if the mount shows it.
    pub fn directory(&self, path: &str) -> Option<PathBuf> {
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

/// `32 31 0:29 TOP MOUNTED options [tags] - cgroup SOURCE super-options`.
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
        told(options)
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
        let controllers = told(controllers);
        (version == 2 || !controllers.is_empty()).then_some((version, controllers, path))
    })
}

/// Returns those of a list that are looked at, in our order: the kernel has several.
fn told(list: &str) -> String {
    let mut found: Vec<&str> = list.split(',').filter(|name| TOLD.contains(name)).collect();
    found.sort_by_key(|name| TOLD.iter().position(|known| known == name));
    found.join(",")
}

/// Reads the limits of a cgroup; a file that is not there is no limit.
pub fn limits(directory: &Path, version: u8, roots: &Roots) -> Limits {
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

fn limits_v2(read: &impl Fn(&str) -> Vec<u8>) -> Limits {
    let high = text::amount(&read("memory.high"));
    let most = text::amount(&read("memory.max"));
    Limits {
        cpu_cores: text::cpu_max(&read("cpu.max")),
        memory_bytes: high.into_iter().chain(most).min(),
        swap_bytes: text::amount(&read("memory.swap.max")),
        pids: text::amount(&read("pids.max")),
        cpus: list(&read("cpuset.cpus.effective")),
        io: text::io_max(&read("io.max")),
    }
}

fn limits_v1(read: &impl Fn(&str) -> Vec<u8>) -> Limits {
    let memory_bytes = text::amount(&read("memory.limit_in_bytes"));
    let both = text::amount(&read("memory.memsw.limit_in_bytes"));
    let mut limits = Limits {
        cpu_cores: text::cpu_quota(&read("cpu.cfs_quota_us"), &read("cpu.cfs_period_us")),
        memory_bytes,
        swap_bytes: both
            .zip(memory_bytes)
            .map(|(both, memory)| (both - memory).max(0)),
        pids: text::amount(&read("pids.max")),
        cpus: list(&read("cpuset.effective_cpus")),
        io: Vec::new(),
    };
    for (name, what) in [
        ("read_bps", Throttle::ReadBytes),
        ("write_bps", Throttle::WriteBytes),
        ("read_iops", Throttle::Reads),
        ("write_iops", Throttle::Writes),
    ] {
        let text = read(&format!("blkio.throttle.{name}_device"));
        text::add_throttle(&mut limits.io, what, &text);
    }
    limits
}

fn list(bytes: &[u8]) -> Option<String> {
    let word = words(lines(bytes).next()?).next()?;
    Some(String::from_utf8_lossy(word).into_owned())
}

#[cfg(test)]
mod tests {
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
