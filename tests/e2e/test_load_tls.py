"""`bw load` on a server with TLS, whose certificates openssl makes here."""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bw_command import Done, bw
from own_certificate import OPENSSL, certificate

pytestmark = pytest.mark.skipif(
    OPENSSL is None, reason="openssl is not installed (apt-get install openssl)"
)
PAGE = b"n" * 512
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 512\r\n\r\n" + PAGE


class Server:
    """A server with TLS on a port of the loopback, each of whose connections is a thread."""

    def __init__(self, file: Path) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(file, file.with_suffix(".key"))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with self.context.wrap_socket(connection, server_side=True) as stream:
                while content := stream.recv(65536):
                    # A request, or what a server of tls:// sends back.
                    stream.sendall(ANSWER if content.startswith(b"GET ") else content)
        except OSError:
            # The client refused the certificate, or has ended.
            return


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Server, Path]]:
    """Yield a server, and the file of its certificate for localhost."""
    file = certificate(tmp_path, "localhost")
    one = Server(file)
    yield one, file
    one.listener.close()


def load(directory: Path, target: str, *words: str, **environment: str) -> Done:
    """Run a load of half a second."""
    return bw(
        directory,
        *("load", "--json", "--rate", "200", "--duration", "500ms"),
        *("--connections", "4", "--target", target, *words),
        env=os.environ | environment,
    )


def document(done: Done) -> dict[str, Any]:
    """Return the document of a load that was successful."""
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def tls_of(found: dict[str, Any]) -> Any:
    """Return what the connections of a load agreed on."""
    return found["result"]["target"]["tls"]


def codes(found: dict[str, Any]) -> set[str]:
    """Return the codes of the findings of a document."""
    return {finding["code"] for finding in found["findings"]}


def test_a_load_with_tls_is_whole_and_says_what_was_agreed_on(
    server: tuple[Server, Path], tmp_path: Path
) -> None:
    one, file = server
    url = f"https://localhost:{one.port}/"
    found = document(load(tmp_path, url, "--ca", str(file)))
    counts = found["result"]["counts"]
    assert counts["completed"] == counts["intended"] > 0
    assert counts["errors"] == 0
    tls = tls_of(found)
    assert (tls["version"], tls["verified"]) == ("TLSv1.3", True)
    assert tls["cipher"].startswith("TLS_")
    assert "certificate-not-verified" not in codes(found)


def test_the_authorities_of_the_system_are_used(
    server: tuple[Server, Path], tmp_path: Path
) -> None:
    one, file = server
    url = f"https://localhost:{one.port}/"
    refused = load(tmp_path, url)
    assert refused.returncode == 2
    assert "self-signed" in refused.stderr
    assert "--ca" in refused.stderr
    found = document(load(tmp_path, url, SSL_CERT_FILE=str(file)))
    assert tls_of(found)["verified"]


def test_any_certificate_is_accepted_only_with_a_finding(
    server: tuple[Server, Path], tmp_path: Path
) -> None:
    one, _ = server
    url = f"tls://127.0.0.1:{one.port}"
    found = document(load(tmp_path, url, "--insecure", "--block", "100"))
    assert found["result"]["counts"]["errors"] == 0
    assert not tls_of(found)["verified"]
    assert "certificate-not-verified" in codes(found)


def test_a_wrong_name_is_refused_and_a_given_one_counts(
    server: tuple[Server, Path], tmp_path: Path
) -> None:
    one, file = server
    url = f"https://127.0.0.1:{one.port}/"
    refused = load(tmp_path, url, "--ca", str(file))
    assert refused.returncode == 2
    assert "localhost" in refused.stderr
    named = load(tmp_path, url, "--ca", str(file), "--server-name", "localhost")
    assert tls_of(document(named))["verified"]


def test_options_of_tls_need_tls(tmp_path: Path) -> None:
    refused = load(tmp_path, "http://127.0.0.1:1/", "--insecure")
    assert refused.returncode == 2
    assert "--insecure is for TLS" in refused.stderr
    missing = load(tmp_path, "https://127.0.0.1:1/", "--ca", "none.pem")
    assert missing.returncode == 2
    assert "none.pem" in missing.stderr
