"""Where progress is shown: a terminal, a pipe, nowhere."""

from __future__ import annotations

import io

import pytest

from benchwright.core.progress import (
    NoProgress,
    PlainProgress,
    TerminalProgress,
    bar,
    fitted_status,
    progress_display,
)


@pytest.fixture(autouse=True)
def _terminal_that_redraws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_lines_go_to_a_pipe_and_statuses_without_a_time_do_not() -> None:
    stream = io.StringIO()
    display = progress_display(stream)
    assert isinstance(display, PlainProgress)
    display.line("one \x1b[2J")
    display.status("two")
    display.close()
    assert stream.getvalue() == "one \\x1b[2J\n"


def test_plain_statuses_are_two_seconds_apart_but_the_first_complete_one() -> None:
    stream = io.StringIO()
    display = progress_display(stream)
    for at_s in (0.5, 1, 2.5, 4):
        display.status(f"at {at_s}", at_s / 4, at_s)
    display.status("still complete", 1.0, 4.5)
    display.end_status()
    display.status("the next", 0.0, 4.6)
    assert stream.getvalue().splitlines() == ["at 0.5", "at 2.5", "at 4", "the next"]


def test_plain_statuses_become_rarer() -> None:
    stream = io.StringIO()
    display = progress_display(stream)
    for at_s in range(3600):
        display.status(f"at {at_s}", at_s / 3600, at_s)
    lines = stream.getvalue().splitlines()
    assert lines[:3] == ["at 0", "at 2", "at 4"]
    assert 40 < len(lines) < 80


def test_a_terminal_shows_a_status_with_its_bar_and_keeps_the_lines() -> None:
    stream = Terminal()
    display = progress_display(stream)
    assert isinstance(display, TerminalProgress)
    display.status("trial 1 runs [not markup]", 0.5)
    display.line("trial 1 is done [not markup]")
    display.end_status()
    display.status("trial 2 runs")
    display.close()
    shown = stream.getvalue()
    for text in ("━╌", "trial 1 runs [not markup]", "trial 1 is done [not markup]"):
        assert text in shown
    assert "trial 2 runs" in shown


STATUS = "sort: trial 24 of 57; elapsed 834 ms ± 7.1 %; about 17 s left; 12 s so far"


def test_a_narrow_terminal_shows_fewer_parts_and_no_cut_word() -> None:
    whole = len(STATUS)
    assert fitted_status(STATUS, 0.5, whole + 22) == bar(0.5) + STATUS
    assert fitted_status(STATUS, 0.5, whole + 12) == bar(0.5, 10) + STATUS
    assert fitted_status(STATUS, 0.5, whole + 11) == STATUS
    parts = STATUS.split("; ")
    for kept in (3, 2, 1):
        shown = "; ".join(parts[:kept])
        assert fitted_status(STATUS, 0.5, len(shown)) == shown
    assert fitted_status(STATUS, None, 10) == parts[0]


def test_a_terminal_that_cannot_redraw_has_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    display = progress_display(stream)
    assert isinstance(display, PlainProgress)
    display.line("one")
    assert stream.getvalue() == "one\n"


def test_quiet_shows_nothing() -> None:
    stream = Terminal()
    display = progress_display(stream, quiet=True)
    assert isinstance(display, NoProgress)
    display.line("one")
    display.status("two", 0.5, 1.0)
    display.end_status()
    display.close()
    assert stream.getvalue() == ""


def test_a_bar_has_the_width_of_its_share() -> None:
    assert bar(None) == ""
    assert bar(0.5, 4) == "━━╌╌  "
