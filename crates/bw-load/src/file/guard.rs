//! What must not be written to: other people's data.
//!
//! Decision: a file that bw made carries the extended attribute `user.benchwright.made`, so that the
//! second run may write to it without a word; every other file with data in it asks for
//! `--overwrite`. A name or a magic number in the data lost: names are chosen by users, and
//! the data is written over. A block device is opened with `O_EXCL`, which the kernel grants
//! only while nobody (a mount, swap, RAID, LVM, another tool) holds it. What was checked and what
//! is written to are one: both are held open and compared, so that a name that is changed meanwhile
//! leads nowhere.

use super::making::not_opened;
use super::{Refusal, contents};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
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

/// Refuses to write to a regular file that has data and was not made by bw, or that was made by
/// bw and holds something known since: a copy keeps the mark, and a file system in it does too.
///
/// # Errors
/// `target-has-data`, `target-open`.
pub fn refuse_data(path: &Path, file: &File) -> Result<(), Refusal> {
    let empty = file.metadata().is_ok_and(|about| about.len() == 0);
    if empty {
        return Ok(());
    }
    if is_marked(file) {
        return refuse_contents(path, file);
    }
    Err(has_data(path, "the file exists, and bw did not make it"))
}

/// Refuses to write to what holds something known: a file system, partitions, a part of a volume.
///
/// # Errors
/// `target-has-data`; `target-open`: it cannot be read, so that nobody knows.
pub fn refuse_contents(path: &Path, file: &File) -> Result<(), Refusal> {
    match content(file) {
        Ok(None) => Ok(()),
        Ok(Some(content)) => Err(has_data(path, &format!("it holds {content}"))),
        Err(error) => Err(not_opened(path, &error)),
    }
}

fn has_data(path: &Path, what: &str) -> Refusal {
    Refusal::new(
        "target-has-data",
        format!("{}: this workload writes, and {what}", path.display()),
        "name another file or device, or allow the loss of its data with --overwrite",
    )
}

/// Returns the name of what the device or file holds; None for nothing known.
fn content(file: &File) -> io::Result<Option<&'static str>> {
    let size = (&*file).seek(SeekFrom::End(0))?;
    let start = piece(file, 0, contents::START_BYTES)?;
    let behind = size.saturating_sub(contents::END_BYTES as u64);
    let end = piece(file, behind, contents::END_BYTES)?;
    Ok(contents::known(&start, &end, size))
}

/// Returns up to `length` bytes from `at` on.
fn piece(mut file: &File, at: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Refuses a path that led to one thing when it was looked at, and to another when it was opened.
///
/// # Errors
/// `target-changed`.
pub fn refuse_other(path: &Path, checked: &File, opened: &File) -> Result<(), Refusal> {
    let identity = |file: &File| {
        let about = file.metadata().map_err(|error| not_opened(path, &error))?;
        let device = about.file_type().is_block_device();
        Ok::<_, Refusal>(match device {
            true => (device, about.rdev(), 0),
            false => (device, about.dev(), about.ino()),
        })
    };
    if identity(checked)? == identity(opened)? {
        return Ok(());
    }
    Err(Refusal::new(
        "target-changed",
        format!(
            "{}: another file has taken its place meanwhile",
            path.display()
        ),
        "see who renames files or links there, and name a file that stays",
    ))
}

/// Refuses a file that a loop device makes a disk of: what is mounted from that would be destroyed.
/// `own` is the number (`7:1`) of the loop device that may use it: the target.
///
/// # Errors
/// `target-held`.
pub fn refuse_loop(path: &Path, image: &fs::Metadata, own: &str) -> Result<(), Refusal> {
    let loops = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    for entry in loops {
        let over = |backing: String| fs::metadata(backing.trim_end_matches('\n'));
        let backing = fs::read_to_string(entry.path().join("loop/backing_file"));
        let Ok(backing) = backing.and_then(over) else {
            continue;
        };
        let number = fs::read_to_string(entry.path().join("dev")).unwrap_or_default();
        if (backing.dev(), backing.ino()) == (image.dev(), image.ino()) && number.trim() != own {
            let name = entry.file_name();
            return Err(refusal_of_held(
                path,
                &format!("the image of /dev/{}", name.display()),
            ));
        }
    }
    Ok(())
}

/// Refuses a loop device over a file that another loop device uses too.
///
/// # Errors
/// `target-held`.
pub fn refuse_other_loops(path: &Path, device: u64) -> Result<(), Refusal> {
    let own = dotted(device);
    let backing = fs::read_to_string(format!("/sys/dev/block/{own}/loop/backing_file"));
    match backing.and_then(|backing| fs::metadata(backing.trim_end_matches('\n'))) {
        Ok(image) => refuse_loop(path, &image, &own),
        Err(_) => Ok(()), // no loop device, or over a file that has no name any more
    }
}

/// Returns the refusal of a device that the kernel does not let us have for ourselves.
#[must_use]
pub fn held(path: &Path, device: u64) -> Refusal {
    refusal_of_held(path, &holder(device))
}

fn refusal_of_held(path: &Path, holder: &str) -> Refusal {
    Refusal::new(
        "target-held",
        format!(
            "{}: this workload writes, and it is {holder}",
            path.display()
        ),
        "unmount or release it; --allow-writes-to-mounted with --overwrite writes to it all the same and will destroy what is on it",
    )
}

/// Returns the number of a device as /sys has it: `7:1`.
fn dotted(device: u64) -> String {
    format!("{}:{}", libc::major(device), libc::minor(device))
}

/// Returns in words who holds the device, as far as /proc and /sys tell.
fn holder(device: u64) -> String {
    let name = dotted(device);
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

    #[test]
    fn the_root_device_is_said_to_be_mounted() {
        let device = fs::metadata("/").unwrap().dev();
        assert!(holder(device).starts_with("mounted on /"));
    }
}
