"""The output of GNU time: its default form, `-p` (POSIX) and `-v`; records are epochs.

Source: time(1), version 1.9. A record is whatever one run of time printed; other lines
(the program's own output) are passed over.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchwright.model.observation import Block
from benchwright.study.parsers.api import Complaints, ParsedInput, read_text

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
        text = read_text(path, "time-syntax")
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

    def take(self, number: int, line: str) -> None:
        """Take in one line."""
        line = line.rstrip("\r")
        if status := _STATUS.search(line):
            self._pending_status = int(status[1] or 0) or 128 + int(status[2] or 0)
        elif match := _DEFAULT.search(line):
            self._begin()
            self._default(number, line, match)
        elif match := _DEFAULT_COUNTS.search(line):
            for group, name in _COUNTS:
                self._values[name] = float(match[group])
        elif match := _POSIX.match(line):
            if match[1] == "real":
                self._begin()
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
        self._values, self._command, self._status = {}, "", 0

    def _begin(self) -> None:
        self.close()
        self._status, self._pending_status = self._pending_status, 0

    def _default(self, number: int, line: str, match: re.Match[str]) -> None:
        for name in ("user", "system"):
            self._number(name, match[name], (number, match.start(name) + 1, line))
        self._clock(match["elapsed"], (number, match.start("elapsed") + 1, line))
        self._values["rss_bytes"] = float(match["rss"]) * 1024

    def _verbose(self, number: int, line: str, match: re.Match[str]) -> None:
        label, text = match[1], match[2]
        place = (number, match.start(2) + 1, line)
        if label == "Command being timed":
            self._begin()
            self._command = text.strip('"')
        elif label == "Exit status":
            self._status = self._status or (int(text) if text.isdecimal() else 1)
        elif line.startswith(f"\t{_ELAPSED}: "):
            self._clock(line.removeprefix(f"\t{_ELAPSED}: "), place)
        elif label in _VERBOSE_NAMES:
            name, factor = _VERBOSE_NAMES[label]
            self._number(name, text, place, factor)

    def _number(
        self, name: str, text: str, place: tuple[int, int, str], factor: float = 1.0
    ) -> None:
        try:
            self._values[name] = float(text) * factor
        except ValueError:
            self._complain(place, f"{name} is {text!r}, not a number")

    def _clock(self, text: str, place: tuple[int, int, str]) -> None:
        """Take `h:mm:ss` or `m:ss.ss` as seconds."""
        try:
            seconds = 0.0
            for part in text.split(":"):
                seconds = seconds * 60 + float(part)
            self._values["elapsed"] = seconds
        except ValueError:
            self._complain(place, f"elapsed is {text!r}, not h:mm:ss or m:ss")

    def _complain(self, place: tuple[int, int, str], message: str) -> None:
        number, column, line = place
        self._complaints.add((number, column), line, message)


PARSER = _GnuTime()
