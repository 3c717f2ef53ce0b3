//! A server of NFS version 3 without files: it answers every call, as fast as it can, or with a fault. Each directory seems
//! to contain two files of 4096 bytes, `f0` and `f1`. The replies are those of `nfs3_types`, which was written by others
//! than the client.
//!
//! A file set can be made on it as often as wanted: its folder never exists, and is empty once it was made. The claim on
//! the folder is denied, because nothing is stored here that could be read again; so a load on a set may only read.

#![allow(dead_code, clippy::unwrap_used)]

use bw_load::file_set::make::FOLDER;
use nfs3_types::mount as mnt;
use nfs3_types::nfs3::*;
use nfs3_types::rpc::*;
use nfs3_types::xdr_codec::{List, Opaque, Pack, Void};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// What the server does with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Answer,
    /// Answers with a status instead of results.
    Status(u32),
    /// Reads or writes at most so many bytes.
    Short(u32),
    /// Answers with another write verifier.
    Verifier([u8; 8]),
    /// Answers so much later, and keeps other replies waiting.
    Late(Duration),
    /// Answers byte by byte.
    Slowly,
    /// Answers with results that end too early.
    Malformed,
    /// Refuses: the procedure does not exist.
    Refuse,
    /// Sends bytes that are no record.
    Noise,
    /// Sends half of the reply and closes.
    Truncate,
    /// Answers another call, which was never sent.
    WrongXid,
    /// Closes the connection without an answer.
    Close,
    /// Never answers.
    Ignore,
}

/// A call, as far as a fault may depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Called {
    pub connection: u64,
    /// How many calls of NFS came before it on all connections, FSINFO not counted.
    pub number: u64,
    pub procedure: u32,
    pub xid: u32,
}

/// The server. It ends with the process.
pub(crate) struct NfsServer {
    pub address: SocketAddr,
    connections: Arc<AtomicU64>,
    calls: Arc<AtomicU64>,
}

impl NfsServer {
    /// Starts a server on a port of the loopback.
    pub(crate) fn start(behave: impl Fn(&Called) -> Action + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicU64::new(0));
        let calls = Arc::new(AtomicU64::new(0));
        let (counter, numbers) = (Arc::clone(&connections), Arc::clone(&calls));
        let behave = Arc::new(behave);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let behave = Arc::clone(&behave);
                let numbers = Arc::clone(&numbers);
                let number = counter.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || serve(number, stream.unwrap(), &*behave, &numbers));
            }
        });
        Self {
            address,
            connections,
            calls,
        }
    }

    /// Returns how many connections it has accepted: one of MOUNT and one of FSINFO before those of a target.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns how many calls of NFS have come, FSINFO not counted.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }
}

const PIECE: usize = 256 * 1024;

fn serve(
    connection: u64,
    mut stream: TcpStream,
    behave: &dyn Fn(&Called) -> Action,
    numbers: &AtomicU64,
) {
    stream.set_nodelay(true).unwrap();
    let answers = Answers::new();
    let mut received = Vec::new();
    let mut out = Vec::new();
    let mut piece = vec![0; PIECE];
    loop {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(length) => received.extend_from_slice(&piece[..length]),
        }
        let mut at = 0;
        while let Some(record) = whole_record(&received[at..]) {
            at += 4 + record.len();
            let call = Incoming::read(record);
            let counted = call.program == PROGRAM && call.procedure != 19;
            let action = match counted {
                true => behave(&Called {
                    connection,
                    number: numbers.fetch_add(1, Ordering::SeqCst),
                    procedure: call.procedure,
                    xid: call.xid,
                }),
                false => Action::Answer,
            };
            let before = out.len();
            match action {
                Action::Answer | Action::Slowly | Action::Late(_) | Action::Truncate => {
                    answers.answer(&mut out, &call);
                }
                Action::Short(most) => {
                    let count = call.count.min(most);
                    answers.answer(&mut out, &Incoming { count, ..call });
                }
                Action::Status(status) => framed(
                    &mut out,
                    call.xid,
                    &answers.accepted(accept_stat_data::SUCCESS, &status),
                ),
                Action::Verifier(verifier) => answers.written(&mut out, &call, verifier),
                Action::Malformed => framed(
                    &mut out,
                    call.xid,
                    &answers.accepted(accept_stat_data::SUCCESS, &7_u32)[..26],
                ),
                Action::Refuse => framed(
                    &mut out,
                    call.xid,
                    &answers.accepted(accept_stat_data::PROC_UNAVAIL, &Void),
                ),
                Action::Noise => out.extend([0x7f; 64]),
                Action::WrongXid => {
                    let other = Incoming {
                        xid: call.xid ^ 0x8000_0000,
                        ..call
                    };
                    answers.answer(&mut out, &other);
                }
                Action::Close => {
                    let _ = stream.write_all(&out);
                    return;
                }
                Action::Ignore => {}
            }
            match action {
                Action::Late(by) => thread::sleep(by),
                Action::Slowly => {
                    let mut bytes = out.drain(before..);
                    let mut all = Vec::new();
                    all.extend(&mut bytes);
                    drop(bytes);
                    for byte in all {
                        if stream.write_all(&[byte]).is_err() {
                            return;
                        }
                    }
                }
                Action::Truncate => {
                    let half = before + (out.len() - before) / 2;
                    let _ = stream.write_all(&out[..half]);
                    return;
                }
                _ => {}
            }
        }
        received.drain(..at);
        if stream.write_all(&out).is_err() {
            return;
        }
        out.clear();
    }
}

