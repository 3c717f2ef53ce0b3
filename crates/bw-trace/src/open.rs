//! Opens files, FIFOs and standard input; recognises gzip, zstd and the format by content, not by name.
//!
//! Decision: input is never sought, so a trace may come through a pipe; the bytes read for recognition are put in front
//! of the stream again. Our own format is recognised by 8 bytes, so that recognition does not wait longer for a slow
//! FIFO. zstd is decoded by ruzstd, because it needs no C library. It decodes one frame; further frames,
//! skippable frames and the comparison of checksums are implemented here. A frame's window may be at most 128 MiB.

use crate::entry::{FIX_OR_SKIP, ParseError};
use crate::error::TraceCode;
use crate::formats::{self, own};
use crate::input::{Format, TraceInput};
use crate::text::Bytes;
use bw_model::EngineError;
use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

/// Size of a read [bytes].
const BUFFER_BYTES: usize = 256 * 1024;

/// How much of a text is examined to determine its format [bytes].
const HEAD_BYTES: usize = 64 * 1024;

/// An open file of a trace, with its format.
pub(crate) struct OpenTrace {
    /// Its name, for errors.
    pub path: String,
    /// The decompressed content.
    pub stream: Bytes,
    /// The format, given or determined.
    pub format: Format,
}

/// Opens `path` and determines its format.
///
/// Errors: it cannot be opened or read, is empty, or its format is unknown or ambiguous.
pub(crate) fn open(path: String, input: &TraceInput) -> Result<OpenTrace, EngineError> {
    let raw = raw(&path)?;
    open_stream(&path, raw, input)
}

/// Determines the format of the content of `raw`; errors call it `path`.
pub(crate) fn open_stream(
    path: &str,
    raw: Box<dyn Read + Send>,
    input: &TraceInput,
) -> Result<OpenTrace, EngineError> {
    let (mut stream, head) = decompressed(raw)
        .and_then(|mut stream| read_start(&mut stream).map(|head| (stream, head)))
        .map_err(|error| unreadable(path, &error))?;
    let format = match input.format {
        _ if head.is_empty() => return Err(empty(path)),
        Some(format) => format,
        None => {
            let candidates = formats::candidates(&head, input);
            only(path, &candidates, || formats::closest(&head, input))?
        }
    };
    stream = Box::new(Cursor::new(head).chain(stream));
    Ok(OpenTrace {
        path: path.to_owned(),
        stream: BufReader::with_capacity(BUFFER_BYTES, stream),
        format,
    })
}

/// Returns as much of the start as is needed to determine the format: of a text at least one line.
fn read_start(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    read_head(stream, own::MAGIC.len(), &mut head)?;
    if !head.starts_with(own::MAGIC) {
        let mut length = HEAD_BYTES;
        read_head(stream, length, &mut head)?;
        // A request with its body can be one long line. Only a text is read on.
        while head.len() == length
            && length < formats::LONGEST_LINE_BYTES
            && memchr::memchr2(b'\n', 0, &head).is_none()
        {
            length *= 2;
            read_head(stream, length, &mut head)?;
        }
    }
    Ok(head)
}

/// Returns the files that `path` names: itself, or the per-CPU files `path.blktrace.N`.
pub(crate) fn files(path: &str) -> Vec<String> {
    if path == "-" || Path::new(path).exists() {
        return vec![path.to_owned()];
    }
    let stem = path.strip_suffix(".blktrace").unwrap_or(path);
    let per_cpu = |cpu: usize| format!("{stem}.blktrace.{cpu}");
    // CPUs that were offline leave gaps in the numbers.
    let found: Vec<String> = (0..1024)
        .map(per_cpu)
        .filter(|file| Path::new(file).exists())
        .collect();
    if found.is_empty() {
        vec![path.to_owned()]
    } else {
        found
    }
}

fn read_head(stream: &mut impl Read, length: usize, head: &mut Vec<u8>) -> io::Result<()> {
    let missing = length.saturating_sub(head.len()) as u64;
    stream.take(missing).read_to_end(head).map(|_| ())
}

