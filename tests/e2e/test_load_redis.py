"""`bw load` on Debian's redis-server: exact totals, pipelining, logins, errors, and a server that
dies."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bw_command import Done, bw, bw_words

SERVER = shutil.which("redis-server")
OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(
    SERVER is None, reason="redis-server is not installed (apt-get install redis-server)"
)
PASSWORD = "s3cret-Word"


def free_port() -> int:
    """Return a port of the loopback that nothing uses."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Redis:
    """A private redis-server without persistence, and a connection to it."""

    def __init__(self, directory: Path, *settings: str) -> None:
        self.port = free_port()
        self.unix_socket = directory / "redis.sock"
        # In a file: a password would be in the process list.
        (directory / "redis.conf").write_text(
            f"port {self.port}\nbind 127.0.0.1\nunixsocket {self.unix_socket}\n"
            f'dir {directory}\nsave ""\nlogfile {directory}/redis.log\n' + "\n".join(settings)
        )
        self.process = subprocess.Popen((str(SERVER), str(directory / "redis.conf")))
        while True:
            try:
                self.connection = socket.create_connection(("127.0.0.1", self.port))
                break
            except ConnectionRefusedError:
                assert self.process.poll() is None, (directory / "redis.log").read_text()
                time.sleep(0.02)
        self.replies = self.connection.makefile("rb")

    def __call__(self, *words: str) -> str:
        """Return the reply to a command that has one line or one string."""
        parts = (f"${len(word)}\r\n{word}\r\n" for word in words)
        self.connection.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
        line = self.replies.readline().decode().rstrip()
        if line.startswith("$") and line != "$-1":
            return self.replies.read(int(line[1:]) + 2).decode()[:-2]
        return line

    def calls(self) -> dict[str, int]:
        """Return how often the server executed each command, in lower case."""
        lines = self("INFO", "commandstats").splitlines()
        found = {}
        for name, _, figures in (line.partition(":") for line in lines):
            if name.startswith("cmdstat_"):
                calls = figures.partition(",")[0].removeprefix("calls=")
                found[name.removeprefix("cmdstat_")] = int(calls)
        return found

    def close(self) -> None:
        """End the server."""
        self.process.kill()
        self.process.wait()
        self.replies.close()
        self.connection.close()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    one = Redis(tmp_path)
    yield one
    one.close()


@pytest.fixture
def protected(tmp_path: Path) -> Iterator[Redis]:
    """Yield a server whose default user and whose user `app` have the password."""
    one = Redis(tmp_path, f"requirepass {PASSWORD}", f"user app on >{PASSWORD} ~* +@all")
    assert one("AUTH", PASSWORD) == "+OK"
    yield one
    one.close()


def load(directory: Path, target: str, *words: str, **environment: str) -> Done:
    """Run a load; without a rate it is a closed loop."""
    clean = {k: v for k, v in os.environ.items() if k != "REDISCLI_AUTH"}
    return bw(directory, *("load", "--json", "--target", target, *words), env=clean | environment)


def document(done: Done, status: int = 0) -> dict[str, Any]:
    """Return the document of a load that ended with this status."""
    assert done.returncode == status, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def errors_of(found: dict[str, Any]) -> dict[str, int]:
    """Return how often each error happened."""
    errors: dict[str, int] = found["result"]["kinds"]["exchange"]["errors"]
    return errors


def url(redis: Redis, more: str = "") -> str:
    return f"redis://127.0.0.1:{redis.port}{more}"


RATE = ("--rate", "1k", "--duration", "1s", "--connections", "4")


