"""The surface as snapshots: every --help, and the members of every JSON document.

To accept a change that is meant: BW_UPDATE_GOLDEN=1 make test-python, and read the diff.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchwright.cli.main import parser

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
    compare(HERE / "help" / f"{name}.txt", bw(tmp_path, *words, "--help"))


def shape(value: Any) -> Any:
    """Return a document's members and types, without its values."""
    if isinstance(value, dict):
        return {key: shape(member) for key, member in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return type(value).__name__


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("run", ("run", "--json", "-P", "n=1", "--min-runs", "3", "--", "echo", "{n}")),
        ("plan", ("run", "--plan", "--json", "-P", "n=1", "--", "echo", "{n}")),
        ("compare", ("compare", "--json", *EASY, "--", "sleep 0.01", "sleep 0.01")),
        ("stats", ("stats", "--json", "results.csv")),
        ("why", ("why", "--json", "results.csv")),
        ("plot", ("plot", "--json", "--mode", "bar", "A", "results.csv")),
        (
            "ramp",
            (
                "ramp",
                "--json",
                "--command",
                f"{GENERATOR} {{users}} {{duration}}",
                *RAMP,
            ),
        ),
        (
            "peak",
            (
                "peak",
                "--json",
                "--command",
                f"{GENERATOR} {{rate}} {{duration}}",
                *PEAK,
            ),
        ),
        ("surface", ("surface", "--json", "spec.toml")),
    ],
)
def test_json_documents_keep_their_shape(
    tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "queue.py").write_text(QUEUE)
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "results.csv").write_text("epoch,elapsed\n1,2.0\n2,2.1\n3,2.3\n")
    document = json.loads(bw(tmp_path, *words))
    document.get("findings", []).clear()
    text = json.dumps(shape(document), indent=1) + "\n"
    compare(HERE / "json" / f"{name}-{document['schema'].rsplit('/', 1)[1]}.json", text)
    assert document["schema"] == f"benchwright/{name}/1"
