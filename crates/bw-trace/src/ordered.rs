//! The operations of a trace in the order of their stamps: a source, the reorder window, and what
//! becomes of what is wrong.

use crate::entry::{Devices, Entry};
use crate::error::{TraceCode, TraceError};
use crate::fault::Fault;
use crate::order::{OrderWindow, TooLate};
use crate::report::REMEMBERED;
use crate::source::{Account, Source};

/// A source whose operations come out in order.
pub(crate) struct Ordered {
    /// The files.
    pub paths: Vec<String>,
    source: Box<dyn Source<Entry>>,
    devices: Devices,
    order: OrderWindow,
    lenient: bool,
    read: bool,
    skipped: u64,
    skipped_first: Vec<String>,
    failure: Option<TraceError>,
}

impl Ordered {
    /// Returns the operations of `source`, which reads `paths`; `lenient`: what is malformed is skipped.
    pub fn new(
        paths: Vec<String>,
        source: Box<dyn Source<Entry>>,
        order: OrderWindow,
        lenient: bool,
    ) -> Self {
        Self {
            paths,
            source,
            devices: Devices::default(),
            order,
            lenient,
            read: false,
            skipped: 0,
            skipped_first: Vec::new(),
            failure: None,
        }
    }

    /// Returns the next operation in order, with the trace's own stamps. What is wrong ends the trace
    /// there; the operations before it, which the window may still hold, come first.
    pub fn next(&mut self) -> Option<Entry> {
        loop {
            if let Some(entry) = self.order.pop(self.read) {
                return Some(entry);
            }
            if self.read {
                return None;
            }
            match self.source.next(&mut self.devices) {
                Ok(Some(entry)) => {
                    if let Err(late) = self.order.push(entry) {
                        self.fail(self.out_of_order(&entry, &late));
                    }
                }
                Ok(None) => self.read = true,
                Err(fault) if self.lenient && fault.can_be_skipped() => self.skip(fault),
                Err(fault) => self.fail(fault.into_error(&self.paths)),
            }
        }
    }

    fn fail(&mut self, error: TraceError) {
        self.read = true;
        self.failure = Some(error);
    }

    fn skip(&mut self, fault: Fault) {
        self.skipped += 1;
        if self.skipped_first.len() < REMEMBERED {
            let error = fault.into_error(&self.paths);
            let whole = TraceError {
                remedy: String::new(),
                ..error
            }
            .to_string();
            self.skipped_first
                .push(whole.trim_end_matches("; ").to_owned());
        }
    }

    fn out_of_order(&self, entry: &Entry, late: &TooLate) -> TraceError {
        let message = format!(
            "the stamp {} ns is {} ns before one that was let go already",
            entry.at(),
            late.behind_ns
        );
        let window = self.order.window_ns();
        let remedy = if late.rows_were_full {
            "hold more operations for sorting (window_rows), or sort the trace".to_owned()
        } else {
            format!(
                "widen the window for sorting (--window, now {window} ns) to more than {} ns",
                window.saturating_add(late.behind_ns)
            )
        };
        self.at_entry(TraceCode::TraceOrder, entry, &message, &remedy)
    }

    /// Returns an error at the place of `entry`.
    pub fn at_entry(
        &self,
        code: TraceCode,
        entry: &Entry,
        message: &str,
        remedy: &str,
    ) -> TraceError {
        let path = self
            .paths
            .get(usize::from(entry.file))
            .map_or("", String::as_str);
        entry.place.of(TraceError::new(code, path, message, remedy))
    }

    /// Returns why the reading ended before the end of the trace, once.
    pub fn take_failure(&mut self) -> Option<TraceError> {
        self.failure.take()
    }

    /// Returns whether everything was read.
    pub fn is_read(&self) -> bool {
        self.read
    }

    /// Returns whether the next operation is at hand without reading.
    pub fn at_hand(&self) -> bool {
        self.source.at_hand()
    }

    /// Returns the names of the devices that were met so far.
    pub fn device_names(&self) -> &[String] {
        self.devices.names()
    }

    /// Returns the reorder window.
    pub fn window(&self) -> &OrderWindow {
        &self.order
    }

    /// Returns the account of the reading, with what was skipped here.
    pub fn account(&self) -> (Account, Vec<String>) {
        let mut account = self.source.account();
        account.skipped += self.skipped;
        let first = self.skipped_first.iter().cloned();
        let first = first.chain(account.skipped_first.take()).collect();
        (account, first)
    }
}
