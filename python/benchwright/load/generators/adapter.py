"""The seam to load generators that are programs of their own: what each can do, how its
keys are read, what is asked of it, what it reports."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, ClassVar, Literal, Protocol

import msgspec

from benchwright.core.plan import Command, Pairs
from benchwright.core.search import Criterion, LoadSeries, rounded_rate
from benchwright.suite.form import Key
from benchwright.suite.toml_table import TomlTable
from benchwright.trial.programs import program_of

# -- The seam to load generators that are programs of their own ------------------------
#
# Purpose: what a bench must know of any generator: how it is called for a rate and a
# length, what its figures mean, and how its output is read.
# Decision: a generator is a frozen record of the user's keys with three pure functions;
# a table of command lines and regular expressions lost, because what a figure means (from
# which moment does a response count?) depends on the keys. The one effect, running it, is
# in run.py. Non-goal: no generator is made more honest than it is; it is marked.
# Sources: the generators' own manuals, named in their modules.

LoadAxis = Literal["rate", "users"]
Statistic = Literal["mean", "percentile", "share", "ratio", "metric"]

CLOSED_LOOP = "closed-loop-generator"
HIDES_LATENESS = "hides-lateness"
GENERATOR_SATURATED = "generator-saturated"
RATE_ROUNDED = "rate-rounded"
OPERATIONS_SKIPPED = "operations-skipped"
GENERATOR_LATE = "generator-late"
ERRORS_IN_RESPONSE = "errors-in-response"
BACKLOG_UNCOUNTED = "backlog-not-counted"

LATENESS = "lateness_ms_mean"
"""Key of the mean time by which operations started late, where a generator reports it."""


class GeneratorTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What a generator's figures are worth, with the keys that the user gave."""

    open_loop: bool = False
    """Whether operations start on a schedule, whatever the server does."""
    from_intended: bool = False
    """Whether a response counts from the intended start, so that no wait is omitted."""
    reports_lateness: bool = False
    """Whether it reports its own lateness."""
    statistics: tuple[Statistic, ...] = ()
    """Which kinds of criterion it can give a value for."""
    shares: tuple[float, ...] | None = None
    """Its only percentiles, as shares; None: any."""
    metrics: tuple[str, ...] | None = None
    """The only keys that it reports; None: those of `statistics`."""
    series: bool = False
    """Whether there are values in time."""
    watched: bool = False
    """Whether its output reports something before it ends."""
    axes: tuple[LoadAxis, ...] = ("rate", "users")
    """What a trial can set."""
    threads: int | None = None
    """Cores that it can use; None: any number."""
    rate_step: float | None = None
    """It accepts multiples of this rate only; None: any, or no single step [1/s]."""

    def using(self, threads: CountOrPlaceholder) -> GeneratorTraits:
        """Return these of a program with so many threads; a placeholder is any number."""
        known = threads if isinstance(threads, int) else None
        return msgspec.structs.replace(self, threads=known)

    @property
    def marks(self) -> tuple[str, ...]:
        """The doubts that go with every figure of it: codes of findings."""
        closed = () if self.open_loop else (CLOSED_LOOP,)
        hides = () if self.from_intended or self.reports_lateness else (HIDES_LATENESS,)
        return (*closed, *hides)

    def refusal(self, criterion: Criterion) -> str:
        """Return why there will be no value for a criterion; empty where there will."""
        if self.metrics is not None:
            known = ", ".join(self.metrics) or "none"
            return "" if criterion.key in self.metrics else f"its values are: {known}"
        if criterion.statistic not in self.statistics:
            return f"it reports no {criterion.statistic}"
        wanted = criterion.statistic == "percentile" and criterion.share is not None
        if wanted and self.shares is not None and criterion.share not in self.shares:
            known = ", ".join(f"p{100 * share:.10g}" for share in self.shares)
            return f"its percentiles are: {known}"
        return ""


class GeneratorRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What one trial requests from a generator."""

    duration_s: float
    rate: float | None = None
    """Of all connections together [1/s]; None where users are the axis."""
    users: int | None = None
    """Concurrent connections; None: as the user's keys say."""
    criteria: tuple[Criterion, ...] = ()
    """Whose values are wanted; what a generator reports anyway needs none."""
    directory: str = "."
    """Absolute; empty before the trial: the generator's own files go there."""
    sample: Pairs = ()
    """For placeholders in the user's texts: factor levels, and the bench's own names."""
    seed: int | None = None
    """Of this trial; None: the generator draws one."""


