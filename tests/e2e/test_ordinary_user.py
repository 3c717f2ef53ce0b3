"""The main jobs as a user who is not root: all of it works, and what cannot be had is named.

Where the tests run as root they become `nobody`; else they are an ordinary user already.
"""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ordinary_user import User, ordinary_user

WORK = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
ASLR = Path("/proc/sys/kernel/randomize_va_space")


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    with ordinary_user() as (found, why):
        if found is None:
            pytest.skip(why)
        yield found


@pytest.fixture(scope="module")
def study(user: User) -> dict[str, Any]:
    """The document of a run, kept in `bw-study`."""
    done = user.bw("run", "--json", "--min-runs", "6", "--", "sh", "-c", WORK)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def evidence(document: dict[str, Any], code: str) -> str:
    """Return what the findings of a code say, joined."""
    return "; ".join(f["evidence"] for f in document["findings"] if f["code"] == code)


def test_the_user_is_no_root(user: User) -> None:
    assert user.run("id", "-u").stdout.strip() != "0"
    done = user.run("sh", "-c", f"echo 2 >{ASLR}")
    assert "denied" in done.stderr.lower()


def test_a_command_is_measured_watched_and_what_was_not_seen_is_named(
    user: User, study: dict[str, Any]
) -> None:
    (test,) = study["tests"]
    assert test["quantities"][0]["count"] == 6
    if not user.run("sh", "-c", "head -c0 </dev/kmsg").returncode:
        pytest.skip("the kernel's log may be read by everybody here")
    assert "kernel" in evidence(study, "not-watched")
    assert "permission" in evidence(study, "not-watched")


def test_the_study_is_private_and_his_own(user: User, study: dict[str, Any]) -> None:
    found = Path(study["study"]).stat()
    assert stat.S_IMODE(found.st_mode) == 0o700
    assert found.st_uid == int(user.run("id", "-u").stdout)


def test_stats_why_and_export_read_it(user: User, study: dict[str, Any]) -> None:
    stats = user.bw("stats", "bw-study", "--json")
    assert stats.returncode == 0, stats.stderr
    assert evidence(json.loads(stats.stdout), "not-watched") == evidence(study, "not-watched")
    why = user.bw("why", "bw-study", "--json")
    assert why.returncode == 0, why.stderr
    assert json.loads(why.stdout)["schema"].startswith("benchwright/why/")


def test_commands_are_compared(user: User) -> None:
    words = ("--study", "compared", "--json", "--", "true", "sleep 0.05")
    done = user.bw("compare", *words)
    assert done.returncode == 0, done.stderr
    (verdict,) = [
        one for one in json.loads(done.stdout)["verdicts"] if one.get("metric") == "elapsed"
    ]
    assert verdict["verdict"] == "slower"


@pytest.mark.parametrize("target", ["null", "data"])
def test_loads_are_generated_and_what_was_not_locked_is_named(user: User, target: str) -> None:
    (user.home / "data").write_bytes(bytes(1 << 20))
    (user.home / "data").chmod(0o666)
    done = user.bw("load", "--json", "--duration", "200ms", "--target", target)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"].startswith("benchwright/load/")


def test_the_machine_is_captured_and_each_absent_fact_has_its_reason(user: User) -> None:
    done = user.bw("env", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)["facts"]
    absent = [fact for fact in facts if fact["value"] is None]
    assert len(facts) > 100
    assert all(fact["absent"] for fact in absent)


def test_quiet_reports_what_it_may_not_change_and_runs_the_command(user: User) -> None:
    before = ASLR.read_text()
    done = user.bw("quiet", "aslr", "nologin", "--", "sh", "-c", "echo it ran")
    assert done.returncode == 0, done.stderr
    assert "it ran" in done.stdout
    assert f"{ASLR} may not be written: run as root" in done.stderr + done.stdout
    assert ASLR.read_text() == before


def test_quiet_that_must_be_had_is_refused_before_the_command(user: User) -> None:
    done = user.bw("quiet", "aslr", "--require", "--", "sh", "-c", "touch ran")
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "is unavailable" in done.stderr
    assert not (user.home / "ran").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--method", "drop-caches"), "run it as root"),
        (("--method", "remount", "--mount", "/"), "is not unmounted"),
        (("--method", "reboot"), "add --yes"),
    ],
)
def test_chill_is_refused_clearly(user: User, words: tuple[str, ...], told: str) -> None:
    done = user.bw("chill", *words)
    assert done.returncode in (1, 2), done.stdout
    assert told in done.stderr


def test_chill_evicts_what_the_command_names_and_takes_no_memory(user: User) -> None:
    (user.home / "data.img").write_bytes(bytes(range(256)) * 4096)
    setup = f"{sys.executable} -m benchwright.cli.main chill --json"
    words = ("--runs", "2", "--output", "null", "--setup", setup)
    done = user.bw("run", "--study", "cold", *words, "--", "cat", "data.img")
    assert done.returncode == 0, (done.stdout, done.stderr)
    told = (user.home / "cold/logs/s1/cat/setup-0.out").read_text()
    assert told.count('"method": "files"') == 2
    assert told.count('"after_pages": 0') == 2
    done = user.bw("chill")
    assert done.returncode == 2
    assert "there is no file to evict" in done.stderr


def test_a_suite_that_wants_quiet_goes_on_and_tells_what_it_lacked(user: User) -> None:
    text = 'quiet = ["aslr"]\n[[test]]\nexec = "true"\nuntil = {count = 3}\n'
    (user.home / "quiet.toml").write_text(text)
    done = user.bw("run", "quiet.toml", "--study", "quieted", "--json")
    assert done.returncode == 0, done.stderr
    assert "randomize_va_space" in evidence(json.loads(done.stdout), "quiet-incomplete")


@pytest.mark.parametrize(
    ("option", "code"),
    [("--profile", "profile-unavailable"), ("--characterize", "characterize-unavailable")],
)
def test_what_needs_more_rights_is_a_finding_or_is_there(
    user: User, option: str, code: str
) -> None:
    study = f"study{option}"
    words = ("run", option, "--json", "--study", study, "--min-runs", "3", "--")
    done = user.bw(*words, "sh", "-c", WORK)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    kept = [p.name for p in (user.home / study / "watched").rglob("*") if p.is_file()]
    beyond = [name for name in kept if not name.endswith(".jsonl.gz")]
    assert beyond or evidence(document, code)


def test_notices_are_sent(user: User) -> None:
    head = '[notify]\ncommand = ["/bin/sh", "-c", "cat >told"]\n'
    text = head + '[[test]]\nexec = "false"\n'
    (user.home / "notify.toml").write_text(text)
    assert user.bw("run", "notify.toml", "--study", "told-of").returncode == 1
    assert json.loads((user.home / "told").read_text())["event"] == "fail-fast"
