//! Protection of existing data: what must not be written to.
//!
//! Decision: a file that bw made carries the extended attribute `user.benchwright.made`, so a second run may write to
//! it without an option; every other file with data in it needs `--overwrite`. Rejected: a name or a magic number in
//! the data (names are chosen by users, and the data are overwritten). A block device is opened with `O_EXCL`, which
//! the kernel grants only while no mount, swap, RAID, LVM or other tool holds it. The checked file and the file that
//! will be written to are compared while both are open, so renaming in between has no effect.
//!
//! The contents of a device or a file are recognised by magic numbers, with our own list of what must not be lost.
//! Rejected: libblkid, which knows more formats but is a C library to link for one question. Formats with their
//! signature at the end (RAID metadata 0.90 and 1.0, the second GPT) are looked for there. The two signatures of only
//! two bytes count only together with their surroundings, because random bytes contain them now and then. Not
//! recognised: data without any signature, such as a database on a bare partition. Source: util-linux libblkid
//! (superblocks, partitions).

use crate::file::spec::not_opened;
use bw_model::EngineError;
use rustix::fs::{XattrFlags, fgetxattr_query, fsetxattr};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

const MARK: &CStr = c"user.benchwright.made";

/// Marks `file` as one that bw made.
///
/// # Errors
/// The file system does not support such attributes.
pub(crate) fn mark(file: &File) -> io::Result<()> {
    Ok(fsetxattr(file, MARK, b"1", XattrFlags::empty())?)
}

/// Returns whether bw made the file.
#[must_use]
pub(crate) fn is_marked(file: &File) -> bool {
    fgetxattr_query(file, MARK).is_ok()
}

/// Refuses to write to a regular file that has data and was not made by bw, or that was made by
/// bw and has recognised contents since: a copy keeps the mark, and so does a file with a file system in it.
///
/// # Errors
/// `target-has-data`, `target-open`.
pub(crate) fn refuse_data(path: &Path, file: &File) -> Result<(), EngineError> {
    let empty = file.metadata().is_ok_and(|about| about.len() == 0);
    if empty {
        return Ok(());
    }
    if is_marked(file) {
        return refuse_contents(path, file);
    }
    Err(has_data(path, "the file exists, and bw did not make it"))
}

/// Refuses to write to recognised contents: a file system, partitions, part of a volume.
///
/// # Errors
/// `target-has-data`; `target-open`: the file cannot be read, so its contents are unknown.
pub(crate) fn refuse_contents(path: &Path, file: &File) -> Result<(), EngineError> {
    match content_of(file) {
        Ok(None) => Ok(()),
        Ok(Some(content)) => Err(has_data(path, &format!("it contains {content}"))),
        Err(error) => Err(not_opened(path, &error)),
    }
}

fn has_data(path: &Path, what: &str) -> EngineError {
    EngineError::request(
        "target-has-data",
        format!("{}: this workload writes, and {what}", path.display()),
        "name another file or device, or allow the loss of its data with --overwrite",
    )
}

/// Returns the name of what the device or file holds; None if nothing is recognised.
fn content_of(file: &File) -> io::Result<Option<&'static str>> {
    let size = (&*file).seek(SeekFrom::End(0))?;
    let start = piece(file, 0, START_BYTES)?;
    let behind = size.saturating_sub(END_BYTES as u64);
    let end = piece(file, behind, END_BYTES)?;
    Ok(known_content(&start, &end, size))
}

