//! The groups of a load's operations: those of each filament and of each target, and those of each label or kind among
//! them. Which group an operation belongs to, and what a worker records of each.
//!
//! Decision: an operation is recorded once, in the cell of its filament and its label; kinds have their own records in
//! a cell. The filament determines the target, so every group, the labels and the whole are sums of cells, which are
//! computed after the run. Rejected: a record of each group beside that of the whole, which costs the hot loop a second
//! set of histograms; and groups from the rows of `samples` after the run, which need memory and time in proportion
//! to its length.

use crate::routes::Routes;
use bw_model::{Kind, Operation};
use bw_record::recorder::{KindRecord, Recorder};
use bw_record::summary::{GroupSummary, KindSummary};
use bw_schedule::filaments::FilamentId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Records of kinds (1.6 MB each) that a worker has from the start, as many as one target may have labels. More of them
/// get their memory at their first operation: a trace of a thousand devices would need gigabytes that it hardly uses.
const AHEAD: usize = crate::labels::MOST;

/// One entry of the workload's list, as [`Groups::new`] takes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupedFilament {
    /// Its name, or its number.
    pub name: String,
    /// The index of its target.
    pub target: u16,
    /// The kinds of operations that it is expected to issue.
    pub kinds: Vec<Kind>,
}

/// The cells of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Groups {
    filaments: Vec<GroupedFilament>,
    /// The entry of the list to which a filament belongs.
    entries: Routes,
    /// Where the cells of each entry are.
    places: Vec<CellPlaces>,
    cells: Vec<Cell>,
    /// The names of the targets; of one target none.
    targets: Vec<String>,
    labels: TargetLabels,
}

/// The labels of each target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TargetLabels {
    /// The different labels of each target.
    names: Vec<Vec<String>>,
    /// By target, for each of its requests the index of its label; a target without labels has none.
    of: Vec<Arc<[u16]>>,
}

/// The cells of an entry of the list, as the hot loop needs them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CellPlaces {
    first: usize,
    /// For each request of its target the number of its cell; empty: the first has all operations.
    of_requests: Arc<[u16]>,
    /// The cell of operations without a label.
    last: usize,
}

/// What is recorded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    /// The entry of the list.
    entry: usize,
    /// The index among the labels of its target; None: operations without a label.
    label: Option<usize>,
}

impl TargetLabels {
    /// Returns the labels of this number of targets; those that `targets` does not have have no labels.
    fn new(targets: &[Vec<String>], count: usize) -> Self {
        let mut labels = Self::default();
        let none = Vec::new();
        for requests in targets.iter().chain(std::iter::repeat(&none)).take(count) {
            let mut names: Vec<String> = Vec::new();
            let index = |name: &String| {
                let place = names.iter().position(|other| other == name);
                let place = place.unwrap_or_else(|| {
                    names.push(name.clone());
                    names.len() - 1
                });
                // At most MOST: the plan of the target checks it.
                u16::try_from(place).unwrap_or(u16::MAX)
            };
            labels.of.push(requests.iter().map(index).collect());
            labels.names.push(names);
        }
        labels
    }

    fn names(&self, target: u16) -> &[String] {
        self.names
            .get(usize::from(target))
            .map_or(&[], |names| names)
    }
}

impl Groups {
    /// Returns the groups of these entries of a workload's list, whose filaments have the ids `ids`. `targets` are the
    /// names of the targets, empty if there is one; `labels` are those of the requests of each target: requests with
    /// the same label count together.
    #[must_use]
    pub(crate) fn new(
        filaments: Vec<GroupedFilament>,
        ids: &[std::ops::Range<FilamentId>],
        targets: Vec<String>,
        labels: &[Vec<String>],
    ) -> Self {
        let labels = TargetLabels::new(labels, targets.len().max(1));
        let (mut places, mut cells) = (Vec::new(), Vec::new());
        for (entry, filament) in filaments.iter().enumerate() {
            places.push(CellPlaces {
                first: cells.len(),
                of_requests: Arc::clone(&labels.of[usize::from(filament.target)]),
                last: cells.len() + labels.names(filament.target).len(),
            });
            let each = 0..labels.names(filament.target).len();
            let label = each.map(Some).chain([None]);
            cells.extend(label.map(|label| Cell { entry, label }));
        }
        // A workload has at most 100 million filaments, and far fewer entries.
        let numbers: Vec<u16> = (0..filaments.len()).map(|entry| entry as u16).collect();
        Self {
            entries: Routes::new(ids, &numbers),
            filaments,
            places,
            cells,
            targets,
            labels,
        }
    }

