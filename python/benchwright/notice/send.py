"""Sends a notice to one target. `deliver` runs this program and may end it at any time.

    python -m benchwright.notice.send < REQUEST > [attempts, "error; empty if it was sent"]

Decision: apprise sends mail and handles its own URLs; urllib posts to webhooks, because
apprise would wrap the document in a message of its own. Certificates are always checked, a
password is sent only over TLS or to this machine itself, and no redirect is followed. The
memory limit of this process bounds what a server can make it read. Sources: RFC 5321, RFC 9110.
"""

from __future__ import annotations

import hashlib
import http.client
import importlib
import logging
import os
import re
import resource
import ssl
import stat
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import IO, Any

import msgspec

from benchwright import __version__
from benchwright.core.extras import install_command
from benchwright.core.notice import (
    AppriseTarget,
    MailTarget,
    Notice,
    NoticeEvent,
    Secret,
    WebhookTarget,
)
from benchwright.core.untrusted import open_regular
from benchwright.notice import text
from benchwright.notice.text import LOOPBACK, SendRequest, url_fault

MOST_MEMORY_BYTES = 512 << 20
_MOST_SECRET_BYTES = 65536
_RETRIED = (408, 425, 429)
"""HTTP statuses below 500 after which another attempt may succeed."""
_PERMANENT = re.compile(r"\(5\d\d, ")
"""Matches an SMTP server's response in apprise's log after which no attempt can succeed."""
_KINDS = {
    NoticeEvent.FAIL_FAST: "failure",
    NoticeEvent.FAILURE: "failure",
    NoticeEvent.DONE: "success",
    NoticeEvent.UNDECIDED: "warning",
    NoticeEvent.INTERRUPTED: "warning",
}
_SECURE_MODES = {"none": "insecure", "starttls": "starttls", "tls": "ssl"}
_DOMAIN = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")


class NotDelivered(Exception):
    """A notice was not accepted; `retry`: another attempt may succeed."""

    def __init__(self, message: str, *, retry: bool = False) -> None:
        super().__init__(message)
        self.retry = retry


def main() -> None:
    """Read the request from stdin; print the number of attempts and the error."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, hard))
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=SendRequest)
    sys.stdout.buffer.write(msgspec.json.encode(send(request)))


def send(request: SendRequest) -> tuple[int, str]:
    """Send a notice; return the number of attempts and the error, empty if it was sent."""
    tries = 0
    try:
        attempt = _attempt(request)
        for pause_s in (0.0, *request.pauses_s):
            time.sleep(pause_s)
            tries += 1
            try:
                attempt()
            except NotDelivered as error:
                last = error
                if not error.retry:
                    break
            else:
                return tries, ""
    except NotDelivered as error:
        last = error
    except MemoryError:
        last = NotDelivered("the server's reply does not end")
    return max(tries, 1), text.one_line(str(last), 300)


def _attempt(request: SendRequest) -> Callable[[], None]:
    """Return a function that makes one attempt. Both raise NotDelivered."""
    match request.target:
        case WebhookTarget() as webhook:
            return _webhook(webhook, request)
        case MailTarget() as mail:
            return _mail(mail, request)
        case AppriseTarget(urls_from=secret):
            return _apprise(secret, request)


# -- apprise -----------------------------------------------------------------------------


def _mail(mail: MailTarget, request: SendRequest) -> Callable[[], None]:
    """Return the attempt to mail every address, with the document attached."""
    library = _library()
    memory = importlib.import_module("apprise.attachment.memory")
    notice = request.notice
    # apprise rejects a short name without a domain as part of an address.
    host = notice.host if _DOMAIN.fullmatch(notice.host) else "localhost"
    password = _revealed(mail.password) if mail.password else ""
    if mail.ca_file:
        os.environ["SSL_CERT_FILE"] = mail.ca_file
    settings = {
        "schema": "mailto",
        "host": mail.host,
        "smtp_host": mail.host,
        "port": mail.port,
        "secure_mode": _SECURE_MODES[mail.security],
        "user": mail.user or None,
        "password": password or None,
        "from_addr": mail.sender or f"{_user()}@{host}",
        "format": "text",
        "cto": request.answer_s,
        "rto": request.answer_s,
    }
    servers = [_server(library, settings | {"targets": [to]}, f"mail to {to}") for to in mail.to]
    attachment = memory.AttachMemory(
        content=text.document(notice), name="notice.json", mimetype="application/json"
    )
    message = _message(notice) | {"attach": attachment}

    def attempt() -> None:
        with _Reasons() as reasons:
            servers[:] = [server for server in servers if not server.notify(**message)]
        if servers:
            reason = reasons.last or "apprise could not deliver it"
            if password:
                reason = reason.replace(password, "***")
            raise NotDelivered(reason, retry=not _PERMANENT.search(reason))

    return attempt


def _apprise(secret: Secret, request: SendRequest) -> Callable[[], None]:
    """Return the attempt to notify each apprise URL; no message contains the URLs."""
    library = _library()
    servers = [
        _server(library, _with_limits(url, request.answer_s), f"URL {number}")
        for number, url in enumerate(_revealed(secret).split(), 1)
    ]

    def attempt() -> None:
        message = _message(request.notice)
        servers[:] = [server for server in servers if not server.notify(**message)]
        if servers:
            raise NotDelivered("apprise could not deliver it to every URL", retry=True)

    return attempt


def _library() -> Any:
    try:
        return importlib.import_module("apprise")
    except ImportError:
        advice = install_command("notify")
        raise NotDelivered(f"apprise is not installed: {advice}") from None


def _server(library: Any, settings: Any, name: str) -> Any:
    """Return apprise with one server, so that an attempt is repeated only for that server."""
    server = library.Apprise()
    if not server.add(settings):
        raise NotDelivered(f"apprise does not accept {name}")
    for plugin in server:
        plugin.request_rate_per_sec = 0  # this program makes the pauses itself
    return server


def _message(notice: Notice) -> dict[str, Any]:
    return {
        "title": text.subject(notice),
        "body": text.body(notice),
        "notify_type": _KINDS[notice.event],
    }


def _with_limits(url: str, answer_s: float) -> str:
    """Return a URL with apprise's connect and read timeouts, unless it sets its own."""
    joint = "&" if "?" in url else "?"
    return url if "cto=" in url else f"{url}{joint}cto={answer_s:g}&rto={answer_s:g}"


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "bw"


