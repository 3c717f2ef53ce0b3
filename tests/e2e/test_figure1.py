"""The paper's Figure 1, its text unchanged, runs on the file systems of this kernel.

`-D FS=...` stands for the loop's values, and -D makes PostMark small (common.inc sets its
sizes by ENV), so the file itself is not touched.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
FIGURE_1 = r"""INCLUDE common.inc
FOREACH FS ext2 ext3 reiserfs
  FOR THREADCOUNT=1 TO 32 FACTOR 2
    THREADS=%THREADCOUNT%
    TEST %FS%:%THREADS% 10 1 getstats \
--predicate '("$delta" < 0.05 * $mean) \
|| ($count > 30)'
    SETUP fs-setup.sh %FS%
    EXEC postmark.sh
    CLEANUP fs-cleanup.sh %FS%
    DONE
  DONE
DONE
INCLUDE ok.inc
"""


SMALL = ("-D", "PM_FILES=20", "-D", "PM_TRANSACTIONS=20", "-D", "FSSIZE=64M")
needs_postmark = pytest.mark.skipif(
    shutil.which("postmark") is None, reason="postmark is not installed (make setup)"
)


def bw_on_path(directory: Path) -> dict[str, str]:
    """Return an environment in which scripts find this very `bw`."""
    tool = directory / "bin" / "bw"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m benchwright.cli.main "$@"\n')
    tool.chmod(0o755)
    path = f"{tool.parent}:{os.environ['PATH']}"
    return {**os.environ, "TESTROOT": str(directory / "t"), "PATH": path}


def test_the_shipped_file_is_the_papers_text() -> None:
    lines = (EXAMPLES / "figure1.ap").read_text().splitlines(keepends=True)
    assert "".join(line for line in lines if not line.startswith("#")) == FIGURE_1


@needs_postmark
@pytest.mark.timeout(900)
def test_figure_1_runs_unchanged_to_its_table(tmp_path: Path) -> None:
    file_system = "ext2" if os.geteuid() == 0 else "plain"
    if file_system == "plain":
        print("SKIPPED: ext2 on a loop device takes root; a plain directory instead")
    words = ("run", str(EXAMPLES / "figure1.ap"), "-D", f"FS={file_system}", *SMALL)
    done = subprocess.run(
        [sys.executable, "-m", "benchwright.cli.main", *words, "--json"],
        cwd=tmp_path,
        env=bw_on_path(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    tests = json.loads(done.stdout)["tests"]
    names = [f"{file_system}:{threads}" for threads in (1, 2, 4, 8, 16, 32)]
    assert [test["name"] for test in tests] == names
    for test, threads in zip(tests, (1, 2, 4, 8, 16, 32), strict=True):
        elapsed = next(q for q in test["quantities"] if q["name"] == "elapsed")
        assert 10 <= elapsed["count"] <= 31
        assert test["stop"]["reason"] == "predicate"
        res = (tmp_path / f"bw-study/results/s1/{test['name']}.res").read_text()
        assert res.count("[measurement]") == elapsed["count"] * threads
        assert "command = postmark" in res
    mounts = Path("/proc/self/mounts").read_text()
    assert str(tmp_path) not in mounts, "a file system was left mounted"


# -- other suites of the time ----------------------------------------------------------

POSTMARK = Path(__file__).parents[1] / "golden/suite/postmark.ap"
OF_THE_TIME = r"""#!/usr/bin/perl /usr/local/bin/auto-pilot
# Postmark with our own settings.
INCLUDE common.inc		# machine-specific settings
VAR TERMINATE=2 1 getstats \
	--predicate '("$name" !~ /^(User|System|Elapsed)$/) || ($count > 2)' --
ENV PM_SUBDIRECTORIES=$BENCH_DIRECTORIES$	# from the user's environment
VAR LIMIT=30 # seconds
TIMEOUT %LIMIT%s
WARMUP 1
FOREACH FS %TESTFS%
	TEST %FS%-in-$PM_SUBDIRECTORIES$ %TERMINATE%
		PRESETUP sh -c 'echo "prepared # by $USER_OF_BENCH"'
		SETUP fs-setup.sh %FS%
		EXEC postmark.sh
		CLEANUP fs-cleanup.sh %FS%
	DONE
DONE
INCLUDE ok.inc
"""


def tests_of(place: Path, words: list[str], **more: str) -> list[dict[str, Any]]:
    """Run a suite whose scripts and include files are $APLIB's; return its tests."""
    environment = bw_on_path(place) | {"APLIB": str(EXAMPLES)} | more
    done = subprocess.run(
        [sys.executable, "-m", "benchwright.cli.main", "run", *words, *SMALL, "--json"],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert str(place) not in Path("/proc/self/mounts").read_text()
    found: list[dict[str, Any]] = json.loads(done.stdout)["tests"]
    return found


@needs_postmark
@pytest.mark.timeout(600)
def test_the_manuals_suite_runs_unchanged(tmp_path: Path) -> None:
    # A directory and one thread: Figure 1 has the file systems and the threads.
    shutil.copy(POSTMARK, tmp_path / "suite.ap")
    small = ["-D", "TESTFS=plain", "-D", "NTHREADS=1"]
    tests = tests_of(tmp_path, ["suite.ap", *small])
    assert [test["name"] for test in tests] == ["plain-1"]
    assert {test["stop"]["reason"] for test in tests} == {"predicate"}


@needs_postmark
@pytest.mark.timeout(600)
def test_a_suite_with_all_of_the_languages_lexical_forms_runs(tmp_path: Path) -> None:
    library = tmp_path / "lib"
    (library / "commonsettings.d").mkdir(parents=True)
    hook = library / "commonsettings.d/note"
    hook.write_text(f'#!/bin/sh\necho "$1 $2" >>"{tmp_path}/events"\nexit 3\n')
    hook.chmod(0o755)
    (tmp_path / "suite.ap").write_text(OF_THE_TIME)
    file_system = "ext2" if os.geteuid() == 0 else "plain"
    (test,) = tests_of(
        tmp_path,
        ["suite.ap", "-D", f"TESTFS={file_system}"],
        APLIB=f"{EXAMPLES}:{library}",
        BENCH_DIRECTORIES="3",
        USER_OF_BENCH="me",
    )
    assert test["name"] == f"{file_system}-in-3"
    elapsed = next(q for q in test["quantities"] if q["name"] == "elapsed")
    assert elapsed["count"] == 3
    rows = (tmp_path / "bw-study/results/s1/trials.csv").read_text().splitlines()[1:]
    assert ["warmup" in row for row in rows] == [True, False, False, False]
    output = (tmp_path / "bw-study/logs/s1").rglob("presetup*.out")
    assert [one.read_text() for one in output] == ["prepared # by me\n"]
    assert f"unmount {file_system}" in (tmp_path / "events").read_text()