    /// Returns the cell of an operation of a filament.
    #[inline]
    fn cell(&self, filament: FilamentId, operation: &Operation) -> usize {
        let places = &self.places[usize::from(self.entries.part_of(filament))];
        if places.of_requests.is_empty() {
            return places.first;
        }
        // Of an exchange it is the index of the request.
        let request = usize::try_from(operation.row_offset()).ok();
        let label = request.and_then(|request| places.of_requests.get(request));
        label.map_or(places.last, |label| places.first + usize::from(*label))
    }

    /// Returns the kinds that a cell is expected to have.
    fn expected(&self, cell: Cell) -> &[Kind] {
        let filament = &self.filaments[cell.entry];
        match cell.label {
            Some(_) => &[Kind::Exchange],
            None if self.labels.names(filament.target).is_empty() => &filament.kinds,
            None => &[],
        }
    }

    /// Returns what the operations of an entry are called: its labels, or its kinds.
    fn operations(&self, entry: usize) -> BTreeSet<&str> {
        let filament = &self.filaments[entry];
        let labels = self.labels.names(filament.target);
        if labels.is_empty() {
            filament.kinds.iter().map(|kind| kind.name()).collect()
        } else {
            labels.iter().map(String::as_str).collect()
        }
    }

    fn label(&self, cell: Cell) -> Option<&str> {
        let names = self.labels.names(self.filaments[cell.entry].target);
        cell.label.map(|label| names[label].as_str())
    }

    /// Returns the groups of a load: each filament, and each target that several of them use. None where there is one
    /// filament: its group is the whole.
    fn all(&self) -> Vec<Group> {
        let entries = 0..self.filaments.len();
        if entries.len() < 2 {
            return Vec::new();
        }
        let target_of = |entry: usize| self.filaments[entry].target;
        let of_filament = |entry: usize| Group {
            filament: Some(self.filaments[entry].name.clone()),
            target: self.targets.get(usize::from(target_of(entry))).cloned(),
            entries: vec![entry],
        };
        let of_target = |(target, name): (u16, &String)| Group {
            filament: None,
            target: Some(name.clone()),
            entries: entries
                .clone()
                .filter(|entry| target_of(*entry) == target)
                .collect(),
        };
        let targets = (0..).zip(&self.targets).map(of_target);
        let shared = targets.filter(|group| group.entries.len() > 1);
        entries.clone().map(of_filament).chain(shared).collect()
    }
}

/// Operations that the result shows together.
struct Group {
    filament: Option<String>,
    target: Option<String>,
    entries: Vec<usize>,
}

/// What one worker, or several merged, recorded of each cell.
#[derive(Clone, Debug)]
pub(crate) struct GroupRecords {
    /// Where there are several cells; None: there is one.
    groups: Option<Arc<Groups>>,
    cells: Box<[Recorder]>,
}

impl GroupRecords {
    /// Returns an empty record of one cell.
    pub(crate) fn one() -> Self {
        Self {
            groups: None,
            cells: vec![Recorder::new()].into(),
        }
    }

    /// Returns empty records with memory for the expected kinds and this number of chains, to which it writes: the run
    /// has no page faults for it.
    pub(crate) fn new(groups: Arc<Groups>, chains: usize) -> Self {
        let mut ahead = AHEAD;
        let record = |cell: &Cell| {
            let mut record = Recorder::new();
            let kinds = groups.expected(*cell);
            let known = kinds.len().min(ahead);
            ahead -= known;
            record.expect(kinds[..known].iter().copied(), 0);
            record
        };
        let mut cells: Box<[Recorder]> = groups.cells.iter().map(record).collect();
        cells[0].expect([], chains);
        cells.iter_mut().for_each(Recorder::touch);
        Self {
            // The groups of one cell are the whole.
            groups: (cells.len() > 1).then_some(groups),
            cells,
        }
    }

    /// Returns the record of an operation of a filament.
    #[inline]
    pub(crate) fn of(&mut self, filament: FilamentId, operation: &Operation) -> &mut Recorder {
        let groups = self.groups.as_ref();
        let cell = groups.map_or(0, |groups| groups.cell(filament, operation));
        &mut self.cells[cell]
    }

    /// Returns the record of the chains.
    pub(crate) fn chains(&mut self) -> &mut Recorder {
        &mut self.cells[0]
    }

