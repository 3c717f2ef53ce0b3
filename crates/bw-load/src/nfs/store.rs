//! An export as a store of file sets, with one call at a time on its own connection.

use crate::file_set::store::{Entry, EntryKind, Space, Store};
use crate::net::connection::Endpoint;
use crate::nfs::client::{Client, Mounted, malformed};
use crate::nfs::files::NfsFiles;
use bw_model::EngineError;
use bw_nfs::call::{Call, Place, stable_how, with_mode, with_size};
use bw_nfs::reply::{Limits, Reply};
use bw_nfs::rpc::Credentials;
use bw_nfs::value::{Attributes, Handle, ObjectType};
use std::io;
use std::time::Duration;

/// Maximum size of a READ or WRITE [bytes].
const DATA_MOST: usize = 256 * 1024;
/// Size from which a new file is committed [bytes].
///
/// A COMMIT of a small file takes the server several operations of its disk, several times those of the data: a set of
/// 42 files for each operation per second then took 40 s per 100/s on a disk of 400 operations/s. What is not
/// committed the server writes in its own time, which is less than a third of the data of the shipped sets.
const COMMIT_FROM: usize = 128 * 1024;
/// Size of the replies to READDIRPLUS [bytes].
const LIST_BYTES: u32 = 32 * 1024;
/// Maximum number of entries of a directory that is listed.
const ENTRIES_MOST: usize = 1 << 27;

/// A store on an NFS server.
#[derive(Debug)]
pub struct NfsStore {
    client: Client,
    endpoint: Endpoint,
    credentials: Credentials,
    name: String,
    root: Handle,
    limits: Limits,
    files: NfsFiles,
    /// What was written of the present file that the server may still lose [bytes].
    unstable: usize,
}

impl NfsStore {
    pub(crate) fn connect(
        mounted: &Mounted,
        credentials: &Credentials,
        (name, limit): (String, Duration),
        files: &NfsFiles,
    ) -> Result<Self, EngineError> {
        let endpoint: &Endpoint = &mounted.endpoint;
        Ok(Self {
            client: Client::connect(endpoint, credentials, limit)?,
            endpoint: endpoint.clone(),
            credentials: credentials.clone(),
            name,
            root: mounted.root,
            limits: mounted.limits,
            files: files.clone(),
            unstable: 0,
        })
    }

    /// Returns the handle and the attributes of a name.
    fn lookup(&mut self, directory: &Handle, name: &str) -> io::Result<(Handle, Attributes)> {
        let call = Call::Lookup(place(directory, name));
        let (handle, attributes) = self.client.call(&call, |reply| match reply {
            Reply::Found(handle, attributes) => Ok((handle, attributes)),
            _ => Err(unexpected()),
        })?;
        let attributes = match attributes {
            Some(attributes) => attributes,
            None => self.attributes(&handle)?,
        };
        Ok((handle, attributes))
    }

    fn attributes(&mut self, object: &Handle) -> io::Result<Attributes> {
        self.client
            .call(&Call::Getattr(object), |reply| match reply {
                Reply::Attributes(attributes) => Ok(attributes),
                _ => Err(unexpected()),
            })
    }

    /// Executes a call that makes an object; returns the object's handle.
    fn make(&mut self, call: &Call<'_>, directory: &Handle, name: &str) -> io::Result<Handle> {
        let made = self.client.call(call, |reply| match reply {
            Reply::Made(handle, _) => Ok(handle),
            _ => Err(unexpected()),
        })?;
        match made {
            Some(handle) => Ok(handle),
            // A server need not return it.
            None => self.lookup(directory, name).map(|(handle, _)| handle),
        }
    }

    fn done(&mut self, call: &Call<'_>) -> io::Result<()> {
        self.client.call(call, |reply| match reply {
            Reply::Done => Ok(()),
            _ => Err(unexpected()),
        })
    }

    /// Returns the largest size of one READ or WRITE, of which the server accepts `most`.
    fn piece(most: u32) -> usize {
        (most as usize).clamp(512, DATA_MOST)
    }
}

fn place<'a>(directory: &'a Handle, name: &'a str) -> Place<'a> {
    Place {
        directory,
        name: name.as_bytes(),
    }
}

fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a reply to another call")
}

