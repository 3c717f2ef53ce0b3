"""The resource use of each trial, which `bw-sampler reduce` computes from a series.

Decision: the program that writes a series also reduces it, in a process of its own for each series,
so that a stored study is reduced like a running one, and no arithmetic on the format is written
twice. Source: docs/watch-format.md.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec

from benchwright.core.errors import BenchError, OperatingError
from benchwright.core.resource_use import ResourceUse
from benchwright.watch.kind import Windows


class SeriesError(OperatingError):
    """A series file cannot be read; the message has file, line and reason."""

    code = "series-damaged"

    def __init__(self, path: Path, line: int, message: str) -> None:
        self.path = path
        self.line = line
        super().__init__(
            f"{path}:{line}: {message} [{self.code}]\n"
            "  = the trial's results are in the journal and are not affected"
        )


class _Slices(msgspec.Struct):
    begin_ns: int
    end_ns: int
    most: int


class _Request(msgspec.Struct, omit_defaults=True):
    series: str
    windows: Windows = ()
    slices: _Slices | None = None


class _Uses(msgspec.Struct, tag="uses"):
    uses: list[ResourceUse | None]


class _Damaged(msgspec.Struct, tag="damaged"):
    line: int
    message: str


_DECODER: msgspec.json.Decoder[_Uses | _Damaged] = msgspec.json.Decoder(_Uses | _Damaged)


_USAGE = 2
"""The exit status of the program for a command that it does not have."""


class SeriesReducer:
    """Reduces series by a sampler program."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def uses(self, file: Path, path: str, windows: Windows) -> list[ResourceUse | None]:
        """Return the use of each trial of a batch, in order; None: included in an earlier one.

        `path` is the file's path relative to the study. Trials shorter than three sampling
        intervals that follow each other closely, or that lie within one interval, share a window;
        its use is returned for the first of them.
        If the series covers only part of a window, the figures describe that part, and `absent`
        reports its length; if it covers nothing, there are no figures.
        Raises OSError if the program cannot be started, BenchError if it is of another version, and
        SeriesError for a series that cannot be read.
        """
        return self._reduced(file, _Request(path, windows))

    def slices(
        self, file: Path, path: str, begin_ns: int, end_ns: int, most: int
    ) -> list[ResourceUse]:
        """Return the use of equal slices of a time, at most `most`, each of at least three
        sampling intervals: the course of one long trial. `path` and errors as for `uses`."""
        uses = self._reduced(file, _Request(path, slices=_Slices(begin_ns, end_ns, most)))
        return [use for use in uses if use is not None]

    def _reduced(self, file: Path, request: _Request) -> list[ResourceUse | None]:
        done = subprocess.run(
            [self._program, "reduce", file],
            input=msgspec.json.encode(request),
            capture_output=True,
            check=False,
            # Ctrl-C ends the trial, whose series is still reduced.
            start_new_session=True,
        )
        try:
            reply = _DECODER.decode(done.stdout)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            said = done.stderr.decode(errors="replace").strip() or f"status {done.returncode}"
            if done.returncode == _USAGE:
                message = f"{self._program} cannot reduce series: {said.splitlines()[0]}"
                hint = "its version is another than that of this program: install both together"
                raise BenchError("sampler-protocol", message, hint) from None
            raise SeriesError(file, 1, f"{self._program} cannot reduce it: {said}") from None
        if isinstance(reply, _Damaged):
            raise SeriesError(file, reply.line, reply.message)
        return reply.uses
