"""What the journal of a session has about its pool: its settings, the leases of its gangs, the
attempts of its tasks, and what a gang measured, copied into it once.

How far the tasks are follows from the attempts so far: a task is expected to hold a gang for as
long as the tasks did that are recorded, their void attempts included. The tasks that wait go to the
gangs in the order in which these become free. Decision: sums that each attempt changes, because a
controller of 10,000 tasks reports its progress after each event. Pure: the caller passes the time.

To adopt what a gang measured, the journal of the task's study is checked from end to end; then the
entries of the task are appended together with the end of the attempt in one transaction, so a crash
leaves both or none, and a second adoption fails on the keys.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import shutil
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from benchwright.core.errors import StudyError
from benchwright.core.observation import Trial
from benchwright.core.plan import TestPlan
from benchwright.core.results import Finding
from benchwright.core.text import duration_text, plural
from benchwright.features.pool.agent import STUDY
from benchwright.features.pool.keys import (
    ATTEMPT_KEYS,
    LEASE_KEYS,
    PLANNED_KEYS,
    POOL_OPTION,
    attempt_key,
)
from benchwright.features.pool.protocol import TaskVerdict
from benchwright.features.pool.types import (
    Attempt,
    Lease,
    PlannedTasks,
    PoolKind,
    PoolProgress,
    PoolSettings,
)
from benchwright.run.ledger import Ledger
from benchwright.study.catalogue import MeasuredPart
from benchwright.study.contents import FINDING_KIND, first_machine, recorded_findings
from benchwright.study.database import reporting_damage
from benchwright.study.journal import NewEntry, SessionInfo, Study
from benchwright.study.keys import KeysOfTest, is_epoch, owning_test
from benchwright.study.logs import STREAMS, file_name, log_file, stored_range

_COPIED = ("begin", "outcome", "void")
_SESSION = 1
"""The session of a task's study."""


class Damaged(Exception):
    """A result differs from what the host wrote; the message says in what."""


def unpack(result: bytes, verdict: TaskVerdict, place: Path) -> Path:
    """Unpack the result of an attempt into a directory, which is replaced; return its study. Raises
    Damaged."""
    digest = hashlib.sha256(result).hexdigest()
    if (len(result), digest) != (verdict.size, verdict.sha256):
        text = f"the collected result has SHA-256 {digest[:12]}, the one on the host {verdict.sha256[:12]}"
        raise Damaged(text)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True, mode=0o700)
    try:
        with tarfile.open(fileobj=io.BytesIO(result)) as packed:
            packed.extractall(place, filter="data")
    except tarfile.TarError as error:
        raise Damaged(f"the collected result cannot be unpacked: {error}") from None
    return place / STUDY


def move_files(study: Path, to: Path, session: int) -> None:
    """Move the logs and series of a task's tests to where those of a session's tests are. Raises
    OSError."""
    for folder in study.glob(f"*/s{_SESSION}"):
        if folder.parent.name == "results":
            continue
        place = to / folder.parent.name / f"s{session}"
        place.mkdir(parents=True, exist_ok=True)
        for item in folder.iterdir():
            shutil.rmtree(place / item.name, ignore_errors=True)
            shutil.move(item, place / item.name)


class LogsBefore(msgspec.Struct, frozen=True):
    """The logs that a session had of tests before those of another host came behind them."""

    sizes: Mapping[tuple[str, str], int]
    """By the directory of the test and the name of the file [bytes]."""

    def moved(self, trial: Trial, test: str) -> Trial:
        """Return a trial with the ranges of its output in the longer files. `test`: its name."""
        processes = []
        for one in trial.processes:
            out, err = (
                (at + self.sizes.get((file_name(test), log_file(one, stream)), 0), length)
                for stream in STREAMS
                for at, length in [stored_range(one, stream)]
            )
            processes.append(msgspec.structs.replace(one, out=out, err=err))
        return msgspec.structs.replace(trial, processes=tuple(processes))


def append_files(study: Path, to: Path, session: int) -> LogsBefore:
    """Append the logs of a task's tests to those that the session has of the same tests from other
    hosts, and move the rest. Raises OSError."""
    sizes = {}
    for log in sorted((study / "logs" / f"s{_SESSION}").glob("*/*")):
        whole = to / "logs" / f"s{session}" / log.parent.name / log.name
        whole.parent.mkdir(parents=True, exist_ok=True)
        with log.open("rb") as source, whole.open("ab") as target:
            sizes[log.parent.name, log.name] = target.tell()
            shutil.copyfileobj(source, target)
    shutil.rmtree(study / "logs", ignore_errors=True)
    move_files(study, to, session)
    return LogsBefore(sizes)


