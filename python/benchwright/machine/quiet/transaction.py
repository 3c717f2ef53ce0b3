"""Quieting and restoring as a transaction: durable, verified, undone in reverse.

Each change is in the log with its old and new value before it is made, and is read back
after it. Undoing reads first: the old value is there already (a boot put it back), ours
is there (it is replaced), or another (somebody else changed it: it is left and told).
Decision: undoing goes on after a failure and keeps in the log what is left. What lost: a
list of old values alone, written in the end; a crash before it leaves nothing to read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence, Set

import msgspec

from benchwright.machine.quiet.host import Host, Refused
from benchwright.machine.quiet.lasting import was_lost
from benchwright.machine.quiet.log import Begin, Closed, Contents, Intent, Log, Verified
from benchwright.machine.quiet.registry import REGISTRY
from benchwright.machine.quiet.setting import Plan, Setting, lacking
from benchwright.model.quiet import (
    AS_BEFORE,
    FAILED,
    FOREIGN,
    GONE,
    WRITTEN,
    Change,
    Done,
    Lacking,
    Owner,
    Quiet,
    Restored,
    Undone,
    Wish,
)

Registry = Mapping[str, Setting]


def plans(
    host: Host, wishes: Sequence[Wish], registry: Registry = REGISTRY
) -> list[tuple[Wish, Plan]]:
    """Return what each setting would do now."""
    return [(wish, _planned(host, registry[wish.name], wish)) for wish in wishes]


def _planned(host: Host, setting: Setting, wish: Wish) -> Plan:
    try:
        return setting.plan(host, wish)
    except Refused as refused:
        return lacking(str(refused))


class Transaction:
    """Changes that are being made, and their log."""

    def __init__(self, host: Host, log: Log, registry: Registry = REGISTRY) -> None:
        self._host = host
        self._log = log
        self._registry = registry
        self._number = 0

    def apply(self, begin: Begin, wishes: Sequence[Wish]) -> Quiet:
        """Make all changes, setting by setting; return what was done and what not."""
        self._log.add(begin)
        done: list[Done] = []
        absent: list[Lacking] = []
        already = []
        for wish in wishes:
            # Planned again, now: an earlier change (SMT off) may have changed what is there.
            plan = _planned(self._host, self._registry[wish.name], wish)
            absent += (Lacking(wish.name, why) for why in plan.lacking)
            if not plan.changes and not plan.lacking:
                already.append(wish.name)
            first = self._number + 1
            for change in plan.changes:
                made = self._make(change)
                if isinstance(made, Done):
                    done.append(made)
                    absent += _doubts(made)
                else:
                    absent.append(made)
            self._look_again(first, plan.changes)
        return Quiet(tuple(done), tuple(absent), tuple(already))

    def _make(self, change: Change) -> Done | Lacking:
        setting = self._registry[change.setting]
        self._number += 1
        self._log.add(Intent(self._number, change))
        try:
            note = "" if change.keep else setting.write(self._host, change, change.new)
            value = setting.read(self._host, change)
        except Refused as refused:
            # Not closed: a refusal may come after half of it. Undoing looks again.
            return Lacking(change.setting, str(refused))
        if not change.keep:
            self._log.add(Verified(self._number, value or ""))
        return Done(change, value or "", note)

    def _look_again(self, first: int, changes: Sequence[Change]) -> None:
        """Log what kept files read after the change that disturbs them.

        What reads otherwise later was changed by somebody else. Before this record (we
        were killed) that cannot be told, and the old value is written.
        """
        for number, change in enumerate(changes, start=first):
            if change.keep:
                with contextlib.suppress(Refused):
                    value = self._registry[change.setting].read(self._host, change)
                    self._log.add(Verified(number, value or ""))


def _doubts(made: Done) -> Iterator[Lacking]:
    """Yield what is not as it was asked, though nothing refused."""
    change = made.change
    if made.note:
        yield Lacking(change.setting, made.note)
    if made.value != change.new and not change.keep:
        why = f"{change.place} is {made.value!r} after {change.new!r} was written"
        yield Lacking(change.setting, why)


def restore(
    host: Host, log: Log, contents: Contents, registry: Registry = REGISTRY
) -> Restored:
    """Undo what a log tells, the last change first; remove the log if nothing is left."""
    if contents.begin is None:
        return Restored(Owner(0, 0, ""), log=_finished(log))
    undone: list[Undone] = []
    owner = contents.begin.owner
    rebooted = owner.boot_id != host.boot_id
    # Nobody began to undo it before.
    whole = not rebooted and len(contents.changes) == contents.count
    for intent, seen in reversed(contents.changes):
        ours = {seen, *_put_back(intent.change.item, undone)}
        one = _undo(host, registry, intent.change, ours)
        if whole and was_lost(one, seen):
            one = msgspec.structs.replace(one, lost=True)
        undone.append(one)
        if one.how != FAILED:
            # A full disk does not stop the others: what is not closed is undone again.
            with contextlib.suppress(OSError):
                log.add(Closed(intent.number, one.how, one.value))
    restored = Restored(owner, tuple(undone), rebooted)
    if restored.failed:
        log.close()
        return restored
    return msgspec.structs.replace(restored, log=_finished(log))


def _finished(log: Log) -> str:
    """Remove a log; return why it is still there, mostly empty."""
    try:
        log.finish()
    except OSError as error:
        log.close()
        return (
            f"what was changed is undone, but the log {log.path} cannot be removed "
            f"({error.strerror}): remove it"
        )
    return ""


def unchanged(host: Host, contents: Contents, registry: Registry = REGISTRY) -> bool:
    """Tell whether nothing of what a log tells is there to put back."""
    return all(
        intent.change.action or _as_before(host, registry, intent.change)
        for intent, _ in contents.changes
    )


def _as_before(host: Host, registry: Registry, change: Change) -> bool:
    try:
        setting = registry[change.setting]
        setting.check(host, change)
        # None: it is gone (a process that ended), and nothing of it can be put back.
        return setting.read(host, change) in (None, change.old)
    except Refused:
        return False


def _put_back(item: str, undone: Sequence[Undone]) -> Iterator[str]:
    """Yield the values that undoing our later changes of an item gave back to it."""
    for one in undone:
        if one.change.item == item and one.how in (WRITTEN, AS_BEFORE):
            yield one.change.old


def _undo(
    host: Host, registry: Registry, change: Change, ours: Set[str | None]
) -> Undone:
    """Undo one change; `ours` is what it can read if nobody else touched it.

    None among these: it was not read again after it was made.
    """
    if change.action:
        return Undone(change, AS_BEFORE)
    setting = registry.get(change.setting)
    if setting is None:
        return Undone(
            change, FAILED, why=f"this bw knows no setting {change.setting!r}"
        )
    try:
        setting.check(host, change)
        value = setting.read(host, change)
        if value is None:
            return Undone(change, GONE)
        if value == change.old:
            return Undone(change, AS_BEFORE, value)
        unknown = change.keep and None in ours
        if value not in (change.new, *ours) and not unknown:
            return Undone(change, FOREIGN, value)
        setting.write(host, change, change.old)
        return _verified(change, setting.read(host, change))
    except Refused as refused:
        return Undone(change, FAILED, why=str(refused))


def _verified(change: Change, value: str | None) -> Undone:
    if value == change.old:
        return Undone(change, WRITTEN, value)
    why = f"it is {value!r} after {change.old!r} was written"
    return Undone(change, FAILED, value or "", why)
