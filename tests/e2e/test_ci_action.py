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
TEMPLATES = yaml.safe_load((ROOT / "packaging/ci/gitlab.yml").read_text())
GITLAB = TEMPLATES[".benchwright"]
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
            upload(words["path"].split(), self.runner / "artifacts" / words["name"])
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


def upload(paths: list[str], place: Path) -> None:
    """Store files as an artifact, or what one directory contains; modes and owners are lost."""
    place.mkdir(parents=True)
    # As on GitHub, a path that does not exist is left out.
    for path in filter(os.path.exists, paths):
        if os.path.isdir(path):
            shutil.copytree(path, place, dirs_exist_ok=True)
        else:
            shutil.copy(path, place)
    for stored in place.rglob("*"):
        stored.chmod(0o755 if stored.is_dir() else 0o644)


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
    scripts += ["\n".join(one["script"]) for one in TEMPLATES.values()]
    assert shellcheck(scripts, tmp_path) == ""


def test_every_input_and_output_is_used() -> None:
    text = "\n".join(EXPRESSION.findall((ROOT / "action.yml").read_text()))
    conditions = " ".join(one.get("if", "") for one in STEPS)
    for name, one in ACTION["inputs"].items():
        assert f"inputs.{name}" in text + conditions
        assert one.get("required", False) or "default" in one


def gitlab(job: Job, template: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a template of GitLab on the commit that is checked out."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        **{name: str(text) for name, text in GITLAB["variables"].items()},
        "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"],
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": git(job.workspace, "rev-parse", "HEAD^"),
        "BW_COMMAND": "./prog input",
        "BW_BUILD": BUILD,
        "BW_MAX_TIME": "2m",
        "BW_ACCEPT": " ".join(ACCEPTED),
        "BW_FAIL_IF": "slower by 30%",
        "BW_MARGIN": "30%",
        **more,
    }
    # GitLab's runner joins the lines into one script.
    text = "\n".join(TEMPLATES[template]["script"])
    return run_script(text, job.runner / "script.sh", job.workspace, environment)


@pytest.mark.parametrize(("head", "statuses"), [("regression", (1,)), ("noise", (0, 3))])
def test_the_template_for_gitlab(job: Job, head: str, statuses: tuple[int, ...]) -> None:
    git(job.workspace, "checkout", "-q", head)
    done = gitlab(job, ".benchwright")
    assert done.returncode in statuses, done.stdout
    assert GITLAB["allow_failure"]["exit_codes"] == 3
    report = ElementTree.parse(job.workspace / GITLAB["artifacts"]["reports"]["junit"])
    assert len(list(report.getroot().iter("failure"))) == (head == "regression")
    assert "head: " in (job.workspace / "bw-results" / "comment.md").read_text()


# -- several jobs, one verdict ----------------------------------------------------------------


def documented(title: str) -> dict[str, Any]:
    """Return the workflow with this title in docs/howto-ci.md."""
    text = (ROOT / "docs/howto-ci.md").read_text()
    (block,) = re.findall(rf'```yaml title="{re.escape(title)}"\n(.*?)```', text, re.DOTALL)
    found: dict[str, Any] = yaml.safe_load(block)
    return found


def action_inputs(steps: list[dict[str, Any]], **more: str) -> dict[str, str]:
    """Return what a documented job gives the action, with the values of expressions, on the
    repository of this test and with the `bw` that is installed."""
    (given,) = (step["with"] for step in steps if "benchwright" in step["uses"])
    own = {name: EXPRESSION.sub(lambda found: more[found[1]], text) for name, text in given.items()}
    own = {name.replace("-", "_"): text for name, text in own.items() if name != "install"}
    test = {
        name: text for name, text in inputs().items() if name not in ("fail_if", "command", "build")
    }
    return {**test, **own, **({"build": BUILD} if "build" in own else {})}


