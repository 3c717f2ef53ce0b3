"""Whether what was changed held to the end, or somebody took it back before.

What reads as before us when it is undone, though ours had been read back, was not ours all
the time: systemd may take a controller back, tuned may set a governor again. Decision:
told only of what stays by itself. Services, processes and their groups begin and end, and
an interrupt is set again with its device; whoever undoes after another had begun to
(a second restore) finds what that one put back.
"""

from __future__ import annotations

from pathlib import Path

from benchwright.model.quiet import AS_BEFORE, GONE, Change, Undone

_COME_AND_GO = ("services", "irq-affinity")
_STEPS = ("controller", "group", "cpus")
"""What of isolation stays; its other steps are processes."""


def was_lost(one: Undone, seen: str | None) -> bool:
    """Tell whether a change that was undone had not held; `seen`: what was read after it."""
    change = one.change
    if change.action or change.keep or not seen or seen == change.old:
        return False
    if one.how == AS_BEFORE:
        return _stays(change)
    return one.how == GONE and _stays(change) and _should_be_there(change)


def _stays(change: Change) -> bool:
    if change.setting == "isolation":
        return change.item.partition(" ")[0] in _STEPS
    return change.setting not in _COME_AND_GO


def _should_be_there(change: Change) -> bool:
    """Tell whether what is gone was taken: not with its group, and not a device, off now."""
    if change.setting == "isolation":
        return Path(change.item.partition(" ")[2]).parent.is_dir()
    return change.setting != "swap"
