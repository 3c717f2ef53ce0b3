//! A connection of any protocol, without a socket.

use bw_model::{Kind, Operation};
use bw_protocol::{End, Outgoing, Protocol, SessionState};

/// A protocol with one session of it, and what it wants to write.
pub(crate) struct Connection<P: Protocol> {
    pub(crate) protocol: P,
    pub(crate) session: P::Session,
    pub(crate) out: Outgoing,
    pub(crate) ends: Vec<End>,
}

impl<P: Protocol> Connection<P> {
    /// Returns a connection that has just been established, and its state.
    pub(crate) fn open(protocol: P) -> (Self, SessionState) {
        let mut connection = Self {
            session: protocol.session(),
            protocol,
            out: Outgoing::default(),
            ends: Vec::new(),
        };
        let opened = connection
            .protocol
            .open(&mut connection.session, &mut connection.out);
        (connection, opened)
    }

    /// Begins an operation with this offset.
    pub(crate) fn begin(&mut self, slot: u32, offset: u64) -> Result<(), i32> {
        let operation = Operation::new(Kind::Exchange, offset, 0);
        self.protocol
            .begin(&mut self.session, slot, &operation, &mut self.out)
    }

    /// Returns how many more operations can begin.
    pub(crate) fn room(&self) -> u32 {
        self.protocol.room(&self.session)
    }

    /// Writes everything; returns it.
    pub(crate) fn write(&mut self) -> Vec<u8> {
        let mut written = Vec::new();
        while !self.out.is_empty() {
            let length = self.out.next().len();
            written.extend_from_slice(self.out.next());
            self.out.written(length);
            if self.out.is_empty() {
                self.protocol.more(&mut self.session, &mut self.out);
            }
        }
        let state = self.protocol.sent(&mut self.session, &mut self.ends);
        assert!(!matches!(state, SessionState::Failed(_)), "{state:?}");
        written
    }

    pub(crate) fn receive(&mut self, bytes: impl AsRef<[u8]>) -> SessionState {
        let bytes = bytes.as_ref();
        self.protocol
            .receive(&mut self.session, bytes, &mut self.out, &mut self.ends)
    }

    pub(crate) fn close(&mut self) {
        self.protocol.closed(&mut self.session, &mut self.ends);
    }

    /// Returns the slots and results of the operations that have ended.
    pub(crate) fn results(&self) -> Vec<(u32, i32)> {
        let result = |end: &End| (end.slot, i32::try_from(end.result).unwrap());
        self.ends.iter().map(result).collect()
    }
}
