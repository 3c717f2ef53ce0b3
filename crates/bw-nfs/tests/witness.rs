//! The types of `nfs3_types`, which were written by others, read our calls and make the replies that we read.

#![allow(clippy::unwrap_used)]

use bw_nfs::Procedure;
use bw_nfs::call::{Call, NfsCaller, Place, with_mode, with_size};
use bw_nfs::mount::{self, MOUNT_NUMBER, MOUNT_VERSION};
use bw_nfs::record::{Record, Records};
use bw_nfs::reply::{self, ReadReply, Reply, WriteReply};
use bw_nfs::rpc::{Caller, Credentials, Refusal, read_reply, xid_of};
use bw_nfs::status::Status;
use bw_nfs::value::{Handle, ObjectType, WriteVerifier};
use nfs3_types::mount as mnt;
use nfs3_types::nfs3::*;
use nfs3_types::portmap;
use nfs3_types::rpc::*;
use nfs3_types::xdr_codec::{List, Opaque, Unpack};
use replies::{accepted, attributes, message, replies};

mod replies;

fn credentials() -> Credentials {
    Credentials {
        machine: "client".into(),
        uid: 1000,
        gid: 100,
    }
}

/// Returns a call as the library reads it: its xid, its procedure and its arguments.
fn sent(call: &Call<'_>) -> (u32, u32, Vec<u8>) {
    let mut out = vec![0xee; 3];
    NfsCaller::new(&credentials()).call(&mut out, 77, call);
    let mut stream = &out[3..];
    let mut records = Records::new(1 << 20, 1 << 20);
    let record = records.next(&mut stream).unwrap().unwrap();
    let mut bytes = record.bytes;
    let (message, _) = rpc_msg::unpack(&mut bytes).unwrap();
    let msg_body::CALL(body) = message.body else {
        panic!("no call")
    };
    assert_eq!((body.rpcvers, body.prog, body.vers), (2, PROGRAM, VERSION));
    assert_eq!(body.cred.flavor, auth_flavor::AUTH_UNIX);
    let (user, _) = auth_unix::unpack(&mut &*body.cred.body).unwrap();
    assert_eq!((user.uid, user.gid, user.gids), (1000, 100, vec![]));
    assert_eq!(&*user.machinename, b"client");
    (message.xid, body.proc, bytes.to_vec())
}

/// Reads arguments of type `T`, which must be all there is.
fn arguments<T: Unpack>(call: &Call<'_>) -> T {
    let (xid, procedure, bytes) = sent(call);
    assert_eq!((xid, procedure), (77, call.procedure() as u32));
    let (value, length) = T::unpack(&mut &bytes[..]).unwrap();
    assert_eq!(length, bytes.len(), "{call:?}");
    value
}

fn fh(handle: &Handle) -> nfs_fh3 {
    nfs_fh3 {
        data: Opaque::owned(handle.bytes().to_vec()),
    }
}