/// Returns up to `length` bytes from `at` on.
fn piece(mut file: &File, at: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Refuses a path that led to one file when it was checked, and to another when it was opened.
///
/// # Errors
/// `target-changed`.
pub(crate) fn refuse_other(path: &Path, checked: &File, opened: &File) -> Result<(), EngineError> {
    let identity = |file: &File| {
        let about = file.metadata().map_err(|error| not_opened(path, &error))?;
        let device = about.file_type().is_block_device();
        Ok::<_, EngineError>(match device {
            true => (device, about.rdev(), 0),
            false => (device, about.dev(), about.ino()),
        })
    };
    if identity(checked)? == identity(opened)? {
        return Ok(());
    }
    Err(EngineError::request(
        "target-changed",
        format!("{}: another file replaced it meanwhile", path.display()),
        "find the program that renames files or links there, or name another file",
    ))
}

/// Refuses a file that backs a loop device: what is mounted from that device would be destroyed.
/// `own` is the number (`7:1`) of the loop device that may use the file: the target.
///
/// # Errors
/// `target-held`.
pub(crate) fn refuse_loop(path: &Path, image: &fs::Metadata, own: &str) -> Result<(), EngineError> {
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
pub(crate) fn refuse_other_loops(path: &Path, device: u64) -> Result<(), EngineError> {
    let own = dotted(device);
    let backing = fs::read_to_string(format!("/sys/dev/block/{own}/loop/backing_file"));
    match backing.and_then(|backing| fs::metadata(backing.trim_end_matches('\n'))) {
        Ok(image) => refuse_loop(path, &image, &own),
        Err(_) => Ok(()), // no loop device, or over a file that has no name any more
    }
}

/// Returns the refusal of a device that the kernel does not let us open exclusively.
#[must_use]
pub(crate) fn held(path: &Path, device: u64) -> EngineError {
    refusal_of_held(path, &holder(device))
}

fn refusal_of_held(path: &Path, holder: &str) -> EngineError {
    EngineError::request(
        "target-held",
        format!(
            "{}: this workload writes, and it is {holder}",
            path.display()
        ),
        "unmount or release it; --allow-writes-to-mounted with --overwrite writes to it all the same and will destroy what is on it",
    )
}

/// Returns a device number as /sys writes it: `7:1`.
fn dotted(device: u64) -> String {
    format!("{}:{}", libc::major(device), libc::minor(device))
}

/// Returns in words who holds the device, as far as /proc and /sys report it.
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
pub(crate) fn device_number(about: &fs::Metadata) -> u64 {
    about.rdev()
}

/// How much of the start is examined [bytes].
pub(crate) const START_BYTES: usize = 256 << 10;
/// How much of the end is examined [bytes].
pub(crate) const END_BYTES: usize = 132 << 10;

type Signature = (usize, &'static [u8], &'static str);

const LVM: &[u8] = b"LVM2 001";
const LVM_NAME: &str = "a part of an LVM volume group";
const MD: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];
const MD_NAME: &str = "a part of a RAID array (md)";
const GPT: &[u8] = b"EFI PART";
const GPT_NAME: &str = "a partition table (GPT)";
const SWAP: &[u8] = b"SWAPSPACE2";
const SWAP_NAME: &str = "swap space";

/// Signatures from the start: offset [bytes], magic number, name.
const AT_START: [Signature; 31] = [
    (0, b"XFSB", "an XFS file system"),
    (0x10040, b"_BHRfS_M", "a btrfs file system"),
    (0x400, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system"),
    (0x1018, &[0xc6, 0x85, 0x73, 0xf6], "bcache or bcachefs"),
    (0x10034, b"ReIsEr", "a reiserfs file system"),
    (0x8000, b"JFS1", "a JFS file system"),
    (0x2000, b"OCFSV2", "an OCFS2 file system"),
    (0x10000, &[0x01, 0x16, 0x19, 0x70], "a GFS2 file system"),
    (0x400, b"H+\0\x04", "an HFS+ file system"),
    (0x400, b"HX\0\x05", "an HFS+ file system"),
    (32, b"NXSB", "an APFS container"),
    (0, b"hsqs", "a squashfs file system"),
    (0x400, &[0xe2, 0xe1, 0xf5, 0xe0], "an EROFS file system"),
    (0x8001, b"CD001", "an ISO 9660 file system"),
    (0x8001, b"BEA01", "a UDF file system"),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (0x4000, b"SKUL\xba\xbe", "an encrypted volume (LUKS)"),
    (0, b"bluestore block device", "a Ceph store"),
    (32, b"ORCLDISK", "an Oracle ASM disk"),
    (0x018, LVM, LVM_NAME),
    (0x218, LVM, LVM_NAME),
    (0x418, LVM, LVM_NAME),
    (0x618, LVM, LVM_NAME),
    (0, MD, MD_NAME),
    (0x1000, MD, MD_NAME),
    (4096 - 10, SWAP, SWAP_NAME),
    (16_384 - 10, SWAP, SWAP_NAME),
    (65_536 - 10, SWAP, SWAP_NAME),
    (0x200, GPT, GPT_NAME),
    (0x1000, GPT, GPT_NAME),
    (3, b"-FVE-FS-", "an encrypted volume (BitLocker)"),
];

/// Signatures from the end: distance from the end [bytes], magic number, name.
const BEFORE_END: [Signature; 4] = [
    (512, GPT, GPT_NAME),
    (4096, GPT, GPT_NAME),
    (
        512,
        &[0xde, 0x11, 0xde, 0x11],
        "a part of a RAID array (DDF)",
    ),
    (1024, b"Intel Raid ISM Cfg", "a part of a RAID array (IMSM)"),
];

/// Returns the name of the recognised contents; None if nothing is recognised. `start` holds the first bytes, at most
/// [`START_BYTES`]; `end` holds the last ones of `size` bytes in all, at most [`END_BYTES`].
#[must_use]
pub(crate) fn known_content(start: &[u8], end: &[u8], size: u64) -> Option<&'static str> {
    let from_start = AT_START
        .iter()
        .find(|(at, magic, _)| has(start, *at, magic));
    let from_end = || {
        let before = |(distance, magic, _): &&Signature| {
            let at = end.len().checked_sub(*distance);
            at.is_some_and(|at| has(end, at, magic))
        };
        BEFORE_END.iter().find(before)
    };
    from_start
        .or_else(from_end)
        .map(|(_, _, name)| *name)
        .or_else(|| is_ext(start).then_some("an ext2/3/4 file system"))
        .or_else(|| is_zfs(start).then_some("a part of a ZFS pool"))
        .or_else(|| is_md_at_end(end, size).then_some(MD_NAME))
        .or_else(|| is_boot_sector(start).then_some("a partition table or a boot sector"))
}

fn has(bytes: &[u8], at: usize, magic: &[u8]) -> bool {
    bytes.get(at..at + magic.len()) == Some(magic)
}

/// Recognises an ext superblock: its two bytes, with a valid block size (a power of two up to 2^6 KiB) behind them.
fn is_ext(start: &[u8]) -> bool {
    let scale = start.get(0x418..0x41c);
    has(start, 0x438, &[0x53, 0xef])
        && scale.is_some_and(|scale| scale[0] <= 6 && scale[1..] == [0; 3])
}

/// Recognises an uberblock of the first ZFS label, in either byte order.
fn is_zfs(start: &[u8]) -> bool {
    (0x2_0000..0x4_0000).step_by(1024).any(|at| {
        has(start, at, &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0])
            || has(start, at, &[0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c])
    })
}

