"""docs/workload-toml.md says what happens: its files are read, its filament is asked."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from benchwright.features.load import command as load
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.codes import CODES
from benchwright.features.load.feed import batches_of
from benchwright.features.load.options import TraceOptions
from benchwright.features.load.plan import plan_of_file
from benchwright.features.load.requests_toml import REQUEST_KEYS, VALUES
from benchwright.features.load.tables import TARGET
from benchwright.features.load.workload_toml import (
    RUN,
    PythonFilament,
    WorkloadContext,
    filament_forms,
    read_workload,
)
from benchwright.inputs.form import Form, keys_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "workload-toml.md").read_text()
EXAMPLES = {
    "oltp": r.FileTarget("/x", direct=True),
    "spc1-like": r.FileTarget("/x", direct=True),
    "web": r.HttpTarget("http://127.0.0.1:8080/"),
    "bursty": r.NullTarget(),
}


def blocks(language: str) -> list[str]:
    """Return the page's blocks in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_files_of_the_page_are_workloads() -> None:
    example, files, requests, python, process, several = blocks("toml")
    description = read_workload(example, "w.toml", None)
    pages, log = description.filaments
    assert isinstance(pages, w.Open)
    assert isinstance(log, w.Closed)
    assert description.target == r.FileTarget(
        "/tmp/bw-example.img", size_bytes=64 * 2**20, overwrite=True
    )
    description = read_workload(files, "w.toml", r.DirTarget("/x"))
    plan = plan_of_file(description, {}, r.DirTarget("/x"))
    assert plan.request.asked_rate_per_s == pytest.approx(100)
    assert [chain.name for chain in plan.request.workload.filaments[0].chains] == [
        *("lookup", "getattr", "create", "remove", "read", "rewrite")
    ]
    description = read_workload(requests, "w.toml", EXAMPLES["web"])
    assert description.requests is not None
    assert [one.label for one in description.requests.requests] == ["page", "order"]
    (filament,) = read_workload(python, "w.toml", None).python
    assert (filament.module, filament.name) == ("ramp", "Ramp")
    (walk,) = read_workload(process, "dir/w.toml", None).filaments
    assert walk == w.Process(command=("python3", "walk.py"), directory="dir")
    target = read_workload(several, "w.toml", None).target
    assert isinstance(target, r.SeveralTarget)
    assert {one.name: one.filaments for one in target.targets} == {"data": (0, 2), "log": (1, 3)}


def test_the_filament_of_the_page_makes_its_operations(tmp_path: Path) -> None:
    (tmp_path / "ramp.py").write_text(blocks("python")[0])
    (found,) = read_workload(blocks("toml")[3], str(tmp_path / "w.toml"), None).python
    assert isinstance(found, PythonFilament)
    (batch,) = batches_of(found)
    assert len(batch) == 1000
    assert batch.at_ns[0] == 2_000_000
    assert batch.at_ns[-1] == batch.at_ns[-2], "the last gap is 0"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_are_workloads(name: str) -> None:
    path = ROOT / "examples" / f"{name}.toml"
    description = read_workload(path.read_text(), str(path), EXAMPLES[name])
    assert description.target is not None
    plan = plan_of_file(description, {}, description.target)
    assert plan.request.duration_ns is not None
    assert f"`examples/{name}.toml`" in PAGE


def test_every_word_of_the_language_is_on_the_page() -> None:
    words = {*filament_forms(WorkloadContext(False, ".")), *RUN.names, *TARGET.names}
    words |= {*Form(keys_of(TraceOptions)).names, *REQUEST_KEYS}
    assert [word for word in sorted(words) if f"`{word}" not in PAGE] == []
    assert [word for word in VALUES if f'"{word}' not in PAGE] == []


def test_every_doubt_about_a_load_is_on_the_page() -> None:
    of_loads = [code for code in CODES if not code.startswith("trace-")]
    ours = ("generator-late", "load-not-offered", *of_loads)
    assert [code for code in ours if f"`{code}`" not in PAGE] == []


def test_the_commands_of_the_page_are_ones_that_we_take() -> None:
    parser = argparse.ArgumentParser()
    load.add_parser(parser.add_subparsers())
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    commands = [line for line in lines if "bw load" in line]
    loads = [shlex.split(line[line.index("bw load") :]) for line in commands[:3]]
    for words in loads:
        filled = ["1k" if word == "{rate}" else word for word in words[1:]]
        arguments = parser.parse_args(filled)
        arguments.command_argv = None
        plan = load.plan_of(arguments)
        assert plan.request.duration_ns == 10**9
