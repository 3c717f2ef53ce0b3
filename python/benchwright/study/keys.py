"""The keys of a journal's entries: how they are made and read, in one place; and what a user says
about a session: its name, its tags, its note.

A key identifies an outcome. The same program and the same outcomes give the same keys, so a
resume finds the recorded outcomes. Non-goal: the payloads (study/journal.py, run/ledger.py).

| key | outcome of |
|---|---|
| `B.N/say`, `B.N/system`, `B.N/checkpoint` | an effect of the program |
| `B.N/compare/result` | a comparison |
| `B.N/test/plan`, `/stop` | a test |
| `B.N/test/NAME`, such as `/characterized` | an extra trial for an observer |
| `B.N/test/epoch/E` | one epoch |
| `B.N/test/program/E` | the termination program after E epochs |
| `B.N/test/presetup/S/I`, `ready/S`, `suspended/S`, `postcleanup/S/I` | after S suspensions,
command I |
| `B.N/test/outside/S` | the setting of PRESETUP, in replicates |
| `B.N/test/build/PATH/D/I`, `visits` | builds of a replicate, by directory; the start of a span; of a
comparison `B.N/compare/...` |
| `B.N/test/boots/I`, `restarts/I` | the starts of the machine that replicates use, and the restarts that they
asked for; of a comparison `B.N/compare/...` |
| `B.N/test/recovery/Q/I` | CLEANUP command I, due since entry Q |
| `search/...`, `surface/...` | a search over loads (features/search/keys.py) |
| `pool/...` | what happened in a pool (features/pool/keys.py) |
| `environment/N` | a capture of the machine |
| `findings/N` | the findings of the session at its N-th end |
| `about/N` | name, tags and note of the session since its N-th change of them |

B is the branch of an effect, N its place in the branch. The branch is 0 until a checkpoint is
restored; then it is the number of that restore, because the program may take another path after
it. Keys of epochs are under their test, so epochs survive a restore.

Purpose of name, tags and note: a session is found again by what it was for. Decision: the session
stores them when it starts; a later change is an entry `about/N` of the journal with all three,
numbered in order, and the last one holds. So nothing is rewritten, and the journal shows each
change. Rejected: a file beside the journal, which no hash covers. A name stands where a session's
number does (`STUDY@before`), so its form excludes what separates the parts of a selector, and
numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

NAME_FLAG = "--session-name"
ABOUT_OPTION = "about"
"""The option of a session with what was said about it at its start."""
_NAME = re.compile(r"\w[\w.+-]*")
_TAG = re.compile(r"\w[\w.+:/=-]*")
_LONGEST_WORD = 80
_LONGEST_NOTE = 2000


class SessionAbout(msgspec.Struct, frozen=True):
    """Name, tags and note of a session."""

    name: str = ""
    """Unique in its study; empty: none."""
    tags: tuple[str, ...] = ()
    """In the order in which they were added, each once."""
    note: str = ""


def stated_about(options: Mapping[str, str]) -> SessionAbout:
    """Return what was said about a session at its start."""
    return msgspec.json.decode(options.get(ABOUT_OPTION, "{}"), type=SessionAbout)


def parse_name(text: str) -> str:
    """Return the name of a session. Raises ValueError."""
    if not _NAME.fullmatch(text) or len(text) > _LONGEST_WORD:
        raise ValueError(
            f"{text!r} is not a name: it has letters, digits, and . _ + - after the first "
            f"character, and at most {_LONGEST_WORD} characters"
        )
    if text.isdigit():
        raise ValueError(f"{text!r} would be the number of a session")
    return text


def parse_tag(text: str) -> str:
    """Return a tag. Raises ValueError."""
    if not _TAG.fullmatch(text) or len(text) > _LONGEST_WORD:
        raise ValueError(
            f"{text!r} is not a tag: it has letters, digits, and . _ + : / = - after the first "
            f"character, and at most {_LONGEST_WORD} characters"
        )
    return text


def parse_note(text: str) -> str:
    """Return a note, without blanks around it. Raises ValueError."""
    if len(text) > _LONGEST_NOTE:
        raise ValueError(f"a note has up to {_LONGEST_NOTE:,} characters")
    return text.strip()


_TEST = "/test"
_EPOCH = "/epoch/"
_COMPARISON_RESULT = "/compare/result"

ENVIRONMENT_KEYS = "environment/"
"""Prefix of the keys of captures of the machine."""
FINDINGS_KEYS = "findings/"
"""Prefix of the keys of the findings of a session."""
ABOUT_KEYS = "about/"
"""Prefix of the keys of names, tags and notes."""


class EffectKeys:
    """Makes the keys of one pass over a program."""

    def __init__(self) -> None:
        self._branch = "0"
        self._count = 0

    def next(self, what: str) -> str:
        """Return the key of the next effect."""
        key = self.following(what)
        self._count += 1
        return key

    def following(self, what: str) -> str:
        """Return the key that `next` would return now."""
        return f"{self._branch}.{self._count + 1}/{what}"

    def restore(self, sequence: int) -> None:
        """Start the branch of a restored checkpoint; `sequence` is the number of the restore."""
        self._branch = f"r{sequence}"
        self._count = 0


# -- tests and comparisons ---------------------------------------------------------------


def owning_test(key: str) -> str | None:
    """Return the key of the test that an entry belongs to; None if it belongs to no test."""
    before, test, after = key.partition(f"{_TEST}/")
    return f"{before}{_TEST}" if test and after else None


def is_epoch(key: str) -> bool:
    """Return whether an entry is about an epoch of a test."""
    return _EPOCH in key


def epoch_of(key: str) -> int:
    """Return the number of the epoch that an entry is about."""
    return int(key.rpartition(_EPOCH)[2])


class KeysOfTest(msgspec.Struct, frozen=True):
    """The keys of the entries of one test.

    PRESETUP and POSTCLEANUP run again after each suspension of the test; their keys contain the
    number of suspensions before them.
    """

    test: str
    """The test's own key, from `EffectKeys`."""

    @property
    def plan(self) -> str:
        """The key of its first plan."""
        return f"{self.test}/plan"

    @property
    def stop(self) -> str:
        """The key of the decision that ended it."""
        return f"{self.test}/stop"

    def recorded(self, name: str) -> str:
        """Return the key of what an observer recorded of the test (`ObserverKind.record`)."""
        return f"{self.test}/{name}"

    def recorded_name(self, key: str) -> str:
        """Return the name of such a key; empty for a key of something else."""
        name = key.removeprefix(f"{self.test}/")
        return "" if "/" in name or key in (self.plan, self.stop) else name

    @property
    def epochs(self) -> str:
        """The prefix of the keys of its epochs."""
        return f"{self.test}{_EPOCH}"

    def epoch(self, number: int) -> str:
        """Return the key of an epoch's outcome."""
        return f"{self.epochs}{number}"

    def termination(self, epochs: int) -> str:
        """Return the key of its termination program after this number of epochs."""
        return f"{self.test}/program/{epochs}"

    def presetup(self, suspensions: int) -> str:
        """Return the prefix of the keys of its PRESETUP commands."""
        return f"{self.test}/presetup/{suspensions}/"

    def outside(self, suspensions: int) -> str:
        """Return the key of the setting of its PRESETUP, where replicates outside it change that."""
        return f"{self.test}/outside/{suspensions}"

    def ready(self, suspensions: int) -> str:
        """Return the key of the end of its PRESETUP."""
        return f"{self.test}/ready/{suspensions}"

    def suspended(self, suspensions: int) -> str:
        """Return the key of a suspension: POSTCLEANUP ran before the test ended."""
        return f"{self.test}/suspended/{suspensions}"

    def postcleanup(self, suspensions: int) -> str:
        """Return the prefix of the keys of its POSTCLEANUP commands."""
        return f"{self.test}/postcleanup/{suspensions}/"

    def recovery(self, sequence: int) -> str:
        """Return the prefix of the keys of a CLEANUP that is due since the entry `sequence`."""
        return f"{self.test}/recovery/{sequence}/"


def comparison_result_key(comparison: str) -> str:
    """Return the key of a comparison's result; the comparison's own key ends with `/compare`."""
    return comparison.removesuffix("/compare") + _COMPARISON_RESULT


def is_comparison_result(key: str) -> bool:
    """Return whether an entry is the result of a comparison."""
    return key.endswith(_COMPARISON_RESULT)


# -- the session ------------------------------------------------------------------------


def findings_key(number: int) -> str:
    """Return the key of a session's findings at its n-th end."""
    return f"{FINDINGS_KEYS}{number}"


def environment_key(number: int) -> str:
    """Return the key of a session's n-th capture of the machine."""
    return f"{ENVIRONMENT_KEYS}{number}"


def about_key(number: int) -> str:
    """Return the key of the n-th change of a session's name, tags and note."""
    return f"{ABOUT_KEYS}{number}"
