"""What limited and what disturbed each load of a ramp, a peak search or a surface, from a stored
session, in the words of `bw why`; and what the reports of all kinds of searches have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchwright.core.criterion import Criterion, criterion_name
from benchwright.core.errors import InputError
from benchwright.core.resource_use import ResourceUse
from benchwright.core.results import Finding, Severity, Summary
from benchwright.features.load.plan import LoadTrial
from benchwright.features.search.documents import (
    ProfileNearestAnswer,
    answer_load,
    answer_profile_note,
    profile_nearest_answer,
    profiled_trials,
)
from benchwright.features.search.experiments import search_experiment
from benchwright.features.search.keys import searches_of
from benchwright.features.search.ramp.levels import THROUGHPUT_KEY, RampLevel, measured_levels
from benchwright.features.search.ramp.types import RampAxis, RampGoal, RampResult
from benchwright.features.search.session import recorded_result
from benchwright.features.search.text import load_value_text
from benchwright.features.search.types import PeakAnswer, SearchTrial
from benchwright.findings.explanation import Explanation, explain_windows
from benchwright.findings.limit import StatedCapacity
from benchwright.findings.limiter import WatchedWindow
from benchwright.findings.resources import limit_findings, window_findings
from benchwright.findings.result import ObservedFiles
from benchwright.report.answer import finding_groups
from benchwright.run.ledger import Ledger
from benchwright.stats.aggregate import summarise
from benchwright.study.journal import SessionInfo
from benchwright.views.why import cause_text


class DisturbedLoads(msgspec.Struct, frozen=True):
    """What disturbed the loads of a search, for the search's own report."""

    lines: tuple[str, ...] = ()
    """A line for each cause, the worst first, and what it means for the result."""
    findings: tuple[Finding, ...] = ()


def disturbed_loads(loads: Sequence[Explanation]) -> DisturbedLoads:
    """Return the causes of `bw why` that are warnings; a limit that a benchmark may intend to
    reach is a note and left out."""
    named = [
        (load.name, cause)
        for load in loads
        for cause in load.causes
        if cause.severity is not Severity.NOTE
    ]
    if not named:
        return DisturbedLoads()
    groups = finding_groups(named)
    lines = [cause_text(group, len(loads), "load") for group in groups]
    meaning = (
        "the result and its interval hold for the machine as it was; bw why prints each "
        "load and what to do"
    )
    return DisturbedLoads((*lines, meaning), tuple(cause for _, cause in named))


class SearchReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is reported of a search of any kind, which may be incomplete."""

    status: str
    """How it ended, or `interrupted`."""
    detail: str
    trials: tuple[SearchTrial, ...] = ()
    bench_findings: tuple[Finding, ...] = ()
    """Findings about the workbench, independent of what was measured."""
    disturbed: DisturbedLoads = DisturbedLoads()

    @property
    def own_findings(self) -> Sequence[Finding]:
        """The findings about what was measured."""
        raise NotImplementedError

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every finding once, those of the search first."""
        found = (*self.own_findings, *self.disturbed.findings, *self.bench_findings)
        return tuple(dict.fromkeys(found))

    @property
    def load_s(self) -> float:
        """Time under load of its trials [s]."""
        return sum(trial.trial.lasted_s for trial in self.trials)

    @property
    def cost_s(self) -> float:
        """Time that its trials took [s]."""
        return sum(trial.trial.cost_s for trial in self.trials)


_LATE = frozenset(("generator-late", "load-not-offered", "generator-behind"))


def explained_loads(
    ledger: Ledger, info: SessionInfo, capacities: Sequence[StatedCapacity] = ()
) -> tuple[Explanation, ...]:
    """Return an explanation of each load of a session's searches, the lowest load of each first.

    `capacities`: what the user states about resources of this machine.

    Raises StudyError `journal-damaged` for a record that cannot be read.
    """
    searches = searches_of(ledger.study, ledger.session)
    kind = info.kind
    criteria = _criteria(info)
    results: list[Explanation] = []
    for search in searches:
        counted = [trial for trial in search.trials if trial.number not in search.forgotten]
        answer: PeakAnswer | RampResult | None
        if kind == "ramp":
            answer = recorded_result(ledger, RampResult, search.key)
        else:
            answer = recorded_result(ledger, PeakAnswer, search.key)
        binding = answer.first.binding if isinstance(answer, PeakAnswer) else ""
        best = profile_nearest_answer(counted, answer_load(answer))
        subject = kind if len(searches) == 1 else search.name
        criterion = limiting(criteria, binding, counted)
        loads = list(_loads(subject, counted, best, ledger.study.path, criterion, capacities))
        if kind == "ramp":
            loads = _with_throughput(loads, counted, info)
        results += [load for _rate, load in loads]
    return tuple(results)


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


