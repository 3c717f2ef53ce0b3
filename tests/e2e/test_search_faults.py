"""`bw ramp` and `bw surface` where the generator goes wrong, or somebody stops them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

GENERATOR = """\
import json, os, pathlib, sys, time
fault, level = sys.argv[1], float(sys.argv[2])
count = pathlib.Path("count")
calls = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(calls))
if calls == 3 and fault == "killed-once":
    os.kill(os.getpid(), 9)
if calls >= 3 and fault not in ("none", "killed-once", "slow"):
    print(fault)
    sys.exit()
time.sleep(0.5 if fault == "slow" else 0)
tps = 1000 * level / (1 + 0.1 * (level - 1) + 0.01 * level * (level - 1))
print(json.dumps({"tps": tps, "mean": 5 + 2 * level}))
"""
RAMP = ("--throughput", "/tps", "--response", "/mean", "--hold", "1s", "--highest", "16")
SURFACE = """\
[load]
generator = "command"
command = "{python} gen.py slow {{rate}} {{duration}} {{size}}"
values = {{ response_ms_mean = "/mean" }}
[factors]
size = [1, 2, 4, 8]
[peak]
criteria = ["mean response < 40ms"]
run_length = "1s"
start = "2/s"
"""
MODULE = (sys.executable, "-m", "benchwright.cli.main")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("gen.py").write_text(GENERATOR)
    return tmp_path


def ramp(fault: str) -> subprocess.CompletedProcess[str]:
    command = f"{sys.executable} gen.py {fault} {{users}} {{duration}}"
    words = ("ramp", "--command", command, *RAMP, "--no-watch", "--json", "--quiet")
    return subprocess.run(
        [*MODULE, *words], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ('\'{"tps": 1e308, "mean": 5}\'', "throughput_per_s is 1e+308: impossible"),
        ('\'{"tps": -5, "mean": 5}\'', "reports a throughput of -5/s"),
        ("'{{{['", "stdout is not JSON"),
    ],
)
def test_figures_that_cannot_be_end_a_ramp_with_what_was_measured(fault: str, told: str) -> None:
    done = ramp(fault)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert told in found["detail"]
    assert len(found["points"]) >= 2
    assert "Warning" not in done.stderr


def test_a_generator_that_is_killed_once_is_run_again() -> None:
    done = ramp("killed-once")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["status"] == "saturated"
    assert "probe-failed" in {one["code"] for one in found["findings"]}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_surface_that_is_stopped_in_a_sample_goes_on(how: signal.Signals) -> None:
    Path("spec.toml").write_text(SURFACE.format(python=sys.executable))
    words = ("surface", "spec.toml", "--no-watch", "--max-trials", "3")
    running = subprocess.Popen(
        [*MODULE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stderr is not None
    for line in running.stderr:
        if "trial 2" in line:
            running.send_signal(how)
            break
    shown, _ = running.communicate(timeout=60)
    if how is signal.SIGINT:
        assert running.returncode == 130
        assert "0 of 4 samples searched" in shown
        # What was run of the sample that was cut short was paid for.
        assert "in 0 trials" not in shown
    resumed = subprocess.run(
        [*MODULE, "resume", "--quiet"], capture_output=True, text=True, timeout=120, check=False
    )
    assert "4 of 4 samples searched" in resumed.stdout, resumed.stderr
    assert "in 12 trials" in resumed.stdout
