"""`bw history confirm` and `bw history bisect`: commits compared side by side decide about a
change. Which commit is measured next, and the result as text and for JSON.

Decision: a bisection first compares the last commit with the first. Half of their difference, on a
logarithmic scale, is the limit of a gate: a commit has the change if its interval, interleaved with
the first commit, lies beyond the limit. Each comparison is a session of the study, and one that is
complete there is not run again. Lost: `git bisect run`, which takes each outcome as certain, so one
wrong verdict leads to a wrong commit.

The next commit is a pure function of the outcomes so far, so a bisection continues where it was
stopped. A commit that cannot be built, or whose comparison is undecided, is left out and its
neighbours are measured; if such commits are all that is left, the answer is the range that they
span.
"""

from __future__ import annotations

import argparse
import enum
import hashlib
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from benchwright.cli.compare import run as run_compare
from benchwright.cli.session_output import ProgramOutput
from benchwright.cli.shared_options import with_session_options
from benchwright.core.comparison import (
    Checkout,
    ComparisonResult,
    GateOutcome,
    MetricVerdict,
    Verdict,
)
from benchwright.core.errors import BenchError, Interrupted, argument_error
from benchwright.core.quantity import MOST_CHANGE, finite
from benchwright.core.text import number_text, plural
from benchwright.features.history.options import COMPARING, CommitOptions
from benchwright.inputs.options import request_from
from benchwright.report.documents import encode
from benchwright.run.checkouts import between, prepare, resolved, subject_of
from benchwright.run.preparation import comparison_request, prepare_comparison, rehearse
from benchwright.run.runner import OutputOptions, SessionResult, run_session
from benchwright.run.session import ProgramExperiment
from benchwright.study.directory import JOURNAL
from benchwright.study.journal import Study
from benchwright.suite.comparison import ComparisonRequest
from benchwright.suite.values import parse_metric
from benchwright.views.blocks import Column, Words, keyed, table_of
from benchwright.views.terminal import table_text


class CommitOutcome(enum.StrEnum):
    """What the comparison of a commit with the first one showed."""

    OLD = "old"
    """It does not have the change."""
    NEW = "new"
    """It has the change."""
    UNDECIDED = "undecided"
    BROKEN = "broken"
    """It could not be built, or its command failed."""


class BisectAnswer(msgspec.Struct, frozen=True):
    """The commits of which one made the change: indices `first` to `last`, both included."""

    first: int
    last: int

    @property
    def is_one(self) -> bool:
        """Whether the commit is known."""
        return self.first == self.last


def next_commit(count: int, known: Mapping[int, CommitOutcome]) -> int | BisectAnswer:
    """Return the index of the commit to measure next, or the answer.

    `count`: the number of commits, at least 2, in order; the first does not have the change, the
    last has it. `known`: outcomes of other commits by index.
    """
    assert count >= 2
    new = min((at for at, outcome in known.items() if outcome is CommitOutcome.NEW), default=0)
    last = new or count - 1
    old = [at for at, outcome in known.items() if outcome is CommitOutcome.OLD and at < last]
    first = max(old, default=0)
    unknown = [at for at in range(first + 1, last) if at not in known]
    if not unknown:
        return BisectAnswer(first + 1, last)
    middle = (first + last) / 2
    return min(unknown, key=lambda at: (abs(at - middle), at))


def steps_left(count: int, known: Mapping[int, CommitOutcome]) -> int:
    """Return the number of comparisons that a bisection needs if each decides."""
    found = dict(known)
    steps = 0
    while isinstance(at := next_commit(count, found), int):
        found[at] = CommitOutcome.OLD
        steps += 1
    return steps