def test_the_server_executed_exactly_what_the_load_counts(redis: Redis, tmp_path: Path) -> None:
    redis("SET", "key:1", "0123456789")
    before = redis.calls()
    words = ("--commands", "GET key:1; SET 'key 2' 'a b;c'; INCR count")
    found = document(load(tmp_path, url(redis), *RATE, *words))["result"]
    after, counts = redis.calls(), found["counts"]
    calls = {name: after[name] - before.get(name, 0) for name in ("get", "set", "incr")}
    # On a busy machine not all of the intended ones were issued.
    assert sum(calls.values()) == counts["completed"] == counts["issued"] > 100
    assert all(calls.values()), calls
    assert counts["errors"] == 0
    assert redis("GET", "count") == str(calls["incr"])
    assert redis("GET", "key 2") == "a b;c"
    # GET has ten bytes, SET two (OK), INCR the digits of the number.
    digits = sum(len(str(one + 1)) for one in range(calls["incr"]))
    bytes_ = 10 * calls["get"] + 2 * calls["set"] + digits
    assert found["kinds"]["exchange"]["bytes"] == bytes_
    assert found["target"]["kind"] == "redis"
    # No login: the server saw nothing but these commands, those of this test, and the probe.
    assert set(after) <= {*calls, "info", "echo"}, after
    assert after["echo"] - before.get("echo", 0) == 1
    assert "ERR" not in redis("INFO", "errorstats")


@pytest.mark.parametrize("form", ["request", "commands"])
def test_each_command_has_its_share_and_its_figures(
    redis: Redis, tmp_path: Path, form: str
) -> None:
    requests = """
        [[request]]
        label = "read"
        weight = 3
        command = "GET key:${n}"
        [[request]]
        command = ["SET", "key:${n}", "a b"]
        [values]
        n = "integer 1..10"
        """
    commands = """
        [target]
        commands = "75% GET key:1; 25% SET key:1 a"
        """
    (tmp_path / "w.toml").write_text(
        (requests if form == "request" else commands)
        + """
        [[filament]]
        type = "open"
        rate = "2k"
        count = 1000
        """
    )
    read = "read" if form == "request" else "GET"
    limits = ("--limit", f"p90 < 10s of {read}", "--limit", "errors < 1%")
    found = document(load(tmp_path, url(redis), "w.toml", *limits))
    calls, labels = redis.calls(), found["result"]["labels"]
    counted = {name: one["operations"] for name, one in labels.items()}
    assert counted == {read: calls["get"], "SET": calls["set"]}
    assert 650 < calls["get"] < 850
    assert [one["outcome"] for one in found["limits"]] == ["passed", "passed"]
    report = bw(tmp_path, "load", "w.toml", "--target", url(redis)).stdout
    assert re.search(rf"^{read} +\d", report, re.MULTILINE)


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        (("mean < 10s",), 0),
        (("metric rate_per_s > 1e9", "mean < 10s"), 1),
        (("p99.9 < 10s", "mean < 10s"), 3),
    ],
)
@pytest.mark.parametrize("study", [(), ("--study", "s")])
def test_limits_decide_the_exit_status_also_of_a_study(
    redis: Redis, tmp_path: Path, limits: tuple[str, ...], status: int, study: tuple[str, ...]
) -> None:
    words = [word for limit in limits for word in ("--limit", limit)]
    words += ["--commands", "GET a; SET a b"]
    done = bw(
        tmp_path,
        *("load", "--target", url(redis), *RATE, *words, *study),
        *("--junit", "limits.xml", "--quiet"),
    )
    assert done.returncode == status, done.stderr
    assert all(limit in done.stdout for limit in limits)
    suite = ElementTree.parse(tmp_path / "limits.xml").getroot()[0]
    wrong = int(suite.get("failures", "")) + int(suite.get("errors", ""))
    assert wrong == (1 if status else 0)
    if study:
        bw(tmp_path, "report", "s", "-o", "page.html")
        page = (tmp_path / "page.html").read_text()
        assert all(f">{text}<" in page for text in ("GET", "SET", "Labels", "Limits"))
    kept = bw(tmp_path, *("load", "--target", url(redis), *RATE, *words, "--no-fail"))
    assert kept.returncode == 0


def test_a_closed_loop_with_sixteen_commands_on_each_connection(
    redis: Redis, tmp_path: Path
) -> None:
    def reads() -> int:
        lines = redis("INFO", "stats").splitlines()
        (line,) = (one for one in lines if one.startswith("total_reads_processed:"))
        return int(line.partition(":")[2])

    before = reads()
    words = ("--duration", "500ms", "--depth", "64", "--connections", "4")
    found = document(load(tmp_path, url(redis), *words, "--outstanding", "16"))
    result, taken = found["result"], reads() - before
    calls = redis.calls()["ping"]
    assert calls == result["counts"]["completed"] > 64
    assert result["counts"]["errors"] == 0
    assert (result["target"]["outstanding"], result["target"]["connections"]) == (16, 4)
    # Several commands arrived together.
    assert taken < calls


