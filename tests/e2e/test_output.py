"""What becomes of a command's output: --output null, bounded, file, inherit."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BW = str(Path(sys.executable).with_name("bw"))
SEQ = "".join(f"{n}\n" for n in range(1, 300_001)).encode()
"""2 MB, as `seq 300000` prints it."""


def bw(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([BW, *words], cwd=tmp_path, capture_output=True, timeout=120)


def run(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return bw(tmp_path, "run", "--quiet", "--no-watch", "--min-runs", "3", *words)


def log(tmp_path: Path, name: str, test: str = "seq") -> Path:
    return tmp_path / "bw-study/logs/s1" / test / name


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def test_the_ends_of_a_large_output_are_kept_once(tmp_path: Path) -> None:
    done = run(tmp_path, "--max-runs", "20", "--", "seq", "300000")
    assert done.returncode == 0, done.stderr
    assert log(tmp_path, "exec-1.out").read_bytes() == SEQ[:65536] + SEQ[-65536:]
    text = (tmp_path / "bw-study/results/s1/seq.log").read_text()
    assert f"{len(SEQ):,} bytes" in text
    assert f"{len(SEQ) - 131072:,} bytes between them were left out" in text
    assert size_of(tmp_path / "bw-study") < 1_000_000


@pytest.mark.parametrize("output", ["bounded", "file", "inherit"])
def test_a_metric_is_read_from_the_middle(tmp_path: Path, output: str) -> None:
    words = ("--output", output, "--metric", "m~^(150000)$", "--json")
    done = run(tmp_path, *words, "--", "seq", "300000")
    assert done.returncode == 0, done.stderr
    (test,) = json.loads(done.stdout)["tests"]
    (metric,) = [q for q in test["quantities"] if q["name"] == "m"]
    assert (metric["mean"], metric["count"]) == (150000, 3)
    if output == "file":
        packed = log(tmp_path, "exec-1.out.gz").read_bytes()
        assert gzip.decompress(packed) == SEQ
        assert log(tmp_path, "exec-1.out").stat().st_size == 0
    else:
        assert log(tmp_path, "exec-1.out").read_bytes() == SEQ[:65536] + SEQ[-65536:]
    assert done.stderr.count(b"\n299999\n") == (3 if output == "inherit" else 0)


def test_a_metric_of_discarded_output_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "--output", "null", "--metric", "m~(1)", "--", "seq", "9")
    assert done.returncode == 2
    assert b"reads a metric from output that is discarded" in done.stderr
    assert not (tmp_path / "bw-study").exists()


def test_discarded_output_is_nowhere(tmp_path: Path) -> None:
    done = run(tmp_path, "--output", "null", "--", "seq", "300000")
    assert done.returncode == 0, done.stderr
    assert not log(tmp_path, "exec-1.out").exists()


def test_each_trial_keeps_its_own_bytes(tmp_path: Path) -> None:
    """Binary, of both streams and two threads, each trial its own, in every form."""
    script = r"printf '\000\377\033%s' $APEPOCH$APTHREAD; printf e$APEPOCH >&2"
    for output in ("bounded", "file", "inherit"):
        words = ("--threads", "2", "--output", output, "--study", output)
        done = run(tmp_path, *words, "--", "sh", "-c", script)
        assert done.returncode == 0, done.stderr
        text = (tmp_path / output / "results/s1/sh.log").read_bytes()
        for epoch in (1, 2, 3):
            for thread in (1, 2):
                head = f"[epoch {epoch} EXEC thread {thread} std"
                out = b"\x00\xff\x1b%d%d\n" % (epoch, thread)
                assert f"{head}out]\n".encode() + out in text, output
                assert f"{head}err]\ne{epoch}\n".encode() in text, output


def test_a_limit_stops_the_session_and_names_the_option(tmp_path: Path) -> None:
    done = run(tmp_path, "--output", "file:1M", "--", "yes")
    assert done.returncode == 1
    assert b"more than 1,048,576 bytes" in done.stderr
    assert b"--output file:4M" in done.stderr
    assert size_of(tmp_path / "bw-study") < 3_000_000_000


def test_a_limit_also_holds_for_what_is_kept(tmp_path: Path) -> None:
    words = ("--output", "file:1M", "--max-runs", "20", "--min-runs", "20")
    done = run(tmp_path, *words, "--", "head", "-c", "200k", "/dev/urandom")
    assert done.returncode == 1
    assert b"keeps more than 1,048,576 bytes" in done.stderr


def test_a_resume_goes_on_as_the_run_began(tmp_path: Path) -> None:
    words = ("--output", "file", "--", "sh", "-c", "[ -e go ] && seq 300000")
    assert run(tmp_path, *words).returncode == 1
    (tmp_path / "go").touch()
    done = bw(tmp_path, "resume", "--quiet")
    assert done.returncode == 0, done.stderr
    packed = log(tmp_path, "exec-1.out.gz", "sh").read_bytes()
    assert gzip.decompress(packed) == SEQ


def test_a_killed_run_is_resumed_with_its_output(tmp_path: Path) -> None:
    script = 'seq 300000; if [ $APEPOCH = 2 ] && [ ! -e k ]; then touch k; kill -9 "$P"; fi'
    shell = f"P=$$ exec {BW} run --quiet --no-watch --min-runs 3 --output file -- sh -c "
    killed = subprocess.run(["sh", "-c", shell + '"$0"', script], cwd=tmp_path, timeout=60)
    assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
    done = bw(tmp_path, "resume", "--quiet")
    assert done.returncode == 0, done.stderr
    packed = log(tmp_path, "exec-1.out.gz", "sh").read_bytes()
    assert gzip.decompress(packed) == SEQ


def test_who_keeps_stdout_open_holds_nothing_up(tmp_path: Path) -> None:
    done = run(tmp_path, "--", "sh", "-c", "setsid sleep 1000 & echo done")
    assert done.returncode == 0, done.stderr
    assert log(tmp_path, "exec-1.out", "sh").read_bytes() == b"done\n"


def test_a_suite_of_auto_pilot_keeps_everything(tmp_path: Path) -> None:
    (tmp_path / "a.ap").write_text(
        "TEST all 1\nEXEC seq 300000\nDONE\n"
        "TEST ends 1\nOUTPUT bounded\nEXEC seq 300000\nDONE\n"
        "TEST after 1\nEXEC seq 300000\nDONE\n"
    )
    done = bw(tmp_path, "run", "--quiet", "--no-watch", "a.ap")
    assert done.returncode == 0, done.stderr
    for test in ("all", "after"):
        packed = log(tmp_path, "exec-1.out.gz", test).read_bytes()
        assert gzip.decompress(packed) == SEQ
    assert log(tmp_path, "exec-1.out", "ends").stat().st_size == 131072


def test_toml_sets_it_for_a_suite_or_a_test(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        'output = "null"\nuntil = {count = 1}\n'
        '[[test]]\nname = "none"\nexec = "seq 300000"\n'
        '[[test]]\nname = "all"\noutput = "file:1G"\nexec = "seq 300000"\n'
    )
    done = bw(tmp_path, "run", "--quiet", "--no-watch", "a.toml")
    assert done.returncode == 0, done.stderr
    assert not log(tmp_path, "exec-1.out", "none").exists()
    assert gzip.decompress(log(tmp_path, "exec-1.out.gz", "all").read_bytes()) == SEQ


def test_compare_has_the_same_option(tmp_path: Path) -> None:
    words = ("--min-blocks", "3", "--max-blocks", "3", "--output", "null", "--no-watch")
    done = bw(tmp_path, "compare", "--quiet", *words, "--", "seq 300000", "seq 9")
    assert done.returncode in (0, 3), done.stderr
    assert list((tmp_path / "bw-study/logs/s1").rglob("exec-*")) == []


@pytest.mark.parametrize("text", ["fil", "file:", "file:x", "file:0", ""])
def test_an_unknown_output_is_refused(tmp_path: Path, text: str) -> None:
    done = run(tmp_path, "--output", text, "--", "true")
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare")
def test_a_full_disk_under_the_output_is_said(tmp_path: Path) -> None:
    script = (
        "mount -t tmpfs -o size=1500k none m && "
        f"{BW} run --quiet --no-watch --min-runs 3 --output file --study m/s"
        " -- sh -c 'head -c 4M /dev/urandom || true'"
    )
    (tmp_path / "m").mkdir()
    words = ["unshare", "--mount", "sh", "-c", script]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode in (1, 2), done.stderr
    assert b"Traceback" not in done.stderr
    assert b"make room" in done.stderr


def test_a_failed_command_shows_the_end_of_its_stderr(tmp_path: Path) -> None:
    script = r"seq 9 >&2; printf '\033[2Jcannot \303\244\n' >&2; exit 3"
    for output in ("bounded", "file", "inherit"):
        words = ("--study", output, "--output", output, "--", "sh", "-c", script)
        done = run(tmp_path, *words)
        assert done.returncode == 1
        file = "logs/s1/sh/exec-1.err" + (".gz" if output == "file" else "")
        told = [f"sh: the last lines of {output}/{file} (trial 1):"]
        told += [f"    {line}" for line in ("6", "7", "8", "9", "\\x1b[2Jcannot \u00e4")]
        assert "\n".join(told) in done.stdout.decode()
        assert "NAME" not in done.stdout.decode()
        assert b"too-few-trials" not in done.stdout
        assert b"\033" not in done.stdout
        assert (tmp_path / output / file).exists()


def test_json_has_the_end_of_stderr(tmp_path: Path) -> None:
    done = run(tmp_path, "--json", "--", "sh", "-c", "echo why; exit 3")
    document = json.loads(done.stdout)
    said = {"epoch": 1, "file": "logs/s1/sh/exec-1.out", "lines": ["why"]}
    assert document["stderr_tail"] == {"sh": said}


def test_compare_shows_the_end_of_stderr(tmp_path: Path) -> None:
    words = ("--max-blocks", "3", "--min-blocks", "3", "--no-watch", "--quiet")
    bad = "sh -c 'echo no such file >&2; exit 1'"
    done = bw(tmp_path, "compare", *words, "--", "true", bad)
    assert done.returncode == 1
    assert b"    no such file\n" in done.stdout


def test_a_failure_without_a_word_says_nothing_more(tmp_path: Path) -> None:
    done = run(tmp_path, "--output", "null", "--", "sh", "-c", "echo x; exit 3")
    assert done.returncode == 1
    assert b"the last lines of" not in done.stdout


def test_the_errors_of_a_failure_are_shown_when_output_is_discarded(tmp_path: Path) -> None:
    done = run(tmp_path, "--output", "null", "--", "sh", "-c", "echo x >&2; exit 3")
    assert done.returncode == 1
    assert b"bw-study/logs/s1/sh/exec-1.err (trial 1):\n    x\n" in done.stdout


def test_json_has_the_bytes_of_each_trial_and_stream(tmp_path: Path) -> None:
    script = "seq 300000; printf $APEPOCH >&2"
    done = run(tmp_path, "--json", "--", "sh", "-c", script)
    written = json.loads(done.stdout)["output"]["sh"]
    each = {"stdout_bytes": len(SEQ), "stderr_bytes": 1}
    trials = [{"epoch": epoch} | each for epoch in (1, 2, 3)]
    assert written == {"mode": "bounded", "trials": trials}


def test_equal_output_of_trials_in_several_batches_is_stored_once(tmp_path: Path) -> None:
    """A batch ends after a second: each of these trials is one of its own."""
    same = "sh -c 'seq 1 30000; sleep 1.05'"
    other = "sh -c 'seq $APEPOCH 9000; echo $APEPOCH >&2; sleep 1.05'"
    done = bw(tmp_path, "run", "--runs", "3", "--in-order", same, other)
    assert done.returncode == 0, done.stderr
    logs = tmp_path / "bw-study/logs/s1"
    assert (logs / "sh/exec-1.out").stat().st_size == 128 * 1024
    texts = [subprocess.check_output(["seq", str(n), "9000"]) for n in (1, 2, 3)]
    assert (logs / "sh-2/exec-1.out").read_bytes() == b"".join(texts)
    assert (logs / "sh-2/exec-1.err").read_bytes() == b"1\n2\n3\n"
    listed = (tmp_path / "bw-study/results/s1/sh.log").read_text()
    assert listed.count("[the same as in epoch 1]") == 2