    /// Returns the records of all workers, of which there is at least one.
    pub(crate) fn merged<'a>(mut workers: impl Iterator<Item = &'a Self>) -> Self {
        let mut all = workers.next().cloned().unwrap_or_else(Self::one);
        for worker in workers {
            for (mine, theirs) in all.cells.iter_mut().zip(&worker.cells) {
                mine.merge(theirs);
            }
        }
        all
    }

    /// Returns the record of all operations.
    pub(crate) fn whole(&self) -> Recorder {
        let mut all = Recorder::new();
        self.cells.iter().for_each(|cell| all.merge(cell));
        all
    }

    /// Returns the figures of each label; None if there are no labels.
    pub(crate) fn labels(&self) -> Option<BTreeMap<String, KindSummary>> {
        let groups = self.groups.as_ref()?;
        let mut labels: BTreeMap<&str, Recorder> = BTreeMap::new();
        for (cell, record) in groups.cells.iter().zip(&self.cells) {
            if let Some(label) = groups.label(*cell) {
                labels.entry(label).or_default().merge(record);
            }
        }
        let summary = |(label, record): (&str, Recorder)| {
            (label.to_owned(), KindSummary::from(&record.all()))
        };
        (!labels.is_empty()).then(|| labels.into_iter().map(summary).collect())
    }

    /// Returns `groups` of the protocol: of each filament and of each target with several of them the figures of all
    /// its operations, and of each label or kind if there may be several. Empty where there is one filament.
    pub(crate) fn summaries(&self) -> Vec<GroupSummary> {
        let Some(groups) = &self.groups else {
            return Vec::new();
        };
        let all = groups.all();
        all.iter()
            .flat_map(|group| self.figures(groups, group))
            .collect()
    }

    fn figures(&self, groups: &Groups, group: &Group) -> Vec<GroupSummary> {
        let mut all = KindRecord::default();
        let mut each: BTreeMap<&str, KindRecord> = BTreeMap::new();
        let cells = groups.cells.iter().zip(&self.cells);
        for (cell, record) in cells.filter(|(cell, _)| group.entries.contains(&cell.entry)) {
            for kind in Kind::ALL {
                if let Some(found) = record.kind(kind).filter(|found| found.has_any()) {
                    all.merge(found);
                    let name = groups.label(*cell).unwrap_or_else(|| kind.name());
                    each.entry(name).or_default().merge(found);
                }
            }
        }
        let entries = group.entries.iter();
        let known: BTreeSet<&str> = entries
            .flat_map(|entry| groups.operations(*entry))
            .collect();
        let row = |operation: Option<&str>, figures: &KindRecord| GroupSummary {
            filament: group.filament.clone(),
            target: group.target.clone(),
            operation: operation.map(str::to_owned),
            figures: figures.into(),
        };
        // Whether there are rows of operations depends on the workload alone: the groups of several engines are merged.
        let only = known.first().filter(|_| known.len() == 1).copied();
        let mut rows = vec![row(only, &all)];
        if only.is_none() {
            rows.extend(each.iter().map(|(name, figures)| row(Some(name), figures)));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bw_model::{ExchangeAddress, Nanos};
    use bw_record::recorder::OperationOutcome;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn filament(name: &str, target: u16, kinds: &[Kind]) -> GroupedFilament {
        GroupedFilament {
            name: name.to_owned(),
            target,
            kinds: kinds.to_vec(),
        }
    }

    fn exchange(request: u32) -> Operation {
        let address = ExchangeAddress { request, number: 9 };
        Operation::new(Kind::Exchange, address.pack(), 0)
    }

    fn outcome(operation: Operation, took: u64, result: i64) -> OperationOutcome {
        OperationOutcome {
            operation,
            issued: Nanos(1),
            completed: Nanos(took),
            arrived: Nanos(took),
            result,
            held_since: None,
        }
    }

    /// Two entries on the target `a`, the second of two users; one on `b`.
    fn groups() -> Arc<Groups> {
        let filaments = vec![
            filament("pages", 0, &[Kind::Read, Kind::Write]),
            filament("scan", 0, &[Kind::Read]),
            filament("log", 1, &[Kind::Write]),
        ];
        let ids = [0..1, 1..3, 3..4];
        let none = [vec![], vec![]];
        Arc::new(Groups::new(filaments, &ids, texts(&["a", "b"]), &none))
    }

    fn rows(records: &GroupRecords) -> Vec<String> {
        let text = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
        let rows = records.summaries();
        let row = |one: &GroupSummary| {
            let figures = &one.figures;
            let counts = (
                figures.operations,
                figures.lost.all(),
                figures.response_ns.max,
            );
            let (of, on) = (text(&one.filament), text(&one.target));
            format!("{of} {on} {} {counts:?}", text(&one.operation))
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn each_operation_is_in_the_groups_of_its_filament_and_its_target() {
        let groups = groups();
        let mut workers = [0, 1].map(|_| GroupRecords::new(Arc::clone(&groups), 0));
        let (read, write) = (
            Operation::new(Kind::Read, 0, 512),
            Operation::new(Kind::Write, 0, 512),
        );
        for (worker, stream, operation, took) in [
            (0, 0, read, 5),
            (1, 0, write, 7),
            (0, 1, read, 9),
            (1, 2, read, 3),
            (0, 3, write, 40),
        ] {
            let record = workers[worker].of(stream, &operation);
            record.record(&outcome(operation, took, 512));
        }
        workers[1].of(3, &write).lost_mut(Kind::Write).waiting += 1;
        let all = GroupRecords::merged(workers.iter());
        assert_eq!(
            rows(&all),
            [
                "pages a - (2, 0, Some(7))",
                "pages a read (1, 0, Some(5))",
                "pages a write (1, 0, Some(7))",
                "scan a read (2, 0, Some(9))",
                "log b write (1, 1, Some(40))",
                "- a - (4, 0, Some(9))",
                "- a read (3, 0, Some(9))",
                "- a write (1, 0, Some(7))",
            ]
        );
        let whole = all.whole().all();
        assert_eq!((whole.operations, whole.lost.all()), (5, 1));
        assert_eq!(all.labels(), None);
    }

    #[test]
    fn one_filament_is_no_group() {
        let one = vec![filament("1", 0, &[Kind::Read])];
        let groups = Groups::new(one, std::slice::from_ref(&(0..64)), vec![], &[vec![]]);
        let mut records = GroupRecords::new(Arc::new(groups), 0);
        let read = Operation::new(Kind::Read, 0, 512);
        records.of(63, &read).record(&outcome(read, 5, 512));
        assert_eq!(rows(&records), Vec::<String>::new());
        assert_eq!(records.whole().all().operations, 1);
    }

    #[test]
    fn a_group_that_only_failed_or_never_started_is_there() {
        let mut records = GroupRecords::new(groups(), 0);
        let write = Operation::new(Kind::Write, 0, 512);
        records.of(3, &write).record(&outcome(write, 5, -5));
        assert_eq!(rows(&records)[2], "log b write (1, 0, None)");
        assert_eq!(rows(&records)[0], "pages a - (0, 0, None)");
    }

    #[test]
    fn requests_with_the_same_label_count_together() {
        let exchanges = [Kind::Exchange];
        let filaments = ["x", "y", "z"].into_iter().zip([0, 1, 2]);
        let filaments = filaments.map(|(name, target)| filament(name, target, &exchanges));
        let labels = [texts(&["get", "put", "get"]), vec![], texts(&["put"])];
        let targets = texts(&["fast", "plain", "slow"]);
        let ids = [0..1, 1..2, 2..3];
        let groups = Arc::new(Groups::new(filaments.collect(), &ids, targets, &labels));
        let mut records = GroupRecords::new(groups, 0);
        for (stream, request, result) in [
            (0, 0, 5),
            (0, 1, 6),
            (0, 2, 7),
            (1, 0, 8),
            (2, 0, -10_404),
            (0, 3, 9),
        ] {
            let operation = exchange(request);
            let record = records.of(stream, &operation);
            record.record(&outcome(operation, 4, result));
        }
        let labels = records.labels().unwrap();
        let figures = labels
            .iter()
            .map(|(name, one)| (name.as_str(), one.operations, one.bytes));
        assert_eq!(figures.collect::<Vec<_>>(), [("get", 2, 12), ("put", 2, 6)]);
        assert_eq!(labels["put"].errors["HTTP 404"], 1);
        let operations = rows(&records);
        assert_eq!(
            operations,
            [
                "x fast - (4, 0, Some(4))",
                "x fast exchange (1, 0, Some(4))",
                "x fast get (2, 0, Some(4))",
                "x fast put (1, 0, Some(4))",
                "y plain exchange (1, 0, Some(4))",
                "z slow put (1, 0, None)",
            ]
        );
    }

    #[test]
    fn memory_is_for_a_hundred_records_and_the_others_get_theirs_when_they_are_used() {
        let names = (0..90).map(|number| number.to_string());
        let filaments: Vec<_> = names
            .map(|name| filament(&name, 0, &[Kind::Read, Kind::Write]))
            .collect();
        let ids: Vec<_> = (0..90).map(|number| number..number + 1).collect();
        let groups = Arc::new(Groups::new(filaments, &ids, vec![], &[vec![]]));
        let mut records = GroupRecords::new(groups, 0);
        let known = |records: &GroupRecords, cell: usize| {
            let kinds = [Kind::Read, Kind::Write].into_iter();
            kinds
                .filter(|kind| records.cells[cell].kind(*kind).is_some())
                .count()
        };
        assert_eq!([49, 50, 89].map(|cell| known(&records, cell)), [2, 0, 0]);
        let read = Operation::new(Kind::Read, 0, 512);
        records.of(89, &read).record(&outcome(read, 5, 512));
        assert_eq!(known(&records, 89), 1);
    }
}
