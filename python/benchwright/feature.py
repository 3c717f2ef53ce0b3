"""The features of this installation, and what a feature can add to the core.

A feature is a folder below features/ with all of its parts: types, commands, experiments, findings,
views. The core walks the installed features and calls the methods of `Feature`; it never asks what
kind of thing a feature is. This module alone imports features (tests/unit/test_layers.py), each by
a literal import, and a feature's `__init__` imports nothing but this module: what it adds is
imported inside of the method that returns it. So a feature that nobody uses costs one small file.

To remove a feature, delete its folder, its row in `TABLE`, its import below, and its commands in
`COMMANDS` (cli/parser.py). A folder without which the program
was installed needs no change at all: its commands are listed as not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    import msgspec

    from benchwright.cli.parser import CommandParser
    from benchwright.cli.shared_options import AddedOptions
    from benchwright.core.errors import StudyError
    from benchwright.core.results import Finding
    from benchwright.findings.codes import Code
    from benchwright.page.document import PartWords
    from benchwright.page.kinds import SessionKind, TrialDocumentKind
    from benchwright.run.gangs import SessionGangs
    from benchwright.run.surroundings import Surrounding
    from benchwright.study.catalogue import MeasuredPart
    from benchwright.study.journal import SessionInfo, StoredSession, Study
    from benchwright.study.parsers.api import ResultFormats
    from benchwright.suite.compile import SuiteLanguage
    from benchwright.suite.toml_sections import SuiteTable
    from benchwright.views.blocks import Section
    from benchwright.watch.observer import ObserverKind

AddParser = Callable[[Any], None]
"""Adds the parser of a command to the subparsers of `bw`."""
COMMAND_FAILED = "command-failed"
"""Code of the finding about a trial whose command failed."""
DocumentType: TypeAlias = "type[msgspec.Struct]"


class Feature:
    """What a feature adds. Every method has an answer for a feature that adds nothing of the kind."""

    name: str
    needs: tuple[str, ...] = ()
    """The features that it imports."""

    def add_parser(self, command: str) -> AddParser:
        """Return the function that adds one of its commands (`Row.commands`)."""
        raise NotImplementedError(f"{self.name} has no command {command}")

    def options_of_other_tools(self, command: str) -> Mapping[str, str]:
        """Return options that users of other tools know, each with what to write instead in this
        command of the feature."""
        return {}

    def suite_languages(self) -> Mapping[str, SuiteLanguage]:
        """Return the languages of suites that it adds, by the suffix of their files."""
        return {}

    def program(self, name: str) -> CommandParser:
        """Return the parser of one of its programs beside `bw` (`Row.programs`)."""
        raise NotImplementedError(f"{self.name} has no program {name}")

    def observers(self) -> Sequence[ObserverKind]:
        """Return the kinds of observers of trials that it adds."""
        return ()

    def result_formats(self) -> ResultFormats | None:
        """Return the formats of result files that it adds to those that every command reads."""
        return None

    def finding_codes(self) -> Mapping[str, Code]:
        """Return the codes of its findings, none of which the core or another feature has."""
        return {}

    def before_command(self, argv: Sequence[str]) -> Sequence[Finding]:
        """Do what must be done before any command that is not run inside of a session, such as
        restoring what a killed `bw` left.

        Returns findings to store with a session that the command starts. Errors are printed, but
        the user's command runs nevertheless.
        """
        return ()

    def suite_tables(self) -> Mapping[str, SuiteTable]:
        """Return the keys that it adds to suites in TOML."""
        return {}

    def options(self, command: str) -> Sequence[AddedOptions]:
        """Return the options that it adds to a command of the core or of another feature."""
        return ()

    def surroundings(
        self, info: SessionInfo, tables: Mapping[str, Any], note: Callable[[str], None]
    ) -> Sequence[Surrounding]:
        """Return what surrounds a session. `tables`: what the tables of its suite state, which are
        to be applied on this machine (`Program.tables`); `note` shows a line of progress."""
        return ()

    def gangs(self, info: SessionInfo) -> SessionGangs | None:
        """Return the gangs that run the parts of a session; None if it has none of this feature."""
        return None

    def measured_parts(
        self, study: Study, session: int, info: SessionInfo
    ) -> Sequence[MeasuredPart]:
        """Return the recorded parts of a session that gangs measured, in the order in which they
        began. Raises StudyError `journal-damaged`."""
        return ()

    def sections(self, part: str, study: Study, session: StoredSession) -> Sequence[Section]:
        """Return what it adds to the report page of a session; `part`: the prefix of the ids."""
        return ()

    def code_of_failure(self, command: str) -> str:
        """Return the code of the finding about a trial that ran one of its commands and failed."""
        return COMMAND_FAILED

    def trial_documents(self) -> Sequence[TrialDocumentKind]:
        """Return the kinds of documents that its programs print, which a trial can have run."""
        return ()

    def status_of_resumed(self, place: Path, number: int, info: SessionInfo, status: int) -> int:
        """Return the exit status of a session that one of its commands began and `bw resume` ended
        with `status`, and write what the command writes at its end. `place`: of the study."""
        return status

    def documents(self) -> Mapping[DocumentType, DocumentType | None]:
        """Return the types of its `--json` documents; with each the type of the least that the
        engine's answer in it contains, if it has one."""
        return {}

    def calls(self) -> Mapping[str, Any]:
        """Return the functions and types that it adds to the Python API, by name."""
        return {}

    def part_words(self) -> Mapping[str, PartWords]:
        """Return what a page calls its parts that are no sessions, by their kind."""
        return {}

    def session_kinds(self) -> Mapping[str, SessionKind]:
        """Return the kinds of sessions that it adds (`Row.kinds`), by the name that a study
        stores."""
        return {}


