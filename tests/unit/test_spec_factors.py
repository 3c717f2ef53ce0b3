"""Any value of a spec may be a factor: what is read at a sample, and every mistake of a level."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchwright.core.errors import InputError
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.workload_toml import WorkloadFile
from benchwright.features.quiet.types import ServerDisks, names_of_disks
from benchwright.features.search.options import PeakRequest, RampRequest, SurfaceRequest
from benchwright.features.search.peak.experiment import peak_meaning
from benchwright.features.search.ramp.experiment import ramp_meaning
from benchwright.features.search.ramp.types import RampAxis
from benchwright.features.search.requests import surface_plan
from benchwright.features.search.spec import Spec, samples_to_check
from benchwright.features.search.spec_toml import EngineSettings, read_spec, target_of
from benchwright.features.search.surface.spec import read_surface, unused_factors
from benchwright.inputs.mistakes import SourceFile
from benchwright.inputs.template import Template, fill_placeholders

ROOT = Path(__file__).parents[2]
TextPath = tuple[str | int, ...]


def test_a_range_of_paths_may_be_a_factor() -> None:
    keys = """target = "http://127.0.0.1/"
paths = ["/p[9-{last}].txt", "/[a-z]", "/[1-2]/[1-2]"]"""
    plain = ("/[a-z]", "/1/[1-2]", "/2/[1-2]")
    for last, paths in (("9", ["/p9.txt"]), ("11", ["/p9.txt", "/p10.txt", "/p11.txt"])):
        settings = engine(keys, "last = [9, 11]", last=last)
        assert settings.options["paths"] == (*paths, *plain)


def engine(keys: str, factors: str, **sample: str) -> EngineSettings:
    """Return the engine's settings at a sample."""
    spec = read_spec(f"[load]\n{keys}\n[factors]\n{factors}\n", "s.toml")
    settings = spec.at(tuple(sample.items())).load.settings
    assert isinstance(settings, EngineSettings)
    return settings


def mistakes(text: str) -> list[str]:
    """Return each mistake as `line:column message`."""
    with pytest.raises(InputError) as caught:
        read_spec(text, "s.toml")
    return [f"{d.line}:{d.column} {d.message}" for d in caught.value.diagnostics]


# -- every value of every example ----------------------------------------------------------

EXAMPLES = [
    (file.name, file.read_text())
    for file in sorted((ROOT / "examples").glob("*.toml"))
    if file.name.startswith(("peak-", "surface-", "ramp-"))
]
GENERATORS = [
    (re.findall(r'generator = "(.*)"', text)[0], text)
    for text in re.findall(
        r"```toml\n(\[load\]\n.*?)```", (ROOT / "docs/generators.md").read_text(), re.DOTALL
    )
    if "generator = " in text
]
FILE_WORKLOADS = ("specsfs97", "sfs2008-like", "varmail", "oltp-files")
"""Of examples/load/, with weights of operations and with chains."""


def inlined(workload: str) -> str:
    """Return a spec with a shipped workload in it."""
    values = tomllib.loads((ROOT / f"examples/load/{workload}.toml").read_text())
    target = {"target": "dir:/x", **values.get("target", {})}
    tables = {"load": target, "files": values["files"], "filament": values["filament"]}
    return "\n".join(f"{key} = {toml(one)}" for key, one in tables.items())


_COMMANDS = ("configure", "start", "stop", "command", "arguments")
"""Keys whose text is split into words: a factor is a word of it, not the whole text."""


def leaves(value: Any, *path: str | int) -> Iterator[tuple[TextPath, Any]]:
    """Yield every scalar inside a value that a factor can replace, with its path."""
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in inner:
            if key not in _COMMANDS:
                yield from leaves(one, *path, key)
    elif not (isinstance(value, str) and "{" in value):
        yield path, value


def replaced(value: Any, path: TextPath, by: Any) -> Any:
    """Return a value with another one at a path."""
    if not path:
        return by
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], by)  # type: ignore[index]
    return copy


