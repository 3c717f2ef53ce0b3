"""`[notify]` and `[remote]` of TOML suites, and the words of --notify."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchwright.cli.shared_options import read_notify
from benchwright.core.errors import InputError
from benchwright.core.notice import (
    ALL_EVENTS,
    AppriseTarget,
    CommandTarget,
    MailTarget,
    NoticeEvent,
    NoticeSettings,
    Secret,
    WebhookTarget,
)
from benchwright.suite.compile import load
from benchwright.suite.plan import PlannedTest, describe
from benchwright.suite.program import Program

TEST = '[[test]]\nexec = "true"\n'


def program(text: str) -> Program:
    """Compile a suite."""
    return load("s.toml", lambda _path: text, defines={}, environment={})


def mistakes(text: str) -> list[str]:
    """Return the mistakes of a suite: `line:column message`."""
    with pytest.raises(InputError) as caught:
        program(text)
    return [f"{d.line}:{d.column} {d.message}" for d in caught.value.diagnostics]


def test_everything_that_notify_can_say() -> None:
    notify = program(
        """
[notify]
on = ["failure", "done"]
command = [["beep"], ["notify-send", "bench"]]
[notify.mail]
to = ["a@b.c", "d@e.f"]
from = "bw@host"
host = "smtp.b.c"
port = 2525
security = "starttls"
user = "me"
password_file = "/home/me/.smtp"
[[notify.webhook]]
url = "https://hooks.b.c/x"
token_variable = "TOKEN"
[[notify.webhook]]
url_variable = "HOOK_URL"
[notify.apprise]
urls_variable = "URLS"
"""
        + TEST
    ).notify
    assert notify == NoticeSettings(
        (
            MailTarget(
                ("a@b.c", "d@e.f"),
                "bw@host",
                "smtp.b.c",
                2525,
                "starttls",
                "me",
                Secret("file", "/home/me/.smtp"),
            ),
            WebhookTarget("https://hooks.b.c/x", token=Secret("variable", "TOKEN")),
            WebhookTarget(url_from=Secret("variable", "HOOK_URL")),
            CommandTarget(("beep",)),
            CommandTarget(("notify-send", "bench")),
            AppriseTarget(Secret("variable", "URLS")),
        ),
        (NoticeEvent.FAILURE, NoticeEvent.DONE),
    )
    assert notify.wants(NoticeEvent.FAIL_FAST)
    assert not notify.wants(NoticeEvent.UNDECIDED)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[notify]\n", "1:2 there is no notification target"),
        ('[notify]\non = "dnoe"\ncommand = ["x"]', "2:6 there is no event 'dnoe'"),
        ("[notify]\non = []\ncommand = ['x']", "2:6 the list of events is empty"),
        ("[notify]\ncommand = 'beep'", "2:11 command is a string, expected an array"),
        ("[notify]\ncommand = ['']", "2:11 a command is an array of words, none of them empty"),
        ("[notify.mail]\nto = 'me'", "2:6 'me' is not a mail address"),
        ("[notify.mail]\nto = 'a@b'\nuser = 'a'", "1:2 a user and a password belong together"),
        (
            "[notify.mail]\nto = 'a@b'\nhost = 'h'\nuser = 'a'\npassword_variable = 'P'",
            "1:2 the password would go to h unencrypted",
        ),
        ("[notify.mail]\nto = 'a@b'\npassword = 'x'", "3:1 unknown key 'password'"),
        (
            "[notify.webhook]\ntoken_variable = 'a b'\nurl = 'https://h'",
            "2:18 this is not the name of an environment variable",
        ),
        (
            "[notify.webhook]\nurl = 'http://h/x'\ntoken_variable = 'T'",
            "2:7 the token would cross the network unencrypted: use https://",
        ),
        (
            "[notify.webhook]\nurl = 'https://me:secret@h/'",
            "2:7 the URL contains a user or password: give a token instead",
        ),
        ("[notify.apprise]\nurls = ['x']", "2:1 unknown key 'urls'"),
        ("[remote]\n", "1:2 [remote] has no host"),
        (
            "[remote]\nhost = 'h'\nhooks = ['free-beer']",
            "3:10 'free-beer' is not a hook that can be sent: must be "
            "one of disk-io, free-memory, network, nfsd, other-cpu",
        ),
        (
            "[remote]\nhost = 'h'\nprocesses = ['a b']",
            "3:14 'a b' is not a process: give a name, or pid:/run/FILE.pid",
        ),
        ("[remote]\nhost = 'h'\nprefix = 'Nfs'", "3:10 'Nfs' cannot begin the names of values"),
        ("[remote]\nhost = 'h'\ntimeout_s = 0", "3:13 timeout_s is out of range"),
        ('[remote]\nhost = "h"\nbefore = "a\\nb"', "3:10 before is more than one line"),
    ],
)
def test_mistakes_are_placed(text: str, found: str) -> None:
    assert found in mistakes(text + "\n" + TEST)


def test_remote_sets_the_hooks_variables_and_is_one_of_any_hooks() -> None:
    suite = program("""
