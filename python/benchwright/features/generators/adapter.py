"""The interface to load generators that are separate programs: their traits, shared keys,
requests and results."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, ClassVar, Literal, Protocol

import msgspec

from benchwright.core.criterion import Criterion
from benchwright.core.plan import Command, Pairs
from benchwright.features.generators.findings import LATENESS_UNKNOWN, REFUSALS_UNSEEN
from benchwright.features.load.criteria import stream_value
from benchwright.features.load.plan import LoadSeries, rounded_rate
from benchwright.inputs.options import Option
from benchwright.inputs.toml_table import TomlTable
from benchwright.trial.programs import program_of

# -- The interface to load generators that are separate programs -----------------------
#
# Purpose: what a bench must know about any generator: how it is called for a rate and a
# length, what its figures mean, and how its output is read.
# Decision: a generator is a frozen record of the user's keys with three pure functions.
# Rejected: a table of command lines and regular expressions, because the meaning of a figure
# (the moment from which a response time counts) depends on the keys. The only effect, running
# the generator, is in run.py. Non-goal: correcting a generator's figures; they are marked.
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
"""Key of the mean lateness of operations, if a generator reports it."""


class GeneratorTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What a generator's figures mean, given the user's keys."""

    open_loop: bool = False
    """Whether operations start on a schedule, whatever the server does."""
    from_intended: bool = False
    """Whether a response time counts from the intended start, so that it includes all waits."""
    reports_lateness: bool = False
    """Whether it reports its own lateness."""
    reports_errors: bool = True
    """Whether it reports which operations failed, or how many succeeded."""
    statistics: tuple[Statistic, ...] = ()
    """The kinds of criterion that it has values for."""
    shares: tuple[float, ...] | None = None
    """The only percentiles that it reports, as shares; None: any."""
    metrics: tuple[str, ...] | None = None
    """The only keys that it reports; None: all keys of `statistics`."""
    series: bool = False
    """Whether it reports values over time."""
    watched: bool = False
    """Whether its output has results before it ends."""
    axes: tuple[LoadAxis, ...] = ("rate", "users")
    """The kinds of load level that a trial can set."""
    threads: int | None = None
    """Number of cores that it can use; None: any number."""
    rate_step: float | None = None
    """Step of the rates that it accepts; None: any rate, or no fixed step [1/s]."""

    def using(self, threads: CountOrPlaceholder) -> GeneratorTraits:
        """Return these traits for a program with `threads` threads; a placeholder is any number."""
        known = threads if isinstance(threads, int) else None
        return msgspec.structs.replace(self, threads=known)

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks of all its figures: codes of findings."""
        closed = () if self.open_loop else (CLOSED_LOOP,)
        hides = () if self.from_intended or self.reports_lateness else (HIDES_LATENESS,)
        return (*closed, *hides)

    @property
    def rate_marks(self) -> tuple[str, ...]:
        """The further marks of its figures at a rate: what users, who wait, cannot hide."""
        separable = self.reports_lateness or not (self.open_loop and self.from_intended)
        late = () if separable else (LATENESS_UNKNOWN,)
        return late if self.reports_errors else (*late, REFUSALS_UNSEEN)

    def refusal(self, criterion: Criterion) -> str:
        """Return why it has no value for a criterion; empty if it has one."""
        if self.metrics is not None:
            known = ", ".join(self.metrics) or "none"
            return "" if criterion.key in self.metrics else f"its values are: {known}"
        if stream_value(criterion) is not None:
            return "it reads no answer as events"
        if criterion.of:
            return "it reports all operations together"
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
    """Total rate of all connections [1/s]; None if the axis is users."""
    users: int | None = None
    """Concurrent connections; None: as set by the user's keys."""
    criteria: tuple[Criterion, ...] = ()
    """Criteria whose values are needed; values that a generator always reports need none."""
    directory: str = "."
    """Absolute path; empty before the trial; for the generator's own files."""
    sample: Pairs = ()
    """Values of placeholders in the user's texts: factor levels, and the bench's own names."""
    seed: int | None = None
    """Random seed of this trial; None: the generator draws one."""


class Diagnosis(msgspec.Struct, frozen=True):
    """The meaning of a failing program's message."""

    sign: str
    """A part of the output that identifies the message."""
    meaning: str
    """What is wrong, and what to do."""


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """The commands of one trial; they run in order and stop after one that fails."""

    commands: tuple[Command, ...]
    rate: float | None = None
    """The rate that the generator gets if it accepts only whole numbers; None: as requested."""
    writes: tuple[tuple[str, str], ...] = ()
    """Files to create before the run: (name in the directory, text)."""
    statuses: tuple[int, ...] = (0,)
    """Exit statuses of a successful run."""
    diagnoses: tuple[Diagnosis, ...] = ()
    reads: tuple[str, ...] = ()
    """Names (with `*`) of files in the directory that are part of the output."""


