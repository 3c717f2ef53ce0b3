//! An operation on a file set as a call of NFS, and a reply as the operation's result.

use crate::nfs::files::ServerFiles;
use crate::stamp::Stamp;
use bw_model::{FileAddress, Kind, Operation};
use bw_nfs::call::{ACCESS_ALL, Call, Nfs3Option, NfsCaller, Place, sattr3, set_mtime, stable_how};
use bw_nfs::call::{with_mode, with_size};
use bw_nfs::reply::Reply;
use bw_nfs::value::Handle;
use bw_nfs::{Malformed, Procedure};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::fmt;
use std::sync::Arc;

/// Names of objects have at most this length [bytes].
pub(crate) const NAME_MOST: usize = 16;
/// Size of the replies to READDIR and READDIRPLUS if the operation states none [bytes].
const LIST_BYTES: u32 = 8192;
/// Maximum size of these replies [bytes]: they are read whole, and more than [`KEPT`] is not kept.
const LIST_MOST: u32 = 48 * 1024;
/// How much of a reply is kept [bytes].
pub(crate) const KEPT: usize = 64 * 1024;
/// Mode of a created file.
const FILE_MODE: u32 = 0o644;
/// Mode of a created directory.
const DIRECTORY_MODE: u32 = 0o755;

/// Period of the content of files [bytes]: byte `n` of a file is byte `n mod CONTENT_PERIOD` of it.
const CONTENT_PERIOD: usize = 1 << 20;

/// What is written to files. Pseudo-random, so that a server that compresses gains nothing. Repeated data are a function of
/// the offset in the file alone; others are marked (see [`Stamp`]).
struct Content(Box<[u8]>);

impl Content {
    /// Returns the content, for writes of at most `most` bytes.
    fn new(most: u32) -> Self {
        let mut bytes = vec![0; CONTENT_PERIOD + most as usize];
        let (first, second) = bytes.split_at_mut(CONTENT_PERIOD);
        Xoshiro256PlusPlus::seed_from_u64(0).fill_bytes(first);
        for piece in second.chunks_mut(CONTENT_PERIOD) {
            piece.copy_from_slice(&first[..piece.len()]);
        }
        Self(bytes.into_boxed_slice())
    }

    /// Returns what is written at `offset`, at most as much as was announced.
    fn at(&self, offset: u64, length: u32) -> &[u8] {
        let from = (offset % CONTENT_PERIOD as u64) as usize;
        &self.0[from..from + length as usize]
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes of content", self.0.len())
    }
}

/// Why an operation has no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoCall {
    /// It ends at once with this result.
    Ended(i32),
    /// The handle of this object is not known: look it up first.
    Unknown(u32),
}

/// What a reply means for its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// How many bytes were read or written.
    pub bytes: u32,
    /// Whether nothing is left to be read or written.
    pub is_whole: bool,
    /// The server's verifier has changed: data that were not committed may be lost.
    pub verifier_changed: bool,
}

/// How data are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DataMode {
    /// Maximum size of one operation [bytes]; larger ones are not sent.
    pub largest_bytes: u32,
    /// Whether each write is durable when it ends.
    pub synchronous: bool,
    /// Whether written data are marked, so that no two blocks are equal.
    pub unique: bool,
}

/// Makes the calls of operations, and reads their replies.
#[derive(Debug)]
pub(crate) struct Translator {
    caller: NfsCaller,
    shared: Arc<ServerFiles>,
    content: Content,
    /// None: data are repeated.
    stamp: Option<Stamp>,
    mode: DataMode,
    name: String,
    other_name: String,
}

impl Translator {
    /// Returns the translator of one worker.
    pub(crate) fn new(caller: NfsCaller, shared: Arc<ServerFiles>, mode: DataMode) -> Self {
        Self {
            caller,
            shared,
            content: Content::new(mode.largest_bytes),
            stamp: mode.unique.then(Stamp::new),
            mode,
            name: String::with_capacity(NAME_MOST),
            other_name: String::with_capacity(NAME_MOST),
        }
    }

    /// Returns a bound for the length of a call, without the data of a WRITE [bytes].
    pub(crate) fn most_bytes(&self) -> usize {
        self.caller.most_bytes(NAME_MOST)
    }

