//! The head of a file of rows: what they are, in JSON, so that a person can read it too.

use super::rows::{ROW_BYTES, part};
use super::{MAGIC, SegmentError, VERSION};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The length of what stands before the JSON [bytes].
pub const HEAD: usize = 24;
/// The longest JSON that is read [bytes]: 65,536 devices with names of 200 letters.
pub const LONGEST_JSON: usize = 16 << 20;

/// What the rows are. Fields that a later version adds are ignored by an earlier one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// "samples" of a run, or a "trace".
    pub content: Content,
    /// The unit of all stamps: "ns". Another one is refused.
    pub time_unit: String,
    /// How the rows are sorted.
    pub order: Order,
    /// The name behind each number in `Row::device`; of samples: "worker 0" and so on.
    #[serde(default)]
    pub devices: Vec<String>,
    /// The wall clock at time zero (CLOCK_REALTIME) [ns]; null if nobody knows.
    #[serde(default)]
    pub started_ns: Option<u64>,
    /// Where the rows come from, for people: a program with its version, a file.
    #[serde(default)]
    pub source: String,
    /// What was done to them (reordering, spreading, wrapping), as the converter tells it.
    #[serde(default)]
    pub policies: Map<String, Value>,
}

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// Operations as an engine executed them.
    Samples,
    /// Operations as something recorded them.
    Trace,
}

/// How rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// By intended start.
    Intended,
    /// By end, of each device (of samples: each worker).
    Completed,
    /// Not at all.
    None,
}

impl Header {
    /// Returns the header of such rows; the rest is empty.
    #[must_use]
    pub fn new(content: Content, order: Order) -> Self {
        Self {
            content,
            time_unit: "ns".to_owned(),
            order,
            devices: Vec::new(),
            started_ns: None,
            source: String::new(),
            policies: Map::new(),
        }
    }

    /// Returns the bytes at the start of a file: the head, then the JSON, with blanks at its end that
    /// make the whole a multiple of 16 bytes.
    ///
    /// # Errors
    /// The JSON is longer than [`LONGEST_JSON`].
    pub fn encode(&self) -> Result<Vec<u8>, SegmentError> {
        let json = serde_json::to_vec(self).map_err(|error| bad_json(&error))?;
        let padded = (HEAD + json.len()).next_multiple_of(16) - HEAD;
        if padded > LONGEST_JSON {
            let message = format!("the header is {padded} bytes long");
            return Err(SegmentError::format(message, "name fewer devices"));
        }
        let mut json = json;
        json.resize(padded, b' ');
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(ROW_BYTES as u16).to_le_bytes());
        bytes.extend_from_slice(&(padded as u32).to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&json).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&json);
        Ok(bytes)
    }

    /// Returns the length of the JSON and its checksum from what stands before it.
    pub(super) fn decode_head(head: &[u8; HEAD]) -> Result<(usize, u32), SegmentError> {
        if head[..8] != MAGIC {
            let message = "the file does not begin with \"bwtrace\"";
            return Err(SegmentError::format(message, "give its format"));
        }
        let version = u16::from_le_bytes(part(head, 8));
        let row_bytes = usize::from(u16::from_le_bytes(part(head, 10)));
        let length = u32::from_le_bytes(part(head, 12)) as usize;
        if version != VERSION || row_bytes != ROW_BYTES {
            let message = format!("version {version} with rows of {row_bytes} bytes is not known");
            return Err(SegmentError::format(message, "read it with a newer bw"));
        }
        if length > LONGEST_JSON {
            let message = format!("the header claims to be {length} bytes long");
            return Err(SegmentError::Damaged {
                offset: 12,
                message,
            });
        }
        Ok((length, u32::from_le_bytes(part(head, 16))))
    }

    /// Returns the header of this JSON, which should have this checksum.
    pub(super) fn decode_json(json: &[u8], checksum: u32) -> Result<Self, SegmentError> {
        if crc32fast::hash(json) != checksum {
            let message = "the header does not have its checksum".to_owned();
            let offset = HEAD as u64;
            return Err(SegmentError::Damaged { offset, message });
        }
        let header: Self = serde_json::from_slice(json).map_err(|error| bad_json(&error))?;
        if header.time_unit == "ns" {
            return Ok(header);
        }
        let message = format!("stamps in {:?} are not known", header.time_unit);
        Err(SegmentError::format(message, "convert them to \"ns\""))
    }
}

fn bad_json(error: &serde_json::Error) -> SegmentError {
    let message = format!("the header is not what it should be: {error}");
    SegmentError::format(message, "compare it with docs/trace-format.md")
}
