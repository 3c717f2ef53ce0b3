"""The scripts of CI jobs, run and examined as the runners of GitHub and GitLab run them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
"""An expression of GitHub: `${{ inputs.command }}`."""


def scripts_of(workflow: Path) -> dict[str, dict[str, Any]]:
    """Return the steps of a workflow that have a script, by their names."""
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    steps = [step for job in jobs for step in job["steps"] if "run" in step]
    return {step["name"]: step for step in steps}


def run_script(
    text: str, file: Path, place: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Write a script to `file` and run it in `place`; stdout has what it wrote to stderr too."""
    file.write_text(text)
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(file)],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
        check=False,
    )


def shellcheck(scripts: Iterable[str], place: Path) -> str:
    """Return what shellcheck finds in scripts; empty without a mistake."""
    names = []
    for number, text in enumerate(scripts):
        names.append(f"script-{number}.sh")
        (place / names[-1]).write_text(f"#!/bin/bash\nset -eo pipefail\n{text}")
    done = subprocess.run(["shellcheck", *names], cwd=place, capture_output=True, text=True)
    return done.stdout + done.stderr