/// Returns the only candidate; `closest`: the format that comes closest where there is none, with what is wrong.
fn only(
    path: &str,
    candidates: &[Format],
    closest: impl FnOnce() -> Option<(Format, ParseError)>,
) -> Result<Format, EngineError> {
    let names = |formats: &[Format]| {
        let names: Vec<&str> = formats.iter().map(|format| format.name()).collect();
        names.join(", ")
    };
    let (message, remedy) = match candidates {
        [format] => return Ok(*format),
        [] => {
            let unknown = "the format of the content is unknown";
            let remedy = format!("give --format, one of: {}", names(&Format::ALL));
            match closest() {
                None => (unknown.to_owned(), remedy),
                Some((format, error)) => {
                    let (name, place) = (format.name(), error.place);
                    let message = format!("{unknown}; as {name}, {place}: {}", error.message);
                    let own = Some(error.remedy).filter(|remedy| remedy != FIX_OR_SKIP);
                    (message, own.unwrap_or(remedy))
                }
            }
        }
        several => (
            format!(
                "the content could be of several formats: {}",
                names(several)
            ),
            format!("give --format, one of: {}", names(several)),
        ),
    };
    Err(TraceCode::TraceFormat.error(path, message, remedy))
}

fn empty(path: &str) -> EngineError {
    TraceCode::TraceFormat.error(path, "the file is empty", "give a trace with operations")
}

fn unreadable(path: &str, error: &io::Error) -> EngineError {
    let fault = crate::entry::ParseError::read(error, crate::entry::Position::Whole);
    fault.into_error(&[path.to_owned()])
}

fn decompressed(raw: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut raw = raw;
    let mut head = Vec::new();
    read_head(&mut raw, 4, &mut head)?;
    let magic = head.clone();
    let raw = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(head).chain(raw));
    Ok(match magic.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(raw)),
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
            Box::new(ZstdFrames::new(raw))
        }
        _ => Box::new(raw),
    })
}

fn raw(path: &str) -> Result<Box<dyn Read + Send>, EngineError> {
    if path == "-" {
        return Ok(Box::new(io::stdin()));
    }
    let refused = |error: io::Error| {
        TraceCode::TraceOpen.error(
            path,
            format!("cannot be opened: {error}"),
            "give the path of a trace that can be read",
        )
    };
    let file = File::open(path).map_err(refused)?;
    if file.metadata().map_err(refused)?.is_dir() {
        let error = io::Error::from(io::ErrorKind::IsADirectory);
        return Err(refused(error));
    }
    Ok(Box::new(file))
}

/// The decompressed bytes of all frames.
pub(crate) struct ZstdFrames<R> {
    stream: R,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    /// Returns the content of `stream`.
    pub(crate) fn new(stream: R) -> Self {
        Self {
            stream,
            decoder: FrameDecoder::new(),
            inside: false,
        }
    }

    /// Starts the next frame; skips a skippable one.
    fn begin(&mut self) -> io::Result<()> {
        match self.decoder.init(&mut self.stream) {
            Ok(()) => self.inside = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let length = u64::from(length);
                let mut frame = (&mut self.stream).take(length);
                if io::copy(&mut frame, &mut io::sink())? < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) => return Err(damaged(&error)),
        }
        Ok(())
    }

    fn decode(&mut self) -> io::Result<()> {
        while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
            self.decoder
                .decode_blocks(&mut self.stream, BlockDecodingStrategy::UptoBlocks(1))
                .map_err(|error| damaged(&error))?;
        }
        Ok(())
    }

    /// Ends the frame: verifies its checksum, if it has one.
    fn end(&mut self) -> io::Result<()> {
        self.inside = false;
        match self.decoder.get_checksum_from_data() {
            Some(stored) if self.decoder.get_calculated_checksum() != Some(stored) => {
                Err(damaged("the checksum of a zstd frame is wrong"))
            }
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if self.inside {
                self.decode()?;
                let length = self.decoder.read(buffer)?;
                if length > 0 {
                    return Ok(length);
                }
                self.end()?;
            } else if self.stream.fill_buf()?.is_empty() {
                return Ok(0);
            } else {
                self.begin()?;
            }
        }
    }
}

fn damaged(what: &(impl ToString + ?Sized)) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ambiguous_content_is_reported_with_its_candidates() {
        let error = only("t", &[Format::Msr, Format::Spc], || None).unwrap_err();
        assert_eq!(error.code, TraceCode::TraceFormat.name());
        assert!(error.message.contains("msr, spc"), "{error}");
        assert!(error.remedy.contains("--format"), "{error}");
        assert_eq!(only("t", &[Format::Msr], || None), Ok(Format::Msr));
    }

    #[test]
    fn a_first_line_longer_than_the_usual_head_decides_the_format() {
        for longest in [100 << 10, 3 << 20] {
            let body = "a".repeat(longest);
            let line =
                format!(r#"{{"time": 1, "method": "POST", "url": "http://h/", "body": "{body}"}}"#);
            let raw = Box::new(Cursor::new(format!("{line}\n{line}\n").into_bytes()));
            let open = open_stream("t", raw, &TraceInput::new("t"));
            assert_eq!(open.map(|open| open.format), Ok(Format::Jsonl));
        }
    }
}
