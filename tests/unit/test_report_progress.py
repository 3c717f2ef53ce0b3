"""What a person sees while a session runs."""

from __future__ import annotations

import io

from benchwright.core.plan import FixedCount, StopDecision, UntilPrecise
from benchwright.core.progress import progress_display
from benchwright.core.results import Estimate
from benchwright.decide.history import History
from benchwright.decide.stopping import TestProgress, progress_of
from benchwright.report.answer import half_width_percent
from benchwright.report.progress import SessionProgress

STATE = TestProgress(
    0.25, "elapsed", Estimate(2.0, 1.858, 2.142, 0.95, "student-t", 10, "s"), 5.0, 40
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
        "t: trial 10 of 40; elapsed 2 s ± 7.1 % (target 5 %); 5 s, about 15 s left",
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


def test_progress_of_a_count_and_of_a_precision() -> None:
    half = progress_of(FixedCount(4), History(trials=2, series={"elapsed": (1.0, 1.5)}))
    assert (half.fraction, half.expected_total) == (0.5, 4)
    assert half.estimate is not None
    assert half_width_percent(half.estimate) > 100
    values = tuple([0.9, 1.1] * 10)
    early = progress_of(
        UntilPrecise(0.01), History(trials=4, series={"elapsed": values[:4]})
    )
    assert (early.fraction, early.expected_total) == (None, None)
    planned = progress_of(
        UntilPrecise(0.01, minimum=20), History(trials=20, series={"elapsed": values})
    )
    assert planned.expected_total is not None
    assert planned.expected_total > 100
    assert planned.fraction == 20 / planned.expected_total
