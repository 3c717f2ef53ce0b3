"""What a session of searches holds: its trials, search by search.

Decision: read from the journal each time, as the tests of a session (study/contents.py).
"""

from __future__ import annotations

import msgspec

from benchwright.features.search.keys import SEARCH_KEYS, search_key, search_part
from benchwright.features.search.types import SearchTrial, decode_stored
from benchwright.study.database import reporting_damage
from benchwright.study.journal import Study


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
