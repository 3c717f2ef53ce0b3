//! What is said over a connection: the trait of a protocol, which sees bytes and no sockets.

use bw_model::Operation;

/// How far an exchange has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeState {
    /// There is more to come.
    More,
    /// It has ended.
    Ended {
        /// Bytes received, or a negative errno (or what the protocol adds to those).
        result: i32,
        /// Whether the connection may carry another one.
        reusable: bool,
    },
}

/// What is said over a connection. Pure: it sees bytes, no sockets.
pub trait Protocol {
    /// The state of the exchange on one connection, with its buffers.
    type Exchange;

    /// Returns the state for one more connection.
    fn exchange(&self) -> Self::Exchange;

    /// Makes `exchange` ready for `operation`.
    ///
    /// # Errors
    /// The result (a negative errno) of an operation that this protocol cannot carry out.
    fn begin(&self, exchange: &mut Self::Exchange, operation: &Operation) -> Result<(), i32>;

    /// Returns bytes to send after the first `sent`; empty only when all are sent.
    fn outgoing<'a>(&'a self, exchange: &'a Self::Exchange, sent: u64) -> &'a [u8];

    /// Notes that everything was sent.
    fn sent(&self, exchange: &mut Self::Exchange) -> ExchangeState;

    /// Reads what came; never empty.
    fn receive(&self, exchange: &mut Self::Exchange, bytes: &[u8]) -> ExchangeState;

    /// Returns the result of an exchange that the server ended by closing the connection.
    fn closed(&self, exchange: &mut Self::Exchange) -> i32;
}
