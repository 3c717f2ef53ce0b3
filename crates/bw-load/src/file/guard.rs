//! What must not be written to: other people's data.
//!
//! Decision: a file that bw made carries the extended attribute `user.benchwright.made`, so that the
//! second run may write to it without a word; every other file with data in it asks for
//! `--overwrite`. A name or a magic number in the data lost: names are chosen by users, and
//! the data is written over. A block device is opened with `O_EXCL`, which the kernel grants
//! only while nobody (a mount, swap, RAID, LVM, another tool) holds it.

use super::Refusal;
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const MARK: &CStr = c"user.benchwright.made";

/// Marks `file` as one that bw made.
///
/// # Errors
/// The file system keeps no such attributes.
pub fn mark(file: &File) -> io::Result<()> {
    let value = b"1";
    // SAFETY: name and value outlive the call, which only reads them.
    let status = unsafe {
        libc::fsetxattr(
            file.as_raw_fd(),
            MARK.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        )
    };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns whether bw made the file.
#[must_use]
pub fn is_marked(file: &File) -> bool {
    // SAFETY: a null buffer of length zero asks for the attribute's length only.
    let length =
        unsafe { libc::fgetxattr(file.as_raw_fd(), MARK.as_ptr(), std::ptr::null_mut(), 0) };
    length >= 0
}

/// Refuses to write to a regular file that has data and was not made by bw.
///
/// # Errors
/// `target-has-data`.
pub fn refuse_data(path: &Path, file: &File) -> Result<(), Refusal> {
    let empty = file.metadata().is_ok_and(|about| about.len() == 0);
    if empty || is_marked(file) {
        return Ok(());
    }
    Err(Refusal::new(
        "target-has-data",
        format!(
            "{}: this workload writes, the file exists, and bw did not make it",
            path.display()
        ),
        "name another file, or allow the loss of its data with --overwrite",
    ))
}

/// Refuses to write to a block device that holds something known: a file system, partitions,
/// a part of a volume.
///
/// # Errors
/// `target-has-data`.
pub fn refuse_contents(path: &Path, device: &mut File) -> Result<(), Refusal> {
    let Some(content) = content(device) else {
        return Ok(());
    };
    Err(Refusal::new(
        "target-has-data",
        format!(
            "{}: this workload writes, and the device holds {content}",
            path.display()
        ),
        "name another device, or allow the loss of its data with --overwrite",
    ))
}

/// Where known contents have their magic numbers: offset [bytes], number, name.
const SIGNATURES: [(usize, &[u8], &str); 9] = [
    (0x438, &[0x53, 0xef], "an ext2/3/4 file system"),
    (0, b"XFSB", "an XFS file system"),
    (0x10040, b"_BHRfS_M", "a btrfs file system"),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (0x218, b"LVM2 001", "a part of an LVM volume group"),
    (4086, b"SWAPSPACE2", "swap space"),
    (0x200, b"EFI PART", "a partition table (GPT)"),
    (
        0x1000,
        &[0xfc, 0x4e, 0x2b, 0xa9],
        "a part of a RAID array (md)",
    ),
    (510, &[0x55, 0xaa], "a partition table or a boot sector"),
];

/// Returns the name of what the device holds; None for nothing known.
fn content(device: &mut File) -> Option<&'static str> {
    let mut start = Vec::new();
    device.seek(SeekFrom::Start(0)).ok()?;
    device.take(0x10100).read_to_end(&mut start).ok()?;
    SIGNATURES
        .iter()
        .find(|(at, magic, _)| start.get(*at..at + magic.len()) == Some(magic))
        .map(|(_, _, name)| *name)
}

/// Returns the refusal of a device that the kernel does not let us have for ourselves.
#[must_use]
pub fn held(path: &Path, device: u64) -> Refusal {
    let holder = holder(device);
    Refusal::new(
        "target-held",
        format!(
            "{}: this workload writes, and the device is {holder}",
            path.display()
        ),
        "unmount or release it; --allow-writes-to-mounted writes to it all the same and will destroy what is on it",
    )
}

/// Returns in words who holds the device, as far as /proc and /sys tell.
fn holder(device: u64) -> String {
    let name = format!("{}:{}", libc::major(device), libc::minor(device));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let within = partitions(&name);
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(2);
        let (Some(mounted), Some(place)) = (fields.next(), fields.nth(1)) else {
            continue;
        };
        if mounted == name || within.iter().any(|part| part == mounted) {
            return format!("mounted on {place}");
        }
    }
    let holders = fs::read_dir(format!("/sys/dev/block/{name}/holders"))
        .map(|entries| {
            let names = entries.flatten().map(|entry| entry.file_name());
            names
                .map(|name| name.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
        })
        .unwrap_or_default();
    match holders.as_slice() {
        [] => "in use by another program or the kernel (swap, RAID, an exclusive opener)".into(),
        names => format!("a part of {}", names.join(", ")),
    }
}

/// Returns the numbers (`8:1`) of the partitions of the device with this number.
fn partitions(name: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(format!("/sys/dev/block/{name}")) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.path().join("partition").exists())
        .filter_map(|entry| fs::read_to_string(entry.path().join("dev")).ok())
        .map(|number| number.trim().to_owned())
        .collect()
}

/// Returns the device number behind a device file.
#[must_use]
pub fn number(about: &fs::Metadata) -> u64 {
    about.rdev()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn unnamed() -> File {
        use std::os::unix::fs::OpenOptionsExt;
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_TMPFILE);
        options.open(std::env::temp_dir()).unwrap()
    }

    #[test]
    fn every_signature_is_found_and_zeros_are_nothing() {
        for (at, magic, name) in SIGNATURES {
            let mut image = vec![0_u8; 0x10100];
            image[at..at + magic.len()].copy_from_slice(magic);
            let mut file = unnamed();
            file.write_all(&image).unwrap();
            assert_eq!(content(&mut file), Some(name));
        }
        let mut file = unnamed();
        file.write_all(&[0; 0x10100]).unwrap();
        assert_eq!(content(&mut file), None);
    }

    #[test]
    fn the_root_device_is_said_to_be_mounted() {
        let device = fs::metadata("/").unwrap().dev();
        assert!(holder(device).starts_with("mounted on /"));
    }
}
