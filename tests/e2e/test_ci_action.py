"""The GitHub Action and the GitLab template, executed on a small repository.

The steps of `action.yml` run as GitHub's runner runs them: expressions are replaced in `if`, `env`,
`with` and `working-directory`, each `run` is a script of `bash --noprofile --norc -eo pipefail`,
and the files that `GITHUB_OUTPUT`, `GITHUB_PATH` and `GITHUB_STEP_SUMMARY` name are read after each
step. The actions of GitHub that store a cache and an artifact are copies here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from bw_command import bw
from ci_scripts import EXPRESSION, run_script, shellcheck

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
GITLAB = yaml.safe_load((ROOT / "packaging/ci/gitlab.yml").read_text())[".benchwright"]
BUILD = "cp prog.in prog; chmod +x prog"
# Other tests change limits of the machine, and may cause messages of the kernel.
ACCEPTED = ("environment-changed-between-trials", "errors-in-kernel-log")
INPUTS = {
    "command": "./prog input",
    "build": BUILD,
    "fail-if": "slower by 30%",
    "margin": "30%",
    "max-time": "2m",
    "accept": "\n".join(ACCEPTED),
}


@dataclass
class Job:
    """What a runner has of one job."""

    workspace: Path
    runner: Path
    """What GitHub stores outside the job: caches and artifacts, and the job's temporary directory.
    """
    base_ref: str = ""
    """The target branch of the pull request that started the job."""
    number: int = 1
    failed: str = ""
    """The name of the step that failed."""
    status: int = 0
    outputs: dict[str, str] = field(default_factory=dict)
    path: str = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    log: str = ""
    summary: str = ""

    def value(self, expression: str, inputs: dict[str, str]) -> str:
        """Return the value of an expression of the kinds that the action has."""
        known = {
            **{f"inputs.{name}": value for name, value in inputs.items()},
            **self.outputs,
            "github.base_ref": self.base_ref,
            "github.ref_name": "main",
            "github.run_id": str(self.number),
            "github.run_attempt": "1",
        }
        return known[expression]

    def filled(self, text: str, inputs: dict[str, str]) -> str:
        """Return a text with the values of its expressions."""
        return EXPRESSION.sub(lambda found: self.value(found[1], inputs), text)

    def holds(self, condition: str, inputs: dict[str, str]) -> bool:
        """Return the value of an `if`: comparisons joined by `&&`."""
        parts = [part.split(" ") for part in condition.split(" && ")]
        return all(
            (self.value(left, inputs) == right.strip("'")) == (sign == "==")
            for left, sign, right in parts
        )

    def run(self, **given: str) -> None:
        """Run the steps of the action; after one that failed, none."""
        inputs = {
            name: given.get(name.replace("-", "_"), one.get("default"))
            for name, one in ACTION["inputs"].items()
        }
        for step in STEPS:
            if "if" in step and not self.holds(step["if"], inputs):
                continue
            if "run" in step:
                self.execute(step, inputs)
            else:
                self.use(
                    step["uses"].partition("@")[0],
                    {key: self.filled(text, inputs) for key, text in step["with"].items()},
                )
            if self.status:
                self.failed = step["name"]
                return

    def execute(self, step: dict[str, Any], inputs: dict[str, str]) -> None:
        """Run a step's script."""
        temp = self.runner / f"temp-{self.number}"
        files = {name: temp / name.lower() for name in ("OUTPUT", "PATH", "STEP_SUMMARY")}
        temp.mkdir(exist_ok=True)
        for file in files.values():
            file.write_text("")
        environment = {
            **os.environ,
            "PATH": self.path,
            "RUNNER_TEMP": str(temp),
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_BASE_REF": self.base_ref,
            **{f"GITHUB_{name}": str(file) for name, file in files.items()},
            **{name: self.filled(text, inputs) for name, text in step.get("env", {}).items()},
        }
        place = self.filled(step.get("working-directory", "."), inputs)
        done = run_script(step["run"], temp / "script.sh", self.workspace / place, environment)
        self.log += done.stdout
        self.status = done.returncode
        self.summary += files["STEP_SUMMARY"].read_text()
        for line in files["PATH"].read_text().splitlines():
            self.path = f"{line}:{self.path}"
        for line in files["OUTPUT"].read_text().splitlines():
            name, _, value = line.partition("=")
            self.outputs[f"steps.{step['id']}.outputs.{name}"] = value

    def use(self, action: str, words: dict[str, str]) -> None:
        """Do what one of GitHub's actions does."""
        caches = self.runner / "caches"
        if action == "actions/upload-artifact":
            place = self.runner / "artifacts" / words["name"]
            place.mkdir(parents=True)
            # As on GitHub, a path that does not exist is left out.
            for path in filter(os.path.exists, words["path"].split()):
                shutil.copy(path, place)
        elif action == "actions/cache/restore":
            found = sorted(caches.glob(words["restore-keys"] + "*"))
            if found:
                shutil.copy(found[-1], self.workspace / words["path"])
        else:
            assert action == "actions/cache/save"
            caches.mkdir(exist_ok=True)
            shutil.copy(self.workspace / words["path"], caches / words["key"])

    @property
    def verdict(self) -> str:
        return self.outputs.get("steps.compare.outputs.verdict", "")


