"""Whatever value stands at a key of an example, errors have a place and nothing else happens."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from benchwright.core.errors import InputError
from benchwright.features.load.workload_toml import read_workload
from benchwright.features.search.ramp.spec import read_ramp
from benchwright.features.search.spec_toml import read_spec
from benchwright.features.search.surface.spec import read_surface
from benchwright.suite.toml import compile_toml

ROOT = Path(__file__).parents[2]
VALUES = (
    *('""', "0", "1.5", "-1", "true", "[]", "{}", '"x"', '["a", 1]', '{type = "x"}'),
    *('[["a"]]', "2024-01-01", "nan", '"none"', "1000000001"),
)
FILAMENTS = """\
seed = 1
[[filament]]
type = "open"
name = "a"
rate = "100"
arrival = "poisson"
duration = "1s"
[[filament]]
type = "trace"
path = "x.bwt"
devices = ["0"]
"""
NOTICES = """\
[[test]]
name = "a"
exec = "true"
[test.until]
precision = "5%"
of = "mean"
confidence = 0.9
[[compare]]
name = "c"
baseline = "a"
arms = ["a"]
seed = 1
[notify.mail]
to = "a@b"
from = "c@d"
host = "h"
"""


def texts() -> list[str]:
    pages = [*ROOT.glob("docs/*.md"), ROOT / "README.md"]
    fenced = [
        one
        for page in pages
        for one in re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    ]
    examples = [file.read_text() for file in sorted(ROOT.glob("examples/*.toml"))]
    return sorted({*fenced, *examples, FILAMENTS, NOTICES})


def read(text: str) -> None:
    if re.search(r"^\[\[(test|compare)\]\]", text, re.MULTILINE):
        compile_toml("f.toml", lambda _path: text)
    elif re.search(r"^\[\[filament\]\]", text, re.MULTILINE):
        read_workload(text, "f.toml", None)
    elif re.search(r"^\[(load|server|peak|ramp|surface)", text, re.MULTILINE):
        read_spec(text, "f.toml", {"surface": read_surface, "ramp": read_ramp})


def replaced(text: str, value: str) -> list[str]:
    """Return the text once for each key, with this value there."""
    put = partial(re.compile(r"^(\s*[\w.-]+\s*=\s*)[^\n]*", re.MULTILINE).sub, count=1)
    lines = text.split("\n")
    keys = [i for i, line in enumerate(lines) if re.match(r"\s*[\w.-]+\s*=", line)]
    return ["\n".join([*lines[:i], put(rf"\g<1>{value}", lines[i]), *lines[i + 1 :]]) for i in keys]


def lines_of_mistakes(text: str) -> list[int]:
    try:
        read(text)
    except InputError as error:
        return [one.line for one in error.diagnostics] or [0]
    return []


@pytest.mark.parametrize("value", VALUES)
def test_any_value_is_read_or_refused_at_its_place(value: str) -> None:
    changed = [one for text in texts() for one in replaced(text, value)]
    assert len(changed) > 100
    for text in changed:
        assert all(line > 0 for line in lines_of_mistakes(text)), text