/// Returns the first record, if it is whole; the client sends each as one fragment.
fn whole_record(bytes: &[u8]) -> Option<&[u8]> {
    let marker = u32::from_be_bytes(*bytes.first_chunk()?);
    assert!(marker & 1 << 31 != 0, "one fragment");
    bytes.get(4..4 + (marker & !(1 << 31)) as usize)
}

/// A call, with what the answer depends on.
#[derive(Clone, Copy)]
struct Incoming {
    xid: u32,
    program: u32,
    procedure: u32,
    /// The size of a READ or WRITE, the rights that an ACCESS asks for.
    count: u32,
    about: About,
}

/// What a call is about, as far as the making of a file set depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    /// The folder of a file set, by name or by handle.
    Folder,
    /// The name of the claim on the folder.
    Claim,
    Other,
}

impl Incoming {
    fn read(record: &[u8]) -> Self {
        let word = |at: usize| u32::from_be_bytes(record[at..at + 4].try_into().unwrap());
        let (program, procedure) = (word(12), word(20));
        let credentials = word(28) as usize;
        let arguments = 32 + credentials.next_multiple_of(4) + 8;
        let opaque = |at: usize| &record[at + 4..][..word(at) as usize];
        // Behind the file handle, which is the first argument of every procedure with arguments.
        let behind = |at: usize| at + 4 + (word(at) as usize).next_multiple_of(4);
        let count = match (program, procedure) {
            (PROGRAM, 6 | 7) => word(behind(arguments) + 8),
            (PROGRAM, 4) => word(behind(arguments)),
            _ => 0,
        };
        let about = match (program, procedure) {
            (PROGRAM, 3 | 8 | 9) => match opaque(behind(arguments)) {
                name if name == FOLDER.as_bytes() => About::Folder,
                b"lock.json" => About::Claim,
                _ => About::Other,
            },
            (PROGRAM, 17) if opaque(arguments) == FOLDER_HANDLE => About::Folder,
            _ => About::Other,
        };
        Self {
            xid: word(0),
            program,
            procedure,
            count,
            about,
        }
    }
}

/// Appends a message as a record, with this xid.
fn framed(out: &mut Vec<u8>, xid: u32, message: &[u8]) {
    out.extend((message.len() as u32 | 1 << 31).to_be_bytes());
    let start = out.len();
    out.extend_from_slice(message);
    out[start..][..4].copy_from_slice(&xid.to_be_bytes());
}

/// The prepared answers.
struct Answers {
    by_procedure: Vec<Vec<u8>>,
    folder_made: Vec<u8>,
    folder_listed: Vec<u8>,
    not_there: Vec<u8>,
    denied: Vec<u8>,
    mount: Vec<u8>,
    no_exports: Vec<u8>,
    read: Vec<u8>,
    data: Vec<u8>,
}

/// The verifier of every WRITE and COMMIT without a fault.
pub(crate) const VERIFIER: [u8; 8] = *b"verifier";

