"""What a person sees while a session runs."""

from __future__ import annotations

import io

import msgspec

from benchwright.core.plan import FixedCount, StopDecision, UntilPrecise
from benchwright.core.progress import progress_display
from benchwright.core.results import Estimate
from benchwright.decide.history import History
from benchwright.decide.stopping import TestProgress, progress_of
from benchwright.report.answer import half_width_percent
from benchwright.report.progress import SessionProgress

STATE = TestProgress(
    0.25,
    "elapsed",
    Estimate(2.0, 1.858, 2.142, 0.95, "student-t", 10, "s"),
    5.0,
    40,
    left_s=15.0,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def show(stream: io.StringIO) -> str:
    shown = SessionProgress(progress_display(stream))
    shown.test_opened("t", 4, (("fs", "ext2"),), "10 trials")
    shown.trials_done("t", 10, 0, STATE, 5.0)
    shown.trials_done("t", 11, 1, STATE, 5.5)
    shown.note("hello [b]")
    shown.test_closed("t", StopDecision("count", "10 trials"))
    shown.close()
    return stream.getvalue()


def test_plain_lines_when_nobody_watches() -> None:
    assert show(io.StringIO()).splitlines() == [
        "t (fs=ext2, 4 threads): 10 trials",
        "t: trial 10 of 40; elapsed 2 s ± 7.1 %; about 15 s left; target 5 %; 5 s so far",
        "hello [b]",
        "t: stopped: 10 trials [count]",
    ]


def test_a_terminal_has_a_live_line_and_the_same_lasting_ones() -> None:
    stream = Terminal()
    text = show(stream)
    for lasting in (
        "t (fs=ext2, 4 threads): 10 trials",
        "hello [b]",
        "t: stopped: 10 trials",
    ):
        assert lasting in text


def test_a_rule_is_shown_once_and_a_level_in_the_name_is_not_repeated() -> None:
    stream = io.StringIO()
    shown = SessionProgress(progress_display(stream))
    for level in ("1", "2"):
        shown.test_opened(f"gzip:n={level}", 1, (("n", level),), "10 trials")
        shown.test_closed(f"gzip:n={level}", StopDecision("count", "10 trials; ± 1 %"))
    shown.test_opened("sort", 1, (), "5 trials")
    assert stream.getvalue().splitlines() == [
        "gzip:n=1: 10 trials",
        "gzip:n=1: stopped: 10 trials [count]",
        "gzip:n=2: stopped: 10 trials [count]",
        "sort: 5 trials",
    ]


def test_the_end_of_a_test_has_no_status_of_its_own() -> None:
    stream = io.StringIO()
    shown = SessionProgress(progress_display(stream))
    shown.trials_done("t", 40, 0, msgspec.structs.replace(STATE, fraction=1.0), 5.0)
    assert stream.getvalue() == ""


def test_the_time_left_is_the_least_of_plan_and_limit() -> None:
    values = tuple([0.9, 1.1] * 10)
    history = History(trials=20, series={"elapsed": values}, duration_ns=20 * 10**9)
    pilot = progress_of(UntilPrecise(0.01), history)
    assert (pilot.bound, pilot.left_s) == ("at least", 10)
    rule = UntilPrecise(0.01, minimum=20, max_time_ns=30 * 10**9)
    limited = progress_of(rule, history)
    assert (limited.bound, limited.left_s) == ("at most", 10)
    counted = progress_of(FixedCount(25), history)
    assert (counted.bound, counted.left_s) == ("about", 5)


def test_progress_of_a_count_and_of_a_precision() -> None:
    half = progress_of(FixedCount(4), History(trials=2, series={"elapsed": (1.0, 1.5)}))
    assert (half.fraction, half.expected_total) == (0.5, 4)
    assert half.estimate is not None
    assert half_width_percent(half.estimate) > 100
    values = tuple([0.9, 1.1] * 10)
    early = progress_of(
        UntilPrecise(0.01), History(trials=4, series={"elapsed": values[:4]})
    )
    assert (early.fraction, early.expected_total) == (None, 30)
    assert early.bound == "at least"
    planned = progress_of(
        UntilPrecise(0.01, minimum=20), History(trials=20, series={"elapsed": values})
    )
    assert planned.expected_total is not None
    assert planned.expected_total > 100
    assert planned.fraction == 20 / planned.expected_total