def toml(value: Any) -> str:
    """Return a value as TOML in one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(k)} = {toml(v)}' for k, v in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def settled(value: Any, names: dict[str, str]) -> Any:
    """Return a value with its templates filled, as plain data."""
    if isinstance(value, Template):
        return fill_placeholders(value, names)
    if isinstance(value, WorkloadFile):
        value = msgspec.structs.replace(value, places=r.NO_POSITIONS)
    if isinstance(value, msgspec.Struct):
        return type(value).__name__, settled(msgspec.structs.asdict(value), names)
    if isinstance(value, dict):
        return {key: settled(one, names) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [settled(one, names) for one in value]
    return value


def meaning(spec: Spec) -> Any:
    """Return what the tables of a spec that describe a sample mean there."""
    names = {"here": "/here", "state": "/state", "port": "1", **dict(spec.sample)}
    names |= names_of_disks(ServerDisks(count=4), "/disks")
    return settled((spec.server, spec.load), names)


@pytest.mark.parametrize(
    ("name", "text"), [*EXAMPLES, *GENERATORS], ids=lambda v: v if len(v) < 40 else ""
)
def test_each_value_of_each_example_can_be_the_level_of_a_factor(name: str, text: str) -> None:
    assert "load" in tables_with_levels(name, text, ("server", "load"))


@pytest.mark.parametrize("workload", FILE_WORKLOADS)
def test_each_value_of_a_file_workload_can_be_the_level_of_a_factor(workload: str) -> None:
    tables = ("load", "files", "filament")
    text = inlined(workload)
    assert tables_with_levels("s.toml", text, tables) == set(tables)


def test_each_value_of_a_server_of_files_can_be_the_level_of_a_factor() -> None:
    file = ROOT / "examples/workbench/nfs-ganesha-arrivals.toml"
    tables = ("server", "load", "files", "filament")
    text = file.read_text()
    assert tables_with_levels(str(file), text, tables) == set(tables)


def tables_with_levels(name: str, text: str, tables: tuple[str, ...]) -> set[str | int]:
    """Assert that a spec means the same if any value of these tables is the level of a factor;
    return the tables that have such a value."""
    values = tomllib.loads(text)
    fixed = meaning(read_spec(text, name))
    paths = [(path, level) for path, level in leaves(values) if path[0] in tables]
    for path, level in paths:
        changed = replaced(values, path, "{swept}")
        # A second factor keeps the level of the first from being the only one.
        factors = {**values.get("factors", {}), "swept": [level], "other": [1, 2]}
        swept = "\n".join(
            f"{key} = {toml(one)}" for key, one in {**changed, "factors": factors}.items()
        )
        spec = read_spec(swept, name)
        assert meaning(spec) == fixed, path
        assert meaning(spec.at((("other", "2"),))) == fixed, path
        assert "swept" in {use.factor for use in spec.uses}, path
    return {path[0] for path, _ in paths}


@pytest.mark.parametrize(("name", "text"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_each_factor_of_each_example_is_used(name: str, text: str) -> None:
    spec = read_spec(text, name, {"surface": read_surface})
    assert unused_factors(spec) == ()
    plan = surface_plan(SurfaceRequest(peak=PeakRequest()), spec)
    assert len(plan.goal.factors) == len(spec.factors) > 0


# -- types ---------------------------------------------------------------------------------


def test_levels_keep_their_types_and_texts_are_quantities() -> None:
    keys = """target = "/tmp/f"
direct = "{direct}"
depth = "{depth}"
file_size = "{megabytes}M"
read = "{read}%"
size = { type = "weighted", values = [["{size}", "{weight}"], ["8k", 1]] }
think = "{think}"
workers = "{depth}"
"""
    factors = """direct = [false, true]