def test_a_command_without_a_value_is_counted(redis: Redis, tmp_path: Path) -> None:
    words = ("--commands", "GET nothing; LPOP nothing")
    done = load(tmp_path, url(redis), *RATE, *words)
    result = document(done)["result"]
    assert result["target"]["nil_replies"] == result["counts"]["completed"] > 0
    assert result["kinds"]["exchange"]["bytes"] == 0
    # Of two workers, both.
    two = ("--workers", "2", "--depth", "8", "--duration", "200ms")
    done = load(tmp_path, url(redis), *two, *words)
    result = document(done)["result"]
    assert result["target"]["nil_replies"] == result["counts"]["completed"] > 0


def test_counts_of_replies_do_not_have_the_warm_up(redis: Redis, tmp_path: Path) -> None:
    words = ("--warm-up", "1s", "--commands", "GET nokey", "--arrival", "constant")
    found = document(load(tmp_path, url(redis), *RATE, *words))["result"]
    assert redis.calls()["get"] > found["counts"]["completed"] > 0
    assert found["target"]["nil_replies"] == found["counts"]["completed"]
    # Each is `*2`, `$3`, `GET`, `$5` and `nokey`; some of the warm-up may end after it has begun.
    sent, measured = found["target"]["sent_bytes"], 24 * found["counts"]["issued"]
    assert measured <= sent < measured + 24 * 128


def test_error_replies_are_errors_with_their_word(redis: Redis, tmp_path: Path) -> None:
    redis("SET", "text", "x")
    commands = (
        "LPUSH text 1; NOSUCHCOMMAND a; EVALSHA 0123456789012345678901234567890123456789 0; "
        "EVAL \"return redis.error_reply('MYWORD of a script')\" 0; GET text"
    )
    done = load(tmp_path, url(redis), *RATE, "--commands", commands)
    found = document(done, 1)
    errors, counts = errors_of(found), found["result"]["counts"]
    assert set(errors) == {*("Redis WRONGTYPE", "Redis ERR", "Redis NOSCRIPT", "Redis error")}
    assert sum(errors.values()) == counts["errors"] < counts["completed"]
    assert errors["Redis WRONGTYPE"] == redis.calls()["lpush"]
    (failed,) = (one for one in found["findings"] if one["code"] == "operations-failed")
    assert "Redis WRONGTYPE" in failed["evidence"]


def test_the_database_and_the_unix_socket(redis: Redis, tmp_path: Path) -> None:
    words = ("--commands", "INCR count", "--unix-socket", str(redis.unix_socket))
    found = document(load(tmp_path, url(redis, "/3"), *RATE, *words))["result"]
    assert found["target"]["address"] == f"unix:{redis.unix_socket}"
    assert found["target"]["handshake_ns"]["count"] == 4
    assert redis("GET", "count") == "$-1"
    assert redis("SELECT", "3") == "+OK"
    assert redis("GET", "count") == str(found["counts"]["completed"])
    assert redis.calls()["select"] == 4 + 1
    done = load(tmp_path, url(redis, "/99"), *RATE)
    assert done.returncode == 2
    assert "refused SELECT: ERR DB index is out of range" in done.stderr


