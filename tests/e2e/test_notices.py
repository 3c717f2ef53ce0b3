"""Notices of whole sessions: each end is told once, and no secret is kept anywhere."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from smtp_stand_in import MailServer, serving

BW = [sys.executable, "-m", "benchwright.cli.main"]
WHOM = ("--notify", "command:sh -c 'cat >told-$BW_NOTICE_EVENT'")
TELL = '[notify]\ncommand = ["/bin/sh", "-c", "cat >told-$BW_NOTICE_EVENT"]\n'


def suite(directory: Path, command: str, more: str = "", head: str = TELL) -> None:
    """Write a suite of one test."""
    text = f"{head}{more}\n[[test]]\nname = 'it'\nexec = '''{command}'''\n"
    (directory / "s.toml").write_text(text + "until = {count = 3}\n")


def bw(directory: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run bw in a directory."""
    return subprocess.run(
        [*BW, *words],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | more,
    )


def told(directory: Path) -> dict[str, Any]:
    """Return the one notice that was sent."""
    (path,) = directory.glob("told-*")
    document: dict[str, Any] = json.loads(path.read_text())
    assert path.name == f"told-{document['event']}"
    return document


def kept(directory: Path) -> list[Any]:
    """Return what the study keeps of notices."""
    path = directory / "bw-study" / "notices.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("command", "event", "status"), [("true", "done", 0), ('sh -c "exit 5"', "fail-fast", 1)]
)
def test_an_end_is_told_once(tmp_path: Path, command: str, event: str, status: int) -> None:
    suite(tmp_path, command)
    done = bw(tmp_path, "run", "s.toml")
    assert done.returncode == status, done.stderr
    document = told(tmp_path)
    assert document["event"] == event
    assert document["exit_status"] == status
    assert document["study"] == str(tmp_path / "bw-study")
    assert document["suite"] == "s.toml"
    assert document["tests"] == (["it"] if status else [])
    if status:
        assert "exited with status 5" in document["reason"]
        assert "command-failed" in {one["code"] for one in document["findings"]}
    else:
        assert {one["quantity"] for one in document["results"]} == {"elapsed"}
        assert "it: " in document["summary"]
    (line,) = kept(tmp_path)
    assert line["deliveries"] == [{"target": "command /bin/sh", "tries": 1, "error": ""}]


def test_failures_without_fail_fast_and_no_answer_are_told_at_the_end(tmp_path: Path) -> None:
    suite(tmp_path, "[ $APEPOCH != 2 ]", head="fail_fast = false\n" + TELL)
    assert bw(tmp_path, "run", "s.toml").returncode == 1
    document = told(tmp_path)
    assert (document["event"], document["tests"]) == ("failure", ["it"])


def test_an_interruption_is_told_and_its_resume_tells_again(tmp_path: Path) -> None:
    suite(tmp_path, "[ -e go ] || { touch begun; sleep 600; }")
    with subprocess.Popen([*BW, "run", "s.toml"], cwd=tmp_path) as process:
        while not (tmp_path / "begun").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    document = told(tmp_path)
    assert (document["event"], document["tests"]) == ("interrupted", ["it"])
    (tmp_path / "told-interrupted").unlink()
    (tmp_path / "go").touch()
    done = bw(tmp_path, "resume")
    assert done.returncode == 0, done.stderr
    assert told(tmp_path)["event"] == "done"
    assert [one["notice"]["event"] for one in kept(tmp_path)] == ["interrupted", "done"]


