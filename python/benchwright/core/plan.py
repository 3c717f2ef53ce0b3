"""The plan of a test (commands, sample, stopping rule), and the decisions of a controller."""

from __future__ import annotations

import enum
import re
import shlex
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from benchwright.core.results import ReachedPrecision, SlowRuns

# -- Commands, phases, samples, tests and their stopping rules -------------------------
#
# A `TestPlan` is what both suite languages and the command line compile to; it is
# complete (no variable is left in it), so a trial can be run from it anywhere.
# Source: Auto-pilot paper, section 3.1.

Pairs = tuple[tuple[str, str], ...]
"""An ordered mapping of strings that can be compared and hashed."""


class CommandMode(enum.StrEnum):
    """The part of a test to which a command belongs; the value of APMODE."""

    PRESETUP = "PRESETUP"
    SETUP = "SETUP"
    EXEC = "EXEC"
    CLEANUP = "CLEANUP"
    POSTCLEANUP = "POSTCLEANUP"
    SYSTEM = "SYSTEM"
    FASTFAIL = "FASTFAIL"
    PREDICATE = "PREDICATE"


_SHELL_CHARACTERS = frozenset("*?[]{}()<>|&;$`\"'\\~#\n!=%")


OWN_MODULE = ("-P", "-m", "benchwright.cli.main")
"""The arguments of Python before those of `bw`; -P prevents imports from the current directory. In
the trial of a load (features/load/session.py), what a session adds begins with the last `--json`.
"""


_OWN = re.compile(r"(?:bw|\S+ -P -m benchwright\.cli\.main) ([a-z]+)\b")


def own_command(text: str) -> str:
    """Return the command of `bw` that a command's text runs, such as `load`, also a text that an
    earlier version stored; empty for another program."""
    match = _OWN.match(text)
    return "" if match is None else match[1]


def command_word(words: Sequence[str]) -> str:
    """Return the command of `bw` in the words of a session, such as `load`; empty without one."""
    return next((word for word in words if word[:1] != "-"), "")


def is_plain(text: str) -> bool:
    """Return whether a command line is plain words, which need no shell."""
    return bool(text.strip()) and _SHELL_CHARACTERS.isdisjoint(text.strip())


class Command(msgspec.Struct, frozen=True):
    """A program and its arguments, executed directly; a shell only if the user wrote one."""

    argv: tuple[str, ...]

    @classmethod
    def from_text(cls, text: str, drawn: Sequence[str] = ()) -> Command:
        """Return the command for a line of text, as Perl's system() decides it.

        Plain words are executed directly. A text with a shell character is a shell
        command that the user wrote, and is given to /bin/sh -c. `drawn`: names of inputs that each
        trial gets; `{name}` is a part of one word, also if its value has blanks.
        """
        text = text.strip()
        if not text:
            raise ValueError("a command is empty")
        bare = text
        for name in drawn:
            bare = bare.replace(f"{{{name}}}", "x")
        if is_plain(bare):
            return cls(tuple(text.split()))
        return cls(("/bin/sh", "-c", text))

    @property
    def text(self) -> str:
        """The command as a person would type it."""
        if len(self.argv) == 3 and self.argv[:2] == ("/bin/sh", "-c"):
            return self.argv[2]
        if self.argv[1:4] == OWN_MODULE and "--json" in self.argv:
            typed = list(self.argv[4:])
            while typed.pop() != "--json":
                pass
            return shlex.join(("bw", *typed))
        return shlex.join(self.argv)


class Phases(msgspec.Struct, frozen=True):
    """The commands of one test by mode, each list in the order written."""

    presetup: tuple[Command, ...] = ()
    setup: tuple[Command, ...] = ()
    exec: tuple[Command, ...] = ()
    cleanup: tuple[Command, ...] = ()
    postcleanup: tuple[Command, ...] = ()


PILOT_TRIALS = 30
"""Trials of a pilot: with 20, intervals of a bimodal metric cover 92 % (tests/calibration)."""
LONG_PILOT_TRIALS = 10
"""Trials of a pilot that takes long; see `LONG_PILOT_NS`."""
LONG_PILOT_NS = 30_000_000_000
"""A pilot that takes this long may end before its 30 trials."""
GIVE_UP_NS = 120_000_000_000
"""Default of `give_up_ns` for a new test."""
FIRST_LOOK_TRIALS = 20
"""Trials before the first look at a watched test."""


class FixedCount(msgspec.Struct, frozen=True, tag="count"):
    """Run `count` epochs."""

    count: int


