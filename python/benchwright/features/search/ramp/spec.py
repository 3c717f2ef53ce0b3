"""`[ramp]` of a spec: the goal that this table and the options of `bw ramp` set together.

Both are checked for contradictions together (`ramp_misfits`), because an option may correct
a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchwright.core.criterion import Criterion, criterion_name
from benchwright.features.generators.command import CommandGenerator
from benchwright.features.load import workload as w
from benchwright.features.load.workload_toml import WorkloadFile
from benchwright.features.search.options import RampRequest
from benchwright.features.search.ramp.types import RampAxis, RampGoal
from benchwright.features.search.spec import LoadPlan, Spec
from benchwright.features.search.spec_toml import ENGINE, why_not_streamed
from benchwright.inputs.form import Form, keys_of, read_values
from benchwright.inputs.mistakes import Fault
from benchwright.inputs.toml_table import TomlTable

THROUGHPUT = "throughput_per_s"
RATE_START = 50.0
RATE_DOUBLINGS = 20
USERS_HIGHEST = 1024.0
USERS_RISE = 16
"""Minimum ratio of the default highest level to the first: a ramp of one level shows nothing."""
MOST_LEVEL = 1e9


def read_ramp(table: TomlTable, _spec: Spec, /) -> dict[str, Any]:
    """Return the goal's fields that a table sets; report errors to the table."""
    form = Form(keys_of(RampRequest))
    table.only(form.names)
    return read_values(table, form.keys)


def ramp_goal_of(said: Mapping[str, Any], spec: Spec, seed: int) -> RampGoal:
    """Return the goal for consistent fields; derive the missing ones from the others."""
    axis = said.get("axis") or default_axis(spec.load)
    start = said.get("start", RATE_START if axis is RampAxis.RATE else 1.0)
    highest = start * 2**RATE_DOUBLINGS
    if axis is RampAxis.USERS:
        highest = max(USERS_HIGHEST, USERS_RISE * start)
    fields = {"highest": min(highest, MOST_LEVEL), **said, "axis": axis, "start": start}
    if axis is RampAxis.RATE:
        fields["rate_step"] = rate_step_of(spec.load)
    repeats = said.get("repeats", 1)
    return RampGoal(most_repeats=max(repeats, RampGoal().most_repeats), seed=seed, **_known(fields))


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in fields.items() if value is not None}


def ramp_misfits(said: Mapping[str, Any], spec: Spec) -> list[Fault]:
    """Return the fields that contradict each other or do not suit the generator."""
    axis = said.get("axis") or default_axis(spec.load)
    faults = [*_misfits_of_axis(axis, spec.load)]
    if "factor" in said and "step" in said:
        message = "levels rise by a factor or by a step, not by both"
        faults.append(Fault.of_key("step", message, "leave one of them out"))
    start = said.get("start", RATE_START if axis is RampAxis.RATE else 1.0)
    highest = said.get("highest")
    if highest is not None and highest < start:
        message = f"the highest level, {highest:g}, is below the first one, {start:g}"
        faults.append(Fault.of_key("highest", message, "set start too"))
    if axis is RampAxis.USERS:
        for key in ("start", "highest", "step"):
            if key in said and said[key] != int(said[key]):
                message = f"{key} is {said[key]:g}, but users are whole"
                faults.append(Fault.of_key(key, message))
    return faults


def _misfits_of_axis(axis: RampAxis, load: LoadPlan) -> list[Fault]:
    axes = axes_of(load)
    if not axes:
        message = "the command has neither {users} nor {rate}: nothing can be raised"
        return [Fault.of_key("axis", message, "write {users} or {rate} into it")]
    if axis.value not in axes:
        if load.generator == ENGINE:
            hint = _why_no_users(load.settings.workload)
            return [Fault.of_key("axis", "the workload cannot have users", hint)]
        message = f"{load.generator} cannot be given {axis} here"
        return [Fault.of_key("axis", message, f"it takes: {', '.join(axes)}")]
    if isinstance(load.settings, CommandGenerator) and len(axes) > 1:
        other = next(one for one in axes if one != axis.value)
        message = f"{axis} are raised, and {{{other}}} of the command has no value"
        return [Fault.of_key("axis", message, f"write a number for {{{other}}}")]
    return []


def default_axis(load: LoadPlan) -> RampAxis:
    """Return the default axis: users, if the generator supports them."""
    return RampAxis.RATE if axes_of(load) == ("rate",) else RampAxis.USERS


def axes_of(load: LoadPlan) -> tuple[str, ...]:
    """Return the axes that a trial can set for the generator, or for a workload of our engine."""
    if load.generator == ENGINE or load.settings is None:
        workload = None if load.settings is None else load.settings.workload
        is_open = workload is not None and bool(_why_no_users(workload))
        return ("rate",) if is_open else ("rate", "users")
    axes: tuple[str, ...] = load.settings.traits.axes
    return axes


def _why_no_users(workload: WorkloadFile) -> str:
    """Return why a workload cannot be a closed loop; empty if it can."""
    if not any(isinstance(filament, w.Files) for filament in workload.filaments):
        return "only filaments of type files are a closed loop"
    files = workload.files
    if files is not None and files.per_load and files.for_rate_micro is None:
        return "files_per_load needs a rate: add for_rate to [files]"
    return ""


def rate_step_of(load: LoadPlan) -> float | None:
    """Return the step of the rates that the generator accepts [1/s]; None: it accepts
    any rate."""
    if load.generator == ENGINE or load.settings is None:
        return None
    step: float | None = load.settings.traits.rate_step
    return step


def throughput_fault(axis: RampAxis, spec: Spec) -> str:
    """Return what is wrong with a command whose output does not report the throughput;
    empty if it does: as a value, a count, or a series of a closed loop."""
    settings = spec.load.settings
    if not isinstance(settings, CommandGenerator):
        return ""
    counted = any(name == "completed" for name, _ in settings.counts)
    if counted or any(name == THROUGHPUT for name, _ in settings.values):
        return ""
    if settings.series is None:
        return "the throughput is not reported"
    if axis is RampAxis.USERS:
        return ""
    return "a series may count arrivals, which are no throughput of a rate"


def criterion_fault(criterion: Criterion, spec: Spec) -> Fault | None:
    """Return why a ramp cannot have the value that a criterion limits; None if it can."""
    settings = spec.load.settings
    if spec.load.generator == ENGINE:
        return why_not_streamed(criterion, settings)
    if isinstance(settings, CommandGenerator):
        if criterion.key in {key for key, _ in settings.values}:
            return None
        message = f"the command does not report {criterion_name(criterion)}"
        return Fault("bad-argument", message, "give the place of the value in its output")
    refusal = settings.traits.refusal(criterion)
    return Fault("bad-argument", refusal) if refusal else None
