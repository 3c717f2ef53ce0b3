//! The labels of requests: which of them each operation has, and what a worker records of each.
//!
//! Decision: the request is in the operation (`bw_model::ExchangeAddress`), so its label is known when it is emitted, and
//! an index into a table is all that the hot loop needs. A label has a recorder of its own, with all its histograms
//! (1.6 MB), from the start. Rejected: labels from the rows of `samples` after the run, which need memory and time in
//! proportion to its length.

use bw_model::{EngineError, Kind, Operation};
use bw_record::recorder::{OperationOutcome, Recorder};
use bw_record::summary::KindSummary;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of labels of a load.
const MOST: usize = 100;

/// Checks the labels of the commands or statements of a target: none, or one for each.
///
/// # Errors
/// `labels`: there are others, or too many different ones.
pub(crate) fn check(labels: &[String], requests: usize) -> Result<(), EngineError> {
    let refused = |message, remedy: &str| {
        Err(EngineError::request("labels", message, remedy).about("target.labels"))
    };
    if !labels.is_empty() && labels.len() != requests {
        let message = format!("{} labels for {requests} operations", labels.len());
        return refused(message, "give each operation a label, or none");
    }
    match too_many(labels) {
        Some(message) => refused(message, "give similar requests the same label"),
        None => Ok(()),
    }
}

/// Returns the message about labels of which too many are different; None if they are not.
pub(crate) fn too_many<'a>(labels: impl IntoIterator<Item = &'a String>) -> Option<String> {
    let different: BTreeSet<&String> = labels.into_iter().collect();
    let count = different.len();
    (count > MOST).then(|| format!("{count} labels: at most {MOST}"))
}

/// The labels of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels {
    names: Vec<String>,
    /// By target, for each of its requests the index of its label; a target without labels has none.
    of: Vec<Vec<u16>>,
}

impl Labels {
    /// Returns the labels of the requests of each target, of which there is one, or several; requests with the same label
    /// count together. None if there are no labels.
    #[must_use]
    pub(crate) fn new(targets: &[Vec<String>]) -> Option<Self> {
        let mut labels = Self::default();
        for requests in targets {
            let of = requests.iter().map(|name| labels.index(name)).collect();
            labels.of.push(of);
        }
        (!labels.names.is_empty()).then_some(labels)
    }

    fn index(&mut self, name: &str) -> u16 {
        let place = self.names.iter().position(|other| other == name);
        let place = place.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        // At most MOST for each of at most 1024 targets: the plans of the targets check it.
        u16::try_from(place).unwrap_or(u16::MAX)
    }

    /// Returns the label of an operation on the target with this index.
    #[inline]
    #[must_use]
    pub(crate) fn of(&self, target: u16, operation: &Operation) -> Option<usize> {
        // Of an exchange it is the index of the request.
        let request = usize::try_from(operation.row_offset()).ok()?;
        let requests = self.of.get(usize::from(target))?;
        requests.get(request).map(|label| usize::from(*label))
    }
}

/// What one worker recorded of each label.
#[derive(Clone, Debug)]
pub(crate) struct LabelRecords {
    labels: Arc<Labels>,
    records: Box<[Recorder]>,
}

impl LabelRecords {
    /// Returns empty records with all their memory, to which it writes: the run has no page faults for it.
    pub(crate) fn new(labels: Arc<Labels>) -> Self {
        let record = |_: &String| {
            let mut record = Recorder::new();
            record.expect([Kind::Exchange], 0);
            record.touch();
            record
        };
        Self {
            records: labels.names.iter().map(record).collect(),
            labels,
        }
    }

    /// Records an operation that ended.
    #[inline]
    pub(crate) fn record(&mut self, target: u16, outcome: &OperationOutcome) {
        if let Some(label) = self.labels.of(target, &outcome.operation) {
            self.records[label].record(outcome);
        }
    }

    /// Returns the record of an operation's label.
    pub(crate) fn of(&mut self, target: u16, operation: &Operation) -> Option<&mut Recorder> {
        let label = self.labels.of(target, operation)?;
        self.records.get_mut(label)
    }

    /// Adds what another worker recorded.
    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.records.iter_mut().zip(&other.records) {
            mine.merge(theirs);
        }
    }

    /// Returns the figures of each label of all workers; None if there are no labels.
    pub(crate) fn summaries<'a>(
        mut workers: impl Iterator<Item = &'a Self>,
    ) -> Option<BTreeMap<String, KindSummary>> {
        let mut all = workers.next()?.clone();
        workers.for_each(|worker| all.merge(worker));
        let summary = |record: &Recorder| KindSummary::from(&record.all());
        let summaries = all.records.iter().map(summary);
        Some(all.labels.names.iter().cloned().zip(summaries).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_model::{ExchangeAddress, Nanos};

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn exchange(request: u32) -> Operation {
        let address = ExchangeAddress { request, number: 9 };
        Operation::new(Kind::Exchange, address.pack(), 0)
    }

    #[test]
    fn requests_with_the_same_label_count_together() {
        let targets = [texts(&["get", "put", "get"]), vec![], texts(&["put"])];
        let labels = Labels::new(&targets).unwrap();
        let of = |target, request| labels.of(target, &exchange(request));
        assert_eq!([of(0, 0), of(0, 1), of(0, 2)], [Some(0), Some(1), Some(0)]);
        assert_eq!([of(0, 3), of(1, 0), of(2, 0)], [None, None, Some(1)]);
        assert_eq!(Labels::new(&[vec![], vec![]]), None);
    }

    #[test]
    fn each_label_has_the_operations_of_its_requests() {
        let labels = Arc::new(Labels::new(&[texts(&["get", "put"])]).unwrap());
        let mut records = [
            LabelRecords::new(Arc::clone(&labels)),
            LabelRecords::new(labels),
        ];
        for (worker, request, result) in [(0, 0, 5), (1, 0, 6), (1, 1, -10_404)] {
            records[worker].record(
                0,
                &OperationOutcome {
                    operation: exchange(request),
                    issued: Nanos(1),
                    completed: Nanos(7),
                    arrived: Nanos(7),
                    result,
                    held_since: None,
                },
            );
        }
        let summaries = LabelRecords::summaries(records.iter()).unwrap();
        let figures: Vec<_> = summaries
            .iter()
            .map(|(name, one)| {
                (
                    name.as_str(),
                    one.operations,
                    one.bytes,
                    one.response_ns.max,
                )
            })
            .collect();
        assert_eq!(figures, [("get", 2, 11, Some(7)), ("put", 1, 0, None)]);
        assert_eq!(summaries["put"].errors["HTTP 404"], 1);
    }
}
