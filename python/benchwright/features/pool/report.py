"""The pool of a session: its gangs, their leases, and the attempts of its tasks, as text and as
JSON (`bw pool status`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.text import ABSENT, duration_ns_text, plural
from benchwright.core.text_table import table_lines, text_column, word_column
from benchwright.core.untrusted import one_line
from benchwright.features.pool.progress import PoolTally, progress_parts
from benchwright.features.pool.stored import PoolRecord, pool_record, stored_pool
from benchwright.features.pool.types import Attempt, Lease, LeaseState, PoolProgress, PoolSettings
from benchwright.report.parts import report_text
from benchwright.study.journal import StoredSession, Study


class GangEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One gang."""

    gang: str
    hosts: tuple[str, ...]
    """The server's host first; empty before the first lease runs."""
    job: str
    """Of its last lease: the number of the Slurm job, the process id of a local agent."""
    state: str
    """Of its last lease: `waiting`, `running` or `ended`."""
    leases: int
    """Number of leases so far."""
    runs: str
    """The task that it runs; empty: none."""
    attempt: int | None
    """The number of that task's attempt; null: none runs."""
    since_ns: int | None
    """When that attempt began: CLOCK_REALTIME [ns since 1970]."""
    recorded: int
    """Number of tasks that it recorded."""
    void: int
    """Number of void attempts."""
    busy_ns: int
    """Time of its attempts that ended [ns]."""


class LeaseEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One lease of a gang."""

    gang: str
    number: int
    """Of the gang's leases, from 1."""
    hosts: tuple[str, ...]
    """The server's host first; empty before it runs."""
    job: str
    """The number of the Slurm job, the process id of a local agent."""
    state: str
    """`waiting`, `running` or `ended`."""
    ended: str | None
    """Why it ended, if bw did not end it."""
    detail: str


class AttemptEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a task."""

    task: str
    attempt: int
    gang: str
    hosts: tuple[str, ...]
    began_ns: int
    """CLOCK_REALTIME [ns since 1970]."""
    ended_ns: int | None
    """null: it runs, or its controller was killed."""
    void: str | None
    """Why it does not count; null: it is recorded, or it runs."""
    detail: str
    failed_host: str
    """The host that made it void, if that is known not to be the server's; empty: none."""