def git(place: Path, *words: str) -> str:
    """Run git in a repository; return what it prints."""
    done = subprocess.run(["git", *words], cwd=place, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Return a job in a repository of three commits: `first`, then `noise` with another comment,
    then `regression`; the job has `noise` checked out."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "A")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.com")
    place = tmp_path / "repository"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    (place / ".gitignore").write_text("/prog\n/history.db\n")
    for tag, comment, seconds in (
        ("first", "one", "0.02"),
        ("noise", "two", "0.02"),
        ("regression", "three", "0.08"),
    ):
        (place / "prog.in").write_text(f"#!/bin/sh\n# {comment}\nsleep {seconds}\n")
        git(place, "add", ".")
        git(place, "commit", "-qm", tag)
        git(place, "tag", tag)
    git(place, "checkout", "-q", "noise")
    runner = tmp_path / "runner"
    runner.mkdir()
    return Job(place, runner)


def inputs(**more: str) -> dict[str, str]:
    """Return the inputs of a job, by the names of keyword arguments."""
    return {**{name.replace("-", "_"): text for name, text in INPUTS.items()}, **more}


def test_a_regression_is_stopped(job: Job) -> None:
    git(job.workspace, "checkout", "-q", "regression")
    git(job.workspace, "update-ref", "refs/remotes/origin/main", "noise")
    job.base_ref = "main"
    job.run(**inputs(history="history.db"))
    assert (job.failed, job.status, job.verdict) == ("Verdict", 1, "failed"), job.log
    assert "::error::" in job.log
    assert "head: failed: ratio" in job.summary
    results = job.runner / "artifacts" / "benchwright"
    assert (results / "comment.md").read_text() == job.summary
    assert (results / "compare.json").stat().st_size > 0
    (gate,) = ElementTree.parse(results / "gate.xml").getroot().iter("failure")
    assert "slower by 30%" in "".join(gate.itertext()) + str(gate.attrib)
    # The code of a pull request writes no cache.
    assert not (job.runner / "caches").exists()


def test_noise_is_not_stopped_and_histories_are_kept(job: Job) -> None:
    job.run(**inputs(history="history.db", history_runs="3"))
    # A machine that is too busy for 30 % leaves the gate undecided, which is a warning.
    assert job.status == 0, job.log
    assert job.verdict in ("passed", "undecided")
    assert ("::warning::" in job.log) == (job.verdict == "undecided")
    assert "::error::" not in job.log
    assert "### History" in job.summary
    assert "1 new run" in job.log
    assert [one.name for one in (job.runner / "caches").iterdir()] == [
        "benchwright-history-main-1-1"
    ]
    # The next job of the branch starts with the history of this one.
    (job.workspace / "history.db").unlink()
    later = Job(job.workspace, job.runner, number=2)
    later.run(**inputs(history="history.db", history_runs="3", max_time="2s", artifact=""))
    assert later.status == 0, later.log
    assert "1 new run" in later.log
    shown = bw(job.workspace, "history", "history.db", "--json")
    (series,) = json.loads(shown.stdout)["series"]
    assert len(series["points"]) == 2
    commits = {one["commit"] for one in series["points"]}
    assert commits == {git(job.workspace, "rev-parse", "noise")}


LOAD = "--target=null\n--rate=2k\n--arrival=constant\n--duration=1s\n--quiet"


@pytest.mark.parametrize(
    ("limits", "status"),
    [("--limit=p90 < 10s\n--limit=errors < 1%", 0), ("--limit=metric rate_per_s > 1e9", 1)],
)
def test_the_limits_of_a_load_are_a_gate(job: Job, limits: str, status: int) -> None:
    job.run(**inputs(load=f"{LOAD}\n{limits}", fail_if="slower by 90%"))
    assert job.status == status, job.log
    missed = job.outputs["steps.load.outputs.verdict"]
    assert missed == ("failed" if status else "passed")
    assert "### Load" in job.summary
    report = job.runner / "artifacts" / "benchwright" / "load.xml"
    failures = [*ElementTree.parse(report).getroot().iter("failure")]
    assert len(failures) == status


