"""Compiles `bw run -P fs=ext4,xfs --threads 1,2 --precision 5% -- CMD {fs}` into a program.

The program is like that of a suite file. The factors combine as a full factorial, threads
innermost. Words after `--` are the argv of one command, without a shell; words before it are
command lines, one test each, as in `bw compare`; `--setup` and `--cleanup` are command lines too.
All wrong values are reported together, each at its option.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import msgspec

from benchwright.core.draws import Draws
from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.plan import (
    GIVE_UP_NS,
    CommandMode,
    FixedCount,
    LevelKind,
    MetricSpec,
    ReplicateLevel,
    StoppingRule,
    precision_rule,
)
from benchwright.core.quantity import (
    parse_confidence,
    parse_duration_ns,
    parse_share,
    parse_slow_runs,
    parse_statistic,
)
from benchwright.core.untrusted import shell_text
from benchwright.inputs.mistakes import Where, fault_of
from benchwright.inputs.option_reader import at, placer
from benchwright.inputs.options import Option, Text, text_of
from benchwright.inputs.template import (
    HINT,
    NAME,
    Slot,
    Template,
    brace_template,
    choice,
    command_name,
    expanded,
    fixed,
    misspelt,
    with_sample,
)
from benchwright.suite import common_options as common
from benchwright.suite import program as step
from benchwright.suite import values
from benchwright.suite.common_options import CommandOptionReader
from benchwright.suite.program import Program, Step
from benchwright.suite.values import ALWAYS, epochs

THREADS = "threads"
"""Name of the factor that --threads defines, and of the placeholder {threads}."""
MAX_FACTORS = 30
_SHELLS = frozenset(["ash", "bash", "csh", "dash", "fish", "ksh", "sh", "tcsh", "zsh"])
RUNS = 10
"""Trials of a test without an option that says otherwise."""

_stopping = partial(Option, group="how often")
_rule = partial(_stopping, key=True, read=text_of(str))
"""An option that is a key of `[until]` too."""
_number = partial(_rule, read=text_of(int))
_levels = partial(Option, group="what varies")


def _thread_levels(text: str) -> tuple[int, ...]:
    """Return numbers of threads: `4`, `1,2,4`, `1..8`. Raises ValueError."""
    levels = [level for part in text.split(",") for level in expanded(part.strip())]
    return tuple(map(values.threads, levels))


def _seed(text: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", text.strip(), re.ASCII):
        raise ValueError(f"{text!r} is not a whole number of at least 0")
    return int(text)


class CommandRequest(msgspec.Struct, frozen=True):
    """The commands and the texts of the user's options to `bw run`."""

    command: tuple[str, ...] = ()
    """The words after `--`: one command, executed as it is."""
    runs: Annotated[
        Text,
        _stopping(
            "number of trials of each test",
            "N",
            epochs,
            default="10",
            hint="write --runs 30",
            yields_to="precision min_runs max_runs max_time",
        ),
    ] = None
    warmup: Annotated[
        Text,
        _stopping(
            "first trials that do not count",
            "N",
            values.warmup,
            default="0",
            hint="write --warmup 1",
        ),
    ] = None
    precision: Annotated[
        Text,
        _rule(
            "stop when the interval of each metric is this narrow",
            "5%",
            parse_share,
            read=text_of(float, str),
            hint="write --precision 5%",
            yields_to="runs",
        ),
    ] = None
    mode: Annotated[
        Text,
        _rule(
            "plan: the interval holds where --precision stops; watch: at every look",
            parse=choice("mode", "plan", "watch"),
            choices=("plan", "watch"),
            default="plan",
            needs="precision",
            rare=True,
        ),
    ] = None
    of: Annotated[
        Text,
        _rule(
            "statistic to estimate",
            "median|p90",
            parse_statistic,
            default="mean",
            hint="write --of median, or --of p90",
            needs="precision",
        ),
    ] = None
    confidence: Annotated[
        Text,
        _rule(
            "confidence of the interval",
            "95%",
            parse_confidence,
            default="95%",
            read=text_of(float, str),
            hint="write --confidence 95%",
            needs="precision",
            rare=True,
        ),
    ] = None
    min_runs: Annotated[
        Text,
        _number(
            "trials before --precision stops; without it, the number of trials",
            "N",
            epochs,
            default="30 with --precision",
            hint="write --min-runs 30",
            needs="precision",
            rare=True,
        ),
    ] = None
    max_runs: Annotated[
        Text,
        _number(
            "trials at which --precision gives up; without it, the number of trials",
            "N",
            epochs,
            default="1000 with --precision",
            hint="write --max-runs 30",
            rare=True,
        ),
    ] = None
    rare: Annotated[
        Text,
        _rule(
            "slow runs that the trials must not miss: their share, and how slow",
            "1%:2x",
            parse_slow_runs,
            hint="write --rare 1%:2x",
            needs="precision",
            rare=True,
        ),
    ] = None
    max_time: Annotated[
        Text,
        _rule(
            "time at which --precision gives up",
            "10m",
            parse_duration_ns,
            hint="write --max-time 10m",
            needs="precision",
        ),
    ] = None
    give_up: Annotated[
        Text,
        _rule(
            "time after which --precision stops if it is known to be out of reach; none: it goes on",
            "2m",
            values.timeout_ns,
            default="2m",
            hint="write --give-up 5m, or --give-up none",
            needs="precision",
            rare=True,
        ),
    ] = None
    factors: Annotated[
        tuple[str, ...],
        _levels(
            "a test for each level, which replaces {FACTOR}: n=1,2,4, n=1..9, n=1..9:2 "
            "(step 2), n=1..64*2 (doubling); several -P: all combinations",
            "FACTOR=LEVELS",
            flag="-P",
        ),
    ] = ()
    """Each `NAME=V1,V2`."""
    threads: Annotated[
        Text,
        _levels(
            "processes of a trial; 1,2,4: a test each",
            "N",
            _thread_levels,
            default="1",
            hint="write --threads 4",
        ),
    ] = None
    replicate: common.Replicate = ()
    draw: common.Draw = ()
    spread: common.Spread = None
    shell: common.Shell = None
    setup: common.Setup = None
    cleanup: common.Cleanup = None
    rest: common.Rest = None
    timeout: common.Timeout = None
    ok_status: common.OkStatus = None
    metrics: common.Metrics = ()
    instructions: common.Instructions = None
    hooks: common.Hooks = ()
    output: common.Output = None
    names: common.Names = ()
    in_order: Annotated[bool, _levels("one test after the other, not interleaved")] = False
    seed: Annotated[
        Text,
        _levels(
            "random seed of the order",
            "N",
            _seed,
            default="drawn and recorded",
            hint="write --seed 1",
            rare=True,
        ),
    ] = None
    keep_going: Annotated[bool, Option("continue after a failed trial", rare=True)] = False
    name: Text = None
    """The name, in a request that an earlier version stored."""
    commands: tuple[str, ...] = ()
    """Command lines, each one word: before `--`, where `command` is empty."""
    draws: Draws | None = None
    """What `draw` declares, with the lines of files as they were when the session began."""


