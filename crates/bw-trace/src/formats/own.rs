//! Our own format: docs/trace-format.md.
//!
//! Its stamps count from its own time zero, not from the first arrival: a filament whose first operation comes after
//! five seconds still starts then. Rows that are marked as sorted by intended start need no window; samples, which are
//! sorted by completion, get a wide one.

use crate::entry::{
    DeviceNames, FARTHEST_NS, LARGEST_END_BYTES, ParseError, Position, RecordedResponse, TraceEntry,
};
use crate::source::{Account, Timing, TraceSource};
use crate::text::Bytes;
use bw_model::Row;
use bw_record::segment::reader::SegmentReader;
use bw_record::segment::{self, Content, Order, SegmentError};

/// The first bytes of a file in our format.
pub(crate) const MAGIC: &[u8] = &segment::MAGIC;

/// The rows of one file.
pub(crate) struct Own {
    reader: SegmentReader<Bytes>,
    rows: Vec<Row>,
    taken: usize,
    block_byte: u64,
    /// The number among all devices for each number in the file.
    devices: Vec<Option<u16>>,
    ended: bool,
}

impl Own {
    /// Returns the rows of `stream`, after reading its header.
    ///
    /// Errors: the header is not of this format, or of a later version.
    pub(crate) fn new(stream: Bytes, lenient: bool) -> Result<Self, ParseError> {
        let reader = SegmentReader::new(stream, lenient).map_err(|error| {
            fault(error, 0).fatal("write the trace again, or convert it with the bw that wrote it")
        })?;
        Ok(Self {
            reader,
            rows: Vec::new(),
            taken: 0,
            block_byte: 0,
            devices: Vec::new(),
            ended: false,
        })
    }

    /// Reads the next block; returns false at the end.
    fn block(&mut self) -> Result<bool, ParseError> {
        self.taken = 0;
        self.block_byte = self.reader.offset();
        let more = self
            .reader
            .next_block(&mut self.rows)
            .map_err(|error| fault(error, self.block_byte))?;
        self.ended |= !more;
        Ok(more)
    }

    fn device(&mut self, number: u16, devices: &mut DeviceNames) -> Result<u16, ParseError> {
        let place = usize::from(number);
        if place >= self.devices.len() {
            self.devices.resize(place + 1, None);
        }
        if let Some(known) = self.devices[place] {
            return Ok(known);
        }
        let name = match self.reader.header().devices.get(place) {
            Some(name) => name.clone(),
            None => number.to_string(),
        };
        let known = devices.number(name.as_bytes(), 0)?;
        self.devices[place] = Some(known);
        Ok(known)
    }
}

impl TraceSource<TraceEntry> for Own {
    fn next(&mut self, devices: &mut DeviceNames) -> Result<Option<TraceEntry>, ParseError> {
        while self.taken == self.rows.len() {
            if self.ended || !self.block()? {
                return Ok(None);
            }
        }
        let mut row = self.rows[self.taken];
        self.taken += 1;
        let place = Position::Byte(self.block_byte);
        let end = row.offset.checked_add(u64::from(row.size));
        if end.is_none_or(|end| end > LARGEST_END_BYTES) {
            let text = "an operation in the block lies beyond 8 EiB";
            return Err(ParseError::byte(self.block_byte, text));
        }
        row.device = self.device(row.device, devices)?;
        Ok(Some(TraceEntry {
            row,
            place,
            sequence: 0,
            file: 0,
            clipped: false,
            reach_ns: FARTHEST_NS,
            response: RecordedResponse::default(),
        }))
    }

    fn account(&self) -> Account {
        let skipped = self.reader.skipped();
        let mut notes = Vec::new();
        if skipped.bytes > 0 {
            notes.push(format!("bw: {} damaged bytes were skipped", skipped.bytes));
        }
        if self.ended && !self.reader.finished() {
            notes.push("bw: the writer did not finish the file: rows may be missing".to_owned());
        }
        Account {
            skipped: skipped.places + skipped.rows,
            skipped_first: skipped.first.clone(),
            notes,
            ..Account::default()
        }
    }

    fn timing(&self) -> Timing {
        Timing {
            sorted: self.reader.header().order == Order::Intended,
            from_zero: true,
            intended: self.reader.header().content == Content::Samples,
        }
    }

    fn at_hand(&self) -> bool {
        self.taken < self.rows.len()
    }
}

fn fault(error: SegmentError, byte: u64) -> ParseError {
    match error {
        SegmentError::Io(error) => ParseError::read(&error, Position::Byte(byte)),
        SegmentError::Format { message, remedy } => ParseError::byte(byte, message).fatal(remedy),
        SegmentError::Damaged { offset, message } => ParseError::byte(offset, message),
    }
}
