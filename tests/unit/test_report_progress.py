"""What a person sees while a session runs."""

from __future__ import annotations

import io

import msgspec
import pytest

from benchwright.core.plan import Command, FixedCount, StopDecision, UntilPrecise, UntilProgram
from benchwright.core.progress import progress_display
from benchwright.core.results import Estimate
from benchwright.decide.history import History
from benchwright.decide.stopping import TestProgress, TestsProgress, TestsTally, progress_of
from benchwright.report.answer import half_width_percent
from benchwright.report.progress import SessionProgress, together_text

STATE = TestProgress(
    0.25, "elapsed", Estimate(2.0, 1.858, 2.142, 0.95, "student-t", 10, "s"), 5.0, 40, left_s=15.0
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def show(stream: io.StringIO) -> str:
    shown = SessionProgress(progress_display(stream))
    shown.test_opened("t", 4, (("fs", "ext2"),), "10 trials", 1)
    shown.trials_done("t", 10, 0, STATE, 5.0, None)
    shown.trials_done("t", 11, 1, STATE, 5.5, None)
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
    for lasting in ("t (fs=ext2, 4 threads): 10 trials", "hello [b]", "t: stopped: 10 trials"):
        assert lasting in text


def test_a_rule_is_shown_once_and_a_level_in_the_name_is_not_repeated() -> None:
    stream = io.StringIO()
    shown = SessionProgress(progress_display(stream))
    for level in ("1", "2"):
        shown.test_opened(f"gzip:n={level}", 1, (("n", level),), "10 trials", 1)
        shown.test_closed(f"gzip:n={level}", StopDecision("count", "10 trials; ± 1 %"))
    shown.test_opened("sort", 1, (), "5 trials", 1)
    assert stream.getvalue().splitlines() == [
        "gzip:n=1: 10 trials",
        "gzip:n=1: stopped: 10 trials [count]",
        "gzip:n=2: stopped: 10 trials [count]",
        "sort: 5 trials",
    ]


def test_the_end_of_a_test_has_no_status_of_its_own() -> None:
    stream = io.StringIO()
    shown = SessionProgress(progress_display(stream))
    ended = msgspec.structs.replace(STATE, fraction=1.0)
    shown.trials_done("t", 40, 0, ended, 5.0, None)
    assert stream.getvalue() == ""


TOGETHER = TestsProgress(3, 9, 23, 72, 65.0, 240.0)


def test_several_tests_share_one_status_and_a_log_has_a_line_for_each_end() -> None:
    def show_several(stream: io.StringIO) -> str:
        shown = SessionProgress(progress_display(stream))
        stop = StopDecision("count", "8 trials, as requested")
        for place, level in enumerate("123", 1):
            name = f"gzip:n={level}"
            shown.test_opened(name, 1, (("n", level),), "8 trials", 9)
            so_far = msgspec.structs.replace(TOGETHER, number=place, elapsed_s=place)
            shown.trials_done(name, 8, 0, STATE, 5.0, so_far)
            shown.test_closed(name, stop)
        shown.close()
        return stream.getvalue()

    status = "elapsed 2 s ± 7.1 %; about 4 min left"
    ends = [f"gzip:n={n}: stopped: 8 trials, as requested [count]" for n in "123"]
    assert show_several(io.StringIO()).splitlines() == [
        "9 tests; gzip:n=1: 8 trials",
        f"test 1 of 9, trial 23 of 72; {status}; gzip:n=1; 1 s so far",
        *ends[:2],
        f"test 3 of 9, trial 23 of 72; {status}; gzip:n=3; 3 s so far",
        ends[2],
    ]
    redrawn = show_several(Terminal())
    assert all(f"test {place} of 9, trial 23 of 72" in redrawn for place in (1, 2, 3))
    assert "stopped" not in redrawn


def test_a_suite_with_a_new_rule_shows_it() -> None:
    stream = io.StringIO()
    shown = SessionProgress(progress_display(stream))
    for name, rule in (("a", "5 trials"), ("b", "5 trials"), ("c", "9 trials")):
        shown.test_opened(name, 1, (), rule, 3)
    assert stream.getvalue().splitlines() == ["3 tests; a: 5 trials", "c: 9 trials"]


def test_tests_that_have_not_run_are_expected_to_take_as_long() -> None:
    tally = TestsTally(4)

    def counted(trials: int, of: int, each_s: int) -> None:
        series = {"elapsed": tuple([1.0] * trials)}
        history = History(trials=trials, series=series, duration_ns=trials * each_s * 10**9)
        progress = None if trials == of else progress_of(FixedCount(of), history)
        tally.put(f"{of}", history, progress)

    counted(5, 10, 2)
    assert tally.progress(1) == TestsProgress(1, 4, 5, 40, 10.0, 70.0)
    counted(10, 10, 2)
    assert tally.progress(1) == TestsProgress(1, 4, 10, 40, 20.0, 60.0)
    counted(10, 20, 1)
    assert tally.progress(2) == TestsProgress(2, 4, 20, 60, 30.0, 50.0)
    assert tally.progress(2).fraction == pytest.approx(1 / 3)


def test_a_total_that_one_test_does_not_know_is_not_shown() -> None:
    tally = TestsTally(2)
    history = History(trials=5, series={"elapsed": (1.0,) * 5}, duration_ns=10**9)
    tally.put("a", history, progress_of(FixedCount(10), history))
    tally.put("b", history, progress_of(UntilProgram(5, 5, Command(("stable",))), history))
    found = tally.progress(2)
    assert (found.expected_total, found.left_s, found.fraction) == (None, None, None)
    text = together_text("b", STATE, found)
    assert text == "test 2 of 2, trial 10; elapsed 2 s ± 7.1 %; b; 2 s so far"


def test_a_pilot_is_the_least_that_is_left() -> None:
    tally = TestsTally(2)
    history = History(trials=5, series={"elapsed": (1.0, 1.1) * 2}, duration_ns=10**9)
    tally.put("a", history, progress_of(UntilPrecise(0.01), history))
    found = tally.progress(1)
    assert (found.bound, found.expected_total, found.fraction) == ("at least", 60, None)
    assert "trial 5 of at least 60;" in together_text("a", STATE, found)


@pytest.mark.parametrize("each_s", [1.1, 1.3, 2.9, 8.0])
def test_the_least_number_of_a_long_pilot_does_not_change(each_s: float) -> None:
    rule = UntilPrecise(0.05, long_minimum=10)
    shown = []
    for done in range(1, 10):
        # The mean duration changes from trial to trial.
        spent_ns = int(done * (each_s + 0.03 * (done % 3)) * 1e9)
        values = tuple(1.0 + 0.1 * (at % 4) for at in range(done))
        history = History(done, series={"elapsed": values}, duration_ns=spent_ns)
        shown.append(progress_of(rule, history).expected_total)
    assert set(shown) == {10}


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
    early = progress_of(UntilPrecise(0.01), History(trials=4, series={"elapsed": values[:4]}))
    assert (early.fraction, early.expected_total) == (None, 30)
    assert early.bound == "at least"
    planned = progress_of(
        UntilPrecise(0.01, minimum=20), History(trials=20, series={"elapsed": values})
    )
    assert planned.expected_total is not None
    assert planned.expected_total > 100
    assert planned.fraction == 20 / planned.expected_total
