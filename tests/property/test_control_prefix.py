"""A decision depends on the history alone: not on how it was cut into batches."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.observation import MeasurementBlock, Trial, TrialEnding
from benchwright.core.plan import (
    AskProgram,
    Command,
    FixedCount,
    RunMore,
    StopDecision,
    StoppingRule,
    UntilPrecise,
    UntilPredicate,
    UntilProgram,
)
from benchwright.decide.history import HistoryBuilder
from benchwright.decide.stopping import decide

WHOLE = [1000]
RULES = st.one_of(
    st.builds(FixedCount, st.integers(0, 20)),
    st.builds(
        UntilPredicate,
        st.integers(1, 10),
        st.integers(1, 5),
        st.sampled_from(['"$delta" < 0.05 * $mean', "$count > 12", "$mean > 1.01"]),
        st.integers(1, 40),
    ),
    st.builds(UntilProgram, st.integers(1, 10), st.integers(1, 5), st.just(Command(("p",)))),
    st.builds(
        UntilPrecise,
        st.sampled_from([0.01, 0.05, 0.2]),
        minimum=st.integers(2, 12),
        maximum=st.integers(1, 40),
        max_time_ns=st.none() | st.integers(1, 10**4),
        mode=st.sampled_from(["plan", "watch"]),
        share=st.sampled_from([None, None, 0.5, 0.9]),
    ),
)
OUTCOMES = st.lists(
    st.tuples(st.floats(0.9, 1.1), st.sampled_from([TrialEnding.OK] * 5 + [TrialEnding.FAILED])),
    min_size=60,
    max_size=60,
)


def trial(epoch: int, outcome: tuple[float, TrialEnding]) -> Trial:
    value, ending = outcome
    return Trial(
        "t", epoch, 1, ending, 0, 100, (MeasurementBlock(1, epoch, "c", 0, {"elapsed": value}),)
    )


def play(
    rule: StoppingRule, outcomes: list[tuple[float, TrialEnding]], cuts: list[int]
) -> tuple[int, StopDecision | None]:
    """Return the epochs run and the stop; batches end after `cuts` in turn."""
    builder, done = HistoryBuilder(), 0
    ends = itertools.cycle(cuts)
    while True:
        history = builder.history()
        decision = decide(rule, history)
        assert decide(rule, builder.history()) == decision
        if isinstance(decision, StopDecision):
            return done, decision
        if isinstance(decision, AskProgram):
            builder.answer(1 if done < 25 else 0)
            continue
        assert isinstance(decision, RunMore)
        for _ in range(min(decision.epochs, next(ends))):
            if done == len(outcomes):
                return done, None
            builder.add(trial(done + 1, outcomes[done]))
            done += 1


@given(RULES, OUTCOMES, st.lists(st.integers(1, 25), min_size=1, max_size=5))
def test_batches_do_not_matter(
    rule: StoppingRule, outcomes: list[tuple[float, TrialEnding]], cuts: list[int]
) -> None:
    assert play(rule, outcomes, cuts) == play(rule, outcomes, WHOLE)


@given(RULES, OUTCOMES)
def test_limits_hold(rule: StoppingRule, outcomes: list[tuple[float, TrialEnding]]) -> None:
    done, stop = play(rule, outcomes, WHOLE)
    most = getattr(rule, "maximum", None)
    if most is not None:
        assert stop is not None
        assert done <= most
