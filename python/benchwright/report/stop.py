"""Why a test ended, as a line."""

from __future__ import annotations

from benchwright.model.decision import Stop
from benchwright.model.visible import one_line


def stop_line(name: str, stop: Stop) -> str:
    """Return `NAME: stopped: why (looks)`, with `undecided` where no answer came."""
    verdict = "stopped" if stop.answered else "stopped undecided"
    looks = ""
    if stop.looks > 1 and " looks" not in stop.detail:
        looks = f" ({stop.looks} looks)"
    text = f"{name}: {verdict}: {stop.detail or stop.reason} [{stop.reason}]{looks}"
    return one_line(text)