#[test]
fn the_library_reads_every_call() {
    let (file, directory) = (
        Handle::new(b"file!").unwrap(),
        Handle::new(&[7; 64]).unwrap(),
    );
    let place = Place {
        directory: &directory,
        name: b"name",
    };
    let named = || diropargs3 {
        dir: fh(&directory),
        name: b"name"[..].into(),
    };

    assert_eq!(sent(&Call::Null).2, []);
    assert_eq!(
        arguments::<GETATTR3args>(&Call::Getattr(&file)).object,
        fh(&file)
    );
    let set: SETATTR3args = arguments(&Call::Setattr {
        object: &file,
        change: with_size(9),
    });
    assert_eq!(
        (set.object, set.new_attributes.size),
        (fh(&file), Nfs3Option::Some(9))
    );
    assert!(set.new_attributes.mode.is_none() && set.guard.is_none());
    assert_eq!(
        arguments::<LOOKUP3args<'_>>(&Call::Lookup(place)).what,
        named()
    );
    let access: ACCESS3args = arguments(&Call::Access(&file, 63));
    assert_eq!((access.object, access.access), (fh(&file), 63));
    assert_eq!(
        arguments::<READLINK3args>(&Call::Readlink(&file)).symlink,
        fh(&file)
    );
    let read: READ3args = arguments(&Call::Read {
        file: &file,
        offset: 1 << 40,
        count: 5,
    });
    assert_eq!(
        (read.file, read.offset, read.count),
        (fh(&file), 1 << 40, 5)
    );
    let write: WRITE3args<'_> = arguments(&Call::Write {
        file: &file,
        offset: 3,
        stable: stable_how::UNSTABLE,
        data: b"hello",
    });
    assert_eq!((write.file, write.offset, write.count), (fh(&file), 3, 5));
    assert_eq!(
        (write.stable, &*write.data),
        (stable_how::UNSTABLE, &b"hello"[..])
    );
    for new in [false, true] {
        let call = Call::Create {
            place,
            attributes: with_mode(0o644),
            new,
        };
        let made: CREATE3args<'_> = arguments(&call);
        let (createhow3::UNCHECKED(how) | createhow3::GUARDED(how)) = &made.how else {
            panic!("{:?}", made.how)
        };
        assert_eq!((made.where_, how.mode), (named(), Nfs3Option::Some(0o644)));
        assert_eq!(matches!(made.how, createhow3::GUARDED(_)), new);
    }
    let made: MKDIR3args<'_> = arguments(&Call::Mkdir {
        place,
        attributes: with_mode(0o755),
    });
    assert_eq!(
        (made.where_, made.attributes.mode),
        (named(), Nfs3Option::Some(0o755))
    );
    let link: SYMLINK3args<'_> = arguments(&Call::Symlink {
        place,
        target: b"../x",
    });
    assert_eq!(
        (link.where_, &*link.symlink.symlink_data.0),
        (named(), &b"../x"[..])
    );
    assert_eq!(
        arguments::<REMOVE3args<'_>>(&Call::Remove(place)).object,
        named()
    );
    assert_eq!(
        arguments::<RMDIR3args<'_>>(&Call::Rmdir(place)).object,
        named()
    );
    let to = Place {
        directory: &file,
        name: b"n2",
    };
    let renamed: RENAME3args<'_, '_> = arguments(&Call::Rename { from: place, to });
    assert_eq!(renamed.from, named());
    assert_eq!(
        (renamed.to.dir, renamed.to.name.as_ref()),
        (fh(&file), &b"n2"[..])
    );
    let list: READDIR3args = arguments(&Call::Readdir {
        directory: &directory,
        cookie: 4,
        verifier: [1; 8],
        most_bytes: 8192,
    });
    assert_eq!(
        (list.dir, list.cookie, list.count),
        (fh(&directory), 4, 8192)
    );
    assert_eq!(list.cookieverf, cookieverf3([1; 8]));
    let list: READDIRPLUS3args = arguments(&Call::Readdirplus {
        directory: &directory,
        cookie: 4,
        verifier: [1; 8],
        names_bytes: 512,
        most_bytes: 8192,
    });
    assert_eq!(
        (list.dir, list.dircount, list.maxcount),
        (fh(&directory), 512, 8192)
    );
    assert_eq!(
        arguments::<FSSTAT3args>(&Call::Fsstat(&file)).fsroot,
        fh(&file)
    );
    assert_eq!(
        arguments::<FSINFO3args>(&Call::Fsinfo(&file)).fsroot,
        fh(&file)
    );
    let commit: COMMIT3args = arguments(&Call::Commit {
        file: &file,
        offset: 1,
        count: 2,
    });
    assert_eq!(
        (commit.file, commit.offset, commit.count),
        (fh(&file), 1, 2)
    );
}

#[test]
fn no_call_is_longer_than_its_bound() {
    let caller = NfsCaller::new(&credentials());
    let handle = Handle::new(&[1; 64]).unwrap();
    let place = Place {
        directory: &handle,
        name: &[b'n'; 255],
    };
    let calls = [
        Call::Rename {
            from: place,
            to: place,
        },
        Call::Create {
            place,
            attributes: full(),
            new: true,
        },
        Call::Setattr {
            object: &handle,
            change: full(),
        },
        Call::Symlink { place, target: b"" },
    ];
    for call in calls {
        let mut out = Vec::new();
        caller.call(&mut out, 1, &call);
        assert!(
            out.len() <= caller.most_bytes(255),
            "{call:?}: {}",
            out.len()
        );
    }
}

