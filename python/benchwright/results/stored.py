"""What a session of tests stored, read once: the source of all sections about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchwright.core.comparison import ComparisonResult
from benchwright.core.errors import argument_error
from benchwright.core.machine import MachineCapture
from benchwright.core.observation import FAILED_ENDINGS, Trial
from benchwright.core.plan import StopDecision
from benchwright.core.results import Finding, Summary
from benchwright.decide.compare.conclusion import conclude
from benchwright.decide.compare.evidence import ComparisonBuilder
from benchwright.findings.explanation import Explanation, explain_test
from benchwright.report.compared_blocks import paired_blocks
from benchwright.stats.aggregate import (
    MetricColumn,
    TrialValues,
    aggregate_trial,
    metric_columns,
    observe_trials,
    summarise_columns,
)
from benchwright.stats.metric_rules import MetricRules
from benchwright.study.contents import NULL_KIND, TestContents, machines_of, tests_of
from benchwright.study.database import reporting_damage
from benchwright.study.findings import input_findings, session_findings, stored_findings
from benchwright.study.journal import StoredSession, Study
from benchwright.study.keys import is_comparison_result
from benchwright.study.parsers.api import ParsedInput
from benchwright.study.parsers.study import parsed_test
from benchwright.suite.comparison import ComparisonRequest, rule_from_request

_DERIVED = ("wait", "cpu_percent")


class StoredTest(msgspec.Struct, frozen=True):
    """One test with the values of its trials."""

    id: str
    """Prefix of its ids and keys: `p1.t2`."""
    contents: TestContents
    parsed: ParsedInput
    rules: MetricRules
    observed: tuple[TrialValues, ...]
    columns: dict[str, MetricColumn]
    findings: tuple[Finding, ...]

    @property
    def name(self) -> str:
        """Its name, as stored."""
        return self.contents.plan.name

    @property
    def trials_id(self) -> str:
        """The id of the table of its trials."""
        return f"{self.id}-trials"

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Its trials in order, void ones included."""
        return self.contents.all_trials

    @property
    def failed(self) -> tuple[Trial, ...]:
        """The trials that failed."""
        return tuple(trial for trial in self.trials if trial.ending in FAILED_ENDINGS)

    def values_of(self, trial: Trial) -> dict[str, float]:
        """Return the values of any trial, also of one that is in no figure."""
        return aggregate_trial(trial.blocks, self.rules).values

    def shown(self) -> tuple[str, ...]:
        """Return the quantities that the page shows: those of the table, without what follows from
        the others, and peak memory; without those that are 0 in every trial."""
        names = self.rules.shown((*self.columns, *self.rules.declared))
        return tuple(
            name
            for name in dict.fromkeys((*names, "rss_bytes"))
            if name in self.rules.declared
            or (name not in _DERIVED and name in self.columns and any(self.columns[name].values))
        )

    def summaries(self) -> tuple[Summary, ...]:
        """Return the shown quantities' summaries."""
        return summarise_columns(self.columns, self.shown(), self.rules)


