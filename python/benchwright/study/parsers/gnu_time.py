"""The output of GNU time: its default form, `-p` (POSIX) and `-v`; records are epochs.

Purpose: files that `time -a -o FILE` or a shell's redirection left. Decision: a record is
whatever one run of time printed; other lines (the program's own output) are passed over,
so one that looks like a record's line is taken for it. Non-goals: a shell's builtin
`time`, formats of `-f`. Source: time(1), version 1.9.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchwright.model.observation import Block
from benchwright.study.parsers.api import (
    Complaints,
    ParsedInput,
    finite,
    read_mixed_text,
    whole,
)

_DEFAULT = re.compile(
    r"(?P<user>[\d.]+)user (?P<system>[\d.]+)system (?P<elapsed>[\d:.]+)elapsed "
    r"\S+%?CPU \(\S*avgtext\+\S*avgdata (?P<rss>\d+)maxresident\)k"
)
_DEFAULT_COUNTS = re.compile(
    r"(?P<in>\d+)inputs\+(?P<out>\d+)outputs "
    r"\((?P<major>\d+)major\+(?P<minor>\d+)minor\)pagefaults \d+swaps"
)
_POSIX = re.compile(r"(real|user|sys) +([\d.]+)\Z")
_VERBOSE = re.compile(r"\t(.+?): (.*)\Z")
_STATUS = re.compile(
    r"Command exited with non-zero status (\d+)|Command terminated by signal (\d+)"
)
_VERBOSE_NAMES = {
    "User time (seconds)": ("user", 1.0),
    "System time (seconds)": ("system", 1.0),
    "Maximum resident set size (kbytes)": ("rss_bytes", 1024.0),
    "Major (requiring I/O) page faults": ("major_faults", 1.0),
    "Minor (reclaiming a frame) page faults": ("minor_faults", 1.0),
    "Voluntary context switches": ("voluntary_switches", 1.0),
    "Involuntary context switches": ("involuntary_switches", 1.0),
    "File system inputs": ("in_blocks", 1.0),
    "File system outputs": ("out_blocks", 1.0),
}
_LARGEST = 1e18
_ELAPSED = "Elapsed (wall clock) time (h:mm:ss or m:ss)"
_COUNTS = (
    ("in", "in_blocks"),
    ("out", "out_blocks"),
    ("major", "major_faults"),
    ("minor", "minor_faults"),
)


class _GnuTime:
    name = "gnu_time"
    description = "output of GNU time (default, -p and -v)"

    def detect(self, path: Path, head: bytes) -> bool:
        """Recognise a record of any of the three forms near the beginning."""
        if not path.is_file():
            return False
        text = head.decode("utf-8", "replace")
        return bool(
            _DEFAULT.search(text)
            or "\tCommand being timed:" in text
            or re.search(
                r"^real +[\d.]+\nuser +[\d.]+\nsys +[\d.]+$", text, re.MULTILINE
            )
        )

    def read(self, path: Path) -> list[ParsedInput]:
        """Return the records as one test. Raises InputError with file:line:column."""
        text = read_mixed_text(path)
        complaints = Complaints(path, "time-syntax")
        records = _Records(complaints)
        for number, line in enumerate(text.split("\n"), 1):
            records.take(number, line)
        records.close()
        if not records.blocks:
            complaints.add((1, 1), "", "there is no record of GNU time in this file")
        complaints.check()
        return [ParsedInput(path.name, tuple(records.blocks))]


class _Records:
    """Gathers records line by line."""

    def __init__(self, complaints: Complaints) -> None:
        self.blocks: list[Block] = []
        self._complaints = complaints
        self._values: dict[str, float] = {}
        self._command = ""
        self._status = 0
        self._pending_status = 0
        self._begun: tuple[int, str] | None = None

    def take(self, number: int, line: str) -> None:
        """Take in one line."""
        line = line.rstrip("\r")
        if status := _STATUS.search(line):
            exited, signal = (whole(text or "0") or 0 for text in status.groups())
            self._pending_status = exited or 128 + signal
        elif match := _DEFAULT.search(line):
            self._begin(number, line)
            self._default(number, line, match)
        elif match := _DEFAULT_COUNTS.search(line):
            for group, name in _COUNTS:
                place = (number, match.start(group) + 1, line)
                self._number(name, match[group], place)
        elif match := _POSIX.match(line):
            if match[1] == "real":
                self._begin(number, line)
            name = {"real": "elapsed", "sys": "system"}.get(match[1], match[1])
            self._number(name, match[2], (number, match.start(2) + 1, line))
        elif match := _VERBOSE.match(line):
            self._verbose(number, line, match)

    def close(self) -> None:
        """End the record in progress."""
        if "elapsed" in self._values:
            epoch = len(self.blocks) + 1
            block = Block(0, epoch, self._command, self._status, self._values)
            self.blocks.append(block)
        elif self._begun is not None:
            number, line = self._begun
            self._complain((number, 1, line), "this record has no elapsed time")
        self._begun = None
        self._values, self._command, self._status = {}, "", 0

    def _begin(self, number: int, line: str) -> None:
        self.close()
        self._begun = (number, line)
        self._status, self._pending_status = self._pending_status, 0

    def _default(self, number: int, line: str, match: re.Match[str]) -> None:
        for name in ("user", "system"):
            self._number(name, match[name], (number, match.start(name) + 1, line))
        self._clock(match["elapsed"], (number, match.start("elapsed") + 1, line))
        place = (number, match.start("rss") + 1, line)
        self._number("rss_bytes", match["rss"], place, 1024.0)

    def _verbose(self, number: int, line: str, match: re.Match[str]) -> None:
        label, text = match[1], match[2]
        place = (number, match.start(2) + 1, line)
        if label == "Command being timed":
            self._begin(number, line)
            self._command = text.removeprefix('"').removesuffix('"')
        elif label == "Exit status":
            self._status = self._status or whole(text) or 0
        elif line.startswith(f"\t{_ELAPSED}: "):
            self._clock(line.removeprefix(f"\t{_ELAPSED}: "), place)
        elif label in _VERBOSE_NAMES:
            name, factor = _VERBOSE_NAMES[label]
            self._number(name, text, place, factor)

    def _number(
        self, name: str, text: str, place: tuple[int, int, str], factor: float = 1.0
    ) -> None:
        value = finite(text)
        if value is None or value * factor > _LARGEST:
            self._complain(place, f"{name} is {text!r}, not a number")
        else:
            self._values[name] = value * factor

    def _clock(self, text: str, place: tuple[int, int, str]) -> None:
        """Take `h:mm:ss` or `m:ss.ss` as seconds."""
        parts = [finite(part) for part in text.split(":")]
        seconds = 0.0
        for part in parts:
            if part is None or part > _LARGEST or len(parts) > 3:
                self._complain(place, f"elapsed is {text!r}, not h:mm:ss or m:ss")
                return
            seconds = seconds * 60 + part
        self._values["elapsed"] = seconds

    def _complain(self, place: tuple[int, int, str], message: str) -> None:
        number, column, line = place
        self._complaints.add((number, column), line, message)


PARSER = _GnuTime()