fn full() -> sattr3 {
    let time = nfstime3::default();
    sattr3 {
        mode: Nfs3Option::Some(1),
        uid: Nfs3Option::Some(1),
        gid: Nfs3Option::Some(1),
        size: Nfs3Option::Some(1),
        atime: set_atime::SET_TO_CLIENT_TIME(time),
        mtime: set_mtime::SET_TO_CLIENT_TIME(time),
    }
}

fn record(bytes: &[u8]) -> Record<'_> {
    Record {
        bytes,
        length: bytes.len(),
    }
}

/// Reads a reply whose call was accepted.
fn results(procedure: Procedure, bytes: &[u8]) -> Result<Reply<'_>, Status> {
    let head = read_reply(&record(bytes)).unwrap();
    assert_eq!(head.xid, 5);
    reply::read(procedure, head.results.unwrap()).unwrap()
}

#[test]
fn every_reply_of_the_library_is_read() {
    let all = replies();
    let of = |procedure: Procedure| {
        let (_, bytes) = all.iter().find(|(which, _)| *which == procedure).unwrap();
        results(procedure, bytes).unwrap()
    };
    let Reply::Attributes(object) = of(Procedure::NFSPROC3_GETATTR) else {
        panic!()
    };
    assert_eq!(
        (object.object_type, object.size_bytes),
        (ObjectType::File, 4096)
    );
    assert_eq!(
        (object.mode, object.number, object.hard_links),
        (0o644, 12, 1)
    );
    let Reply::Found(handle, Some(found)) = of(Procedure::NFSPROC3_LOOKUP) else {
        panic!()
    };
    assert_eq!((handle.bytes(), found), (&b"abcde"[..], object));
    assert!(matches!(of(Procedure::NFSPROC3_ACCESS), Reply::Access(31)));
    assert!(matches!(
        of(Procedure::NFSPROC3_READLINK),
        Reply::Link(b"../target")
    ));
    let Reply::Read(read) = of(Procedure::NFSPROC3_READ) else {
        panic!()
    };
    assert_eq!(
        read,
        ReadReply {
            count: 7,
            end: true,
            data: b"content"
        }
    );
    let Reply::Written(written) = of(Procedure::NFSPROC3_WRITE) else {
        panic!()
    };
    let verifier = WriteVerifier(*b"verifier");
    assert_eq!(
        written,
        WriteReply {
            count: 8192,
            stable: false,
            verifier
        }
    );
    let Reply::Committed(committed) = of(Procedure::NFSPROC3_COMMIT) else {
        panic!()
    };
    assert_eq!(committed, verifier);
    for made in [
        Procedure::NFSPROC3_CREATE,
        Procedure::NFSPROC3_MKDIR,
        Procedure::NFSPROC3_SYMLINK,
    ] {
        let Reply::Made(Some(handle), Some(of_new)) = of(made) else {
            panic!()
        };
        assert_eq!((handle.bytes(), of_new), (&b"abcde"[..], object));
    }
    for done in [
        Procedure::NFSPROC3_NULL,
        Procedure::NFSPROC3_SETATTR,
        Procedure::NFSPROC3_REMOVE,
        Procedure::NFSPROC3_RMDIR,
        Procedure::NFSPROC3_RENAME,
    ] {
        assert!(matches!(of(done), Reply::Done), "{done}");
    }
    let Reply::FileSystem(use_) = of(Procedure::NFSPROC3_FSSTAT) else {
        panic!()
    };
    assert_eq!((use_.total_bytes, use_.available_bytes), (100, 50));
    assert_eq!((use_.total_files, use_.available_files), (10, 5));
    let Reply::Limits(limits) = of(Procedure::NFSPROC3_FSINFO) else {
        panic!()
    };
    assert_eq!(
        (limits.read_bytes, limits.write_bytes, limits.readdir_bytes),
        (1 << 20, 1 << 19, 8192)
    );
    for (procedure, plus) in [
        (Procedure::NFSPROC3_READDIR, false),
        (Procedure::NFSPROC3_READDIRPLUS, true),
    ] {
        let Reply::Entries(mut entries) = of(procedure) else {
            panic!()
        };
        assert_eq!(entries.verifier(), [9; 8]);
        for name in ["f1", "f22", "f333"] {
            let entry = entries.next().unwrap().unwrap();
            assert_eq!((entry.name, entry.number), (name.as_bytes(), 40));
            assert_eq!(
                (entry.attributes.is_some(), entry.handle.is_some()),
                (plus, plus)
            );
        }
        assert_eq!((entries.next().unwrap(), entries.is_whole()), (None, true));
    }
}