class BisectedCommit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that was compared with the first one."""

    commit: str
    """Its full name."""
    subject: str
    """The first line of its message."""
    outcome: CommitOutcome
    session: int | None
    """The session of the study that compared it; None if it could not be built."""
    ratio: float | None
    """Of the metric, to that of the first commit."""
    low: float | None
    high: float | None
    detail: str = ""
    """Why it is broken or undecided."""


class BisectDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/bisect/1"
):
    """The result of a bisection of commits."""

    study: str
    metric: str
    old: str
    """The first commit, which does not have the change."""
    new: str
    """The last one."""
    change: BisectedCommit
    """The last commit against the first."""
    limit: float | None
    """Ratio beyond which a commit has the change: half of it, on a logarithmic scale; null if the
    last commit does not differ."""
    candidates: tuple[BisectedCommit, ...]
    """The commit that made the change; several if it is not known which; none without a change."""
    steps: tuple[BisectedCommit, ...]
    """The commits that were compared, in this order."""
    exit_status: int


def bisect_lines(found: BisectDocument) -> Iterator[str]:
    """Yield the answer as a sentence, the commits that it leaves, and the table of the steps."""
    change = found.change
    if found.limit is None:
        verdict = "does not differ from" if found.exit_status == 0 else "against"
        how = f"{found.metric}: {_ratio(change)}"
        why = f"; undecided: {change.detail}" if found.exit_status else ""
        yield f"{found.new[:12]} {verdict} {found.old[:12]} ({how}){why}"
        return
    whole = f"{found.new[:12]} against {found.old[:12]}: {_ratio(change)}"
    if len(found.candidates) == 1:
        (made,) = found.candidates
        size = f"{_ratio(made)} times that of {found.old[:12]}"
        yield f"{made.commit[:12]} changed {found.metric} to {size}: {made.subject}"
        if made.commit != found.new:
            yield f"  {whole}"
    else:
        yield f"one of {len(found.candidates)} commits changed {found.metric}:"
        for commit in found.candidates:
            yield f"  {commit.commit[:12]} {commit.subject}"
        yield f"  {whole}"
    yield ""
    table = table_of(
        "steps",
        "Commits",
        keyed("step", found.steps),
        (
            (Column("Commit"), lambda _, bisected_commit: Words(bisected_commit.commit[:12])),
            (Column("Outcome"), lambda _, one: Words(str(one.outcome))),
            (Column("Ratio", numeric=True), lambda _, one: Words(_ratio(one))),
            (Column("Subject"), lambda _, one: Words(one.subject)),
        ),
    )
    yield from table_text(table)
    yield f"old: below a ratio of {number_text(found.limit)}, new: above it" + (
        "" if found.limit > 1 else " (reversed: the change is a decrease)"
    )


def _ratio(one: BisectedCommit) -> str:
    if one.ratio is None or one.low is None or one.high is None:
        return "-"
    low, high = number_text(one.low), number_text(one.high)
    return f"{number_text(one.ratio)} ({low} to {high})"


_ENDED = ("complete", "undecided", "failed")
"""States of a session whose comparison is not run again."""


def confirm(arguments: argparse.Namespace) -> int:
    """Run `bw history confirm`: `bw compare` of two commits. Return the exit code."""
    ends = request_from(CommitOptions, arguments)
    arguments.commits = (ends.old, ends.new)
    return run_compare(arguments)


def bisect(arguments: argparse.Namespace) -> int:
    """Run `bw history bisect`; return the exit code: 0 one commit or no change, 3 several."""
    ends = request_from(CommitOptions, arguments)
    request = request_from(
        ComparisonRequest, arguments, only=COMPARING, commands=tuple(arguments.command_argv or ())
    )
    old = resolved(ends.old, "OLD", request.build)
    new = resolved(ends.new, "NEW", request.build)
    commits = [old, *between(old, new)]
    if len(commits) < 2:
        message = f"{ends.new} has no commit after {ends.old}"
        raise argument_error("NEW", ends.new, message, "give the older one first")
    bisection = _Bisection(arguments, request, commits)
    document = bisection.run()
    if arguments.json:
        sys.stdout.write(encode(document))
    else:
        print("\n".join(bisect_lines(document)))
    return document.exit_status


class _SilentOutput(ProgramOutput):
    """The output of one comparison: its progress; the bisection prints its result."""

    def print(self, ended: SessionResult) -> None:
        """Print nothing."""


class _Bisection:
    """The comparisons of a bisection, in one study."""

    def __init__(
        self, arguments: argparse.Namespace, request: ComparisonRequest, commits: list[Checkout]
    ) -> None:
        self._arguments = arguments
        self._request = request
        self._commits = commits
        named = [parse_metric(word)[0] for word in request.metrics]
        # With --instructions, elapsed time is only shown.
        usual = "elapsed" if request.instructions is None else "instructions"
        self._metric = next((spec.name for spec in named if spec), usual)
        self._steps: list[BisectedCommit] = []

    def run(self) -> BisectDocument:
        """Compare commits until the answer is known. Raises Interrupted and operating errors."""
        last = len(self._commits) - 1
        self._say(f"{last} commits; comparing the last with the first")
        ended, session = self._compared(last, None)
        verdict = _verdict_of(ended, self._metric)
        why = verdict.reason or ended.stop.detail or ended.stop.reason
        change = self._commit(last, CommitOutcome.UNDECIDED, verdict, session, why)
        if verdict.verdict not in (Verdict.SLOWER, Verdict.FASTER):
            status = 0 if verdict.verdict is Verdict.EQUIVALENT else 3
            return self._document(change, None, None, status)
        limit = math.sqrt(verdict.ratio.value)
        limit = min(max(limit, 1 / (1 + MOST_CHANGE)), 1 + MOST_CHANGE)
        share = max(limit, 1 / limit) - 1
        gate = f"{self._metric} {verdict.verdict} by {100 * share:.4g}%"
        change = msgspec.structs.replace(change, outcome=CommitOutcome.NEW)
        known: dict[int, CommitOutcome] = {}
        while isinstance(at := next_commit(len(self._commits), known), int):
            left = steps_left(len(self._commits), known)
            self._say(f"about {plural(left, 'comparison')} left; next: {self._title(at)}")
            known[at] = self._outcome_of(at, gate)
        return self._document(change, limit, at, 0 if at.is_one else 3)

    def _outcome_of(self, at: int, gate: str) -> CommitOutcome:
        try:
            ended, session = self._compared(at, gate)
        except BenchError as error:
            if error.code != "build-failed":
                raise
            broken = self._commit(at, CommitOutcome.BROKEN, None, None, error.message)
            self._steps.append(broken)
            return CommitOutcome.BROKEN
        (judged,) = ended.gates
        outcome = {
            GateOutcome.FAILED: CommitOutcome.NEW,
            GateOutcome.PASSED: CommitOutcome.OLD,
        }.get(judged.outcome, CommitOutcome.UNDECIDED)
        if ended.failed_blocks:
            outcome = CommitOutcome.BROKEN
        verdict = _verdict_of(ended, self._metric)
        self._steps.append(self._commit(at, outcome, verdict, session, judged.detail))
        return outcome

    def _compared(self, at: int, gate: str | None) -> tuple[ComparisonResult, int]:
        """Return the comparison of a commit with the first one, and its session: that of the
        study if it is complete there, else a new one."""
        request = self._request_for(at, gate)
        if (stored := self._stored(request.token)) is not None:
            return stored
        prepare(request.checkouts, self._say)
        arguments = self._arguments
        prepared = prepare_comparison(request, arguments.study, sys.argv[1:])
        info = with_session_options(prepared.info, arguments)
        prepared = msgspec.structs.replace(prepared, info=info)
        experiment = ProgramExperiment(rehearse(prepared))
        options = OutputOptions(json=arguments.json, quiet=arguments.quiet)
        output = _SilentOutput(experiment, options)
        study = Path(arguments.study)
        status = run_session(experiment, study, output, undone=arguments.undone)
        stored = self._stored(request.token)
        if stored is None:
            # It said why itself.
            raise Interrupted if status == 130 else SystemExit(status)
        return stored

    def _request_for(self, at: int, gate: str | None) -> ComparisonRequest:
        both = (self._commits[0], self._commits[at])
        request = msgspec.structs.replace(
            self._request,
            commits=tuple(checkout.revision for checkout in both),
            checkouts=both,
            names=("old", "new"),
            fail_if=() if gate is None else (gate,),
            margin=None if gate is None else gate.rpartition(" ")[2],
            seed=self._request.seed or "1",
        )
        # The same question has the same token: a comparison that is in the study is not run again.
        said = msgspec.json.encode(request)
        token = hashlib.sha256(said).hexdigest()[:16]
        return msgspec.structs.replace(request, token=token)

    def _stored(self, token: str) -> tuple[ComparisonResult, int] | None:
        from benchwright.results.stored import recorded_comparisons

        place = Path(self._arguments.study)
        if not (place / JOURNAL).is_file():
            return None
        study = Study.open_to_read(place)
        try:
            for session in study.sessions():
                if session.info.kind != "compare" or session.status not in _ENDED:
                    continue
                asked = comparison_request(session.info)
                if asked is not None and asked.token == token:
                    for ended in recorded_comparisons(study, session.number):
                        return ended, session.number
        finally:
            study.close()
        return None

    def _commit(
        self,
        at: int,
        outcome: CommitOutcome,
        verdict: MetricVerdict | None,
        session: int | None,
        detail: str = "",
    ) -> BisectedCommit:
        commit = self._commits[at]
        ratio = None if verdict is None else verdict.ratio
        return BisectedCommit(
            commit=commit.commit,
            subject=subject_of(commit),
            outcome=outcome,
            session=session,
            ratio=None if ratio is None else finite(ratio.value),
            low=None if ratio is None else finite(ratio.low),
            high=None if ratio is None else finite(ratio.high),
            detail=detail,
        )

    def _document(
        self,
        change: BisectedCommit,
        limit: float | None,
        answer: BisectAnswer | None,
        exit_status: int,
    ) -> BisectDocument:
        compared: Mapping[str, BisectedCommit] = {
            commit.commit: commit for commit in (*self._steps, change)
        }
        places = () if answer is None else range(answer.first, answer.last + 1)
        return BisectDocument(
            study=self._arguments.study,
            metric=self._metric,
            old=self._commits[0].commit,
            new=self._commits[-1].commit,
            change=change,
            limit=limit,
            candidates=tuple(
                compared.get(self._commits[at].commit)
                or self._commit(at, CommitOutcome.UNDECIDED, None, None)
                for at in places
            ),
            steps=tuple(self._steps),
            exit_status=exit_status,
        )

    def _title(self, at: int) -> str:
        commit = self._commits[at]
        return f"{commit.commit[:12]} {subject_of(commit)}"

    def _say(self, line: str) -> None:
        if not self._arguments.quiet:
            print(line, file=sys.stderr)


def _verdict_of(ended: ComparisonResult, metric: str) -> MetricVerdict:
    return next(v for v in ended.verdicts if v.judged and v.metric == metric)
