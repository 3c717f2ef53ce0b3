//! What the comma-separated formats have in common: words for kinds, headings.

use crate::fault::Fault;
use crate::text::Field;
use bw_model::Kind;

/// Returns the kind that a letter or word stands for, in any case: R, W, Read, Write.
pub(crate) fn kind(field: &Field<'_>) -> Result<Kind, Fault> {
    let is = |word: &[u8]| field.bytes.eq_ignore_ascii_case(word);
    if is(b"r") || is(b"read") {
        Ok(Kind::Read)
    } else if is(b"w") || is(b"write") {
        Ok(Kind::Write)
    } else {
        Err(field.fault("is neither a read nor a write"))
    }
}

/// Returns whether `line` is the heading whose first two names are given, in any case.
pub(crate) fn is_heading(line: &[u8], first: &str, second: &str) -> bool {
    let mut names = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let mut is = |name: &str| {
        names
            .next()
            .is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
    };
    is(first) && is(second)
}