def _criteria(info: SessionInfo) -> tuple[Criterion, ...]:
    """Return a search's criteria; none for a ramp, or if this version cannot read the spec."""
    if info.kind == "ramp":
        return ()
    try:
        return search_experiment(info).criteria
    except InputError:
        return ()


def _loads(
    name: str,
    trials: list[SearchTrial],
    best: ProfileNearestAnswer | None,
    study: Path,
    criterion: Criterion | None,
    capacities: Sequence[StatedCapacity] = (),
) -> Iterator[tuple[float, Explanation]]:
    """Yield each load of a search, lowest first, with its explanation: of this machine, and
    then of the host of its server, if that is another one.

    `best`: the profiled trial nearest to the answer.
    """
    by_rate: dict[float, list[SearchTrial]] = {}
    for trial in trials:
        by_rate.setdefault(trial.trial.rate, []).append(trial)
    for rate in sorted(by_rate):
        same = by_rate[rate]
        in_users = same[0].probe.users is not None
        subject = f"{name} at {load_value_text(rate, in_users=in_users)}"
        hosts: dict[str, list[WatchedWindow]] = {"": []}
        for search_trial in same:
            late = any(mark in _LATE for mark in search_trial.trial.marks)
            for host, use in _uses(search_trial.trial):
                window = WatchedWindow(use, (search_trial.number,), late)
                hosts.setdefault(host, []).append(window)
        for host, windows in hosts.items():
            name_there = f"{subject} on {host}" if host else subject
            stated = () if host else capacities
            findings = [
                *limit_findings(name_there, windows, len(same), stated),
                *window_findings(name_there, windows, len(same)),
                *(() if host else answer_profile_note(subject, same, best)),
            ]
            explanation = explain_windows(name_there, windows, len(same), findings, stated)
            yield (
                rate,
                msgspec.structs.replace(
                    explanation,
                    sample=same[0].sample,
                    figure=None if criterion is None else _criterion_figure(same, criterion),
                    criterion=criterion,
                    files=ObservedFiles() if host else _files(same, study),
                ),
            )


def _uses(trial: LoadTrial) -> Iterator[tuple[str, ResourceUse]]:
    """Yield the uses of a trial, each with its host; empty: this machine."""
    if trial.use is not None:
        yield "", trial.use
    if trial.remote_use is not None:
        yield trial.remote_use.host, trial.remote_use.use


def _files(trials: list[SearchTrial], study: Path) -> ObservedFiles:
    """Return the paths of these trials' flame graphs."""
    graphs = (profile.svg for _, profile in profiled_trials(trials))
    return ObservedFiles(tuple(str(study / graph) for graph in graphs))


def _criterion_figure(trials: list[SearchTrial], criterion: Criterion) -> Summary:
    """Return the criterion's value at one load.

    An infinite mean means that an operation did not complete in the time that was waited.
    """
    found = [trial.trial.values.get(criterion.key) for trial in trials]
    values = [value for value in found if value is not None]
    name, label, unit = criterion.key, criterion_name(criterion), criterion.unit
    summary = summarise(name, values, label=label, unit=unit)
    if math.inf not in values:
        return summary
    return msgspec.structs.replace(
        summary, count=len(values), mean=math.inf, low=math.nan, high=math.nan
    )


def _with_throughput(
    loads: Iterable[tuple[float, Explanation]], trials: list[SearchTrial], info: SessionInfo
) -> list[tuple[float, Explanation]]:
    """Return the loads of a ramp, each with its throughput [1/s] and the interval that the ramp's
    report shows for its level; without a figure if no source reports it."""
    in_users = any(trial.probe.users is not None for trial in trials)
    goal = _ramp_goal(info, RampAxis.USERS if in_users else RampAxis.RATE)
    levels = measured_levels(goal, (trial.trial for trial in trials))
    by_level = {level.level: level for level in levels}
    found = []
    for rate, load in loads:
        level = by_level.get(rate)
        figure = None if level is None else _throughput(level, goal.confidence)
        found.append((rate, msgspec.structs.replace(load, figure=figure)))
    return found


def _throughput(level: RampLevel, confidence: float) -> Summary:
    estimate = level.estimate(confidence)
    rates = [run.throughput for run in level.runs]
    summary = summarise(THROUGHPUT_KEY, rates, label="throughput", unit="1/s")
    return msgspec.structs.replace(
        summary,
        mean=estimate.value,
        low=estimate.low,
        high=estimate.high,
        half_width=(estimate.high - estimate.low) / 2,
        confidence=estimate.confidence,
    )


def _ramp_goal(info: SessionInfo, axis: RampAxis) -> RampGoal:
    """Return a ramp's goal; the default of its axis if this version cannot read the spec."""
    try:
        experiment: Any = search_experiment(info)
    except InputError:
        return RampGoal(axis=axis)
    goal: RampGoal = experiment.plan.goal
    return goal
