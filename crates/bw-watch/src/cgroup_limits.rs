//! Limits of a cgroup: what its files say, as the line `cgroup` tells it. Pure.
//! Sources: the kernel's admin-guide/cgroup-v2 and admin-guide/cgroup-v1.

use serde::Serialize;

use crate::text::{lines, number, only, words};

/// A memory limit from here on means none: v1 has no word for it [bytes].
const NO_LIMIT: i64 = 1 << 60;

/// The limits that are there.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub struct Limits {
    /// Processors' worth of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<f64>,
    /// The lower of memory.max and memory.high.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<i64>,
    /// Swap beyond memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_bytes: Option<i64>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<i64>,
    /// The processors, as a list, where these are not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// By device.
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
    /// Bytes read a second.
    pub read_bytes_per_s: Option<i64>,
    /// Bytes written a second.
    pub write_bytes_per_s: Option<i64>,
    /// Reads a second.
    pub reads_per_s: Option<i64>,
    /// Writes a second.
    pub writes_per_s: Option<i64>,
}

impl Limits {
    /// Returns whether there is any.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

/// Returns cores of v2's `cpu.max`: `50000 100000`; `max`: none.
pub fn cpu_max(text: &[u8]) -> Option<f64> {
    let mut found = words(lines(text).next()?);
    let quota = number(found.next()?)?;
    let period = found.next().map_or(Some(100_000), number)?;
    cores(quota, period)
}

/// Returns cores of v1's `cpu.cfs_quota_us` (-1: none) and `cpu.cfs_period_us`.
pub fn cpu_quota(quota: &[u8], period: &[u8]) -> Option<f64> {
    cores(only(quota)?, only(period)?)
}

fn cores(quota: i64, period: i64) -> Option<f64> {
    (quota >= 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// Returns a limit in bytes, or of a count; `max` and v1's giant number: none.
pub fn amount(text: &[u8]) -> Option<i64> {
    number(words(lines(text).next()?).next()?).filter(|&limit| limit < NO_LIMIT)
}

/// Returns v2's `io.max`: `8:16 rbps=2097152 wbps=max riops=max wiops=120` a line.
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

/// One file of v1's `blkio.throttle.*_device`, by what it limits.
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
mod tests {
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
