//! MOUNT version 3 and the portmapper's GETPORT: how a client finds the handle of an export.

use crate::rpc::{Caller, Results};
use crate::value::Handle;
use crate::xdr::{Malformed, put, put_opaque, put_u32};
use nfs3_types::mount::{FHSIZE3, MNTNAMLEN, MOUNT_PROGRAM, mountstat3};
use nfs3_types::portmap::{IPPROTO_TCP, PMAP_PROG, mapping};

pub use nfs3_types::mount::{
    MNTPATHLEN as PATH_MOST, PROGRAM as MOUNT_NUMBER, VERSION as MOUNT_VERSION,
};
pub use nfs3_types::portmap::{PMAP_PORT, PROGRAM as PORTMAP_NUMBER, VERSION as PORTMAP_VERSION};

/// Appends a call for the port at which this version of a program listens on TCP.
pub fn call_getport(caller: &Caller, out: &mut Vec<u8>, xid: u32, (program, version): (u32, u32)) {
    let wanted = mapping {
        prog: program,
        vers: version,
        prot: IPPROTO_TCP,
        port: 0,
    };
    caller.call(out, xid, PMAP_PROG::PMAPPROC_GETPORT as u32, |out| {
        put(out, &wanted)
    });
}

/// Returns the port; None if the program is not registered.
///
/// # Errors
/// The results are no port.
pub fn read_getport(mut results: Results<'_>) -> Result<Option<u16>, Malformed> {
    let port = results.0.u32("port")?;
    let port = u16::try_from(port).map_err(|_| Malformed("port below 65536"))?;
    Ok((port != 0).then_some(port))
}

/// Versions of the portmapper that know addresses of IPv6, the newest first (RFC 1833).
pub const RPCBIND_VERSIONS: [u32; 2] = [4, 3];
/// RPCBPROC_GETADDR.
const GETADDR: u32 = 3;
/// Maximum length of a universal address [bytes]: more than IPv6 with a zone needs.
const ADDRESS_MOST: usize = 128;

/// Appends a call, of one of [`RPCBIND_VERSIONS`], for the address at which this version of a program listens on TCP over
/// IPv6.
pub fn call_getaddr(caller: &Caller, out: &mut Vec<u8>, xid: u32, (program, version): (u32, u32)) {
    caller.call(out, xid, GETADDR, |out| {
        put_u32(out, program);
        put_u32(out, version);
        // The address and the owner are those of the server.
        for text in ["tcp6", "", ""] {
            put_opaque(out, text.as_bytes());
        }
    });
}

/// Returns the port of a universal address, `ADDRESS.HIGH.LOW` (RFC 5665, section 5.2.3); None if the program is not
/// registered.
///
/// # Errors
/// The results are no universal address.
pub fn read_getaddr(mut results: Results<'_>) -> Result<Option<u16>, Malformed> {
    let address = results.0.opaque(ADDRESS_MOST, "universal address")?;
    if address.is_empty() {
        return Ok(None);
    }
    let mut numbers = address.rsplit(|byte| *byte == b'.').map(|digits| {
        let digits = std::str::from_utf8(digits).ok()?;
        digits.parse::<u8>().ok()
    });
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(low), Some(high)) => Ok(Some(u16::from_be_bytes([high, low]))),
        _ => Err(Malformed("universal address")),
    }
}

/// Appends a call for the handle of an export.
pub fn call_mount(caller: &Caller, out: &mut Vec<u8>, xid: u32, export: &[u8]) {
    let procedure = MOUNT_PROGRAM::MOUNTPROC3_MNT as u32;
    caller.call(out, xid, procedure, |out| put_opaque(out, export));
}

/// Appends a call for the list of exports.
pub fn call_exports(caller: &Caller, out: &mut Vec<u8>, xid: u32) {
    caller.call(out, xid, MOUNT_PROGRAM::MOUNTPROC3_EXPORT as u32, |_| ());
}

/// Reads the list of exports: calls `take` with the path of each, without who may mount it.
///
/// # Errors
/// The results are no list of exports.
pub fn read_exports(
    mut results: Results<'_>,
    mut take: impl FnMut(&[u8]),
) -> Result<(), Malformed> {
    let reader = &mut results.0;
    while reader.bool("whether an export follows")? {
        take(reader.opaque(PATH_MOST, "path of an export")?);
        while reader.bool("whether a group follows")? {
            reader.opaque(MNTNAMLEN, "name of a group")?;
        }
    }
    Ok(())
}

/// Returns the handle of the export, or why the server refuses it. The list of authentication flavors is not read.
///
/// # Errors
/// The results are none of MNT.
pub fn read_mount(mut results: Results<'_>) -> Result<Result<Handle, mountstat3>, Malformed> {
    match results.0.fixed("mount status")? {
        mountstat3::MNT3_OK => {
            let bytes = results.0.opaque(FHSIZE3, "file handle")?;
            let handle = Handle::new(bytes).ok_or(Malformed("file handle"))?;
            Ok(Ok(handle))
        }
        refused => Ok(Err(refused)),
    }
}
