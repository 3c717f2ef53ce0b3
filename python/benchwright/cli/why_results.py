"""Reads the stored results that `bw why` explains, each with its main quantity."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchwright.cli.stats_inputs import read_inputs
from benchwright.cli.why import WhyRequest
from benchwright.core.errors import InputError, StudyError, argument_error
from benchwright.core.ramp import RampAxis, RampResult
from benchwright.core.results import Summary
from benchwright.core.search import Criterion, PeakAnswer, SearchTrial
from benchwright.core.search_text import criterion_name, load_value_text
from benchwright.decide.ramp.levels import THROUGHPUT_KEY, trial_throughput
from benchwright.decide.stopping import main_metric, statistic_label
from benchwright.findings.examine import Questions
from benchwright.findings.explanation import Explanation, explain_test, explain_windows
from benchwright.findings.limiter import WatchedWindow
from benchwright.findings.observed import ObservedFiles
from benchwright.findings.resources import limit_findings, window_findings
from benchwright.findings.search_profiles import (
    ProfileNearestAnswer,
    answer_load,
    answer_profile_note,
    profile_nearest_answer,
    profiled_trials,
)
from benchwright.report.answer import estimate_of
from benchwright.run.ledger import Ledger
from benchwright.run.search import recorded_result, search_experiment
from benchwright.stats.aggregate import (
    TrialValues,
    metric_columns,
    observe_trials,
    summarise,
    summarise_columns,
)
from benchwright.stats.metric_rules import MetricRules
from benchwright.study.contents import SEARCH_KINDS, searches_of
from benchwright.study.directory import JOURNAL
from benchwright.study.findings import input_findings
from benchwright.study.journal import StoredSession, Study
from benchwright.study.parsers.api import ParsedInput, trials_of

# -- The criterion and the answer of each search of a stored session -------------------


def recorded_answers(study: Study, session: StoredSession) -> dict[str, float | None]:
    """Return the load of each search's answer, by the search's name; None without an answer.

    The unit is 1/s or users. Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    ledger = Ledger(study, session.number)

    def recorded(key: str) -> PeakAnswer | RampResult | None:
        if session.info.kind == "ramp":
            return recorded_result(ledger, RampResult, key)
        return recorded_result(ledger, PeakAnswer, key)

    searches = searches_of(study, session.number)
    return {search.name: answer_load(recorded(search.key)) for search in searches}


def recorded_bindings(study: Study, session: StoredSession) -> dict[str, str]:
    """Return the key of the criterion that limited each search's answer, by the search's name."""
    ledger = Ledger(study, session.number)
    found: dict[str, str] = {}
    if session.info.kind == "ramp":
        return found
    for search in searches_of(study, session.number):
        answer = recorded_result(ledger, PeakAnswer, search.key)
        found[search.name] = "" if answer is None else answer.first.binding
    return found


def limiting(
    criteria: Sequence[Criterion], binding: str, trials: Sequence[SearchTrial]
) -> Criterion | None:
    """Return the criterion whose value is shown for a load; None if there are no criteria.

    It is the one that limited the answer, else the first that a trial violates, else the first.
    """
    if not criteria:
        return None
    named = [criterion for criterion in criteria if criterion.key == binding]
    broken = [
        criterion
        for criterion in criteria
        for trial in trials
        if (value := trial.trial.values.get(criterion.key)) is not None
        and not criterion.holds(value)
    ]
    return next(iter((*named, *broken)), criteria[0])


# -- From a study to its explained results: tests, or the loads of a search ------------

_LATE = frozenset(("generator-late", "load-not-offered", "generator-behind"))
_READS = (
    "bw why explains a study, which bw run stores in ./bw-study, or a file of results: .res, "
    "CSV with a header line, GNU time output"
)


class ExplainedResult(msgspec.Struct, frozen=True):
    """The explained results of a study or file."""

    study: str
    session: int | None
    """Number of the search's session; None for tests."""
    results: tuple[Explanation, ...]


def results_of(request: WhyRequest) -> ExplainedResult:
    """Return the explanations of all requested results.

    Raises StudyError if there is no study or it cannot be read, InputError for an unknown test.
    """
    try:
        return _results(request)
    except PermissionError as error:
        message = f"cannot read {error.filename}: {error.strerror}"
        raise StudyError("study-unusable", message) from None


