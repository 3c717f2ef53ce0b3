"""A real NFS-Ganesha that fails in each way that a user meets, through `bw load` and `bw peak`.

Each run ends by itself, with a finding or an error that names the cause, and its counts add up.
Server and load are in a network of their own. Nothing here asserts a time: a run that does not
end fails by the patience of the test.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchwright.features.quiet.private_network import PrivateNetwork

SCRIPTS = Path(__file__).parents[2] / "examples" / "workbench" / "nfs-ganesha"
PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
PROGRAMS = ("ganesha.nfsd", "rpcbind", "rpcinfo", "nsenter", "unshare")
BW = str(Path(sys.executable).with_name("bw"))
SET = "benchwright-files"
EXPORT = "nfs://127.0.0.1/export"
PATIENCE_S = 100.0
WORKLOAD = """
[run]
drain = "2s"
[files]
files = 20
size = "8k"
[[filament]]
type = "files"
rate = "200/s"
operations = {lookup = 3, getattr = 3, read = 3, write = 3}
"""


class Ganesha:
    """NFS-Ganesha with one export, started as the shipped specs start it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.network = PrivateNetwork()
        self.export = place / "export"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, fsal: str = "VFS") -> None:
        """Start the server, and wait until it answers."""
        subprocess.run([SCRIPTS / "prepare.sh", self.place, self.export, "4", fsal], check=True)
        with (self.place / "ganesha.conf").open("a") as settings:
            # What changes behind its back is seen at once.
            settings.write("EXPORT_DEFAULTS { Attr_Expiration_Time = 0; }\n")
        with (self.place / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self.network.prefix, SCRIPTS / "run.sh", self.place], stdout=log, stderr=log
            )
        ready = [*self.network.prefix, "rpcinfo", "-T", "tcp", "127.0.0.1", "100005"]
        until(lambda: subprocess.run([*ready, "3"], capture_output=True).returncode == 0)

    def stop(self) -> None:
        """End the server."""
        if self._process is not None:
            self.signal(signal.SIGCONT)
            self._process.terminate()
            self._process.wait(PATIENCE_S)
            self._process = None

    def signal(self, number: int) -> None:
        """Send a signal to the server itself; return after all its threads have stopped."""
        for pid in self._servers():
            os.kill(pid, number)
            if number == signal.SIGSTOP:
                until(lambda pid=pid: set(states(pid)) == {"T"})

    def _servers(self) -> Iterator[int]:
        assert self._process is not None
        own = self._process.pid
        children = Path(f"/proc/{own}/task/{own}/children")
        for pid in children.read_text().split():
            if Path(f"/proc/{pid}/comm").read_text().strip() == "ganesha.nfsd":
                yield int(pid)

    def close(self) -> None:
        """End the server and leave its network."""
        self.stop()
        self.network.close()

    def load(
        self, *words: str, meanwhile: Callable[[], None] | None = None, workload: str = WORKLOAD
    ) -> subprocess.CompletedProcess[str]:
        """Run `bw load`; call `meanwhile` when its first progress has appeared."""
        (self.place / "work.toml").write_text(workload)
        command = [BW, "load", "work.toml", "--json", *words]
        if "--target" not in words:
            command += ["--target", EXPORT]
        return run_watched([*self.network.prefix, *command], self.place, meanwhile)


def run_watched(
    command: list[str], place: Path, meanwhile: Callable[[], None] | None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; call `meanwhile` after the first line on stderr."""
    with subprocess.Popen(
        command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        killer = threading.Timer(PATIENCE_S, process.kill)
        killer.start()
        try:
            assert process.stderr is not None
            first = process.stderr.readline() if meanwhile is not None else ""
            if meanwhile is not None and process.poll() is None:
                meanwhile()
            out, err = process.communicate()
        finally:
            killer.cancel()
    assert process.returncode != -signal.SIGKILL, f"it did not end: {err}"
    return subprocess.CompletedProcess(command, process.returncode, out, first + err)


def until(done: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


def states(pid: int) -> Iterator[str]:
    """Yield the state of each thread of a process."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        yield (thread / "stat").read_text().rsplit(") ", 1)[1][0]