fn kind_of(object_type: ObjectType) -> EntryKind {
    match object_type {
        ObjectType::Directory => EntryKind::Directory,
        ObjectType::File => EntryKind::File,
        ObjectType::Symlink => EntryKind::Symlink,
        ObjectType::Other => EntryKind::Other,
    }
}

impl Store for NfsStore {
    type Open = Handle;
    type Mark = Handle;

    fn name(&self) -> String {
        self.name.clone()
    }

    fn top(&mut self) -> io::Result<Handle> {
        let root = self.root;
        match self.attributes(&root)?.object_type {
            ObjectType::Directory => Ok(root),
            _ => Err(io::Error::from_raw_os_error(libc::ENOTDIR)),
        }
    }

    fn list(&mut self, directory: &Handle) -> io::Result<Vec<Entry<Handle>>> {
        let mut all: Vec<(Entry<Handle>, bool)> = Vec::new();
        let (mut cookie, mut verifier) = (0, [0; 8]);
        loop {
            let call = Call::Readdirplus {
                directory,
                cookie,
                verifier,
                names_bytes: LIST_BYTES / 4,
                most_bytes: LIST_BYTES,
            };
            let before = all.len();
            let whole = self.client.call(&call, |reply| {
                let Reply::Entries(mut entries) = reply else {
                    return Err(unexpected());
                };
                verifier = entries.verifier();
                while let Some(entry) = entries.next().map_err(malformed)? {
                    cookie = entry.cookie;
                    if matches!(entry.name, b"." | b"..") {
                        continue;
                    }
                    let known = entry.attributes.zip(entry.handle);
                    all.push((
                        Entry {
                            name: String::from_utf8(entry.name.to_vec()).ok(),
                            kind: known
                                .map_or(EntryKind::Other, |(found, _)| kind_of(found.object_type)),
                            size: known.map_or(0, |(found, _)| found.size_bytes),
                            hard_links: known.map_or(1, |(found, _)| found.hard_links.into()),
                            mark: known.map_or(*directory, |(_, handle)| handle),
                        },
                        known.is_some(),
                    ));
                }
                Ok(entries.is_whole())
            })?;
            if whole {
                break;
            }
            // A server that never ends, or returns nothing, must not keep us.
            if all.len() == before && cookie == 0 || all.len() > ENTRIES_MOST {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "a directory without an end",
                ));
            }
        }
        // Attributes and handle are optional in a reply.
        for (entry, known) in &mut all {
            if let (false, Some(name)) = (*known, &entry.name) {
                let (handle, attributes) = self.lookup(directory, name)?;
                entry.kind = kind_of(attributes.object_type);
                entry.size = attributes.size_bytes;
                entry.hard_links = attributes.hard_links.into();
                entry.mark = handle;
            }
        }
        Ok(all.into_iter().map(|(entry, _)| entry).collect())
    }

    fn entry(&mut self, directory: &Handle, name: &str) -> io::Result<Option<Entry<Handle>>> {
        match self.lookup(directory, name) {
            Ok((handle, attributes)) => Ok(Some(Entry {
                name: Some(name.to_owned()),
                kind: kind_of(attributes.object_type),
                size: attributes.size_bytes,
                hard_links: attributes.hard_links.into(),
                mark: handle,
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn renew(&mut self, patience: Duration) -> io::Result<()> {
        let client = Client::connect(&self.endpoint, &self.credentials, patience);
        self.client = client.map_err(io::Error::other)?;
        Ok(())
    }

    fn open(&mut self, _: &Handle, entry: &Entry<Handle>) -> io::Result<Handle> {
        Ok(entry.mark)
    }

    fn make_directory(&mut self, directory: &Handle, name: &str) -> io::Result<Handle> {
        let call = Call::Mkdir {
            place: place(directory, name),
            attributes: with_mode(0o755),
        };
        self.make(&call, directory, name)
    }

    fn create(&mut self, directory: &Handle, name: &str) -> io::Result<Handle> {
        let call = Call::Create {
            place: place(directory, name),
            attributes: with_mode(0o644),
            new: true,
        };
        self.make(&call, directory, name)
    }

    fn symlink(&mut self, directory: &Handle, name: &str, text: &str) -> io::Result<Handle> {
        let call = Call::Symlink {
            place: place(directory, name),
            target: text.as_bytes(),
        };
        self.make(&call, directory, name)
    }

    fn read_link(&mut self, _: &Handle, entry: &Entry<Handle>) -> io::Result<Vec<u8>> {
        self.client
            .call(&Call::Readlink(&entry.mark), |reply| match reply {
                Reply::Link(target) => Ok(target.to_vec()),
                _ => Err(unexpected()),
            })
    }

    fn read(&mut self, file: &Handle, offset: u64, data: &mut [u8]) -> io::Result<usize> {
        let piece = Self::piece(self.limits.read_bytes);
        let mut done = 0;
        while done < data.len() {
            let call = Call::Read {
                file,
                offset: offset + done as u64,
                count: (data.len() - done).min(piece) as u32,
            };
            let (length, end) = self.client.call(&call, |reply| match reply {
                Reply::Read(read) if read.data.len() <= data.len() - done => {
                    data[done..][..read.data.len()].copy_from_slice(read.data);
                    Ok((read.data.len(), read.end))
                }
                _ => Err(unexpected()),
            })?;
            done += length;
            if end || length == 0 {
                break;
            }
        }
        Ok(done)
    }

    fn write(&mut self, file: &Handle, offset: u64, data: &[u8]) -> io::Result<()> {
        let piece = Self::piece(self.limits.write_bytes);
        let mut done = 0;
        while done < data.len() {
            let call = Call::Write {
                file,
                offset: offset + done as u64,
                stable: stable_how::UNSTABLE,
                data: &data[done..data.len().min(done + piece)],
            };
            let written = self.client.call(&call, |reply| match reply {
                Reply::Written(written) => Ok(written),
                _ => Err(unexpected()),
            })?;
            let count = written.count as usize;
            if count == 0 || count > piece {
                return Err(io::ErrorKind::WriteZero.into());
            }
            if !written.stable {
                self.unstable += count;
            }
            done += count;
        }
        Ok(())
    }

    fn set_size(&mut self, file: &Handle, bytes: u64) -> io::Result<()> {
        self.done(&Call::Setattr {
            object: file,
            change: with_size(bytes),
        })
    }

    /// Commits a file of at least [`COMMIT_FROM`] bytes: nothing later does it for all files.
    fn finish(&mut self, file: &Handle) -> io::Result<()> {
        if std::mem::take(&mut self.unstable) < COMMIT_FROM {
            return Ok(());
        }
        let call = Call::Commit {
            file,
            offset: 0,
            count: 0,
        };
        self.client.call(&call, |reply| match reply {
            Reply::Committed(_) => Ok(()),
            _ => Err(unexpected()),
        })
    }

    fn remove(&mut self, directory: &Handle, name: &str, kind: EntryKind) -> io::Result<()> {
        let place = place(directory, name);
        self.done(&match kind {
            EntryKind::Directory => Call::Rmdir(place),
            _ => Call::Remove(place),
        })
    }

    fn rename(&mut self, directory: &Handle, from: &str, to: &str) -> io::Result<()> {
        self.done(&Call::Rename {
            from: place(directory, from),
            to: place(directory, to),
        })
    }

    fn space(&mut self, directory: &Handle) -> io::Result<Option<Space>> {
        self.client
            .call(&Call::Fsstat(directory), |reply| match reply {
                // A server that keeps no account of its space or files reports a total of 0.
                Reply::FileSystem(use_) => Ok((use_.total_bytes > 0).then_some(Space {
                    bytes: use_.available_bytes,
                    files: (use_.total_files > 0).then_some(use_.available_files),
                })),
                _ => Err(unexpected()),
            })
    }

    /// Nothing is left to do: [`finish`](Store::finish) commits each file, and the server makes directories durable itself.
    fn settle(&mut self, _: &Handle) -> io::Result<()> {
        Ok(())
    }

    fn keep_open(&mut self, object: u32, open: &Handle) -> io::Result<()> {
        self.files.0.handles.set(object, Some(*open));
        Ok(())
    }

    fn keep_listed(&mut self, object: u32, mark: &Handle) -> io::Result<()> {
        self.files.0.handles.set(object, Some(*mark));
        Ok(())
    }
}
