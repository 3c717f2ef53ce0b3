//! What a framer calls.

/// Takes the events of a framer.
pub(super) trait EventSink {
    /// Takes more of the event's data; a call makes it an event, however few they are.
    fn data(&mut self, part: &[u8]);
    /// Begins the event's type, in place of one that it has.
    fn begin_kind(&mut self);
    /// Takes more of the event's type.
    fn kind(&mut self, part: &[u8]);
    /// Ends the event; without data there was none.
    fn end(&mut self);
}
