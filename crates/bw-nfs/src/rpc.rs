//! ONC RPC: the head of a call, which is the same for all calls of a program, and the head of a reply.

use crate::record::Record;
use crate::xdr::{Malformed, Reader, put};
use nfs3_types::rpc::{
    RPC_VERSION_2, accept_stat_data, auth_stat, auth_unix, call_body, msg_body, msg_type,
    opaque_auth, rejected_reply, reply_stat, rpc_msg,
};
use nfs3_types::xdr_codec::Opaque;
use std::fmt;

/// Maximum length of the body of an authenticator (RFC 5531, section 8.2) [bytes].
const AUTHENTICATOR_MOST: usize = 400;
/// Where the procedure is, after the record's marker, xid, message type, RPC version, program and version.
const PROCEDURE_AT: usize = 4 * 6;
/// Bit of a record's marker: the fragment is the last one.
const LAST: u32 = 1 << 31;

/// Who calls: AUTH_SYS, which states user and group and proves neither.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The name of the client's host.
    pub machine: String,
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// Makes the calls of one version of a program: everything before the arguments is prepared.
#[derive(Clone, Debug)]
pub struct Caller {
    head: Vec<u8>,
}

impl Caller {
    /// Returns the caller of this version of a program.
    #[must_use]
    pub fn new(program: u32, version: u32, credentials: &Credentials) -> Self {
        let machine: Vec<u8> = credentials.machine.bytes().take(255).collect();
        let cred = opaque_auth::auth_unix(&auth_unix {
            stamp: 0,
            machinename: Opaque::owned(machine),
            uid: credentials.uid,
            gid: credentials.gid,
            gids: Vec::new(),
        });
        let body = msg_body::CALL(call_body {
            rpcvers: RPC_VERSION_2,
            prog: program,
            vers: version,
            proc: 0,
            cred,
            verf: opaque_auth::default(),
        });
        let mut head = vec![0; 4];
        put(&mut head, &rpc_msg { xid: 0, body });
        Self { head }
    }

    /// Appends a call to `out` as one record, with the arguments that `arguments` appends.
    ///
    /// # Panics
    /// The record is longer than 2 GiB.
    pub fn call(
        &self,
        out: &mut Vec<u8>,
        xid: u32,
        procedure: u32,
        arguments: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = out.len();
        out.extend_from_slice(&self.head);
        out[start + 4..][..4].copy_from_slice(&xid.to_be_bytes());
        out[start + PROCEDURE_AT..][..4].copy_from_slice(&procedure.to_be_bytes());
        arguments(out);
        let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
        assert!(length < LAST, "a record has less than 2 GiB");
        out[start..][..4].copy_from_slice(&(length | LAST).to_be_bytes());
    }

    /// Returns the length of a call without its arguments, with the record's marker [bytes].
    #[must_use]
    pub fn head_bytes(&self) -> usize {
        self.head.len()
    }
}

/// Why a server did not execute a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does not have the program.
    NoProgram,
    /// It has other versions of the program only.
    OtherVersions,
    /// It does not have the procedure.
    NoProcedure,
    /// It could not read the arguments.
    GarbageArguments,
    /// It failed, for example for lack of memory.
    SystemError,
    /// It does not speak version 2 of RPC.
    RpcMismatch,
    /// It refuses the credentials.
    Authentication(auth_stat),
}

impl Refusal {
    /// Returns the result of an operation that was refused: a negative errno of Linux.
    #[must_use]
    pub fn result(self) -> i32 {
        const EACCES: i32 = 13;
        const EPROTO: i32 = 71;
        const EPROTONOSUPPORT: i32 = 93;
        const EOPNOTSUPP: i32 = 95;
        const EREMOTEIO: i32 = 121;
        match self {
            Self::NoProgram | Self::OtherVersions => -EPROTONOSUPPORT,
            Self::NoProcedure => -EOPNOTSUPP,
            Self::GarbageArguments | Self::RpcMismatch => -EPROTO,
            Self::SystemError => -EREMOTEIO,
            Self::Authentication(_) => -EACCES,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProgram => write!(formatter, "the server does not have the program"),
            Self::OtherVersions => write!(
                formatter,
                "the server has other versions of the program only"
            ),
            Self::NoProcedure => write!(formatter, "the server does not have the procedure"),
            Self::GarbageArguments => write!(formatter, "the server could not read the arguments"),
            Self::SystemError => write!(formatter, "the server failed"),
            Self::RpcMismatch => write!(formatter, "the server does not speak version 2 of RPC"),
            Self::Authentication(why) => {
                write!(formatter, "the server refuses the credentials ({why})")
            }
        }
    }
}

/// The head of a reply.
#[derive(Clone, Copy, Debug)]
pub struct ReplyHead<'a> {
    /// The call that it answers.
    pub xid: u32,
    /// The results of the procedure, or why there are none.
    pub results: Result<Results<'a>, Refusal>,
}

/// The undecoded results of a procedure.
#[derive(Clone, Copy, Debug)]
pub struct Results<'a>(pub(crate) Reader<'a>);

/// Returns the xid of a record that is a reply; None if it is none.
#[must_use]
pub fn xid_of(record: &Record<'_>) -> Option<u32> {
    let mut reader = Reader::new(record.bytes, record.length);
    let xid = reader.u32("xid").ok()?;
    let kind = reader.u32("message type").ok()?;
    (kind == msg_type::REPLY as u32).then_some(xid)
}

/// Reads the head of a reply.
///
/// # Errors
/// The record is no reply.
pub fn read_reply<'a>(record: &Record<'a>) -> Result<ReplyHead<'a>, Malformed> {
    let mut reader = Reader::new(record.bytes, record.length);
    let xid = reader.u32("xid")?;
    if reader.u32("message type")? != msg_type::REPLY as u32 {
        return Err(Malformed("message of type REPLY"));
    }
    let results = match reader.fixed("reply status")? {
        reply_stat::MSG_ACCEPTED => {
            reader.u32("verifier's flavor")?;
            reader.opaque(AUTHENTICATOR_MOST, "verifier")?;
            match reader.fixed("accept status")? {
                accept_stat_data::SUCCESS => Ok(Results(reader)),
                accept_stat_data::PROG_UNAVAIL => Err(Refusal::NoProgram),
                accept_stat_data::PROG_MISMATCH { .. } => Err(Refusal::OtherVersions),
                accept_stat_data::PROC_UNAVAIL => Err(Refusal::NoProcedure),
                accept_stat_data::GARBAGE_ARGS => Err(Refusal::GarbageArguments),
                accept_stat_data::SYSTEM_ERR => Err(Refusal::SystemError),
            }
        }
        reply_stat::MSG_DENIED => Err(match reader.fixed("reject status")? {
            rejected_reply::RPC_MISMATCH { .. } => Refusal::RpcMismatch,
            rejected_reply::AUTH_ERROR(why) => Refusal::Authentication(why),
        }),
    };
    Ok(ReplyHead { xid, results })
}
