"""Commands start quickly because they import nothing heavy; time is not asserted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEAVY = {"numpy", "scipy", "msgspec", "jinja2", "rich", "sqlite3", "subprocess", "asyncio", "ssl"}


_REPORT = "print('modules', *sorted(sys.modules), file=sys.stderr)\n"
_AT_FIRST_TRIAL = f"""\
import os
from benchwright.trial.bench import LocalBench
def run(*_, **__):
    {_REPORT}    sys.stderr.flush()
    os._exit(0)
LocalBench.run = run
"""


@pytest.fixture(autouse=True)
def nothing_to_undo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `bw` that may have to undo what another one left imports more."""
    monkeypatch.setenv("BW_STATE", str(tmp_path / "absent"))


def run_python(program: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own; settings as in subprocess.run."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, **settings
    )


def imported(*words: str, at_first_trial: bool = False, **settings: Any) -> set[str]:
    """Return the top-level modules that a bw command line imports: until it ends, or until
    its first trial starts, where the session is cut off."""
    program = (
        "import sys\n"
        + (_AT_FIRST_TRIAL if at_first_trial else "")
        + "from benchwright.cli.main import main\n"
        f"try: main({list(words)!r})\n"
        "except SystemExit: pass\n" + _REPORT
    )
    done = run_python(program, **settings)
    lines = [one for one in done.stderr.splitlines() if one.startswith("modules ")]
    return {name.split(".")[0] for name in lines[0].split()[1:]}


def test_help_imports_nothing_heavy() -> None:
    assert imported("--help") & HEAVY == set()


def test_help_of_a_command_imports_nothing_heavy() -> None:
    """Options are declared as records: msgspec is what they need."""
    commands = (
        *("run", "compare", "resume", "stats", "plot", "load", "replay", "trace"),
        *("ramp", "peak", "surface", "why", "chill", "schema", "report", "live"),
        *("help", "version", "completion"),
    )
    for command in commands:
        assert imported(command, "--help") & HEAVY <= {"msgspec"}, command


def test_commands_inside_trials_import_nothing_heavy() -> None:
    for command in ("measure", "barrier"):
        assert imported(command, "--help") & HEAVY == set(), command


def test_configuration_files_cost_nothing_where_there_are_none(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("quiet = true\n")
    for command, path in (("run", os.devnull), ("measure", file), ("help", file)):
        environment = {**os.environ, "BW_CONFIG": str(path)}
        assert "tomllib" not in imported(command, env=environment), command
    environment = {**os.environ, "BW_CONFIG": str(file)}
    assert "tomllib" in imported("run", env=environment)
    words = ("run", "--study", str(tmp_path / "study"), "--", "true")
    assert not {"tomllib", "secrets"} & imported(*words, at_first_trial=True)


def test_numpy_starts_no_threads_and_leaves_the_environment() -> None:
    """They would spin beside the trials; the setting would slow programs that bw starts."""
    program = (
        "import benchwright.core.numeric, os\n"
        "print(len(os.listdir('/proc/self/task')), os.environ.get('OPENBLAS_NUM_THREADS'))"
    )
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    done = run_python(program, env=environment)
    assert done.stdout.split() == ["1", "None"]
