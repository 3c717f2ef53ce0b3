"""Applies settings as a transaction, restores them, and detects changes that did not last.

A change did not last if the old value is read when it is undone, although the new value had
been read back: systemd may disable a controller again, tuned may reset a governor. Decision:
this is reported only for settings that do not change without a cause. Services, processes and
their groups start and stop, and an interrupt is set again with its device. A second restore
that continues an interrupted one finds old values that the first one restored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

import msgspec

from benchwright.features.quiet.host import Host, Setting, SettingPlan, SettingRefused, unavailable
from benchwright.features.quiet.log import (
    BeginRecord,
    ChangeRecord,
    ClosedRecord,
    LogContents,
    TransactionLog,
    VerifiedRecord,
)
from benchwright.features.quiet.settings import REGISTRY
from benchwright.features.quiet.types import (
    AS_BEFORE,
    FAILED,
    FOREIGN,
    GONE,
    WRITTEN,
    AppliedChange,
    QuietOwner,
    QuietResult,
    RequestedSetting,
    RestoreResult,
    RevertedChange,
    SettingChange,
    UnavailableSetting,
)

_TRANSIENT = ("services", "irq-affinity")
_STEPS = ("controller", "group", "cpus")
"""The steps of isolation that last; its other steps move processes."""


def was_reverted(one: RevertedChange, seen: str | None) -> bool:
    """Return whether another program had reverted a change before we undid it.

    `seen` is the value that was read after the change was made.
    """
    change = one.change
    if change.action or change.keep or not seen or seen == change.old:
        return False
    if one.how == AS_BEFORE:
        return _stays(change)
    return one.how == GONE and _stays(change) and _should_be_there(change)


def _stays(change: SettingChange) -> bool:
    if change.setting == "isolation":
        return change.item.partition(" ")[0] in _STEPS
    return change.setting not in _TRANSIENT


def _should_be_there(change: SettingChange) -> bool:
    """Return whether another program removed a missing item.

    An item may also be missing with its whole group, or because its device is off.
    """
    if change.setting == "isolation":
        return Path(change.item.partition(" ")[2]).parent.is_dir()
    return change.setting != "swap"


# -- Quieting and restoring as a transaction: durable, verified, undone in reverse -----
#
# Each change is logged with its old and new value before it is made, and is read back after
# it. Undoing reads the present value first: the old value (a boot reset it) needs nothing,
# our value is replaced, and any other value (another program wrote it) is left and reported.
# Decision: undoing continues after a failure and keeps the remaining changes in the log.
# Rejected: a list of old values, written at the end; a crash before that would leave no log.

Registry = Mapping[str, Setting]


def plans(
    host: Host, wishes: Sequence[RequestedSetting], registry: Registry = REGISTRY
) -> list[tuple[RequestedSetting, SettingPlan]]:
    """Return what each setting would do now."""
    return [(wish, _planned(host, registry[wish.name], wish)) for wish in wishes]


def _planned(host: Host, setting: Setting, wish: RequestedSetting) -> SettingPlan:
    try:
        return setting.plan(host, wish)
    except SettingRefused as refused:
        return unavailable(str(refused))


class Transaction:
    """Changes that are being made, and their log."""

    def __init__(self, host: Host, log: TransactionLog, registry: Registry = REGISTRY) -> None:
        self._host = host
        self._log = log
        self._registry = registry
        self._number = 0

    def apply(self, begin: BeginRecord, wishes: Sequence[RequestedSetting]) -> QuietResult:
        """Make all changes, setting by setting; return which were made and which not."""
        self._log.add(begin)
        done: list[AppliedChange] = []
        absent: list[UnavailableSetting] = []
        already = []
        for wish in wishes:
            # Plan again: an earlier change (SMT off) may have changed the machine.
            plan = _planned(self._host, self._registry[wish.name], wish)
            absent += (UnavailableSetting(wish.name, why) for why in plan.lacking)
            if not plan.changes and not plan.lacking:
                already.append(wish.name)
            first = self._number + 1
            for change in plan.changes:
                made = self._make(change)
                if isinstance(made, AppliedChange):
                    done.append(made)
                    absent += _transaction_findings(made)
                else:
                    absent.append(made)
            self._look_again(first, plan.changes)
        return QuietResult(tuple(done), tuple(absent), tuple(already))

    def _make(self, change: SettingChange) -> AppliedChange | UnavailableSetting:
        setting = self._registry[change.setting]
        self._number += 1
        self._log.add(ChangeRecord(self._number, change))
        try:
            note = "" if change.keep else setting.write(self._host, change, change.new)
            value = setting.read(self._host, change)
        except SettingRefused as refused:
            # Not closed: a change may fail half-way. Undoing checks the item again.
            return UnavailableSetting(change.setting, str(refused))
        if not change.keep:
            self._log.add(VerifiedRecord(self._number, value or ""))
        return AppliedChange(change, value or "", note)

    def _look_again(self, first: int, changes: Sequence[SettingChange]) -> None:
        """Log the values of preserved files after the change that disturbs them.

        A different value later means that another program changed the file. Without this
        record (we were killed before it) that is unknown, and the old value is written.
        """
        for number, change in enumerate(changes, start=first):
            if change.keep:
                with contextlib.suppress(SettingRefused):
                    value = self._registry[change.setting].read(self._host, change)
                    self._log.add(VerifiedRecord(number, value or ""))


def _transaction_findings(applied_change: AppliedChange) -> Iterator[UnavailableSetting]:
    """Yield what a change did not achieve, although no write failed."""
    change = applied_change.change
    if applied_change.note:
        yield UnavailableSetting(change.setting, applied_change.note)
    if applied_change.value != change.new and not change.keep:
        why = f"{change.place} is {applied_change.value!r} after {change.new!r} was written"
        yield UnavailableSetting(change.setting, why)


def restore(
    host: Host, log: TransactionLog, contents: LogContents, registry: Registry = REGISTRY
) -> RestoreResult:
    """Undo the changes in a log, the last one first; remove the log if nothing is left."""
    if contents.begin is None:
        return RestoreResult(QuietOwner(0, 0, ""), log=_finished(log))
    undone: list[RevertedChange] = []
    owner = contents.begin.owner
    rebooted = owner.boot_id != host.boot_id
    # No earlier restore was started.
    whole = not rebooted and len(contents.changes) == contents.count
    for intent, seen in reversed(contents.changes):
        ours = {seen, *_put_back(intent.change.item, undone)}
        one = _undo(host, registry, intent.change, ours)
        if whole and was_reverted(one, seen):
            one = msgspec.structs.replace(one, lost=True)
        undone.append(one)
        if one.how != FAILED:
            # A full disk must not stop the rest: a change that is not closed is undone again.
            with contextlib.suppress(OSError):
                log.add(ClosedRecord(intent.number, one.how, one.value))
    restored = RestoreResult(owner, tuple(undone), rebooted, place=str(log.path))
    if restored.failed:
        log.close()
        return restored
    return msgspec.structs.replace(restored, log=_finished(log))


def _finished(log: TransactionLog) -> str:
    """Remove a log; return why it could not be removed, else an empty text."""
    try:
        log.finish()
    except OSError as error:
        log.close()
        return (
            f"what was changed is undone, but the log {log.path} cannot be removed "
            f"({error.strerror}): remove it"
        )
    return ""


def unchanged(host: Host, contents: LogContents) -> bool:
    """Return whether no change in a log needs to be restored."""
    return all(
        intent.change.action or _as_before(host, REGISTRY, intent.change)
        for intent, _ in contents.changes
    )


def _as_before(host: Host, registry: Registry, change: SettingChange) -> bool:
    try:
        setting = registry[change.setting]
        setting.check(host, change)
        # None: the item no longer exists (a process that ended) and cannot be restored.
        return setting.read(host, change) in (None, change.old)
    except SettingRefused:
        return False


def _put_back(item: str, undone: Sequence[RevertedChange]) -> Iterator[str]:
    """Yield the values that an item got when our later changes of it were undone."""
    for one in undone:
        if one.change.item == item and one.how in (WRITTEN, AS_BEFORE):
            yield one.change.old


def _undo(
    host: Host, registry: Registry, change: SettingChange, ours: Set[str | None]
) -> RevertedChange:
    """Undo one change; `ours` are the values it can have if no other program changed it.

    None among these: the value was not read back after the change.
    """
    if change.action:
        return RevertedChange(change, AS_BEFORE)
    setting = registry.get(change.setting)
    if setting is None:
        return RevertedChange(change, FAILED, why=f"this bw knows no setting {change.setting!r}")
    try:
        setting.check(host, change)
        value = setting.read(host, change)
        if value is None:
            return RevertedChange(change, GONE)
        if value == change.old:
            return RevertedChange(change, AS_BEFORE, value)
        unknown = change.keep and None in ours
        if value not in (change.new, *ours) and not unknown:
            return RevertedChange(change, FOREIGN, value)
        setting.write(host, change, change.old)
        return _verified(change, setting.read(host, change))
    except SettingRefused as refused:
        return RevertedChange(change, FAILED, why=str(refused))


def _verified(change: SettingChange, value: str | None) -> RevertedChange:
    if value == change.old:
        return RevertedChange(change, WRITTEN, value)
    why = f"it is {value!r} after {change.old!r} was written"
    return RevertedChange(change, FAILED, value or "", why)
