"""`--pool` and `[pool]`: where gangs of hosts are from, how many run side by side, and which parts
of a program do not depend on each other, so that gangs can run them side by side.

One declaration for both: `POOL` has the keys, each with the parser of its text. The option is
`ENGINE:KEY=VALUE,...`; the table has the engine as a key too.

A part is a test, all interleaved tests together, or a comparison with its arms; with replicates of
`host` each of these is a task of its own, on a gang of its own. Its keys follow
from a walk through the program with dry answers, so a program whose later steps depend on what
happens in earlier ones has no parts. Such a program is refused. Under FASTFAIL a failure ends the
session once its part has failed on several gangs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from benchwright.core.errors import Diagnostic, InputError
from benchwright.core.plan import LevelKind, Replicated, Replication, TestPlan
from benchwright.core.quantity import parse_duration_ns
from benchwright.core.replication import trials_before
from benchwright.features.pool.types import PoolKind, PoolSettings
from benchwright.inputs.form import Form, needed, optional, read_form
from benchwright.inputs.mistakes import Where, diagnostic
from benchwright.run.gangs import Task
from benchwright.study.keys import EffectKeys, KeysOfTest
from benchwright.suite import effects as effect
from benchwright.suite import program as step
from benchwright.suite.check import walk
from benchwright.suite.interpret import execute
from benchwright.suite.plan import DryAnswers
from benchwright.suite.program import Program

if TYPE_CHECKING:
    from benchwright.inputs.toml_table import TomlTable


_CODE = "pool-dependent"
_DEPENDENT: tuple[tuple[type, str], ...] = (
    (step.System, "SYSTEM runs a command between tests"),
    (step.Checkpoint, "CHECKPOINT divides the program"),
    (step.StopProgram, "STOP ends the program"),
)


class _Part(msgspec.Struct):
    names: list[str]
    keys: list[str]
    where: Where
    plans: list[TestPlan | tuple[TestPlan, ...]] = []
    """Of the first epoch of each test."""


def parts_of(
    program: Program, defines: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[Task, ...]:
    """Return the parts of a program in the order in which they would run here.

    Raises InputError with all steps that make parts depend on each other.
    """
    wrong: list[Diagnostic] = [
        diagnostic(
            one.where,
            _CODE,
            f"{why}: gangs of a pool cannot run such a suite side by side",
            "move it into setup, cleanup, presetup or postcleanup, or run without --pool",
        )
        for one in walk(program.steps)
        for kind, why in _DEPENDENT
        if isinstance(one, kind)
    ]
    if wrong:
        raise InputError(wrong)
    parts = _walked(program, defines, environment, 1)
    others = _walked(program, defines, environment, 2)
    for part, other in zip(parts, others, strict=False):
        if (part.keys, part.plans) != (other.keys, other.plans):
            names = ", ".join(part.names)
            message = f"what {names} runs depends on the number of trials of an earlier test"
            raise InputError([diagnostic(part.where, _CODE, message)])
    tasks: list[Task] = []
    for part in parts:
        name = f"{_kind(part)} {', '.join(part.names)}"
        plans = _over_hosts(part)
        if not plans:
            prefixes = tuple(f"{key}/" for key in part.keys)
            tasks.append(Task(place=str(len(tasks) + 1), name=name, prefixes=prefixes))
            continue
        tests = [KeysOfTest(key) for key in part.keys[-len(plans) :]]
        replication = _replication_of(plans[0])
        assert replication is not None
        for host in range(1, (replication.levels[0].count or 0) + 1):
            own = msgspec.structs.replace(replication, only=host)
            tasks.append(
                Task(
                    place=str(len(tasks) + 1),
                    name=f"{name} on host {host}",
                    prefixes=tuple(one for test in tests for one in (test.plan, test.epochs)),
                    gang=f"g{host}",
                    keys=tuple(part.keys),
                    replicate=host,
                    shown_by=tests[0].epoch(trials_before(own, plans[0].warmups) + 1),
                )
            )
    return tuple(tasks)


def _over_hosts(part: _Part) -> list[TestPlan]:
    """Return the plans of a part's tests if their replicates are hosts; else none."""
    plans = [plan for one in part.plans for plan in (one if isinstance(one, tuple) else (one,))]
    levels = [found.levels[0].kind for found in map(_replication_of, plans) if found is not None]
    return plans if LevelKind.HOST in levels else []


def _replication_of(plan: TestPlan) -> Replication | None:
    return plan.stopping.replication if isinstance(plan.stopping, Replicated) else None


def _kind(part: _Part) -> str:
    if part.keys[0].endswith("/compare"):
        return "comparison of"
    return "test" if len(part.names) == 1 else "tests"