def program_from_command(request: CommandRequest) -> Program:
    """Return the program that measures a command. Raises InputError with all mistakes."""
    reader = _CommandOptions(request)
    steps = reader.steps()
    if reader.found:
        raise InputError(reader.found)
    return Program(
        steps,
        fixed_addresses=values.has_fixed_addresses(request.replicate),
        draws=draws_of_command(request),
    )


def draws_of_command(request: CommandRequest) -> Draws | None:
    """Return the inputs that are drawn for each trial. Raises InputError."""
    texts = request.commands or (" ".join(request.command),)
    return _StoppingOptions(request).draws(request.draw, request.draws, texts)


def stopping_rule(
    request: CommandRequest, metrics: Sequence[str]
) -> tuple[StoppingRule, list[Diagnostic]]:
    """Return when a test stops, and the mistakes in the options that say it; `metrics`: the
    names of those that a precision is of."""
    reader = _StoppingOptions(request)
    return reader.stopping(metrics), reader.found


class _StoppingOptions(CommandOptionReader[CommandRequest]):
    """Reads when a test stops; collects mistakes in `found`."""

    def stopping(self, metrics: Sequence[str]) -> StoppingRule:
        """Return the rule; `metrics`: the names of those that a precision is of."""
        request = self.request
        runs, minimum, maximum = map(self.value, ("runs", "min_runs", "max_runs"))
        if minimum and maximum and minimum > maximum:
            message = f"{maximum} is less than the minimum, {minimum}"
            self.wrong("--max-runs", str(maximum), message)
        if request.runs is not None:
            message = f"--runs {request.runs} is the exact number of trials"
            self._refuse(
                ("precision", "min_runs", "max_runs", "max_time", "rare"), message, "--runs"
            )
            return FixedCount(runs or RUNS)
        if request.precision is None:
            needy = ("max_time", "mode", "give_up", "of", "confidence", "rare")
            self._refuse(needy, "it has no effect without --precision 5%")
            # Nothing stops the test before the maximum.
            return FixedCount(maximum or minimum or RUNS)
        if minimum == 1 or maximum == 1:
            option = "--min-runs" if minimum == 1 else "--max-runs"
            self.wrong(option, "1", "a precision needs at least 2 runs")
        rare = self.value("rare")
        if rare is not None and maximum and maximum > 1 and rare.trials > maximum:
            self.wrong("--max-runs", str(maximum), values.too_few_for(rare, maximum))
        return precision_rule(
            target=self.value("precision") or 0.05,
            metrics=tuple(dict.fromkeys(metrics)),
            minimum=minimum,
            maximum=maximum,
            max_time_ns=self.value("max_time"),
            confidence=self.value("confidence") or 0.95,
            mode=self.value("mode") or "plan",
            share=self.value("of"),
            rare=rare,
            give_up_ns=GIVE_UP_NS if request.give_up is None else self.value("give_up"),
        )

    def _refuse(self, fields: Sequence[str], message: str, other: str = "") -> None:
        """Report those of these options that are given; `other`: the one that excludes them."""
        for name in fields:
            option, text = self._options[name].flag, getattr(self.request, name)
            if text is not None:
                hint = f"leave out {other} or {option}" if other else ""
                hint = hint or "add --precision 5%, or give --runs N alone"
                self.wrong(option, text, message, hint)


