//! File handles, verifiers and attributes.

use nfs3_types::nfs3::{NFS3_FHSIZE, fattr3, ftype3};
use std::fmt;

/// A file handle: up to 64 bytes that only the server understands. It is `Copy`, so a table of them needs no heap.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    bytes: [u8; NFS3_FHSIZE],
    length: u8,
}

impl Handle {
    /// Maximum length [bytes].
    pub const MOST: usize = NFS3_FHSIZE;

    /// Returns the handle with these bytes; None if there are more than 64.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut handle = Self {
            bytes: [0; NFS3_FHSIZE],
            length: u8::try_from(bytes.len()).ok()?,
        };
        handle.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(handle)
    }

    /// Returns the handle that these hexadecimal digits describe; None if they describe none.
    #[must_use]
    pub fn from_hex(digits: &str) -> Option<Self> {
        if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
            return None;
        }
        let byte = |place| u8::from_str_radix(&digits[place..place + 2], 16).ok();
        let hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        bytes
            .filter(|_| hexadecimal)
            .and_then(|bytes| Self::new(&bytes))
    }

    /// Returns its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes()
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// What a WRITE or COMMIT returns to tell one life of the server from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteVerifier(pub [u8; 8]);

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, a socket or a FIFO.
    Other,
}

/// The attributes of an object that this program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// What it is.
    pub object_type: ObjectType,
    /// The permission bits.
    pub mode: u32,
    /// The number of its names.
    pub hard_links: u32,
    /// Its size [bytes].
    pub size_bytes: u64,
    /// Its number in the file system.
    pub number: u64,
}

impl From<&fattr3> for Attributes {
    fn from(attributes: &fattr3) -> Self {
        Self {
            object_type: match attributes.type_ {
                ftype3::NF3REG => ObjectType::File,
                ftype3::NF3DIR => ObjectType::Directory,
                ftype3::NF3LNK => ObjectType::Symlink,
                _ => ObjectType::Other,
            },
            mode: attributes.mode,
            hard_links: attributes.nlink,
            size_bytes: attributes.size,
            number: attributes.fileid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_describe_a_handle_or_none() {
        let handle = Handle::from_hex("00fF10").unwrap();
        assert_eq!(handle.bytes(), [0x00, 0xff, 0x10]);
        assert_eq!(format!("{handle:?}"), "00ff10");
        for wrong in ["0", "+1", "zz", "\u{e9}", &"00".repeat(65)] {
            assert_eq!(Handle::from_hex(wrong), None, "{wrong}");
        }
        assert_eq!(
            Handle::from_hex(&"ab".repeat(64)).unwrap().bytes().len(),
            64
        );
    }
}
