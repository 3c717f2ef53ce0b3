"""The observer behind `--characterize`: counts the I/O that a trial's tasks really do.

Decision: bpftrace counts in the kernel (probe/characterize/script.py), bw-engine records the
block layer beside it. Both slow a trial of many small calls down, so the trial that is
characterized is one of its own, whose figures do not count. Source: bpftrace(8).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec

from benchwright.model.characterized import BlockTrace, Characterized
from benchwright.probe.characterize.block import BlockRecording, BlockRecordingError
from benchwright.probe.characterize.counting import CODE, Counting, begun
from benchwright.probe.characterize.describe import Around, described, devices_used
from benchwright.probe.characterize.places import (
    Mount,
    disk_name,
    disks_below,
    mounts,
    node_name,
)
from benchwright.probe.characterize.read import Totals, device_name, totals
from benchwright.probe.characterize.transfers import nodes_used
from benchwright.probe.characterize.tree import tree_below
from benchwright.probe.observer import ObserverError, Watch

_ORDINARY = (
    "only root may ask the kernel what I/O is done (bpftrace, tracefs); for an ordinary user "
    "`strace -f -c COMMAND` counts a command's calls"
)
_NOT_UNDERSTOOD = (
    *(OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError),
    msgspec.MsgspecError,
)
"""What reading another program's words may raise where they have another form."""


class Characterizer:
    """An observer (probe/observer.py) that counts a batch's I/O."""

    def __init__(
        self,
        engine: Path | None,
        bpftrace: str = "bpftrace",
        proc: Path = Path("/proc"),
    ) -> None:
        self._engine = engine
        self._bpftrace = bpftrace
        self._proc = proc
        self._counting: Counting | None = None
        self._recording: BlockRecording | None = None
        self._no_recording = "the engine is not there"
        self._watch: Watch | None = None
        self._mounts: dict[str, Mount] = {}
        self.characterized: Characterized | None = None
        """Of the batch that was ended last."""

    def begin(self, watch: Watch) -> None:
        """Begin to count. Raises ObserverError `characterize-unavailable`."""
        self.close()
        self.characterized = None
        if os.geteuid() != 0:
            raise ObserverError(CODE, _ORDINARY)
        self._watch = watch
        self._mounts = self._mounted(watch)
        tree = tree_below(watch.root_pid, watch.target_pids, self._proc)
        place = watch.directory / f"{watch.stem}.counts"
        self._counting = begun(shutil.which(self._bpftrace), tree, place)
        self._record(watch)

    def end(self) -> None:
        """End it and read the counts. Raises ObserverError."""
        counting, self._counting = self._counting, None
        if counting is None or self._watch is None:
            return
        try:
            seconds = counting.finish()
            counted = self._understood(counting, seconds)
            self.characterized = self._kept(self._traced(counted), self._watch)
        finally:
            counting.discard()
            self.close()

    def close(self) -> None:
        """End everything; what was counted so far goes with it."""
        counting, self._counting = self._counting, None
        recording, self._recording = self._recording, None
        if counting is not None:
            counting.discard()
        if recording is not None:
            recording.close()
            recording.output.unlink(missing_ok=True)

    def _record(self, watch: Watch) -> None:
        if self._engine is not None:
            try:
                output = watch.directory / f"{watch.stem}.bw"
                self._recording = BlockRecording(self._engine, output)
            except (BlockRecordingError, OSError) as why:
                self._no_recording = str(why)

    def _mounted(self, watch: Watch) -> dict[str, Mount]:
        own = mounts(self._proc / str(watch.root_pid) / "mountinfo")
        return own or mounts(self._proc / "self" / "mountinfo")

    def _understood(self, counting: Counting, seconds: float) -> Characterized:
        """Return what was counted. Raises ObserverError, whatever is wrong with the output."""
        try:
            with counting.place.open(errors="replace") as lines:
                return self._described(totals(lines), counting, seconds)
        except _NOT_UNDERSTOOD as why:
            what = f"what {counting.method} told is not understood: {why!r}"
            raise ObserverError(CODE, what) from None

    def _described(
        self, found: Totals, counting: Counting, seconds: float
    ) -> Characterized:
        assert self._watch is not None, "a batch was begun"
        # What was mounted first stays: what came meanwhile is added.
        self._mounts = {**self._mounted(self._watch), **self._mounts}
        numbers = {device_name(int(key[1])) for key in found.maps.get("blk", {})}
        around = Around(
            method=counting.method,
            begin_ns=counting.begin_ns,
            seconds=seconds,
            page_size=os.sysconf("SC_PAGE_SIZE"),
            mounts=self._mounts,
            disks={number: disk_name(number) or number for number in numbers},
            nodes={number: node_name(number) for number in nodes_used(found.maps)},
            absent=tuple(counting.absent()),
        )
        return described(found, around)

    def _traced(self, counted: Characterized) -> Characterized:
        """Return it with what the trace of the block layer says."""
        recording, self._recording = self._recording, None
        why = self._no_recording
        trace: BlockTrace | None = None
        if recording is not None:
            disks = disks_below(devices_used(counted), self._mounts)
            try:
                trace = recording.finish(disks)
            except (BlockRecordingError, OSError) as refused:
                why = str(refused)
        absent = counted.absent if trace else (*counted.absent, ("block trace", why))
        return msgspec.structs.replace(counted, trace=trace, absent=absent)

    def _kept(self, counted: Characterized, watch: Watch) -> Characterized:
        """Write it down beside the series; return it with the file's name."""
        study = watch.directory.parent.parent
        place = watch.directory / f"{watch.stem}.io.json"
        trace = counted.trace
        if trace is not None:
            file = str(Path(trace.file).relative_to(study))
            trace = msgspec.structs.replace(trace, file=file)
        name = str(place.relative_to(study))
        counted = msgspec.structs.replace(counted, trace=trace, file=name)
        try:
            place.write_bytes(msgspec.json.format(msgspec.json.encode(counted)))
        except OSError as why:
            raise ObserverError(CODE, f"the counts cannot be kept: {why}") from None
        return counted
