"""Drives a search over loads: ask for a probe, run it, keep what it came to, ask again.

The same driver serves a ramp, a peak search, and each sample of a surface: what they
search for is in `Search`, a pure function of the trials so far. Every trial is durable
before that function sees it, so a search that was cut goes on by asking it about the
recorded trials. Decision: recorded trials are not asked for again one by one; the step
is a function of the history alone, and asking it once about all of it is the replay.
A search that ended because the server or the generator failed can be taken up again:
the failures at its end are then forgotten (kept, not counted), once for each resume.
Keys: `KEY/trial/N`, `KEY/forgotten/N`, `KEY/result`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from benchwright.model.peak import LoadEnding, LoadTrial, Probe
from benchwright.model.plan import Pairs
from benchwright.model.search import SearchTrial, kept, read_kept
from benchwright.session.ledger import Ledger
from benchwright.workbench.port import Workbench

Result = TypeVar("Result")

Tell = Callable[[Sequence[SearchTrial]], None]
"""Told of all counted trials after each live one."""


def search_key(place: int = 0) -> str:
    """Return the key of a session's search; `place` counts the samples of a surface."""
    return f"search/{place}"


def _stays(_history: Sequence[LoadTrial], _probe: Probe, _so_far: LoadTrial, /) -> bool:
    return False


def _is_final(_result: object, /) -> bool:
    return False


def _silent(_trials: Sequence[SearchTrial], /) -> None:
    pass


class Search(msgspec.Struct, Generic[Result], frozen=True, kw_only=True):
    """What is searched for, at one sample."""

    kind: type[Result]
    """Of the result: a Struct that JSON can hold."""
    step: Callable[[Sequence[LoadTrial]], Probe | Result]
    """Pure: the next probe, or what the search came to."""
    leaves: Callable[[Sequence[LoadTrial], Probe, LoadTrial], bool] = _stays
    """Pure: whether a running probe has told enough."""
    gives_up: Callable[[Result], bool] = _is_final
    """Whether a result is none: a server that failed, which may be mended. Such a one is
    not recorded, and a resume tries again."""
    key: str = "search/0"
    sample: Pairs = ()


class Searched(msgspec.Struct, Generic[Result], frozen=True):
    """What a search came to, and the trials that count."""

    result: Result
    trials: tuple[SearchTrial, ...]


def run_search(
    search: Search[Result],
    workbench: Workbench,
    ledger: Ledger,
    tell: Tell = _silent,
) -> Searched[Result]:
    """Run a search to its end, or go on with it, and return what it came to.

    `tell` is told after each trial that was run now. Raises Interrupted, and BenchError
    where the workbench cannot go on; the search can be resumed after both.
    """
    trials, number = recorded_trials(search.key, ledger)
    known = recorded_result(ledger, search.kind, search.key)
    if known is not None:
        return Searched(known, tuple(trials))
    resumed = True
    while True:
        history = tuple(one.trial for one in trials)
        answer = search.step(history)
        if isinstance(answer, Probe):
            resumed, number = False, number + 1
            trials.append(_run(search, (number, answer), history, workbench, ledger))
            tell(tuple(trials))
        elif resumed and search.gives_up(answer) and _failures(trials):
            _forget(search.key, number, trials, ledger)
        else:
            if not search.gives_up(answer):
                ledger.note(f"{search.key}/result", kept(answer))
            return Searched(answer, tuple(trials))


def recorded_result(
    ledger: Ledger, kind: type[Result], key: str = "search/0"
) -> Result | None:
    """Return what a search came to; None while it is unfinished, or after it failed."""
    known = ledger.recorded(f"{key}/result", msgspec.Raw)
    return None if known is None else read_kept(known, kind)


def recorded_trials(key: str, ledger: Ledger) -> tuple[list[SearchTrial], int]:
    """Return a search's counted trials, and the number of the last one of all."""
    found: list[SearchTrial] = []
    number = 0
    while (
        text := ledger.recorded(f"{key}/trial/{number + 1}", msgspec.Raw)
    ) is not None:
        number += 1
        found.append(read_kept(text, SearchTrial))
        forgotten = ledger.recorded(f"{key}/forgotten/{number}", int) or 0
        del found[len(found) - forgotten :]
    return found, number


def count_trials(ledger: Ledger) -> int:
    """Return how many trials a session has on record, of all its searches; those that a
    crash cut are not."""
    return ledger.count("/trial/")


def _run(
    search: Search[Result],
    asked: tuple[int, Probe],
    history: Sequence[LoadTrial],
    workbench: Workbench,
    ledger: Ledger,
) -> SearchTrial:
    """Run one probe and return its trial as the journal has it."""
    number, probe = asked

    def leaves(so_far: LoadTrial) -> bool:
        return search.leaves(history, probe, so_far)

    def do() -> msgspec.Raw:
        trial = workbench.run(probe, search.sample, leaves)
        return kept(SearchTrial(number, probe, trial, search.sample))

    what = f"load of {probe.rate:g}/s for {probe.duration_s:g} s"
    text = ledger.once(f"{search.key}/trial/{number}", what, msgspec.Raw, do)
    return read_kept(text, SearchTrial)


def _failures(trials: Sequence[SearchTrial]) -> int:
    """Return how many trials at the end failed."""
    count = 0
    for one in reversed(trials):
        if one.trial.ending is not LoadEnding.FAILED:
            break
        count += 1
    return count


def _forget(key: str, number: int, trials: list[SearchTrial], ledger: Ledger) -> None:
    """Count the failures at the end no more."""
    count = _failures(trials)
    ledger.note(f"{key}/forgotten/{number}", count)
    del trials[len(trials) - count :]