class _Reasons(logging.Handler):
    """Keeps the last reason that apprise logs: notify() returns only whether it worked."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.last = ""

    def __enter__(self) -> _Reasons:
        logger = logging.getLogger("apprise")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("apprise").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text of an exception."""
        _, found, reason = record.getMessage().partition("Socket Exception: ")
        if found:
            self.last = reason


# -- webhooks ----------------------------------------------------------------------------


def _webhook(webhook: WebhookTarget, request: SendRequest) -> Callable[[], None]:
    """Return the attempt to POST the document."""
    url = _revealed(webhook.url_from) if webhook.url_from else webhook.url
    token = _revealed(webhook.token) if webhook.token else ""
    fault = url_fault(url, with_token=bool(token))
    if fault:
        raise NotDelivered(fault)
    data = text.document(request.notice)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"benchwright/{__version__}",
        # Lets the receiver recognise a second attempt after a lost response.
        "Idempotency-Key": hashlib.sha256(data).hexdigest(),
    }
    post = urllib.request.Request(url, data, headers, method="POST")
    if token:
        post.add_unredirected_header("Authorization", f"Bearer {token}")
    local = urllib.parse.urlsplit(url).hostname in LOOPBACK
    context = ssl.create_default_context(cafile=webhook.ca_file or None)
    opener = urllib.request.build_opener(
        # This machine is reached without a proxy, which could read a token.
        urllib.request.ProxyHandler({} if local else None),
        urllib.request.HTTPSHandler(context=context),
        _NoRedirect,
    )

    def attempt() -> None:
        try:
            with opener.open(post, timeout=request.answer_s) as answer:
                answer.read(1024)
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(error) from None
        except urllib.error.URLError as error:
            raise _unreached(error.reason) from None
        except (OSError, http.client.HTTPException) as error:
            raise _unreached(error) from None

    return attempt


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        """Follow no redirect: the redirect is then the response."""


def _refused(error: urllib.error.HTTPError) -> NotDelivered:
    if 300 <= error.code < 400:
        return NotDelivered(f"{error.code}: it redirects; give the URL it redirects to")
    message = f"the server answered {error.code} {error.reason}"
    return NotDelivered(message, retry=error.code >= 500 or error.code in _RETRIED)


def _unreached(reason: object) -> NotDelivered:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return NotDelivered(f"its certificate is not trusted: {reason.verify_message}")
    words = reason.strerror if isinstance(reason, OSError) else ""
    return NotDelivered(words or str(reason), retry=True)


# -- secrets -----------------------------------------------------------------------------


def _revealed(secret: Secret) -> str:
    """Return a secret's text, trimmed. Raises NotDelivered, which does not quote it.

    A file that others can read is refused, as ssh does with a key.
    """
    if secret.kind == "variable":
        found = os.environ.get(secret.name, "").strip()
        if not found:
            raise NotDelivered(f"the environment variable {secret.name} is not set")
        return found
    path = secret.name
    try:
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            if stat.S_IMODE(status.st_mode) & 0o077:
                raise NotDelivered(f"{path} can be read by others: chmod 600 {path}")
            if status.st_uid not in (os.geteuid(), 0):
                raise NotDelivered(f"{path} belongs to another user")
            found = file.read(_MOST_SECRET_BYTES).decode(errors="replace").strip()
    except OSError as error:
        raise NotDelivered(f"{path}: {error.strerror}") from None
    if not found:
        raise NotDelivered(f"{path} is empty")
    return found


if __name__ == "__main__":
    main()
