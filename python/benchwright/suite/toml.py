"""`.toml`, the language of new suites: factors, conditions, tests, stopping rules.

Purpose: a suite as data; docs/suite-toml.md describes it.
Decision: it compiles to the same kind of program as an `.ap` suite, loops around tests, so
that all later stages exist once. Rejected: YAML (its scalars are ambiguous).
Non-goals: user-defined loops and assignments; suites that need them are written in `.ap`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from benchwright.core.comparison import ComparisonRule
from benchwright.core.draws import DrawnInput, Draws
from benchwright.core.plan import CommandMode, MetricSpec, StoppingRule
from benchwright.inputs.mistakes import (
    SourceFile,
    SourceReader,
    Where,
    WrongText,
    fault_of,
    main_text,
)
from benchwright.inputs.template import (
    Slot,
    Template,
    brace_template,
    command_name,
    fixed,
    misspelt,
    with_sample,
)
from benchwright.inputs.toml_table import TomlTable, read_toml
from benchwright.suite import program as step
from benchwright.suite import toml_sections as sections
from benchwright.suite import values
from benchwright.suite.check import unused_defines
from benchwright.suite.comparison import limit_of_arm
from benchwright.suite.program import Baseline, Program, Step
from benchwright.suite.toml_sections import missing_tables, suite_tables

THREADS = "threads"
MAX_FACTORS = 30
_TOP = (
    "name",
    "factors",
    "threads",
    "skip",
    "only",
    "variables",
    "environment",
    "timeout",
    "ok_status",
    "output",
    "rest",
    "warmup",
    "replicate",
    "draw",
    "hooks",
    "metrics",
    "until",
    "fail_fast",
    "baseline",
    "notify",
    "remote",
    "target",
    "test",
    "compare",
)
_MODES = ("presetup", "setup", "exec", "cleanup", "postcleanup")
_ONCE = ("presetup", "postcleanup")
"""Phases that run once for a test, not for each trial."""
_TEST = (
    "name",
    *_MODES,
    "timeout",
    "ok_status",
    "output",
    "rest",
    "warmup",
    "hooks",
    "skip",
    "only",
    "until",
    "replicate",
    "metrics",
)
_COMPARE = (
    *(mode for mode in _MODES if mode != "exec"),
    "timeout",
    "ok_status",
    "output",
    "rest",
    "hooks",
    "skip",
    "only",
    "metrics",
    "arm",
    "replicate",
    *sections.COMPARISON,
)


def compile_toml(
    main: str,
    reader: SourceReader,
    *,
    defines: Collection[str] = (),
    environment: Collection[str] = (),  # noqa: ARG001 - the languages' common signature
) -> Program:
    """Return the program of a `.toml` suite. Raises InputError with every mistake."""
    text = main_text(main, reader)

    def read(top: TomlTable) -> Program:
        _refuse_nul(top, top.values)
        added = suite_tables()
        suite = _Suite(top, added, reader)
        steps = suite.steps()
        notices = top.table("notify")
        notify = None if notices is None else sections.notify_of(notices)
        stated = {key: table.read(top) for key, table in added.items() if key in top}
        servers = sections.servers_of(top)
        baseline = top.text("baseline")
        if top.is_sound:
            for mistake in unused_defines(steps, defines):
                top.note(mistake)
        return Program(
            steps,
            (SourceFile(main, text), *(SourceFile(*file) for file in top.files.items())),
            notify,
            servers,
            {key: one for key, one in stated.items() if one is not None},
            None if baseline is None else Baseline(baseline, top.at("baseline")),
            sections.has_fixed_addresses(top),
            Draws(0, tuple(suite.drawn)) if suite.drawn else None,
        )

    return read_toml(text, main, "suite", read)


def _refuse_nul(top: TomlTable, value: Any, *keys: str | int) -> None:
    """Report strings with an escaped NUL: no command and no variable can hold one."""
    if isinstance(value, str) and "\0" in value:
        message = "a NUL cannot be part of a command or a variable"
        top.wrong(top.at(*keys), "suite-toml", message)
    elif isinstance(value, dict):
        for key, one in value.items():
            _refuse_nul(top, one, *keys, key)
    elif isinstance(value, list):
        for index, one in enumerate(value):
            _refuse_nul(top, one, *keys, index)


class _Suite:
    """Reads the top-level table of a suite."""

    def __init__(self, top: TomlTable, added: Collection[str], reader: SourceReader) -> None:
        """`added`: the keys of features; `reader`: of the files that inputs are drawn from."""
        self._top = top
        self._added = added
        self._reader = reader
        self.drawn: list[DrawnInput] = []
        """The inputs that are drawn for each trial or block."""
        self._factors: dict[str, list[str]] = {}
        self._known: frozenset[str] = frozenset()
        self._names: list[tuple[str | Slot, ...]] = []

    def steps(self) -> tuple[Step, ...]:
        """Return the program's steps."""
        top = self._top
        top.only((*_TOP, *self._added), elsewhere=missing_tables())
        self._read_factors()
        variables = top.table("variables")
        names = variables.names("a variable") if variables else []
        for name in names:
            if name in self._factors or name == THREADS:
                message = f"{name} is a factor already"
                top.wrong(top.at("variables", name), "suite-name", message)
        self._known = frozenset((*self._factors, *names, THREADS))
        self.drawn = sections.draws_of(top, self._reader, self._known)
        body = (
            *self._assigned("variables", names, environment=False),
            *self._assigned("environment", None, environment=True),
            *self._remote(),
            *_settings(top, remote=self._has_remote),
            self._threads(),
            *self._tests(),
            *self._comparisons(),
        )
        self._check_drawn()
        body = self._where_wanted(top, body)
        for name, levels in reversed(self._factors.items()):
            where = top.at(*(("threads",) if name == THREADS else ("factors", name)))
            values = tuple(fixed(level, where) for level in levels)
            body = (step.ForEach(name, values, body, where),)
        return (*self._before(), *body)

    def _before(self) -> tuple[Step, ...]:
        """Return the steps before the tests: fail-fast, and the number of threads."""
        where = self._top.where
        steps: list[Step] = []
        if self._top.flag("fail_fast", True):
            steps.append(step.FastFail(None, where))
        if THREADS not in self._factors:
            value = self._top.values.get(THREADS)
            count = (TomlTable.scalar(value) if type(value) is int else None) or "1"
            steps.append(step.Assign(THREADS, fixed(count, where), False, False, where))
        return tuple(steps)

    def _read_factors(self) -> None:
        top = self._top
        factors = top.table("factors")
        for name in factors.names("a factor") if factors else ():
            if name == THREADS:
                message = "threads is a key of its own, not a factor"
                hint = "write threads = [1, 2] above the tables"
                top.wrong(top.at("factors", name), "suite-name", message, hint)
            else:
                assert factors is not None
                self._factors[name] = factors.levels(name) or []
        if len(self._factors) > MAX_FACTORS:
            message = f"there are more than {MAX_FACTORS} factors"
            top.wrong(top.at("factors"), "suite-range", message)
            self._factors = {}
        if top.has(THREADS, int, list):
            self._read_threads()

    def _read_threads(self) -> None:
        top, value = self._top, self._top.values[THREADS]
        single = TomlTable.scalar(value) or "a number that long"
        levels = top.levels(THREADS) or [] if isinstance(value, list) else [single]
        for index, level in enumerate(levels):
            fault = fault_of(values.threads, level)
            if fault is not None:
                keys = (index,) if isinstance(value, list) else ()
                where = top.at(THREADS, *keys)
                top.wrong(where, fault.code, fault.message, fault.hint)
        if isinstance(value, list):
            self._factors[THREADS] = levels

    def _threads(self) -> Step:
        where = self._top.at(THREADS)
        return step.SetThreads(Template((Slot(THREADS, where),), where), where)

    def _assigned(
        self, table_name: str, names: list[str] | None, *, environment: bool
    ) -> list[Step]:
        table = self._top.table(table_name) if table_name in self._top else None
        if table is None:
            return []
        steps: list[Step] = []
        for name in table.names("a variable") if names is None else names:
            if environment and name in self._known:
                message = f"{name} is a factor or variable already"
                hint = f'export it under another name: {name.upper()} = "{{{name}}}"'
                table.wrong(table.at(name), "suite-name", message, hint)
            text = table.scalar(table.values[name])
            if text is None:
                table.mistyped(table.at(name), name, table.values[name], (str, int))
                continue
            value = self._template(table, text, name)
            where = table.at(name)
            steps.append(step.Assign(name, value, environment, False, where))
        return steps

    def _template(self, table: TomlTable, text: str, *keys: str | int) -> Template:
        """Return the text at these keys as a template; report mistakes."""
        drawn = {one.name for one in self.drawn}
        table.faults(misspelt(text, self._known | drawn), text, *keys)
        return brace_template(text, table.inside(text, *keys), self._known)

    @property
    def _has_remote(self) -> bool:
        return "remote" in self._top

    def _remote(self) -> list[Step]:
        """Return the steps that configure the hook `remote` and enable it."""
        table = self._top.table("remote")
        if table is None:
            return []
        where = table.where
        names = (fixed(sections.HOOK, where),)
        return [
            *sections.steps_of(table.knowing(dict.fromkeys(self._known, ""))),
            step.SetHooks(names, where),
        ]

    # -- conditions ------------------------------------------------------------------

    def _where_wanted(self, table: TomlTable, body: tuple[Step, ...]) -> tuple[Step, ...]:
        """Return the steps under the conditions of `only` and `skip`."""
        for key in ("only", "skip"):
            single = isinstance(table.values.get(key), str)
            for index, text in enumerate(table.texts(key)):
                keys = (key,) if single else (key, index)
                self._check_expression(table, text, keys)
                where = table.at(*keys)
                holds = step.Holds(fixed(text, where), key == "skip", where)
                body = (step.If((step.Branch(holds, body),), (), where),)
        return body

    def _check_expression(self, table: TomlTable, text: str, keys: tuple[str | int, ...]) -> None:
        if faults := values.expression_faults(text, self._known):
            table.faults(faults, text, *keys)

    # -- tests -----------------------------------------------------------------------

    def _tests(self) -> tuple[Step, ...]:
        tests = self._top.tables("test")
        if not tests and "test" not in self._top and "compare" not in self._top:
            hint = "a test is a table [[test]] with at least an exec"
            self._top.wrong(self._top.where, "suite-no-test", "there is no test", hint)
        return tuple(one for table in tests for one in self._test(table))

    def _test(self, table: TomlTable) -> tuple[Step, ...]:
        table.only(_TEST)
        body: list[Step] = list(_settings(table, remote=self._has_remote))
        body += _rest(table if "rest" in table else self._top)
        body += _warmup(table if "warmup" in table else self._top)
        for key in _MODES:
            body += self._commands(table, key)
        if "exec" not in table:
            message = "this test has no exec: it would measure nothing"
            table.wrong(table.where, "suite-no-exec", message, 'add exec = "COMMAND"')
        heading, where = self._heading(table), table.where
        test = step.Test(heading, self._stopping(table), tuple(body), where)
        return self._where_wanted(table, (test,))

    def _comparisons(self) -> tuple[Step, ...]:
        tables = self._top.tables("compare")
        return tuple(one for table in tables for one in self._comparison(table))

    def _comparison(self, table: TomlTable) -> tuple[Step, ...]:
        table.only(_COMPARE)
        around = [
            *_settings(table, remote=self._has_remote),
            *_rest(table if "rest" in table else self._top),
            *(command for key in _MODES if key != "exec" for command in self._commands(table, key)),
        ]
        arms = table.tables("arm")
        if len(arms) < 2:
            hint = "give each a table [[compare.arm]] with at least an exec"
            message = "a comparison has a baseline and a candidate"
            table.wrong(table.where, "suite-no-arm", message, hint)
        declared = [*_metrics(self._top, quiet=True), *_metrics(table, quiet=True)]
        rule = sections.rule_of(table, len(arms), declared, self._replicates(table))
        tests = tuple(self._arm(arm, around, rule) for arm in arms)
        compare = step.Compare(tests, rule, "", table.where)
        return self._where_wanted(table, (compare,))

    def _arm(self, arm: TomlTable, around: list[Step], rule: ComparisonRule) -> step.Test:
        arm.only(("name", "exec"))
        if "exec" not in arm:
            message = "this arm has no exec: it would measure nothing"
            arm.wrong(arm.where, "suite-no-exec", message, 'add exec = "COMMAND"')
        limit = limit_of_arm(rule)
        body = (*around, *self._commands(arm, "exec"))
        return step.Test(self._heading(arm), limit, body, arm.where)

    # -- inputs that are drawn -------------------------------------------------------

    def _check_drawn(self) -> None:
        """Report inputs that no command names, that only some arms of a comparison name, and that
        are named where they have no value."""
        top = self._top
        tests, comparisons = top.tables("test"), top.tables("compare")
        around = [mode for mode in _MODES if mode not in _ONCE]
        by_variables = str(top.values.get("variables", ""))
        for one in self.drawn:
            hint = f"write {one.placeholder} where its value belongs"
            used = one.placeholder in by_variables
            for table in (*tests, *comparisons):
                used |= any(one.placeholder in str(table.values.get(key)) for key in around)
                for key in _ONCE:
                    if one.placeholder in str(table.values.get(key)):
                        message = f"{key} runs once: {one.placeholder} has no value there"
                        what = "name it in setup, exec or cleanup"
                        table.wrong(table.at(key), "suite-draw", message, what)
            for table in comparisons:
                arms = [arm for arm in table.tables("arm") if "exec" in arm]
                without = [arm for arm in arms if one.placeholder not in str(arm.values["exec"])]
                used |= len(without) < len(arms)
                if len(without) < len(arms) and one.placeholder not in by_variables:
                    for arm in without:
                        message = f"{one.placeholder} is not in the exec of every arm"
                        arm.wrong(arm.at("exec"), "suite-draw", message, hint)
            if one.placeholder in str(top.values.get("environment", "")):
                message = f"the environment has no inputs: {one.placeholder} has no value there"
                what = f"write `env NAME={one.placeholder}` before a command"
                top.wrong(top.at("environment"), "suite-draw", message, what)
            if not used:
                message = f"{one.placeholder} is in no command"
                top.wrong(top.at("draw", one.name), "suite-draw", message, hint)

    def _heading(self, table: TomlTable) -> Template:
        text = table.text("name")
        if text is None:
            name = fixed(self._top.text("name") or _program(table), table.where)
        else:
            name = self._template(table, text, "name")
        literal = name.literal
        if literal is not None:
            fault = fault_of(values.name_of_test, literal)
            holder = table if text is not None else self._top
            if fault is not None:
                holder.faults([fault], literal, "name")
        name = with_sample(name, tuple(self._factors))
        shape = tuple(p if isinstance(p, str) else f"{{{p.name}}}" for p in name.parts)
        if shape in self._names:
            message = "another test has this name"
            where = table.at("name") if "name" in table else table.where
            hint = "give each [[test]] a name of its own"
            table.wrong(where, "suite-duplicate-test", message, hint)
        self._names.append(shape)
        return name

    def _stopping(self, table: TomlTable) -> StoppingRule:
        declared = [*_metrics(self._top, quiet=True), *_metrics(table, quiet=True)]
        until = table.table("until") or self._top.table("until")
        rule = sections.DEFAULT if until is None else sections.stopping(until, declared)
        return sections.replicated(self._replicates(table), rule, declared)

    def _replicates(self, table: TomlTable) -> sections.StatedReplicates | None:
        """Return the levels of replication of a test or comparison, or those of the suite."""
        own = table if "replicate" in table else self._top
        if "replicate" not in own:
            return None
        return sections.replicates_of(own.table("replicate"), starts_server="presetup" in table)

    def _commands(self, table: TomlTable, key: str) -> list[Step]:
        if not table.has(key, str, list):
            return []
        value, mode = table.values[key], CommandMode(key.upper())
        if isinstance(value, list) and any(isinstance(one, list) for one in value):
            found = [
                self._command(table, mode, one, (key, index)) for index, one in enumerate(value)
            ]
        else:
            found = [self._command(table, mode, value, (key,))]
        return [one for one in found if one is not None]

    def _command(
        self, table: TomlTable, mode: CommandMode, value: Any, keys: tuple[str | int, ...]
    ) -> Step | None:
        where = table.at(str(keys[0]), *keys[1:])
        if isinstance(value, str) and value.strip():
            names = tuple(one.name for one in self.drawn)
            return step.SetPhase(mode, self._template(table, value, *keys), where, names)
        if not isinstance(value, (str, list)):
            table.mistyped(where, f"a command of {keys[0]}", value, (str, list))
            return None
        if not value or isinstance(value, str) or value[0] == "":
            table.wrong(where, "suite-no-command", f"a command of {keys[0]} is empty")
            return None
        words = []
        for index, word in enumerate(value):
            if not isinstance(word, str):
                at = table.at(str(keys[0]), *keys[1:], index)
                table.mistyped(at, f"a word of {keys[0]}", word, (str,))
                return None
            words.append(self._template(table, word, *keys, index))
        return step.SetPhase(mode, tuple(words), where)


