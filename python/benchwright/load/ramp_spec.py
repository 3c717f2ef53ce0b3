"""`[ramp]` of a spec, and the words that it shares with `bw ramp`'s options.

Decision: a key and its option are one entry of `WORDS`, so that they cannot drift apart;
what does not fit together is judged over both at once (`misfits`), because an option may
mend a key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from benchwright.core.ramp import RampAxis, RampGoal
from benchwright.load import parse as words
from benchwright.load.criteria import parse_confidence
from benchwright.load.generators.command import CommandGenerator
from benchwright.load.spec import LoadPlan, Spec
from benchwright.load.spec_toml import ENGINE
from benchwright.load.tables import SpecTable

THROUGHPUT = "throughput_per_s"
RATE_START = 50.0
RATE_DOUBLINGS = 20
USERS_HIGHEST = 1024.0
USERS_RISE = 16
"""Times the first level, where that is more: a ramp of one level would show nothing."""
MOST_LEVEL = 1e9


def _axis(text: str) -> RampAxis:
    return RampAxis(words.one_of(text, tuple(axis.value for axis in RampAxis), "axis"))


def _level(text: str) -> float:
    try:
        return words.rate_micro(text) / 1e6
    except ValueError:
        raise ValueError(f"{text!r} is no level such as 4, 500 or 10k") from None


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number such as 2 or 1.5") from None
    if not 1 < factor <= 1000:
        raise ValueError(f"{text!r} is outside 1 .. 1000: levels must rise")
    return factor


def _seconds(text: str) -> float:
    return words.some_ns(text) / 1e9


def _growth(text: str) -> float:
    share = words.share_micro(text) / 1e6
    if not 0 < share < 1:
        raise ValueError(f"{text!r} is outside 0% .. 100%, such as 5%")
    return share


def _share(text: str) -> float:
    return words.share_micro(text) / 1e6


def _number(text: str) -> int:
    number = words.some(text)
    if number > 1000:
        raise ValueError(f"{text!r} is more than 1000")
    return number


RAMP_OPTIONS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "axis": ("axis", _axis),
    "start": ("start", _level),
    "highest": ("highest", _level),
    "factor": ("factor", _factor),
    "step": ("step", _level),
    "hold": ("hold_s", _seconds),
    "repeats": ("repeats", _number),
    "growth": ("growth", _growth),
    "flat_levels": ("flat_levels", _number),
    "max_errors": ("most_errors", _share),
    "budget": ("budget_s", _seconds),
    "confidence": ("confidence", parse_confidence),
}
"""Keys of [ramp], and options of `bw ramp`: the goal's field, and how it is read."""


class RampMisfit(msgspec.Struct, frozen=True):
    """What does not fit together: the key to mend, what is wrong, what to do."""

    key: str
    message: str
    hint: str = ""


def read_ramp(table: SpecTable, _spec: Spec, /) -> dict[str, Any]:
    """Return the goal's fields that a table says; mistakes are reported to the table."""
    table.only(tuple(RAMP_OPTIONS))
    said = {into: table.read(key, parse) for key, (into, parse) in RAMP_OPTIONS.items()}
    return {field: value for field, value in said.items() if value is not None}


def ramp_goal_of(said: Mapping[str, Any], spec: Spec) -> RampGoal:
    """Return the goal of fields without misfits; what is not said follows from the rest."""
    axis = said.get("axis") or default_axis(spec.load)
    start = said.get("start", RATE_START if axis is RampAxis.RATE else 1.0)
    highest = start * 2**RATE_DOUBLINGS
    if axis is RampAxis.USERS:
        highest = max(USERS_HIGHEST, USERS_RISE * start)
    fields = {"highest": min(highest, MOST_LEVEL), **said, "axis": axis, "start": start}
    if axis is RampAxis.RATE:
        fields["rate_step"] = rate_step_of(spec.load)
    repeats = said.get("repeats", 1)
    return RampGoal(
        most_repeats=max(repeats, RampGoal().most_repeats), **_known(fields)
    )


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in fields.items() if value is not None}


def ramp_misfits(said: Mapping[str, Any], spec: Spec) -> list[RampMisfit]:
    """Return what does not fit together, or does not fit the generator."""
    axis = said.get("axis") or default_axis(spec.load)
    found = [*_misfits_of_axis(axis, spec.load)]
    if "factor" in said and "step" in said:
        message = "levels rise by a factor or by a step, not by both"
        found.append(RampMisfit("step", message, "leave one of them out"))
    start = said.get("start", RATE_START if axis is RampAxis.RATE else 1.0)
    highest = said.get("highest")
    if highest is not None and highest < start:
        message = f"the highest level, {highest:g}, is below the first one, {start:g}"
        found.append(RampMisfit("highest", message, "set start too"))
    if axis is RampAxis.USERS:
        for key in ("start", "highest", "step"):
            if key in said and said[key] != int(said[key]):
                message = f"{key} is {said[key]:g}, but users are whole"
                found.append(RampMisfit(key, message))
    return found


def _misfits_of_axis(axis: RampAxis, load: LoadPlan) -> list[RampMisfit]:
    axes = axes_of(load)
    if not axes:
        message = "the command has neither {users} nor {rate}: nothing can be raised"
        return [RampMisfit("axis", message, "write {users} or {rate} into it")]
    if axis.value not in axes:
        message = f"{load.generator} cannot be given {axis} here"
        return [RampMisfit("axis", message, f"it takes: {', '.join(axes)}")]
    if isinstance(load.settings, CommandGenerator) and len(axes) > 1:
        other = next(one for one in axes if one != axis.value)
        message = f"{axis} are raised, and nothing says {{{other}}} of the command"
        return [RampMisfit("axis", message, f"write a number for {{{other}}}")]
    return []


def default_axis(load: LoadPlan) -> RampAxis:
    """Return what is raised where nobody says: users, where the generator takes them."""
    return RampAxis.RATE if axes_of(load) == ("rate",) else RampAxis.USERS


def axes_of(load: LoadPlan) -> tuple[str, ...]:
    """Return what a trial can set of the generator."""
    if load.generator == ENGINE or load.settings is None:
        return ("rate", "users")
    axes: tuple[str, ...] = load.settings.traits.axes
    return axes


def rate_step_of(load: LoadPlan) -> float | None:
    """Return what the rates are multiples of that the generator can be told [1/s]; None:
    it takes any."""
    if load.generator == ENGINE or load.settings is None:
        return None
    step: float | None = load.settings.traits.rate_step
    return step


def throughput_fault(axis: RampAxis, spec: Spec) -> str:
    """Return what is wrong with a command whose output does not tell the throughput;
    empty where it does, as a value, a count, or a series of a closed loop."""
    settings = spec.load.settings
    if not isinstance(settings, CommandGenerator):
        return ""
    counted = any(name == "completed" for name, _ in settings.counts)
    if counted or any(name == THROUGHPUT for name, _ in settings.values):
        return ""
    if settings.series is None:
        return "nothing tells the throughput"
    if axis is RampAxis.USERS:
        return ""
    return "a series may count what arrived: that is no throughput of a rate"
