"""From a study to its explained results: tests, or the loads of a search."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchwright.cli.rule_files import ruled
from benchwright.cli.search_answers import (
    limiting,
    recorded_answers,
    recorded_bindings,
    stored_criteria,
)
from benchwright.cli.stats_document import trials_of
from benchwright.cli.stats_inputs import read_inputs
from benchwright.cli.why_request import Asked
from benchwright.control.ramp.flow import THROUGHPUT, flow_of
from benchwright.finding.examine import examine
from benchwright.finding.explained import Explained, explained, explained_windows
from benchwright.finding.load_words import name_of
from benchwright.finding.observed import ObservedFiles
from benchwright.finding.profiled_search import (
    NextToAnswer,
    load_text,
    next_to_answer,
    note_of_answer,
    profiled,
)
from benchwright.finding.resources import limit_findings, window_findings
from benchwright.finding.rules import result_of
from benchwright.finding.sanity import with_sample
from benchwright.finding.windows import Window
from benchwright.model.errors import InputError, StudyError, argument_error
from benchwright.model.estimate import Summary
from benchwright.model.peak import Criterion
from benchwright.model.plan import StoppingRule, UntilPrecise
from benchwright.model.ramp import Axis
from benchwright.model.search import SearchTrial
from benchwright.stats.aggregate import TrialValues, columns, observe_trials
from benchwright.stats.describe import summarise
from benchwright.stats.rows import RowBook
from benchwright.stats.summaries import summarise_columns
from benchwright.study.contents import SEARCHES, searches_of
from benchwright.study.journal import Session, Study
from benchwright.study.parsers.api import ParsedInput
from benchwright.study.schema import JOURNAL

_LATE = frozenset(("generator-late", "load-not-offered", "generator-behind"))
_READS = (
    "bw why explains a study, which bw run keeps in ./bw-study, or a file of results: .res, "
    "CSV with a header line, GNU time output"
)


class Found(msgspec.Struct, frozen=True):
    """What there is to say of a study."""

    study: str
    session: int | None
    """Of a search; tests are of the last session, or of the one that was named."""
    results: tuple[Explained, ...]


def results_of(request: Asked) -> Found:
    """Return every result of what was asked for, explained.

    Raises StudyError where there is no study or it may not be read, InputError for an
    unknown test.
    """
    try:
        return _results(request)
    except PermissionError as error:
        message = f"cannot read {error.filename}: {error.strerror}"
        raise StudyError("study-unusable", message) from None


def _results(request: Asked) -> Found:
    place = Path(request.path)
    if not place.exists() and not any(mark in request.path for mark in "@:"):
        raise StudyError(
            "not-a-study",
            f"{request.path}: there is no such study",
            "give one: bw why DIR; bw run keeps its in ./bw-study",
        )
    if place.is_dir() and not (place / JOURNAL).is_file():
        raise StudyError(
            "not-a-study",
            f"{request.path} is not a study: it has no {JOURNAL}",
            "bw why explains what a study holds; bw run keeps its in ./bw-study",
        )
    if (place / JOURNAL).is_file():
        searched = _of_a_search(place)
        if searched is not None:
            return searched
    inputs = read_inputs([request.path], _READS)
    chosen = [one for one in inputs if not request.tests or _asked_for(one, request)]
    unknown = set(request.tests) - {name for one in inputs for name in _names(one)}
    if unknown:
        there = ", ".join(one.name for one in inputs)
        name = min(unknown)
        raise argument_error(
            "--test", name, f"there is no test {name!r}", f"there are: {there}"
        )
    return Found(request.path, None, tuple(_explained(one, request) for one in chosen))


def _names(one: ParsedInput) -> tuple[str, str]:
    return one.name, one.test or one.name


def _asked_for(one: ParsedInput, request: Asked) -> bool:
    return any(name in request.tests for name in _names(one))


def _explained(one: ParsedInput, request: Asked) -> Explained:
    trials = trials_of(one)
    book = RowBook(one.specs)
    observed = observe_trials(trials, book)
    findings = examine(
        one.name,
        trials,
        one.specs,
        rule=one.rule,
        stop=one.stop,
        observed=observed,
        deselected=one.deselected,
        claims=with_sample(request.claims, one.sample),
    )
    result = result_of(one.name, trials, observed, book, one.sample)
    return explained(
        one.name,
        trials,
        (*one.doubts, *findings, *ruled(request.rules, result)),
        figure=_figure(observed, book, one.rule),
        sample=one.sample,
        files=one.files,
    )


def _figure(
    observed: tuple[TrialValues, ...], book: RowBook, rule: StoppingRule | None
) -> Summary | None:
    """Return the quantity that a test is about: its rule's, the first declared, Elapsed."""
    found = columns(observed, book)
    about = [*(rule.metrics if isinstance(rule, UntilPrecise) else ()), *book.declared]
    names = [*about, "elapsed", *book.shown(found)]
    name = next((name for name in names if name in found), None)
    if name is None:
        return None
    (summary,) = summarise_columns(found, [name], book)
    return summary