@pytest.fixture
def ganesha(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ganesha]:
    """Return a server that is not started yet."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and {', '.join(missing or PROGRAMS)}")
    monkeypatch.setenv("PATH", PATH)
    server = Ganesha(tmp_path)
    with contextlib.closing(server):
        yield server


def counted(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the document of a load, after the check that its counts add up."""
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    result = document["result"]
    counts = result["counts"]
    assert counts["issued"] == counts["completed"] + counts["unfinished"]
    never = counts["dropped"] + counts["skipped"] + counts["waiting"]
    assert counts["intended"] == counts["issued"] + never
    whole = result["kinds"]["all"]
    assert whole["operations"] == counts["completed"]
    assert sum(whole["errors"].values()) == counts["errors"] <= counts["completed"]
    for chain in result["sequences"].values():
        ended = chain["completed"] + chain["errors"] + chain["unfinished"]
        assert chain["started"] == ended
    assert sum(one["started"] for one in result["sequences"].values()) == (counts["intended"]), (
        "each chain of this workload is one operation"
    )
    return document


def codes(document: dict[str, Any]) -> set[str]:
    """Return the codes of a document's findings."""
    return {one["code"] for one in document["findings"]}


def named(document: dict[str, Any], code: str) -> dict[str, str]:
    """Return the one finding of this code."""
    (found,) = (one for one in document["findings"] if one["code"] == code)
    return dict(found)


def refused(done: subprocess.CompletedProcess[str], code: str, *texts: str) -> None:
    """Check that a load was refused with this code, and that the error has these texts."""
    assert done.returncode == 2, done.stderr
    assert f"[{code}]" in done.stderr
    for text in texts:
        assert text in done.stderr


def test_a_wrong_export_is_refused_with_those_that_exist(ganesha: Ganesha) -> None:
    ganesha.start()
    done = ganesha.load("--target", "nfs://127.0.0.1/nowhere")
    refused(done, "nfs-mount", "/nowhere", "the server exports /export")


def test_files_that_vanish_are_errors_and_made_again(ganesha: Ganesha) -> None:
    ganesha.start()

    def remove() -> None:
        for number in range(10):
            (ganesha.export / SET / f"f{number}").unlink()

    document = counted(ganesha.load("--duration", "4s", meanwhile=remove))
    errors = document["result"]["kinds"]["all"]["errors"]
    assert set(errors) <= {"ENOENT", "ESTALE"}
    assert errors
    assert "operations-failed" in codes(document)
    again = counted(ganesha.load("--duration", "1s"))
    assert again["result"]["counts"]["errors"] == 0
    assert again["result"]["file_set"]["made"]["made"] == 10


def test_a_user_without_rights(ganesha: Ganesha) -> None:
    nobody = ("--uid", "65534", "--gid", "65534")
    ganesha.start()
    denied = "nfs://127.0.0.1:2049/export: Permission denied"
    refused(ganesha.load(*nobody), "file-set-denied", denied)
    assert not list(ganesha.export.iterdir())
    counted(ganesha.load("--duration", "1s"))
    # A set that is there can be read, but a load that writes is refused.
    refused(ganesha.load(*nobody), "file-set-denied", f"{SET}/lock.json")
    reads = WORKLOAD.replace(", write = 3", "")

    def protect() -> None:
        for file in (ganesha.export / SET).glob("f*"):
            file.chmod(0o600)

    done = ganesha.load(*nobody, workload=reads, meanwhile=protect)
    kinds = counted(done)["result"]["kinds"]
    assert done.returncode == 1
    assert set(kinds["read"]["errors"]) == {"EACCES"}
    assert 0 < kinds["read"]["errors"]["EACCES"] < kinds["read"]["operations"]
    assert kinds["getattr"]["errors"] == {}