class Diagnosis(msgspec.Struct, frozen=True):
    """What a message of a failing program means."""

    sign: str
    """A part of its output."""
    meaning: str
    """What is wrong, and what to do."""


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """The commands of one trial; they run in order, none after one that failed."""

    commands: tuple[Command, ...]
    rate: float | None = None
    """The rate that the generator gets where it accepts whole numbers only; None: as requested."""
    writes: tuple[tuple[str, str], ...] = ()
    """Files that must be there before: (name in the directory, text)."""
    statuses: tuple[int, ...] = (0,)
    """Of a run that succeeded."""
    diagnoses: tuple[Diagnosis, ...] = ()
    reads: tuple[str, ...] = ()
    """Names in the directory, with `*`, of files that are the output."""


class GeneratorOutput(msgspec.Struct, frozen=True):
    """What a generator left: texts of its first command's streams and of its files."""

    stdout: str
    stderr: str
    files: Mapping[str, str] = {}
    """By name in the directory."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """The values of an output. A missing value is not zero."""

    values: dict[str, float]
    """By criterion's key; whole run, nothing removed."""
    series: LoadSeries = LoadSeries()
    offered: int | None = None
    completed: int | None = None
    errors: int = 0
    lasted_s: float | None = None
    marks: tuple[str, ...] = ()
    """Doubts that this output gives rise to, beside those of the traits."""


class UnreadableOutput(Exception):
    """An output without a required value; the message names the value and the place."""

    def __init__(self, sought: str, where: str, seen: str = "") -> None:
        self.sought, self.where, self.seen = sought, where, seen
        tail = f"; it has: {shortened(seen)}" if seen.strip() else "; it is empty"
        super().__init__(f"no {sought} in {where}{tail}")


class Generator(Protocol):
    """A generator with the user's keys; frozen, and all its functions are pure."""

    @property
    def name(self) -> str:
        """As the spec names it."""

    @property
    def programs(self) -> tuple[str, ...]:
        """What must be in PATH."""

    @property
    def traits(self) -> GeneratorTraits:
        """What its figures are worth."""

    def invocation(self, request: GeneratorRequest, /) -> Invocation:
        """Return how to run it. Raises ValueError for a request that it does not support."""

    def parse(
        self, output: GeneratorOutput, request: GeneratorRequest, /
    ) -> Measurement:
        """Return the results of a finished run. Raises UnreadableOutput."""

    def so_far(
        self, output: GeneratorOutput, request: GeneratorRequest, /
    ) -> Measurement | None:
        """Return the results of a run before its end; None while there are none."""


def shortened(text: str, most: int = 200) -> str:
    """Return the end of a text on one line, in at most so many characters."""
    line = " | ".join(part.strip() for part in text.splitlines() if part.strip())
    return line if len(line) <= most else "... " + line[-most:]


# -- Keys that generators share --------------------------------------------------------


def word_list(table: TomlTable, key: str) -> tuple[str, ...] | None:
    """Return a key that is an array of words, or a line that is split into words."""
    if not table.has(key, str, list):
        return None
    if isinstance(table.values[key], list):
        texts = table.texts(key)
        return tuple(texts) if len(texts) == len(table.values[key]) else None
    try:
        return tuple(shlex.split(table.values[key]))
    except ValueError as error:
        table.refuse(table.at(key), f"{key}: {error}", "close the quotation")
        return None


WordList = Annotated[tuple[str, ...], Key(read=word_list)]
CountOrPlaceholder = int | str
"""A key that is a whole number, or a placeholder such as `{clients}`."""


class ProgramGenerator(msgspec.Struct, frozen=True, kw_only=True):
    """What the adapters of known programs share: the fields of a record are its keys."""

    arguments: WordList = ()
    """More words of the command line: an array, or a line that is split as in a shell."""

    name: ClassVar[str]

    @property
    def programs(self) -> tuple[str, ...]:
        """What must be in PATH."""
        return (self.name,)

    def so_far(
        self, _output: GeneratorOutput, _request: GeneratorRequest, /
    ) -> Measurement | None:
        """Return None: its results are written at its end."""
        return None

    def count(self, key: str, request: GeneratorRequest) -> int:
        """Return a number above 0 that may be a placeholder. Raises ValueError."""
        text = fill_text(str(getattr(self, key)), request)
        if not text.isdecimal() or int(text) < 1:
            raise ValueError(f"{key} is {text!r}, expected a whole number above 0")
        return int(text)

    def users(self, key: str, request: GeneratorRequest) -> int:
        """Return the users of a trial, else the key's number. Raises ValueError."""
        return request.users or self.count(key, request)


