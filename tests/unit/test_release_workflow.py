"""The release workflow: what GitHub would refuse, what its scripts do, and who may publish."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchwright import __version__
from ci_scripts import run_script, scripts_of, shellcheck

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
JOBS: dict[str, dict[str, Any]] = yaml.safe_load(WORKFLOW.read_text())["jobs"]
SCRIPTS = scripts_of(WORKFLOW)


def test_one_version_is_written_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
    crates = cargo["workspace"]["package"]["version"]
    assert project["version"] == crates == __version__


@pytest.mark.parametrize(
    ("tag", "heading", "message"),
    [
        (f"v{__version__}", f"## [{__version__}] - 2027-01-31", None),
        (f"v{__version__}", "## [Unreleased]", "CHANGELOG.md has no section"),
        (f"v{__version__}", f"## [1{__version__}]", "CHANGELOG.md has no section"),
        (__version__, f"## [{__version__}]", f"is not v{__version__}"),
        (f"v{__version__}.1", f"## [{__version__}]", f"is not v{__version__}"),
        ("v; touch stolen", f"## [{__version__}]", "is not v"),
    ],
)
def test_a_tag_names_the_version_and_the_changelog_has_it(
    tmp_path: Path, tag: str, heading: str, message: str | None
) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n")
    environment = {**os.environ, "BW_TAG": tag}
    script = SCRIPTS["Check the tag"]["run"]
    done = run_script(script, tmp_path / "script.sh", tmp_path, environment)
    assert done.returncode == (message is not None)
    assert (message or "") in done.stdout
    assert ("::error::" in done.stdout) == (message is not None)
    assert not (tmp_path / "stolen").exists()


def test_only_the_job_that_publishes_has_rights_and_it_runs_last_for_a_tag() -> None:
    publish = JOBS["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["if"] == "github.event_name == 'push'"
    assert set(publish["needs"]) == set(JOBS) - {"publish"}
    # A script in this job could publish what it likes.
    assert not any("run" in step for step in publish["steps"])
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert not any("permissions" in JOBS[name] for name in set(JOBS) - {"publish"})


def test_no_expression_is_a_part_of_a_script_and_targets_of_make_exist() -> None:
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    made = []
    for step in SCRIPTS.values():
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
        made += re.findall(r"^make (\S+)$", step["run"], re.MULTILINE)
    assert made
    assert set(made) <= set(targets)


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_scripts_have_no_mistakes_of_the_shell(tmp_path: Path) -> None:
    assert shellcheck([step["run"] for step in SCRIPTS.values()], tmp_path) == ""


@pytest.mark.skipif(not shutil.which("actionlint"), reason="actionlint is not installed")
def test_the_workflow_is_one_that_github_accepts() -> None:
    done = subprocess.run(["actionlint", "-no-color", WORKFLOW], capture_output=True, text=True)
    assert done.stdout + done.stderr == ""
    assert done.returncode == 0