def _walked(
    program: Program, defines: Mapping[str, str], environment: Mapping[str, str], epochs: int
) -> list[_Part]:
    """Return the parts if each test has this number of epochs."""
    parts: list[_Part] = []
    together: _Part | None = None
    of_test: dict[str, _Part] = {}
    keys, answers = EffectKeys(), DryAnswers(epochs)
    steps = execute(program, defines=defines, environment=environment)
    answer: effect.EffectAnswer = None
    while True:
        try:
            what = steps.send(answer)
        except StopIteration:
            return parts
        answer = answers.answer(what)
        match what:
            case effect.Say():
                keys.next("say")
            case effect.BeginTest(name, _, where, place):
                key = keys.next("test")
                if place is not None and together is not None:
                    together.names.append(name)
                    together.keys.append(key)
                    of_test[name] = together
                    continue
                part = of_test[name] = _Part([name], [key], where)
                parts.append(part)
                if place is not None:
                    together = part
            case effect.RunEpochs(plan, 1):
                of_test[plan.name].plans.append(plan)
            case effect.RunComparison(plans, _, names, _, where):
                own = [keys.next("compare"), *(keys.next("test") for _ in plans)]
                parts.append(_Part(list(names), own, where, [plans]))


MOST_GANGS = 1024
_MOST_CLIENTS = 1024
_MOST_RETRIES = 100
_OF_SLURM = ("partition", "account", "qos", "constraint")


def _engine(text: str) -> PoolKind:
    if text not in tuple(PoolKind):
        known = " or ".join(PoolKind)
        raise ValueError(f"must be {known}, not {text!r}")
    return PoolKind(text)


def _whole(text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and least <= int(text) <= most):
        raise ValueError(f"{text!r} is not a whole number from {least} to {most}")
    return int(text)


def _seconds(text: str) -> float:
    seconds = parse_duration_ns(text) / 1e9
    if seconds < 1:
        raise ValueError(f"{text!r} is less than 1 s")
    return seconds


def _word(text: str) -> str:
    if not text or not text.isprintable() or " " in text:
        raise ValueError(f"{text!r} is not one word")
    return text


POOL = Form(
    (
        needed(
            "engine",
            _engine,
            help="`local`: processes on this machine; `slurm`: jobs of a cluster",
            hint='engine = "local"',
        ),
        needed(
            "gangs",
            lambda text: _whole(text, 1, MOST_GANGS),
            help="number of gangs that run side by side",
            hint="gangs = 4",
        ),
        optional(
            "clients",
            lambda text: _whole(text, 0, _MOST_CLIENTS),
            help="number of client hosts in each gang, which issue its load; 0: the server's host does",
            default="0",
        ),
        optional(
            "retries",
            lambda text: _whole(text, 0, _MOST_RETRIES),
            help="how often a task is tried again after a void attempt",
            default="2",
        ),
        optional(
            "lease",
            _seconds,
            field="lease_s",
            help="length of a lease; then the gang is leased again",
            default="until the session ends",
        ),
        optional("partition", _word, help="partition of Slurm", default="its default"),
        optional("account", _word, help="account of Slurm", default="its default"),
        optional("qos", _word, help="quality of service of Slurm", default="its default"),
        optional("constraint", _word, help="features that Slurm's nodes must have", default="none"),
    ),
    PoolSettings,
)
"""The keys of `[pool]`."""


def _misfit(said: dict[str, Any]) -> str:
    """Return why keys do not fit the engine; empty if they do."""
    if said.get("engine") is not PoolKind.LOCAL:
        return ""
    wrong = [key for key in _OF_SLURM if key in said]
    return f"{wrong[0]} is for slurm" if wrong else ""


def read_pool(table: TomlTable) -> PoolSettings | None:
    """Return the settings of a table; None after it reported mistakes."""
    settings: PoolSettings | None = read_form(table, POOL)
    if settings is not None:
        why = _misfit(dict.fromkeys(table.values, settings) | {"engine": settings.engine})
        if why:
            table.refuse(table.where, why)
    return settings


def pool_of_suite(top: TomlTable) -> PoolSettings | None:
    """Return the settings of `[pool]` of a suite; None after it reported mistakes."""
    table = top.table("pool")
    return None if table is None else read_pool(table)


def parse_pool(text: str) -> PoolSettings:
    """Return the settings of `--pool`: `local:gangs=4`. Raises ValueError."""
    engine, _, rest = text.partition(":")
    keys = {str(key.key): key for key in POOL.keys}
    said: dict[str, Any] = {"engine": _engine(engine)}
    for part in filter(None, rest.split(",")):
        name, equals, value = part.partition("=")
        key = keys.get(name)
        if key is None or name == "engine":
            known = ", ".join(name for name in keys if name != "engine")
            raise ValueError(f"there is no key {name!r}: the keys are {known}")
        if name in said:
            raise ValueError(f"{name} is given twice")
        if not equals:
            raise ValueError(f"{name} has no value: write {name}=VALUE")
        assert key.parse is not None
        try:
            said[name] = key.parse(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    if "gangs" not in said:
        raise ValueError("the number of gangs is missing: local:gangs=4")
    if why := _misfit(said):
        raise ValueError(why)
    made: PoolSettings = POOL.made(said)
    return made