class Row(NamedTuple):
    """A feature in the table: what is known of it where it is not installed."""

    name: str
    commands: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    """Names in the Python API."""
    suffixes: tuple[str, ...] = ()
    """Suffixes of suites in its language."""
    programs: tuple[str, ...] = ()
    """Programs beside `bw` that are installed with it."""
    kinds: tuple[str, ...] = ()
    """Kinds of sessions."""
    tables: tuple[str, ...] = ()
    """Keys of suites in TOML."""
    options: tuple[str, ...] = ()
    """Options of a stored session that need it to resume the session."""


TABLE = (
    Row("load", ("load",), ("load", "LoadResult")),
    Row("generators"),
    Row("replay", ("replay", "trace")),
    Row("quiet", ("quiet", "chill"), tables=("quiet",)),
    Row("pool", ("pool",), tables=("pool",), options=("pool",)),
    Row(
        "search",
        ("ramp", "peak", "surface"),
        ("peak", "PeakResult"),
        kinds=("ramp", "peak", "surface"),
    ),
    Row("history", ("history",)),
    Row("merge"),
    Row("exchange", ("export",)),
    Row("profile"),
    Row("autopilot", ("measure", "barrier"), (), (".ap",), ("getstats", "graphit")),
)
"""Every feature. What one needs stands before it."""


SUITE_SUFFIXES = (".toml", *(suffix for row in TABLE for suffix in row.suffixes))
"""Suffixes of the files of suites, also those of features that are not installed."""


def feature_of(command: str) -> str:
    """Return the name of the feature that a command of `bw`, or a program beside it, belongs to;
    empty for one of the core."""
    return next((row.name for row in TABLE if command in (*row.commands, *row.programs)), "")


def owner_of(command: str) -> Feature | None:
    """Return the feature that a command of `bw`, or a program beside it, belongs to; None for one of
    the core, and if the feature is not installed."""
    return feature(feature_of(command))


@cache
def features() -> tuple[Feature, ...]:
    """Return the installed features whose needs are installed too, in the order of `TABLE`."""
    return tuple(one for row in TABLE if (one := feature(row.name)) is not None)


@cache
def feature(name: str) -> Feature | None:
    """Return an installed feature; None if it is not installed, something that it needs is not, or
    the table has no such name (`feature_of` a command of the core).

    Imports that feature and what it needs alone: commands inside trials must start fast.
    """
    found = _installed(name) if any(row.name == name for row in TABLE) else None
    return None if found is None or None in map(feature, found.needs) else found


def session_kind(name: str) -> SessionKind | None:
    """Return what the feature that adds a kind of session (`SessionInfo.kind`) answers about it; None
    for a session of tests.

    Raises StudyError if that feature is not installed.
    """
    row = next((row for row in TABLE if name in row.kinds), None)
    if row is None:
        return None
    if (owner := feature(row.name)) is None:
        raise _missing(row, f"the session is a bw {name}, and that command is not installed")
    return owner.session_kinds()[name]


def check_options(options: Collection[str]) -> None:
    """Raise StudyError if a session that is resumed has options of a feature that is not installed."""
    for row in TABLE:
        if feature(row.name) is None and any(option in options for option in row.options):
            raise _missing(row, f"the session uses the feature {row.name}, which is not installed")


def _missing(row: Row, message: str) -> StudyError:
    from benchwright.core.errors import StudyError

    return StudyError("feature-missing", message, f"install the feature {row.name}")


@cache
def observers() -> tuple[ObserverKind, ...]:
    """Return the kinds of observers of trials that features add."""
    return tuple(kind for one in features() for kind in one.observers())


def recorded_by(recorded: Mapping[str, Any]) -> Iterator[tuple[ObserverKind, Any]]:
    """Yield the kinds of observers that recorded something of a test, each with its record.

    `recorded`: the records by `ObserverKind.record`. Without any, no feature is imported.
    """
    if recorded:
        for kind in observers():
            if kind.record in recorded:
                yield kind, recorded[kind.record]


def calls() -> Iterator[str]:
    """Yield the names that features add to the Python API, also those that are not installed."""
    for row in TABLE:
        yield from row.calls


def call(name: str) -> Any:
    """Return a function or a type of the Python API that a feature adds.

    Raises AttributeError if its feature is not installed.
    """
    for one in features():
        if name in (found := one.calls()):
            return found[name]
    raise AttributeError(f"benchwright.{name} belongs to a feature that is not installed")


def _installed(name: str) -> Feature | None:
    try:
        return _import(name)
    except ModuleNotFoundError as error:
        if error.name != f"benchwright.features.{name}":
            raise
        return None


def _import(name: str) -> Feature:
    """Return a feature of the table. Raises ModuleNotFoundError if its folder is not there."""
    # Literal imports, so that mypy and grep find them.
    match name:
        case "load":
            from benchwright.features.load import FEATURE
        case "generators":
            from benchwright.features.generators import FEATURE
        case "replay":
            from benchwright.features.replay import FEATURE
        case "quiet":
            from benchwright.features.quiet import FEATURE
        case "pool":
            from benchwright.features.pool import FEATURE
        case "search":
            from benchwright.features.search import FEATURE
        case "history":
            from benchwright.features.history import FEATURE
        case "merge":
            from benchwright.features.merge import FEATURE
        case "exchange":
            from benchwright.features.exchange import FEATURE
        case "profile":
            from benchwright.features.profile import FEATURE
        case "autopilot":
            from benchwright.features.autopilot import FEATURE
    return FEATURE
