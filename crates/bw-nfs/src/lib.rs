//! The client's side of NFS version 3 over TCP, without sockets: ONC RPC record marking, AUTH_SYS, MOUNT, the
//! portmapper's lookup, and the calls and replies of NFS itself.
//!
//! Decision: the constants and all types of fixed size come from the crate `nfs3_types` (procedures, `fattr3`, `sattr3`,
//! `nfsstat3`, `FSSTAT3resok`, the RPC header that never changes). Its types with a file handle, a name or data are not
//! used, for two reasons. Its decoder allocates the length that the server states (`Opaque` and `Vec<u32>` make a buffer
//! of up to 4 GiB before they read), and it copies: a handle in a call is an owned `Vec`, so each call would allocate.
//! Here a reply borrows from the received bytes, and neither encoding nor decoding allocates.
//!
//! Sources: RFC 1813 (NFS version 3, MOUNT version 3), RFC 5531 (ONC RPC, record marking, AUTH_SYS), RFC 1833
//! (portmapper), RFC 4506 (XDR).

pub mod call;
pub mod mount;
pub mod record;
pub mod reply;
pub mod rpc;
pub mod status;
pub mod value;
mod xdr;

pub use nfs3_types::nfs3::NFS_PROGRAM as Procedure;
pub use xdr::Malformed;
