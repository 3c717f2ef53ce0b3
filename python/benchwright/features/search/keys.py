"""The keys of a journal's entries about searches: how they are made and read (study/keys.py).

| key | outcome of |
|---|---|
| `search/P/trial/N`, `forgotten/N`, `result` | the search at place P of a session |
| `surface/P/wanted` | the P-th sample that a surface chose |
| `surface/P/deadline` | the deadline of a surface, before its P-th sample |
"""

from __future__ import annotations

import msgspec

SEARCH_KEYS = "search/"
"""Prefix of the keys of searches."""
_TRIAL = "/trial/"


def search_key(place: int | str = 0) -> str:
    """Return the key of a session's search; `place` is the sample's number in a surface."""
    return f"{SEARCH_KEYS}{place}"


class KeysOfSearch(msgspec.Struct, frozen=True):
    """The keys of the entries of one search."""

    search: str
    """The search's own key, from `search_key`."""

    @property
    def result(self) -> str:
        """The key of its result."""
        return f"{self.search}/result"

    def trial(self, number: int) -> str:
        """Return the key of its n-th trial."""
        return f"{self.search}{_TRIAL}{number}"

    def forgotten(self, number: int) -> str:
        """Return the key of the number of failed trials, just before and at the n-th, that no
        longer count."""
        return f"{self.search}/forgotten/{number}"


def is_search_trial(key: str) -> bool:
    """Return whether an entry is a trial of a search."""
    return key.startswith(SEARCH_KEYS) and _TRIAL in key


def search_part(key: str) -> tuple[str, str, int]:
    """Return the place of a search, the kind of an entry, and its number (0: none):
    `("0", "trial", 7)`, `("0", "result", 0)`."""
    _, place, what = key.split("/", 2)
    kind, _, number = what.partition("/")
    return place, kind, int(number or 0)


def wanted_key(place: int) -> str:
    """Return the key of the n-th sample that a surface chose."""
    return f"surface/{place}/wanted"


def deadline_key(place: int) -> str:
    """Return the key of the end of a surface by its deadline, before the n-th sample."""
    return f"surface/{place}/deadline"
