"""The shipped file workloads with the real engine, small, on a directory.

Nothing here asserts a time: counts and states do not depend on the machine.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bw_command import bw, bw_words

EXAMPLES = Path(__file__).parents[2] / "examples" / "load"
SET = "benchwright-files"
SMALL = {
    # Bytes of a set count here, not its shape.
    "db_tp": (r'size = "64M"', 'size = "256k"'),
    "oltp-files": (r'size = "10M"', 'size = "256k"'),
    "peer-peer": (r'"(\d+)k", ', r'"\1", '),
    "fileserver": (r"directories = 22 ", "directories = 2 "),
    "webserver": (r"directories = 50 ", "directories = 5 "),
}
CLOSED = ("fileserver", "webserver", "varmail", "oltp-files")


def small(directory: Path, name: str) -> Path:
    """Write a shipped workload with a small file set and few users; return its path."""
    text = (EXAMPLES / f"{name}.toml").read_text()
    if name in SMALL:
        text, changed = re.subn(*SMALL[name], text)
        assert changed
    text = re.sub(r"(files_per_load = .*)", r"\1" + '\nfor_rate = "4/s"', text)
    text = re.sub(r"users = \d+", "users = 4", text)
    path = directory / f"{name}.toml"
    path.write_text(text)
    return path


def document(directory: Path, *words: str) -> dict[str, Any]:
    """Return the document of a load that ended well."""
    done = bw(directory, "load", *words, "--json")
    assert done.returncode == 0, done.stderr + done.stdout[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.toml")))
def test_a_shipped_workload_runs_on_a_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").write_text("untouched")
    path = small(tmp_path, name)
    rate = () if name in CLOSED else ("--rate", "400")
    found = document(
        tmp_path, *(str(path), "--target", "dir:data", "--duration", "1s", "--warm-up", "0s"), *rate
    )
    result, files = found["result"], found["result"]["file_set"]
    assert result["counts"]["errors"] == 0, result["kinds"]["all"]["errors"]
    assert result["counts"]["completed"] > 50
    assert files["made"]["made"] == files["made"]["files"] > 0
    assert files["made"]["reused"] == 0
    for chain in result["sequences"].values():
        ended = chain["completed"] + chain["errors"] + chain["unfinished"]
        assert chain["started"] == ended
    assert "mix-differs" not in {finding["code"] for finding in found["findings"]}
    assert {path.name for path in (tmp_path / "data").iterdir()} == {SET, "mine"}
    assert (tmp_path / "data" / "mine").read_text() == "untouched"


def test_a_set_is_used_again_and_grows(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    path = tmp_path / "w.toml"
    path.write_text(
        '[files]\nfiles_per_load = 2\nsize = "1k"\n'
        '[[filament]]\ntype = "files"\nrate = 10\noperations = {read_file = 1, lookup = 1}\n'
    )
    run = (str(path), "--target", "dir:data", "--duration", "300ms")

    def made(*words: str) -> dict[str, int]:
        entry: dict[str, int] = document(tmp_path, *run, *words)["result"]["file_set"]["made"]
        return entry

    first, again, grown = made(), made(), made("--rate", "25")
    assert (first["made"], first["reused"]) == (20, 0)
    assert (again["made"], again["reused"]) == (0, 20)
    assert (grown["made"], grown["reused"]) == (30, 20)


def test_sizes_and_names_are_restored_and_what_was_written_stays(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "w.toml").write_text(
        '[files]\nfiles = 5\nsize = "1k"\n'
        '[[filament]]\ntype = "files"\nrate = 50\noperations = {getattr = 1}\n'
    )
    run = ("w.toml", "--target", "dir:data", "--duration", "100ms")
    document(tmp_path, *run)
    files = sorted(path for path in (tmp_path / "data" / SET).rglob("f*"))
    first = [path.read_bytes() for path in files]
    assert [len(one) for one in first] == [1024] * 5
    files[0].write_bytes(b"x" * 1024)
    files[1].write_bytes(b"y" * 2000)
    files[2].write_bytes(b"z" * 10)
    files[3].unlink()
    made = document(tmp_path, *run)["result"]["file_set"]["made"]
    assert (made["reused"], made["repaired"], made["made"]) == (2, 2, 1)
    assert [path.read_bytes() for path in files] == [
        b"x" * 1024,
        b"y" * 1024,
        b"z" * 10 + first[2][10:],
        *first[3:],
    ]


@pytest.mark.parametrize(("operation", "error"), [("mkdir", "EEXIST"), ("create", None)])
def test_operations_without_a_usable_object_are_counted(
    tmp_path: Path, operation: str, error: str | None
) -> None:
    (tmp_path / "data").mkdir()
    # Every name exists from the start: there is nothing to make.
    (tmp_path / "w.toml").write_text(
        '[files]\nfiles = 3\nempty_directories = 3\nsize = "1k"\nspare = "0%"\n'
        f'[[filament]]\ntype = "files"\nrate = 100\noperations = {{{operation} = 1}}\n'
    )
    run = ("w.toml", "--target", "dir:data", "--duration", "300ms")
    run = (*run, "--max-errors", "100%")
    found = document(tmp_path, *run)
    result = found["result"]
    sent = result["counts"]["completed"]
    # Some more are drawn before the run ends.
    assert result["file_set"]["unavailable"] >= sent > 0
    errors = result["kinds"][operation]["errors"]
    assert errors == ({} if error is None else {error: sent})
    assert "objects-missing" in {finding["code"] for finding in found["findings"]}
    done = bw(tmp_path, "load", *run)
    assert re.search(r"; [\d,]+ operations without a usable object\n", done.stdout)


def test_a_folder_with_foreign_files_is_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "data" / SET
    foreign.mkdir(parents=True)
    (foreign / "thesis.tex").write_text("years of work")
    done = bw(tmp_path, "load", str(small(tmp_path, "mail")), "--target", "dir:data")
    assert done.returncode == 2
    assert "file-set-foreign" in done.stderr
    assert [path.name for path in foreign.iterdir()] == ["thesis.tex"]


def test_a_search_runs_a_workload(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    small(tmp_path, "mail")
    (tmp_path / "spec.toml").write_text(
        '[load]\ntarget = "dir:data"\nworkload = "mail.toml"\n'
        '[peak]\ncriteria = ["mean response < 1s"]\nstart = 50\nhighest = 100\n'
        'run_length = "1s"\nclaim = "rate:20%"\nbudget = "20s"\n'
    )
    done = bw(tmp_path, "peak", "spec.toml", "--json")
    assert done.returncode in (0, 3), done.stderr
    found = json.loads(done.stdout)
    assert found["trials"]
    requests = sorted(tmp_path.glob("bw-study/logs/**/request.json"))
    assert requests
    sent = json.loads(requests[0].read_text())["workload"]
    assert sent["file_set"]["files"] == {"type": "constant", "value": 8}
    assert {chain["name"] for chain in sent["filaments"][0]["chains"]} >= {"append", "read_file"}


def test_a_ramp_without_a_spec_resumes_with_the_stored_workload(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    path = small(tmp_path, "varmail")
    levels = ("--start", "1", "--highest", "8", "--hold", "500ms", "--repeats", "1")
    words = bw_words("ramp", path.name, "--target", "dir:data", *levels, "--json")
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        # The first load has ended when its line is printed.
        assert any(line.startswith("trial 1:") for line in process.stderr)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    path.unlink()
    done = bw(tmp_path, "resume", "--json")
    assert done.returncode == 0, done.stderr
    found = [point["level"] for point in json.loads(done.stdout)["points"]]
    assert len(found) > 1
    assert found == [1, 2, 4, 8][: len(found)]