depth = [1, 8]
megabytes = ["1..4*2"]
read = [50, 12.5]
size = ["4k", "16k"]
weight = [3]
think = ["0", "5ms"]
"""
    base = engine(keys, factors)
    assert base.run == {"depth": 1, "workers": 1}
    assert base.options == {"direct": False, "size_bytes": 1 << 20}
    other = engine(keys, factors, direct="true", depth="8", megabytes="4", read="12.5", size="16k")
    assert other.run == {"depth": 8, "workers": 8}
    assert other.options == {"direct": True, "size_bytes": 4 << 20}
    assert (base.read, other.read) == (500_000, 125_000)
    assert base.size == w.Weighted(((4096, 3), (8192, 1)))
    assert other.size == w.Weighted(((16384, 3), (8192, 1)))
    assert engine(keys, factors, think="5ms").think == w.ConstantValue(5_000_000)


def test_a_list_and_a_table_hold_factors() -> None:
    keys = """target = "http://h/"
paths = ["/a/{id}", "/b"]
headers = { Accept = "{kind}", X-Number = "{id}" }
"""
    settings = engine(keys, 'id = [1, 2]\nkind = ["x"]', id="2")
    target = target_of(settings, {})
    assert isinstance(target, r.HttpTarget)
    assert target.paths == ("/a/2", "/b")
    assert target.headers == (("Accept", "x"), ("X-Number", "2"))


def test_doubled_braces_are_the_text_itself() -> None:
    settings = engine('target = "http://h/"\npaths = ["/{{id}}"]', "id = [1]")
    assert settings.options["paths"] == ("/{id}",)


def test_the_server_and_the_generator_may_differ_between_samples() -> None:
    text = """[server]
start = "serve"
ready = { tcp = "127.0.0.1:{port}" }
cpus = "{cpu}"
grace = "{grace}s"
restart = "{restart}"
[load]
generator = "{program}"
url = "http://127.0.0.1:{port}/"
connections = "{users}"
[factors]
cpu = [0, 1]
grace = [1, 2]
restart = ["trial", "sample"]
program = ["oha", "wrk2"]
users_ = [1]
"""
    text = text.replace('"{users}"', '"{users_}"')
    spec = read_spec(text, "s.toml")
    assert spec.server is not None
    assert (spec.server.cpus, spec.load.generator) == ((0,), "oha")
    other = spec.at((("cpu", "1"), ("grace", "2"), ("restart", "sample"), ("program", "wrk2")))
    assert other.server is not None
    assert other.server.cpus == (1,)
    assert other.server.grace_ns == 2 * 10**9
    assert (other.server.restart, other.load.generator) == ("sample", "wrk2")
    assert other.load.settings.connections == 1
    assert other.at(()) is other


# -- mistakes ------------------------------------------------------------------------------

SPEC = """[load]
target = "null"
workers = "{w}"
depth = 4
[factors]
w = [1, 0, "x"]
"""


def test_a_wrong_level_is_reported_with_its_key_and_line() -> None:
    assert mistakes(SPEC) == [
        "3:11 workers: '0' is zero; it must be more (at {w} = 0)",
        "3:11 workers: 'x' is not a whole number such as 5 or 10k (at {w} = x)",
    ]


def test_a_wrong_first_level_and_other_mistakes_are_reported_together() -> None:
    text = SPEC.replace("[1, 0,", "[0, 1,").replace("depth = 4", "deepness = 4")
    assert mistakes(text) == [
        "3:11 workers: '0' is zero; it must be more (at {w} = 0)",
        "3:11 workers: 'x' is not a whole number such as 5 or 10k (at {w} = x)",
        "4:1 unknown key 'deepness'",
    ]


def test_a_mistake_of_another_key_names_the_level_that_causes_it() -> None:
    text = '[load]\ntarget = "{t}"\nfile_size = "1M"\n[factors]\nt = ["/f", "null"]\n'
    assert mistakes(text) == ["3:13 file_size is not an option of a null target (at {t} = null)"]


def test_of_many_samples_each_level_is_checked() -> None:
    levels = ", ".join(map(str, range(1, 40)))
    text = (
        '[load]\ntarget = "null"\nworkers = "{w}"\ndepth = "{d}"\n'
        f"[factors]\nw = [{levels}]\nd = [{levels}, 0]\n"
    )
    assert mistakes(text) == ["4:9 depth: '0' is zero; it must be more (at {d} = 0)"]


def test_levels_that_are_wrong_only_together_are_refused_at_that_sample() -> None:
    levels = ", ".join(f'"/{n}"' for n in range(40))
    text = (
        '[load]\ntarget = "{t}"\npaths = ["{p}"]\n'
        f'[factors]\nt = ["http://h/"]\np = [{levels}]\n'
    )
    assert read_spec(text, "s.toml").at((("p", "/7"),)).sample[1] == ("p", "/7")
    factors = (("a", tuple("12")), ("b", tuple("12")))
    assert len(samples_to_check(factors)) == 4
    many = (("a", tuple("123456789")), ("b", tuple("123456789")))
    assert len(samples_to_check(many)) == 17


def test_a_misspelt_name_is_refused_in_every_kind_of_value() -> None:
    text = """[server]