def adopt(
    ledger: Ledger,
    attempt: Attempt,
    prefixes: tuple[str, ...],
    study: Path,
    logs: LogsBefore | None = None,
) -> None:
    """Record the entries of an attempt, its machine, its findings and its end, in one durable
    write. `logs`: where the attempt is one host of several of the same tests.

    Raises Damaged, and StudyError if the session's own journal cannot be written.
    """
    try:
        with contextlib.closing(Study.open_to_read(study)) as opened:
            entries = [
                NewEntry(
                    entry.kind, entry.key, msgspec.Raw(entry.payload), entry.begin, copied=entry.seq
                )
                for entry in opened.entries(_SESSION, _COPIED)
                if entry.key.startswith(prefixes)
            ]
            machine = first_machine(opened, _SESSION)
            findings: tuple[Finding, ...] = recorded_findings(opened, _SESSION)
    except StudyError as error:
        raise Damaged(f"the collected study: {error.message}") from None
    if logs is not None:
        entries = _of_one_host(ledger, entries, logs)
    entries += [NewEntry(FINDING_KIND, finding.code, finding) for finding in findings]
    if machine is not None:
        key = attempt_key(attempt.id, "environment")
        entries.append(NewEntry("outcome", key, machine))
    entries.append(NewEntry("outcome", attempt_key(attempt.id, "ended"), attempt))
    ledger.adopt(entries)


def _of_one_host(ledger: Ledger, entries: list[NewEntry], logs: LogsBefore) -> list[NewEntry]:
    """Return entries without plans that came from another host, and with the ranges of output in the
    session's logs."""
    names: dict[str | None, str] = {}
    found = []
    for entry in entries:
        test, payload = owning_test(entry.key), entry.payload
        assert isinstance(payload, msgspec.Raw), "they are copies"
        if test is not None and entry.key == KeysOfTest(test).plan:
            names[test] = msgspec.json.decode(payload, type=TestPlan).name
            if ledger.knows(entry.key):
                continue
        elif entry.kind == "outcome" and is_epoch(entry.key):
            trial = logs.moved(msgspec.json.decode(payload, type=Trial), names[test])
            entry = msgspec.structs.replace(entry, payload=trial)
        found.append(entry)
    return found


class PoolTally:
    """The attempts of a session, as far as its progress depends on them."""

    def __init__(self, planned: PlannedTasks | None = None) -> None:
        self.planned = planned
        """None: unknown."""
        self._recorded = 0
        self._void = 0
        self._held_ns = 0
        """For how long the attempts that ended held their gangs."""
        self._running: dict[str, Attempt] = {}

    def add(self, attempt: Attempt) -> None:
        """Count an attempt that begins, or that ended."""
        if not attempt.ended_ns:
            self._running[attempt.id] = attempt
            return
        self._running.pop(attempt.id, None)
        self._held_ns += max(0, attempt.ended_ns - attempt.began_ns)
        if attempt.is_recorded:
            self._recorded += 1
        else:
            self._void += 1

    def progress(self, gangs: int, now_ns: int) -> PoolProgress:
        """Return the progress now. `gangs`: how many run side by side; `now_ns`: CLOCK_REALTIME
        [ns]."""
        planned = self.planned
        left_s = None if planned is None else self._left_s(planned.tasks, gangs, now_ns)
        at_most = False
        if planned is not None and planned.until_ns:
            until_s = max(0, planned.until_ns - now_ns) / 1e9
            at_most = left_s is None or left_s > until_s
            left_s = until_s if at_most else left_s
        return PoolProgress(
            planned=None if planned is None else planned.tasks,
            recorded=self._recorded,
            running=len(self._running),
            void=self._void,
            left_s=left_s,
            at_most=at_most,
        )

    def _left_s(self, tasks: int, gangs: int, now_ns: int) -> float | None:
        """Return the time until all tasks are expected to be recorded [s]; None before the first
        one is."""
        if not self._recorded:
            return None
        length_ns = self._held_ns / self._recorded
        busy = [
            max(0.0, length_ns - (now_ns - attempt.began_ns)) for attempt in self._running.values()
        ]
        free_in = sorted(busy + [0.0] * (gangs - len(busy)))
        waiting = max(0, tasks - self._recorded - len(busy))
        # All gangs become free within one length, so they take turns.
        each, more = divmod(waiting, len(free_in)) if free_in else (0, 0)
        ends = (free + length_ns * (each + (place < more)) for place, free in enumerate(free_in))
        return max(ends, default=0.0) / 1e9


