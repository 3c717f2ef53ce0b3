"""A session of searches: its stored request, the loop over probes, and its recorded end."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from benchwright import __version__
from benchwright.core.errors import Interrupted, OperatingError
from benchwright.core.plan import Pairs
from benchwright.core.search import (
    LoadEnding,
    LoadTrial,
    Probe,
    SearchTrial,
    decode_stored,
    encode_stored,
)
from benchwright.load.workbench import Workbench
from benchwright.run.ledger import Ledger
from benchwright.run.preparation import boot_id
from benchwright.run.session import SessionVerdict
from benchwright.study.contents import SEARCH_KINDS
from benchwright.study.export import export_searches
from benchwright.study.journal import SessionInfo
from benchwright.study.keys import KeysOfSearch, is_search_trial, search_key
from benchwright.suite.program import SourceFile
from benchwright.trial.bench import SESSION_TOKEN
from benchwright.trial.protocol import ExecEnvironment

# -- From what the user asked to a session of searches that can run, now or later ------
#
# What decides a search's course is stored with its session: the request as the user typed
# it, the spec's text, the directory, and PATH. A resume reads nothing else.

Request = TypeVar("Request")

SEARCH_REQUEST = "<request>"
"""`program_main` of a session of searches; its first source is the request as JSON."""


def search_info(
    kind: str,
    request: msgspec.Struct,
    spec: SourceFile | None,
    arguments: Sequence[str],
) -> SessionInfo:
    """Return what a session of this kind is begun with: one of `SEARCHES`."""
    assert kind in SEARCH_KINDS
    asked = SourceFile(SEARCH_REQUEST, msgspec.json.encode(request).decode())
    sources = (asked,) if spec is None else (asked, spec)
    environment = {"PATH": _search_path(spec)}
    return SessionInfo(
        started_ns=time.time_ns(),
        version=__version__,
        boot_id=boot_id(),
        directory=os.getcwd(),
        arguments=tuple(arguments),
        defines=(),
        program_main=SEARCH_REQUEST,
        sources=tuple((one.path, one.text) for one in sources),
        options={
            "token": secrets.token_hex(8),
            "environment": msgspec.json.encode(environment).decode(),
        },
        kind=kind,
    )


def stored_request(info: SessionInfo, kind: type[Request]) -> Request:
    """Return the request that a session of searches was begun with."""
    fields = msgspec.json.decode(info.sources[0][1])
    # Earlier versions stored the options of a ramp that set its goal in a table.
    return msgspec.convert(fields | fields.pop("options", {}), type=kind)


def stored_spec(info: SessionInfo) -> SourceFile | None:
    """Return the spec as it was when the session began; None where there was none."""
    return SourceFile(*info.sources[1]) if len(info.sources) > 1 else None


def search_environment(info: SessionInfo, study: Path) -> ExecEnvironment:
    """Return what every command of the session gets."""
    stored = msgspec.json.decode(info.options["environment"], type=dict[str, str])
    ours = {**stored, SESSION_TOKEN: info.options["token"], "BW_STUDY": str(study)}
    return ExecEnvironment(info.directory, tuple(ours.items()))


def _search_path(spec: SourceFile | None) -> str:
    """Return PATH with the spec's directory first and that of `bw` itself last."""
    beside = None if spec is None else str(Path(spec.path).resolve().parent)
    tools = str(Path(sys.executable).parent)
    places = [beside, os.environ.get("PATH", os.defpath), tools]
    return os.pathsep.join(place for place in places if place)


# --------------------------------------------------------------------------------------
# Drives a search over loads: ask for a probe, run it, keep what it came to, ask
# again.
#
# The same driver serves a ramp, a peak search, and each sample of a surface: what they
# search for is in `Search`, a pure function of the trials so far. Every trial is durable
# before that function sees it, so a search that was cut goes on by asking it about the
# recorded trials. Decision: recorded trials are not asked for again one by one; the step
# is a function of the history alone, and asking it once about all of it is the replay.
# A search that ended because the server or the generator failed can be taken up again:
# the failures at its end are then forgotten (kept, not counted), once for each resume.

Result = TypeVar("Result")

TrialCallback = Callable[[Sequence[SearchTrial]], None]
"""Told of all counted trials after each live one."""


def _never_leaves(
    _history: Sequence[LoadTrial], _probe: Probe, _so_far: LoadTrial, /
) -> bool:
    return False


def _never_gives_up(_result: object, /) -> bool:
    return False


def _no_callback(_trials: Sequence[SearchTrial], /) -> None:
    pass


class Search(msgspec.Struct, Generic[Result], frozen=True, kw_only=True):
    """What is searched for, at one sample."""

    kind: type[Result]
    """Of the result: a Struct that JSON can hold."""
    step: Callable[[Sequence[LoadTrial]], Probe | Result]
    """Pure: the next probe, or what the search came to."""
    leaves: Callable[[Sequence[LoadTrial], Probe, LoadTrial], bool] = _never_leaves
    """Pure: whether a running probe has told enough."""
    gives_up: Callable[[Result], bool] = _never_gives_up
    """Whether a result is none: a server that failed, which may be mended. Such a one is
    not recorded, and a resume tries again."""
    key: str = search_key()
    sample: Pairs = ()


