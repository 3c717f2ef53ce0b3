//! The replies of NFS version 3. A reply borrows from the record; nothing is allocated.

use crate::Procedure;
use crate::rpc::Results;
use crate::status::Status;
use crate::value::{Attributes, Handle, WriteVerifier};
use crate::xdr::{Malformed, Reader};
use nfs3_types::nfs3::{FSINFO3resok, FSSTAT3resok, NFS3_FHSIZE, fattr3, stable_how};

/// Length of the attributes of an object [bytes].
const ATTRIBUTES: usize = 84;
/// Length of the attributes from before an operation [bytes].
const BEFORE: usize = 24;
/// Maximum length of a name (servers allow 255) [bytes].
const NAME_MOST: usize = 1024;
/// Maximum length of the target of a symbolic link [bytes].
const PATH_MOST: usize = 8192;

/// The results of a successful call.
#[derive(Clone, Debug)]
pub enum Reply<'a> {
    /// NULL, SETATTR, REMOVE, RMDIR, RENAME: it is done.
    Done,
    /// GETATTR.
    Attributes(Attributes),
    /// LOOKUP: the object, and its attributes if the server sent them.
    Found(Handle, Option<Attributes>),
    /// CREATE, MKDIR, SYMLINK: the new object, if the server sent it.
    Made(Option<Handle>, Option<Attributes>),
    /// ACCESS: the rights that the caller has.
    Access(u32),
    /// READLINK: the target.
    Link(&'a [u8]),
    /// READ.
    Read(ReadReply<'a>),
    /// WRITE.
    Written(WriteReply),
    /// COMMIT.
    Committed(WriteVerifier),
    /// READDIR, READDIRPLUS.
    Entries(Entries<'a>),
    /// FSSTAT.
    FileSystem(FileSystemUse),
    /// FSINFO.
    Limits(Limits),
}

/// The results of a READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadReply<'a> {
    /// How many bytes were read.
    pub count: u32,
    /// Whether the end of the file was reached.
    pub end: bool,
    /// The bytes, as far as they were kept.
    pub data: &'a [u8],
}

/// The results of a WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteReply {
    /// How many bytes were written.
    pub count: u32,
    /// Whether they are on stable storage, so that no COMMIT is needed.
    pub stable: bool,
    /// The server's verifier.
    pub verifier: WriteVerifier,
}

/// The use of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemUse {
    /// All bytes.
    pub total_bytes: u64,
    /// Bytes that this caller may still use.
    pub available_bytes: u64,
    /// All files.
    pub total_files: u64,
    /// Files that this caller may still make.
    pub available_files: u64,
}

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a READ [bytes].
    pub read_bytes: u32,
    /// Maximum size of a WRITE [bytes].
    pub write_bytes: u32,
    /// Preferred size of a READDIR [bytes].
    pub readdir_bytes: u32,
}

/// Reads the results of this procedure; the inner error is the status of a call that failed.
///
/// # Errors
/// The results are none of this procedure.
pub fn read<'a>(
    procedure: Procedure,
    results: Results<'a>,
) -> Result<Result<Reply<'a>, Status>, Malformed> {
    let mut reader = results.0;
    if procedure == Procedure::NFSPROC3_NULL {
        return Ok(Ok(Reply::Done));
    }
    let status = Status(reader.u32("status")?);
    if status != Status::OK {
        // What follows are attributes, which say nothing about the failure.
        return Ok(Err(status));
    }
    read_success(procedure, reader).map(Ok)
}

