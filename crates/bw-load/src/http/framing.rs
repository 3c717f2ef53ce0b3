//! How a response's body ends, and whether the connection outlives it: read from the header fields.
//! Source: RFC 9112, sections 6.3 and 9.3.

use super::chunked::Chunked;

/// How the body ends.
#[derive(Clone, Copy, Debug)]
pub enum Framing {
    /// After so many bytes.
    Length(u64),
    /// With the last chunk.
    Chunked(Chunked),
    /// With the connection.
    Close,
}

impl Framing {
    /// Returns how the body of a message with these fields ends; None where nobody can tell.
    pub fn of(fields: &[httparse::Header<'_>]) -> Option<Self> {
        if has(fields, "transfer-encoding") {
            return Self::of_codings(fields);
        }
        if has(fields, "content-length") {
            return length(fields).map(Self::Length);
        }
        Some(Self::Close)
    }

    /// As `of`, by the transfer codings: `chunked` ends the body where it comes last, and once.
    fn of_codings(fields: &[httparse::Header<'_>]) -> Option<Self> {
        let mut times = 0;
        let mut last = false;
        for coding in list(fields, "transfer-encoding") {
            last = coding.eq_ignore_ascii_case(b"chunked");
            times += u32::from(last);
        }
        match (last, times) {
            (true, 1) => Some(Self::Chunked(Chunked::new())),
            (false, 0) => Some(Self::Close),
            _ => None,
        }
    }
}

/// Returns whether two fields say differently how the body ends: then nothing after it can be trusted.
pub fn is_doubtful(fields: &[httparse::Header<'_>]) -> bool {
    has(fields, "content-length") && has(fields, "transfer-encoding")
}

/// Returns the one length that all Content-Length fields agree on.
fn length(fields: &[httparse::Header<'_>]) -> Option<u64> {
    let mut agreed = None;
    for value in list(fields, "content-length") {
        let length = decimal(value)?;
        if agreed.is_some_and(|agreed| agreed != length) {
            return None;
        }
        agreed = Some(length);
    }
    agreed
}

/// Returns the number that digits alone make up; None for anything else.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, &digit| {
        if !digit.is_ascii_digit() {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

/// Returns whether the connection outlives this message (RFC 9112, section 9.3).
pub fn is_persistent(version_1_1: bool, fields: &[httparse::Header<'_>]) -> bool {
    let says =
        |word: &[u8]| list(fields, "connection").any(|option| option.eq_ignore_ascii_case(word));
    !says(b"close") && (version_1_1 || says(b"keep-alive"))
}

/// Returns the elements of a field that is a list, over all its lines.
fn list<'a>(
    fields: &'a [httparse::Header<'_>],
    name: &'static str,
) -> impl Iterator<Item = &'a [u8]> {
    values(fields, name)
        .flat_map(|value| value.split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
}

fn has(fields: &[httparse::Header<'_>], name: &'static str) -> bool {
    values(fields, name).next().is_some()
}

fn values<'a>(
    fields: &'a [httparse::Header<'_>],
    name: &'static str,
) -> impl Iterator<Item = &'a [u8]> {
    fields
        .iter()
        .filter(move |field| field.name.eq_ignore_ascii_case(name))
        .map(|field| field.value)
}