@pytest.mark.parametrize(("head", "status"), [("regression", 1), ("noise", 0)])
def test_the_workflow_of_several_jobs(job: Job, head: str, status: int) -> None:
    workflow = documented("bench-jobs.yml")["jobs"]
    git(job.workspace, "checkout", "-q", head)
    git(job.workspace, "update-ref", "refs/remotes/origin/main", f"{head}^")
    measure, gate = workflow["measure"], workflow["gate"]
    for number in measure["strategy"]["matrix"]["job"][:3]:
        one = Job(job.workspace, job.runner, base_ref="main", number=number)
        one.run(**action_inputs(measure["steps"], **{"matrix.job": str(number)}))
        assert (one.status, one.verdict) == (0, "measured"), one.log
    assert gate["needs"] == "measure"
    (download,) = (step["with"] for step in gate["steps"] if "download" in step["uses"])
    # Another runner: nothing of the jobs is there but their artifacts.
    place = job.workspace.parent / "gate"
    place.mkdir()
    found = sorted((job.runner / "artifacts").glob(download["pattern"]))
    assert [path.name for path in found] == [f"benchwright-job-{number}" for number in (1, 2, 3)]
    for path in found:
        shutil.copytree(path, place / download["path"] / path.name)
    last = Job(place, job.runner, number=9)
    last.run(**{**action_inputs(gate["steps"]), "fail_if": "slower by 30%"})
    assert last.status == status, last.log
    assert last.verdict in ("failed", "passed", "undecided")
    assert (last.verdict == "failed") == bool(status)
    assert "bw compare --merge, 3 jobs" in last.summary
    assert "all jobs" in last.summary
    results = job.runner / "artifacts" / "benchwright"
    assert {path.name for path in results.iterdir()} >= {"comment.md", "gate.xml", "merge.html"}
    document = json.loads((results / "compare.json").read_text())
    assert document["schema"] == "benchwright/merge/1"
    assert [one["name"] for one in document["jobs"]] == [path.name for path in found]
    assert len({one["seed"] for one in document["jobs"]}) == 3
    failures = [*ElementTree.parse(results / "gate.xml").getroot().iter("failure")]
    assert len(failures) == status


def test_jobs_of_other_commits_are_not_merged(job: Job) -> None:
    jobs = []
    for number, head in enumerate(("noise", "regression"), 1):
        git(job.workspace, "checkout", "-q", head)
        one = Job(job.workspace, job.runner, number=number)
        one.run(**inputs(job=str(number), max_time="3s"))
        assert one.status == 0, one.log
        jobs.append(job.runner / "artifacts" / f"benchwright-job-{number}")
    last = Job(job.workspace, job.runner, number=3)
    last.run(**inputs(merge=str(job.runner / "artifacts")))
    assert (last.status, last.failed, last.verdict) == (2, "Compare", "error")
    assert "other commits" in last.log


def test_a_job_without_a_command_says_so(job: Job) -> None:
    job.run(**inputs(command=""))
    assert (job.status, job.failed) == (2, "Compare")
    assert "set the input command" in job.log


def test_the_templates_of_several_jobs_for_gitlab(job: Job) -> None:
    workflow = documented(".gitlab-ci.yml of several jobs")
    assert workflow["measure"]["extends"] == ".benchwright-job"
    assert workflow["gate"]["needs"] == ["measure"]
    git(job.workspace, "checkout", "-q", "regression")
    for index in ("1", "2", "3"):
        done = gitlab(job, ".benchwright-job", CI_NODE_INDEX=index)
        assert done.returncode == 0, done.stdout
    place = job.workspace / TEMPLATES[".benchwright-job"]["artifacts"]["paths"][0]
    assert sorted(path.name for path in place.iterdir()) == ["1", "2", "3"]
    done = gitlab(job, workflow["gate"]["extends"])
    assert done.returncode == 1, done.stdout
    gate = TEMPLATES[".benchwright-gate"]
    for path in gate["artifacts"]["paths"]:
        assert (job.workspace / path).stat().st_size > 0
    report = ElementTree.parse(job.workspace / gate["artifacts"]["reports"]["junit"])
    assert len(list(report.getroot().iter("failure"))) == 1
