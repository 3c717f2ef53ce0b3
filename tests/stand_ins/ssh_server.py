"""A real sshd on loopback for tests: own port, keys, configuration, all in one directory."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

_NEEDED = ("ssh", "ssh-keygen", "sshd")
_PRIVILEGE_SEPARATION = Path("/run/sshd")


def missing() -> str:
    """Return what this machine lacks for it; empty if nothing."""
    lacking = [name for name in _NEEDED if _program(name) is None]
    return f"there is no {', '.join(lacking)} here" if lacking else ""


class SshServer:
    """Its client's configuration is `config`, in which it is called `server`."""

    def __init__(self, directory: Path, address: str = "127.0.0.1") -> None:
        self._directory = directory
        self._address = address
        self.port = free_port()
        self.config = directory / "ssh_config"
        self.known_hosts = directory / "known_hosts"
        self.temporary = directory / "tmp"
        """TMPDIR of what is run there."""

    def write(self) -> None:
        """Make the keys and both configurations."""
        self.temporary.mkdir()
        for name in ("host", "user"):
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", name]
            subprocess.run(argv, cwd=self._directory, check=True)
        key = (self._directory / "host.pub").read_text()
        self.known_hosts.write_text(f"[{self._address}]:{self.port} {key}")
        user = (self._directory / "user.pub").read_text()
        (self._directory / "authorized_keys").write_text(user)
        (self._directory / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress {self._address}\n"
            f"HostKey {self._directory}/host\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {self._directory}/authorized_keys\nStrictModes no\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "AuthenticationMethods publickey\nMaxStartups 100\n"
            f"SetEnv TMPDIR={self.temporary}\n"
        )
        self.config.write_text(
            f"Host server\n  HostName {self._address}\n  Port {self.port}\n"
            f"  User {getpass.getuser()}\n  IdentityFile {self._directory}/user\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.known_hosts}\n"
            "  GlobalKnownHostsFile none\n"
        )

    @contextlib.contextmanager
    def running(self, *prefix: str) -> Iterator[None]:
        """Serve until the end of the block; `prefix` runs it elsewhere (ip netns exec)."""
        own = os.geteuid() == 0 and not _PRIVILEGE_SEPARATION.exists()
        if own:
            _PRIVILEGE_SEPARATION.mkdir(mode=0o755)
        config = str(self._directory / "sshd_config")
        argv = [*prefix, _program("sshd") or "sshd", "-D", "-e", "-f", config]
        with open(self._directory / "sshd.log", "wb") as log:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=log)
        try:
            self._wait_for(process)
            yield
        finally:
            process.terminate()
            process.wait()
            if own:
                _PRIVILEGE_SEPARATION.rmdir()

    def _wait_for(self, process: subprocess.Popen[bytes]) -> None:
        log = self._directory / "sshd.log"
        while "Server listening" not in log.read_text():
            assert process.poll() is None, log.read_text()
            os.sched_yield()


def _program(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