@pytest.mark.parametrize(("undecided", "status"), [("warn", 0), ("fail", 1)])
def test_an_undecided_gate_is_neutral_unless_it_is_to_fail(
    job: Job, undecided: str, status: int
) -> None:
    # Three blocks of the same program decide nothing.
    job.run(**inputs(max_time="0.5s", fail_if="slower by 0.01%", undecided=undecided))
    assert (job.verdict, job.status) == ("undecided", status), job.log
    assert ("::warning::" in job.log) == (status == 0)
    assert "undecided" in job.summary


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"undecided": "maybe"}, "undecided must be warn or fail"),
        ({"base": "none"}, "no commit 'none'"),
        ({"fail_if": "slow"}, "--fail-if"),
        ({"fail_if": " \n"}, "there is no gate"),
        ({"build": "echo why; exit 9"}, "why"),
        ({"margin": "; touch stolen"}, "--margin"),
        ({"base": "--output=stolen"}, "--output=stolen"),
    ],
)
def test_a_wrong_job_fails_with_its_reason(job: Job, given: dict[str, str], message: str) -> None:
    job.run(**inputs(**given))
    assert job.status not in (0, 3), job.log
    assert message in job.log
    assert job.verdict in ("", "error")
    assert not (job.workspace / "stolen").exists()


def test_the_wheel_of_the_input_is_installed_and_used(job: Job) -> None:
    wheel = job.workspace / "benchwright-9-py3-none-any.whl"
    program = zipfile.ZipInfo("benchwright-9.data/scripts/bw")
    program.external_attr = 0o100755 << 16
    lines = ("#!python", "import sys", "sys.exit('--version' not in sys.argv and 'of wheel')")
    about = "Metadata-Version: 2.1\nName: benchwright\nVersion: 9\n"
    kind = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr(program, "\n".join(lines))
        file.writestr("benchwright-9.dist-info/METADATA", about)
        file.writestr("benchwright-9.dist-info/WHEEL", kind)
        file.writestr("benchwright-9.dist-info/RECORD", "")
    job.run(**inputs(install=f"./{wheel.name}"))
    assert job.failed == "Compare", job.log
    assert "of wheel" in job.log


def test_without_bw_the_job_says_what_to_do(job: Job) -> None:
    job.path = "/usr/bin:/bin"
    job.run(**inputs())
    assert (job.status, job.failed) == (2, "Install Benchwright")
    assert "set the input install" in job.log


def test_the_first_commit_has_no_base(job: Job) -> None:
    git(job.workspace, "checkout", "-q", "first")
    job.run(**inputs())
    assert (job.status, job.failed) == (2, "Compare")
    assert "fetch-depth: 0" in job.log


@pytest.mark.parametrize(
    "step", [one for one in STEPS if "run" in one], ids=lambda one: one["name"]
)
def test_no_input_is_a_part_of_a_script(step: dict[str, Any]) -> None:
    assert "${{" not in step["run"]
    assert step["shell"] == "bash"
    assert set(re.findall(r"\bBW_[A-Z_]+", step["run"])) == set(step["env"])


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_scripts_have_no_mistakes_of_the_shell(tmp_path: Path) -> None:
    scripts = [one["run"] for one in STEPS if "run" in one]
    assert shellcheck([*scripts, "\n".join(GITLAB["script"])], tmp_path) == ""


def test_every_input_and_output_is_used() -> None:
    text = "\n".join(EXPRESSION.findall((ROOT / "action.yml").read_text()))
    conditions = " ".join(one.get("if", "") for one in STEPS)
    for name, one in ACTION["inputs"].items():
        assert f"inputs.{name}" in text + conditions
        assert one.get("required", False) or "default" in one


@pytest.mark.parametrize(("head", "statuses"), [("regression", (1,)), ("noise", (0, 3))])
def test_the_template_for_gitlab(job: Job, head: str, statuses: tuple[int, ...]) -> None:
    base = git(job.workspace, "rev-parse", f"{head}^")
    git(job.workspace, "checkout", "-q", head)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        **{name: str(text) for name, text in GITLAB["variables"].items()},
        "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"],
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": base,
        "BW_COMMAND": "./prog input",
        "BW_BUILD": BUILD,
        "BW_MAX_TIME": "2m",
        "BW_ACCEPT": " ".join(ACCEPTED),
        "BW_FAIL_IF": "slower by 30%",
        "BW_MARGIN": "30%",
    }
    # GitLab's runner joins the lines into one script.
    script = job.runner / "script.sh"
    done = run_script("\n".join(GITLAB["script"]), script, job.workspace, environment)
    assert done.returncode in statuses, done.stdout
    assert GITLAB["allow_failure"]["exit_codes"] == 3
    report = ElementTree.parse(job.workspace / GITLAB["artifacts"]["reports"]["junit"])
    assert len(list(report.getroot().iter("failure"))) == (head == "regression")
    assert "head: " in (job.workspace / "bw-results" / "comment.md").read_text()
