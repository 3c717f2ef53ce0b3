"""Hosts for `bw load --hosts`: network namespaces of this machine, each with a real sshd.

They have one clock, so the true offset between them is known: zero, or that of a time namespace.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchwright.core.processes import all_processes
from bw_command import Done, bw, bw_words
from ssh_server import SshServer, namespace

PATIENCE_S = 60


class Hosts:
    """Hosts in namespaces, and the configuration of ssh that names them."""

    def __init__(self, config: Path, address: str) -> None:
        self.config = config
        self.address = address
        """An address of this machine that all hosts reach."""
        self.servers: dict[str, SshServer] = {}
        self.spaces: dict[str, str] = {}
        self.addresses: dict[str, str] = {}

    def load(self, directory: Path, *words: str, hosts: str = "a,b") -> Done:
        """Run a load on the hosts."""
        return self.run(directory, "load", *words, hosts=hosts)

    def run(self, directory: Path, *words: str, hosts: str = "a,b") -> Done:
        """Run a command that issues a load on the hosts."""
        return bw(directory, *self.words(*words, hosts=hosts))

    def words(self, *words: str, hosts: str = "a,b") -> tuple[str, ...]:
        """Return the words of a command that issues a load on the hosts."""
        named = ("--hosts", hosts, "--ssh-config", str(self.config))
        return (*words, *named, "--quiet")

    @contextlib.contextmanager
    def started(
        self, directory: Path, *words: str, hosts: str = "a,b"
    ) -> Iterator[subprocess.Popen[str]]:
        """Start a load on the hosts, and kill it at the end of the block if it still runs."""
        with subprocess.Popen(
            bw_words(*self.words("load", *words, hosts=hosts)),
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def kill_engines(self, name: str) -> None:
        """Kill the engines that run on a host."""
        for pid in self.engines(name):
            os.kill(pid, signal.SIGKILL)

    def engines(self, name: str) -> list[int]:
        """Return the engines that run on a host: those with a private directory of its sshd."""
        found = []
        for process in all_processes():
            with contextlib.suppress(OSError):
                program = os.readlink(f"/proc/{process.pid}/exe")
                ours = program.startswith(str(self.servers[name].temporary))
                if ours and "bw-engine" in program and process.is_alive:
                    found.append(process.pid)
        return found

    def left(self) -> list[str]:
        """Return what is left on the hosts: directories and engines."""
        found: list[str] = []
        for name, server in self.servers.items():
            found += [str(one) for one in server.temporary.iterdir()]
            found += map(str, self.engines(name))
        return found


@contextlib.contextmanager
def running_hosts(
    directory: Path, names: Sequence[str], shifts_s: Mapping[str, int] = {}
) -> Iterator[Hosts]:
    """Run hosts of these names in an empty directory; `shifts_s`: how much later the clock of a
    host is.

    Skips the test where namespaces cannot be made.
    """
    if os.geteuid() or shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("it needs root, ip and unshare, for namespaces")
    with ExitStack() as stack:
        hosts = Hosts(directory / "config", "")
        texts = []
        for number, name in enumerate(names, 1):
            space, address = namespace(stack, number)
            shift_s = shifts_s.get(name, 0)
            clock = ("unshare", "-T", "--fork", "--kill-child", "--monotonic")
            shifted = (*clock, str(shift_s)) if shift_s else ()
            (directory / name).mkdir()
            server = SshServer(directory / name, address)
            server.write()
            stack.enter_context(server.running("ip", "netns", "exec", space, *shifted))
            texts.append(server.config.read_text().replace("Host server", f"Host {name}"))
            hosts.servers[name], hosts.spaces[name] = server, space
            hosts.addresses[name] = address
            hosts.address = hosts.address or _gateway(address)
        hosts.config.write_text("".join(texts))
        yield hosts


def _gateway(address: str) -> str:
    network, _, last = address.rpartition(".")
    return f"{network}.{int(last) - 1}"


def until(true: Callable[[], object]) -> bool:
    """Wait for something; return whether it became true."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.05)
    return False


class ArrivalServer:
    """A server that sends back what it receives, and notes when each request arrived."""

    def __init__(self, address: str) -> None:
        self._listening = socket.create_server((address, 0))
        self.port = int(self._listening.getsockname()[1])
        self.arrivals: list[tuple[int, str]] = []
        """CLOCK_REALTIME [ns] and the address of the client."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> ArrivalServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listening, selectors.EVENT_READ)
            while not self._over.is_set():
                for key, _ in selector.select(0.05):
                    if key.fileobj is self._listening:
                        client, (address, _) = self._listening.accept()
                        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        selector.register(client, selectors.EVENT_READ, address)
                        continue
                    client = key.fileobj
                    assert isinstance(client, socket.socket)
                    try:
                        data = client.recv(65536)
                    except ConnectionResetError:  # how the engine ends a connection
                        data = b""
                    if not data:
                        selector.unregister(client)
                        client.close()
                        continue
                    self.arrivals.append((time.time_ns(), key.data))
                    client.sendall(data)
