//! The member of a JSON text that a pointer names: `/id`, `/params/request`, `/0`.
//!
//! Decision: the text is followed part by part, and of the member only a hash is kept, so a message needs no buffer and no
//! tree, however long it is; what follows the member is not read. Members are equal if their texts are: `7` and `"7"` are
//! the same. Only a string, a number, true, false or null is a member here. Source: RFC 6901.

use memchr::memchr2;

/// A member's text, as far as it matters whether two are the same: 64 bits of FNV-1a.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value(u64);

impl Value {
    const EMPTY: Self = Self(0xcbf2_9ce4_8422_2325);

    /// Returns the value with this text.
    pub(super) fn of(text: &[u8]) -> Self {
        let mut value = Self::EMPTY;
        value.add(text);
        value
    }

    fn add(&mut self, part: &[u8]) {
        for byte in part {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The keys and indexes that lead to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer(Box<[Box<[u8]>]>);

impl Pointer {
    /// Returns the pointer of a text such as `/id`.
    ///
    /// # Errors
    /// It does not begin with `/`, or `~` is not followed by 0 or 1.
    pub fn parse(text: &str) -> Result<Self, String> {
        let tokens = text
            .strip_prefix('/')
            .ok_or_else(|| format!("{text:?} is no JSON pointer: it begins with /, as in /id"))?;
        let token = |token: &str| {
            let plain = token.replace("~0", "").replace("~1", "");
            if plain.contains('~') {
                return Err(format!("{text:?}: write ~0 for ~, and ~1 for / in a name"));
            }
            let token = token.replace("~1", "/").replace("~0", "~");
            Ok(token.into_bytes().into_boxed_slice())
        };
        tokens
            .split('/')
            .map(token)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns the value of the member in a whole text.
    pub(super) fn value_in(&self, text: &[u8]) -> Option<Value> {
        let mut search = Search::default();
        search.read(self, text);
        search.finish()
    }
}

/// The position in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Between strings and literals.
    #[default]
    Between,
    /// In a string.
    String,
    /// Behind a backslash.
    Escape,
    /// In the digits of `\u`: how many there were, and their value.
    Unicode(u8, u32),
    /// In a number, or in true, false or null.
    Literal,
    /// The member was found, or there is none.
    Done,
}

/// The search for the member, between two parts of a text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Search {
    place: Place,
    /// Number of open containers.
    depth: u32,
    /// How many of them, the outer ones, the pointer leads through.
    through: usize,
    /// The innermost of those is an array: the index of its element.
    index: Option<u64>,
    /// The next string is a key of the innermost of those.
    is_key: bool,
    /// How much of the key is the pointer's; [`OTHER`]: it is another one.
    of_key: usize,
    /// The value that is next, or that is being read, is where the pointer leads.
    leads: bool,
    /// What the value is so far, if it is the member.
    value: Option<Value>,
}

const OTHER: usize = usize::MAX;

impl Search {
    pub(super) fn read(&mut self, pointer: &Pointer, mut part: &[u8]) {
        if self.depth == 0 && self.through == 0 {
            self.leads = true;
        }
        while self.place != Place::Done
            && let Some((&byte, rest)) = part.split_first()
        {
            part = match self.place {
                Place::Between => self.between(pointer, part),
                Place::String => self.string(pointer, part),
                Place::Literal if b",}] \t\r\n:".contains(&byte) => {
                    self.end_value();
                    part
                }
                Place::Literal => {
                    self.take(&[byte]);
                    rest
                }
                Place::Escape | Place::Unicode(..) => {
                    self.escaped(pointer, byte);
                    rest
                }
                Place::Done => rest,
            };
        }
    }

    /// Returns the member of a text that is over.
    pub(super) fn finish(&mut self) -> Option<Value> {
        if self.place == Place::Literal {
            self.end_value();
        }
        self.value.filter(|_| self.place == Place::Done)
    }

    /// Returns whether the position is directly in the innermost container that the pointer leads through.
    fn is_on(&self) -> bool {
        self.through > 0 && self.depth as usize == self.through
    }

    /// Reads a byte between values; returns what is to be read after it.
    fn between<'a>(&mut self, pointer: &Pointer, part: &'a [u8]) -> &'a [u8] {
        match part[0] {
            b'"' => {
                self.place = Place::String;
                self.of_key = 0;
                self.begin_value(pointer);
            }
            b'{' | b'[' => self.open(pointer, part[0] == b'['),
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                // The container that the pointer leads through is over, so there is no such member.
                if (self.depth as usize) < self.through {
                    self.place = Place::Done;
                }
            }
            b',' if self.is_on() => {
                self.is_key = self.index.is_none();
                self.index = self.index.map(|index| index + 1);
                self.leads = self.is_element(pointer);
            }
            b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => {
                self.place = Place::Literal;
                self.begin_value(pointer);
                return part;
            }
        }
        &part[1..]
    }

    fn begin_value(&mut self, pointer: &Pointer) {
        let is_member = self.leads && !self.is_key;
        if is_member && self.through == pointer.0.len() {
            self.value = Some(Value::EMPTY);
        } else if is_member {
            // The pointer leads on, and this has no members.
            self.place = Place::Done;
        }
    }

    /// Returns whether the element of the array is where the pointer leads.
    fn is_element(&self, pointer: &Pointer) -> bool {
        let token = self.through.checked_sub(1).map(|last| &pointer.0[last]);
        let token = token.and_then(|token| std::str::from_utf8(token).ok());
        let wanted = token.and_then(|token| token.parse::<u64>().ok());
        self.index.is_some() && self.index == wanted
    }

    fn open(&mut self, pointer: &Pointer, is_array: bool) {
        self.depth = self.depth.saturating_add(1);
        if !self.leads {
            return;
        }
        self.leads = false;
        if self.through == pointer.0.len() {
            // The member is no scalar.
            self.place = Place::Done;
            return;
        }
        self.through += 1;
        self.is_key = !is_array;
        self.index = is_array.then_some(0);
        self.leads = self.is_element(pointer);
    }

    /// Reads on in a string, up to its end or an escape sequence.
    fn string<'a>(&mut self, pointer: &Pointer, part: &'a [u8]) -> &'a [u8] {
        let end = memchr2(b'"', b'\\', part).unwrap_or(part.len());
        let (text, rest) = part.split_at(end);
        self.text(pointer, text);
        match rest.split_first() {
            Some((b'"', rest)) => {
                self.end_string(pointer);
                rest
            }
            Some((_, rest)) => {
                self.place = Place::Escape;
                rest
            }
            None => rest,
        }
    }

    fn is_key_here(&self) -> bool {
        self.is_key && self.is_on()
    }

    /// Takes a part of a string.
    fn text(&mut self, pointer: &Pointer, part: &[u8]) {
        if !self.is_key_here() {
            return self.take(part);
        }
        let token = &pointer.0[self.through - 1];
        let rest = token.get(self.of_key..);
        self.of_key = match rest {
            Some(rest) if rest.starts_with(part) => self.of_key + part.len(),
            _ => OTHER,
        };
    }

    /// Takes a part of the member.
    fn take(&mut self, part: &[u8]) {
        if let Some(value) = &mut self.value {
            value.add(part);
        }
    }

    fn end_string(&mut self, pointer: &Pointer) {
        if self.is_key_here() {
            self.place = Place::Between;
            self.is_key = false;
            self.leads = self.of_key == pointer.0[self.through - 1].len();
        } else {
            self.end_value();
        }
    }

    fn end_value(&mut self) {
        self.place = match self.value {
            Some(_) => Place::Done,
            None => Place::Between,
        };
    }

    /// Reads a byte of an escape sequence. Half of a pair of surrogates is a character of its own.
    fn escaped(&mut self, pointer: &Pointer, byte: u8) {
        let character = match self.place {
            Place::Unicode(digits, value) => {
                let value = value << 4 | char::from(byte).to_digit(16).unwrap_or_default();
                if digits < 3 {
                    self.place = Place::Unicode(digits + 1, value);
                    return;
                }
                char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => match byte {
                b'u' => {
                    self.place = Place::Unicode(0, 0);
                    return;
                }
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                other => char::from(other),
            },
        };
        self.place = Place::String;
        self.text(pointer, character.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(pointer: &str, text: &str) -> Option<Value> {
        Pointer::parse(pointer).unwrap().value_in(text.as_bytes())
    }

    #[test]
    fn a_member_is_found_where_the_pointer_leads_and_nowhere_else() {
        let is = |text: &str| Some(Value::of(text.as_bytes()));
        let text = r#" {"x": {"id": 1, "y": [{"id": 2}]}, "s": "\"id\": 3", "id" : "a\u0062\n", "n": -1.5e3} "#;
        assert_eq!(value("/id", text), is("ab\n"));
        assert_eq!(value("/x/id", text), is("1"));
        assert_eq!(value("/x/y/0/id", text), is("2"));
        assert_eq!(value("/n", text), is("-1.5e3"));
        for none in [
            "/x",
            "/i",
            "/idx",
            "/x/y/1/id",
            "/s/id",
            "/0",
            "/",
            "/id/0",
            "/x/y/id",
        ] {
            assert_eq!(value(none, text), None, "{none}");
        }
        assert_eq!(value("/1", r#"["a", [7], "b"]"#), None);
        assert_eq!(value("/2", r#"["a", [7], "b"]"#), is("b"));
        assert_eq!(value("/1/0", r#"["a", [7], "b"]"#), is("7"));
        assert_eq!(value("/a~1b/~0", r#"{"a/b": {"~": true}}"#), is("true"));
        assert_eq!(value("/a", r#"{"b": {"a": 1}}"#), None);
        assert_eq!(value("/a", r#"{"b": "a", "a": 2}"#), is("2"));
        for text in [
            "",
            "7",
            "\"id\"",
            "[]",
            "{",
            r#"{"id"#,
            r#"{"id": "#,
            r#"{"id": "x"#,
        ] {
            assert_eq!(value("/id", text), None, "{text}");
        }
        assert!(Pointer::parse("id").is_err() && Pointer::parse("/~2").is_err());
    }

    /// Returns the member by serde_json.
    fn by_serde(pointer: &str, text: &str) -> Option<Value> {
        let tree: serde_json::Value = serde_json::from_str(text).ok()?;
        match tree.pointer(pointer)? {
            serde_json::Value::String(text) => Some(Value::of(text.as_bytes())),
            serde_json::Value::Array(_) | serde_json::Value::Object(_) => None,
            other => Some(Value::of(other.to_string().as_bytes())),
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Into::into),
            any::<i32>().prop_map(Into::into),
            "[ab\"\\\\\\n\u{e4}]{0,3}".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let members = prop::collection::hash_map("[ab]{0,2}", inner.clone(), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Into::into),
                members.prop_map(|all| serde_json::Value::Object(all.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn members_are_those_of_a_tree(tree in json(), pointer in "(/([ab]{0,2}|[0-3])){1,4}", pretty: bool) {
            let text = match pretty {
                true => serde_json::to_string_pretty(&tree).unwrap(),
                false => tree.to_string(),
            };
            prop_assert_eq!(value(&pointer, &text), by_serde(&pointer, &text));
        }

        #[test]
        fn any_split_and_any_bytes_give_the_same_member(
            text in r#"([{}\[\],: ]|"[a1\\]{0,2}"|[a1]|\\u0061){0,30}"#, cut in 0..30_usize,
        ) {
            let pointer = Pointer::parse("/a").unwrap();
            let bytes = text.as_bytes();
            let (one, other) = bytes.split_at(cut.min(bytes.len()));
            let mut search = Search::default();
            search.read(&pointer, one);
            search.read(&pointer, other);
            prop_assert_eq!(search.finish(), pointer.value_in(bytes));
        }
    }
}
