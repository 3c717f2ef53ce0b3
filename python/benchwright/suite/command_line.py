"""Compiles `bw run -P fs=ext4,xfs --threads 1,2 --precision 5% -- CMD {fs}` into a program.

The program is like that of a suite file. The factors combine as a full factorial, threads
innermost. The words of CMD are its argv, without a shell; `--setup` and `--cleanup` are
command lines. All wrong values are reported together, each at its option.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from benchwright.core.errors import InputError
from benchwright.core.plan import (
    FIRST_LOOK_TRIALS,
    PILOT_TRIALS,
    CommandMode,
    FixedCount,
    MetricSpec,
    StoppingRule,
    UntilPrecise,
)
from benchwright.core.quantity import (
    parse_confidence,
    parse_duration_ns,
    parse_share,
    parse_statistic,
)
from benchwright.suite import common_options as common
from benchwright.suite import program as step
from benchwright.suite import values
from benchwright.suite.option_reader import OptionReader, at, placer
from benchwright.suite.options import Option, Text
from benchwright.suite.program import Program, Step, Template, Where
from benchwright.suite.rules import epochs_fault, precise_mode
from benchwright.suite.template import (
    NAME,
    brace_template,
    command_name,
    fixed,
    misspelt,
    with_sample,
)
from benchwright.suite.values import HINT, expanded

THREADS = "threads"
"""Name of the factor that --threads defines, and of the placeholder {threads}."""
MAX_FACTORS = 30


class CommandRequest(msgspec.Struct, frozen=True):
    """The command and the texts of the user's options to `bw run -- CMD`."""

    command: tuple[str, ...]
    factors: Annotated[
        tuple[str, ...],
        Option(
            "factor and its levels; {FACTOR} in CMD is replaced by each",
            "FACTOR=V1,V2",
            flag="-P",
        ),
    ] = ()
    """Each `NAME=V1,V2`."""
    threads: Annotated[
        Text, Option("concurrent processes of a trial (also 1,2,4)", "N")
    ] = None
    min_runs: Annotated[
        Text, Option("minimum number of trials", "N", default="10; 30 for --precision")
    ] = None
    max_runs: Annotated[
        Text,
        Option(
            "maximum number of trials; only --precision runs more than --min-runs", "N"
        ),
    ] = None
    precision: Annotated[
        Text,
        Option(
            "run until the confidence interval is within this share of the value",
            "5%",
            parse_share,
            hint="write --precision 5%",
        ),
    ] = None
    mode: Annotated[
        Text,
        Option(
            "plan: a pilot of 30 sets the number of trials; watch: look after each "
            "trial, stop as soon as it is precise",
            choices=("plan", "watch"),
            default="plan",
        ),
    ] = None
    of: Annotated[
        Text,
        Option(
            "statistic to estimate",
            "median|p90",
            parse_statistic,
            default="mean",
            hint="write --of median, or --of p90",
        ),
    ] = None
    confidence: Annotated[
        Text,
        Option(
            "confidence of the interval",
            "95%",
            parse_confidence,
            default="95%",
            hint="write --confidence 95%",
        ),
    ] = None
    max_time: Annotated[
        Text,
        Option(
            "stop a test after this running time",
            "10m",
            parse_duration_ns,
            hint="write --max-time 10m",
        ),
    ] = None
    metrics: common.Metrics = ()
    setup: common.Setup = None
    cleanup: common.Cleanup = None
    rest: common.Rest = None
    timeout: common.Timeout = None
    output: common.Output = None
    name: Annotated[
        Text, Option("name of the test", "NAME", default="the program's")
    ] = None
    hooks: common.Hooks = ()
    keep_going: Annotated[bool, Option("continue after a failed trial")] = False


def program_from_command(request: CommandRequest) -> Program:
    """Return the program that measures a command. Raises InputError with all mistakes."""
    reader = _CommandOptions(request)
    steps = reader.steps()
    if reader.found:
        raise InputError(reader.found)
    return Program(steps)