def status_text(progress: PoolProgress, elapsed_s: float) -> str:
    """Return how far the tasks are as one line; `elapsed_s`: since this start of the session [s]."""
    return "; ".join((*progress_parts(progress), f"{duration_text(elapsed_s)} so far"))


def progress_parts(progress: PoolProgress) -> list[str]:
    """Return `5 of 12 tasks recorded, 4 running`, `about 3 min left` and `1 void attempt`, as far
    as they are known."""
    done = plural(progress.recorded, "task")
    if progress.planned is not None:
        done = f"{progress.recorded:,} of {plural(progress.planned, 'task')}"
    parts = [f"{done} recorded"]
    if progress.running:
        parts[0] += f", {progress.running} running"
    if progress.left_s and progress.recorded != progress.planned:
        bound = "at most" if progress.at_most else "about"
        parts.append(f"{bound} {duration_text(progress.left_s, 2)} left")
    if progress.void:
        parts.append(plural(progress.void, "void attempt"))
    return parts


class PoolRecord(msgspec.Struct, frozen=True):
    """The leases and attempts of a session."""

    every_lease: dict[str, Lease]
    """Every lease by its name, as it was recorded last, in the order in which they began."""
    attempts: dict[str, Attempt]
    """Every attempt by its identifier, in the order in which they began."""
    planned: PlannedTasks | None = None
    """Of the last start of the session; None if it did not get so far."""

    @property
    def leases(self) -> dict[str, Lease]:
        """The last lease of each gang."""
        return {lease.gang: lease for lease in self.every_lease.values()}


def stored_pool(info: SessionInfo) -> PoolSettings | None:
    """Return the settings of a session's pool; None if it has none."""
    text = info.options.get(POOL_OPTION)
    return None if text is None else msgspec.json.decode(text, type=PoolSettings)


def pool_record(study: Study, session: int) -> PoolRecord:
    """Return what a session recorded about its pool. Raises StudyError `journal-damaged`."""
    leases: dict[str, Lease] = {}
    attempts: dict[str, Attempt] = {}
    planned: PlannedTasks | None = None
    with reporting_damage(study.path):
        for entry in study.entries(session, ("outcome",), under=LEASE_KEYS):
            lease = msgspec.json.decode(entry.payload, type=Lease)
            leases[lease.name] = lease
        for entry in study.entries(session, ("outcome",), under=ATTEMPT_KEYS):
            if entry.key.endswith(("/begun", "/ended")):
                attempt = msgspec.json.decode(entry.payload, type=Attempt)
                attempts[attempt.id] = attempt
        for entry in study.entries(session, ("outcome",), under=PLANNED_KEYS):
            planned = msgspec.json.decode(entry.payload, type=PlannedTasks)
    return PoolRecord(leases, attempts, planned)


def measured_parts(study: Study, session: int, info: SessionInfo) -> list[MeasuredPart]:
    """Return the recorded parts of a session with a pool. Raises StudyError `journal-damaged`."""
    settings = stored_pool(info)
    is_here = settings is None or settings.engine is PoolKind.LOCAL
    return parts_of_attempts(pool_record(study, session).attempts.values(), is_here=is_here)


def parts_of_attempts(attempts: Iterable[Attempt], *, is_here: bool) -> list[MeasuredPart]:
    """Return the parts that attempts recorded; `is_here`: all gangs are on this machine.

    The model of a surface has an effect of each gang, so one that was leased again on other hosts is
    another one: `g1 on n3, n4`.
    """
    hosts: dict[str, tuple[str, ...]] = {}
    found = []
    for attempt in attempts:
        if attempt.is_recorded:
            same = set(hosts.setdefault(attempt.gang, attempt.hosts)) == set(attempt.hosts)
            found.append(
                MeasuredPart(
                    place=attempt.place,
                    keys=tuple(prefix.removesuffix("/") for prefix in attempt.prefixes),
                    gang=attempt.gang if same else f"{attempt.gang} on {', '.join(attempt.hosts)}",
                    hosts=() if is_here else attempt.hosts,
                    held_ns=attempt.ended_ns - attempt.began_ns,
                )
            )
    return found
