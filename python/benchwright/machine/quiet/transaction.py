"""Whether what was changed held to the end, or another process took it back before.

What reads as before us when it is undone, though ours had been read back, was not ours all
the time: systemd may take a controller back, tuned may set a governor again. Decision:
told only of what stays by itself. Services, processes and their groups begin and end, and
an interrupt is set again with its device; whoever undoes after another had started to
(a second restore) finds what that one restored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

import msgspec

from benchwright.core.quiet import (
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
from benchwright.machine.quiet.host import (
    Host,
    Setting,
    SettingPlan,
    SettingRefused,
    unavailable,
)
from benchwright.machine.quiet.log import (
    BeginRecord,
    ChangeRecord,
    ClosedRecord,
    LogContents,
    TransactionLog,
    VerifiedRecord,
)
from benchwright.machine.quiet.settings import REGISTRY

_TRANSIENT = ("services", "irq-affinity")
_STEPS = ("controller", "group", "cpus")
"""What of isolation stays; its other steps are processes."""


def was_reverted(one: RevertedChange, seen: str | None) -> bool:
    """Return whether a change that was undone had not held; `seen`: what was read after it."""
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
    """Return whether a missing item was removed by itself: not with its group, and not a device that is off."""
    if change.setting == "isolation":
        return Path(change.item.partition(" ")[2]).parent.is_dir()
    return change.setting != "swap"


# -- Quieting and restoring as a transaction: durable, verified, undone in reverse -----
#
# Each change is in the log with its old and new value before it is made, and is read back
# after it. Undoing reads first: the old value is there already (a boot put it back), ours
# is there (it is replaced), or another (another program changed it: it is left and reported).
# Decision: undoing goes on after a failure and keeps in the log what is left. What lost: a
# list of old values alone, written in the end; a crash before it leaves nothing to read.

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

    def __init__(
        self, host: Host, log: TransactionLog, registry: Registry = REGISTRY
    ) -> None:
        self._host = host
        self._log = log
        self._registry = registry
        self._number = 0

    def apply(
        self, begin: BeginRecord, wishes: Sequence[RequestedSetting]
    ) -> QuietResult:
        """Make all changes, setting by setting; return what was done and what not."""
        self._log.add(begin)
        done: list[AppliedChange] = []
        absent: list[UnavailableSetting] = []
        already = []
        for wish in wishes:
            # Planned again, now: an earlier change (SMT off) may have changed what is there.
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
            # Not closed: a refusal may come after half of it. Undoing looks again.
            return UnavailableSetting(change.setting, str(refused))
        if not change.keep:
            self._log.add(VerifiedRecord(self._number, value or ""))
        return AppliedChange(change, value or "", note)

    def _look_again(self, first: int, changes: Sequence[SettingChange]) -> None:
        """Log what kept files read after the change that disturbs them.

        What reads otherwise later was changed by another program. Before this record (we
        were killed) this cannot be distinguished, and the old value is written.
        """
        for number, change in enumerate(changes, start=first):
            if change.keep:
                with contextlib.suppress(SettingRefused):
                    value = self._registry[change.setting].read(self._host, change)
                    self._log.add(VerifiedRecord(number, value or ""))


def _transaction_findings(
    applied_change: AppliedChange,
) -> Iterator[UnavailableSetting]:
    """Yield what is not as it was asked, though nothing refused."""
    change = applied_change.change
    if applied_change.note:
        yield UnavailableSetting(change.setting, applied_change.note)
    if applied_change.value != change.new and not change.keep:
        why = f"{change.place} is {applied_change.value!r} after {change.new!r} was written"
        yield UnavailableSetting(change.setting, why)


def restore(
    host: Host,
    log: TransactionLog,
    contents: LogContents,
    registry: Registry = REGISTRY,
) -> RestoreResult:
    """Undo what a log reports, the last change first; remove the log if nothing is left."""
    if contents.begin is None:
        return RestoreResult(QuietOwner(0, 0, ""), log=_finished(log))
    undone: list[RevertedChange] = []
    owner = contents.begin.owner
    rebooted = owner.boot_id != host.boot_id
    # Nobody began to undo it before.
    whole = not rebooted and len(contents.changes) == contents.count
    for intent, seen in reversed(contents.changes):
        ours = {seen, *_put_back(intent.change.item, undone)}
        one = _undo(host, registry, intent.change, ours)
        if whole and was_reverted(one, seen):
            one = msgspec.structs.replace(one, lost=True)
        undone.append(one)
        if one.how != FAILED:
            # A full disk does not stop the others: what is not closed is undone again.
            with contextlib.suppress(OSError):
                log.add(ClosedRecord(intent.number, one.how, one.value))
    restored = RestoreResult(owner, tuple(undone), rebooted)
    if restored.failed:
        log.close()
        return restored
    return msgspec.structs.replace(restored, log=_finished(log))


def _finished(log: TransactionLog) -> str:
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


def unchanged(host: Host, contents: LogContents) -> bool:
    """Return whether nothing of what a log reports is there to restore."""
    return all(
        intent.change.action or _as_before(host, REGISTRY, intent.change)
        for intent, _ in contents.changes
    )


def _as_before(host: Host, registry: Registry, change: SettingChange) -> bool:
    try:
        setting = registry[change.setting]
        setting.check(host, change)
        # None: it no longer exists (a process that ended), and nothing of it can be restored.
        return setting.read(host, change) in (None, change.old)
    except SettingRefused:
        return False


def _put_back(item: str, undone: Sequence[RevertedChange]) -> Iterator[str]:
    """Yield the values that undoing our later changes of an item gave back to it."""
    for one in undone:
        if one.change.item == item and one.how in (WRITTEN, AS_BEFORE):
            yield one.change.old


def _undo(
    host: Host, registry: Registry, change: SettingChange, ours: Set[str | None]
) -> RevertedChange:
    """Undo one change; `ours` is what it can read if nobody else touched it.

    None among these: it was not read again after it was made.
    """
    if change.action:
        return RevertedChange(change, AS_BEFORE)
    setting = registry.get(change.setting)
    if setting is None:
        return RevertedChange(
            change, FAILED, why=f"this bw knows no setting {change.setting!r}"
        )
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
