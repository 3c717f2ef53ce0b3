"""A real sshd on loopback for tests: own port, keys, configuration, all in one directory."""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

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
            # Not the user's own home: its .bashrc may take seconds.
            f"SetEnv TMPDIR={self.temporary} HOME={self._directory}\n"
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
        with contextlib.ExitStack() as stack:
            if os.geteuid() == 0:
                stack.enter_context(_separation())
            yield from self._served(*prefix)

    def _served(self, *prefix: str) -> Iterator[None]:
        config = str(self._directory / "sshd_config")
        argv = [*prefix, _program("sshd") or "sshd", "-D", "-e", "-f", config]
        with open(self._directory / "sshd.log", "wb") as log:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=log)
        try:
            self._wait_for(process)
            yield
        finally:
            # unshare waits for sshd with SIGTERM blocked; its own end ends sshd (--kill-child).
            (process.kill if "unshare" in prefix else process.terminate)()
            process.wait()

    def _wait_for(self, process: subprocess.Popen[bytes]) -> None:
        log = self._directory / "sshd.log"
        while "Server listening" not in log.read_text():
            assert process.poll() is None, log.read_text()
            os.sched_yield()


@contextlib.contextmanager
def _separation() -> Iterator[None]:
    """Make the directory that sshd needs, and remove it after the last sshd of all tests."""
    with Path(tempfile.gettempdir(), "bw-tests-run-sshd").open("a+") as made:
        fcntl.flock(made, fcntl.LOCK_SH)
        if not _PRIVILEGE_SEPARATION.exists():
            _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
            made.write("by a test\n")
            made.flush()
        yield
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(made, fcntl.LOCK_EX | fcntl.LOCK_NB)
            made.seek(0)
            if made.read():
                made.truncate(0)
                _PRIVILEGE_SEPARATION.rmdir()


def _program(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def namespace(stack: ExitStack, number: int = 0) -> tuple[str, str]:
    """Make a network namespace with a veth pair; return its name and address there.

    The network is one of those for benchmarks (RFC 2544), another for each process and `number`, up
    to 7. The namespace reaches every address of this machine.
    """
    name = f"bw{os.getpid()}" + (f"-{number}" if number else "")
    block = (os.getpid() * 8 + number) % 32768
    network = f"198.{18 + block // 16384}.{block // 64 % 256}"
    here, there = (f"{network}.{block % 64 * 4 + host}" for host in (1, 2))
    commands = (
        f"ip netns add {name}",
        f"ip link add {name}a type veth peer name {name}b netns {name}",
        f"ip addr add {here}/30 dev {name}a",
        f"ip link set {name}a up",
        f"ip -n {name} addr add {there}/30 dev {name}b",
        f"ip -n {name} link set {name}b up",
        f"ip -n {name} link set lo up",
        f"ip -n {name} route add default via {here}",
    )
    for number, command in enumerate(commands):
        done = subprocess.run(command.split(), capture_output=True, text=True)
        if number == 0 and done.returncode == 0:
            stack.callback(subprocess.run, f"ip netns del {name}".split(), check=True)
        if done.returncode:
            pytest.skip(f"no network namespace here: {done.stderr.strip()}")
    return name, there
