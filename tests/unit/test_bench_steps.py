"""Steps of a long measurement (benches/parts/bw_steps.py): what is run again, what goes on."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
from parts import bw_steps
from parts.bw_steps import Document, Server, Step

sys.path.pop(0)

SERVER = bw_steps.nfs("mail", iops=(60,), disks=(1, 2))


class Runs:
    """Stands for bw: makes the study, and returns a document or is interrupted."""

    def __init__(self) -> None:
        self.words: list[list[str]] = []
        self.cut = False

    def __call__(self, words: Sequence[str], progress: Path, command: str) -> tuple[Document, str]:
        self.words.append(list(words))
        study = progress.parent / "study"
        study.mkdir(exist_ok=True)
        (study / "journal.sqlite").touch()
        if self.cut:
            raise KeyboardInterrupt
        return {"status": "found", "command": command}, ""


@pytest.fixture
def bw(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """What runs instead of bw."""
    runs = Runs()
    monkeypatch.setattr(bw_steps, "_document_of", runs)
    return runs


def test_a_step_that_has_run_is_not_run_again_unless_its_options_change(
    bw: Runs, tmp_path: Path
) -> None:
    step = Step(SERVER, "search-1", ("--seed", "1"))
    first = bw_steps.run(step, tmp_path)
    assert bw_steps.run(step, tmp_path) == first
    assert len(bw.words) == 1
    bw_steps.run(step._replace(words=("--seed", "2")), tmp_path)
    other = SERVER._replace(levels={"disks": (3,)})
    bw_steps.run(step._replace(server=other, words=("--seed", "2")), tmp_path)
    assert len(bw.words) == 3
    kept = json.loads((tmp_path / "nfs-mail" / "search-1" / "result.json").read_text())
    assert kept == first.document


@pytest.mark.parametrize(("command", "goes_on"), [("surface", True), ("peak", False)], ids=str)
def test_a_map_that_was_cut_goes_on_and_a_search_begins_anew(
    bw: Runs, tmp_path: Path, command: str, goes_on: bool
) -> None:
    step = Step(SERVER, "one", ("--seed", "1"), command)
    bw.cut = True
    with pytest.raises(KeyboardInterrupt):
        bw_steps.run(step, tmp_path)
    bw.cut = False
    assert bw_steps.run(step, tmp_path).document["status"] == "found"
    study = str(tmp_path / "nfs-mail" / "one" / "study")
    assert (bw.words[1] == ["resume", study, "--json"]) is goes_on
    assert (bw.words[1] == bw.words[0]) is not goes_on


def test_a_map_with_other_options_does_not_go_on_with_the_old_one(bw: Runs, tmp_path: Path) -> None:
    step = Step(SERVER, "one", ("--seed", "1"), "surface")
    bw.cut = True
    with pytest.raises(KeyboardInterrupt):
        bw_steps.run(step, tmp_path)
    bw.cut = False
    bw_steps.run(step._replace(words=("--seed", "2")), tmp_path)
    assert bw.words[1][0] == "surface"


def test_a_server_has_its_own_levels_in_a_copy_of_the_spec(tmp_path: Path) -> None:
    spec = bw_steps.spec_of(SERVER, tmp_path)
    text = spec.read_text()
    assert spec.is_relative_to(tmp_path)
    assert "\ndisks = [1, 2]\n" in text
    assert "\niops = [60]\n" in text
    assert "\nthreads = [8]\n" in text
    assert (spec.parent / "nfs-ganesha" / "run.sh").exists()
    plain = Server("nginx", "peak-nginx.toml", "nginx")
    assert bw_steps.spec_of(plain, tmp_path) == bw_steps.EXAMPLES / "peak-nginx.toml"
    unknown = SERVER._replace(levels={"colours": (1,)})
    with pytest.raises(AssertionError, match="has no factor colours"):
        bw_steps.spec_of(unknown, tmp_path)
