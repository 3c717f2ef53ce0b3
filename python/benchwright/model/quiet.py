"""What it means to quiet a machine: wishes, changes, and what became of each.

Purpose: plain data between the log of a transaction, the settings and the reports. A
value is always text, as the kernel or a service manager tells it: what is read back
can then be compared with what was written, whatever the setting is.
Source: Auto-pilot paper, section 3.5 (what noservices.sh does).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

import msgspec

from benchwright.model.errors import Diagnostic
from benchwright.model.quiet_values import wrong_values

SETTINGS: dict[str, str] = {
    "nologin": "nobody but root may log in",
    "services": "timers, mail, printing, indexing and other services are stopped",
    "swap": "no swap device is used",
    "dirty": "what is not yet written is written to the disks, once",
    "smt": "the second thread of each core is off",
    "turbo": "no frequency above the nominal one",
    "governor": "the frequency governor of every processor is `performance`",
    "aslr": "addresses are not randomised",
    "thp": "transparent huge pages are `never` used",
    "nmi-watchdog": "the hard-lockup detector is off",
    "swappiness": "vm.swappiness is 1",
    "irq-affinity": "interrupts go to other processors than the benchmark's",
    "isolation": "everybody else runs on other processors than the benchmark",
    "caches": "page cache, dentries and inodes are dropped, once",
}
"""Every setting, in the order of applying; restored in the reverse order."""

ALL = "all"
_PATHS = ("proc/", "sys/", "run/", "etc/")
_WORD = re.compile(r"([a-z-]+)(?:=(.*))?\Z", re.DOTALL)


class Wish(msgspec.Struct, frozen=True):
    """One setting that is to be quieted, with values of the user's where he gave any."""

    name: str
    values: tuple[str, ...] = ()
    """`cron,atd` of `services=cron,atd`; `2-5` of `isolation=2-5`."""


class Quieting(msgspec.Struct, frozen=True):
    """What a suite or a command line asks for."""

    wishes: tuple[Wish, ...]
    require: bool = False
    """What cannot be had is an error, before anything is changed or run."""
    places: tuple[Diagnostic, ...] = ()
    """Where each wish is written, still without a message: for a value that the machine
    does not take."""


class Change(msgspec.Struct, frozen=True):
    """One thing that is changed: durable in the log before it is done."""

    setting: str
    item: str
    """What of the setting: a file, a unit, a process, a device."""
    old: str
    new: str
    action: bool = False
    """Done once, with nothing to put back (dropping caches)."""
    keep: bool = False
    """Not changed by us, but by a side effect of a later change: put back if so."""

    @property
    def place(self) -> str:
        """The item for a person: a path from the root, if it is one."""
        return f"/{self.item}" if self.item.startswith(_PATHS) else self.item


class Lacking(msgspec.Struct, frozen=True):
    """Something that could not be had, and why, in words for a person."""

    setting: str
    why: str


class Done(msgspec.Struct, frozen=True):
    """A change that was made, and what was read back after it."""

    change: Change
    value: str
    """As the system tells it now; it can differ from what was asked (affinities)."""
    note: str = ""


class Quiet(msgspec.Struct, frozen=True):
    """What was put in order."""

    done: tuple[Done, ...] = ()
    lacking: tuple[Lacking, ...] = ()
    already: tuple[str, ...] = ()
    """Settings in which there was nothing to change."""


WRITTEN, AS_BEFORE, GONE, FOREIGN, FAILED = (
    "written",
    "as-before",
    "gone",
    "foreign",
    "failed",
)
"""How a change was undone: the old value was written; it was there already; the thing
itself is gone; somebody else changed it and it is left; it could not be."""


class Undone(msgspec.Struct, frozen=True):
    """What became of one change when it was to be put back."""

    change: Change
    how: str
    value: str = ""
    """What is there now."""
    why: str = ""
    lost: bool = False
    """It had been made, and was taken back by somebody before it was undone."""


class Owner(msgspec.Struct, frozen=True):
    """Who made a transaction: a process is known by its id and its start."""

    pid: int
    """0: nobody in particular; it holds until somebody asks to restore."""
    start: int
    """Field 22 of /proc/PID/stat [clock ticks since boot]."""
    boot_id: str
    session: str = ""
    """BW_SESSION of the session that it belongs to."""


class Restored(msgspec.Struct, frozen=True):
    """What became of a whole transaction."""

    owner: Owner
    undone: tuple[Undone, ...] = ()
    rebooted: bool = False
    log: str = ""
    """How the log was lost meanwhile, or why it is still there; mostly empty."""

    @property
    def failed(self) -> tuple[Undone, ...]:
        """What could not be put back and is still in the log."""
        return tuple(one for one in self.undone if one.how == FAILED)

    @property
    def lost(self) -> tuple[Undone, ...]:
        """What was made and did not hold to the end."""
        return tuple(one for one in self.undone if one.lost)

    @property
    def foreign(self) -> tuple[Undone, ...]:
        """What somebody else had changed meanwhile, and was left."""
        return tuple(one for one in self.undone if one.how == FOREIGN)


def wishes(words: Sequence[str]) -> tuple[Wish, ...]:
    """Return the wishes that words stand for, in the order of applying.

    A word is a setting's name, `NAME=VALUE[,VALUE]`, or `all`; a later word for the same
    setting wins. Raises ValueError with what is wrong and what there is, for the first
    word that is wrong.
    """
    wanted: dict[str, Wish] = {}
    for word in words:
        if word == ALL:
            wanted = {one: Wish(one) for one in SETTINGS} | wanted
        else:
            wish = _wish(word)
            wanted[wish.name] = wish
    return tuple(wanted[name] for name in SETTINGS if name in wanted)


def mistakes(words: Sequence[str]) -> dict[int, str]:
    """Return what is wrong with each word that is no wish, by its index."""
    found = {}
    for index, word in enumerate(words):
        try:
            wishes([word])
        except ValueError as error:
            found[index] = str(error)
    return found


def quieting(
    words: Sequence[str], places: Sequence[Diagnostic], *, require: bool
) -> Quieting:
    """Return what words without a mistake ask for; `places` are theirs, one for each."""
    wanted = wishes(words)
    at = tuple(places[_said(words, wish.name)] for wish in wanted)
    return Quieting(wanted, require, at)


def _wish(word: str) -> Wish:
    match = _WORD.match(word)
    name, values = (match[1], match[2]) if match else (word, None)
    if name == ALL:
        raise ValueError(f"{ALL} takes no values: write it alone")
    if name not in SETTINGS:
        near = difflib.get_close_matches(name, SETTINGS, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        known = ", ".join((*SETTINGS, ALL))
        raise ValueError(f"there is no setting {name!r}; {hint}known: {known}")
    given = tuple(one for one in (values or "").split(",") if one)
    if values is not None and not given:
        raise ValueError(f"{word!r} has no value: write {name} alone, or give it one")
    if given and (wrong := wrong_values(name, given)):
        raise ValueError(wrong)
    return Wish(name, given)


def _said(words: Sequence[str], name: str) -> int:
    """Return the index of the word that asked for a setting."""
    named = [i for i, word in enumerate(words) if word.partition("=")[0] == name]
    return named[-1] if named else words.index(ALL)
