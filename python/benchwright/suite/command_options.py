"""Reads the options that describe commands, and makes their steps; each mistake is at its option."""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchwright.core.plan import CommandMode, MetricSpec
from benchwright.core.text import plural
from benchwright.inputs.mistakes import Where, placed
from benchwright.inputs.option_reader import OptionReader, R, at, placer
from benchwright.inputs.template import Template, command_name, fixed, split_words
from benchwright.suite import program as step
from benchwright.suite import values
from benchwright.suite.program import Step
from benchwright.suite.rules import parse_metric
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

    def phase(self, option: str, text: str, mode: CommandMode, command: Template) -> Step:
        """Return the step of `--setup` or `--cleanup`, whose text is `command`."""
        if not text.strip():
            self.wrong(option, text, "the command is empty")
        return step.SetPhase(mode, command, at(option, text))

    def exec_phase(self, text: str, command: Template, option: str, shell: str | None) -> Step:
        """Return the step that runs a command line, in the shell of --shell if there is one.

        Otherwise plain words are executed directly, and /bin/sh runs what only a shell
        understands (`Command.from_text`).
        """
        where = at(option, text)
        if shell is None:
            return step.SetPhase(CommandMode.EXEC, command, where)
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