impl Answers {
    fn new() -> Self {
        let mut answers = Self {
            by_procedure: Vec::new(),
            folder_made: Vec::new(),
            folder_listed: Vec::new(),
            not_there: Vec::new(),
            denied: Vec::new(),
            mount: Vec::new(),
            no_exports: Vec::new(),
            read: Vec::new(),
            data: vec![b'd'; 1 << 20],
        };
        let fhandle = mnt::fhandle3(Opaque::borrowed(b"root"));
        let mounted = mnt::mountres3::Ok(mnt::mountres3_ok {
            fhandle,
            auth_flavors: vec![1],
        });
        answers.mount = answers.accepted(accept_stat_data::SUCCESS, &mounted);
        answers.no_exports = answers.accepted(accept_stat_data::SUCCESS, &false);
        answers.by_procedure = (0..22)
            .map(|procedure| answers.prepared(procedure))
            .collect();
        answers.folder_made = answers.made(handle_of(&FOLDER_HANDLE));
        answers.folder_listed = answers.listed_plus(Vec::new());
        let not_there = (nfsstat3::NFS3ERR_NOENT, LOOKUP3resfail::default());
        answers.not_there =
            answers.accepted(accept_stat_data::SUCCESS, &LOOKUP3res::Err(not_there));
        let denied = (nfsstat3::NFS3ERR_ACCES, CREATE3resfail::default());
        answers.denied = answers.accepted(accept_stat_data::SUCCESS, &CREATE3res::Err(denied));
        let read = READ3res::Ok(READ3resok {
            file_attributes: attributes(),
            count: 0,
            eof: false,
            data: Opaque::borrowed(&[]),
        });
        answers.read = answers.accepted(accept_stat_data::SUCCESS, &read);
        answers
    }

    fn accepted(&self, reply_data: accept_stat_data, results: &impl Pack) -> Vec<u8> {
        let verf = opaque_auth::default();
        let body = msg_body::REPLY(reply_body::MSG_ACCEPTED(accepted_reply {
            verf,
            reply_data,
        }));
        let mut bytes = Vec::new();
        rpc_msg { xid: 0, body }.pack(&mut bytes).unwrap();
        results.pack(&mut bytes).unwrap();
        bytes
    }

    fn prepared(&self, procedure: u32) -> Vec<u8> {
        let ok = accept_stat_data::SUCCESS;
        let wcc = wcc_data::default;
        let entries = ["f0", "f1"].map(|name| entry3 {
            fileid: 1,
            name: name.as_bytes().into(),
            cookie: 3,
        });
        let plus = ["f0", "f1"].map(|name| entryplus3 {
            fileid: 1,
            name: name.as_bytes().into(),
            cookie: 3,
            name_attributes: attributes(),
            name_handle: Nfs3Option::Some(handle()),
        });
        let verf = cookieverf3([9; 8]);
        let none = Nfs3Option::None;
        match procedure {
            1 => self.accepted(
                ok,
                &GETATTR3res::Ok(GETATTR3resok {
                    obj_attributes: fattr3 {
                        type_: ftype3::NF3DIR,
                        ..object()
                    },
                }),
            ),
            2 => self.accepted(ok, &SETATTR3res::Ok(SETATTR3resok { obj_wcc: wcc() })),
            3 => self.accepted(
                ok,
                &LOOKUP3res::Ok(LOOKUP3resok {
                    object: handle(),
                    obj_attributes: attributes(),
                    dir_attributes: none,
                }),
            ),
            4 => self.accepted(
                ok,
                &ACCESS3res::Ok(ACCESS3resok {
                    obj_attributes: none,
                    access: 31,
                }),
            ),
            5 => self.accepted(
                ok,
                &READLINK3res::Ok(READLINK3resok {
                    symlink_attributes: none,
                    data: b"f0"[..].into(),
                }),
            ),
            8..=10 => self.made(handle()),
            12 | 13 => self.accepted(ok, &REMOVE3res::Ok(REMOVE3resok { dir_wcc: wcc() })),
            14 => self.accepted(
                ok,
                &RENAME3res::Ok(RENAME3resok {
                    fromdir_wcc: wcc(),
                    todir_wcc: wcc(),
                }),
            ),
            16 => {
                let reply = dirlist3 {
                    entries: List(entries.into()),
                    eof: true,
                };
                self.accepted(
                    ok,
                    &READDIR3res::Ok(READDIR3resok {
                        dir_attributes: none,
                        cookieverf: verf,
                        reply,
                    }),
                )
            }
            17 => self.listed_plus(plus.into()),
            18 => self.accepted(
                ok,
                &FSSTAT3res::Ok(FSSTAT3resok {
                    obj_attributes: none,
                    tbytes: 1 << 40,
                    fbytes: 1 << 40,
                    abytes: 1 << 40,
                    tfiles: 1 << 30,
                    ffiles: 1 << 30,
                    afiles: 1 << 30,
                    invarsec: 0,
                }),
            ),
            19 => self.accepted(
                ok,
                &FSINFO3res::Ok(FSINFO3resok {
                    obj_attributes: none,
                    rtmax: 1 << 20,
                    rtpref: 1 << 20,
                    rtmult: 1,
                    wtmax: 1 << 20,
                    wtpref: 1 << 20,
                    wtmult: 1,
                    dtpref: 8192,
                    maxfilesize: 1 << 40,
                    time_delta: nfstime3::default(),
                    properties: 0x1b,
                }),
            ),
            _ => self.accepted(ok, &Void),
        }
    }

