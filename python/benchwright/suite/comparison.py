"""`bw compare -- 'A' 'B'`: the words of a command line become a program.

Each word after `--` is one arm's command line. Every wrong value is reported at once,
with the option's name in the place of a file's; the rule is read in comparison_rule.py.
"""

from __future__ import annotations

import re

from benchwright.model.comparison import ComparisonRule
from benchwright.model.errors import InputError
from benchwright.model.plan import FixedCount, MetricSpec, Mode
from benchwright.suite import program as step
from benchwright.suite import reading
from benchwright.suite.comparison_rule import ComparisonRequest, RuleReading
from benchwright.suite.naming import command_name, file_friendly
from benchwright.suite.option_reading import at
from benchwright.suite.program import Program, Step, Where
from benchwright.suite.template import fixed

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def program_from_comparison(request: ComparisonRequest) -> Program:
    """Return the program that compares commands. Raises InputError with all mistakes."""
    reading_it = _Reading(request)
    steps = reading_it.steps()
    if reading_it.found:
        raise InputError(reading_it.found)
    return Program(steps)


class _Reading(RuleReading):
    """One request being read, arms and all."""

    def steps(self) -> tuple[Step, ...]:
        """Return the program's steps; mistakes are in `found`."""
        request = self._request
        specs = self.specs()
        settings = self._settings(specs)
        commands = self._commands()
        names = self._names(commands)
        body = self._body()
        rule = self._rule(specs, len(commands) + (request.stored is not None))
        arms = tuple(
            self._arm(name, command, body, rule)
            for name, command in zip(names, commands, strict=True)
        )
        where = Where("--")
        token = request.token or "comparison"
        return (*settings, step.Compare(arms, rule, token, where, request.null))

    # -- arms ------------------------------------------------------------------------

    def _commands(self) -> tuple[str, ...]:
        request, commands = self._request, self._request.commands
        for text in commands:
            if not text.strip():
                self._wrong("--", text, "the command of an arm is empty")
        if request.is_null:
            if len(commands) != 1:
                hint = "write: bw compare --null -- 'A'"
                self._wrong("--null", "", "--null takes one command", hint)
            return commands[:1] * 2
        least = 1 if request.stored is not None else 2
        if len(commands) < least:
            hint = "write each command as one word: bw compare -- 'sort a' 'sort b'"
            what = "two commands" if least == 2 else "one command"
            message = f"bw compare needs at least {what}"
            self._wrong("--", " ".join(commands), message, hint)
        return commands

    def _names(self, commands: tuple[str, ...]) -> list[str]:
        """Return a name for each arm: as given, else the program's, made distinct."""
        given = self._request.names
        most = 1 if self._request.is_null else len(commands)
        for name in given[most:]:
            message = f"there are {most} commands and more names"
            self._wrong("--name", name, message)
        for name in given:
            fault = reading.name_fault(name)
            if fault is not None:
                self._wrong("--name", name, fault.message, fault.hint, fault.offset)
            elif (fit := file_friendly(name)) != name:
                message = f"{name!r} would become {fit}: the name also names files"
                self._wrong("--name", name, message, f"write --name {fit}")
        taken = [] if self._request.stored is None else [self._request.stored.name]
        first = len(taken)
        for place, command in enumerate(commands):
            name = given[place] if place < len(given) else _program(command)
            if place < len(given) and name in taken[first:]:
                self._wrong("--name", name, f"two arms are named {name!r}")
            taken.append(_distinct(name, taken))
        return taken[first:]

    def _arm(
        self,
        name: str,
        command: str,
        body: tuple[list[Step], list[Step]],
        rule: ComparisonRule,
    ) -> step.Test:
        where = at("--", command)
        before, after = body
        phase = step.Phase(Mode.EXEC, fixed(command, where), where)
        limit = FixedCount((rule.warmup + rule.maximum) * rule.trials_per_block)
        heading = fixed(name, Where("--name", text=name))
        return step.Test(heading, limit, (*before, phase, *after), where)

    def _body(self) -> tuple[list[Step], list[Step]]:
        """Return what runs before and after each arm's command."""
        request = self._request
        before: list[Step] = []
        after: list[Step] = []
        rest = request.rest
        if rest is not None and self._checked("--rest", rest, reading.rest_fault):
            pause = reading.rest_command(rest)
            before.append(self._phase("--rest", pause, Mode.SETUP))
        if request.setup is not None:
            before.append(self._phase("--setup", request.setup, Mode.SETUP))
        if request.cleanup is not None:
            after.append(self._phase("--cleanup", request.cleanup, Mode.CLEANUP))
        return before, after

    def _phase(self, option: str, text: str, mode: Mode) -> Step:
        if not text.strip():
            self._wrong(option, text, "the command is empty")
        where = at(option, text)
        return step.Phase(mode, fixed(text, where), where)

    # -- settings ---------------------------------------------------------------------

    def _settings(self, specs: list[MetricSpec]) -> list[Step]:
        request = self._request
        text = request.threads or "1"
        self._checked("--threads", text, reading.threads_fault)
        where = Where("--threads", text=text)
        steps: list[Step] = [step.Threads(fixed(text, where), where)]
        steps += [step.Metric(spec, Where("--metric")) for spec in specs]
        if request.timeout is not None:
            self._checked("--timeout", request.timeout, reading.timeout_fault)
            where = Where("--timeout", text=request.timeout)
            steps.append(step.Timeout(fixed(request.timeout, where), where))
        if request.output is not None:
            self._checked("--output", request.output, reading.output_fault)
            where = Where("--output", text=request.output)
            steps.append(step.Output(fixed(request.output, where), where))
        if request.hooks:
            where = Where("--hook")
            hooks = tuple(fixed(hook, where) for hook in request.hooks)
            steps.append(step.Hooks(hooks, where))
        return steps


def _program(command: str) -> str:
    """Return the name of the program of a command line, variables before it left out."""
    words = [w for w in command.split() if not _ASSIGNMENT.match(w)]
    return command_name(words[0] if words else "")


def _distinct(name: str, taken: list[str]) -> str:
    found, count = name, 1
    while found in taken:
        count += 1
        found = f"{name}-{count}"
    return found
