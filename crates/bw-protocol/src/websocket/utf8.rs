//! Whether a text that arrives in pieces is UTF-8.

/// The check between two pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Utf8 {
    /// The beginning of a character that is not whole.
    begun: [u8; 4],
    length: usize,
}

impl Utf8 {
    /// Reads a piece; returns whether the text can still be UTF-8.
    pub(super) fn read(&mut self, mut piece: &[u8]) -> bool {
        while self.length > 0 {
            let Some((&byte, rest)) = piece.split_first() else {
                return true;
            };
            self.begun[self.length] = byte;
            self.length += 1;
            piece = rest;
            match std::str::from_utf8(&self.begun[..self.length]) {
                Ok(_) => self.length = 0,
                Err(error) if error.error_len().is_some() => return false,
                Err(_) => {}
            }
        }
        let Err(error) = std::str::from_utf8(piece) else {
            return true;
        };
        let rest = &piece[error.valid_up_to()..];
        if error.error_len().is_none() {
            // At most three bytes: a fourth would make the character whole.
            self.begun[..rest.len()].copy_from_slice(rest);
            self.length = rest.len();
        }
        error.error_len().is_none()
    }

    /// Returns whether no character has begun that is not whole.
    pub(super) fn is_whole(&self) -> bool {
        self.length == 0
    }
}
