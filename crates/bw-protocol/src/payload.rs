//! What operations send as one datagram or message, and what an answer begins with: bytes with places for values.
//!
//! Digits of a template are decoded after its values were put, so a text of four random digits is two random bytes.
//! Rejected: binary values, a second kind of each value.

use crate::{Template, Values};

/// What an operation sends.
#[derive(Clone, Debug)]
pub struct Payload {
    template: Template,
    form: Form,
}

/// What a filled template is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A text.
    Text,
    /// Bytes.
    Bytes,
    /// Hexadecimal digits of bytes.
    Digits,
}

impl Payload {
    /// Returns the payload of bytes without places, at most `most` of them.
    ///
    /// # Errors
    /// Its length is impossible.
    pub fn bytes(bytes: &[u8], most: usize) -> Result<Self, String> {
        Self::checked(Template::literal(bytes), Form::Bytes, bytes.len(), most)
    }

    /// Returns the payload of a text with places for these values, at most `most` bytes long.
    ///
    /// # Errors
    /// As [`Template::parse`]; its length is impossible.
    pub fn text(text: &str, values: &Values, most: usize) -> Result<Self, String> {
        let template = Template::parse(text, values)?;
        let length = template.most_bytes(values);
        Self::checked(template, Form::Text, length, most)
    }

    /// Returns the payload of hexadecimal digits with places for these values, at most `most` bytes; blanks between digits
    /// have no meaning.
    ///
    /// # Errors
    /// As [`Template::parse`]; a digit is none, their number is odd, or a value does not always have as many; its length is
    /// impossible.
    pub fn hex(digits: &str, values: &Values, most: usize) -> Result<Self, String> {
        let digits: String = digits.split_ascii_whitespace().collect();
        let template = Template::parse(&digits, values)?;
        for index in template.places() {
            if values.hex_digits(index).is_none() {
                let name = values.name(index);
                return Err(format!(
                    "the value {name:?} is not always the same number of hexadecimal digits: give its digits, or its characters"
                ));
            }
        }
        let mut bytes = template.text_with(values, None);
        decode(&mut bytes).ok_or_else(|| {
            format!("{digits:?} is no even number of hexadecimal digits: write two for each byte")
        })?;
        let length = bytes.len();
        match template.as_literal() {
            Some(_) => Self::checked(Template::literal(&bytes), Form::Bytes, length, most),
            None => Self::checked(template, Form::Digits, length, most),
        }
    }

    fn checked(template: Template, form: Form, length: usize, most: usize) -> Result<Self, String> {
        if length == 0 {
            return Err("it is empty: give at least one byte".to_owned());
        }
        if length > most {
            return Err(format!("it has up to {length} bytes: at most {most} fit"));
        }
        Ok(Self { template, form })
    }

    /// Sets `filled` to the bytes with the values of the operation with this number; None: they are no digits.
    pub(crate) fn fill(&self, values: &Values, number: u64, filled: &mut Vec<u8>) -> Option<()> {
        filled.clear();
        self.template.fill(values, number, filled);
        match self.form {
            Form::Digits => decode(filled),
            Form::Text | Form::Bytes => Some(()),
        }
    }

    /// Returns whether it is a text.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.form == Form::Text
    }

    /// Returns the greatest length of its template with any values [bytes].
    pub(crate) fn most_bytes(&self, values: &Values) -> usize {
        self.template.most_bytes(values)
    }
}

/// Replaces hexadecimal digits by the bytes that they mean; None: one is no digit, or their number is odd.
pub(crate) fn decode(digits: &mut Vec<u8>) -> Option<()> {
    if digits.len() % 2 == 1 {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16);
    for place in 0..digits.len() / 2 {
        let [high, low] = [digits[2 * place], digits[2 * place + 1]].map(value);
        // Below 256.
        digits[place] = (high? << 4 | low?) as u8;
    }
    digits.truncate(digits.len() / 2);
    Some(())
}

/// What an answer begins with; some of its bytes can be any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefix(Box<[Option<u8>]>);

impl Prefix {
    /// Returns the prefix of hexadecimal digits, in which `??` is any byte; blanks have no meaning.
    ///
    /// # Errors
    /// It is no such text.
    pub fn parse(digits: &str) -> Result<Self, String> {
        let text: Vec<u8> = digits
            .bytes()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect();
        let byte = |pair: &[u8]| {
            if pair == b"??" {
                return Some(None);
            }
            let mut pair = pair.to_vec();
            decode(&mut pair).map(|()| Some(pair[0]))
        };
        let bytes: Option<Box<[_]>> = text.chunks(2).map(byte).collect();
        bytes.map(Self).ok_or_else(|| {
            format!("{digits:?} is not hexadecimal: write two digits for each byte, or ?? for any")
        })
    }

    /// Returns how many bytes it has.
    pub(crate) fn length(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn fits(&self, bytes: &[u8]) -> bool {
        let equal = |(expected, byte): (&Option<u8>, &u8)| expected.is_none_or(|one| one == *byte);
        bytes.len() >= self.0.len() && self.0.iter().zip(bytes).all(equal)
    }
}
