//! What an event of a language model has: a scanner of the JSON text that is its data.
//!
//! Decision: the scanner reads the text part by part and keeps only its position, so neither a tree nor a buffer is
//! needed, however long the text is. It follows the paths below and passes over all else; it does not check the text. The
//! paths of all meanings are one table, since no name has two senses in them. Rejected: a search for `"content":`, which
//! also finds it inside strings; a parser of whole texts, which needs the event in one piece.

use memchr::memchr2;

/// What was found in one event's data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Text, a refusal or arguments of a tool call, not empty.
    pub(super) visible: bool,
    /// Reasoning, not empty.
    pub(super) reasoning: bool,
    /// The member `delta` of an event of `/v1/responses`, not empty; what it is, the event's type says.
    pub(super) delta: bool,
    /// An error.
    pub(super) error: bool,
    /// The output ended because of its length.
    pub(super) by_length: bool,
    /// The event's type, if the data say it.
    pub(super) kind: EventKind,
    pub(super) tokens: Option<u32>,
    pub(super) prompt_tokens: Option<u32>,
    pub(super) cached_tokens: Option<u32>,
    pub(super) reasoning_tokens: Option<u32>,
}

/// The types of events that differ here, those of `/v1/responses`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EventKind {
    /// A part of the output.
    Delta,
    /// A part of the reasoning.
    ReasoningDelta,
    /// The end of the stream.
    End,
    /// The end of the stream by an error.
    Failure,
    /// An error, under a name that other events have too.
    Error,
    #[default]
    Other,
}

impl EventKind {
    /// Returns `other` if this says nothing.
    pub(super) fn or(self, other: Self) -> Self {
        if self == Self::Other { other } else { self }
    }

    pub(super) fn of(name: &[u8]) -> Self {
        match name {
            b"response.completed" | b"response.incomplete" => Self::End,
            b"response.failed" => Self::Failure,
            b"error" => Self::Error,
            _ if !name.starts_with(b"response.") || !name.ends_with(b".delta") => Self::Other,
            _ if name.starts_with(b"response.reasoning") => Self::ReasoningDelta,
            _ => Self::Delta,
        }
    }
}

/// Where a value is, by the keys that lead to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Path {
    #[default]
    Root,
    /// Nowhere that matters.
    Other,
    Choices,
    Choice,
    Delta,
    /// A text, or an array of parts of one.
    Content,
    Parts,
    Part,
    /// Reasoning, or an array of parts of it.
    Thinking,
    ReasoningParts,
    ReasoningPart,
    ToolCalls,
    ToolCall,
    Function,
    Text,
    Reasoning,
    FinishReason,
    Usage,
    PromptDetails,
    OutputDetails,
    PromptTokens,
    Tokens,
    CachedTokens,
    ReasoningTokens,
    Error,
    Kind,
    RootDelta,
    Response,
    IncompleteDetails,
}

impl Path {
    /// Returns the path of an object's member.
    fn member(self, key: &[u8]) -> Self {
        match self {
            Self::Root => match key {
                b"choices" => Self::Choices,
                b"usage" => Self::Usage,
                b"error" => Self::Error,
                b"type" | b"object" => Self::Kind,
                b"delta" => Self::RootDelta,
                b"response" => Self::Response,
                _ => Self::Other,
            },
            Self::Choice => match key {
                b"delta" => Self::Delta,
                b"text" => Self::Text,
                b"finish_reason" => Self::FinishReason,
                _ => Self::Other,
            },
            Self::Delta => match key {
                b"content" => Self::Content,
                b"reasoning_content" | b"reasoning" => Self::Reasoning,
                b"refusal" => Self::Text,
                b"tool_calls" => Self::ToolCalls,
                b"function_call" => Self::Function,
                _ => Self::Other,
            },
            Self::Part => match key {
                b"text" => Self::Text,
                b"thinking" => Self::Thinking,
                _ => Self::Other,
            },
            Self::ReasoningPart if key == b"text" => Self::Reasoning,
            Self::ToolCall if key == b"function" => Self::Function,
            Self::Function if key == b"arguments" => Self::Text,
            Self::Response => match key {
                b"usage" => Self::Usage,
                b"incomplete_details" => Self::IncompleteDetails,
                _ => Self::Other,
            },
            Self::IncompleteDetails if key == b"reason" => Self::FinishReason,
            Self::Usage => match key {
                b"prompt_tokens" | b"input_tokens" => Self::PromptTokens,
                b"completion_tokens" | b"output_tokens" => Self::Tokens,
                b"prompt_tokens_details" | b"input_tokens_details" => Self::PromptDetails,
                b"completion_tokens_details" | b"output_tokens_details" => Self::OutputDetails,
                _ => Self::Other,
            },
            Self::PromptDetails if key == b"cached_tokens" => Self::CachedTokens,
            Self::OutputDetails if key == b"reasoning_tokens" => Self::ReasoningTokens,
            _ => Self::Other,
        }
    }