def test_a_server_that_restarts_in_the_middle(ganesha: Ganesha) -> None:
    ganesha.start()

    def restart() -> None:
        ganesha.stop()
        ganesha.start()

    done = ganesha.load("--duration", "6s", meanwhile=restart)
    document = counted(done)
    assert done.returncode == 0, done.stderr
    target = document["result"]["target"]
    assert target["reconnects"] == target["verifier_changes"] == 1
    assert document["result"]["counts"]["unfinished"] == 0
    assert "server-restarted" in codes(document)


def test_stale_handles_after_a_restart(ganesha: Ganesha) -> None:
    """The server comes back with a copy of the files: no handle is valid."""
    ganesha.start()

    def restore() -> None:
        ganesha.stop()
        shutil.copytree(ganesha.export / SET, ganesha.place / "copy")
        shutil.rmtree(ganesha.export / SET)
        (ganesha.place / "copy").rename(ganesha.export / SET)
        ganesha.start()

    done = ganesha.load("--duration", "6s", meanwhile=restore)
    document = counted(done)
    assert done.returncode == 1
    assert "ESTALE" in document["result"]["kinds"]["all"]["errors"]
    failed = named(document, "operations-failed")
    assert "ESTALE" in failed["evidence"]
    # The next run finds the files again.
    again = counted(ganesha.load("--duration", "1s"))
    assert again["result"]["counts"]["errors"] == 0
    assert again["result"]["file_set"]["made"]["reused"] == 20


def test_a_server_that_stops_answering(ganesha: Ganesha) -> None:
    ganesha.start()
    done = ganesha.load(
        *("--duration", "3s", "--timeout", "1s"), meanwhile=lambda: ganesha.signal(signal.SIGSTOP)
    )
    document = counted(done)
    assert done.returncode == 1
    target = document["result"]["target"]
    assert document["result"]["kinds"]["all"]["errors"] == {"ETIMEDOUT": target["timeouts"]}
    assert target["timeouts"] > 0
    assert "operations-failed" in codes(document)
    # Without a limit in the run, operations are unfinished instead.
    ganesha.signal(signal.SIGCONT)
    done = ganesha.load(
        *("--duration", "3s", "--timeout", "none"), meanwhile=lambda: ganesha.signal(signal.SIGSTOP)
    )
    document = counted(done)
    assert document["result"]["counts"]["unfinished"] > 0
    assert document["result"]["counts"]["errors"] == 0
    assert "operations-unfinished" in codes(document)
    # And at the start, it is an error.
    refused(ganesha.load(), "nfs-mount", "/export: not mounted: Connection timed out")


class Meddler:
    """A server between the load and the real one, which passes everything on until it sends noise."""

    def __init__(self, network: PrivateNetwork, real: int | None) -> None:
        self._network = network
        self._real = real
        self.noisy = threading.Event()
        self._listener = network.run(lambda: socket.create_server(("127.0.0.1", 0)))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            if self._real is None:
                client.recv(1 << 16)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 100)
                return
            there = ("127.0.0.1", self._real)
            server = self._network.run(lambda: socket.create_connection(there))
            back = threading.Thread(target=self._back, args=[server, client], daemon=True)
            back.start()
            while data := client.recv(1 << 16):
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)
            back.join()

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError), server:
            while data := server.recv(1 << 16):
                if self.noisy.is_set():
                    data = bytes(255 - byte for byte in data)
                client.sendall(data)

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()


def test_garbage_instead_of_replies(ganesha: Ganesha) -> None:
    ganesha.start()
    with contextlib.closing(Meddler(ganesha.network, 2049)) as meddler:
        target = f"nfs://127.0.0.1:{meddler.port}/export"
        done = ganesha.load(
            *("--target", target, "--duration", "3s", "--timeout", "1s"),
            meanwhile=meddler.noisy.set,
        )
        document = counted(done)
        counts, target = document["result"]["counts"], document["result"]["target"]
        assert counts["errors"] > 0 == counts["unfinished"]
        # Noise may also look like a record that never ends.
        errors = set(document["result"]["kinds"]["all"]["errors"])
        assert errors <= {"EBADMSG", "ETIMEDOUT"}
        assert target["malformed_replies"] > 0
        assert "operations-failed" in codes(document)
    with contextlib.closing(Meddler(ganesha.network, None)) as other:
        target = f"nfs://127.0.0.1:{other.port}/export"
        refused(ganesha.load("--target", target), "nfs", "FSINFO: malformed reply")
        done = ganesha.load("--target", target, "--mount-port", str(other.port))
        refused(done, "nfs-mount", "not mounted: malformed reply")


