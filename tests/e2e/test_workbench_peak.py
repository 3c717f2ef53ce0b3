"""`bw peak` on a real nginx: found or out of time, interrupted and resumed, killed, never ready."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from web_server import nginx

EXAMPLES = Path(__file__).parents[2] / "examples"
SPEC = EXAMPLES / "peak-nginx.toml"
PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin"
pytestmark = pytest.mark.skipif(
    shutil.which("nginx", path=PATH) is None,
    reason="nginx is not installed (apt-get install nginx-light)",
)
SHORT = ("--run-length", "1s", "--start", "20", "--seed", "3", "--policy", "binsearch")
BW = (sys.executable, "-m", "benchwright.cli.main")


def start(*arguments: object, study: Path) -> subprocess.Popen[str]:
    """Start `bw` on a study."""
    return subprocess.Popen(
        [*BW, *map(str, arguments), "--study", str(study)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": PATH},
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Return exit status, stdout and stderr."""
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def document(text: str) -> dict[str, Any]:
    """Return the answer's JSON."""
    found: dict[str, Any] = json.loads(text)
    return found


def servers(study: Path) -> list[str]:
    """Return the processes of nginx that serve for a study, by its session's token."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "nginx" in command and _state(study) in command:
            found.append(command)
    return found


def _state(study: Path) -> str:
    notes = list(study.glob("logs/*/state-directory"))
    return notes[0].read_text().strip() if notes else "no server yet"


def after_a_trial(process: subprocess.Popen[str]) -> None:
    """Wait until a trial has been told."""
    assert process.stderr is not None
    assert any(line.startswith("trial 1:") for line in process.stderr)


def test_a_budget_ends_it_with_the_best_answer(tmp_path: Path) -> None:
    study = tmp_path / "s"
    process = start("peak", SPEC, *SHORT, "--budget", "6s", "--json", study=study)
    status, out, err = ended(process)
    found = document(out)
    assert status in (0, 3), err
    assert found["status"] in ("found", "budget", "undecided")
    assert found["trials"]
    assert all(one["ending"] in ("whole", "left") for one in found["trials"])
    assert servers(study) == []


def test_an_interrupt_stops_the_server_and_a_resume_goes_on(tmp_path: Path) -> None:
    study = tmp_path / "s"
    process = start("peak", SPEC, *SHORT, "--max-trials", "4", study=study)
    after_a_trial(process)
    assert servers(study) != []
    process.send_signal(signal.SIGINT)
    status, _, _ = ended(process)
    assert (status, servers(study)) == (130, [])
    process = subprocess.Popen(
        [*BW, "resume", str(study), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PATH": PATH},
    )
    status, out, err = ended(process)
    assert status in (0, 3), err
    assert len(document(out)["trials"]) == 4
    assert servers(study) == []


def test_a_killed_search_leaves_no_server(tmp_path: Path) -> None:
    study = tmp_path / "s"
    process = start("peak", SPEC, *SHORT, "--max-trials", "4", study=study)
    after_a_trial(process)
    process.kill()
    ended(process)
    left = Path(_state(study))
    assert left.exists()
    again = start("peak", SPEC, *SHORT, "--max-trials", "1", "--json", study=study)
    status, out, err = ended(again)
    assert status in (0, 3), err
    assert len(document(out)["trials"]) == 1
    assert servers(study) == []
    assert not left.exists()


def test_a_server_that_never_gets_ready_is_a_clear_answer(tmp_path: Path) -> None:
    spec = tmp_path / "s.toml"
    text = SPEC.read_text().replace("./nginx/", f"{EXAMPLES}/nginx/")
    text = text.replace("-c {state}/nginx.conf", "-c {state}/missing.conf")
    spec.write_text(text)
    status, out, err = ended(start("peak", spec, "--json", study=tmp_path / "s"))
    assert status == 1, err
    found = document(out)
    assert found["status"] == "failed"
    assert "missing.conf" in json.dumps(found)
    assert "Traceback" not in err


def test_a_running_server_needs_no_spec(tmp_path: Path) -> None:
    """Peak, its report from the study, and ramp, of an nginx that bw did not start."""
    server = nginx(tmp_path, "127.0.0.1")
    try:
        port = (tmp_path / "port").read_text()
        target = ("--target", f"http://127.0.0.1:{port}/port")
        limits = ("--limit", "p99 < 1s", "--limit", "error_ratio < 50%")
        length = ("--run-length", "300ms", "--start", "20", "--highest", "40")
        study = tmp_path / "s"
        peak = start("peak", *target, *limits, *length, "--json", study=study)
        status, out, err = ended(peak)
        assert status == 3, err
        found = document(out)
        assert found["status"] == "never-fails"
        assert found["claim"] == "rate:5%"
        assert [one["key"] for one in found["criteria"]] == ["response_ms_p99", "error_ratio"]
        assert all(trial["errors"] == 0 for trial in found["trials"])
        status, out, err = ended(start("peak", study=study))
        assert status == 0, err
        assert f"port {port}" in out
        levels = ("--hold", "300ms", "--highest", "2", "--connections", "4")
        ramp = start("ramp", *target, *levels, "--json", study=tmp_path / "r")
        status, out, err = ended(ramp)
        assert status == 0, err
        points = document(out)["points"]
        assert [point["level"] for point in points] == [1, 2]
        assert all(point["throughput"]["value"] > 0 for point in points)
    finally:
        server.terminate()
        server.wait(10)