start = "serve {worker}"
ready = { tcp = "127.0.0.1:{port}" }
cpus = "{worker}"
[load]
target = "http://h/"
paths = ["/{worker}"]
connections = "{port}"
[factors]
workers = [1]
"""
    with pytest.raises(InputError) as caught:
        read_spec(text, "s.toml")
    found = [(d.line, d.message, d.hint) for d in caught.value.diagnostics]
    assert [line for line, _, _ in found] == [2, 4, 7, 8]
    assert found[1][2].startswith("there is no factor 'worker': did you mean {workers}")
    assert "did you mean {workers}" in found[2][1]
    assert found[3][2].startswith("{port} has no value here")


@pytest.mark.parametrize(
    ("keys", "column"),
    [
        ('target = "null"\nworkers = "{users}"', 11),
        ('target = "null"\ncpus = "{users}"', 8),
        ('target = "null"\nthink = "{rate}ms"', 9),
        ('target = "http://h/"\nheaders = { Load = "{users}" }', 20),
        ('target = "http://h/"\npaths = ["/", "/{seed}"]', 9),
        ('target = "null:{duration}"', 16),
    ],
)
def test_what_a_trial_sets_is_no_value_of_the_engine(keys: str, column: int) -> None:
    with pytest.raises(InputError) as caught:
        read_spec(f"[load]\n{keys}\n[ramp]\n", "s.toml")
    last = caught.value.diagnostics[-1]
    assert (last.line, last.column) == (keys.count("\n") + 2, column)
    assert "is set for each trial" in last.hint, last.hint


# -- commands ------------------------------------------------------------------------------

PEAK = """[load]
target = "null"
depth = "{d}"
[factors]
d = [1, 2]
[peak]
criteria = "10ms"
start = "{d}0"
[ramp]
axis = "rate"
highest = "{d}k"
"""


def test_peak_and_ramp_read_the_spec_at_the_sample_of_the_command_line() -> None:
    source = SourceFile("s.toml", PEAK)
    spec, plan = peak_meaning(PeakRequest(factors=("d=2",)), source)
    assert (spec.load.settings.run["depth"], plan.goal.start_rate) == (2, 20.0)
    spec, ramp = ramp_meaning(RampRequest(factors=("d=2",)), source)
    assert (spec.load.settings.run["depth"], ramp.goal.highest) == (2, 2000.0)
    assert ramp.goal.axis is RampAxis.RATE


def test_a_surface_has_one_goal_and_uses_each_factor() -> None:
    spec = read_spec(PEAK, "s.toml", {"surface": read_surface})
    with pytest.raises(InputError) as caught:
        surface_plan(SurfaceRequest(peak=PeakRequest()), spec)
    assert [(d.line, d.message) for d in caught.value.diagnostics] == [
        (8, "{d} in [peak]: a surface compares peaks of one goal")
    ]
    unused = PEAK.replace('"{d}0"', "10").replace('depth = "{d}"', "depth = 1")
    spec = read_spec(unused, "s.toml", {"surface": read_surface})
    with pytest.raises(InputError) as caught:
        surface_plan(SurfaceRequest(peak=PeakRequest()), spec)
    assert [d.line for d in caught.value.diagnostics] == [5]