def test_a_full_file_system_of_the_server(ganesha: Ganesha) -> None:
    ganesha.export.mkdir()
    image = ganesha.place / "disk"
    image.write_bytes(b"")
    os.truncate(image, 16 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, ganesha.export], check=True)
    try:
        (ganesha.export / "mine").write_text("untouched")
        ganesha.start()
        much = WORKLOAD.replace("files = 20", "files = 20_000")
        refused(ganesha.load(workload=much), "file-set-space", "nothing was made")
        mix = "operations = {lookup = 3, getattr = 3, read = 3, write = 3}"
        assert mix in WORKLOAD
        appends = 'append_size = "8k"\noperations = {append = 9, lookup = 1}'
        growing = WORKLOAD.replace(mix, appends)
        done = ganesha.load("--rate", "1000", "--duration", "6s", workload=growing)
        document = counted(done)
        assert done.returncode == 1
        assert set(document["result"]["kinds"]["all"]["errors"]) == {"ENOSPC"}
        assert "ENOSPC of append" in named(document, "operations-failed")["evidence"]
        assert (ganesha.export / "mine").read_text() == "untouched"
        # The next run takes back what the one before has appended.
        again = counted(ganesha.load("--duration", "1s", workload=growing))
        assert again["result"]["counts"]["errors"] == 0
        ganesha.stop()
    finally:
        ganesha.stop()
        subprocess.run(["umount", ganesha.export], check=True)


def test_two_runs_on_one_export_are_kept_apart(ganesha: Ganesha) -> None:
    ganesha.start()
    lock = ganesha.export / SET / "lock.json"
    holders: list[dict[str, Any]] = []
    second: list[subprocess.CompletedProcess[str]] = []

    def meanwhile() -> None:
        holders.append(json.loads(lock.read_text()))
        second.append(ganesha.load("--duration", "1s"))

    first = counted(ganesha.load("--duration", "4s", meanwhile=meanwhile))
    assert first["result"]["counts"]["errors"] == 0
    host = socket.gethostname()
    refused(
        second[0],
        "file-set-in-use",
        f"another run uses this file set: process {holders[0]['pid']} on {host}, since 20",
    )
    assert not lock.exists()
    counted(ganesha.load("--duration", "1s"))


def test_the_claim_of_a_killed_run_is_taken_over(ganesha: Ganesha) -> None:
    ganesha.start()
    lock = ganesha.export / SET / "lock.json"
    with contextlib.suppress(AssertionError):
        ganesha.load(
            *("--duration", "60s"),
            meanwhile=lambda: os.kill(json.loads(lock.read_text())["pid"], signal.SIGKILL),
        )
    assert lock.exists()
    document = counted(ganesha.load("--duration", "1s"))
    assert document["result"]["counts"]["errors"] == 0
    assert not lock.exists()


# -- in a search -------------------------------------------------------------------------

SPEC = f"""
[server]
configure = "{SCRIPTS}/prepare.sh {{state}} {{here}}/export 4"
start = "{SCRIPTS}/run.sh {{state}}"
ready = {{ command = "rpcinfo -T tcp 127.0.0.1 100005 3" }}
ready_timeout = "10s"
grace = "2s"
network = "private"

[load]
target = "nfs://127.0.0.1/export"
workload = "work.toml"
timeout = "1s"
drain = "1s"

[peak]
criteria = ["mean response < 60s", "errors < 1%"]
policy = "monotone"
start = "100"
highest = "200"
run_length = "3s"
max_trials = 2
seed = 1
"""