def _of_a_search(place: Path) -> Found | None:
    """Return the explained loads of the study's last session, if that is a search."""
    with contextlib.closing(Study.open_to_read(place)) as study:
        sessions = study.sessions()
        if not sessions or sessions[-1].info.kind not in SEARCHES:
            return None
        session = sessions[-1]
        searches = searches_of(study, session.number)
        answers = recorded_answers(study, session)
        bindings = recorded_bindings(study, session)
    kind = session.info.kind
    criteria = _criteria(session)
    results: list[Explained] = []
    for name, trials, forgotten in searches:
        counted = [one for one in trials if one.number not in forgotten]
        best = next_to_answer(counted, answers[name])
        told = kind if len(searches) == 1 else name
        criterion = limiting(criteria, bindings.get(name, ""), counted)
        results += _loads(told, counted, best, place, criterion)
    return Found(str(place), session.number, tuple(results))


def _criteria(session: Session) -> tuple[Criterion, ...]:
    """Return what a search was about; nothing where this version does not read its spec."""
    try:
        return stored_criteria(session)
    except InputError:
        return ()


def _loads(
    name: str,
    trials: list[SearchTrial],
    best: NextToAnswer | None,
    study: Path,
    criterion: Criterion | None,
) -> Iterator[Explained]:
    """Yield each load of a search, the trials at one rate together, lowest rate first; `best`
    is the profiled one next to the answer."""
    by_rate: dict[float, list[SearchTrial]] = {}
    for one in trials:
        by_rate.setdefault(one.trial.rate, []).append(one)
    for rate in sorted(by_rate):
        same = by_rate[rate]
        in_users = same[0].probe.users is not None
        subject = f"{name} at {load_text(rate, in_users=in_users)}"
        windows = [
            Window(
                one.trial.use,
                (one.number,),
                any(mark in _LATE for mark in one.trial.marks),
            )
            for one in same
            if one.trial.use is not None
        ]
        findings = [
            *limit_findings(subject, windows, len(same)),
            *window_findings(subject, windows, len(same)),
            *note_of_answer(subject, same, best),
        ]
        found = explained_windows(subject, windows, len(same), findings)
        yield msgspec.structs.replace(
            found,
            sample=same[0].sample,
            figure=_figure_of_load(same, criterion),
            criterion=criterion,
            files=_files(same, study),
        )


def _files(trials: list[SearchTrial], study: Path) -> ObservedFiles:
    """Return where the flame graphs of these trials are."""
    graphs = (profile.svg for _, profile in profiled(trials))
    return ObservedFiles(tuple(str(study / graph) for graph in graphs))


def _figure_of_load(
    trials: list[SearchTrial], criterion: Criterion | None
) -> Summary | None:
    """Return what a search is about at one load: the value that its criterion limits, or the
    throughput of a ramp.

    A mean that is infinite is that of an operation that did not end while it was waited for.
    """
    if criterion is None:
        return _throughput(trials)
    found = [one.trial.values.get(criterion.key) for one in trials]
    values = [value for value in found if value is not None]
    name, label, unit = criterion.key, name_of(criterion), criterion.unit
    summary = summarise(name, values, label=label, unit=unit)
    if math.inf not in values:
        return summary
    return msgspec.structs.replace(
        summary, count=len(values), mean=math.inf, low=math.nan, high=math.nan
    )


def _throughput(trials: list[SearchTrial]) -> Summary | None:
    """Return the operations that ended well [1/s]; None where nothing tells them."""
    in_users = trials[0].probe.users is not None
    axis = Axis.USERS if in_users else Axis.RATE
    flows = [flow_of(one.trial, axis) for one in trials]
    rates = [flow.throughput for flow in flows if flow is not None]
    if not rates:
        return None
    return summarise(THROUGHPUT, rates, label="throughput", unit="1/s")
