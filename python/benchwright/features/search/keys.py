"""The keys of a journal's entries about searches (study/keys.py has the others), and the trials of
a session that they hold, search by search.

| key | outcome of |
|---|---|
| `search/P/trial/N`, `forgotten/N`, `result` | the search at place P of a session |
| `surface/P/wanted` | the P-th sample that a surface chose |
| `surface/P/deadline` | the deadline of a surface, before its P-th sample |

Decision: trials are read from the journal each time, as the tests of a session (study/contents.py).
"""

from __future__ import annotations

import msgspec

from benchwright.features.search.types import SearchTrial, decode_stored
from benchwright.study.database import reporting_damage
from benchwright.study.journal import Study

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


class SearchContents(msgspec.Struct):
    """Everything recorded about one search of a session, except its result."""

    name: str
    """The last part of its key: 0, or the sample's number in a surface."""
    trials: list[SearchTrial] = []
    """Every trial, in order, including those that do not count."""
    forgotten: set[int] = set()
    """Numbers of the failed trials that a resume no longer counts."""

    @property
    def key(self) -> str:
        """Its key."""
        return search_key(self.name)


def searches_of(study: Study, session: int) -> list[SearchContents]:
    """Return a session's searches in order. Raises StudyError as `tests_of`."""
    found: dict[str, SearchContents] = {}
    with reporting_damage(study.path):
        for entry in study.entries(session, ("outcome",), under=SEARCH_KEYS):
            name, what, number = search_part(entry.key)
            search = found.setdefault(name, SearchContents(name))
            if what == "trial":
                search.trials.append(decode_stored(entry.payload, SearchTrial))
            elif what == "forgotten":
                count = msgspec.json.decode(entry.payload, type=int)
                search.forgotten.update(range(number - count + 1, number + 1))
    return [search for search in found.values() if search.trials]


def search_trials_of(study: Study, session: int) -> list[SearchTrial]:
    """Return every trial of a session's searches in order, including those that do not count.

    Raises StudyError as `tests_of`.
    """
    searches = searches_of(study, session)
    return [trial for search in searches for trial in search.trials]
