//! Statuses of replies as results of operations: a negative errno of Linux, or a code that only NFS has.

use nfs3_types::nfs3::nfsstat3;
use nfs3_types::xdr_codec::Unpack;
use std::fmt;

/// The status of a reply: 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

/// The first of the codes that no errno expresses, NFS3ERR_BADHANDLE; the last is NFS3ERR_JUKEBOX.
pub const FIRST_OWN: u32 = nfsstat3::NFS3ERR_BADHANDLE as u32;

impl Status {
    /// Success.
    pub const OK: Self = Self(nfsstat3::NFS3_OK as u32);
    /// The server is busy with something slow, and the client should send the call again later.
    pub const JUKEBOX: Self = Self(nfsstat3::NFS3ERR_JUKEBOX as u32);

    /// Returns the result of an operation with this status: a negative errno, or `-10001` (NFS3ERR_BADHANDLE) to
    /// `-10008` (NFS3ERR_JUKEBOX), the negated codes of NFS that no errno expresses. A status that RFC 1813 does not
    /// contain is `-EREMOTEIO`.
    #[must_use]
    pub fn result(self) -> i32 {
        const ENAMETOOLONG: i32 = 36;
        const ENOTEMPTY: i32 = 39;
        const EREMOTE: i32 = 66;
        const ESTALE: i32 = 116;
        const EREMOTEIO: i32 = 121;
        const EDQUOT: i32 = 122;
        let Some(known) = self.known() else {
            return -EREMOTEIO;
        };
        match known {
            nfsstat3::NFS3ERR_NAMETOOLONG => -ENAMETOOLONG,
            nfsstat3::NFS3ERR_NOTEMPTY => -ENOTEMPTY,
            nfsstat3::NFS3ERR_DQUOT => -EDQUOT,
            nfsstat3::NFS3ERR_STALE => -ESTALE,
            nfsstat3::NFS3ERR_REMOTE => -EREMOTE,
            // The others below 31 have the numbers of Linux (NFS took them from BSD).
            same => -(same as i32),
        }
    }

    fn known(self) -> Option<nfsstat3> {
        let bytes = self.0.to_be_bytes();
        let known = nfsstat3::unpack(&mut &bytes[..]);
        known.ok().map(|(status, _)| status)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known() {
            Some(status) => status.fmt(formatter),
            None => write!(formatter, "NFS status {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_the_errno_of_linux_or_their_own_number() {
        let cases = [(0, 0), (2, -2), (13, -13), (28, -28), (31, -31)];
        let renumbered = [(63, -36), (66, -39), (69, -122), (70, -116), (71, -66)];
        let own = [(FIRST_OWN, -10_001), (10_004, -10_004), (10_008, -10_008)];
        for (status, result) in cases.into_iter().chain(renumbered).chain(own) {
            assert_eq!(Status(status).result(), result, "{}", Status(status));
        }
        assert_eq!(Status(3).result(), -121);
        assert_eq!(Status(10_025).to_string(), "NFS status 10025");
        assert_eq!(Status::JUKEBOX.to_string(), "NFS3ERR_JUKEBOX");
    }
}