class PoolDocument(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="benchwright/pool/1"
):
    """The pool of a session."""

    study: str
    session: int
    status: str
    """Of the session; `running` while it runs."""
    engine: str
    """`local` or `slurm`."""
    planned: int | None
    """Number of tasks of the whole session; null: unknown."""
    recorded: int
    """Number of tasks that are recorded."""
    left_s: float | None
    """Expected time until all tasks are recorded [s]; null: unknown, or the session does not run.
    """
    gangs: tuple[GangEntry, ...]
    leases: tuple[LeaseEntry, ...]
    """In the order in which they began."""
    attempts: tuple[AttemptEntry, ...]
    """In the order in which they began."""


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the pool of a session at one time."""

    settings: PoolSettings
    record: PoolRecord
    now_ns: int | None
    """CLOCK_REALTIME [ns]; None: the session does not run."""

    @property
    def progress(self) -> PoolProgress:
        """How far the tasks are."""
        tally = PoolTally(self.record.planned)
        for one in self.record.attempts.values():
            # What began before a crash runs no more.
            if one.ended_ns or self.now_ns is not None:
                tally.add(one)
        leases = self.record.leases.values()
        running = sum(one.state is LeaseState.RUNNING for one in leases)
        found = tally.progress(running or self.settings.gangs, self.now_ns or 0)
        if self.now_ns is None:
            return msgspec.structs.replace(found, left_s=None, at_most=False)
        return found

    @property
    def running(self) -> dict[str, Attempt]:
        """The attempt that each gang runs."""
        if self.now_ns is None:
            return {}
        attempts = self.record.attempts.values()
        return {one.gang: one for one in attempts if not one.ended_ns}


def pool_state(study: Study, session: StoredSession, now_ns: int) -> PoolState | None:
    """Return the state of a session's pool at a time [ns since 1970]; None if it has no pool.

    A session runs if its status says so, which is that of `sessions_now`. Raises StudyError
    `journal-damaged`.
    """
    settings = stored_pool(session.info)
    if settings is None:
        return None
    return PoolState(
        settings=settings,
        record=pool_record(study, session.number),
        now_ns=now_ns if session.status == "running" else None,
    )


def pool_document(study: str, session: int, status: str, state: PoolState) -> PoolDocument:
    """Return the pool of a session as a document."""
    record, progress = state.record, state.progress
    return PoolDocument(
        study=study,
        session=session,
        status=status,
        engine=state.settings.engine.value,
        planned=progress.planned,
        recorded=progress.recorded,
        left_s=progress.left_s,
        gangs=tuple(_gangs(state)),
        leases=tuple(map(_lease, record.every_lease.values())),
        attempts=tuple(map(_attempt, record.attempts.values())),
    )


def _gangs(state: PoolState) -> Iterator[GangEntry]:
    leases, running = state.record.leases, state.running
    of_gang: dict[str, list[Attempt]] = {}
    for one in state.record.attempts.values():
        of_gang.setdefault(one.gang, []).append(one)
    for gang in state.settings.names:
        lease, own, runs = leases.get(gang), of_gang.get(gang, ()), running.get(gang)
        yield GangEntry(
            gang=gang,
            hosts=() if lease is None else lease.hosts,
            job="" if lease is None else lease.job,
            state=LeaseState.WAITING.value if lease is None else lease.state.value,
            leases=0 if lease is None else lease.number,
            runs="" if runs is None else runs.name,
            attempt=None if runs is None else runs.number,
            since_ns=None if runs is None else runs.began_ns,
            recorded=sum(one.is_recorded for one in own),
            void=sum(one.void is not None for one in own),
            busy_ns=sum(max(0, one.ended_ns - one.began_ns) for one in own if one.ended_ns),
        )


def _lease(one: Lease) -> LeaseEntry:
    return LeaseEntry(
        gang=one.gang,
        number=one.number,
        hosts=one.hosts,
        job=one.job,
        state=one.state.value,
        ended=None if one.ended is None else one.ended.value,
        detail=one.detail,
    )


def _attempt(one: Attempt) -> AttemptEntry:
    return AttemptEntry(
        task=one.name,
        attempt=one.number,
        gang=one.gang,
        hosts=one.hosts,
        began_ns=one.began_ns,
        ended_ns=one.ended_ns or None,
        void=None if one.void is None else one.void.value,
        detail=one.detail,
        failed_host=one.failed_host,
    )


def pool_text(document: PoolDocument, state: PoolState) -> str:
    """Return a table of the gangs, and a line for each lease that was lost and each void attempt."""
    return report_text(
        [_head(document, state)],
        _gang_table(document.gangs, state.now_ns),
        _lost_leases(document.leases),
        _voids(document.attempts),
    )


def _head(document: PoolDocument, state: PoolState) -> str:
    gangs = plural(len(document.gangs), "gang")
    parts = "; ".join(progress_parts(state.progress))
    session = f"session {document.session} ({document.status})"
    return f"{session}: {document.engine}, {gangs}; {parts}"


def _gang_table(gangs: Sequence[GangEntry], now_ns: int | None) -> Iterator[str]:
    def since(one: GangEntry) -> str:
        if one.since_ns is None or now_ns is None:
            return ABSENT
        return duration_ns_text(max(0, now_ns - one.since_ns), 2)

    yield from table_lines(
        [
            word_column("gang", (one.gang for one in gangs)),
            word_column("hosts", (one_line(",".join(one.hosts)) or ABSENT for one in gangs)),
            word_column("job", (one_line(one.job) or ABSENT for one in gangs)),
            word_column("lease", (f"{one.leases} {one.state}" for one in gangs)),
            word_column("runs", (one_line(one.runs) or ABSENT for one in gangs)),
            text_column("attempt", (str(one.attempt or ABSENT) for one in gangs)),
            text_column("for", map(since, gangs)),
            text_column("recorded", (str(one.recorded) for one in gangs)),
            text_column("void", (str(one.void) for one in gangs)),
            text_column("busy", (duration_ns_text(one.busy_ns) for one in gangs)),
        ]
    )


def _lost_leases(leases: Sequence[LeaseEntry]) -> Iterator[str]:
    for one in leases:
        if one.ended is not None:
            on = f" on {one_line(', '.join(one.hosts))}" if one.hosts else ""
            detail = f": {one_line(one.detail)}" if one.detail else ""
            yield f"lease {one.number} of {one.gang}{on} ended: {one.ended}{detail}"


def _voids(attempts: Sequence[AttemptEntry]) -> Iterator[str]:
    voids = [one for one in attempts if one.void is not None]
    for one in voids:
        detail = f": {one_line(one.detail)}" if one.detail else ""
        where = f"{one_line(one.task)}, attempt {one.attempt}, gang {one.gang}"
        yield f"void {one.void}  {where}{detail}"
    hosts = Counter(one.failed_host or one.hosts[0] for one in voids if one.hosts)
    repeated = [f"{one_line(host)} ({count})" for host, count in hosts.items() if count > 1]
    if repeated:
        yield f"hosts with several void attempts: {', '.join(repeated)}"