    /// Appends the call of an operation to `out`; returns its procedure.
    ///
    /// # Errors
    /// It has none, or another call must come first.
    pub(crate) fn encode(
        &mut self,
        out: &mut Vec<u8>,
        xid: u32,
        operation: &Operation,
    ) -> Result<Procedure, NoCall> {
        let FileAddress {
            object,
            renamed,
            offset,
        } = FileAddress::unpack(operation.offset);
        let own = || {
            self.shared
                .handles
                .get(object)
                .ok_or(NoCall::Unknown(object))
        };
        let size = operation.size;
        let listed = if size == 0 {
            LIST_BYTES
        } else {
            size.min(LIST_MOST)
        };
        let (handle, directory);
        let call = match operation.kind {
            Kind::Lookup
            | Kind::Open
            | Kind::Create
            | Kind::Remove
            | Kind::Mkdir
            | Kind::Rmdir
            | Kind::Rename => {
                if object == 0 {
                    // The root of the set has no name in it.
                    return Err(NoCall::Ended(-libc::EINVAL));
                }
                let parent = self.shared.set.parent(object);
                directory = self
                    .shared
                    .handles
                    .get(parent)
                    .ok_or(NoCall::Unknown(parent))?;
                self.name.clear();
                self.shared.set.write_name(object, renamed, &mut self.name);
                self.other_name.clear();
                self.shared
                    .set
                    .write_name(object, !renamed, &mut self.other_name);
                named(operation.kind, &directory, &self.name, &self.other_name)
            }
            Kind::Read => {
                fits(size, self.mode.largest_bytes)?;
                handle = own()?;
                Call::Read {
                    file: &handle,
                    offset,
                    count: size,
                }
            }
            Kind::Write | Kind::Append => {
                fits(size, self.mode.largest_bytes)?;
                handle = own()?;
                let data = self.content.at(offset, size);
                let stable = match self.mode.synchronous {
                    true => stable_how::DATA_SYNC,
                    false => stable_how::UNSTABLE,
                };
                Call::Write {
                    file: &handle,
                    offset,
                    stable,
                    data,
                }
            }
            Kind::Flush => {
                handle = own()?;
                Call::Commit {
                    file: &handle,
                    offset: 0,
                    count: 0,
                }
            }
            Kind::Getattr => {
                handle = own()?;
                Call::Getattr(&handle)
            }
            Kind::Setattr => {
                handle = own()?;
                let mtime = set_mtime::SET_TO_SERVER_TIME;
                let change = sattr3 {
                    mtime,
                    ..with_mode(FILE_MODE)
                };
                Call::Setattr {
                    object: &handle,
                    change,
                }
            }
            Kind::Access => {
                handle = own()?;
                Call::Access(&handle, ACCESS_ALL)
            }
            Kind::Readlink => {
                handle = own()?;
                Call::Readlink(&handle)
            }
            Kind::Readdir => {
                handle = own()?;
                Call::Readdir {
                    directory: &handle,
                    cookie: 0,
                    verifier: [0; 8],
                    most_bytes: listed,
                }
            }
            Kind::Readdirplus => {
                handle = own()?;
                Call::Readdirplus {
                    directory: &handle,
                    cookie: 0,
                    verifier: [0; 8],
                    names_bytes: listed,
                    most_bytes: listed.saturating_mul(4).min(LIST_MOST),
                }
            }
            Kind::Fsstat => {
                handle = self
                    .shared
                    .handles
                    .get(0)
                    .ok_or(NoCall::Ended(-libc::ESTALE))?;
                Call::Fsstat(&handle)
            }
            // NFS version 3 has no open files, so nothing is sent.
            Kind::Close => return Err(NoCall::Ended(0)),
            Kind::Discard | Kind::Exchange => return Err(NoCall::Ended(-libc::EOPNOTSUPP)),
        };
        self.caller.call(out, xid, &call);
        if let (Some(stamp), Call::Write { .. }) = (&mut self.stamp, &call) {
            // They end the call, padded to whole words.
            let from = out.len() - (size as usize).next_multiple_of(4);
            stamp.mark(&mut out[from..from + size as usize]);
        }
        Ok(call.procedure())
    }

    /// Appends a call that looks for the handle of an object.
    ///
    /// # Errors
    /// The handle of its directory is unknown too.
    pub(crate) fn encode_lookup(
        &mut self,
        out: &mut Vec<u8>,
        xid: u32,
        (object, renamed): (u32, bool),
    ) -> Result<Procedure, i32> {
        let parent = self.shared.set.parent(object);
        let directory = self.shared.handles.get(parent).ok_or(-libc::ESTALE)?;
        self.name.clear();
        self.shared.set.write_name(object, renamed, &mut self.name);
        let call = named(Kind::Lookup, &directory, &self.name, "");
        self.caller.call(out, xid, &call);
        Ok(call.procedure())
    }

    /// Stores the handle that a LOOKUP of `object` found.
    pub(crate) fn found(&self, object: u32, reply: &Reply<'_>) {
        if let Reply::Found(handle, _) = reply {
            self.learn(object, Some(*handle));
        }
    }

