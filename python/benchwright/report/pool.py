"""The pool of a session: its gangs and the attempts of its tasks, as text and as JSON (`bw pool status`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from benchwright.core.pool import Attempt, LeaseState, PoolSettings
from benchwright.core.text import duration_ns_text, plural
from benchwright.core.text_table import table_lines, text_column, word_column
from benchwright.core.untrusted import one_line
from benchwright.report.parts import report_text
from benchwright.study.pool import PoolRecord


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
    recorded: int
    """Number of tasks that it recorded."""
    void: int
    """Number of void attempts."""
    busy_ns: int
    """Time of its attempts that ended [ns]."""


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


class PoolDocument(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="schema",
    tag="benchwright/pool/1",
):
    """The pool of a session."""

    study: str
    session: int
    status: str
    """Of the session; `crashed` also while it runs."""
    engine: str
    """`local` or `slurm`."""
    gangs: tuple[GangEntry, ...]
    attempts: tuple[AttemptEntry, ...]
    """In the order in which they began."""


def pool_document(
    study: str,
    session: int,
    status: str,
    settings: PoolSettings,
    record: PoolRecord,
) -> PoolDocument:
    """Return the pool of a session as a document."""
    attempts = tuple(record.attempts.values())
    return PoolDocument(
        study=study,
        session=session,
        status=status,
        engine=settings.engine.value,
        gangs=tuple(_gangs(settings, record, attempts)),
        attempts=tuple(
            AttemptEntry(
                task=one.name,
                attempt=one.number,
                gang=one.gang,
                hosts=one.hosts,
                began_ns=one.began_ns,
                ended_ns=one.ended_ns or None,
                void=None if one.void is None else one.void.value,
                detail=one.detail,
            )
            for one in attempts
        ),
    )


def _gangs(
    settings: PoolSettings, record: PoolRecord, attempts: Sequence[Attempt]
) -> Iterator[GangEntry]:
    for gang in settings.names:
        lease = record.leases.get(gang)
        own = [one for one in attempts if one.gang == gang]
        yield GangEntry(
            gang=gang,
            hosts=() if lease is None else lease.hosts,
            job="" if lease is None else lease.job,
            state=LeaseState.WAITING.value if lease is None else lease.state.value,
            leases=0 if lease is None else lease.number,
            runs="".join(one.name for one in own[-1:] if not one.ended_ns),
            recorded=sum(one.is_recorded for one in own),
            void=sum(one.void is not None for one in own),
            busy_ns=sum(
                max(0, one.ended_ns - one.began_ns) for one in own if one.ended_ns
            ),
        )


def pool_text(document: PoolDocument) -> str:
    """Return a table of the gangs, and a line for each void attempt."""
    return report_text(_lines(document))


def _lines(document: PoolDocument) -> Iterator[str]:
    gangs = document.gangs
    recorded = sum(one.recorded for one in gangs)
    void = sum(one.void for one in gangs)
    yield (
        f"session {document.session} ({document.status}): {document.engine}, "
        f"{plural(len(gangs), 'gang')}, {plural(recorded, 'task')} recorded, "
        f"{plural(void, 'void attempt')}"
    )
    yield ""
    yield from table_lines(
        [
            word_column("gang", (one.gang for one in gangs)),
            word_column(
                "hosts", (one_line(",".join(one.hosts)) or "-" for one in gangs)
            ),
            word_column("job", (one_line(one.job) or "-" for one in gangs)),
            word_column("lease", (f"{one.leases} {one.state}" for one in gangs)),
            word_column("runs", (one_line(one.runs) or "-" for one in gangs)),
            text_column("recorded", (str(one.recorded) for one in gangs)),
            text_column("void", (str(one.void) for one in gangs)),
            text_column("busy", (duration_ns_text(one.busy_ns) for one in gangs)),
        ]
    )
    voids = [one for one in document.attempts if one.void is not None]
    if voids:
        yield ""
    for one in voids:
        detail = f": {one_line(one.detail)}" if one.detail else ""
        where = f"{one_line(one.task)}, attempt {one.attempt}, gang {one.gang}"
        yield f"void {one.void}  {where}{detail}"
    hosts = Counter(host for one in voids for host in one.hosts)
    repeated = [
        f"{one_line(host)} ({count})" for host, count in hosts.items() if count > 1
    ]
    if repeated:
        yield f"hosts with several void attempts: {', '.join(repeated)}"
