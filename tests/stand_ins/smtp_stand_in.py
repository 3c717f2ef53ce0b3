"""A mail server for tests: SMTP with STARTTLS and AUTH, on loopback, in a thread.

It speaks what a submission server speaks (RFC 5321, 3207, 4954) and keeps what it is told.
"""

from __future__ import annotations

import base64
import contextlib
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path


class MailServer(socketserver.ThreadingTCPServer):
    """What it was told stands in `messages`, `lines` and `logins`."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        answers: list[str] | None = None,
        silent: bool = False,
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.tls = tls
        self.answers = answers or []
        """Answers to RCPT, one for each, before it says yes."""
        self.silent = silent
        self.messages: list[bytes] = []
        self.lines: list[str] = []
        self.logins: list[tuple[str, str, bool]] = []
        """User, password, and whether TLS was on."""

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that hangs up is part of the tests."""


class _Session(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        if self.server.silent:
            self.rfile.read(1)
            return
        self.encrypted = False
        self._say("220 stand-in")
        while raw := self.rfile.readline():  # another file after STARTTLS
            line = raw.decode().rstrip("\r\n")
            self.server.lines.append(line)
            if not self._answer(line):
                return

    def finish(self) -> None:
        super().finish()
        self.connection.close()

    def _answer(self, line: str) -> bool:
        match line.split(" ")[0].upper():
            case "EHLO":
                offered = ["250-stand-in"]
                if self.server.tls and not self.encrypted:
                    offered.append("250-STARTTLS")
                self._say(*offered, "250 AUTH PLAIN")
            case "STARTTLS":
                self._say("220 go ahead")
                self._encrypt()
            case "AUTH":
                self._login(line.split(" ")[2])
            case "RCPT" if self.server.answers:
                self._say(self.server.answers.pop(0))
            case "DATA":
                self._say("354 end with a dot")
                self.server.messages.append(self._data())
                self._say("250 taken")
            case "QUIT":
                self._say("221 bye")
                return False
            case _:
                self._say("250 yes")
        return True

    def _say(self, *lines: str) -> None:
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())

    def _encrypt(self) -> None:
        assert self.server.tls is not None
        secured = self.server.tls.wrap_socket(self.connection, server_side=True)
        self.connection = secured
        self.rfile = secured.makefile("rb")
        self.wfile = secured.makefile("wb", buffering=0)  # type: ignore[assignment]
        self.encrypted = True

    def _login(self, token: str) -> None:
        _, user, password = base64.b64decode(token).decode().split("\0")
        self.server.logins.append((user, password, self.encrypted))
        if password == "right":
            self._say("235 welcome")
        else:
            self._say(f"535 no entry with {password}")

    def _data(self) -> bytes:
        lines = []
        for line in iter(self.rfile.readline, b".\r\n"):
            lines.append(line[1:] if line.startswith(b"..") else line)
        return b"".join(lines)


@contextlib.contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    """Let a server serve in a thread."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def certificate(directory: Path) -> tuple[Path, ssl.SSLContext]:
    """Make a certificate for localhost by openssl; return it and a server's context."""
    key, found = directory / "key.pem", directory / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    command += " -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    argv = [*command.split(), "-keyout", str(key), "-out", str(found)]
    subprocess.run(argv, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(found, key)
    return found, context
