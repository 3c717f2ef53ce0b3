//! fio's iolog version 3: `timestamp file action [offset length]`, stamps in microseconds.
//!
//! Stamps begin at one microsecond: as long as they are zero, fio 3.33 takes the next gap for none (its replay of
//! 0, 1 s, 1.5 s starts reads at 0, 0 and 0.5 s; of 1 us, 1.000001 s, 1.500001 s at 0, 1 and 1.5 s).
//!
//! A device becomes a file of its name; fio opens it, or what `--replay_redirect` says. Version 2 is not
//! written: the manual and the code disagree on what its waits mean (`bw_trace::formats::iolog`).

use crate::error::{TraceCode, TraceError};
use crate::new_file::{NewFile, refused};
use crate::trace::Trace;
use bw_model::Row;
use bw_model::Kind;
use std::io::Write;

/// A microsecond [ns].
const MICROSECOND_NS: u64 = 1000;

/// The stamp of an arrival at time zero.
const FIRST_US: u64 = 1;

/// Writes the rows of `trace`; returns how many, the file's length, and what was lost.
pub(super) fn write(
    trace: &mut Trace,
    mut file: NewFile,
    place: &str,
) -> Result<(u64, u64, Vec<String>), TraceError> {
    let unwritten = |error: std::io::Error| refused(place, &error);
    let mut files = Files::default();
    let (mut rows, mut cut, mut last_us) = (0, 0, 0);
    file.write_all(b"fio version 3 iolog\n")
        .map_err(unwritten)?;
    while let Some(row) = trace.next() {
        let row = row?;
        last_us = FIRST_US + row.intended.0 / MICROSECOND_NS;
        cut += u64::from(row.intended.0 % MICROSECOND_NS != 0);
        let action = action(row.kind).ok_or_else(|| unknown(place, row.kind))?;
        let name = files.name(&row, trace.devices());
        if name.is_new {
            writeln!(file, "{last_us} {0} add\n{last_us} {0} open", name.text)
                .map_err(unwritten)?;
        }
        let (offset, size) = (row.offset, row.size);
        writeln!(file, "{last_us} {} {action} {offset} {size}", name.text).map_err(unwritten)?;
        rows += 1;
    }
    for name in files.names.iter().flatten() {
        writeln!(file, "{last_us} {name} close").map_err(unwritten)?;
    }
    let lost = lost(cut, files.renamed);
    Ok((rows, file.finish()?, lost))
}

fn lost(cut: u64, renamed: u64) -> Vec<String> {
    let mut lost = vec!["starts, ends and processes of operations".to_owned()];
    if cut > 0 {
        lost.push(format!("parts of a microsecond of {cut} arrivals"));
    }
    if renamed > 0 {
        lost.push(format!("blanks in the names of {renamed} devices"));
    }
    lost
}

fn action(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Read => Some("read"),
        Kind::Write => Some("write"),
        Kind::Flush => Some("sync"),
        Kind::Discard => Some("trim"),
        Kind::Exchange => None,
    }
}

fn unknown(place: &str, kind: Kind) -> TraceError {
    TraceError::new(
        TraceCode::TraceOption,
        place,
        format!("an iolog has no action for the operation '{}'", kind.name()),
        "write our own format (bw)",
    )
}

/// The files' names by the devices' numbers.
#[derive(Default)]
struct Files {
    names: Vec<Option<String>>,
    renamed: u64,
}

struct Name<'a> {
    text: &'a str,
    is_new: bool,
}

impl Files {
    fn name(&mut self, row: &Row, devices: &[String]) -> Name<'_> {
        let number = usize::from(row.device);
        if number >= self.names.len() {
            self.names.resize(number + 1, None);
        }
        let renamed = &mut self.renamed;
        let mut is_new = false;
        let text = self.names[number].get_or_insert_with(|| {
            is_new = true;
            let device = devices.get(number).filter(|name| !name.is_empty());
            let device = device.map_or("device", String::as_str);
            let blank = |letter: char| letter.is_whitespace() || letter.is_control();
            *renamed += u64::from(device.contains(blank));
            device.replace(blank, "_")
        });
        Name { text, is_new }
    }
}
