"""examples/llm-trial.sh: two settings of a real server of a language model, compared by blocks."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from bw_command import bw
from ssh_server import free_port
from tiny_model import write_model

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "llm-trial.sh"
MODEL = ROOT / "tests" / "stand_ins" / "tiny_model.py"


@pytest.mark.skipif(shutil.which("curl") is None, reason="the script waits with curl")
def test_two_settings_of_llama_cpp_are_compared(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="xllamacpp has no wheel for this machine")
    weights, port = write_model(tmp_path / "tiny.gguf"), free_port()
    scripts = Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{scripts}:{os.environ['PATH']}",
        "SERVER": f"{sys.executable} {MODEL} {weights}",
        "PORT": str(port),
        "URL": f"http://127.0.0.1:{port}",
        "LOAD": "--prompt-words 10 --output-tokens 8",
        "RATE": "20",
        "DURATION": "500ms",
        "WARM_UP": "200ms",
    }
    blocks = ("--warmup", "0", "--min-blocks", "2", "--max-blocks", "2", "--metric", "first_ns_p50")
    words = (
        "compare",
        "--json",
        "--quiet",
        "--no-watch",
        *blocks,
        "--name",
        "two",
        "--name",
        "four",
    )
    done = bw(tmp_path, *words, "--", f"{SCRIPT} 2", f"{SCRIPT} 4", env=environment)
    assert done.returncode in (0, 3), done.stderr
    document = json.loads(done.stdout)
    assert document["arms"] == ["two", "four"]
    (first,) = [one for one in document["verdicts"] if one["metric"] == "first_ns_p50"]
    assert first["ratio"]["n"] == 2, first


def test_a_server_that_does_not_start_is_no_result(tmp_path: Path) -> None:
    environment = os.environ | {"SERVER": "false", "URL": f"http://127.0.0.1:{free_port()}"}
    done = bw(tmp_path, "run", "--max-runs", "2", "--", str(SCRIPT), env=environment)
    assert done.returncode == 1
    assert "the server does not answer" in done.stdout + done.stderr
