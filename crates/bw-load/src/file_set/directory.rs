//! A mounted directory as a [`Store`].
//!
//! Every component is opened relative to its directory, without following symbolic links and without entering another
//! mount (`openat2` with `RESOLVE_BENEATH`, `RESOLVE_NO_SYMLINKS` and `RESOLVE_NO_XDEV`; on kernels before 5.6 `openat`
//! with `O_NOFOLLOW`). So neither a link nor a mount inside the set leads to files that are not ours.

use crate::file_set::store::{Entry, EntryKind, Space, Store};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, RawDir, ResolveFlags, StatxFlags, flock,
    fstatvfs, ftruncate, mkdirat, openat, openat2, readlinkat, renameat, statx, symlinkat, syncfs,
    unlinkat,
};
use rustix::io::{Errno, pread, pwrite};
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Mode 755: directories of the set.
pub(crate) const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);
/// Mode 644: files of the set.
pub(crate) const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
/// Bytes of a listing that one system call returns.
pub(crate) const LISTING_BYTES: usize = 32 << 10;

/// A mounted directory, for one thread.
#[derive(Clone, Debug)]
pub struct DirectoryStore {
    path: PathBuf,
}

impl DirectoryStore {
    /// Returns the store of the directory `path`. Nothing is opened yet.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let path = path.to_owned();
        Self { path }
    }
}

/// Opens `name`, one component, in a directory: no symbolic link, no other mount.
///
/// # Errors
/// As openat2(2); `ELOOP` for a symbolic link, `EXDEV` for a mount point.
pub(crate) fn open_beneath(
    directory: BorrowedFd<'_>,
    name: &str,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match openat2(directory, name, flags, mode, inside) {
        // Before Linux 5.6, or hidden by seccomp.
        Err(Errno::NOSYS) => openat(directory, name, flags, mode),
        other => other,
    }
}

/// Opens a directory in a directory, as [`open_beneath`].
///
/// # Errors
/// As [`open_beneath`]; `ENOTDIR`.
pub(crate) fn open_directory(directory: BorrowedFd<'_>, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    open_beneath(directory, name, flags, Mode::empty())
}

/// Returns an entry of a directory; None if there is none of this name.
fn entry_of(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<Entry<()>>> {
    let wanted = StatxFlags::TYPE | StatxFlags::NLINK | StatxFlags::SIZE;
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let about = match statx(directory, name, flags, wanted) {
        Err(Errno::NOENT) => return Ok(None),
        about => about?,
    };
    Ok(Some(Entry {
        name: name.to_str().ok().map(str::to_owned),
        kind: match FileType::from_raw_mode(about.stx_mode.into()) {
            FileType::Directory => EntryKind::Directory,
            FileType::RegularFile => EntryKind::File,
            FileType::Symlink => EntryKind::Symlink,
            _ => EntryKind::Other,
        },
        size: about.stx_size,
        hard_links: about.stx_nlink.into(),
        mark: (),
    }))
}

impl Store for DirectoryStore {
    type Open = Arc<OwnedFd>;
    type Mark = ();

    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn top(&mut self) -> io::Result<Self::Open> {
        // The user's own path: links in it are the user's.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Arc::new(rustix::fs::open(
            &self.path,
            flags,
            Mode::empty(),
        )?))
    }

    fn claim(&mut self, folder: &Self::Open) -> io::Result<()> {
        match flock(folder, FlockOperation::NonBlockingLockExclusive) {
            Err(errno @ Errno::WOULDBLOCK) => Err(errno.into()),
            // A file system without locks of directories.
            _ => Ok(()),
        }
    }

    fn list(&mut self, directory: &Self::Open) -> io::Result<Vec<Entry<()>>> {
        // Opened again, because the position in a listing belongs to the open file.
        let listed = open_directory(directory.as_fd(), ".")?;
        let mut buffer = [MaybeUninit::uninit(); LISTING_BYTES];
        let mut raw = RawDir::new(&listed, &mut buffer);
        let mut entries = Vec::new();
        while let Some(entry) = raw.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            entries.extend(entry_of(listed.as_fd(), name)?);
        }
        Ok(entries)
    }

    fn entry(&mut self, directory: &Self::Open, name: &str) -> io::Result<Option<Entry<()>>> {
        entry_of(directory.as_fd(), &CString::new(name)?)
    }

    fn open(&mut self, directory: &Self::Open, entry: &Entry<()>) -> io::Result<Self::Open> {
        let name = entry.name.as_deref().unwrap_or_default();
        let opened = match entry.kind {
            EntryKind::Directory => open_directory(directory.as_fd(), name),
            _ => open_beneath(directory.as_fd(), name, OFlags::RDWR, Mode::empty()),
        };
        Ok(Arc::new(opened?))
    }

    fn make_directory(&mut self, directory: &Self::Open, name: &str) -> io::Result<Self::Open> {
        mkdirat(directory, name, DIRECTORY_MODE)?;
        Ok(Arc::new(open_directory(directory.as_fd(), name)?))
    }

    fn create(&mut self, directory: &Self::Open, name: &str) -> io::Result<Self::Open> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let opened = open_beneath(directory.as_fd(), name, flags, FILE_MODE)?;
        Ok(Arc::new(opened))
    }

    fn symlink(&mut self, directory: &Self::Open, name: &str, text: &str) -> io::Result<()> {
        Ok(symlinkat(text, directory, name)?)
    }

    fn read_link(&mut self, directory: &Self::Open, entry: &Entry<()>) -> io::Result<Vec<u8>> {
        let name = entry.name.as_deref().unwrap_or_default();
        Ok(readlinkat(directory, name, Vec::new())?.into_bytes())
    }

    fn read(&mut self, file: &Self::Open, offset: u64, data: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < data.len() {
            match pread(file, &mut data[done..], offset + done as u64) {
                Err(Errno::INTR) => {}
                Ok(0) => break,
                bytes => done += bytes?,
            }
        }
        Ok(done)
    }

    fn write(&mut self, file: &Self::Open, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            match pwrite(file, &data[done..], offset + done as u64) {
                Err(Errno::INTR) => {}
                Ok(0) => return Err(Errno::NOSPC.into()),
                bytes => done += bytes?,
            }
        }
        Ok(())
    }

    fn set_size(&mut self, file: &Self::Open, bytes: u64) -> io::Result<()> {
        Ok(ftruncate(file, bytes)?)
    }

    fn finish(&mut self, _file: &Self::Open) -> io::Result<()> {
        Ok(()) // made durable together with everything else, by `settle`
    }

    fn remove(&mut self, directory: &Self::Open, name: &str, kind: EntryKind) -> io::Result<()> {
        let flags = match kind {
            EntryKind::Directory => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        };
        Ok(unlinkat(directory, name, flags)?)
    }

    fn rename(&mut self, directory: &Self::Open, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(directory, from, directory, to)?)
    }

    fn space(&mut self, directory: &Self::Open) -> io::Result<Option<Space>> {
        let about = fstatvfs(directory)?;
        Ok(Some(Space {
            bytes: about.f_bavail.saturating_mul(about.f_frsize),
            // A file system without a table of files reports none at all.
            files: (about.f_files > 0).then_some(about.f_favail),
        }))
    }

    fn settle(&mut self, directory: &Self::Open) -> io::Result<()> {
        Ok(syncfs(directory)?)
    }
}