    /// Returns the path of an array's elements; None: an object.
    fn element(self) -> Option<Self> {
        match self {
            Self::Choices => Some(Self::Choice),
            Self::ToolCalls => Some(Self::ToolCall),
            Self::Parts => Some(Self::Part),
            Self::ReasoningParts => Some(Self::ReasoningPart),
            _ => None,
        }
    }

    /// Returns what an object or array here is; Other: not what is expected here.
    fn opened(self, by: u8) -> Self {
        match (by, self) {
            (b'[', Self::Content) => Self::Parts,
            (b'[', Self::Thinking) => Self::ReasoningParts,
            (b'[', Self::Choices | Self::ToolCalls) => self,
            (b'[', _) | (_, Self::Choices | Self::ToolCalls) => Self::Other,
            _ => self,
        }
    }

    /// Returns whether the text of a string here matters, not only whether there is any.
    fn is_name(self) -> bool {
        matches!(self, Self::FinishReason | Self::Kind)
    }
}

/// The position in a JSON text.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    /// Between strings and literals.
    #[default]
    Between,
    /// In a string that is a key or a value.
    String(Escape),
    /// In a number, or in true, false or null.
    Literal,
}

/// The position in an escape sequence.
#[derive(Clone, Copy, Debug)]
enum Escape {
    None,
    Begun,
    /// In the digits of `\u`: how many there were, and their value.
    Unicode(u8, u32),
}

/// The number of containers on the longest path: that of parts of reasoning in a content.
const DEPTH: usize = 8;

/// The state between two parts of a text.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    place: Place,
    /// The containers that the position is in, as far as they are on paths.
    open: [Path; DEPTH],
    depth: usize,
    /// Number of containers inside these that are on no path.
    passed: u32,
    /// The next string is a key.
    is_key: bool,
    /// The path of the value that comes next or that the position is in.
    path: Path,
    /// The key, or the string, so far.
    name: Name,
    /// The number so far; None: no number of tokens.
    number: Option<u32>,
    pub(super) found: Found,
}

impl Scanner {
    /// Starts anew with another text.
    pub(super) fn begin(&mut self) {
        self.place = Place::Between;
        self.depth = 0;
        self.passed = 0;
        self.is_key = false;
        self.path = Path::Root;
        self.found = Found::default();
    }

    pub(super) fn read(&mut self, mut part: &[u8]) {
        while !part.is_empty() {
            part = match self.place {
                Place::Between => self.between(part),
                Place::String(Escape::None) => self.string(part),
                Place::String(escape) => {
                    self.escaped(escape, part[0]);
                    &part[1..]
                }
                Place::Literal => self.literal(part),
            };
        }
    }

