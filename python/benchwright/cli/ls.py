"""`bw ls`: the sessions of studies, and of the studies below a folder."""

from __future__ import annotations

import argparse
import contextlib
import heapq
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from benchwright.cli.parser import add_command
from benchwright.cli.terminal import table_width, warn, write_answer
from benchwright.core.errors import InputError, OperatingError, StudyError, argument_error
from benchwright.core.text import more_text
from benchwright.inputs.option_reader import OptionReader
from benchwright.inputs.options import Option, Text, add_options, request_from
from benchwright.suite.common_options import Json

if TYPE_CHECKING:
    from benchwright.study.catalogue import CatalogueProblem
    from benchwright.study.journal import StoredSession, Study
    from benchwright.views.sessions import ListedSession

_EXAMPLES = """\
examples:
  bw ls                                the studies here and in the folders below, newest first
  bw ls bw-study                       the sessions of one study
  bw ls results --since 7d --tag nightly --limit 20
"""
_AGE = re.compile(r"(\d{1,6}) ?([mhdw])")
_AGE_S = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DATES = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S")
_STATES = ("complete", "undecided", "failed", "interrupted", "running")
_SORTS = ("started", "study", "lasted", "state")


def parse_since(text: str) -> int:
    """Return a moment in UTC, such as `2026-11-01`, `2026-11-01T12:00` or `7d` ago [ns since 1970].

    Raises ValueError.
    """
    if age := _AGE.fullmatch(text):
        return time.time_ns() - int(age[1]) * _AGE_S[age[2]] * 10**9
    for form in _DATES:
        with contextlib.suppress(ValueError):
            at = datetime.strptime(text, form).replace(tzinfo=UTC)
            return int(at.timestamp()) * 10**9
    raise ValueError(f"{text!r} is neither a date nor an age")


def _parse_count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) == int(text)):
        raise ValueError(f"{text!r} is not a number of sessions")
    return int(text)


def _parse_depth(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 3):
        raise ValueError(f"{text!r} is not a number of levels from 0 to 99")
    return int(text)


class LsOptions(msgspec.Struct, frozen=True):
    """The options of `bw ls`."""

    paths: Annotated[
        tuple[str, ...],
        Option(
            "study, session (STUDY@SESSION), or folder, in which studies are searched",
            "PATH",
            default=".",
            positional=True,
            names="directory",
        ),
    ] = ()
    since: Annotated[
        Text,
        Option(
            "only sessions started since: 2026-11-01, 2026-11-01T12:00 (UTC), 12h, 7d, 2w",
            "WHEN",
            parse_since,
            hint="write --since 2026-11-01 or --since 7d",
        ),
    ] = None
    with_tags: Annotated[
        tuple[str, ...],
        Option(
            "only sessions with this tag (repeatable: with all of them)",
            "TAG",
            flag="--tag",
            no_default="it would hide sessions",
        ),
    ] = ()
    states: Annotated[
        tuple[str, ...],
        Option(
            "only sessions in this state (repeatable)",
            "STATE",
            flag="--state",
            choices=_STATES,
            no_default="it would hide sessions",
        ),
    ] = ()
    limit: Annotated[Text, Option("only the N newest sessions", "N", _parse_count)] = None
    sort: Annotated[
        str,
        Option(
            "order: started (newest first), study, lasted (longest first), state",
            "KEY",
            choices=_SORTS,
            default="started",
        ),
    ] = "started"
    depth: Annotated[
        Text, Option("levels of folders to search", "N", _parse_depth, default="4")
    ] = None
    json: Json = False


class _Wanted(msgspec.Struct, frozen=True):
    """The checked selection."""

    since_ns: int
    tags: frozenset[str]
    states: frozenset[str]

    def includes(self, session: StoredSession, state: str) -> bool:
        """Return whether a session in this state is selected."""
        return (
            session.info.started_ns >= self.since_ns
            and self.tags.issubset(session.about.tags)
            and (not self.states or state in self.states)
        )


