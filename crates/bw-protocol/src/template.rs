//! Bytes with places for values: `GET /users/${id}`, parsed once and filled for each operation.
//!
//! `${name}` is the value of that name of a [`Values`] table; `$${` is a literal `${`; any other `$` is literal too.
//! The braces of the factors of a search (`{factor}`) have no `$` before them, so a template and a spec can share a text.
//! A value that occurs more than once, in one template or in several of the same operation, is the same each time.
//!
//! Decision: literals are one run of bytes and the places between them, so that a template without places is one copy. A
//! [`Sink`] is what it is put into: the [`Outgoing`] of a connection, or a buffer that is cleared and filled again where a
//! protocol needs a length first. Rejected: filled texts that are made before the run (memory in proportion to its
//! length), and a template language with conditions (what varies more is a request of its own, with a weight).

use crate::{Outgoing, Values};
use std::ops::Range;

/// What bytes are put into.
pub trait Sink {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Sink for Outgoing {
    fn put(&mut self, bytes: &[u8]) {
        Outgoing::put(self, bytes);
    }
}

/// Bytes with places for values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    literals: Box<[u8]>,
    pieces: Box<[Piece]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// These bytes of the literals.
    Literal(Range<usize>),
    /// The value with this index.
    Value(usize),
}

impl Template {
    /// Returns the template of bytes without places.
    #[must_use]
    pub fn literal(bytes: &[u8]) -> Self {
        let pieces: &[Piece] = &[Piece::Literal(0..bytes.len())];
        Self {
            literals: bytes.into(),
            pieces: pieces[usize::from(bytes.is_empty())..].into(),
        }
    }

    /// Returns the template of a text; its places have values of this table.
    ///
    /// # Errors
    /// A place is not closed, or there is no value of its name; and what to do.
    pub fn parse(text: &str, values: &Values) -> Result<Self, String> {
        let mut literals = Vec::with_capacity(text.len());
        let mut pieces = Vec::new();
        let mut begin = 0;
        let mut rest = text;
        while let Some(place) = rest.find("${") {
            let (before, from) = rest.split_at(place);
            if let Some(kept) = before.strip_suffix('$') {
                literals.extend_from_slice(kept.as_bytes());
                literals.extend_from_slice(b"${");
                rest = &from[2..];
                continue;
            }
            literals.extend_from_slice(before.as_bytes());
            if begin < literals.len() {
                pieces.push(Piece::Literal(begin..literals.len()));
            }
            begin = literals.len();
            let (name, after) = from[2..].split_once('}').ok_or_else(|| {
                "a place for a value begins with ${ and has no }: close it, or write $${ for a literal ${".to_owned()
            })?;
            pieces.push(Piece::Value(values.index(name)?));
            rest = after;
        }
        literals.extend_from_slice(rest.as_bytes());
        if begin < literals.len() {
            pieces.push(Piece::Literal(begin..literals.len()));
        }
        Ok(Self {
            literals: literals.into(),
            pieces: pieces.into(),
        })
    }

    /// Puts the bytes with the values of the operation with this number. Allocates nothing unless the sink does.
    #[inline]
    pub fn fill(&self, values: &Values, number: u64, sink: &mut impl Sink) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(range) => sink.put(&self.literals[range.clone()]),
                Piece::Value(index) => values.put(*index, number, sink),
            }
        }
    }

    /// Returns the bytes if there are no places in it.
    #[must_use]
    pub fn as_literal(&self) -> Option<&[u8]> {
        match &*self.pieces {
            [] => Some(&[]),
            [Piece::Literal(range)] => Some(&self.literals[range.clone()]),
            _ => None,
        }
    }

    /// Returns the bytes with the values of operation 0, and with this text in the places of one of the values.
    #[must_use]
    pub fn text_with(&self, values: &Values, replaced: Option<(usize, &str)>) -> Vec<u8> {
        let mut text = Vec::new();
        for piece in &self.pieces {
            match (piece, replaced) {
                (Piece::Literal(range), _) => text.put(&self.literals[range.clone()]),
                (Piece::Value(index), Some((of, line))) if of == *index => {
                    text.put(line.as_bytes());
                }
                (Piece::Value(index), _) => values.put(*index, 0, &mut text),
            }
        }
        text
    }

    /// Returns the indexes of the values of its places, in order.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Literal(_) => None,
            Piece::Value(index) => Some(*index),
        })
    }

    /// Returns its greatest length with any values [bytes].
    #[must_use]
    pub fn most_bytes(&self, values: &Values) -> usize {
        let places = self.places().map(|index| values.most_bytes(index));
        self.literals.len() + places.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::ValueSpec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn values() -> Values {
        let specs = r#"{"n": {"type": "counter"}, "word": {"type": "line", "lines": ["", "b"],
            "location": {"type": "sequential"}}}"#;
        let specs: BTreeMap<String, ValueSpec> = serde_json::from_str(specs).unwrap();
        Values::new(&specs, 1).unwrap()
    }

    fn filled(text: &str, number: u64) -> String {
        let values = values();
        let template = Template::parse(text, &values).unwrap();
        let (mut one, mut other) = (Vec::new(), Outgoing::with_capacity(64));
        template.fill(&values, number, &mut one);
        template.fill(&values, number, &mut other);
        assert_eq!(one, other.next());
        assert!(one.len() <= template.most_bytes(&values));
        String::from_utf8(one).unwrap()
    }

    #[test]
    fn places_have_the_values_of_the_operation() {
        assert_eq!(filled("/${n}/x${word}${n}", 7), "/7/xb7");
        assert_eq!(filled("${n}${word}", 8), "8");
        assert_eq!(filled("", 8), "");
    }

    #[test]
    fn a_dollar_before_a_place_makes_it_literal() {
        assert_eq!(filled("$${n} $5 {n} $", 3), "${n} $5 {n} $");
        assert_eq!(filled("$${${n}}", 3), "${3}");
        assert_eq!(filled("$$${n}", 3), "$${n}");
    }

    #[test]
    fn a_place_that_is_not_closed_or_has_no_value_is_refused() {
        let error = |text| Template::parse(text, &values()).unwrap_err();
        assert!(error("a ${n").contains("no }"));
        let error = error("${m}");
        assert!(
            error.contains("\"m\"") && error.contains("n, word"),
            "{error}"
        );
    }

    #[test]
    fn a_template_without_places_is_its_bytes() {
        let values = values();
        for text in ["", "abc", "$${n}"] {
            let template = Template::parse(text, &values).unwrap();
            let bytes = text.replace("$${", "${");
            assert_eq!(template.as_literal(), Some(bytes.as_bytes()));
            assert_eq!(template, Template::literal(bytes.as_bytes()));
        }
        let template = Template::parse("${n}", &values).unwrap();
        assert_eq!(
            (template.as_literal(), template.places().count()),
            (None, 1)
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_escaped_text_is_unchanged(text in "[$a{}n]{0,12}", number in 0..1000_u64) {
            let values = values();
            if let Ok(template) = Template::parse(&text, &values) {
                let mut sink = Vec::new();
                template.fill(&values, number, &mut sink);
            }
            // Of a text whose dollars are all literal.
            let literal = text.replace('$', "S").replace('{', "${");
            prop_assert_eq!(filled(&literal.replace("${", "$${"), number), literal);
        }
    }
}