    /// Returns the reply to a call that made an object with this handle.
    fn made(&self, handle: nfs_fh3) -> Vec<u8> {
        self.accepted(
            accept_stat_data::SUCCESS,
            &CREATE3res::Ok(CREATE3resok {
                obj: Nfs3Option::Some(handle),
                obj_attributes: attributes(),
                dir_wcc: wcc_data::default(),
            }),
        )
    }

    /// Returns the reply to READDIRPLUS of a directory with these entries.
    fn listed_plus(&self, entries: Vec<entryplus3<'_>>) -> Vec<u8> {
        let reply = dirlistplus3 {
            entries: List(entries),
            eof: true,
        };
        self.accepted(
            accept_stat_data::SUCCESS,
            &READDIRPLUS3res::Ok(READDIRPLUS3resok {
                dir_attributes: Nfs3Option::None,
                cookieverf: cookieverf3([9; 8]),
                reply,
            }),
        )
    }

    fn answer(&self, out: &mut Vec<u8>, call: &Incoming) {
        match (call.about, call.procedure) {
            (About::Other, _) => self.answer_other(out, call),
            (_, 3) => framed(out, call.xid, &self.not_there),
            (About::Folder, 17) => framed(out, call.xid, &self.folder_listed),
            (About::Folder, _) => framed(out, call.xid, &self.folder_made),
            (About::Claim, _) => framed(out, call.xid, &self.denied),
        }
    }

    fn answer_other(&self, out: &mut Vec<u8>, call: &Incoming) {
        match (call.program, call.procedure) {
            (mnt::PROGRAM, 1) => framed(out, call.xid, &self.mount),
            // No exports to list, nothing to say.
            (mnt::PROGRAM, 5) => framed(out, call.xid, &self.no_exports),
            (mnt::PROGRAM, _) => framed(out, call.xid, &self.by_procedure[0]),
            (_, 6) => {
                let size = call.count as usize;
                let length = self.read.len() + size.next_multiple_of(4);
                out.extend((length as u32 | 1 << 31).to_be_bytes());
                let start = out.len();
                out.extend_from_slice(&self.read);
                out[start..][..4].copy_from_slice(&call.xid.to_be_bytes());
                // Count, end of file, length of the data.
                let end = out.len();
                out[end - 12..end - 8].copy_from_slice(&call.count.to_be_bytes());
                out[end - 4..].copy_from_slice(&call.count.to_be_bytes());
                out.extend_from_slice(&self.data[..size.next_multiple_of(4)]);
            }
            (_, 7 | 21) => self.written(out, call, VERIFIER),
            // All rights that it asks for: the last word.
            (_, 4) => {
                framed(out, call.xid, &self.by_procedure[4]);
                let end = out.len();
                out[end - 4..].copy_from_slice(&call.count.to_be_bytes());
            }
            (_, procedure) => framed(out, call.xid, &self.by_procedure[procedure as usize]),
        }
    }

    fn written(&self, out: &mut Vec<u8>, call: &Incoming, verifier: [u8; 8]) {
        let verf = writeverf3(verifier);
        let file_wcc = wcc_data::default();
        let ok = accept_stat_data::SUCCESS;
        let message = match call.procedure {
            21 => self.accepted(ok, &COMMIT3res::Ok(COMMIT3resok { file_wcc, verf })),
            _ => {
                let committed = stable_how::UNSTABLE;
                let count = call.count;
                self.accepted(
                    ok,
                    &WRITE3res::Ok(WRITE3resok {
                        file_wcc,
                        count,
                        committed,
                        verf,
                    }),
                )
            }
        };
        framed(out, call.xid, &message);
    }
}

/// The handle of the folder of a file set.
const FOLDER_HANDLE: [u8; 44] = [6; 44];

fn handle() -> nfs_fh3 {
    handle_of(&[5; 44])
}

fn handle_of(bytes: &'static [u8]) -> nfs_fh3 {
    nfs_fh3 {
        data: Opaque::borrowed(bytes),
    }
}

fn object() -> fattr3 {
    let time = nfstime3::default();
    fattr3 {
        type_: ftype3::NF3REG,
        mode: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        size: 4096,
        used: 4096,
        rdev: specdata3::default(),
        fsid: 1,
        fileid: 1,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

fn attributes() -> post_op_attr {
    Nfs3Option::Some(object())
}