    /// Reads a byte between values; returns what is to be read after it.
    fn between<'a>(&mut self, part: &'a [u8]) -> &'a [u8] {
        match part[0] {
            b'"' => {
                self.place = Place::String(Escape::None);
                self.name.clear();
            }
            b':' => self.is_key = false,
            b',' if self.passed == 0 => self.next(),
            b'{' | b'[' => self.open(part[0]),
            b'}' | b']' => self.close(),
            b',' | b' ' | b'\t' | b'\n' | b'\r' => {}
            first => {
                self.place = Place::Literal;
                self.number = Some(0);
                self.found.error |= self.path == Path::Error && !b"nf".contains(&first);
                return part;
            }
        }
        &part[1..]
    }

    /// Prepares for the next element or member of the container.
    fn next(&mut self) {
        let Some(&container) = self.depth.checked_sub(1).map(|last| &self.open[last]) else {
            return;
        };
        let element = container.element();
        self.path = element.unwrap_or(Path::Other);
        self.is_key = element.is_none();
    }

    fn open(&mut self, by: u8) {
        self.found.error |= self.path == Path::Error && by == b'{';
        let opened = self.path.opened(by);
        self.path = Path::Other;
        self.is_key = false;
        if self.passed > 0 || opened == Path::Other || self.depth == DEPTH {
            self.passed = self.passed.saturating_add(1);
            return;
        }
        self.open[self.depth] = opened;
        self.depth += 1;
        self.next();
    }

    fn close(&mut self) {
        if self.passed > 0 {
            self.passed -= 1;
        } else {
            self.depth = self.depth.saturating_sub(1);
        }
        self.path = Path::Other;
    }

    /// Reads on in a string, up to its end or an escape sequence.
    fn string<'a>(&mut self, part: &'a [u8]) -> &'a [u8] {
        let end = memchr2(b'"', b'\\', part);
        let (text, rest) = part.split_at(end.unwrap_or(part.len()));
        if rest.first() == Some(&b'"') && self.name.is_empty() {
            self.has_text(text);
            self.end_string(text);
        } else {
            self.text(text);
            match rest.first() {
                Some(b'"') => {
                    let name = self.name;
                    self.end_string(name.as_bytes());
                }
                Some(_) => self.place = Place::String(Escape::Begun),
                None => return rest,
            }
        }
        &rest[1..]
    }

    /// Reads a byte of an escape sequence.
    fn escaped(&mut self, escape: Escape, byte: u8) {
        match escape {
            Escape::Unicode(digits, value) => {
                let digit = char::from(byte).to_digit(16).unwrap_or(u32::MAX);
                let value = value << 4 | digit;
                if digits < 3 {
                    self.place = Place::String(Escape::Unicode(digits + 1, value));
                } else {
                    let ascii = u8::try_from(value).ok().filter(u8::is_ascii);
                    self.character(ascii.unwrap_or(NO_NAME));
                }
            }
            _ if byte == b'u' => self.place = Place::String(Escape::Unicode(0, 0)),
            _ if b"\"\\/".contains(&byte) => self.character(byte),
            _ => self.character(NO_NAME),
        }
    }

    /// Takes the character of an escape sequence.
    fn character(&mut self, byte: u8) {
        self.place = Place::String(Escape::None);
        self.text(&[byte]);
    }

    /// Takes a part of a string that is kept if it may be a name.
    fn text(&mut self, part: &[u8]) {
        self.has_text(part);
        if self.is_key || self.path.is_name() {
            self.name.push(part);
        }
    }

    fn has_text(&mut self, part: &[u8]) {
        if part.is_empty() {
            return;
        }
        match self.path {
            Path::Content | Path::Text => self.found.visible = true,
            Path::Reasoning | Path::Thinking => self.found.reasoning = true,
            Path::RootDelta => self.found.delta = true,
            Path::Error => self.found.error = true,
            _ => {}
        }
    }

    fn end_string(&mut self, name: &[u8]) {
        self.place = Place::Between;
        if self.is_key {
            let container = self.depth.checked_sub(1).map(|last| self.open[last]);
            self.path = container.map_or(Path::Other, |container| container.member(name));
            return;
        }
        match self.path {
            Path::FinishReason => {
                self.found.by_length |= matches!(name, b"length" | b"max_output_tokens");
                self.found.error |= name == b"error";
            }
            Path::Kind => {
                let kind = EventKind::of(name);
                self.found.error |= kind == EventKind::Error;
                self.found.kind = kind.or(self.found.kind);
            }
            _ => {}
        }
        self.path = Path::Other;
    }

    /// Reads on in a literal, up to what ends it.
    fn literal<'a>(&mut self, part: &'a [u8]) -> &'a [u8] {
        for (index, byte) in part.iter().enumerate() {
            match byte {
                b'0'..=b'9' => {
                    let digit = u32::from(byte - b'0');
                    let more = |number: u32| number.checked_mul(10)?.checked_add(digit);
                    self.number = self.number.and_then(more);
                }
                b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r' | b'"' | b':' | b'{' | b'[' => {
                    self.end_literal();
                    return &part[index..];
                }
                _ => self.number = None,
            }
        }
        &[]
    }

    fn end_literal(&mut self) {
        self.place = Place::Between;
        let found = &mut self.found;
        let count = match std::mem::replace(&mut self.path, Path::Other) {
            Path::Tokens => &mut found.tokens,
            Path::PromptTokens => &mut found.prompt_tokens,
            Path::CachedTokens => &mut found.cached_tokens,
            Path::ReasoningTokens => &mut found.reasoning_tokens,
            _ => return,
        };
        *count = self.number.or(*count);
    }
}

/// A byte of no name, for characters of which it is only known that they are in none.
const NO_NAME: u8 = u8::MAX;

/// A name as long as a known one can be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    bytes: [u8; Self::CAPACITY],
    /// Above the capacity: a longer name, which is not known.
    length: usize,
}

impl Default for Name {
    fn default() -> Self {
        Self {
            bytes: [0; Self::CAPACITY],
            length: 0,
        }
    }
}

impl Name {
    const CAPACITY: usize = 48;

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    pub(super) fn push(&mut self, part: &[u8]) {
        let end = self.length.saturating_add(part.len());
        if let Some(place) = self.bytes.get_mut(self.length..end) {
            place.copy_from_slice(part);
        }
        self.length = end;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the name, or nothing if it is too long.
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}
