"""What a session stores about its pool: its settings, the leases of its gangs, the attempts of its
tasks."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from benchwright.features.pool.keys import ATTEMPT_KEYS, LEASE_KEYS, PLANNED_KEYS, POOL_OPTION
from benchwright.features.pool.types import Attempt, Lease, PlannedTasks, PoolKind, PoolSettings
from benchwright.study.database import reporting_damage
from benchwright.study.journal import SessionInfo, Study
from benchwright.study.parts import MeasuredPart


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
