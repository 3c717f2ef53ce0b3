//! What the options mean for one trace, checked before anything is read.

use crate::error::TraceCode;
use crate::input::{Duplicates, Format, TraceInput};
use crate::offsets::AddressMapping;
use crate::order::{OrderWindow, WINDOW_ROWS};
use crate::source::Timing;
use bw_model::EngineError;
use bw_model::Nanos;

/// Returns whether `path` can be read only once.
pub(crate) fn is_stream(path: &str) -> bool {
    path == "-" || std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())
}

/// Returns the first of the paths, which errors about the whole trace name.
pub(crate) fn first_path(input: &TraceInput) -> &str {
    input.path.list().first().map_or("", String::as_str)
}

/// Returns the error of options that contradict each other or the trace.
pub(crate) fn option_error(path: &str, message: &str, remedy: &str) -> EngineError {
    TraceCode::TraceOption.error(path, message, remedy)
}

/// Returns the error of scaling what cannot be read twice.
pub(crate) fn size_unknown(path: &str) -> EngineError {
    option_error(
        path,
        "a trace that comes through a pipe cannot be read beforehand to find its size",
        "give source_bytes, or wrap the addresses (--offsets wrap)",
    )
}

/// Returns the first names of devices as one line.
pub(crate) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

/// Checks the options that need no trace.
pub(crate) fn check(input: &TraceInput) -> Result<(), EngineError> {
    let path = first_path(input);
    if input.speed_micro == 0 {
        return Err(option_error(
            path,
            "a speed of zero never ends",
            "give a speed above zero",
        ));
    }
    if input.stamp_unit_ns == Some(0) {
        return Err(option_error(
            path,
            "a unit of zero gives no time",
            "give stamp_unit_ns of 1 or more",
        ));
    }
    Ok(())
}

/// Returns the reorder window: the one asked for, or that of the format.
///
/// Our own files that are sorted may come through a FIFO while they are replayed: a window would
/// hold rows back. Samples are sorted by their end, a block of each worker at a time, so they
/// are held for as long as an operation may take.
pub(crate) fn window(format: Format, timing: Timing, input: &TraceInput) -> OrderWindow {
    let (window, rows) = match (format, timing.sorted) {
        (_, true) => (Nanos::ZERO, WINDOW_ROWS),
        (Format::Bw, false) => (Nanos(60 * Nanos::SECOND.0), 16 * WINDOW_ROWS),
        (_, false) => (Nanos::SECOND, WINDOW_ROWS),
    };
    let window_ns = input.window_ns.unwrap_or(window.0);
    OrderWindow::new(window_ns, input.window_rows.unwrap_or(rows))
}

/// Returns the mapping of addresses that is asked for.
pub(crate) fn mapping(input: &TraceInput) -> Result<AddressMapping, EngineError> {
    let source = input.source_bytes.unwrap_or(0);
    AddressMapping::new(input.offsets, input.target_bytes, input.align_bytes, source).map_err(
        |what| {
            let remedy = "give a target with a known size, or keep the addresses (--offsets exact)";
            option_error(first_path(input), what, remedy)
        },
    )
}

/// Returns what equal stamps of this format mean.
pub(crate) fn duplicates(format: Format, input: &TraceInput) -> Result<Duplicates, EngineError> {
    match (input.duplicates, format) {
        (Some(chosen), _) => Ok(chosen),
        (None, Format::Tencent) => Err(option_error(
            first_path(input),
            "the stamps are whole seconds: what that means must be chosen",
            "spread the operations over their second (--duplicates spread) or let them arrive together (--duplicates burst)",
        )),
        (None, _) => Ok(Duplicates::Burst),
    }
}
