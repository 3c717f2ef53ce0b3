"""Notices over real sockets: a mail server, an HTTP server, a program, all on this machine."""

from __future__ import annotations

import email
import email.policy
import importlib.util
import json
import os
import shutil
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchwright.core.extras import install_command
from benchwright.core.notice import (
    AppriseTarget,
    CommandTarget,
    MailTarget,
    Notice,
    NoticeDelivery,
    NoticeEvent,
    NoticeSettings,
    NoticeTarget,
    Secret,
    WebhookTarget,
)
from benchwright.notice import send
from benchwright.notice.deliver import NoticeLimits, deliver
from benchwright.notice.text import SendRequest
from smtp_stand_in import MailServer, certificate, serving

NOTICE = Notice(
    event=NoticeEvent.FAIL_FAST,
    study="/s/bw-study",
    session=1,
    host="host",
    suite="disk\nsuite.toml",
    status="failed",
    exit_status=1,
    reason="fsck:1: `fsck` exited with 4 — schlecht",
    tests=("fsck:1",),
)
QUICK = NoticeLimits(pauses_s=(0.0, 0.0), answer_s=5.0)
needs_apprise = pytest.mark.skipif(
    importlib.util.find_spec("apprise") is None,
    reason="apprise is not installed (the extra notify)",
)


def sent(
    target: NoticeTarget,
    environment: dict[str, str] | None = None,
    limits: NoticeLimits = QUICK,
    notice: Notice = NOTICE,
) -> NoticeDelivery:
    """Deliver the notice to one target; return the result."""
    variables = dict(os.environ) | (environment or {})
    (delivery,) = deliver([NoticeSettings((target,))], notice, limits, variables)
    return delivery


def mail_to(server: MailServer, **more: Any) -> MailTarget:
    """Return settings for the stand-in."""
    defaults = {"to": ("me@example.org",), "sender": "bw@host.example", "port": server.port}
    return MailTarget(**{**defaults, "host": "127.0.0.1", **more})


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    return certificate(tmp_path_factory.mktemp("tls"))


@needs_apprise
def test_mail_arrives_whole() -> None:
    with serving(server := MailServer()):
        delivery = sent(mail_to(server, to=("me@example.org", "you@example.org")))
    assert delivery == NoticeDelivery("mail to me@example.org, you@example.org by 127.0.0.1", 1)
    messages = [
        email.message_from_bytes(raw, policy=email.policy.default) for raw in server.messages
    ]
    assert [one["To"] for one in messages] == ["me@example.org", "you@example.org"]
    message = messages[0]
    assert message["Subject"] == ("bw: disk suite.toml stopped at its first failure on host")
    body = message.get_body()
    assert body is not None
    assert "exited with 4 — schlecht" in body.get_content()
    (attached,) = message.iter_attachments()
    assert attached.get_filename() == "notice.json"
    assert json.loads(attached.get_content())["schema"] == "benchwright/notice/1"
    assert [one for one in server.lines if one.upper().startswith("RCPT")] == [
        "rcpt TO:<me@example.org>",
        "rcpt TO:<you@example.org>",
    ]


@needs_apprise
def test_a_host_with_an_odd_name_sends_mail_too() -> None:
    notice = msgspec.structs.replace(NOTICE, host="my box\n.local")
    with serving(server := MailServer()):
        assert sent(mail_to(server, sender=""), notice=notice).error == ""
    message = email.message_from_bytes(server.messages[0], policy=email.policy.default)
    assert message["From"].endswith("@localhost")


@needs_apprise
def test_a_password_goes_over_starttls_from_a_private_file(
    tmp_path: Path, tls: tuple[Path, ssl.SSLContext]
) -> None:
    (file := tmp_path / "password").write_text("right\n")
    file.chmod(0o600)
    with serving(server := MailServer(tls[1])):
        mail = mail_to(
            server,
            host="localhost",
            security="starttls",
            user="me",
            password=Secret("file", str(file)),
            ca_file=str(tls[0]),
        )
        assert sent(mail).error == ""
        file.chmod(0o644)
        assert sent(mail).error.endswith(f"chmod 600 {file}")
    assert server.logins == [("me", "right", True)]
    assert len(server.messages) == 1