class _CommandOptions(_StoppingOptions):
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
        request = self.request
        metrics = self.declared(request.metrics, request.instructions)
        rule = self.stopping(self._precise_metrics(metrics))
        replicated = self.replicate_levels(request.replicate, request.spread)
        if replicated:
            rule = self._replicated(rule, replicated, self._precise_metrics(metrics))
        tests = self._tests(rule)
        body: tuple[Step, ...] = (*self._settings(metrics), *tests)
        if THREADS not in self._factors:
            body = (self._fixed_threads(threads[0] if threads else "1"), *body)
        for name, levels in reversed(self._factors.items()):
            where = Where("-P")
            values = tuple(fixed(level, where) for level in levels)
            body = (step.ForEach(name, values, body, where),)
        seed = self._seed()
        if seed is not None and (self._factors or len(tests) > 1):
            body = (step.Interleave(body, seed, Where("-P")),)
        if request.keep_going:
            return body
        return (step.FastFail(None, Where("--keep-going")), *body)

    def _replicated(
        self, rule: StoppingRule, levels: Sequence[ReplicateLevel], metrics: Sequence[str]
    ) -> StoppingRule:
        if any(level.kind is LevelKind.PROCESS for level in levels):
            message = "each trial is a new process already"
            hint = "a suite starts a server again: [replicate], and presetup of its test"
            self.wrong("--replicate", "process", message, hint)
        found, mistake = values.replicated(rule, levels, metrics, self.value("seed") or 0)
        if mistake:
            self.wrong("--replicate", self.request.replicate[0], *mistake)
        return found

    # -- factors and threads ---------------------------------------------------------

    def _factor(self, word: str) -> None:
        name, equals, rest = word.partition("=")
        levels = self._expanded("-P", word, tuple(rest.split(",")))
        hint = "write -P NAME=VALUE1,VALUE2, or -P NAME=1..9"
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

    def _expanded(self, option: str, word: str, texts: tuple[str, ...]) -> tuple[str, ...]:
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
            fault = None if ".." in level else fault_of(values.threads, level)
            if fault is not None:
                self.wrong("--threads", word, fault.message, fault.hint, offset)
            offset += len(raw) + 1
        if len(set(levels)) < len(levels):
            self.wrong("--threads", word, "a number of threads is given twice")
        return levels

    def _precise_metrics(self, metrics: list[MetricSpec]) -> list[str]:
        """Return what a precision is of: elapsed time, unless only other quantities that are
        measured in any case are named, and all declared metrics."""
        names = [spec.name for spec in metrics]
        only_measured = bool(names) and set(names) <= set(ALWAYS)
        is_timed = self.request.instructions is None and not only_measured
        return ["elapsed", *names] if is_timed else names

    def _fixed_threads(self, count: str) -> Step:
        where = Where("--threads", text=count)
        return step.Assign(THREADS, fixed(count, where), False, False, where)

    # -- settings --------------------------------------------------------------------

    def _settings(self, metrics: list[MetricSpec]) -> list[Step]:
        request = self.request
        threads = at("--threads", request.threads or "")
        slot = Template((Slot(THREADS, threads),), threads)
        steps: list[Step] = [step.SetThreads(slot, threads)]
        if request.warmup is not None:
            self.parsed("--warmup", request.warmup, values.warmup)
            where = at("--warmup", request.warmup)
            steps.append(step.SetWarmUp(fixed(request.warmup, where), where))
        more = (
            *(request.timeout or None, request.ok_status, request.output),
            *(request.hooks, request.instructions),
        )
        return [*steps, *self.settings(metrics, *more)]

    def _seed(self) -> int | None:
        """Return the seed of the order; None for the order given."""
        seed: int | None = None if self.request.in_order else self.value("seed")
        return seed

    # -- the tests -------------------------------------------------------------------

    def _tests(self, stopping: StoppingRule) -> tuple[Step, ...]:
        """Return a test for each command."""
        request = self.request
        before: list[Step] = []
        after: list[Step] = []
        if request.rest is not None:
            before += self._rest(request.rest)
        if request.setup is not None:
            before.append(self._phase("--setup", request.setup, CommandMode.SETUP))
        if request.cleanup is not None:
            after.append(self._phase("--cleanup", request.cleanup, CommandMode.CLEANUP))
        self._check_shell()
        measured = [self._quoted(text) for text in self._lines]
        if not self._lines:
            measured = [self._words()]
        names = self._names()
        where = Where(self._place)
        return tuple(
            step.Test(name, stopping, (*before, phase, *after), where)
            for name, phase in zip(names, measured, strict=True)
        )

    def _check_shell(self) -> None:
        """Report a shell after `--shell`, in place of `--shell=`: it would be the first command."""
        request = self.request
        first = request.commands[0] if len(request.commands) > 1 else ""
        if request.shell == common.SHELL and posixpath.basename(first) in _SHELLS:
            hint = f"write --shell={first}"
            self.wrong("--shell", first, f"{first} would be a command", hint)

    @property
    def _lines(self) -> tuple[str, ...]:
        """The command lines; none if the words after `--` are a command."""
        request = self.request
        if request.shell is not None and len(request.command) == 1:
            return request.command
        return request.commands

    @property
    def _place(self) -> str:
        """Where the commands are, for messages."""
        return "COMMAND" if self.request.commands else "--"

    def _quoted(self, text: str) -> Step:
        """Return the step that runs a command line that is one word."""
        if not text.strip():
            self.wrong(self._place, text, "the command is empty")
        command = self._template(self._place, text)
        request = self.request
        return self.exec_phase(text, command, self._place, request.shell, request.draw)

    def _words(self) -> Step:
        """Return the step that runs the words after `--`, as they are."""
        words, shell = self.request.command, self.request.shell
        line = " ".join(words)
        if not words or not words[0]:
            hint = "write the command after --, such as: bw run -- sleep 0.1"
            self.wrong("--", line, "there is no command", hint)
        elif shell is not None:
            hint = f"write bw run --shell {shell_text([line])}"
            message = "the command of a shell is one word"
            self.wrong("--", line, message, hint)
        elif len(words) == 1:
            self._single_word(words[0])
        argv = tuple(self._template("--", word) for word in words)
        return step.SetPhase(CommandMode.EXEC, argv, Where("--"))

    def _single_word(self, word: str) -> None:
        """Report a command of one word with blanks: a quoted command line, not a program's name."""
        if " " not in word.strip() or "/" in word.split()[0]:
            return
        message = f"{word!r} is one word: no program has this name"
        hint = f"without --: bw run {shell_text([word])}"
        # Operators and quotation marks would be those of the shell that starts bw.
        if all(shlex.quote(part) == part for part in word.split()):
            hint = f"write bw run -- {word}, or {hint}"
        else:
            hint = f"write it {hint}"
        self.wrong("--", word, message, hint)

    def _rest(self, text: str) -> list[Step]:
        pause, where = self.parsed("--rest", text, values.rest_command), at("--rest", text)
        if pause is None:
            return []
        return [step.SetPhase(CommandMode.SETUP, fixed(pause, where), where)]

    def _phase(self, option: str, text: str, mode: CommandMode) -> Step:
        return self.phase(option, text, mode, self._template(option, text))

    def _names(self) -> list[Template]:
        """Return the name of each test, with its sample."""
        request, lines = self.request, self._lines
        given = request.names or tuple(filter(None, [request.name]))
        if not lines:
            lines = request.command[:1] or ("",)
            given = given or (command_name(lines[0]),)
        for name in given:
            self.parsed("--name", name, values.name_of_test)
        factors = tuple(self._factors)
        return [
            with_sample(self._template("--name", name), factors)
            if place < len(given)
            else with_sample(fixed(name, Where("--name")), factors)
            for place, name in enumerate(self.command_names(lines, given))
        ]

    def _template(self, option: str, text: str) -> Template:
        place = placer(option, text)
        for fault in misspelt(text, self._known):
            self.wrong(option, text, fault.message, fault.hint, fault.offset)
        return brace_template(text, place, self._known)
