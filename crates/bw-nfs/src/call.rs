//! The calls of NFS version 3.

use crate::Procedure;
use crate::rpc::{Caller, Credentials};
use crate::value::Handle;
use crate::xdr::{put, put_opaque, put_u32, put_u64};
use nfs3_types::nfs3::{PROGRAM, VERSION, createmode3};

pub use nfs3_types::nfs3::{
    ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ,
    Nfs3Option, sattr3, set_atime, set_mtime, stable_how,
};

/// All rights that ACCESS can ask for.
pub const ACCESS_ALL: u32 = ACCESS3_READ
    | ACCESS3_LOOKUP
    | ACCESS3_MODIFY
    | ACCESS3_EXTEND
    | ACCESS3_DELETE
    | ACCESS3_EXECUTE;

/// The number of NFS as an RPC program, and its version.
pub const NFS: (u32, u32) = (PROGRAM, VERSION);

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The directory.
    pub directory: &'a Handle,
    /// The name.
    pub name: &'a [u8],
}

/// A call, with its arguments.
#[derive(Clone, Debug)]
pub enum Call<'a> {
    /// Nothing: shows that the server answers.
    Null,
    /// The attributes of an object.
    Getattr(&'a Handle),
    /// Changes the attributes of an object.
    Setattr {
        /// The object.
        object: &'a Handle,
        /// What changes.
        change: sattr3,
    },
    /// The handle of a name.
    Lookup(Place<'a>),
    /// Which of these rights the caller has.
    Access(&'a Handle, u32),
    /// The target of a symbolic link.
    Readlink(&'a Handle),
    /// Reads from a file.
    Read {
        /// The file.
        file: &'a Handle,
        /// Where [bytes].
        offset: u64,
        /// How much [bytes].
        count: u32,
    },
    /// Writes to a file.
    Write {
        /// The file.
        file: &'a Handle,
        /// Where [bytes].
        offset: u64,
        /// Whether the data are on stable storage when the server answers.
        stable: stable_how,
        /// The data.
        data: &'a [u8],
    },
    /// Makes a file; keeps an existing one unless `new`.
    Create {
        /// Its name.
        place: Place<'a>,
        /// Its attributes.
        attributes: sattr3,
        /// Whether an existing file is an error.
        new: bool,
    },
    /// Makes a directory.
    Mkdir {
        /// Its name.
        place: Place<'a>,
        /// Its attributes.
        attributes: sattr3,
    },
    /// Makes a symbolic link.
    Symlink {
        /// Its name.
        place: Place<'a>,
        /// Its target.
        target: &'a [u8],
    },
    /// Removes a file or a symbolic link.
    Remove(Place<'a>),
    /// Removes a directory.
    Rmdir(Place<'a>),
    /// Renames an object.
    Rename {
        /// The name it has.
        from: Place<'a>,
        /// The name it gets.
        to: Place<'a>,
    },
    /// Entries of a directory.
    Readdir {
        /// The directory.
        directory: &'a Handle,
        /// Where to continue: 0 at the first call, then the cookie of the last entry.
        cookie: u64,
        /// The verifier of the former reply; zeros at the first call.
        verifier: [u8; 8],
        /// Maximum length of the results [bytes].
        most_bytes: u32,
    },
    /// Entries of a directory with their attributes and handles.
    Readdirplus {
        /// The directory.
        directory: &'a Handle,
        /// Where to continue, as for `Readdir`.
        cookie: u64,
        /// The verifier of the former reply; zeros at the first call.
        verifier: [u8; 8],
        /// Maximum length of names and cookies [bytes].
        names_bytes: u32,
        /// Maximum length of the results [bytes].
        most_bytes: u32,
    },
    /// The use of a file system.
    Fsstat(&'a Handle),
    /// The limits of a server.
    Fsinfo(&'a Handle),
    /// Puts what was written onto stable storage: all of the file if `count` is 0.
    Commit {
        /// The file.
        file: &'a Handle,
        /// From where [bytes].
        offset: u64,
        /// How much [bytes].
        count: u32,
    },
}

impl Call<'_> {
    /// Returns its procedure.
    #[must_use]
    pub fn procedure(&self) -> Procedure {
        match self {
            Self::Null => Procedure::NFSPROC3_NULL,
            Self::Getattr(_) => Procedure::NFSPROC3_GETATTR,
            Self::Setattr { .. } => Procedure::NFSPROC3_SETATTR,
            Self::Lookup(_) => Procedure::NFSPROC3_LOOKUP,
            Self::Access(..) => Procedure::NFSPROC3_ACCESS,
            Self::Readlink(_) => Procedure::NFSPROC3_READLINK,
            Self::Read { .. } => Procedure::NFSPROC3_READ,
            Self::Write { .. } => Procedure::NFSPROC3_WRITE,
            Self::Create { .. } => Procedure::NFSPROC3_CREATE,
            Self::Mkdir { .. } => Procedure::NFSPROC3_MKDIR,
            Self::Symlink { .. } => Procedure::NFSPROC3_SYMLINK,
            Self::Remove(_) => Procedure::NFSPROC3_REMOVE,
            Self::Rmdir(_) => Procedure::NFSPROC3_RMDIR,
            Self::Rename { .. } => Procedure::NFSPROC3_RENAME,
            Self::Readdir { .. } => Procedure::NFSPROC3_READDIR,
            Self::Readdirplus { .. } => Procedure::NFSPROC3_READDIRPLUS,
            Self::Fsstat(_) => Procedure::NFSPROC3_FSSTAT,
            Self::Fsinfo(_) => Procedure::NFSPROC3_FSINFO,
            Self::Commit { .. } => Procedure::NFSPROC3_COMMIT,
        }
    }

    /// Appends its arguments.
    fn put_arguments(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => {}
            Self::Getattr(object)
            | Self::Readlink(object)
            | Self::Fsstat(object)
            | Self::Fsinfo(object) => {
                put_opaque(out, object.bytes());
            }
            Self::Setattr { object, change } => {
                put_opaque(out, object.bytes());
                put(out, change);
                // No guard: the change does not depend on the object's time of change.
                put_u32(out, 0);
            }
            Self::Lookup(place) | Self::Remove(place) | Self::Rmdir(place) => {
                put_place(out, *place)
            }
            Self::Access(object, rights) => {
                put_opaque(out, object.bytes());
                put_u32(out, *rights);
            }
            Self::Read {
                file,
                offset,
                count,
            }
            | Self::Commit {
                file,
                offset,
                count,
            } => {
                put_opaque(out, file.bytes());
                put_u64(out, *offset);
                put_u32(out, *count);
            }
            Self::Write {
                file,
                offset,
                stable,
                data,
            } => {
                put_opaque(out, file.bytes());
                put_u64(out, *offset);
                put_u32(out, u32::try_from(data.len()).unwrap_or(u32::MAX));
                put_u32(out, *stable as u32);
                put_opaque(out, data);
            }
            Self::Create {
                place,
                attributes,
                new,
            } => {
                put_place(out, *place);
                let mode = if *new {
                    createmode3::GUARDED
                } else {
                    createmode3::UNCHECKED
                };
                put_u32(out, mode as u32);
                put(out, attributes);
            }
            Self::Mkdir { place, attributes } => {
                put_place(out, *place);
                put(out, attributes);
            }
            Self::Symlink { place, target } => {
                put_place(out, *place);
                put(out, &sattr3::default());
                put_opaque(out, target);
            }
            Self::Rename { from, to } => {
                put_place(out, *from);
                put_place(out, *to);
            }
            Self::Readdir {
                directory,
                cookie,
                verifier,
                most_bytes,
            } => {
                put_opaque(out, directory.bytes());
                put_u64(out, *cookie);
                out.extend_from_slice(verifier);
                put_u32(out, *most_bytes);
            }
            Self::Readdirplus {
                directory,
                cookie,
                verifier,
                names_bytes,
                most_bytes,
            } => {
                put_opaque(out, directory.bytes());
                put_u64(out, *cookie);
                out.extend_from_slice(verifier);
                put_u32(out, *names_bytes);
                put_u32(out, *most_bytes);
            }
        }
    }
}

fn put_place(out: &mut Vec<u8>, place: Place<'_>) {
    put_opaque(out, place.directory.bytes());
    put_opaque(out, place.name);
}

/// Returns attributes that set the permission bits and nothing else.
#[must_use]
pub fn with_mode(mode: u32) -> sattr3 {
    sattr3 {
        mode: Nfs3Option::Some(mode),
        ..sattr3::default()
    }
}

/// Returns attributes that set the size [bytes] and nothing else.
#[must_use]
pub fn with_size(size_bytes: u64) -> sattr3 {
    sattr3 {
        size: Nfs3Option::Some(size_bytes),
        ..sattr3::default()
    }
}

/// Makes the calls of NFS version 3.
#[derive(Clone, Debug)]
pub struct NfsCaller(Caller);

impl NfsCaller {
    /// Returns the caller.
    #[must_use]
    pub fn new(credentials: &Credentials) -> Self {
        Self(Caller::new(PROGRAM, VERSION, credentials))
    }

    /// Appends a call to `out` as one record. It allocates only if `out` has no room.
    pub fn call(&self, out: &mut Vec<u8>, xid: u32, call: &Call<'_>) {
        let procedure = call.procedure() as u32;
        self.0
            .call(out, xid, procedure, |out| call.put_arguments(out));
    }

    /// Returns a bound for the length of a call whose names have at most `name_bytes` each, without the data of a
    /// WRITE or the target of a SYMLINK [bytes].
    #[must_use]
    pub fn most_bytes(&self, name_bytes: usize) -> usize {
        // The longest are RENAME, with two handles and two names, and CREATE, with attributes of up to 60 bytes.
        self.0.head_bytes() + 2 * (4 + Handle::MOST + 4 + name_bytes.next_multiple_of(4)) + 64
    }
}