def _program(table: TomlTable) -> str:
    """Return a name for a test from its first command."""
    value = table.values.get("exec")
    while isinstance(value, list) and value:
        value = value[0]
    words = value.split() if isinstance(value, str) else []
    return command_name(words[0]) if words else "test"


def _metrics(table: TomlTable, *, quiet: bool = False) -> list[MetricSpec]:
    declared = table.table("metrics") if "metrics" in table else None
    if declared is None:
        return []
    return sections.metrics(declared.silent() if quiet else declared)


def _rest(table: TomlTable) -> list[Step]:
    """Return the step that pauses before each trial: a command of SETUP."""
    text = table.text("rest")
    if text is None:
        return []
    where = table.at("rest")
    try:
        pause = values.rest_command(text)
    except WrongText as error:
        table.faults([error.fault], text, "rest")
        return []
    return [step.SetPhase(CommandMode.SETUP, fixed(pause, where), where)]


def _warmup(table: TomlTable) -> list[Step]:
    """Return the step that sets the number of warm-up trials."""
    count = table.whole("warmup", 0, values.MAX_WARMUP)
    if count is None:
        return []
    where = table.at("warmup")
    return [step.SetWarmUp(fixed(str(count), where), where)]


def _setting(
    table: TomlTable,
    key: str,
    parse: Callable[[str], object],
    make: Callable[[Template, Where], Step],
) -> Iterator[Step]:
    """Yield the step of a string key, if the key is given; report its mistake."""
    text = table.text(key)
    if text is None:
        return
    if fault := fault_of(parse, text):
        table.faults([fault], text, key)
    where = table.at(key)
    yield make(fixed(text, where), where)