class SearchResult(msgspec.Struct, Generic[Result], frozen=True):
    """What a search came to, and the trials that count."""

    result: Result
    trials: tuple[SearchTrial, ...]


def run_search(
    search: Search[Result],
    workbench: Workbench,
    ledger: Ledger,
    tell: TrialCallback = _no_callback,
) -> SearchResult[Result]:
    """Run a search to its end, or go on with it, and return what it came to.

    `tell` is told after each trial that was run now. Raises Interrupted, and BenchError
    where the workbench cannot go on; the search can be resumed after both.
    """
    trials, number = recorded_trials(search.key, ledger)
    known = recorded_result(ledger, search.kind, search.key)
    if known is not None:
        return SearchResult(known, tuple(trials))
    resumed = True
    while True:
        history = tuple(one.trial for one in trials)
        answer = search.step(history)
        if isinstance(answer, Probe):
            resumed, number = False, number + 1
            trials.append(
                _run_probe(search, (number, answer), history, workbench, ledger)
            )
            tell(tuple(trials))
        elif resumed and search.gives_up(answer) and _count_failures(trials):
            _discount_failures(search.key, number, trials, ledger)
        else:
            if not search.gives_up(answer):
                ledger.note(KeysOfSearch(search.key).result, encode_stored(answer))
            return SearchResult(answer, tuple(trials))


def recorded_result(
    ledger: Ledger, kind: type[Result], key: str = search_key()
) -> Result | None:
    """Return what a search came to; None while it is unfinished, or after it failed."""
    known = ledger.recorded(KeysOfSearch(key).result, msgspec.Raw)
    return None if known is None else decode_stored(known, kind)


def recorded_trials(key: str, ledger: Ledger) -> tuple[list[SearchTrial], int]:
    """Return a search's counted trials, and the number of the last one of all."""
    keys = KeysOfSearch(key)
    found: list[SearchTrial] = []
    number = 0
    while (text := ledger.recorded(keys.trial(number + 1), msgspec.Raw)) is not None:
        number += 1
        found.append(decode_stored(text, SearchTrial))
        forgotten = ledger.recorded(keys.forgotten(number), int) or 0
        del found[len(found) - forgotten :]
    return found, number


def count_trials(ledger: Ledger) -> int:
    """Return how many trials a session has on record, of all its searches; those that a
    crash cut are not."""
    return ledger.count(is_search_trial)


def _run_probe(
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
        return encode_stored(SearchTrial(number, probe, trial, search.sample))

    what = f"load of {probe.rate:g}/s for {probe.duration_s:g} s"
    text = ledger.once(KeysOfSearch(search.key).trial(number), what, msgspec.Raw, do)
    return decode_stored(text, SearchTrial)


def _count_failures(trials: Sequence[SearchTrial]) -> int:
    """Return how many trials at the end failed."""
    count = 0
    for one in reversed(trials):
        if one.trial.ending is not LoadEnding.FAILED:
            break
        count += 1
    return count


def _discount_failures(
    key: str, number: int, trials: list[SearchTrial], ledger: Ledger
) -> None:
    """Count the failures at the end no more."""
    count = _count_failures(trials)
    ledger.note(KeysOfSearch(key).forgotten(number), count)
    del trials[len(trials) - count :]


# -- One session of searches, from its first trial to its recorded end -----------------
#
# The same for a ramp, a peak and a surface: an interrupt and a broken workbench leave the
# session resumable; what a search comes to decides the rest.

Outcome = TypeVar("Outcome")


def record_search_session(
    ledger: Ledger,
    do: Callable[[], Outcome],
    verdict_of: Callable[[Outcome], SessionVerdict],
) -> tuple[Outcome | None, SessionVerdict]:
    """Do what the session is for; record and return what it came to, and the verdict.

    The outcome is None after an interrupt. Raises BenchError, InputError and StudyError
    as the searches do; the session ends as `failed` then and can be resumed.
    """
    outcome = None
    try:
        outcome = do()
        verdict = verdict_of(outcome)
    except Interrupted:
        verdict = SessionVerdict(
            "interrupted", "cut short; `bw resume` goes on from here", 130
        )
    except OperatingError as error:
        _end_search_session(ledger, "failed", str(error))
        raise
    unexported = _end_search_session(ledger, verdict.status, verdict.detail)
    if unexported:
        detail = f"{verdict.detail}; {unexported}"
        verdict = msgspec.structs.replace(verdict, detail=detail)
    return outcome, verdict


def _end_search_session(ledger: Ledger, status: str, detail: str) -> str:
    """Record how the session ended and export it; return why the export is not whole."""
    ledger.study.end_session(ledger.session, status, detail)
    try:
        export_searches(ledger.study, ledger.session)
    except OSError as error:
        return (
            f"the text export under results/ is not whole: {error.strerror} (the journal "
            "is: `bw stats` reads it)"
        )
    return ""
