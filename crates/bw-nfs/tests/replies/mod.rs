//! Replies as `nfs3_types` writes them.

#![allow(dead_code, clippy::unwrap_used)]

use bw_nfs::Procedure;
use nfs3_types::nfs3::*;
use nfs3_types::rpc::*;
use nfs3_types::xdr_codec::{List, Opaque, Pack};

pub(crate) fn packed(value: &impl Pack) -> Vec<u8> {
    let mut out = Vec::new();
    value.pack(&mut out).unwrap();
    out
}

/// Returns a message with xid 5, without the results.
pub(crate) fn message(body: reply_body<'_>) -> Vec<u8> {
    packed(&rpc_msg {
        xid: 5,
        body: msg_body::REPLY(body),
    })
}

/// Returns the reply to an accepted call.
pub(crate) fn accepted(results: &impl Pack) -> Vec<u8> {
    let verf = opaque_auth::default();
    let reply_data = accept_stat_data::SUCCESS;
    let mut bytes = message(reply_body::MSG_ACCEPTED(accepted_reply {
        verf,
        reply_data,
    }));
    results.pack(&mut bytes).unwrap();
    bytes
}

fn object() -> fattr3 {
    let time = nfstime3 {
        seconds: 1,
        nseconds: 2,
    };
    fattr3 {
        type_: ftype3::NF3REG,
        mode: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        size: 4096,
        used: 8192,
        rdev: specdata3::default(),
        fsid: 3,
        fileid: 12,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

pub(crate) fn attributes() -> post_op_attr {
    Nfs3Option::Some(object())
}

fn change() -> wcc_data {
    let time = nfstime3 {
        seconds: 1,
        nseconds: 2,
    };
    let before = Nfs3Option::Some(wcc_attr {
        size: 1,
        mtime: time,
        ctime: time,
    });
    wcc_data {
        before,
        after: attributes(),
    }
}

fn handle() -> nfs_fh3 {
    nfs_fh3 {
        data: Opaque::borrowed(b"abcde"),
    }
}

/// Returns one good reply of each procedure.
pub(crate) fn replies() -> Vec<(Procedure, Vec<u8>)> {
    let verf = writeverf3(*b"verifier");
    let names = ["f1", "f22", "f333"];
    let entries = names.map(|name| entry3 {
        fileid: 40,
        name: name.as_bytes().into(),
        cookie: 3,
    });
    let plus = names.map(|name| entryplus3 {
        fileid: 40,
        name: name.as_bytes().into(),
        cookie: 3,
        name_attributes: attributes(),
        name_handle: Nfs3Option::Some(handle()),
    });
    let cookieverf = cookieverf3([9; 8]);
    let obj = || Nfs3Option::Some(handle());
    let made = |procedure| {
        let made = CREATE3resok {
            obj: obj(),
            obj_attributes: attributes(),
            dir_wcc: change(),
        };
        (procedure, accepted(&CREATE3res::Ok(made)))
    };
    vec![
        (
            Procedure::NFSPROC3_NULL,
            accepted(&nfs3_types::xdr_codec::Void),
        ),
        (
            Procedure::NFSPROC3_GETATTR,
            accepted(&GETATTR3res::Ok(GETATTR3resok {
                obj_attributes: object(),
            })),
        ),
        (
            Procedure::NFSPROC3_SETATTR,
            accepted(&SETATTR3res::Ok(SETATTR3resok { obj_wcc: change() })),
        ),
        (
            Procedure::NFSPROC3_LOOKUP,
            accepted(&LOOKUP3res::Ok(LOOKUP3resok {
                object: handle(),
                obj_attributes: attributes(),
                dir_attributes: Nfs3Option::None,
            })),
        ),
        (
            Procedure::NFSPROC3_ACCESS,
            accepted(&ACCESS3res::Ok(ACCESS3resok {
                obj_attributes: attributes(),
                access: 31,
            })),
        ),
        (
            Procedure::NFSPROC3_READLINK,
            accepted(&READLINK3res::Ok(READLINK3resok {
                symlink_attributes: attributes(),
                data: b"../target"[..].into(),
            })),
        ),
        (
            Procedure::NFSPROC3_READ,
            accepted(&READ3res::Ok(READ3resok {
                file_attributes: attributes(),
                count: 7,
                eof: true,
                data: Opaque::borrowed(b"content"),
            })),
        ),
        (
            Procedure::NFSPROC3_WRITE,
            accepted(&WRITE3res::Ok(WRITE3resok {
                file_wcc: change(),
                count: 8192,
                committed: stable_how::UNSTABLE,
                verf,
            })),
        ),
        made(Procedure::NFSPROC3_CREATE),
        made(Procedure::NFSPROC3_MKDIR),
        made(Procedure::NFSPROC3_SYMLINK),
        (
            Procedure::NFSPROC3_REMOVE,
            accepted(&REMOVE3res::Ok(REMOVE3resok { dir_wcc: change() })),
        ),
        (
            Procedure::NFSPROC3_RMDIR,
            accepted(&RMDIR3res::Ok(RMDIR3resok { dir_wcc: change() })),
        ),
        (
            Procedure::NFSPROC3_RENAME,
            accepted(&RENAME3res::Ok(RENAME3resok {
                fromdir_wcc: change(),
                todir_wcc: change(),
            })),
        ),
        (
            Procedure::NFSPROC3_READDIR,
            accepted(&READDIR3res::Ok(READDIR3resok {
                dir_attributes: attributes(),
                cookieverf,
                reply: dirlist3 {
                    entries: List(entries.into()),
                    eof: true,
                },
            })),
        ),
        (
            Procedure::NFSPROC3_READDIRPLUS,
            accepted(&READDIRPLUS3res::Ok(READDIRPLUS3resok {
                dir_attributes: attributes(),
                cookieverf,
                reply: dirlistplus3 {
                    entries: List(plus.into()),
                    eof: true,
                },
            })),
        ),
        (
            Procedure::NFSPROC3_FSSTAT,
            accepted(&FSSTAT3res::Ok(FSSTAT3resok {
                obj_attributes: attributes(),
                tbytes: 100,
                fbytes: 60,
                abytes: 50,
                tfiles: 10,
                ffiles: 6,
                afiles: 5,
                invarsec: 0,
            })),
        ),
        (
            Procedure::NFSPROC3_FSINFO,
            accepted(&FSINFO3res::Ok(FSINFO3resok {
                obj_attributes: attributes(),
                rtmax: 1 << 20,
                rtpref: 1 << 20,
                rtmult: 512,
                wtmax: 1 << 19,
                wtpref: 1 << 19,
                wtmult: 512,
                dtpref: 8192,
                maxfilesize: 1 << 40,
                time_delta: nfstime3::default(),
                properties: 0x1b,
            })),
        ),
        (
            Procedure::NFSPROC3_COMMIT,
            accepted(&COMMIT3res::Ok(COMMIT3resok {
                file_wcc: change(),
                verf,
            })),
        ),
    ]
}
