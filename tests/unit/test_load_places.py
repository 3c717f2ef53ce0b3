"""What the engine refuses is told where the user said it."""

from __future__ import annotations

import msgspec
import pytest

from benchwright.core.errors import BenchError, InputError
from benchwright.features.load.engine import EngineFault, decode_line, error_of
from benchwright.features.load.request import (
    LoadRequest,
    NullTarget,
    check_worker_cpus,
    position_of,
)
from benchwright.features.load.workload import Workload
from benchwright.features.load.workload_toml import read_workload
from benchwright.inputs.mistakes import Where

TEXT = """\
[run]
cpus = "1"

[[filament]]
type = "open"
rate = "10"
size = "1000"
location = "zipf:1.2"

[[filament]]
type = "closed"
users = 3
"""


@pytest.mark.parametrize(
    ("field", "message", "place"),
    [
        ("cpus", "", (2, 8)),
        ("depth", "", None),
        ("workload", "no filament", None),
        ("workload.filaments[0]", "zipf: too steep", (8, 12)),
        ("workload.filaments[0]", "rate: 0", (6, 8)),
        ("workload.filaments[0]", "something else", (4, 3)),
        ("workload.filaments[0].access.size", "f: it is odd", (7, 8)),
        ("workload.filaments[0].access.align_bytes", "f: it is odd", (7, 8)),
        ("workload.filaments[1].access.size", "f: it is odd", (10, 3)),
        ("workload.filaments[2]", "rate: 0", None),
    ],
)
def test_a_field_has_the_place_of_its_key_or_of_its_table(
    field: str, message: str, place: tuple[int, int] | None
) -> None:
    places = read_workload(TEXT, "w.toml", NullTarget()).places
    where = position_of(places, field, message)
    assert (where and (where.line, where.column)) == place


def fault(**more: object) -> EngineFault:
    """Return what the engine's line with these fields says."""
    line = {"type": "error", "status": 2, "code": "c", "message": "a\nb", **more}
    said = decode_line(msgspec.json.encode(line))
    assert isinstance(said, EngineFault)
    return said


def test_every_problem_is_told_at_its_place() -> None:
    problems = [
        {"field": "workload.filaments[1]", "message": "users is 0"},
        {"field": "workload.filaments[0]", "message": "rate: 0"},
    ]
    places = read_workload(TEXT, "w.toml", NullTarget()).places
    error = error_of(fault(problems=problems), places)
    assert isinstance(error, InputError)
    assert [(d.line, d.message) for d in error.diagnostics] == [(12, "users is 0"), (6, "rate: 0")]
    # One without a place: nothing may be left out, so the engine's whole text is told.
    whole = error_of(fault(problems=[*problems, {"field": "workload", "message": "c"}]))
    assert isinstance(whole, BenchError)
    assert "a\nb" in str(whole)


def test_at_an_option_a_field_has_the_last_of_its_words() -> None:
    places = {"workload.filaments[0].size": Where("--block", text="1000")}
    field = "workload.filaments[0].access.size"
    said = fault(field=field, message="f: filaments[0].access.size is 1000 bytes")
    text = str(error_of(said, places))
    assert text.startswith("--block: f: size is 1000 bytes [c]\n  | 1000")


@pytest.mark.parametrize(
    ("cpus", "workers", "part"),
    [
        ((1,), 2, "--cpu names 1 CPU, and --workers asks for 2 threads"),
        ((0, 1), 1, "--cpu names 2 CPUs, and --workers asks for 1 thread"),
    ],
)
def test_each_worker_needs_a_processor(cpus: tuple[int, ...], workers: int, part: str) -> None:
    workload = Workload(filaments=(), seed=1)
    request = LoadRequest(target=NullTarget(), workload=workload, workers=workers, cpus=cpus)
    with pytest.raises(InputError) as told:
        check_worker_cpus(request, {})
    assert part in str(told.value)
    with pytest.raises(InputError) as told:
        check_worker_cpus(request, {"cpus": Where("w.toml", 2, 8)})
    assert str(told.value).startswith("w.toml:2:8: cpus names")
    check_worker_cpus(msgspec.structs.replace(request, workers=len(cpus)), {})