/// Recognises a boot sector: two bytes at its end, and either a jump at its start (FAT, NTFS) or a table whose
/// four entries are each active or inactive.
fn is_boot_sector(start: &[u8]) -> bool {
    let entries = [446, 462, 478, 494];
    let table = |start: &[u8]| entries.iter().all(|at| start[*at] & 0x7f == 0);
    has(start, 510, &[0x55, 0xaa]) && (matches!(start[0], 0xeb | 0xe9) || table(start))
}

/// Recognises RAID metadata: 0.90 lies at the last whole 64 KiB but one; 1.0 at 8 KiB before the end, aligned to 4 KiB.
fn is_md_at_end(end: &[u8], size: u64) -> bool {
    let old = (size & !0xffff).checked_sub(0x1_0000);
    let new = size.checked_sub(8192).map(|at| at & !4095);
    let first = size - (end.len() as u64).min(size);
    let places = [old, new].into_iter().flatten();
    places
        .filter_map(|at| usize::try_from(at.checked_sub(first)?).ok())
        .any(|at| has(end, at, MD))
}

#[cfg(test)]
mod guard_tests {
    use super::*;

    #[test]
    fn the_root_device_is_said_to_be_mounted() {
        let device = fs::metadata("/").unwrap().dev();
        assert!(holder(device).starts_with("mounted on /"));
    }
}

#[cfg(test)]
mod contents_tests {
    use super::*;

    const SIZE: usize = START_BYTES + 12_345 * 512;

    /// Returns what is recognised on a device of zeros with `magic` at `at`.
    fn found(at: usize, magic: &[u8]) -> Option<&'static str> {
        let mut image = vec![0_u8; SIZE];
        image[at..at + magic.len()].copy_from_slice(magic);
        known_content(
            &image[..START_BYTES],
            &image[SIZE - END_BYTES..],
            SIZE as u64,
        )
    }

    #[test]
    fn every_signature_is_found_and_zeros_are_nothing() {
        for (at, magic, name) in AT_START {
            assert_eq!(found(at, magic), Some(name));
        }
        for (distance, magic, name) in BEFORE_END {
            assert_eq!(found(SIZE - distance, magic), Some(name));
        }
        assert_eq!(found(0, &[]), None);
        assert_eq!(known_content(&[], &[], 0), None);
    }

    #[test]
    fn what_needs_more_than_its_mark_is_found() {
        assert_eq!(found(0x438, &[0x53, 0xef]), Some("an ext2/3/4 file system"));
        assert_eq!(
            found(510, &[0x55, 0xaa]),
            Some("a partition table or a boot sector")
        );
        let slot = 0x2_0000 + 5 * 1024;
        assert_eq!(
            found(slot, &0x00ba_b10c_u64.to_be_bytes()),
            Some("a part of a ZFS pool")
        );
        assert_eq!(
            found(slot, &0x00ba_b10c_u64.to_le_bytes()),
            Some("a part of a ZFS pool")
        );
        assert_eq!(found((SIZE & !0xffff) - 0x1_0000, MD), Some(MD_NAME));
        assert_eq!(found((SIZE - 8192) & !4095, MD), Some(MD_NAME));
    }

    #[test]
    fn two_bytes_among_random_ones_are_no_mark() {
        let mut image = vec![0x91_u8; START_BYTES];
        image[0x438..0x43a].copy_from_slice(&[0x53, 0xef]);
        image[510..512].copy_from_slice(&[0x55, 0xaa]);
        assert_eq!(
            known_content(&image, &image[..END_BYTES], START_BYTES as u64),
            None
        );
    }
}