@needs_apprise
def test_a_certificate_that_nobody_vouches_for_gets_no_password(
    tls: tuple[Path, ssl.SSLContext],
) -> None:
    with serving(server := MailServer(tls[1])):
        mail = mail_to(
            server,
            host="localhost",
            security="starttls",
            user="me",
            password=Secret("variable", "PASSWORD"),
        )
        once = msgspec.structs.replace(QUICK, pauses_s=())
        delivery = sent(mail, {"PASSWORD": "right"}, once)
    assert "certificate verify failed" in delivery.error
    assert server.logins == []


@needs_apprise
def test_starttls_is_not_left_out_where_the_server_has_none() -> None:
    with serving(server := MailServer()):
        once = msgspec.structs.replace(QUICK, pauses_s=())
        mail = mail_to(server, security="starttls")
        assert "STARTTLS" in sent(mail, limits=once).error
    assert server.messages == []


@needs_apprise
def test_a_wrong_password_is_reported_without_it() -> None:
    with serving(server := MailServer()):
        mail = mail_to(server, user="me", password=Secret("variable", "PASSWORD"))
        delivery = sent(mail, {"PASSWORD": "very-secret"})
    assert server.logins[0][1] == "very-secret"
    assert delivery.error == "(535, b'no entry with ***')"
    assert delivery.tries == 1


@needs_apprise
def test_mail_is_tried_again_when_the_server_asks_for_it() -> None:
    with serving(server := MailServer(answers=["450 later", "451 later"])):
        assert sent(mail_to(server)) == NoticeDelivery("mail to me@example.org by 127.0.0.1", 3)
    with serving(server := MailServer(answers=["550 nobody of that name"])):
        delivery = sent(mail_to(server))
    assert delivery.tries == 1
    assert "(550, b'nobody of that name')" in delivery.error


@needs_apprise
def test_a_server_that_says_nothing_does_not_hold_anybody_up() -> None:
    with serving(server := MailServer(silent=True)):
        limits = NoticeLimits(pauses_s=(), answer_s=60.0, most_s=0.2)
        delivery = sent(mail_to(server), limits=limits)
    assert delivery.error == "stopped after 0.2 s without an answer"


class Hook(ThreadingHTTPServer):
    """An HTTP server that answers from a list, then 200."""

    def __init__(self, *answers: int) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.answers = list(answers)
        self.posts: list[tuple[dict[str, str], Any]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posts.append((dict(self.headers), json.loads(data)))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 200)
        self.send_header("Location", self.server.url)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the tests' output clean."""


def test_a_webhook_gets_the_document_and_a_token() -> None:
    with serving(server := Hook()):
        hook = WebhookTarget(server.url + "/x", token=Secret("variable", "TOKEN"))
        assert sent(hook, {"TOKEN": "secret"}).error == ""
    ((headers, document),) = server.posts
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Content-Type"] == "application/json"
    assert document["schema"] == "benchwright/notice/1"
    assert document["event"] == "fail-fast"
    assert document["tests"] == ["fsck:1"]
    assert document["reason"] == NOTICE.reason


@pytest.mark.parametrize(("status", "tries"), [(503, 2), (429, 2), (404, 1), (307, 1)])
def test_a_webhook_is_tried_again_only_where_that_may_help(status: int, tries: int) -> None:
    with serving(server := Hook(status)):
        delivery = sent(WebhookTarget(server.url))
    assert delivery.tries == tries == len(server.posts)
    assert (delivery.error == "") == (tries == 2)
    keys = {headers["Idempotency-Key"] for headers, _ in server.posts}
    assert len(keys) == 1


