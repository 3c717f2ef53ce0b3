"""The surface as snapshots: the whole help of every command, and the schema of every JSON document.

To accept a change that is meant: BW_UPDATE_GOLDEN=1 make test-python, and read the diff.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchwright.cli.main import main, parser
from benchwright.cli.schemas import document_types
from benchwright.report.documents import encode

HERE = Path(__file__).parent
COMMANDS = tuple(parser().commands())

EASY = ("--margin", "90%", "--fail-if", "slower by 90%")
"""What a comparison answers with its first look, however noisy the machine."""


QUEUE = """\
import json, sys
load, seconds = float(sys.argv[1]), float(sys.argv[2])
left = 1 - load / 300
mean = 10 / left if left > 0 else 1000 * seconds * -left / 2 + 500
print(json.dumps({"mean_ms": mean, "tps": 300 * load / (load + 9)}))
"""
"""A load generator and its server: a queue without noise."""

GENERATOR = f"{sys.executable} queue.py"
PEAK = ("--response", "/mean_ms", "--limit", "40ms", "--claim", "rate:10%")
RAMP = ("--throughput", "/tps", "--highest", "64", "--hold", "1s")

SPEC = f"""\
[load]
generator = "command"
command = "{GENERATOR} {{rate}} {{duration}} {{size}}"
values = {{ response_ms_mean = "/mean_ms" }}
[factors]
size = [1, 2, 4, 8]
[peak]
criteria = ["mean response < 40ms"]
claim = "rate:10%"
[surface]
samples = 4
degree = 1
"""


def bw(directory: Path, *words: str) -> str:
    """Run bw with a fixed width and return its standard output."""
    return subprocess.run(
        [sys.executable, "-m", "benchwright.cli.main", *words],
        cwd=directory,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "88"},
    ).stdout


def compare(path: Path, text: str) -> None:
    """Compare a text with its snapshot, or write it when asked to."""
    if os.environ.get("BW_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words) or "bw")
def test_help_is_as_recorded(tmp_path: Path, words: tuple[str, ...]) -> None:
    name = "-".join(("bw", *words))
    compare(HERE / "help" / f"{name}.txt", bw(tmp_path, "help", *words))


@pytest.mark.parametrize("kind", document_types())
def test_schemas_are_as_recorded(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    assert main(["schema", kind]) == 0
    schema = json.loads(capsys.readouterr().out)
    parts = {"": schema["$ref"], **schema["$defs"]}
    lines = [f"{name} {json.dumps(part)}\n" for name, part in parts.items()]
    compare(HERE / "schema" / f"{kind}.txt", "".join(lines))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("run", ("run", "--json", "-P", "n=1", "--min-runs", "3", "--", "echo", "{n}")),
        ("plan", ("run", "--plan", "--json", "-P", "n=1", "--", "echo", "{n}")),
        ("compare", ("compare", "--json", *EASY, "--", "sleep 0.01", "sleep 0.01")),
        ("stats", ("stats", "--json", "results.csv")),
        ("why", ("why", "--json", "results.csv")),
        ("plot", ("plot", "--json", "--mode", "bar", "A", "results.csv")),
        ("ramp", ("ramp", "--json", "--command", f"{GENERATOR} {{users}} {{duration}}", *RAMP)),
        ("peak", ("peak", "--json", "--command", f"{GENERATOR} {{rate}} {{duration}}", *PEAK)),
        ("surface", ("surface", "--json", "spec.toml")),
    ],
)
def test_documents_have_the_members_of_their_types(
    tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "queue.py").write_text(QUEUE)
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "results.csv").write_text("epoch,elapsed\n1,2.0\n2,2.1\n3,2.3\n")
    text = bw(tmp_path, *words)
    document = msgspec.json.decode(text, type=document_types()[name])
    assert json.loads(encode(document)) == json.loads(text)
