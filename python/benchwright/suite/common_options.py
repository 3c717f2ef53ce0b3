"""Options that several commands have, each declared once; reads those that describe commands and
makes their steps, each mistake at its option.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec

from benchwright.core.draws import DrawnInput, Draws
from benchwright.core.errors import InputError
from benchwright.core.plan import CommandMode, LevelKind, MetricSpec, ReplicateLevel
from benchwright.core.quantity import parse_duration_ns, share_within
from benchwright.core.text import plural
from benchwright.inputs.draw import DRAW_HINT, parse_draw
from benchwright.inputs.mistakes import Where, placed
from benchwright.inputs.option_reader import OptionReader, R, at, placer
from benchwright.inputs.options import Option, Text
from benchwright.inputs.template import Template, choice, command_name, fixed, split_words
from benchwright.suite import program as step
from benchwright.suite import values
from benchwright.suite.program import Step
from benchwright.suite.values import metric, parse_metric
from benchwright.trial.programs import program_of_loop


class CommandOptionReader(OptionReader[R]):
    """Reads a request of commands; collects mistakes in `found`."""

    def declared(self, words: Sequence[str], instructions: str | None = None) -> list[MetricSpec]:
        """Return the metrics that --instructions and the words of `--metric` declare."""
        specs: list[MetricSpec] = []
        if instructions is not None:
            specs.append(MetricSpec("instructions"))
        for word in words:
            spec, faults = parse_metric(word)
            if spec is None:
                self.found += placed(faults, placer("--metric", word))
            elif instructions is not None and spec == specs[0]:
                continue  # The metric that --instructions declares, by its name.
            elif any(spec.name == other.name for other in specs):
                self.wrong("--metric", word, f"metric {spec.name} is given twice")
            else:
                specs.append(spec)
        return specs

    def draws(
        self, words: Sequence[str], stored: Draws | None, texts: Sequence[str]
    ) -> Draws | None:
        """Return the inputs of `--draw`, or those that a session `stored`; None without any. `texts`:
        the commands, in each of which an input must be. Raises InputError."""
        if stored is not None:
            return stored
        inputs: list[DrawnInput] = []
        for word in words:
            one = self.parsed("--draw", word, parse_draw, DRAW_HINT)
            if one is None:
                continue
            if any(one.name == other.name for other in inputs):
                self.wrong("--draw", word, f"input {one.name} is given twice")
            elif not all(one.placeholder in text for text in texts):
                message = f"{one.placeholder} is not in every command"
                hint = f"write {one.placeholder} where its value belongs"
                self.wrong("--draw", word, message, hint)
            inputs.append(one)
        seed = self.value("seed") or 0
        if self.found:
            raise InputError(self.found)
        return Draws(seed, tuple(inputs)) if inputs else None

    def replicate_levels(self, words: Sequence[str], spread: str | None) -> list[ReplicateLevel]:
        """Return the levels of `--replicate`, with the span of `--spread`."""
        levels: list[ReplicateLevel] = []
        span = self.parsed("--spread", spread, parse_duration_ns, SPREAD.hint)
        for word in words:
            level = self.parsed("--replicate", word, values.replicate_level, values.LEVEL_HINT)
            if level is None:
                continue
            if any(level.kind is other.kind for other in levels):
                self.wrong("--replicate", word, f"level {level.kind} is given twice")
                continue
            if level.kind in values.OUTERMOST and levels:
                hint = f"give --replicate {level.kind}=N before the others"
                if levels[0].kind in values.OUTERMOST:
                    hint = f"leave out {level.kind} or {levels[0].kind}"
                self.wrong("--replicate", word, f"{level.kind} is the outermost level", hint)
            if level.kind is LevelKind.HOST and level.count is None:
                hint = "write host=N, at most the number of gangs of the pool"
                self.wrong("--replicate", word, "host has no number of hosts", hint)
            if level.kind is LevelKind.TIME:
                self._check_time(word, level, spread)
                level = msgspec.structs.replace(level, spread_ns=span)
            levels.append(level)
        if spread is not None and all(level.kind is not LevelKind.TIME for level in levels):
            hint = "add --replicate time=6"
            self.wrong("--spread", spread, "no level is visited over time", hint)
        return levels

    def _check_time(self, word: str, level: ReplicateLevel, spread: str | None) -> None:
        if level.count is None:
            self.wrong("--replicate", word, "time has no number of visits", "write time=6")
        if spread is None:
            self.wrong("--replicate", word, "time has no span", "add --spread 8h")

    def phase(self, option: str, text: str, mode: CommandMode, command: Template) -> Step:
        """Return the step of `--setup` or `--cleanup`, whose text is `command`."""
        if not text.strip():
            self.wrong(option, text, "the command is empty")
        return step.SetPhase(mode, command, at(option, text))

    def exec_phase(
        self,
        text: str,
        command: Template,
        option: str,
        shell: str | None,
        drawn: Sequence[str] = (),
    ) -> Step:
        """Return the step that runs a command line, in the shell of --shell if there is one.

        Otherwise plain words are executed directly, and /bin/sh runs what only a shell
        understands (`Command.from_text`). `drawn`: the words of --draw.
        """
        where = at(option, text)
        if shell is None:
            names = tuple(word.partition("=")[0] for word in drawn)
            return step.SetPhase(CommandMode.EXEC, command, where, names)
        words, faults = split_words(shell)
        if faults or not words:
            self.wrong("--shell", shell, "no shell", "write --shell, or --shell=bash")
        place = at("--shell", shell)
        program = (*(word.text for word in words), "-c")
        argv = (*(fixed(word, place) for word in program), command)
        return step.SetPhase(CommandMode.EXEC, argv, where)

    def command_names(
        self, commands: Sequence[str], given: Sequence[str], taken: Sequence[str] = ()
    ) -> list[str]:
        """Return a distinct name for each command line: that of --name, else its program's.

        `taken`: names that no command can have.
        """
        if len(given) > len(commands):
            many = f"{plural(len(given), 'name')} for {plural(len(commands), 'command')}"
            self.wrong("--name", given[-1], f"there are {many}")
        names = list(taken)
        for place, command in enumerate(commands):
            name = given[place] if place < len(given) else _program_of(command)
            if place < len(given) and name in names[len(taken) :]:
                self.wrong("--name", name, f"two commands are named {name!r}")
            names.append(_distinct(name, names))
        return names[len(taken) :]

    def settings(
        self,
        specs: Sequence[MetricSpec],
        timeout: str | None,
        ok_status: str | None,
        output: str | None,
        hooks: Sequence[str],
        instructions: str | None,
    ) -> list[Step]:
        """Return the steps of --metric, --timeout, --ok-status, --output, --hook and
        --instructions."""
        steps: list[Step] = [step.Metric(spec, Where("--metric")) for spec in specs]
        if timeout is not None:
            self.parsed("--timeout", timeout, values.timeout_ns)
            where = at("--timeout", timeout)
            steps.append(step.SetTimeout(fixed(timeout, where), where))
        if ok_status is not None:
            self.parsed("--ok-status", ok_status, values.statuses)
            where = at("--ok-status", ok_status)
            steps.append(step.SetOkStatus(fixed(ok_status, where), where))
        if output is not None:
            self.parsed("--output", output, values.output)
            where = at("--output", output)
            steps.append(step.SetOutput(fixed(output, where), where))
        if instructions is not None:
            method = self.value("instructions") or ""
            steps.append(step.CountInstructions(method, Where("--instructions")))
        if hooks:
            where = Where("--hook")
            steps.append(step.SetHooks(tuple(fixed(h, where) for h in hooks), where))
        return steps


_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def _program_of(command: str) -> str:
    """Return the name of a command line's program, without variable assignments before it."""
    words = [word for word in command.split() if not _ASSIGNMENT.match(word)]
    return command_name(words[0] if words else "")