def _results(request: WhyRequest) -> ExplainedResult:
    place = Path(request.path)
    if not place.exists() and not any(mark in request.path for mark in "@:"):
        raise StudyError(
            "not-a-study",
            f"{request.path}: there is no such study",
            "give one: bw why DIR; bw run stores its own in ./bw-study",
        )
    if place.is_dir() and not (place / JOURNAL).is_file():
        raise StudyError(
            "not-a-study",
            f"{request.path} is not a study: it has no {JOURNAL}",
            "bw why explains what a study has; bw run stores its own in ./bw-study",
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
    return ExplainedResult(
        request.path, None, tuple(_explained(one, request) for one in chosen)
    )


def _names(parsed_input: ParsedInput) -> tuple[str, str]:
    return parsed_input.name, parsed_input.test or parsed_input.name


def _asked_for(parsed_input: ParsedInput, request: WhyRequest) -> bool:
    return any(name in request.tests for name in _names(parsed_input))


def _explained(parsed_input: ParsedInput, request: WhyRequest) -> Explanation:
    trials, book = trials_of(parsed_input), MetricRules(parsed_input.specs)
    observed = observe_trials(trials, book)
    questions = Questions(claims=request.claims, rules=request.rules)
    return explain_test(
        parsed_input.name,
        trials,
        (
            *parsed_input.session_findings,
            *input_findings(parsed_input, questions, observed),
        ),
        figure=_figure(observed, book, parsed_input),
        sample=parsed_input.sample,
        files=parsed_input.files,
    )


def _figure(
    observed: tuple[TrialValues, ...],
    rules: MetricRules,
    parsed_input: ParsedInput,
) -> Summary | None:
    """Return a test's main quantity, with the interval that all reports show for it."""
    found, rule = metric_columns(observed, rules), parsed_input.rule
    name = main_metric(rule, rules.declared, found)
    if name is None:
        return None
    (summary,) = summarise_columns(found, [name], rules)
    shown = estimate_of(rule, parsed_input.stop, found[name], rules)
    label = statistic_label(rule, name)
    return msgspec.structs.replace(
        summary,
        label=summary.label if label == name else label,
        mean=shown.value,
        low=shown.low,
        high=shown.high,
        half_width=shown.half_width,
        confidence=shown.confidence,
    )


def _of_a_search(place: Path) -> ExplainedResult | None:
    """Return the explained loads of the study's last session, if that is a search."""
    with contextlib.closing(Study.open_to_read(place)) as study:
        sessions = study.sessions()
        if not sessions or sessions[-1].info.kind not in SEARCH_KINDS:
            return None
        session = sessions[-1]
        searches = searches_of(study, session.number)
        answers = recorded_answers(study, session)
        bindings = recorded_bindings(study, session)
    kind = session.info.kind
    criteria = _criteria(session)
    results: list[Explanation] = []
    for search in searches:
        counted = [
            trial for trial in search.trials if trial.number not in search.forgotten
        ]
        best = profile_nearest_answer(counted, answers[search.name])
        subject = kind if len(searches) == 1 else search.name
        criterion = limiting(criteria, bindings.get(search.name, ""), counted)
        results += _loads(subject, counted, best, place, criterion)
    return ExplainedResult(str(place), session.number, tuple(results))


def _criteria(session: StoredSession) -> tuple[Criterion, ...]:
    """Return a search's criteria; none for a ramp, or if this version cannot read the spec."""
    if session.info.kind == "ramp":
        return ()
    try:
        return search_experiment(session.info).criteria
    except InputError:
        return ()


def _loads(
    name: str,
    trials: list[SearchTrial],
    best: ProfileNearestAnswer | None,
    study: Path,
    criterion: Criterion | None,
) -> Iterator[Explanation]:
    """Yield an explanation for each load of a search, lowest first.

    `best`: the profiled trial nearest to the answer.
    """
    by_rate: dict[float, list[SearchTrial]] = {}
    for trial in trials:
        by_rate.setdefault(trial.trial.rate, []).append(trial)
    for rate in sorted(by_rate):
        same = by_rate[rate]
        in_users = same[0].probe.users is not None
        subject = f"{name} at {load_value_text(rate, in_users=in_users)}"
        windows = [
            WatchedWindow(
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
            *answer_profile_note(subject, same, best),
        ]
        found = explain_windows(subject, windows, len(same), findings)
        yield msgspec.structs.replace(
            found,
            sample=same[0].sample,
            figure=_figure_of_load(same, criterion),
            criterion=criterion,
            files=_files(same, study),
        )


def _files(trials: list[SearchTrial], study: Path) -> ObservedFiles:
    """Return the paths of these trials' flame graphs."""
    graphs = (profile.svg for _, profile in profiled_trials(trials))
    return ObservedFiles(tuple(str(study / graph) for graph in graphs))


def _figure_of_load(
    trials: list[SearchTrial], criterion: Criterion | None
) -> Summary | None:
    """Return the main quantity at one load: the criterion's value, or a ramp's throughput.

    An infinite mean means that an operation did not complete in the time that was waited.
    """
    if criterion is None:
        return _throughput(trials)
    found = [trial.trial.values.get(criterion.key) for trial in trials]
    values = [value for value in found if value is not None]
    name, label, unit = criterion.key, criterion_name(criterion), criterion.unit
    summary = summarise(name, values, label=label, unit=unit)
    if math.inf not in values:
        return summary
    return msgspec.structs.replace(
        summary, count=len(values), mean=math.inf, low=math.nan, high=math.nan
    )


def _throughput(trials: list[SearchTrial]) -> Summary | None:
    """Return the rate of successful operations [1/s]; None if no source reports it."""
    in_users = trials[0].probe.users is not None
    axis = RampAxis.USERS if in_users else RampAxis.RATE
    flows = [trial_throughput(trial.trial, axis) for trial in trials]
    rates = [flow.throughput for flow in flows if flow is not None]
    if not rates:
        return None
    return summarise(THROUGHPUT_KEY, rates, label="throughput", unit="1/s")