# -- Puts a trial's rate, length, users and factor levels into the user's texts --------
#
# Decision: a text is split into words before anything is put in, so a level with a space
# stays one word; only a text that is a shell command by itself gets quoted values.
# Decision: a program that accepts whole rates only has `{rate:int}`, where the rate
# stands, and not by a key beside it; a key would be of no use to `bw peak --command`.

PER_MINUTE = 60
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*(?::int)?)\}", re.ASCII)
WHOLE_RATE, WHOLE_DURATION = "rate:int", "duration:int"
OF_A_TRIAL = (
    "rate",
    WHOLE_RATE,
    "duration",
    WHOLE_DURATION,
    "users",
    "seed",
    "directory",
)


def placeholder_values(number: float) -> str:
    """Return a number without an exponent, with at most six decimals."""
    return f"{number:.6f}".rstrip("0").rstrip(".")


def level_values(request: GeneratorRequest) -> dict[str, str]:
    """Return what each placeholder stands for; `{duration}` is in seconds."""
    rate = request.rate
    own = {
        "rate": None if rate is None else placeholder_values(rate),
        WHOLE_RATE: None
        if rate is None
        else placeholder_values(rounded_rate(rate, 1.0)),
        "duration": placeholder_values(request.duration_s),
        WHOLE_DURATION: str(whole_seconds(request.duration_s)),
        "users": None if request.users is None else str(request.users),
        "seed": None if request.seed is None else str(request.seed),
        "directory": request.directory,
    }
    return dict(request.sample) | {k: v for k, v in own.items() if v is not None}


def whole_seconds(duration_s: float) -> int:
    """Return a length that takes whole seconds: never less than was requested [s]."""
    return math.ceil(duration_s)


def rate_step_in(text: str) -> float | None:
    """Return what the rates are multiples of that a text can be filled with [1/s]; None:
    it takes any."""
    return 1.0 if WHOLE_RATE in named_in(text) else None


def named_in(text: str) -> tuple[str, ...]:
    """Return the names in braces, in order."""
    return tuple(match[1] for match in _PLACEHOLDER.finditer(text))


def fill_text(text: str, request: GeneratorRequest) -> str:
    """Return a text with its known placeholders filled; others stay as they are."""
    return _fill_match(text, level_values(request), str)


def command_of(text: str, request: GeneratorRequest) -> Command:
    """Return the command that a text is, filled word by word. Raises ValueError."""
    known = level_values(request)
    bare = _fill_match(text, dict.fromkeys(known, "x"), str)
    shell = Command.from_text(bare).argv
    if shell[:2] == ("/bin/sh", "-c") and len(shell) == 3:
        return Command(("/bin/sh", "-c", _fill_match(text, known, shlex.quote)))
    return Command(tuple(_fill_match(word, known, str) for word in text.split()))


def program_in(text: str) -> str | None:
    """Return the program that a command certainly starts; None where that is not known, or
    is a placeholder's."""
    first = text.split(maxsplit=1)[:1]
    if not first or _PLACEHOLDER.search(first[0]):
        return None
    return program_of(Command.from_text(_PLACEHOLDER.sub("x", text)).argv)


def _fill_match(
    text: str, known: Mapping[str, str], quote: Callable[[str], str]
) -> str:
    return _PLACEHOLDER.sub(
        lambda match: quote(known[match[1]]) if match[1] in known else match[0], text
    )


def whole_per_minute(rate: float) -> int:
    """Return a rate as a whole number per minute, at least 1."""
    return max(1, round(rate * PER_MINUTE))


def filled(texts: Iterable[str], request: GeneratorRequest) -> list[str]:
    """Return texts with their known placeholders filled."""
    return [fill_text(text, request) for text in texts]


def rate_of(request: GeneratorRequest) -> float:
    """Return the rate that is requested. Raises ValueError where there is none."""
    if request.rate is None:
        raise ValueError("it needs a rate; this trial has only users")
    return request.rate