def names_with_loops(
    commands: Sequence[str], given: Sequence[str], taken: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the names that a new session stores with its commands: those given, and all of them
    if a command without one is a shell's loop, which is named by the first program in it.

    They are stored, because a resume makes the names again from the commands, and those of
    sessions that are already stored must stay as they are.
    """
    loops = [program_of_loop(command) for command in commands[len(given) :]]
    if len(given) > len(commands) or not any(loops):
        return tuple(given)
    names = [*taken, *given]
    for command, program in zip(commands[len(given) :], loops, strict=True):
        name = _program_of(command) if program is None else command_name(program)
        names.append(_distinct(name, names))
    return tuple(names[len(taken) :])


def _distinct(name: str, taken: Sequence[str]) -> str:
    found, count = name, 1
    while found in taken:
        count += 1
        found = f"{name}-{count}"
    return found


# -- Output format, and options for reading results ------------------------------------

FOR_SCRIPTS = "it changes the output that scripts read"
REPLACES = "each run would replace the file"
"""Reasons why a configuration file cannot set an option."""
Json = Annotated[bool, Option("print one JSON document on stdout", no_default=FOR_SCRIPTS)]
Quiet = Annotated[bool, Option("print no progress")]
Verbose = Annotated[bool, Option("print each finding with its evidence and remedy", short="-v")]
Plot = Annotated[
    Text,
    Option(
        "draw the result: .svg, .png, .pdf or .eps",
        "FILE",
        group="result",
        names="file",
        no_default=REPLACES,
    ),
]
RuleFiles = Annotated[
    tuple[str, ...],
    Option(
        "rule of your own: a Python file with rule(result)",
        "FILE",
        flag="--rule",
        names="*.py",
        only_user=True,
    ),
]

CONFIDENCE = Option(
    "confidence of the intervals", "P", share_within(0.0, 1.0, "a confidence "), default="95%"
)
Confidence = Annotated[Text, CONFIDENCE]

# -- Commands, set-up, clean-up and limits of each trial of `bw run -- CMD` and `bw compare` -------

Metrics = Annotated[
    tuple[str, ...],
    Option(
        "number read from the output (first match); elapsed, user, system and rss_bytes are always measured",
        "NAME[:higher][=/json/pointer | ~regex(group)]",
        metric,
        flag="--metric",
    ),
]
INSTRUCTIONS = ("perf", "callgrind")
"""Programs that count the instructions of a command."""
Instructions = Annotated[
    Text,
    Option(
        "count each command's instructions by perf, or by callgrind, which is 50 times slower",
        "=METHOD",
        choice("method", *INSTRUCTIONS),
        bare=INSTRUCTIONS[0],
        rare=True,
    ),
]
SHELL = "/bin/sh"
"""The shell of `--shell` without a value."""
Shell = Annotated[
    Text,
    Option(
        "run each command in a shell, and measure its start too",
        "=SHELL",
        bare=SHELL,
        only_user=True,
    ),
]
Names = Annotated[
    tuple[str, ...],
    Option(
        "name of the first, second ... command (repeatable)",
        "NAME",
        flag="--name",
        no_default="it names the commands of one run",
    ),
]
REPLICATE = Option(
    "draw a level again N times, nested in the order given: env, directory, build, process, boot, host, time; "
    "aslr=off: no random addresses",
    "LEVEL[=N][:COMMAND]",
    values.replicate_level,
    hint=values.LEVEL_HINT,
    group="what varies",
    no_default="it decides what the answer is about",
    rare=True,
)
SPREAD = Option(
    "span within which the visits of --replicate time=N are",
    "8h",
    parse_duration_ns,
    hint="write --spread 8h",
    group="what varies",
    needs="replicate",
    no_default="it decides what the answer is about",
    rare=True,
)
DRAW = Option(
    "draw an input anew for each trial, {NAME} in the commands: uniform:1..1000, choice:a,b,c, or the "
    "lines of a file, @FILE (repeatable)",
    "NAME=WHAT",
    parse_draw,
    hint=DRAW_HINT,
    group="what varies",
    no_default="it decides what the answer is about",
    rare=True,
)
Draw = Annotated[tuple[str, ...], DRAW]
Replicate = Annotated[tuple[str, ...], REPLICATE]
Spread = Annotated[Text, SPREAD]


class ReplicateRequest(msgspec.Struct, frozen=True):
    """The texts of a `[replicate]` table."""

    replicate: Annotated[tuple[str, ...], REPLICATE._replace(key="levels")] = ()
    spread: Annotated[Text, SPREAD._replace(key=True)] = None
    command: Annotated[Text, Option("shell command of the level build", key=True)] = None

    @property
    def words(self) -> tuple[str, ...]:
        """The words of `--replicate`."""
        if self.command is None:
            return self.replicate
        is_build = re.compile(r"build(=[^:]*)?")
        return tuple(
            f"{word}:{self.command}" if is_build.fullmatch(word) else word
            for word in self.replicate
        )


Setup = Annotated[Text, Option("shell command before each trial", "C", only_user=True)]
Cleanup = Annotated[
    Text, Option("shell command after each trial, even a failed one", "C", only_user=True)
]
Rest = Annotated[
    Text,
    Option(
        "pause before each trial",
        "500ms",
        values.rest_command,
        hint="write --rest 500ms",
        rare=True,
    ),
]
Timeout = Annotated[
    Text,
    Option(
        "time after which a trial is stopped and fails",
        "30s",
        values.timeout_ns,
        hint="write --timeout 30s",
        rare=True,
    ),
]
OkStatus = Annotated[
    Text,
    Option(
        "exit statuses with which a command succeeds",
        "0,1",
        values.statuses,
        default="0",
        hint="write --ok-status 0,1 or --ok-status 0..3",
        rare=True,
    ),
]
Output = Annotated[
    Text,
    Option(
        "output to store: null, bounded (64 KiB of each end), file (all; file:4G sets "
        "a limit), inherit (bounded, and shown)",
        "WHERE",
        values.output,
        default="bounded",
        hint="write --output file:4G",
        rare=True,
    ),
]
Hooks = Annotated[
    tuple[str, ...],
    Option(
        "measurement hook: free-memory, disk-io, other-cpu, network, nfsd, counters, remote, or a path",
        "NAME|PATH",
        flag="--hook",
        names="file",
        only_user=True,
        rare=True,
    ),
]
