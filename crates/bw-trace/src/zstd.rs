//! zstd as a stream of frames: what `zstd`, `pzstd` and `cat` of several files write.
//!
//! Decision: ruzstd, because it needs no C library; it decodes one frame, so the next ones, skippable
//! frames and the comparison of checksums are here. A frame may ask for a window of 128 MiB at most.

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, Read};

/// The decompressed bytes of all frames.
pub(crate) struct ZstdFrames<R> {
    stream: R,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    /// Returns the content of `stream`.
    pub fn new(stream: R) -> Self {
        Self {
            stream,
            decoder: FrameDecoder::new(),
            inside: false,
        }
    }

    /// Begins the next frame, or passes it if it is a skippable one.
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

    /// Ends the frame: compares its checksum, if it has one.
    fn end(&mut self) -> io::Result<()> {
        self.inside = false;
        match self.decoder.get_checksum_from_data() {
            Some(told) if self.decoder.get_calculated_checksum() != Some(told) => {
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
