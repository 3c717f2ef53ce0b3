"""The wheel that `make build` made, in a new environment without a compiler and without a network."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from new_environment import NewEnvironment

DIST = Path(__file__).parents[2] / "dist"


@pytest.mark.slow
def test_a_new_environment_runs_the_first_commands_of_the_readme(tmp_path: Path) -> None:
    (wheel,) = DIST.glob(f"benchwright-*_{platform.machine()}.whl")
    new = NewEnvironment.made(tmp_path)
    new.run("python", "-m", "pip", "install", "-q", "--no-index", "--no-deps", wheel)
    new.link_requirements()
    new.run("python", "-m", "pip", "check")
    new.run_first_commands()
