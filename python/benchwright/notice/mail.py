"""Sends a notice as mail, by SMTP.

Decision: the standard library's smtplib: no mail program need be there. A certificate is
always checked; a password goes over TLS or to this machine itself, nowhere else.
Sources: RFC 5321, RFC 3207, RFC 8314, RFC 5322.
"""

from __future__ import annotations

import contextlib
import email.utils
import getpass
import re
import smtplib
import socket
import ssl
from collections.abc import Iterator, Mapping
from email.message import EmailMessage
from typing import Any, BinaryIO

from benchwright.core.notice import MailTarget, Notice
from benchwright.notice import text
from benchwright.notice.failure import Undelivered
from benchwright.notice.secret import revealed

MOST_REPLY_BYTES = 65536
"""Of one reply: what a server says without end is not collected."""
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
PORTS = {"none": 25, "starttls": 587, "tls": 465}


def send(
    mail: MailTarget, notice: Notice, environment: Mapping[str, str], timeout_s: float
) -> None:
    """Hand a notice to the mail server. Raises Undelivered."""
    password = revealed(mail.password, environment) if mail.password else ""
    with _errors_reported(password):
        message = message_of(mail, notice)
    with (
        _errors_reported(password),
        _connected(mail, own_name(notice), timeout_s) as server,
    ):
        if password:
            server.login(mail.user, password)
        refused = server.send_message(message)
    if refused:
        some = ", ".join(f"{to} ({code})" for to, (code, _) in refused.items())
        raise Undelivered(f"taken, but not for {some}")


def message_of(mail: MailTarget, notice: Notice) -> EmailMessage:
    """Return the message: the text, and the notice's document attached."""
    message = EmailMessage()
    message["Subject"] = text.subject(notice)
    message["From"] = mail.sender or f"{_user()}@{own_name(notice)}"
    message["To"] = ", ".join(mail.to)
    message["Date"] = email.utils.formatdate(notice.at_ns / 1e9, usegmt=True)
    message["Message-ID"] = email.utils.make_msgid(domain=own_name(notice))
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text.body(notice))
    message.add_attachment(
        text.document(notice), maintype="application", subtype="json", filename="notice.json"
    )  # fmt: skip
    return message


def own_name(notice: Notice) -> str:
    """Return what this host is called in mail; smtplib would ask the DNS, and wait."""
    return notice.host if _HOST.fullmatch(notice.host) else "localhost"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "bw"


class _Replies:
    """What a server says, up to a limit for each reply."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = 0

    def begin(self) -> None:
        """A new reply begins."""
        self._left = MOST_REPLY_BYTES

    def readline(self, most: int) -> bytes:
        """Return the next line. Raises OSError for a reply without end."""
        line = self._file.readline(most)
        self._left -= len(line)
        if self._left < 0:
            raise OSError(f"a reply of more than {MOST_REPLY_BYTES} bytes")
        return line

    def close(self) -> None:
        """Close it."""
        self._file.close()


class _Bounded(smtplib.SMTP):
    """Collects no reply without end; smtplib has a limit for a line alone."""

    file: Any

    def getreply(self) -> tuple[int, bytes]:
        """Return the next reply. Raises SMTPServerDisconnected for one that is too long."""
        if self.file is None and self.sock is not None:
            self.file = _Replies(self.sock.makefile("rb"))
        if self.file is not None:
            self.file.begin()
        return super().getreply()


class _BoundedOverTls(_Bounded, smtplib.SMTP_SSL):
    """The same over TLS."""


@contextlib.contextmanager
def _connected(
    mail: MailTarget, own_name: str, timeout_s: float
) -> Iterator[smtplib.SMTP]:
    port = mail.port or PORTS[mail.security]
    if mail.security == "tls":
        server: smtplib.SMTP = _BoundedOverTls(
            mail.host, port, own_name, timeout=timeout_s, context=_context(mail)
        )
    else:
        server = _Bounded(mail.host, port, own_name, timeout=timeout_s)
    with server:
        if mail.security == "starttls":
            server.starttls(context=_context(mail))
        yield server


def _context(mail: MailTarget) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=mail.ca_file or None)


@contextlib.contextmanager
def _errors_reported(password: str) -> Iterator[None]:
    """Turn what smtplib raises into Undelivered; a password never stands in it."""
    try:
        yield
    except smtplib.SMTPRecipientsRefused as error:
        code, answer = next(iter(error.recipients.values()))
        raise _refused(code, answer, password) from None
    except smtplib.SMTPResponseException as error:
        raise _refused(error.smtp_code, error.smtp_error, password) from None
    except ssl.SSLCertVerificationError as error:
        message = f"its certificate is not trusted: {error.verify_message}"
        raise Undelivered(message) from None
    except smtplib.SMTPNotSupportedError as error:
        raise Undelivered(str(error)) from None
    except ValueError as error:
        message = text.one_line(_hidden(str(error), password), 200)
        raise Undelivered(f"it cannot be written: {message}") from None
    except (smtplib.SMTPException, socket.gaierror) as error:
        raise Undelivered(_hidden(str(error), password), again=True) from None
    except OSError as error:
        raise Undelivered(error.strerror or str(error), again=True) from None


def _refused(code: int, answer: bytes | str, password: str) -> Undelivered:
    said = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
    message = text.one_line(f"{code} {_hidden(said, password)}", 300)
    return Undelivered(message, again=400 <= code < 500)


def _hidden(said: str, password: str) -> str:
    return said.replace(password, "***") if password else said