class GeneratorOutput(msgspec.Struct, frozen=True):
    """The output of a generator: its first command's stdout and stderr, and its files."""

    stdout: str
    stderr: str
    files: Mapping[str, str] = {}
    """Texts of files, by name in the directory."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """The values of an output. A missing value is not zero."""

    values: dict[str, float]
    """Values by the criterion's key; they cover the whole run."""
    series: LoadSeries = LoadSeries()
    offered: int | None = None
    completed: int | None = None
    errors: int = 0
    offered_by_series: bool = False
    """Whether `offered` is the sum of the series, not a count of the generator's own."""
    late_p99_ms: float | None = None
    """99th percentile of how late the generator came to its operations; None: unknown [ms]."""
    target_values: dict[str, float] = {}
    """`values` without the generator's lateness: a response counts from the moment when the
    generator came to the operation; waiting for a free connection is the target's."""
    lasted_s: float | None = None
    marks: tuple[str, ...] = ()
    """Marks for this output, in addition to those of the traits."""


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
        """The name in the spec."""

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that must be in PATH."""

    @property
    def traits(self) -> GeneratorTraits:
        """What its figures mean."""

    def invocation(self, request: GeneratorRequest, /) -> Invocation:
        """Return how to run it. Raises ValueError for a request that it does not support."""

    def parse(self, output: GeneratorOutput, request: GeneratorRequest, /) -> Measurement:
        """Return the results of a finished run. Raises UnreadableOutput."""

    def so_far(self, output: GeneratorOutput, request: GeneratorRequest, /) -> Measurement | None:
        """Return the results of a run before its end; None while there are none."""


def shortened(text: str, most: int = 200) -> str:
    """Return the end of a text on one line, in at most `most` characters."""
    line = " | ".join(part.strip() for part in text.splitlines() if part.strip())
    return line if len(line) <= most else "... " + line[-most:]


# -- Keys that generators share --------------------------------------------------------


def word_list(table: TomlTable, key: str) -> tuple[str, ...] | None:
    """Return a key's words: from an array, or from a line that is split into words."""
    table = table.as_written
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


WordList = Annotated[tuple[str, ...], Option(read=word_list)]
CountOrPlaceholder = int | str
"""A key that is a whole number, or a placeholder such as `{clients}`."""


class ProgramGenerator(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the adapters of known programs: the fields of a record are its keys."""

    arguments: WordList = ()
    """More words of the command line: an array, or a line that is split as in a shell."""

    name: ClassVar[str]

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that must be in PATH."""
        return (self.name,)

    def so_far(self, _output: GeneratorOutput, _request: GeneratorRequest, /) -> Measurement | None:
        """Return None: it writes its results when it ends."""
        return None

    def count(self, key: str, request: GeneratorRequest) -> int:
        """Return a number above 0; the key may be a placeholder. Raises ValueError."""
        text = fill_text(str(getattr(self, key)), request)
        if not text.isdecimal() or int(text) < 1:
            raise ValueError(f"{key} is {text!r}, expected a whole number above 0")
        return int(text)

    def users(self, key: str, request: GeneratorRequest) -> int:
        """Return the users of a trial, or the key's number. Raises ValueError."""
        return request.users or self.count(key, request)


# -- Inserts a trial's rate, length, users and factor levels into the user's texts -----
#
# Decision: a text is split into words before values are inserted, so a level with a space
# remains one word; values are quoted only in a text that is a shell command.
# Decision: `{rate:int}` in the command marks a program that accepts only whole rates, instead
# of a separate key, which would be of no use to `bw peak --command`.

PER_MINUTE = 60
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*(?::int)?)\}", re.ASCII)
WHOLE_RATE, WHOLE_DURATION = "rate:int", "duration:int"
OF_A_TRIAL = ("rate", WHOLE_RATE, "duration", WHOLE_DURATION, "users", "seed", "directory")


def placeholder_values(number: float) -> str:
    """Return a number without an exponent, with at most six decimals."""
    return f"{number:.6f}".rstrip("0").rstrip(".")


def level_values(request: GeneratorRequest) -> dict[str, str]:
    """Return the value of each placeholder; `{duration}` is in seconds."""
    rate = request.rate
    own = {
        "rate": None if rate is None else placeholder_values(rate),
        WHOLE_RATE: None if rate is None else placeholder_values(rounded_rate(rate, 1.0)),
        "duration": placeholder_values(request.duration_s),
        WHOLE_DURATION: str(whole_seconds(request.duration_s)),
        "users": None if request.users is None else str(request.users),
        "seed": None if request.seed is None else str(request.seed),
        "directory": request.directory,
    }
    return dict(request.sample) | {k: v for k, v in own.items() if v is not None}


def whole_seconds(duration_s: float) -> int:
    """Return a length rounded up to whole seconds [s]."""
    return math.ceil(duration_s)


def rate_step_in(text: str) -> float | None:
    """Return the step of the rates that can be inserted into a text [1/s]; None: it
    accepts any rate."""
    return 1.0 if WHOLE_RATE in named_in(text) else None


def named_in(text: str) -> tuple[str, ...]:
    """Return the names in braces, in order."""
    return tuple(match[1] for match in _PLACEHOLDER.finditer(text))


def fill_text(text: str, request: GeneratorRequest) -> str:
    """Return a text with its known placeholders filled; others stay as they are."""
    return _fill_match(text, level_values(request), str)


def command_of(text: str, request: GeneratorRequest) -> Command:
    """Return the command in a text, filled word by word. Raises ValueError."""
    known = level_values(request)
    bare = _fill_match(text, dict.fromkeys(known, "x"), str)
    shell = Command.from_text(bare).argv
    if shell[:2] == ("/bin/sh", "-c") and len(shell) == 3:
        return Command(("/bin/sh", "-c", _fill_match(text, known, shlex.quote)))
    return Command(tuple(_fill_match(word, known, str) for word in text.split()))


def program_in(text: str) -> str | None:
    """Return the program that a command certainly starts; None if it is unknown or
    contains a placeholder."""
    first = text.split(maxsplit=1)[:1]
    if not first or _PLACEHOLDER.search(first[0]):
        return None
    return program_of(Command.from_text(_PLACEHOLDER.sub("x", text)).argv)


def _fill_match(text: str, known: Mapping[str, str], quote: Callable[[str], str]) -> str:
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
    """Return the requested rate. Raises ValueError if there is none."""
    if request.rate is None:
        raise ValueError("it needs a rate; this trial has only users")
    return request.rate