class Search:
    """A `bw peak` that starts Ganesha itself."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.state = place / "bw-state"

    def peak(
        self, meanwhile: Callable[[], None], spec: str = SPEC, workload: str = WORKLOAD
    ) -> tuple[int, dict[str, Any], str]:
        """Run the search; return its exit status, its document and its messages."""
        (self.place / "export").mkdir()
        (self.place / "spec.toml").write_text(spec)
        (self.place / "work.toml").write_text(workload)
        words = ("--json", "--no-watch", "--study", "study")
        with subprocess.Popen(
            [BW, "peak", "spec.toml", *words],
            cwd=self.place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            killer = threading.Timer(PATIENCE_S, process.kill)
            killer.start()
            try:
                meanwhile()
                out, err = process.communicate()
            except BaseException:
                process.kill()
                raise
            finally:
                killer.cancel()
        assert process.returncode != -signal.SIGKILL, f"it did not end: {err}"
        return process.returncode, json.loads(out) if out else {}, err

    def signal(self, number: int) -> None:
        """Send a signal to the server of the search."""
        mark = f"BW_STATE={self.state}\0".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "comm").read_text().strip() == "ganesha.nfsd" and (
                    mark in (process / "environ").read_bytes()
                ):
                    os.kill(int(process.name), number)

    def files(self) -> int:
        """Return how many files of the set exist."""
        return len(list((self.place / "export" / SET).glob("f*")))

    def loads(self) -> bool:
        """Return whether the set is complete, so that the load runs."""
        manifest = self.place / "export" / SET / "manifest.json"
        return manifest.exists() and '"used"' in manifest.read_text()


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Search:
    """Return a search, in a machine state of its own."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and {', '.join(missing or PROGRAMS)}")
    one = Search(tmp_path)
    one.state.mkdir(mode=0o700)
    monkeypatch.setenv("BW_STATE", str(one.state))
    monkeypatch.setenv("PATH", PATH)
    return one


def test_a_server_that_dies_while_the_set_is_made_is_a_failed_trial(search: Search) -> None:
    def kill() -> None:
        until(lambda: search.files() > 100)
        search.signal(signal.SIGKILL)

    many = WORKLOAD.replace("files = 20", "files = 10_000")
    status, document, err = search.peak(kill, workload=many)
    first, second = document["trials"]
    assert status != 2, err
    assert first["ending"] == "failed"
    assert "the server has ended; its log ends" in first["failure"]
    # A new server, and the set is completed.
    assert second["ending"] == "whole", second["failure"]
    assert second["completed"] > 0
    assert search.files() == 10_000


def test_a_server_that_dies_in_a_trial_is_a_failed_trial(search: Search) -> None:
    def kill() -> None:
        until(search.loads)
        search.signal(signal.SIGKILL)

    status, document, err = search.peak(kill)
    first, second = document["trials"]
    assert status != 2, err
    assert first["ending"] == "failed"
    assert "the server has ended; its log ends" in first["failure"]
    assert second["ending"] == "whole", second["failure"]


def test_a_server_that_stops_answering_is_started_again(search: Search) -> None:
    def stop() -> None:
        until(search.loads)
        search.signal(signal.SIGSTOP)

    status, document, err = search.peak(stop)
    first, second = document["trials"]
    assert status != 2, err
    assert first["marks"] == ["server-did-not-recover"]
    # Either the load began before the stop, or no connection could be made.
    assert first["completed"] is None or first["errors"] > 0
    assert "server-did-not-recover" in codes(document)
    assert second["ending"] == "whole", second["failure"]
    assert second["errors"] == 0


def test_a_wrong_export_ends_a_search(search: Search) -> None:
    wrong = SPEC.replace("127.0.0.1/export", "127.0.0.1/nowhere")
    status, _, err = search.peak(lambda: None, spec=wrong)
    assert status == 2
    assert "spec.toml:11:10: 127.0.0.1" in err
    assert "/nowhere: not mounted: MNT3ERR_ACCES; the server exports /export" in err
    assert "[nfs-mount]" in err
