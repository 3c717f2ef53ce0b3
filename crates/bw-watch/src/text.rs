//! Tokenizers over the kernel's texts: lines, words, numbers. Pure; nothing allocates.

use memchr::memchr;
use std::collections::BTreeSet;

/// The lines of a text, see `lines`.
#[derive(Debug, Clone)]
pub struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let end = memchr(b'\n', self.0).unwrap_or(self.0.len());
        let line = &self.0[..end];
        self.0 = self.0.get(end + 1..).unwrap_or_default();
        Some(line)
    }
}

/// Returns the lines of a text, without newlines; a text that ends in a newline has no
/// empty last line.
pub fn lines(text: &[u8]) -> Lines<'_> {
    Lines(text)
}

/// The words of a line, see `words`.
#[derive(Debug, Clone)]
pub struct Words<'a>(&'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let begin = self.0.iter().position(|byte| !is_blank(*byte))?;
        let rest = &self.0[begin..];
        let length = rest.iter().position(|byte| is_blank(*byte));
        let (word, rest) = rest.split_at(length.unwrap_or(rest.len()));
        self.0 = rest;
        Some(word)
    }
}

/// Returns the words of a line, separated by blanks and tabs.
pub fn words(line: &[u8]) -> Words<'_> {
    Words(line)
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Returns a decimal number that consists only of digits, at most `i64::MAX`; None for anything else.
pub fn number(word: &[u8]) -> Option<i64> {
    if word.is_empty() || !word.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = word.iter().map(|byte| i64::from(byte - b'0'));
    // 18 digits cannot overflow.
    Some(if word.len() <= 18 {
        digits.fold(0, |sum, digit| sum * 10 + digit)
    } else {
        digits.fold(0, |sum: i64, digit| {
            sum.saturating_mul(10).saturating_add(digit)
        })
    })
}

/// Returns a decimal number that may have a sign.
pub fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some(digits) => number(digits).map(|value| -value),
        None => number(word),
    }
}

/// Returns a number that consists only of hexadecimal digits, as in /proc/net/softnet_stat.
pub(crate) fn hex(word: &[u8]) -> Option<i64> {
    if word.is_empty() || word.len() > 15 {
        return None;
    }
    word.iter().try_fold(0_i64, |sum, &byte| {
        let digit = char::from(byte).to_digit(16)?;
        Some(sum * 16 + i64::from(digit))
    })
}

/// Returns the first number of a file with one value, such as `memory.current`: `123\n`.
pub fn only(text: &[u8]) -> Option<i64> {
    signed(words(lines(text).next()?).next()?)
}

/// Returns the rest of the line if its first word is `key`, with or without a colon.
pub fn after<'a>(line: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(key)?;
    let rest = rest.strip_prefix(b":").unwrap_or(rest);
    match rest.first() {
        None | Some(b' ' | b'\t') => Some(rest),
        Some(_) => None,
    }
}

/// Returns the CPUs of the kernel's list such as `0-3,8`; None for an invalid list.
pub(crate) fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let number = |text: &str| -> Option<u32> {
        let is_number = matches!(text.len(), 1..=5) && text.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| text.parse().ok()).flatten()
    };
    let mut found = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        found.extend(number(first)?..=number(last)?);
    }
    Some(found.into_iter().collect())
}

/// Returns the inode of a link `socket:[123]`.
pub(crate) fn socket_inode(link: &str) -> Option<u64> {
    let digits = link.strip_prefix("socket:[")?.strip_suffix(']')?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_words_are_what_a_reader_sees() {
        let found: Vec<&[u8]> = lines(b"a b\n\nc\n").collect();
        assert_eq!(found, [b"a b" as &[u8], b"", b"c"]);
        assert_eq!(lines(b"").count(), 0);
        assert_eq!(words(b"  a\tb  ").count(), 2);
    }

    #[test]
    fn numbers_saturate_and_refuse_what_is_none() {
        assert_eq!(number(b"18446744073709551615"), Some(i64::MAX));
        assert_eq!(number(b"12x"), None);
        assert_eq!(number(b""), None);
        assert_eq!(signed(b"-1"), Some(-1));
        assert_eq!(hex(b"000000ff"), Some(255));
        assert_eq!(only(b"-12\n"), Some(-12));
    }

    #[test]
    fn a_key_is_a_whole_word() {
        assert_eq!(after(b"Dirty:  12 kB", b"Dirty"), Some(&b"  12 kB"[..]));
        assert_eq!(after(b"DirtyMore: 1", b"Dirty"), None);
    }
}