def add_parser(commands: Any) -> None:
    """Add `bw ls` to the commands."""
    parser = add_command(commands, "ls", epilog=_EXAMPLES)
    add_options(parser, LsOptions)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw ls`; return the exit code. Raises InputError."""
    from benchwright.study.catalogue import DEPTH
    from benchwright.views.sessions import LsDocument, session_entry, sessions_text

    request = request_from(LsOptions, arguments)
    reader = OptionReader(request)
    wanted = _Wanted(
        reader.value("since", 0), frozenset(request.with_tags), frozenset(request.states)
    )
    limit, depth = reader.value("limit"), reader.value("depth", DEPTH)
    if reader.found:
        raise InputError(reader.found)
    listing = _Listing(wanted, limit)
    for text in request.paths or (".",):
        listing.add(text, depth)
    listed = sorted(listing.listed, key=_KEYS[request.sort])
    write_answer(
        json=request.json,
        document=lambda: LsDocument(
            sessions=tuple(session_entry(session.record, session.answer) for session in listed),
            left_out=listing.left_out,
            problems=tuple(listing.problems),
        ),
        text=lambda: sessions_text(listed, table_width()),
    )
    if not request.json:
        _print_rest(listing, request.paths or (".",))
    return 0 if listing.readable or not listing.problems else 2


def _newest(one: ListedSession) -> tuple[Any, ...]:
    record = one.record
    return -record.session.info.started_ns, str(record.study), -record.session.number


_KEYS: dict[str, Callable[[ListedSession], tuple[Any, ...]]] = {
    "started": _newest,
    "study": lambda listed_session: (
        str(listed_session.record.study),
        listed_session.record.session.number,
    ),
    "lasted": lambda one: (-(one.record.lasted_ns or 0), *_newest(one)),
    "state": lambda one: (_STATES.index(one.record.state), *_newest(one)),
}


class _Listing:
    """The selected sessions of the studies read so far."""

    def __init__(self, wanted: _Wanted, limit: int | None) -> None:
        self.problems: list[CatalogueProblem] = []
        self.left_out = 0
        self.readable = 0
        """Studies that could be read."""
        self._wanted, self._limit = wanted, limit
        # The newest, the oldest of them first; a number makes the rows distinct.
        self._newest: list[tuple[int, int, ListedSession]] = []
        self._count = 0
        self._seen: set[str] = set()

    @property
    def listed(self) -> list[ListedSession]:
        """The selected sessions."""
        return [session for _, _, session in self._newest]

    def add(self, text: str, depth: int) -> None:
        """Add the sessions at a path. Raises InputError for a path that does not exist."""
        from benchwright.study.catalogue import find_studies, split_selector

        part = split_selector(Path(text))
        if part.session is not None:
            self._add_study(part.place, part.session)
            return
        if not part.place.is_dir() or part.test is not None:
            message = f"{text}: there is no such directory"
            hint = "name a study, a session (STUDY@SESSION) or a folder of studies"
            raise argument_error("PATH", text, message, hint)
        studies = find_studies(part.place, depth)
        self.problems += studies.problems
        for place in studies.studies:
            self._add_study(place)

    def _add_study(self, place: Path, session: str | None = None) -> None:
        from benchwright.study.catalogue import StudyPart, problem_of, sessions_now
        from benchwright.study.journal import Study

        key = f"{place.resolve()}@{session or ''}"
        if key in self._seen:
            return
        self._seen.add(key)
        try:
            with contextlib.closing(Study.open_to_read(place)) as study:
                self.readable += 1
                sessions = sessions_now(study)
                if session is not None:
                    chosen = StudyPart(place, session).of(study)
                    sessions = [session for session in sessions if session.number == chosen.number]
                for stored_session in reversed(sessions):
                    if self._takes(stored_session):
                        self._keep(_listed(study, stored_session, place))
        except InputError:
            raise
        except (OperatingError, OSError) as error:
            self.problems.append(problem_of(place, error))

    def _takes(self, session: StoredSession) -> bool:
        """Return whether a session is selected and, so far, among the newest."""
        from benchwright.study.catalogue import state_of

        if not self._wanted.includes(session, state_of(session)):
            return False
        started = session.info.started_ns
        if len(self._newest) == self._limit and started <= self._newest[0][0]:
            self.left_out += 1
            return False
        return True

    def _keep(self, one: ListedSession) -> None:
        self._count += 1
        row = (one.record.session.info.started_ns, self._count, one)
        if len(self._newest) == self._limit:
            heapq.heapreplace(self._newest, row)
            self.left_out += 1
        else:
            heapq.heappush(self._newest, row)


def _listed(study: Study, session: StoredSession, place: Path) -> ListedSession:
    """Return a session and its answer. Raises StudyError for records that cannot be read."""
    from benchwright.page.headline import headline
    from benchwright.study.catalogue import record_of
    from benchwright.study.contents import tests_of
    from benchwright.study.database import journal_damaged
    from benchwright.views.sessions import ListedSession

    try:
        tests = tests_of(study, session.number)
        record = record_of(study, session, place, tests)
        return ListedSession(record, headline(study, session, tests))
    except StudyError:
        raise
    except Exception as error:
        # The hashes of a forged journal can be right and its records nonsense: the other
        # studies are listed all the same.
        what = f"session {session.number}: {type(error).__name__}: {error}"
        raise journal_damaged(place, what) from error


_MOST_PROBLEMS = 10


def _print_rest(found: _Listing, paths: Sequence[str]) -> None:
    """Print on stderr what is not in the table, and why."""
    for line in _rest(found, paths):
        warn(f"bw: {line}")


def _rest(found: _Listing, paths: Sequence[str]) -> Iterator[str]:
    if not found.listed and not found.problems:
        yield f"no session in {', '.join(paths)}; `bw run` stores one in ./bw-study"
    if found.left_out:
        yield f"{found.left_out:,} older left out by --limit"
    for problem in found.problems[:_MOST_PROBLEMS]:
        yield f"{problem.message} [{problem.code}]"
    if len(found.problems) > _MOST_PROBLEMS:
        more = more_text(len(found.problems) - _MOST_PROBLEMS)
        yield f"{more} that cannot be read"
