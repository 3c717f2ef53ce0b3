//! The operations that the maker of a file set needs, as a trait: a mounted directory and an NFS server implement it.
//!
//! Decision: everything is addressed by an open directory and one name in it, never by a path. A mounted directory
//! then opens each component without following symbolic links, so a link that somebody puts into the set cannot lead
//! out of it; for NFS it is the protocol's own way. Rejected: paths, which need a check before each use that another
//! process can invalidate.
//!
//! The calls block. Each of the maker's threads has its own store; what one of them has opened, the others use too.

use std::io;
use std::time::Duration;

/// The type of an object in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A device, a socket, a FIFO.
    Other,
}

/// One entry of a listed directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<M> {
    /// The name; None if it is no UTF-8, so that it cannot be a name of ours.
    pub name: Option<String>,
    /// The type.
    pub kind: EntryKind,
    /// The size [bytes].
    pub size: u64,
    /// The number of its names (hard links), 0 if it is unknown. A file of ours has one: what is written to a second name
    /// could belong to a file outside the set.
    pub hard_links: u64,
    /// What the store needs to find the object again: the file handle of NFS; nothing for a mounted directory.
    pub mark: M,
}

/// What the file system has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// For files of this user [bytes].
    pub bytes: u64,
    /// Files and directories that can still be made; None if there is no limit.
    pub files: Option<u64>,
}

/// A place that holds files, for one thread.
///
/// Names are single components, never `.` or `..`. Errors carry the operating system's number
/// ([`io::Error::raw_os_error`]), also those of NFS: `NFS3ERR_NOSPC` is `ENOSPC`.
pub trait Store: Send + 'static {
    /// An open directory or file: a descriptor, or a file handle.
    type Open: Clone + Send + Sync + 'static;
    /// What an entry of a listing has of the object.
    type Mark: Send;

    /// Returns the place's name for messages: a path, or an URL of the export.
    fn name(&self) -> String;

    /// Opens the directory that the user named; the set's own folder is in it.
    ///
    /// # Errors
    /// It does not exist, is no directory, or cannot be read.
    fn top(&mut self) -> io::Result<Self::Open>;

    /// Locks the set's folder against other runs on this host, until the last open object of it is dropped. Between
    /// hosts, [`Claim`](super::claim::Claim) does.
    ///
    /// # Errors
    /// `EWOULDBLOCK`: another run uses it.
    fn claim(&mut self, _folder: &Self::Open) -> io::Result<()> {
        Ok(())
    }

    /// Returns the entries of a directory with their attributes, without `.` and `..`, in any order.
    ///
    /// # Errors
    /// It cannot be read.
    fn list(&mut self, directory: &Self::Open) -> io::Result<Vec<Entry<Self::Mark>>>;

    /// Returns the entry of a name in a directory; None if there is none.
    ///
    /// # Errors
    /// The directory cannot be read.
    fn entry(
        &mut self,
        directory: &Self::Open,
        name: &str,
    ) -> io::Result<Option<Entry<Self::Mark>>> {
        let mut entries = self.list(directory)?.into_iter();
        Ok(entries.find(|entry| entry.name.as_deref() == Some(name)))
    }

    /// Makes the store usable again after a call that failed. Each further call has this much time.
    ///
    /// # Errors
    /// The server is not reached.
    fn renew(&mut self, _patience: Duration) -> io::Result<()> {
        Ok(())
    }

    /// Opens an entry of a listed directory: a directory, or a file for writing. A symbolic link is not followed.
    ///
    /// # Errors
    /// It is gone, has another type, or its permissions do not allow it.
    fn open(&mut self, directory: &Self::Open, entry: &Entry<Self::Mark>)
    -> io::Result<Self::Open>;

    /// Makes a directory of mode 755 and opens it.
    ///
    /// # Errors
    /// `EEXIST`; no space.
    fn make_directory(&mut self, directory: &Self::Open, name: &str) -> io::Result<Self::Open>;

    /// Makes an empty file of mode 644 and opens it for writing.
    ///
    /// # Errors
    /// `EEXIST`, also for a symbolic link; no space.
    fn create(&mut self, directory: &Self::Open, name: &str) -> io::Result<Self::Open>;

    /// Makes a symbolic link that contains `text`; returns what a listing would have of it.
    ///
    /// # Errors
    /// `EEXIST`; no space.
    fn symlink(&mut self, directory: &Self::Open, name: &str, text: &str)
    -> io::Result<Self::Mark>;

    /// Returns the text of a symbolic link.
    ///
    /// # Errors
    /// The entry is none.
    fn read_link(
        &mut self,
        directory: &Self::Open,
        entry: &Entry<Self::Mark>,
    ) -> io::Result<Vec<u8>>;

    /// Reads at `offset` until `data` is full or the file ends; returns the number of bytes.
    ///
    /// # Errors
    /// The device or the server fails.
    fn read(&mut self, file: &Self::Open, offset: u64, data: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `data` at `offset`. It need not be durable before [`finish`](Store::finish).
    ///
    /// # Errors
    /// No space, a quota, a limit of the file size; the device or the server fails.
    fn write(&mut self, file: &Self::Open, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Sets the size of a file.
    ///
    /// # Errors
    /// As [`write`](Store::write).
    fn set_size(&mut self, file: &Self::Open, bytes: u64) -> io::Result<()>;

    /// Ends the writing of a file: its data are on the server, or will be durable after
    /// [`settle`](Store::settle).
    ///
    /// # Errors
    /// As [`write`](Store::write).
    fn finish(&mut self, file: &Self::Open) -> io::Result<()>;

    /// Removes an entry; a directory must be empty.
    ///
    /// # Errors
    /// It is gone, or not empty.
    fn remove(&mut self, directory: &Self::Open, name: &str, kind: EntryKind) -> io::Result<()>;

    /// Renames a file within a directory; an existing file of the new name is replaced.
    ///
    /// # Errors
    /// It is gone.
    fn rename(&mut self, directory: &Self::Open, from: &str, to: &str) -> io::Result<()>;

    /// Returns what the file system has left; None if that is unknown.
    ///
    /// # Errors
    /// The device or the server fails.
    fn space(&mut self, directory: &Self::Open) -> io::Result<Option<Space>>;

    /// Makes everything durable that was made through any store of this place.
    ///
    /// # Errors
    /// No space; the device or the server fails.
    fn settle(&mut self, directory: &Self::Open) -> io::Result<()>;

    /// Receives an open object of the set, under its number: the root of the set and its directories, files that were
    /// made or repaired. The target may need it in the run.
    ///
    /// # Errors
    /// The target cannot use it.
    fn keep_open(&mut self, _object: u32, _open: &Self::Open) -> io::Result<()> {
        Ok(())
    }

    /// Receives an object of the set that was found as it must be, or a link that was made, under its number.
    ///
    /// # Errors
    /// The target cannot use it.
    fn keep_listed(&mut self, _object: u32, _mark: &Self::Mark) -> io::Result<()> {
        Ok(())
    }
}
