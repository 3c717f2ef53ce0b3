//! Our own format: docs/trace-format.md.

use crate::entry::{Devices, Entry};
use crate::fault::Fault;
use crate::source::Source;
use crate::text::Bytes;

/// What a file of ours starts with.
pub(crate) const MAGIC: &[u8] = b"bwtrace\n";

/// The operations of one file.
pub(crate) struct Own {
    _stream: Bytes,
}

impl Own {
    /// Returns the operations of `stream`.
    pub fn new(stream: Bytes) -> Self {
        Self { _stream: stream }
    }
}

impl Source<Entry> for Own {
    fn next(&mut self, _: &mut Devices) -> Result<Option<Entry>, Fault> {
        Err(Fault::byte(0, "our own format cannot be read yet").fatal("give another format"))
    }
}