class StoredTests(msgspec.Struct, frozen=True):
    """A session of tests."""

    id: str
    path: Path
    session: StoredSession
    tests: tuple[StoredTest, ...]
    about_session: tuple[Finding, ...]
    comparisons: tuple[ComparisonResult, ...]
    machines: tuple[MachineCapture, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings: about the session, then about each test."""
        return (*self.about_session, *(one for test in self.tests for one in test.findings))


def read_tests(
    study: Study, session: StoredSession, part: str, only: str | None = None
) -> StoredTests:
    """Return the tests of a session; with `only`, the test of this name.

    Raises StudyError for a record that cannot be read, InputError for an unknown test.
    """
    stored = stored_findings(study, session.number)
    about_session = (
        session_findings(study, session.number)
        if stored is None
        else (*stored.session, *(one for found in stored.comparisons.values() for one in found))
    )
    tests = []
    for place, contents in enumerate(tests_of(study, session.number), 1):
        if only is not None and contents.plan.name != only:
            continue
        parsed = parsed_test(contents, study.path)
        rules = MetricRules(parsed.specs)
        observed = observe_trials(contents.all_trials, rules)
        found = None if stored is None else stored.tests.get(contents.key)
        if found is None:
            found = input_findings(parsed, observed=observed)
        if session.status == "running" and contents.stop is None:
            # More trials may come.
            found = tuple(one for one in found if one.code != "too-few-trials")
        tests.append(
            StoredTest(
                f"{part}.t{place}",
                contents,
                parsed,
                rules,
                observed,
                metric_columns(observed, rules),
                found,
            )
        )
    if only is not None and not tests:
        names = [one.plan.name for one in tests_of(study, session.number)]
        where, message = f"{study.path}:{only}", f"there is no test {only!r}"
        raise argument_error("STUDY", where, message, f"there are: {', '.join(names)}")
    comparisons = session_comparisons(study, session, [test.parsed for test in tests])
    return StoredTests(
        id=part,
        path=study.path,
        session=session,
        tests=tuple(tests),
        about_session=about_session,
        comparisons=tuple(comparisons),
        machines=machines_of(study, session.number),
    )


def session_comparisons(
    study: Study, session: StoredSession, inputs: Sequence[ParsedInput]
) -> list[ComparisonResult]:
    """Return the results of a session's comparisons, in order: of those that ended, or of the
    blocks so far. `inputs`: the session's tests."""
    found = recorded_comparisons(study, session.number)
    if not found and session.info.kind in _COMPARING:
        unfinished = unfinished_comparison(session, inputs)
        return [] if unfinished is None else [unfinished]
    return found


def recorded_comparisons(study: Study, session: int) -> list[ComparisonResult]:
    """Return the results of a session's comparisons that ended, in order."""
    with reporting_damage(study.path):
        return [
            _comparison(entry.payload)
            for entry in study.entries(session, ("outcome",))
            if is_comparison_result(entry.key)
        ]


_COMPARING = ("compare", NULL_KIND)


def unfinished_comparison(
    session: StoredSession, inputs: Sequence[ParsedInput]
) -> ComparisonResult | None:
    """Return what the blocks so far say; None before the first block, and for a stored baseline."""
    arm = inputs[0].arm if inputs else None
    if arm is None or len(arm.names) != len(inputs) or not arm.paired:
        return None
    request = msgspec.json.decode(session.info.sources[0][1], type=ComparisonRequest)
    rule = rule_from_request(request, len(inputs), inputs[0].specs)
    blocks = paired_blocks(inputs)
    if not blocks:
        return None
    # The blocks are without those of the warm-up.
    counted = msgspec.structs.replace(rule, warmup=0)
    builder = ComparisonBuilder(counted)
    for block in blocks:
        builder.add(block)
    stop = StopDecision(session.status, session.detail, answered=False)
    found = conclude(counted, builder.history(), arm.names, stop)
    return msgspec.structs.replace(found, rule=rule)


_MAY_BE_ABSENT = (
    *("mean_baseline", "mean_candidate", "p", "p_adjusted", "smallest_effect"),
    *("widened", "value", "low", "high"),
)


def _comparison(payload: bytes) -> ComparisonResult:
    """Return a recorded comparison; JSON has null for figures that were NaN."""
    record = msgspec.json.decode(payload)
    for verdict in record["verdicts"]:
        for figures in (verdict, verdict["ratio"]):
            for name in _MAY_BE_ABSENT:
                if name in figures and figures[name] is None:
                    figures[name] = math.nan
    return msgspec.convert(record, ComparisonResult)


def explained(test: StoredTest, name: str) -> Explanation:
    """Return what limited a test, under its short name."""
    return explain_test(
        name, test.trials, test.findings, sample=test.parsed.sample, files=test.parsed.files
    )