def test_a_notice_that_nobody_takes_changes_no_result(tmp_path: Path) -> None:
    head = "[notify]\ncommand = ['false']\n[notify.webhook]\nurl_variable = 'URL'\n"
    suite(tmp_path, "true", head=head)
    done = bw(tmp_path, "run", "s.toml", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["status"] == "complete"
    assert "bw: notice not delivered: command false: ended with exit status 1\n" in done.stderr
    assert "webhook of variable URL: the environment variable URL is" in done.stderr
    assert [one["error"] != "" for one in kept(tmp_path)[0]["deliveries"]] == [True] * 2


def test_a_secret_in_a_command_is_in_no_notice(tmp_path: Path) -> None:
    secrets = ("hunter22", "ghp_abcdefghijklmnopqrstuvwxyz0123456789")
    script = f"echo mypassword={secrets[0]} {secrets[1]}; exit 3"
    whom = ("--notify", "command:sh -c 'cat >told; env >variables'")
    done = bw(tmp_path, "run", "--max-runs", "3", *whom, "--", "sh", "-c", script)
    assert done.returncode == 1, done.stderr
    sent = (tmp_path / "told").read_text() + (tmp_path / "variables").read_text()
    sent += (tmp_path / "bw-study" / "notices.jsonl").read_text()
    assert "[redacted]" in json.loads((tmp_path / "told").read_text())["reason"]
    assert not [secret for secret in secrets if secret in sent]


def test_only_the_events_asked_for_are_told(tmp_path: Path) -> None:
    suite(tmp_path, "true", head=TELL.replace("[notify]", "[notify]\non = ['failure']"))
    assert bw(tmp_path, "run", "s.toml").returncode == 0
    assert not (tmp_path / "bw-study" / "notices.jsonl").exists()
    suite(tmp_path, "false", head=TELL.replace("[notify]", "[notify]\non = ['failure']"))
    assert bw(tmp_path, "run", "s.toml").returncode == 1
    assert told(tmp_path)["event"] == "fail-fast"


def test_mail_of_a_failure_and_no_password_in_the_study(tmp_path: Path) -> None:
    """A server that refuses and quotes the password is the worst that can happen."""
    (tmp_path / "password").write_text("Tr0ub4dor")
    (tmp_path / "password").chmod(0o600)
    with serving(server := MailServer()):
        head = (
            "[notify.mail]\nto = 'me@example.org'\nfrom = 'bw@example.org'\n"
            f"host = '127.0.0.1'\nport = {server.port}\n"
        )
        suite(tmp_path, "false", head=head)
        assert bw(tmp_path, "run", "s.toml").returncode == 1
        secret = f"user = 'me'\npassword_file = '{tmp_path}/password'\n"
        suite(tmp_path, "false", head=head + secret)
        done = bw(tmp_path, "run", "s.toml")
    assert done.returncode == 1
    assert server.logins == [("me", "Tr0ub4dor", False)]
    (raw,) = server.messages
    assert b"Subject: bw: s.toml stopped at its first failure on " in raw
    assert "no entry with ***" in done.stderr
    for path in (tmp_path / "bw-study").rglob("*"):
        assert path.is_dir() or b"Tr0ub4dor" not in path.read_bytes(), path


def test_a_comparison_tells_whom_the_command_line_names(tmp_path: Path) -> None:
    words = ("--max-blocks", "10", "--max-time", "20s", "--json", "--", "true", "sleep 0.02")
    done = bw(tmp_path, "compare", *WHOM, "--notify-on", "done,undecided", *words)
    assert done.returncode == 0, done.stderr
    document = told(tmp_path)
    assert document["event"] == "done"
    assert document["suite"] == "<comparison>"
    assert "times as slow" in document["summary"]
    assert {one["test"] for one in document["results"]} == {"true", "sleep"}


def test_a_search_that_finds_nothing_to_run_is_told(tmp_path: Path) -> None:
    words = ("--response", "/mean", "--limit", "10ms", "--command", "false {rate} {duration}")
    done = bw(tmp_path, "peak", *WHOM, *words)
    assert done.returncode == 1, done.stderr
    document = told(tmp_path)
    assert document["event"] in ("failure", "fail-fast")
    assert document["exit_status"] == 1


def test_a_stop_at_a_checkpoint_is_no_end(tmp_path: Path) -> None:
    """As a suite that restarts the machine does; --notify, kept, holds after the resume."""
    text = "CHECKPOINT\nIF RESTORE = 0\n  STOP\nFI\nTEST it 3\n  EXEC true\nDONE\n"
    (tmp_path / "s.ap").write_text(text.replace("RESTORE", "%RESTORE%"))
    assert bw(tmp_path, "run", "s.ap", *WHOM).returncode == 0
    assert list(tmp_path.glob("told-*")) == []
    done = bw(tmp_path, "resume")
    assert done.returncode == 0, done.stderr
    assert told(tmp_path)["event"] == "done"


@pytest.mark.parametrize(
    ("command", "event", "status"), [("true", "done", 0), ("false", "fail-fast", 1)]
)
def test_a_suite_of_auto_pilots_language_tells_whom_the_command_line_names(
    tmp_path: Path, command: str, event: str, status: int
) -> None:
    """Its own script of FASTFAIL is run as ever, beside the notice."""
    text = f"FASTFAIL touch fast-failed\nTEST it 3\n  EXEC {command}\nDONE\n"
    (tmp_path / "s.ap").write_text(text)
    assert bw(tmp_path, "run", "s.ap", *WHOM).returncode == status
    document = told(tmp_path)
    assert (document["event"], document["suite"]) == (event, "s.ap")
    assert document["tests"] == (["it"] if status else [])
    assert (tmp_path / "fast-failed").exists() is bool(status)