fn read_success<'a>(procedure: Procedure, mut reader: Reader<'a>) -> Result<Reply<'a>, Malformed> {
    let reader = &mut reader;
    Ok(match procedure {
        Procedure::NFSPROC3_NULL => Reply::Done,
        Procedure::NFSPROC3_GETATTR => {
            let attributes: fattr3 = reader.fixed("attributes")?;
            Reply::Attributes((&attributes).into())
        }
        Procedure::NFSPROC3_SETATTR | Procedure::NFSPROC3_REMOVE | Procedure::NFSPROC3_RMDIR => {
            skip_change(reader)?;
            Reply::Done
        }
        Procedure::NFSPROC3_RENAME => {
            skip_change(reader)?;
            skip_change(reader)?;
            Reply::Done
        }
        Procedure::NFSPROC3_LOOKUP => {
            let object = handle(reader)?;
            Reply::Found(object, some_attributes(reader)?)
        }
        Procedure::NFSPROC3_ACCESS => {
            skip_attributes(reader)?;
            Reply::Access(reader.u32("rights")?)
        }
        Procedure::NFSPROC3_READLINK => {
            skip_attributes(reader)?;
            Reply::Link(reader.opaque(PATH_MOST, "target of a symbolic link")?)
        }
        Procedure::NFSPROC3_READ => {
            skip_attributes(reader)?;
            let count = reader.u32("count")?;
            let end = reader.bool("end of the file")?;
            let (length, data) = reader.last_opaque("data")?;
            if length != count {
                return Err(Malformed("data of the stated count"));
            }
            Reply::Read(ReadReply { count, end, data })
        }
        Procedure::NFSPROC3_WRITE => {
            skip_change(reader)?;
            let count = reader.u32("count")?;
            let committed: stable_how = reader.fixed("stability")?;
            let verifier = WriteVerifier(reader.array("verifier")?);
            let stable = committed != stable_how::UNSTABLE;
            Reply::Written(WriteReply {
                count,
                stable,
                verifier,
            })
        }
        Procedure::NFSPROC3_COMMIT => {
            skip_change(reader)?;
            Reply::Committed(WriteVerifier(reader.array("verifier")?))
        }
        Procedure::NFSPROC3_CREATE
        | Procedure::NFSPROC3_MKDIR
        | Procedure::NFSPROC3_SYMLINK
        | Procedure::NFSPROC3_MKNOD => {
            let object = some_handle(reader)?;
            Reply::Made(object, some_attributes(reader)?)
        }
        Procedure::NFSPROC3_READDIR | Procedure::NFSPROC3_READDIRPLUS => {
            skip_attributes(reader)?;
            let verifier = reader.array("cookie verifier")?;
            let plus = procedure == Procedure::NFSPROC3_READDIRPLUS;
            Reply::Entries(Entries {
                reader: *reader,
                verifier,
                plus,
                ended: None,
            })
        }
        Procedure::NFSPROC3_FSSTAT => {
            let use_: FSSTAT3resok = reader.fixed("use of the file system")?;
            Reply::FileSystem(FileSystemUse {
                total_bytes: use_.tbytes,
                available_bytes: use_.abytes,
                total_files: use_.tfiles,
                available_files: use_.afiles,
            })
        }
        Procedure::NFSPROC3_FSINFO => {
            let limits: FSINFO3resok = reader.fixed("limits of the server")?;
            Reply::Limits(Limits {
                read_bytes: limits.rtmax,
                write_bytes: limits.wtmax,
                readdir_bytes: limits.dtpref,
            })
        }
        Procedure::NFSPROC3_LINK | Procedure::NFSPROC3_PATHCONF => {
            return Err(Malformed("call of this procedure"));
        }
    })
}

fn handle(reader: &mut Reader<'_>) -> Result<Handle, Malformed> {
    let bytes = reader.opaque(NFS3_FHSIZE, "file handle")?;
    Handle::new(bytes).ok_or(Malformed("file handle"))
}

fn some_handle(reader: &mut Reader<'_>) -> Result<Option<Handle>, Malformed> {
    let there = reader.bool("whether a handle follows")?;
    there.then(|| handle(reader)).transpose()
}

fn some_attributes(reader: &mut Reader<'_>) -> Result<Option<Attributes>, Malformed> {
    if !reader.bool("whether attributes follow")? {
        return Ok(None);
    }
    let attributes: fattr3 = reader.fixed("attributes")?;
    Ok(Some((&attributes).into()))
}

fn skip_attributes(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    if reader.bool("whether attributes follow")? {
        reader.take(ATTRIBUTES, "attributes")?;
    }
    Ok(())
}

/// Skips the attributes from before and after a change.
fn skip_change(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    if reader.bool("whether earlier attributes follow")? {
        reader.take(BEFORE, "earlier attributes")?;
    }
    skip_attributes(reader)
}

/// One name of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The number of the object in the file system.
    pub number: u64,
    /// Where a next call continues after it.
    pub cookie: u64,
    /// Its attributes, from READDIRPLUS.
    pub attributes: Option<Attributes>,
    /// Its handle, from READDIRPLUS.
    pub handle: Option<Handle>,
}

/// The entries of a reply, read one by one.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    reader: Reader<'a>,
    verifier: [u8; 8],
    plus: bool,
    /// Whether the directory ends with the last entry, once that was read.
    ended: Option<bool>,
}

impl<'a> Entries<'a> {
    /// Returns the verifier that continues the listing.
    #[must_use]
    pub fn verifier(&self) -> [u8; 8] {
        self.verifier
    }

    /// Returns the next entry; None after the last one.
    ///
    /// # Errors
    /// The bytes are no entry, and there is no further one.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Entry<'a>>, Malformed> {
        if self.ended.is_some() {
            return Ok(None);
        }
        if !self.reader.bool("whether an entry follows")? {
            self.ended = Some(self.reader.bool("end of the directory")?);
            return Ok(None);
        }
        let number = self.reader.u64("file number")?;
        let name = self.reader.opaque(NAME_MOST, "name")?;
        let cookie = self.reader.u64("cookie")?;
        let (attributes, handle) = match self.plus {
            true => (
                some_attributes(&mut self.reader)?,
                some_handle(&mut self.reader)?,
            ),
            false => (None, None),
        };
        Ok(Some(Entry {
            name,
            number,
            cookie,
            attributes,
            handle,
        }))
    }

    /// Reads all entries that are left.
    ///
    /// # Errors
    /// The bytes are no entries.
    pub fn finish(mut self) -> Result<EntriesEnd, Malformed> {
        let mut end = EntriesEnd {
            entries: 0,
            whole: false,
        };
        while self.next()?.is_some() {
            end.entries += 1;
        }
        end.whole = self.is_whole();
        Ok(end)
    }

    /// Returns whether the directory has no further entries, once the last one of this reply was read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.ended == Some(true)
    }
}

/// How many entries a reply had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntriesEnd {
    /// The number of entries.
    pub entries: u32,
    /// Whether the directory has no further ones.
    pub whole: bool,
}
