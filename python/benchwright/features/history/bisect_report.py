"""The result of a bisection of commits, as text and for JSON."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from benchwright.core.text import number_text
from benchwright.features.history.bisection import CommitOutcome
from benchwright.views.blocks import Column, Words
from benchwright.views.figures import keyed, table_of
from benchwright.views.terminal import table_text


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
        for one in found.candidates:
            yield f"  {one.commit[:12]} {one.subject}"
        yield f"  {whole}"
    yield ""
    table = table_of(
        "steps",
        "Commits",
        keyed("step", found.steps),
        (
            (Column("Commit"), lambda _, one: Words(one.commit[:12])),
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