#[test]
fn a_failed_call_has_its_status_and_a_refused_one_its_reason() {
    let failed = LOOKUP3res::Err((nfsstat3::NFS3ERR_STALE, LOOKUP3resfail::default()));
    let status = results(Procedure::NFSPROC3_LOOKUP, &accepted(&failed)).unwrap_err();
    assert_eq!(
        (status.to_string().as_str(), status.result()),
        ("NFS3ERR_STALE", -116)
    );

    let refusals = [
        (accept_stat_data::PROG_UNAVAIL, Refusal::NoProgram),
        (
            accept_stat_data::PROG_MISMATCH { low: 4, high: 4 },
            Refusal::OtherVersions,
        ),
        (accept_stat_data::PROC_UNAVAIL, Refusal::NoProcedure),
        (accept_stat_data::GARBAGE_ARGS, Refusal::GarbageArguments),
        (accept_stat_data::SYSTEM_ERR, Refusal::SystemError),
    ];
    for (data, refusal) in refusals {
        let body = reply_body::MSG_ACCEPTED(accepted_reply {
            verf: opaque_auth::default(),
            reply_data: data,
        });
        let bytes = message(body);
        assert_eq!(
            read_reply(&record(&bytes)).unwrap().results.unwrap_err(),
            refusal
        );
    }
    let denied = [
        (rejected_reply::rpc_mismatch(3, 3), Refusal::RpcMismatch),
        (
            rejected_reply::auth_error(auth_stat::AUTH_TOOWEAK),
            Refusal::Authentication(auth_stat::AUTH_TOOWEAK),
        ),
    ];
    for (rejected, refusal) in denied {
        let bytes = message(reply_body::MSG_DENIED(rejected));
        assert_eq!(
            read_reply(&record(&bytes)).unwrap().results.unwrap_err(),
            refusal
        );
    }
}

#[test]
fn a_read_of_which_only_the_start_was_kept_is_read() {
    let data = vec![b'd'; 1000];
    let read = READ3res::Ok(READ3resok {
        file_attributes: attributes(),
        count: 1000,
        eof: false,
        data: Opaque::borrowed(&data),
    });
    let bytes = accepted(&read);
    let kept = Record {
        bytes: &bytes[..200],
        length: bytes.len(),
    };
    let head = read_reply(&kept).unwrap();
    let Reply::Read(read) = reply::read(Procedure::NFSPROC3_READ, head.results.unwrap())
        .unwrap()
        .unwrap()
    else {
        panic!()
    };
    assert_eq!((read.count, read.end), (1000, false));
    assert!(!read.data.is_empty() && data.starts_with(read.data));
    // The data are longer than the record: malformed, wherever the record was cut.
    let cut = Record {
        bytes: &bytes[..200],
        length: bytes.len() - 4,
    };
    let head = read_reply(&cut).unwrap();
    assert!(reply::read(Procedure::NFSPROC3_READ, head.results.unwrap()).is_err());
}

