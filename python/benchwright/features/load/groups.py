"""Groups of a load's operations, as a limit names them and as a result has them. Pure.

Purpose: one name for each group: `filament pages`, `@data` (all operations on a target), `read`, and
`read@data` or `read@filament pages` for a kind or a label among them.
Decision: a group is looked up by its name, in a table that the request (before the load) or the
result (after it) gives. The engine reports a group once, where a target has one filament and where
all operations are of one kind; this table has it under each of its names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchwright.features.load.parse import labels_of
from benchwright.features.load.request import LoadTarget, SeveralTarget, kinds_on
from benchwright.features.load.types import EngineResult, GroupResult, KindResult
from benchwright.features.load.workload import FilamentPlan, kinds_of
from benchwright.inputs.toml_table import one_of_words

_FILAMENT = "filament "


def group_name(operation: str, *, target: str = "", filament: str = "") -> str:
    """Return the name of a group; an empty `operation`: all of the filament or of the target."""
    place = _FILAMENT + filament if filament else f"@{target}"
    return f"{operation}@{place.removeprefix('@')}" if operation else place


def filament_name(filament: FilamentPlan, place: int) -> str:
    """Return the name of a filament, or its number in the workload, from 1; `place`: from 0."""
    return filament.name or str(place + 1)


def group_names(filaments: tuple[FilamentPlan, ...], target: LoadTarget) -> tuple[str, ...]:
    """Return the names of the groups of a load, those of labels and kinds first."""
    several = target.targets if isinstance(target, SeveralTarget) else ()
    on = {place: one for one in several for place in one.filaments}
    found: dict[str, None] = {}
    places: dict[str, None] = {}
    for place, filament in enumerate(filaments):
        named = on.get(place)
        own = target if named is None else named.target
        operations = labels_of(own) or kinds_of(filament) or kinds_on(own)
        found |= dict.fromkeys([*operations, *(kinds_of(filament) or kinds_on(own))])
        at = [group_name("", filament=filament_name(filament, place))] if len(filaments) > 1 else []
        if named is not None:
            at.append(group_name("", target=named.name))
        for name in at:
            places[name] = None
            places |= {f"{operation}@{name.removeprefix('@')}": None for operation in operations}
    return (*found, *places)


def one_of_groups(of: str, known: Sequence[str]) -> str:
    """Return the hint for operations that a load does not have; `known`: its groups."""
    if len(known) == 1:
        return f"all its operations are of the kind {known[0]}: leave {of!r} out"
    return one_of_words(of, known)


def groups_by_name(result: EngineResult) -> Iterator[tuple[tuple[str, ...], GroupResult]]:
    """Yield the groups of a result, each with its names: one of a filament that is alone on its target
    has the name of the target too, and one of all operations, which are of one kind, has two more."""
    shared = {group.target for group in result.groups if not group.filament}
    seen: set[tuple[str, str]] = set()
    for group in result.groups:
        places = [{"filament": group.filament}] if group.filament else []
        if group.target and (not group.filament or group.target not in shared):
            places.append({"target": group.target})
        names = []
        # The first of a filament or a target is of all its operations.
        if (group.filament, group.target) not in seen:
            names += [group_name("", **place) for place in places]
        if group.operation:
            names += [group_name(group.operation, **place) for place in places]
        seen.add((group.filament, group.target))
        yield tuple(names), group


def operations_of(result: EngineResult, name: str) -> KindResult | None:
    """Return the figures of a group, of all operations without a name; None: there was none."""
    if not name:
        return result.all
    if found := result.labels.get(name) or result.kinds.get(name):
        return found
    return next((group for names, group in groups_by_name(result) if name in names), None)