class _CommandOptions(OptionReader[CommandRequest]):
    """Reads a request and makes the steps; collects mistakes in `found`."""

    def __init__(self, request: CommandRequest) -> None:
        super().__init__(request)
        self._factors: dict[str, tuple[str, ...]] = {}
        self._known: frozenset[str] = frozenset()

    def steps(self) -> tuple[Step, ...]:
        """Return the program's steps; mistakes are in `found`."""
        request = self.request
        for word in request.factors:
            self._factor(word)
        threads = self._threads(request.threads or "1")
        if len(threads) > 1:
            self._factors[THREADS] = threads
        self._known = frozenset((*self._factors, THREADS))
        if len(self._factors) > MAX_FACTORS:
            self.wrong("-P", "", f"there are more than {MAX_FACTORS} factors")
        metrics = self.declared(self.request.metrics)
        body: tuple[Step, ...] = (*self._settings(metrics), self._test(metrics))
        if THREADS not in self._factors:
            body = (self._fixed_threads(threads[0] if threads else "1"), *body)
        for name, levels in reversed(self._factors.items()):
            where = Where("-P")
            values = tuple(fixed(level, where) for level in levels)
            body = (step.ForEach(name, values, body, where),)
        if request.keep_going:
            return body
        return (step.FastFail(None, Where("--keep-going")), *body)

    # -- factors and threads ---------------------------------------------------------

    def _factor(self, word: str) -> None:
        name, equals, rest = word.partition("=")
        levels = self._expanded("-P", word, tuple(rest.split(",")))
        hint = "write -P NAME=VALUE1,VALUE2"
        if not equals or not NAME.fullmatch(name):
            self.wrong("-P", word, f"{word!r} does not name a factor", hint)
        elif name == THREADS:
            self.wrong("-P", word, "threads are given with --threads", "--threads 1,2")
        elif name in self._factors:
            self.wrong("-P", word, f"factor {name} is given twice", hint)
        elif "" in levels:
            at = len(word) if not rest else len(name) + 1 + rest.find(",,") + 1
            self.wrong("-P", word, f"a level of {name} is empty", hint, at)
        elif len(set(levels)) < len(levels):
            self.wrong("-P", word, f"a level of {name} is given twice", hint)
        else:
            self._factors[name] = levels

    def _expanded(
        self, option: str, word: str, texts: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Return levels, each range replaced by its numbers; report mistakes."""
        found: list[str] = []
        for text in texts:
            try:
                found += expanded(text)
            except ValueError as error:
                self.wrong(option, word, str(error), HINT, max(word.find(text), 0))
        return tuple(found) or texts

    def _threads(self, word: str) -> tuple[str, ...]:
        texts = tuple(level.strip() for level in word.split(","))
        levels = self._expanded("--threads", word, texts)
        offset = 0
        for raw, level in zip(word.split(","), texts, strict=True):
            fault = None if ".." in level else values.threads_fault(level)
            if fault is not None:
                self.wrong("--threads", word, fault.message, fault.hint, offset)
            offset += len(raw) + 1
        if len(set(levels)) < len(levels):
            self.wrong("--threads", word, "a number of threads is given twice")
        return levels

    def _fixed_threads(self, count: str) -> Step:
        where = Where("--threads", text=count)
        return step.Assign(THREADS, fixed(count, where), False, False, where)

    # -- settings --------------------------------------------------------------------

    def _settings(self, metrics: list[MetricSpec]) -> list[Step]:
        request = self.request
        threads = at("--threads", request.threads or "")
        slot = Template((step.Slot(THREADS, threads),), threads)
        steps: list[Step] = [step.SetThreads(slot, threads)]
        more = (request.timeout or None, request.output, request.hooks)
        return [*steps, *self.settings(metrics, *more)]

    # -- the test --------------------------------------------------------------------

    def _test(self, metrics: list[MetricSpec]) -> Step:
        request, where = self.request, Where("--")
        if not request.command or not request.command[0]:
            hint = "write the command after --, such as: bw run -- sleep 0.1"
            self.wrong("--", " ".join(request.command), "there is no command", hint)
        elif len(request.command) == 1:
            self._single_word(request.command[0])
        words = tuple(self._template("--", word) for word in request.command)
        body: list[Step] = []
        if request.rest is not None:
            body += self._rest(request.rest)
        if request.setup is not None:
            body.append(self._phase("--setup", request.setup, CommandMode.SETUP))
        body.append(step.SetPhase(CommandMode.EXEC, words, where))
        if request.cleanup is not None:
            body.append(self._phase("--cleanup", request.cleanup, CommandMode.CLEANUP))
        return step.Test(self._name(), self._stopping(metrics), tuple(body), where)

    def _single_word(self, word: str) -> None:
        """Report a command of one word with blanks: a quoted command line, not a program's name."""
        if " " not in word.strip() or "/" in word.split()[0]:
            return
        message = f"{word!r} is one word: no program has this name"
        hint = f"write bw run -- {word}, or for a shell: bw run -- sh -c '...'"
        self.wrong("--", word, message, hint)

    def _rest(self, text: str) -> list[Step]:
        if not self.checked("--rest", text, values.rest_fault):
            return []
        where = at("--rest", text)
        return [
            step.SetPhase(
                CommandMode.SETUP, fixed(values.rest_command(text), where), where
            )
        ]

    def _phase(self, option: str, text: str, mode: CommandMode) -> Step:
        return self.phase(option, text, mode, self._template(option, text))

    def _name(self) -> Template:
        request = self.request
        if request.name is None:
            program = request.command[0] if request.command else ""
            name = fixed(command_name(program), Where("--name"))
        else:
            self.checked("--name", request.name, values.name_fault)
            name = self._template("--name", request.name)
        return with_sample(name, tuple(self._factors))

    def _template(self, option: str, text: str) -> Template:
        place = placer(option, text)
        for fault in misspelt(text, self._known):
            self.wrong(option, text, fault.message, fault.hint, fault.offset)
        return brace_template(text, place, self._known)

    def _stopping(self, metrics: list[MetricSpec]) -> StoppingRule:
        request = self.request
        minimum = self._runs("--min-runs", request.min_runs)
        maximum = self._runs("--max-runs", request.max_runs)
        if minimum and maximum and minimum > maximum:
            message = f"--max-runs {maximum} is less than --min-runs {minimum}"
            self.wrong("--max-runs", str(maximum), message)
        if request.precision is None:
            self._without_precision()
            return FixedCount(minimum or min(10, maximum or 10))
        if minimum == 1 or maximum == 1:
            option = "--min-runs" if minimum == 1 else "--max-runs"
            self.wrong(option, "1", "a precision needs at least 2 runs")
        names = ["elapsed", *(spec.name for spec in metrics)]
        mode = precise_mode(request.mode)
        first = FIRST_LOOK_TRIALS if mode == "watch" else PILOT_TRIALS
        return UntilPrecise(
            target=self.value("precision") or 0.05,
            metrics=tuple(dict.fromkeys(names)),
            minimum=minimum or min(first, maximum or first),
            maximum=maximum or max(1000, minimum or 0),
            max_time_ns=self.value("max_time"),
            confidence=self.value("confidence") or 0.95,
            mode=mode,
            share=self.value("of"),
        )

    def _without_precision(self) -> None:
        """Report options that require --precision if it is not given."""
        request = self.request
        for option, text, what in (
            ("--max-time", request.max_time, "is a limit for --precision"),
            ("--mode", request.mode, "is a mode of --precision"),
            ("--of", request.of, "is the statistic of --precision"),
            ("--confidence", request.confidence, "is the confidence of --precision"),
        ):
            if text is not None:
                hint = "add --precision 5%, or give --min-runs N alone"
                self.wrong(option, text, f"{option} {what}", hint)

    def _runs(self, option: str, text: str | None) -> int | None:
        if text is None:
            return None
        fault = epochs_fault(text.strip(), "the number of runs")
        if fault is None:
            return int(text)
        self.wrong(option, text, fault.message, f"write {option} 30")
        return None