class UntilPredicate(msgspec.Struct, frozen=True, tag="predicate"):
    """Run `minimum` epochs, then `increment` more until the predicate is true for
    every quantity. Its confidence is nominal: it is looked at repeatedly."""

    minimum: int
    increment: int
    predicate: str
    maximum: int | None = None


class UntilProgram(msgspec.Struct, frozen=True, tag="program"):
    """As UntilPredicate, but a program decides: exit status 0 stops. The path of the
    test's results file is appended to its arguments."""

    minimum: int
    increment: int
    command: Command


class UntilPrecise(msgspec.Struct, frozen=True, tag="precise"):
    """Stop when the confidence interval's half-width is at most `target` of the value,
    for every metric named in `metrics`."""

    target: float
    metrics: tuple[str, ...] = ("elapsed",)
    minimum: int = PILOT_TRIALS
    """The pilot's size (plan), or the first look (watch)."""
    maximum: int = 1000
    max_time_ns: int | None = None
    confidence: float = 0.95
    mode: Literal["plan", "watch"] = "plan"
    """`plan`: the interval holds at the stop. `watch`: a confidence sequence, which holds at
    every look. A quantile by plan: a pilot sets the number of trials."""
    share: float | None = None
    """What is estimated: None for the mean, else the quantile of this share; 0.5 is the
    median."""
    long_minimum: int | None = None
    """The size to which a pilot is shortened that takes longer than `LONG_PILOT_NS`; None: none is.
    """
    give_up_ns: int | None = None
    """Time from which on the test stops if its target is known to be out of reach of its limits
    [ns]; None: never (rules of earlier versions)."""
    rare: SlowRuns | None = None
    """Slow runs that the trials must not miss; `minimum` has as many as that takes."""

    @property
    def statistic(self) -> str:
        """What is estimated, as written: `mean`, `median`, `p90`, `p99.9`."""
        if self.share is None:
            return "mean"
        return "median" if self.share == 0.5 else f"p{100 * self.share:.10g}"


def precision_rule(
    *,
    target: float,
    minimum: int | None = None,
    maximum: int | None = None,
    mode: Literal["plan", "watch"] = "plan",
    share: float | None = None,
    rare: SlowRuns | None = None,
    **others: Any,
) -> UntilPrecise:
    """Return the rule of what a user gave; numbers of trials that are not given follow from the
    others."""
    first = FIRST_LOOK_TRIALS if mode == "watch" else PILOT_TRIALS
    least = max(minimum or min(first, maximum or first), rare.trials if rare else 0)
    is_shortened = mode == "plan" and share is None and not (minimum or rare)
    return UntilPrecise(
        target=target,
        minimum=least,
        maximum=maximum or max(1000, least),
        mode=mode,
        share=share,
        rare=rare,
        long_minimum=LONG_PILOT_TRIALS if is_shortened else None,
        **others,
    )


# -- Levels of replication ----------------------------------------------------------------
#
# What is drawn again, so that an interval is about more than one build, one environment or one
# hour. What a replicate changes: core/replication.py.

ReplicatePath = tuple[int, ...]
"""The number of the replicate at each level, from 1, outermost level first."""


class LevelKind(enum.StrEnum):
    """What a level of replication draws again."""

    ENV = "env"
    """The size of the environment, and the place of the stack with it."""
    DIRECTORY = "directory"
    """A copy of the working directory, in a path of another length."""
    BUILD = "build"
    """A build with another seed."""
    PROCESS = "process"
    """A server or runtime that PRESETUP starts again."""
    HOST = "host"
    """A gang of a pool."""
    BOOT = "boot"
    """A start of the machine."""
    TIME = "time"
    """Another time, at random within a span."""


class ReplicateLevel(msgspec.Struct, frozen=True, omit_defaults=True):
    """One level."""

    kind: LevelKind
    count: int | None = None
    """Replicates in each replicate of the next outer level; None: the controller chooses."""
    command: str | None = None
    """Of a build: the shell command, in which `{seed}` is the seed."""
    spread_ns: int | None = None
    """Of time: the span within which all replicates are [ns]."""

    def __post_init__(self) -> None:
        assert self.count is None or self.count >= 1
        assert (self.kind is LevelKind.BUILD) is (self.command is not None)
        assert self.kind is LevelKind.TIME or self.spread_ns is None


class Replication(msgspec.Struct, frozen=True, omit_defaults=True):
    """The levels of replication of a test or of a comparison."""

    levels: tuple[ReplicateLevel, ...]
    """Outermost first; each kind at most once."""
    seed: int
    trials: int | None = None
    """Trials, or blocks of a comparison, that count in one innermost replicate; None: chosen."""
    only: int | None = None
    """The one outermost replicate that this session runs, as part of one whose other replicates run
    elsewhere; None: all."""

    def __post_init__(self) -> None:
        assert self.levels
        assert self.only is None or 1 <= self.only <= (self.levels[0].count or 0)
        assert len({level.kind for level in self.levels}) == len(self.levels)


