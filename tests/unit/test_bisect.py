"""The order of a bisection's commits, and its answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.features.history.bisect import (
    BisectAnswer,
    BisectDocument,
    BisectedCommit,
    CommitOutcome,
    bisect_lines,
    next_commit,
    steps_left,
)

OLD, NEW = CommitOutcome.OLD, CommitOutcome.NEW


@given(st.data())
def test_the_answer_contains_the_change_whatever_cannot_be_measured(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 40))
    change = data.draw(st.integers(1, count - 1))
    unclear = data.draw(st.sets(st.integers(1, count - 1)))
    known: dict[int, CommitOutcome] = {}
    while isinstance(at := next_commit(count, known), int):
        assert 0 < at < count - 1
        assert at not in known
        known[at] = NEW if at >= change else OLD
        if at in unclear:
            known[at] = CommitOutcome.BROKEN
    assert at.first <= change <= at.last
    # Only commits that could not be measured keep it from being one.
    assert set(range(at.first, at.last)) <= unclear
    if not unclear:
        assert at == BisectAnswer(change, change)


@pytest.mark.parametrize(("count", "steps"), [(2, 0), (3, 1), (9, 3), (1025, 10)])
def test_the_number_of_comparisons_is_logarithmic(count: int, steps: int) -> None:
    assert steps_left(count, {}) == steps


def test_an_old_commit_after_a_new_one_does_not_count() -> None:
    """A change that was taken back and made again: the first one that is new bounds the answer."""
    assert next_commit(9, {4: NEW, 6: OLD, 2: OLD, 3: OLD}) == BisectAnswer(4, 4)


def compared(commit: str, ratio: float) -> BisectedCommit:
    ends = {"low": ratio - 0.01, "high": ratio + 0.01}
    return BisectedCommit(
        commit=commit, subject=f"subject of {commit}", outcome=NEW, session=1, ratio=ratio, **ends
    )


@pytest.mark.parametrize("at", [1, 2])
def test_the_size_of_a_change_is_that_of_its_commit(at: int) -> None:
    """A later commit can have changed the metric again."""
    commits = [compared("a", 1.0), compared("b", 2.35), compared("c", 1.37)]
    document = BisectDocument(
        study="s",
        metric="elapsed",
        old="a",
        new="c",
        change=commits[2],
        limit=1.17,
        candidates=(commits[at],),
        steps=(commits[1],),
        exit_status=0,
    )
    first, *more = bisect_lines(document)
    ratio = {1: "2.35 (2.34 to 2.36)", 2: "1.37 (1.36 to 1.38)"}[at]
    assert first.startswith(f"{commits[at].commit} changed elapsed to {ratio} times")
    assert ("  c against a: 1.37 (1.36 to 1.38)" in more) == (at == 1)