def _ok_status(table: TomlTable) -> Iterator[Step]:
    """Yield the step of `ok_status`: a number, or an array of numbers and ranges."""
    if not table.has("ok_status", int, str, list):
        return
    value, where = table.values["ok_status"], table.at("ok_status")
    if isinstance(value, list):
        text = ",".join(table.levels("ok_status") or ())
    else:
        text = TomlTable.scalar(value) or str(value)
    if text and (fault := fault_of(values.statuses, text)):
        table.wrong(where, fault.code, fault.message, fault.hint)
    yield step.SetOkStatus(fixed(text, where), where)


def _settings(table: TomlTable, *, remote: bool) -> list[Step]:
    """Return the steps of timeout, ok_status, output, hooks and metrics, of the suite or of a test.

    With `remote`, the hook `remote` is added to a list of hooks.
    """
    steps: list[Step] = [
        *_setting(table, "timeout", values.timeout_ns, step.SetTimeout),
        *_ok_status(table),
        *_setting(table, "output", values.output, step.SetOutput),
    ]
    if "hooks" in table:
        where = table.at("hooks")
        asked = [*table.texts("hooks"), *((sections.HOOK,) if remote else ())]
        names = tuple(fixed(hook, where) for hook in asked)
        steps.append(step.SetHooks(names, where))
    steps += [step.Metric(spec, table.at("metrics")) for spec in _metrics(table)]
    return steps
