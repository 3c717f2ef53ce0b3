"""What every setting can do: say what it would change, read a value, write one."""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

from benchwright.machine.quiet.host import Host, Refused
from benchwright.model.quiet import Change, Wish


class Plan(msgspec.Struct, frozen=True):
    """What a setting would do on this machine as it is now."""

    changes: tuple[Change, ...] = ()
    lacking: tuple[str, ...] = ()
    """Why some of it, or all, cannot be had."""


class Setting(Protocol):
    """One thing that is put in order; its items are changed one by one."""

    @property
    def name(self) -> str:
        """Its name in `model.quiet.SETTINGS`."""

    def plan(self, host: Host, wish: Wish) -> Plan:
        """Return what would be changed. Changes nothing. Raises Refused."""

    def now(self, host: Host) -> str:
        """Return its state for a person. Raises Refused."""

    def check(self, host: Host, change: Change) -> None:
        """Refuse a change of an item that no plan of this setting could make.

        The change may be from a log: nothing of it is read or written before. Raises
        Refused.
        """

    def read(self, host: Host, change: Change) -> str | None:
        """Return an item's present value; None when it is gone. Raises Refused."""

    def write(self, host: Host, change: Change, value: str) -> str:
        """Give an item a value; return a note for a person, mostly empty. Raises Refused."""


def check_item(change: Change, known: re.Pattern[str]) -> None:
    """Raise Refused unless the whole item matches and no part of its path is `..`."""
    if known.fullmatch(change.item) is None or ".." in change.item.split("/"):
        raise unknown_item(change)


def unknown_item(change: Change) -> Refused:
    """Return the refusal of an item that a setting does not have."""
    return Refused(f"{change.item!r} is nothing that {change.setting} changes")


def lacking(why: str) -> Plan:
    """Return the plan of a setting that cannot be had at all."""
    return Plan((), (why,))