    /// Returns what the reply to the operation's call means, and stores new handles.
    ///
    /// # Errors
    /// The reply is malformed, in the part that was not read yet.
    pub(crate) fn outcome(
        &self,
        operation: &Operation,
        reply: Reply<'_>,
    ) -> Result<Outcome, Malformed> {
        let object = FileAddress::unpack(operation.offset).object;
        let mut outcome = Outcome {
            bytes: 0,
            is_whole: true,
            verifier_changed: false,
        };
        let bytes = |count| match count <= operation.size {
            true => Ok(count),
            false => Err(Malformed("a count of at most what was asked for")),
        };
        match reply {
            Reply::Read(read) => {
                outcome.bytes = bytes(read.count)?;
                outcome.is_whole = read.end || read.count == operation.size;
            }
            Reply::Written(written) => {
                outcome.bytes = bytes(written.count)?;
                outcome.is_whole = written.count == operation.size;
                outcome.verifier_changed = self.shared.begins_life(written.verifier);
            }
            Reply::Committed(verifier) => {
                outcome.verifier_changed = self.shared.begins_life(verifier)
            }
            Reply::Found(handle, _) => self.learn(object, Some(handle)),
            Reply::Made(handle, _) => self.learn(object, handle),
            Reply::Entries(entries) => drop(entries.finish()?),
            Reply::Done if matches!(operation.kind, Kind::Remove | Kind::Rmdir) => {
                self.learn(object, None);
            }
            Reply::Done
            | Reply::Attributes(_)
            | Reply::Access(_)
            | Reply::Link(_)
            | Reply::FileSystem { .. }
            | Reply::Limits(_) => {}
        }
        Ok(outcome)
    }

    /// Stores the handle of an object, unless it is known already.
    fn learn(&self, object: u32, handle: Option<Handle>) {
        if self.shared.handles.get(object) != handle {
            self.shared.handles.set(object, handle);
        }
    }
}

/// Refuses data of more than was announced.
fn fits(size: u32, most: u32) -> Result<(), NoCall> {
    if size > most {
        return Err(NoCall::Ended(-libc::EMSGSIZE));
    }
    Ok(())
}

/// Returns the call that concerns a name.
fn named<'a>(kind: Kind, directory: &'a Handle, name: &'a str, other: &'a str) -> Call<'a> {
    let place = Place {
        directory,
        name: name.as_bytes(),
    };
    match kind {
        // Empty, also if it exists: that is what the roster of the set assumes.
        Kind::Create => {
            let attributes = sattr3 {
                mode: Nfs3Option::Some(FILE_MODE),
                ..with_size(0)
            };
            Call::Create {
                place,
                attributes,
                new: false,
            }
        }
        Kind::Remove => Call::Remove(place),
        Kind::Mkdir => Call::Mkdir {
            place,
            attributes: with_mode(DIRECTORY_MODE),
        },
        Kind::Rmdir => Call::Rmdir(place),
        Kind::Rename => {
            let to = Place {
                directory,
                name: other.as_bytes(),
            };
            Call::Rename { from: place, to }
        }
        _ => Call::Lookup(place),
    }
}

/// Returns whether a call may be sent a second time although the first may have been executed.
pub(crate) fn is_idempotent(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::Remove | Kind::Mkdir | Kind::Rmdir | Kind::Rename
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_nfs::rpc::Credentials;
    use bw_schedule::file_set::FileSet;

    /// Returns the data of some WRITEs to one place.
    fn written(unique: bool, size: u32) -> Vec<Vec<u8>> {
        let one = serde_json::json!({"type": "constant", "value": 1});
        let set = serde_json::json!({"seed": 1, "max_depth": 1, "directories": one, "files": one, "file_size": one});
        let set = FileSet::new(&serde_json::from_value(set).unwrap()).unwrap();
        let shared = Arc::new(ServerFiles::new(Arc::new(set)));
        let object = shared.set.objects() - 1;
        shared.handles.set(object, Handle::new(b"handle"));
        let credentials = Credentials {
            machine: "m".to_owned(),
            uid: 0,
            gid: 0,
        };
        let mode = DataMode {
            largest_bytes: 4096,
            synchronous: false,
            unique,
        };
        let mut translator = Translator::new(NfsCaller::new(&credentials), shared, mode);
        let address = FileAddress {
            object,
            renamed: false,
            offset: 0,
        };
        let operation = Operation::new(Kind::Write, address.pack(), size);
        let write = |xid| {
            let mut out = Vec::new();
            translator.encode(&mut out, xid, &operation).unwrap();
            let end = out.len() - (size.next_multiple_of(4) - size) as usize;
            out[end - size as usize..end].to_vec()
        };
        (1..4).map(write).collect()
    }

    #[test]
    fn unique_data_differ_in_each_sector_and_repeated_ones_do_not() {
        let repeated = written(false, 1025);
        assert!(repeated.iter().all(|data| *data == repeated[0]));
        let unique = written(true, 1025);
        let mut sectors: Vec<_> = unique
            .iter()
            .flat_map(|data| data[..1024].chunks(512))
            .collect();
        sectors.sort_unstable();
        sectors.dedup();
        assert_eq!(sectors.len(), 6);
        // Beyond the mark the data are those of the place.
        assert_eq!(unique[0][16..512], repeated[0][16..512]);
        assert_eq!(unique[0][1024], repeated[0][1024]);
    }
}