def test_https_is_checked(tls: tuple[Path, ssl.SSLContext]) -> None:
    server = Hook()
    server.socket = tls[1].wrap_socket(server.socket, server_side=True)
    url = f"https://localhost:{server.server_address[1]}/"
    with serving(server):
        assert sent(WebhookTarget(url, ca_file=str(tls[0]))).error == ""
        assert "certificate is not trusted" in sent(WebhookTarget(url)).error
    assert len(server.posts) == 1


def test_an_url_from_a_variable_is_never_told() -> None:
    hook = WebhookTarget(url_from=Secret("variable", "URL"))
    delivery = sent(hook, {"URL": "http://127.0.0.1:9/very-secret"})
    assert delivery.error == "Connection refused"
    assert "very-secret" not in repr(delivery)
    assert sent(hook).error == "the environment variable URL is not set"


def test_a_command_gets_the_notice_on_stdin_and_in_variables(tmp_path: Path) -> None:
    text = (
        "import json, os, sys; d = json.load(sys.stdin); open(sys.argv[1], 'w').write("
        "' '.join([d['event'], os.environ['BW_NOTICE_EVENT'], os.environ['BW_NOTICE_TESTS']]))"
    )
    out = tmp_path / "out"
    assert sent(CommandTarget((sys.executable, "-c", text, str(out)))).error == ""
    assert out.read_text() == "fail-fast fail-fast fsck:1"


def test_why_a_command_failed_is_reported() -> None:
    failed = sent(CommandTarget(("/bin/sh", "-c", "echo no such pager >&2; exit 3")))
    assert failed.error == "ended with exit status 3: no such pager"
    missing = sent(CommandTarget(("/no/such/program",)))
    assert missing.error == "cannot be started: No such file or directory"
    limits = msgspec.structs.replace(QUICK, command_s=0.1)
    slow = sent(CommandTarget(("sleep", "60")), limits=limits)
    assert slow.error == "stopped after 0.1 s without an answer"


@needs_apprise
def test_apprise_notifies_by_its_own_urls() -> None:
    target = AppriseTarget(Secret("variable", "URLS"))
    once = msgspec.structs.replace(QUICK, pauses_s=())
    with serving(server := Hook()):
        url = server.url.replace("http://", "json://")
        assert sent(target, {"URLS": url}).error == ""
        failed = sent(target, {"URLS": "json://127.0.0.1:9/secret"}, once)
    assert failed.error == "apprise could not deliver it to every URL"
    ((_, document),) = server.posts
    assert document["type"] == "failure"
    assert "exited with 4" in document["message"]


@needs_apprise
def test_only_the_url_that_failed_is_tried_again() -> None:
    with serving(first := Hook()), serving(second := Hook(503)):
        urls = f"{first.url} {second.url}".replace("http://", "json://")
        delivery = sent(AppriseTarget(Secret("variable", "URLS")), {"URLS": urls})
    assert (delivery.tries, delivery.error) == (2, "")
    assert (len(first.posts), len(second.posts)) == (1, 2)


def test_without_apprise_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    for target in (MailTarget(("me@example.org",)), AppriseTarget(Secret("file", "/x"))):
        tries, error = send.send(SendRequest(target, NOTICE, 1.0, ()))
        assert tries == 1
        assert error.startswith("apprise is not installed: ")
        assert error.endswith(install_command("notify"))


def test_targets_are_served_at_the_same_time(tmp_path: Path) -> None:
    """Each waits for the other: one after the other, neither would end."""
    script = "touch $1; until [ -e $2 ]; do sleep 0.01; done"
    one, two = str(tmp_path / "1"), str(tmp_path / "2")
    targets = (
        CommandTarget(("sh", "-c", script, "sh", one, two)),
        CommandTarget(("sh", "-c", script, "sh", two, one)),
    )
    deliveries = deliver([NoticeSettings(targets)], NOTICE, QUICK)
    assert [one.error for one in deliveries] == ["", ""]