class Replicated(msgspec.Struct, frozen=True, tag="replicated"):
    """Run trials in the replicates of nested levels: so many of each, or until the interval of the
    mean over the outermost level is narrow enough."""

    replication: Replication
    metrics: tuple[str, ...] = ("elapsed",)
    precise: UntilPrecise | None = None
    """The precision and its limits; None: the numbers of replicates and trials are given."""

    @property
    def target(self) -> float | None:
        """Half width of the interval of each of the metrics, as a share of the value."""
        return None if self.precise is None else self.precise.target

    @property
    def confidence(self) -> float:
        """Of the intervals."""
        return 0.95 if self.precise is None else self.precise.confidence


StoppingRule = FixedCount | UntilPredicate | UntilProgram | UntilPrecise | Replicated


_GAIN = re.compile(
    r"(?:/ ?|(?:\b|_)per[ _]?)(?:[nmu\u00b5\u03bc]?s|[num]?secs?|seconds?|min|minutes?|h|hours?)(?![^\W_])"
    r"|(?<![^\W_])(?:completed|throughput|bandwidth|[rqt]ps|iops|ops|[kmg]i?bps)(?![^\W_])"
)
_NO_GAIN = re.compile(
    r"err|fail|fault|miss|drop|lost|loss|retr[iya]|timeout|stall|switch|interrupt|evict|abort|conflict|alloc"
    r"|latency|duration|elapsed|(?<![^\W_])(?:time|lat|[nmu\u03bc]s|sdev|stddev)(?![^\W_])|%"
)


def usual_direction(*words: str) -> Literal["lower", "higher"]:
    """Return which values of a quantity are better where nothing states it, by its name and unit:
    the higher ones of a rate, such as `ops/s`, `requests_per_second` or `throughput`, and of what
    was completed, but not of errors and the like; the lower ones of anything else."""
    text = " ".join(words).casefold()
    gain = _GAIN.search(text)
    rest = _GAIN.sub(" ", text)
    return "higher" if gain and not _NO_GAIN.search(rest) else "lower"


def is_rate(*words: str) -> bool:
    """Return whether a quantity is a number for each unit of time, by its name and unit."""
    return _GAIN.search(" ".join(words).casefold()) is not None


def named_direction(text: str) -> tuple[str, Literal["lower", "higher", ""]]:
    """Return the name and the direction of `NAME[:higher]`; a name can have colons."""
    name, _, word = text.rpartition(":")
    if word == "higher":
        return name, "higher"
    return (name, "lower") if word == "lower" else (text, "")


class MetricSpec(msgspec.Struct, frozen=True):
    """Where a metric comes from and how to read it.

    Exactly one of `pointer` (RFC 6901, into JSON on stdout) and `pattern` (a regular
    expression with one group, searched in stdout, then stderr) is set; neither for a
    metric that is always there or written to APLOG.
    """

    name: str
    pointer: str | None = None
    pattern: str | None = None
    unit: str = ""
    better: Literal["lower", "higher"] = "lower"
    across_threads: Literal["default", "max", "min", "sum", "mean"] = "default"
    """How threads are aggregated; default: sum where higher is better, else mean."""
    drift: float = 0.0
    """The smallest change over a test that is a drift, as a share of the median; 0 for
    any that is significant."""


class OutputPolicy(msgspec.Struct, frozen=True):
    """How the output of a test's EXEC commands is stored."""

    mode: Literal["null", "bounded", "file", "inherit"] = "bounded"
    """null: discarded. bounded: the first and last 64 KiB of each stream of a trial are
    kept. file: all of it, compressed. inherit: as bounded, and shown on stderr."""
    limit_bytes: int = 1 << 30
    """Where all of a stream has to be on disk: what one trial may write."""


SUCCESS = (0,)
"""Exit statuses with which a command succeeds, unless `--ok-status` says otherwise."""


class ComparisonArm(msgspec.Struct, frozen=True):
    """The arm of a comparison that a test is. Its epochs are those of the blocks."""

    comparison: str
    """A unique name of the comparison; the same for all its arms."""
    place: int
    """0 is the baseline."""
    names: tuple[str, ...]
    """Of all arms."""
    trials_per_block: int = 1
    warmup: int = 0
    """Epochs at the beginning that are stored and marked, but not counted."""
    paired: bool = True


# -- the setting of one trial ------------------------------------------------------------


