//! Where the fields of a record are: the kernel's description, as `events/block/block_rq_issue/format` has it.
//!
//! Decision: read from the running kernel, because the fields and their places change between versions.
//! Source: Linux Documentation/trace/events.rst.

use std::collections::HashMap;

/// The place of a field in a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Field {
    /// Where it begins [bytes].
    pub offset: usize,
    size: usize,
}

impl Field {
    /// Returns the bytes of the field; None if the record is too short.
    pub(crate) fn bytes<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        record.get(self.offset..)?.get(..self.size)
    }

    /// Returns the field as a number without a sign; None if it is longer than eight bytes.
    pub(crate) fn number(&self, record: &[u8]) -> Option<u64> {
        let bytes = self.bytes(record)?;
        Some(match bytes.len() {
            2 => u16::from_ne_bytes(bytes.try_into().ok()?).into(),
            4 => u32::from_ne_bytes(bytes.try_into().ok()?).into(),
            8 => u64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }
}

/// The fields of an event, or of the head of a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Format {
    /// The number of the event, which its records begin with; None in a description without one.
    pub id: Option<u64>,
    fields: HashMap<String, Field>,
}

impl Format {
    /// Parses a description; lines of other forms are passed over.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Self {
        let mut format = Self::default();
        for line in text.lines() {
            if let Some(id) = line.strip_prefix("ID: ") {
                format.id = id.trim().parse().ok();
            } else if let Some((name, field)) = field(line) {
                format.fields.insert(name.to_owned(), field);
            }
        }
        format
    }

    /// Returns the place of a field; None if there is no such field.
    #[must_use]
    pub(crate) fn field(&self, name: &str) -> Option<Field> {
        self.fields.get(name).copied()
    }
}

/// Parses `field:char rwbs[10]; offset:34; size:10; signed:0;`, where the kernel has tabs.
fn field(line: &str) -> Option<(&str, Field)> {
    let mut parts = line.trim_start().strip_prefix("field:")?.split(';');
    let name = parts.next()?.trim_end().rsplit(' ').next()?;
    let name = name.split('[').next()?;
    let mut number = |word: &str| parts.next()?.trim().strip_prefix(word)?.parse().ok();
    let (offset, size) = (number("offset:")?, number("size:")?);
    Some((name, Field { offset, size }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_name_also_an_array() {
        let text = "name: x\nID: 2104\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;\n\
            \tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;\n\n\
            print fmt: \"%d field:x\", REC->x\n";
        let format = Format::parse(text);
        assert_eq!(format.id, Some(2104));
        let place = |name| format.field(name).map(|field| (field.offset, field.size));
        assert_eq!(place("common_type"), Some((0, 2)));
        assert_eq!(place("commit"), Some((8, 8)));
        assert_eq!(place("rwbs"), Some((34, 10)));
        assert_eq!(place("cmd"), Some((60, 4)));
        assert_eq!((format.fields.len(), place("x")), (4, None));
    }

    #[test]
    fn a_record_that_ends_before_a_field_has_no_value() {
        let field = Field { offset: 2, size: 4 };
        assert_eq!(field.number(&[0, 0, 1, 0, 0]), None);
        assert_eq!(
            field.number(&[[0; 2], [7; 2], [7; 2]].concat()),
            Some(0x0707_0707)
        );
    }
}