#[test]
fn a_mount_and_a_lookup_of_a_port_are_read() {
    let caller = Caller::new(MOUNT_NUMBER, MOUNT_VERSION, &credentials());
    let mut out = Vec::new();
    mount::call_mount(&caller, &mut out, 8, b"/export");
    let mut bytes = &out[4..];
    let (message, _) = rpc_msg::unpack(&mut bytes).unwrap();
    let msg_body::CALL(body) = message.body else {
        panic!()
    };
    assert_eq!((body.prog, body.vers, body.proc), (100_005, 3, 1));
    assert_eq!(&*mnt::dirpath::unpack(&mut bytes).unwrap().0.0, b"/export");

    let fhandle = mnt::fhandle3(Opaque::borrowed(b"root"));
    let ok = mnt::mountres3::Ok(mnt::mountres3_ok {
        fhandle,
        auth_flavors: vec![1, 0],
    });
    let bytes = accepted(&ok);
    let head = read_reply(&record(&bytes)).unwrap();
    assert_eq!(
        mount::read_mount(head.results.unwrap())
            .unwrap()
            .unwrap()
            .bytes(),
        b"root"
    );
    let bytes = accepted(&mnt::mountres3::Err(mnt::mountstat3::MNT3ERR_ACCES));
    let head = read_reply(&record(&bytes)).unwrap();
    let refused = mount::read_mount(head.results.unwrap())
        .unwrap()
        .unwrap_err();
    assert_eq!(refused.to_string(), "MNT3ERR_ACCES");

    let mut out = Vec::new();
    mount::call_exports(&caller, &mut out, 8);
    let mut bytes = &out[4..];
    rpc_msg::unpack(&mut bytes).unwrap();
    assert_eq!(bytes, []);
    let export = |path, groups: &[&'static [u8]]| mnt::export_node {
        ex_dir: mnt::dirpath(Opaque::borrowed(path)),
        ex_groups: List(
            groups
                .iter()
                .map(|group| mnt::name(Opaque::borrowed(group)))
                .collect(),
        ),
    };
    let listed = List(vec![
        export(b"/a", &[]),
        export(b"/srv/bb", &[b"*", b"host"]),
    ]);
    let bytes = accepted(&listed);
    let head = read_reply(&record(&bytes)).unwrap();
    let mut exports = Vec::new();
    let take = |path: &[u8]| exports.push(path.to_vec());
    mount::read_exports(head.results.unwrap(), take).unwrap();
    assert_eq!(exports, [&b"/a"[..], b"/srv/bb"]);

    let caller = Caller::new(
        mount::PORTMAP_NUMBER,
        mount::PORTMAP_VERSION,
        &credentials(),
    );
    let mut out = Vec::new();
    mount::call_getport(&caller, &mut out, 8, (100_005, 3));
    let mut bytes = &out[4..];
    rpc_msg::unpack(&mut bytes).unwrap();
    let (wanted, _) = portmap::mapping::unpack(&mut bytes).unwrap();
    assert_eq!(
        (wanted.prog, wanted.vers, wanted.prot, wanted.port),
        (100_005, 3, 6, 0)
    );
    for (port, read) in [(2049_u32, Ok(Some(2049))), (0, Ok(None)), (70_000, Err(()))] {
        let bytes = accepted(&port);
        let head = read_reply(&record(&bytes)).unwrap();
        assert_eq!(
            mount::read_getport(head.results.unwrap()).map_err(drop),
            read
        );
    }

    let caller = Caller::new(
        mount::PORTMAP_NUMBER,
        mount::RPCBIND_VERSIONS[0],
        &credentials(),
    );
    let mut out = Vec::new();
    mount::call_getaddr(&caller, &mut out, 8, (100_005, 3));
    let mut bytes = &out[4..];
    rpc_msg::unpack(&mut bytes).unwrap();
    let asked: Vec<u8> = [100_005_u32, 3, 4].map(u32::to_be_bytes).concat();
    assert_eq!(bytes, [&asked[..], b"tcp6", &[0; 8]].concat());
    for (text, read) in [
        ("::.8.1", Ok(Some(2049))),
        ("fe80::1.78.80", Ok(Some(20_048))),
        ("", Ok(None)),
        ("::.8", Err(())),
        ("::.256.1", Err(())),
        ("8", Err(())),
    ] {
        let bytes = accepted(&Opaque::borrowed(text.as_bytes()));
        let head = read_reply(&record(&bytes)).unwrap();
        assert_eq!(
            mount::read_getaddr(head.results.unwrap()).map_err(drop),
            read,
            "{text}"
        );
    }
}

#[test]
fn only_replies_have_an_xid() {
    let bytes = accepted(&0_u32);
    assert_eq!(xid_of(&record(&bytes)), Some(5));
    let mut call = Vec::new();
    NfsCaller::new(&credentials()).call(&mut call, 5, &Call::Null);
    assert_eq!(xid_of(&record(&call[4..])), None);
    assert_eq!(xid_of(&record(&bytes[..7])), None);
}
