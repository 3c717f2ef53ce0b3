"""Whose processor time is counted, by the kernel, of processes that come and go."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import Any

import pytest

from benchwright.features.profile.bpftrace_program import CPU_CLAUSES, ThreadTree, tree_clauses

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("bpftrace") is None,
    reason="counting in the kernel needs root and bpftrace",
)
COUNTING = """
import os, sys
from benchwright.features.profile.kernel_counter import die_with_parent, tracefs
die_with_parent()
tracefs()
os.execvp("bpftrace", ["bpftrace", "-f", "json", "-e", sys.argv[1]])
"""
RUNS = 100
SHORT = f"i=0; while [ $i -lt {RUNS} ]; do /bin/true; i=$((i+1)); done"
BY_A_THREAD = (
    "import os, threading; threading.Thread(target=os.execv, args=('/bin/true', ['true'])).start()"
)
"""A thread that is not the first becomes another program, under the number of the first."""


def counted(script: str) -> dict[str, dict[str, Any]]:
    """Return all maps after a script, whose shell stands for the launcher."""
    shell = subprocess.Popen(
        ["sh", "-c", f"read line; {script}; true"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    # @s is the calls', which are not asked for here.
    tick = 'interval:ms:100 { @s[0] = 1; printf("tick\\n"); }'
    text = "\n".join((tree_clauses(ThreadTree((shell.pid,))), CPU_CLAUSES, tick))
    counting = subprocess.Popen(
        [sys.executable, "-P", "-c", COUNTING, text], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert counting.stdout is not None
        if not any(b"tick" in line for line in counting.stdout):
            pytest.fail(counting.communicate()[1].decode())
        shell.communicate(b"go\n", timeout=60)
        counting.send_signal(signal.SIGINT)
        rest, _ = counting.communicate(timeout=60)
    finally:
        for process in (shell, counting):
            process.kill()
            process.communicate()
    maps: dict[str, dict[str, Any]] = {}
    for line in (one for one in rest.splitlines() if b'"map"' in one):
        maps |= json.loads(line)["data"]
    return maps


def test_the_last_stretch_counts_and_nothing_is_kept_of_what_ended() -> None:
    maps = counted(SHORT)
    ran = [key for key in maps["@cpu"] if key.endswith(",true")]
    assert len(ran) == RUNS
    assert all(0 < maps["@cpu"][key] < 10 * 10**9 for key in ran)
    for working in ("@on", "@off", "@own", "@launch"):
        assert maps.get(working, {}) == {}


def test_a_thread_that_becomes_another_program_leaves_no_number_behind() -> None:
    maps = counted(f'{sys.executable} -c "{BY_A_THREAD}"')
    assert [key for key in maps["@cpu"] if key.endswith(",true")]
    for working in ("@on", "@own"):
        assert maps.get(working, {}) == {}
