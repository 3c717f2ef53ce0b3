//! The block devices of this machine: names for the numbers that events carry.

use crate::error::{TraceCode, TraceError};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

/// Every block device when the capture began, in the order of their names.
#[derive(Debug, Default)]
pub struct Devices {
    /// The names, by the index that rows carry.
    pub names: Vec<String>,
    indices: HashMap<(u32, u32), u16>,
}

impl Devices {
    /// Returns the devices that /sys lists now.
    #[must_use]
    pub fn listed() -> Self {
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
    pub fn of(list: &[(&str, (u32, u32))]) -> Self {
        let mut devices = Self::default();
        for (index, (name, numbers)) in (0..u16::MAX).zip(list) {
            devices.names.push((*name).to_owned());
            devices.indices.insert(*numbers, index);
        }
        devices
    }

    /// Returns the index of a device; None for one that came later.
    #[must_use]
    pub fn index(&self, numbers: (u32, u32)) -> Option<u16> {
        self.indices.get(&numbers).copied()
    }
}

/// Returns the events' filter for one device.
///
/// # Errors
/// There is no such path, it is no block device, or one of which the block layer tells nothing: its
/// events name whole disks, and only those that get requests.
pub fn filter(path: &str) -> Result<String, TraceError> {
    let wrong = |message: String, remedy: &str| {
        TraceError::new(TraceCode::TraceCapture, path, message, remedy)
    };
    let about = fs::metadata(path).map_err(|error| {
        let remedy = "name a block device, such as /dev/vda (lsblk lists them)";
        wrong(format!("the device cannot be looked at: {error}"), remedy)
    })?;
    if !about.file_type().is_block_device() {
        let remedy =
            "of a file, name the device that it lies on (df FILE tells), or capture a process tree";
        return Err(wrong("this is no block device".to_owned(), remedy));
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
                .contains("cannot be looked at")
        );
    }

    #[test]
    fn of_partitions_and_devices_without_requests_nothing_is_recorded() {
        let (mut recorded, mut refused) = (0, 0);
        for name in Devices::listed().names {
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
        let devices = Devices::listed();
        for (name, numbers) in devices.names.iter().zip(0_u16..) {
            let text = fs::read_to_string(format!("/sys/class/block/{name}/dev")).unwrap();
            assert_eq!(devices.index(pair(text.trim()).unwrap()), Some(numbers));
        }
        assert_eq!(devices.index((4095, 1)), None);
    }
}