def test_words_with_values_are_those_of_the_seed(redis: Redis, tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(
        f"""
        [target]
        to = "{url(redis)}"
        connections = 4
        outstanding = 4
        commands = ["SET key:${{n}} ${{n}}-${{text}}"]
        [values]
        n = "counter"
        text = "text 10 digits"
        [[filament]]
        type = "open"
        rate = "1k"
        count = 500
        """
    )
    stored = []
    for workers in ("1", "2"):
        done = bw(tmp_path, "load", "w.toml", "--json", "--workers", workers)
        counts = document(done)["result"]["counts"]
        assert counts["completed"] == counts["intended"] == 500
        assert redis("DBSIZE") == ":500"
        stored.append([redis("GET", f"key:{n}") for n in range(500)])
        redis("FLUSHDB")
    one, two = stored
    assert one == two
    assert all(re.fullmatch(rf"{n}-[0-9]{{10}}", text) for n, text in enumerate(one))
    assert len(set(one)) == 500


def test_replies_of_the_third_version_of_the_protocol(redis: Redis, tmp_path: Path) -> None:
    redis("HSET", "hash", "field", "value")
    (tmp_path / "w.toml").write_text(
        f"""
        [target]
        to = "{url(redis)}"
        connections = 2
        resp = 3
        commands = ["HGETALL hash", ["ZADD", "zset", "1.5", "a b"], "ZSCORE zset 'a b'", "GET nothing"]
        [[filament]]
        type = "open"
        rate = "1k"
        location = "sequential"
        """
    )
    done = bw(tmp_path, "load", "w.toml", "--json", "--duration", "1s")
    result = document(done)["result"]
    calls = redis.calls()
    names = ("hgetall", "zadd", "zscore", "get")
    assert sum(calls[name] for name in names) == result["counts"]["completed"] > 0
    assert calls["hello"] == 2
    assert result["target"]["nil_replies"] >= calls["get"]
    assert result["counts"]["errors"] == 0


@pytest.mark.parametrize("user", ["", "app@"])
def test_the_password_of_the_environment_logs_in_and_is_nowhere(
    protected: Redis, user: str, tmp_path: Path
) -> None:
    target = f"redis://{user}127.0.0.1:{protected.port}/1"
    place = tmp_path / "place"
    place.mkdir()
    words = ("--commands", "INCR count", *RATE)
    done = load(place, target, *words, "-v", REDISCLI_AUTH=PASSWORD)
    result = document(done)["result"]
    assert result["counts"]["errors"] == 0
    assert protected("SELECT", "1") == "+OK"
    assert protected("GET", "count") == str(result["counts"]["completed"])
    if user:
        assert f"{user}127.0.0.1" in done.stdout
    assert PASSWORD not in done.stdout + done.stderr
    # Nor in a study, with its captures of the environment.
    environment = os.environ | {"REDISCLI_AUTH": PASSWORD}
    study = bw(
        place, *("load", "--target", target, *words, "--study", "study", "--quiet"), env=environment
    )
    assert study.returncode == 0, study.stderr
    stored = [path for path in place.rglob("*") if path.is_file()]
    assert stored
    assert [p for p in stored if PASSWORD.encode() in p.read_bytes()] == []


def test_the_password_of_a_file_and_wrong_ones(protected: Redis, tmp_path: Path) -> None:
    (tmp_path / "right").write_text(f"{PASSWORD}\n")
    (tmp_path / "wrong").write_text("other-Word")
    (tmp_path / "w.toml").write_text(
        f"""
        [target]
        to = "{url(protected)}"
        password_file = "right"
        [[filament]]
        type = "closed"
        users = 2
        """
    )
    words = ("load", "w.toml", "--json", "--duration", "200ms", "--connections", "2")
    found = document(bw(tmp_path, *words))
    assert found["result"]["counts"]["completed"] == protected.calls()["ping"] > 0

    text = (tmp_path / "w.toml").read_text()
    (tmp_path / "w.toml").write_text(text.replace('"right"', '"wrong"'))
    done = bw(tmp_path, *words)
    assert done.returncode == 2
    assert "refused AUTH: WRONGPASS invalid username-password pair" in done.stderr
    assert "other-Word" not in done.stderr + done.stdout
    done = load(tmp_path, url(protected), *RATE, REDISCLI_AUTH="other-Word")
    assert done.returncode == 2
    assert "other-Word" not in done.stderr + done.stdout
    done = load(tmp_path, f"redis://app@127.0.0.1:{protected.port}", *RATE)
    assert done.returncode == 2
    assert "REDISCLI_AUTH" in done.stderr
    # Without one, the server says so for each command.
    found = document(load(tmp_path, url(protected), *RATE), 1)
    assert errors_of(found) == {"Redis NOAUTH": found["result"]["counts"]["completed"]}


def test_no_process_shows_the_password(protected: Redis, tmp_path: Path) -> None:
    words = bw_words("load", "--target", url(protected), "--duration", "1h", "--quiet")
    environment = os.environ | {"REDISCLI_AUTH": PASSWORD}
    with subprocess.Popen(words, cwd=tmp_path, env=environment) as process:
        try:
            while protected.calls().get("ping", 0) < 100:
                assert process.poll() is None
                time.sleep(0.02)
            shown = []
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    shown.append(path.read_bytes())
                except OSError:
                    continue
        finally:
            process.terminate()
    assert any(b"bw-engine" in words for words in shown)
    assert [words for words in shown if PASSWORD.encode() in words] == []


def test_a_password_in_the_address_is_refused_and_not_repeated(tmp_path: Path) -> None:
    done = load(tmp_path, f"redis://:{PASSWORD}@127.0.0.1:1/", *RATE)
    assert done.returncode == 2
    assert "REDISCLI_AUTH" in done.stderr
    assert PASSWORD not in done.stderr + done.stdout
    (tmp_path / "w.toml").write_text(
        f'[target]\nto = "redis://:{PASSWORD}@h"\n[[filament]]\ntype = "closed"\nusers = 1\n'
    )
    done = bw(tmp_path, "load", "w.toml")
    assert done.returncode == 2
    assert "w.toml:2" in done.stderr
    assert PASSWORD not in done.stderr + done.stdout


def test_a_server_that_dies_in_the_middle(redis: Redis, tmp_path: Path) -> None:
    def kill() -> None:
        while redis.calls().get("ping", 0) < 300:
            time.sleep(0.01)
        redis.process.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    words = ("--rate", "1k", "--duration", "2s", "--connections", "4")
    done = load(tmp_path, url(redis), *words, "--outstanding", "4")
    killer.join()
    found = document(done, 1)
    counts, errors = found["result"]["counts"], errors_of(found)
    good = found["result"]["kinds"]["exchange"]["response_ns"]["count"]
    assert good >= 300
    assert counts["completed"] == good + counts["errors"]
    assert counts["issued"] == counts["completed"] + counts["unfinished"]
    assert set(errors) <= {"ECONNRESET", "ECONNREFUSED", "EPIPE", "response cut"}, errors
    assert sum(errors.values()) == counts["errors"] > 0
    assert "operations-failed" in {one["code"] for one in found["findings"]}
    assert found["result"]["target"]["failed_connects"] > 0


def test_a_server_that_is_not_there_or_is_another_one(tmp_path: Path) -> None:
    done = load(tmp_path, f"redis://127.0.0.1:{free_port()}", *RATE)
    assert done.returncode == 2
    assert "connect" in done.stderr.lower()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(100)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        port = listener.getsockname()[1]
        done = load(tmp_path, f"redis://127.0.0.1:{port}", *RATE)
        thread.join()
    assert done.returncode == 1
    assert "[other-protocol]" in done.stderr
    assert done.stdout == ""


@pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed")
def test_redis_with_tls(tmp_path: Path) -> None:
    key, file = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = (
        *(str(OPENSSL), "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"),
        *("-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=bw test"),
        *("-addext", "subjectAltName = DNS:localhost"),
        *("-addext", "basicConstraints = critical,CA:FALSE"),
        *("-keyout", str(key), "-out", str(file)),
    )
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
    port = free_port()
    redis = Redis(
        tmp_path,
        f"tls-port {port}",
        f"tls-cert-file {file}",
        f"tls-key-file {key}",
        "tls-auth-clients no",
    )
    try:
        target = f"rediss://localhost:{port}/2"
        options = ("--ca", str(file), "--commands", "INCR count", "--outstanding", "8")
        result = document(load(tmp_path, target, *RATE, *options))["result"]
        assert result["target"]["tls"]["verified"]
        redis("SELECT", "2")
        assert redis("GET", "count") == str(result["counts"]["completed"])
        assert load(tmp_path, target, *RATE).returncode == 2
    finally:
        redis.close()


def test_a_ramp_counts_what_the_server_executed(redis: Redis, tmp_path: Path) -> None:
    done = bw(
        tmp_path,
        *("ramp", "--target", url(redis), "--commands", "INCR count; GET count"),
        *("--outstanding", "2", "--highest", "2", "--hold", "300ms", "--json"),
    )
    assert done.returncode in (0, 3), done.stderr
    assert json.loads(done.stdout)
    calls = redis.calls()
    assert calls["incr"] > 100
    assert redis("GET", "count") == str(calls["incr"])