[factors]
fs = ["ext4"]
[remote]
host = "nfs"
processes = ["nfsd", "pid:/run/x.pid"]
before = "mount-{fs}"
hooks = "disk-io"
timeout_s = 5
[[test]]
exec = "true"
[[test]]
name = "own"
exec = "true"
hooks = "free-memory"
""")
    planned = describe(suite, defines={}, environment={})
    plain, own = (one.plan for one in planned if isinstance(one, PlannedTest))
    assert (plain.hooks, own.hooks) == (("remote",), ("free-memory", "remote"))
    assert dict(plain.environment) == {
        "BW_REMOTE_HOST": "nfs",
        "BW_REMOTE_PROCESSES": "nfsd pid:/run/x.pid",
        "BW_REMOTE_HOOKS": "disk-io",
        "BW_REMOTE_BEFORE": "mount-ext4",
        "BW_REMOTE_AFTER": "",
        "BW_REMOTE_PREFIX": "",
        "BW_REMOTE_SSH_CONFIG": "",
        "BW_REMOTE_TIMEOUT_S": "5",
    }


def test_words_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "https://h/secret")
    monkeypatch.setenv("ROOM", "slack://secret")
    file = tmp_path / "me.toml"
    file.write_text("[notify]\non = 'done'\ncommand = ['beep']\n")
    words = ["mail:a@b,c@d", "https://h/x", "env:HOOK", "env:ROOM", "command:say 'a b'"]
    of_file, of_words = read_notify([*words, str(file)], None)
    assert of_file == NoticeSettings((CommandTarget(("beep",)),), (NoticeEvent.DONE,))
    assert of_words == NoticeSettings(
        (
            MailTarget(("a@b", "c@d")),
            WebhookTarget("https://h/x"),
            WebhookTarget(url_from=Secret("variable", "HOOK")),
            AppriseTarget(Secret("variable", "ROOM")),
            CommandTarget(("say", "a b")),
        ),
        ALL_EVENTS,
    )
    (told,) = read_notify(["https://h/x"], "failure, undecided")
    assert told.on == (NoticeEvent.FAILURE, NoticeEvent.UNDECIDED)


@pytest.mark.parametrize(
    ("words", "on", "message"),
    [
        (["me@host"], None, "'me@host' is not a notification target"),
        (["mail:me"], None, "'me' is not a mail address"),
        (["env:NOT_THERE"], None, "the variable NOT_THERE is not set"),
        (["env:a b"], None, "'a b' is not the name of a variable"),
        (["https://u:p@h"], None, "the URL contains a user or password"),
        (["command:'"], None, "No closing quotation"),
        (["/no/file.toml"], None, "there is no such file"),
        (["mail:a@b"], "never", "there is no event 'never'"),
        ([], "done", "there is no --notify"),
    ],
)
def test_wrong_words(words: list[str], on: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_notify(words, on)


def test_a_file_of_addresses_that_might_never_end_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f.toml")
    (tmp_path / "z.toml").symlink_to("/dev/zero")
    for name in ("f.toml", "z.toml"):
        with pytest.raises(InputError, match="is not a regular file"):
            read_notify([str(tmp_path / name)], None)
