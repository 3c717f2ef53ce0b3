//! What a user expects of a response, and the search for a text in a body that arrives in pieces.
//!
//! Decision: a body is never stored, so the text is found by the algorithm of Knuth, Morris and Pratt: the state between
//! two pieces is one number. Source: D. E. Knuth, J. H. Morris, V. R. Pratt, Fast pattern matching in strings, SIAM
//! Journal on Computing 6 (1977). Rejected: memmem, which needs a whole body or copies of its pieces' ends.

use bw_record::errno::{CHECK_FAILED, HTTP_STATUS};
use memchr::memchr;
use std::cell::Cell;

/// Maximum length of a text that is searched for [bytes].
pub const TEXT_BYTES: usize = 64 * 1024;

/// The lowest status that is an error, unless it is expected.
pub const FIRST_ERROR: u16 = 400;

/// Complete responses by the first digit of their status, 2 to 5.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatusClasses(Cell<[u64; 4]>);

impl StatusClasses {
    /// Counts a response; one with another status counts nowhere.
    pub(crate) fn count(&self, status: u16) {
        let mut counts = self.0.get();
        if let Some(count) = counts.get_mut(usize::from(status / 100).wrapping_sub(2)) {
            *count += 1;
        }
        self.0.set(counts);
    }

    /// Returns the counts of 2xx, 3xx, 4xx and 5xx.
    pub(crate) fn counts(&self) -> [u64; 4] {
        self.0.get()
    }
}

/// What is expected of a response.
#[derive(Clone, Debug, Default)]
pub struct Check {
    /// The status; None: any below 400.
    pub status: Option<u16>,
    /// A text in the body.
    pub contains: Option<Needle>,
    /// The least length of the body [bytes].
    pub min_bytes: u64,
    /// An error status that is none, because the recorded response had it.
    pub recorded: Option<u16>,
}

/// A text that is searched for in a body.
#[derive(Clone, Debug)]
pub struct Needle {
    text: Box<[u8]>,
    /// The length of the longest proper prefix of each prefix of the text that is also its suffix.
    borders: Box<[u32]>,
}

/// How much of a needle the bytes so far end with; its whole length once it was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matched(u32);

impl Needle {
    /// Returns the search for this text; None if it is longer than [`TEXT_BYTES`].
    #[must_use]
    pub fn new(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_BYTES {
            return None;
        }
        let mut borders = vec![0_u32; text.len()];
        let mut border = 0_usize;
        for place in 1..text.len() {
            while border > 0 && text[place] != text[border] {
                border = borders[border - 1] as usize;
            }
            border += usize::from(text[place] == text[border]);
            borders[place] = border as u32;
        }
        Some(Self {
            text: text.into(),
            borders: borders.into(),
        })
    }

    /// Continues the search with the next piece of the body.
    pub fn read(&self, matched: &mut Matched, mut piece: &[u8]) {
        let mut length = matched.0 as usize;
        while length < self.text.len() {
            if length == 0 {
                let Some(place) = memchr(self.text[0], piece) else {
                    break;
                };
                (length, piece) = (1, &piece[place + 1..]);
                continue;
            }
            let Some((&byte, rest)) = piece.split_first() else {
                break;
            };
            while length > 0 && byte != self.text[length] {
                length = self.borders[length - 1] as usize;
            }
            length += usize::from(byte == self.text[length]);
            piece = rest;
        }
        // At most TEXT_BYTES.
        matched.0 = length as u32;
    }

    /// Returns whether the text was found.
    #[must_use]
    pub fn is_found(&self, matched: Matched) -> bool {
        matched.0 as usize == self.text.len()
    }
}

impl Check {
    /// Reads the next piece of a response's body, without its codings and frames.
    #[inline]
    pub fn read(&self, matched: &mut Matched, piece: &[u8]) {
        if let Some(needle) = &self.contains {
            needle.read(matched, piece);
        }
    }

    /// Returns whether an error status is the expected or the recorded one.
    #[must_use]
    pub fn accepts_error(&self, status: u16) -> bool {
        self.status == Some(status) || self.recorded == Some(status)
    }

    /// Returns the result of a complete response: the length of its body [bytes], or an error.
    #[must_use]
    pub fn result(&self, status: u16, body_bytes: u64, matched: Matched) -> i64 {
        if status >= FIRST_ERROR && !self.accepts_error(status) {
            return -i64::from(HTTP_STATUS + i32::from(status));
        }
        let passes = self.status.is_none_or(|expected| expected == status)
            && body_bytes >= self.min_bytes
            && (self.contains.as_ref()).is_none_or(|needle| needle.is_found(matched));
        if !passes {
            return CHECK_FAILED.into();
        }
        i64::try_from(body_bytes).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_counted_by_their_first_digit() {
        let classes = StatusClasses::default();
        for status in [200, 204, 302, 404, 503, 599, 199, 600, 999, 0] {
            classes.count(status);
        }
        assert_eq!(classes.counts(), [2, 1, 1, 2]);
    }
    use proptest::prelude::*;

    fn found(needle: &str, pieces: &[&[u8]]) -> bool {
        let needle = Needle::new(needle.as_bytes()).unwrap();
        let mut matched = Matched::default();
        for piece in pieces {
            needle.read(&mut matched, piece);
        }
        needle.is_found(matched)
    }

    #[test]
    fn a_text_is_found_across_pieces() {
        assert!(found("hello", &[b"he", b"", b"l", b"lo world"]));
        assert!(found("aab", &[b"aa", b"ab"]));
        assert!(found("", &[]));
        assert!(found("hello", &[b"hell", b"ohell"]));
        assert!(!found("hello", &[b"hell", b"hell"]));
        assert!(Needle::new(&vec![0; TEXT_BYTES + 1]).is_none());
    }

    #[test]
    fn each_condition_can_fail() {
        let needle = Needle::new(b"x").unwrap();
        let mut seen = Matched::default();
        needle.read(&mut seen, b"x");
        let check = Check {
            status: Some(201),
            contains: Some(needle),
            min_bytes: 3,
            recorded: None,
        };
        assert_eq!(check.result(201, 3, seen), 3);
        assert_eq!(check.result(200, 3, seen), i64::from(CHECK_FAILED));
        assert_eq!(check.result(201, 2, seen), i64::from(CHECK_FAILED));
        assert_eq!(
            check.result(201, 3, Matched::default()),
            i64::from(CHECK_FAILED)
        );
        assert_eq!(Check::default().result(302, 0, Matched::default()), 0);
        assert_eq!(check.result(404, 3, seen), i64::from(-(HTTP_STATUS + 404)));
        let expected = Check {
            status: Some(404),
            ..Check::default()
        };
        assert_eq!(expected.result(404, 3, seen), 3);
        let recorded = Check {
            recorded: Some(404),
            ..Check::default()
        };
        assert_eq!(recorded.result(404, 3, seen), 3);
        assert_eq!(recorded.result(200, 3, seen), 3);
        assert_eq!(
            recorded.result(500, 3, seen),
            i64::from(-(HTTP_STATUS + 500))
        );
    }

    proptest! {
        #[test]
        fn the_search_agrees_with_that_in_the_whole(
            needle in "[ab]{0,6}", body in "[ab]{0,40}", cuts in prop::collection::vec(0..41_usize, 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(body.len())).collect();
            cuts.sort_unstable();
            cuts.push(body.len());
            let mut from = 0;
            let mut pieces = Vec::new();
            for to in cuts {
                pieces.push(&body.as_bytes()[from..to]);
                from = to;
            }
            prop_assert_eq!(found(&needle, &pieces), body.contains(&needle));
        }
    }
}