class TrialSetting(msgspec.Struct, frozen=True):
    """What differs between trials of one test: applied where a request to the launcher is made.

    Trials with different settings are different batches.
    """

    path: ReplicatePath = ()
    """The replicate in which it runs."""
    drawn: Pairs = ()
    """Inputs that were drawn for it, by name; `{name}` in its commands is the value."""
    environment: Pairs = ()
    """Added to the environment of its commands."""
    directory: str | None = None
    """Working directory of its commands; None: that of the plan."""
    substitutions: Pairs = ()
    """Other texts for `{name}` in its commands."""
    made_ns: tuple[int, ...] = ()
    """What it took to make the replicate of each level for the first of its trials [ns], outermost
    first; 0 for one that existed. Empty if none was made."""

    def command(self, command: Command) -> Command:
        """Return a command with its placeholders replaced."""
        return substituted(command, (*self.substitutions, *self.drawn))


AS_PLANNED = TrialSetting()
"""The setting of a trial that differs from no other."""


def substituted(command: Command, texts: Sequence[tuple[str, str]]) -> Command:
    """Return a command in which each `{name}` of these names is its text; other braces stay.

    A text that is put in is not searched again.
    """
    if not texts:
        return command
    known = dict(texts)
    pattern = re.compile("{(" + "|".join(map(re.escape, known)) + ")}")
    words = (pattern.sub(lambda found: known[found[1]], word) for word in command.argv)
    return Command(tuple(words))


class TestPlan(msgspec.Struct, frozen=True):
    """One test at one sample, ready to run."""

    name: str
    stopping: StoppingRule
    phases: Phases
    threads: int = 1
    sample: Pairs = ()
    """Factor levels of this sample, in the suite's order."""
    environment: Pairs = ()
    """Added to the caller's environment for every command of the test."""
    directory: str | None = None
    """Working directory of the commands of its trials; None: that of the session."""
    metrics: tuple[MetricSpec, ...] = ()
    timeout_ns: int | None = None
    """Limit of one EXEC phase [ns]; on expiry its processes are ended, the trial fails."""
    ok_status: tuple[int, ...] = SUCCESS
    """Exit statuses with which an EXEC command succeeds."""
    output: OutputPolicy = OutputPolicy()
    hooks: tuple[str, ...] = ()
    """Directories of measurement hooks, or names of shipped ones."""
    fail_fast: bool = False
    arm: ComparisonArm | None = None
    """Of a comparison, which then decides; `stopping` is only its limit."""
    warmup: int = 0
    """Epochs at the beginning that are stored and marked, but not counted; of an arm, its own
    number holds instead."""
    place: int | None = None
    """Place among interleaved tests, in the order given; None: tests run in that order."""

    @property
    def warmups(self) -> int:
        """The number of warm-up epochs at the start."""
        return self.warmup if self.arm is None else self.arm.warmup

    def __post_init__(self) -> None:
        assert self.threads >= 1
        assert self.name

    @property
    def reads_output(self) -> bool:
        """Whether a metric is taken from what the commands print."""
        return any(spec.pointer or spec.pattern for spec in self.metrics)

    @property
    def needs_all_output(self) -> bool:
        """Whether all output of a trial must stay on disk until it was read."""
        mode = self.output.mode
        return mode in ("file", "inherit") or (mode == "bounded" and self.reads_output)


# -- The decisions of a controller: run more epochs, ask a program, or stop ------------


class RunMore(msgspec.Struct, frozen=True):
    """Run this many epochs, between which nothing is decided: one batch."""

    epochs: int
    path: ReplicatePath = ()
    """The replicate in which they run."""

    def __post_init__(self) -> None:
        assert self.epochs >= 1


class AskProgram(msgspec.Struct, frozen=True):
    """Run the test's own termination program; its exit status is the next observation."""


class StopDecision(msgspec.Struct, frozen=True):
    """The test ends, for this reason."""

    reason: str
    """`count`, `predicate`, `program`, `precise`, `max-runs`, `max-time`, `out-of-reach`,
    `failed`."""
    detail: str
    """The reason as a sentence with figures."""
    answered: bool = True
    """False when it stopped without an answer: exit status 3."""
    looks: int = 0
    """Number of looks at the data."""
    target: float | None = None
    """The requested half width, as a share of the value; None without such a target."""
    reached: tuple[ReachedPrecision, ...] = ()
    """The interval reached for each of the rule's metrics."""


Decision = RunMore | AskProgram | StopDecision


def name_with_threads(plan: TestPlan) -> str:
    """Return the name of a test with its number of threads, if it has several."""
    if plan.threads == 1 or any(name.lower() == "threads" for name, _ in plan.sample):
        return plan.name
    return f"{plan.name}:threads={plan.threads}"
