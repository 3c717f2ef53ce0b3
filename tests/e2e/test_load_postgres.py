"""`bw load`, and a search, on Debian's PostgreSQL."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bw_command import Done, bw
from postgres_server import PATIENCE_S, Postgres, postgres

PASSWORD = "pass word:\\1"
"""With the characters that have a meaning in a password file."""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as one:
        for method in ("scram-sha-256", "md5"):
            role = method.replace("-", "_")
            one.execute(
                f"SET password_encryption = '{method}'; "
                f"CREATE ROLE by_{role} LOGIN PASSWORD '{PASSWORD}'"
            )
        one.execute(f"CREATE ROLE by_clear LOGIN PASSWORD '{PASSWORD}'")
        one.execute("CREATE TABLE counted (id bigserial, text text)")
        one.execute("CREATE TABLE single (id int PRIMARY KEY)")
        one.execute("INSERT INTO single VALUES (1)")
        one.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC")
        one.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO PUBLIC")
        one.admit(
            "host all bench 127.0.0.1/32 trust",
            "host all by_scram_sha_256 127.0.0.1/32 scram-sha-256",
            "host all by_md5 127.0.0.1/32 md5",
            "host all by_clear 127.0.0.1/32 password",
        )
        yield one


def url_of(server: Postgres, user: str = "bench", more: str = "") -> str:
    return f"postgres://{user}@127.0.0.1:{server.port}/postgres{more}"


def load(directory: Path, target: str, *words: str, **environment: str) -> Done:
    """Run a load."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    return bw(
        directory,
        *("load", "--json", "--target", target, *words),
        env=own | {"HOME": str(directory)} | environment,
    )


SHORT = ("--rate", "200", "--duration", "500ms", "--connections", "4")


def document(done: Done) -> dict[str, Any]:
    """Return the document of a load that was successful."""
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def statements(
    directory: Path, *operations: str, filament: str = "", run: str = '[run]\nduration = "1s"'
) -> str:
    """Return the name of a workload that executes these operations, each as TOML."""
    file = directory / "w.toml"
    file.write_text(
        f"[target]\nstatements = [{', '.join(operations)}]\n"
        f"[[filament]]\n{filament or CLOSED}\n{run}\n"
    )
    return str(file)


CLOSED = 'type = "closed"\nusers = 4'
INSERT = '{sql = "INSERT INTO counted (text) VALUES ($1)", parameters = ["a"]}'


def errors_of(found: dict[str, Any]) -> dict[str, int]:
    """Return how often each error happened, by name."""
    errors: dict[str, int] = found["result"]["kinds"]["all"]["errors"]
    return errors


def test_the_default_is_a_query_without_a_table(server: Postgres, tmp_path: Path) -> None:
    found = document(load(tmp_path, url_of(server), *SHORT))
    counts = found["result"]["counts"]
    assert counts["completed"] == counts["intended"] > 0
    assert counts["errors"] == 0
    target = found["result"]["target"]
    assert (target["kind"], target["connections"]) == ("postgres", 4)
    assert target["handshake_ns"]["count"] == 4


@pytest.mark.parametrize("outstanding", ["1", "8"])
def test_as_many_rows_are_inserted_as_operations_completed(
    server: Postgres, tmp_path: Path, outstanding: str
) -> None:
    server.execute("TRUNCATE counted")
    filament = 'type = "open"\nrate = "2k"\ncount = 1000'
    file = statements(tmp_path, INSERT, filament=filament, run="")
    words = (file, "--connections", "2", "--outstanding", outstanding)
    found = document(load(tmp_path, url_of(server), *words))
    counts = found["result"]["counts"]
    assert counts["completed"] == counts["intended"] == 1000
    assert int(server.execute("SELECT count(*) FROM counted")) == 1000
    assert found["result"]["target"]["outstanding"] == int(outstanding)


def test_each_statement_has_its_share_and_its_figures(server: Postgres, tmp_path: Path) -> None:
    server.execute("TRUNCATE counted")
    (tmp_path / "w.toml").write_text(
        """
        [[request]]
        label = "insert"
        weight = 3
        sql = "INSERT INTO counted (text) VALUES ($1)"
        parameters = ["${n}"]
        [[request]]
        statements = ["SELECT 1", "SELECT 2"]
        [values]
        n = "integer 1..10"
        [[filament]]
        type = "open"
        rate = "2k"
        count = 400
        """
    )
    words = ("w.toml", "--connections", "2", "--limit", "p90 < 10s of insert")
    found = document(load(tmp_path, url_of(server), *words))
    rows = int(server.execute("SELECT count(*) FROM counted"))
    labels = {name: one["operations"] for name, one in found["result"]["labels"].items()}
    assert labels == {"insert": rows, "SELECT 1; SELECT 2": 400 - rows}
    assert 250 < rows < 350
    assert [one["outcome"] for one in found["limits"]] == ["passed"]


def test_commands_are_statements_of_which_each_operation_executes_one(
    server: Postgres, tmp_path: Path
) -> None:
    server.execute("TRUNCATE counted")
    texts = ("INSERT INTO counted (text) VALUES ('a;b')", "SELECT 'it''s;'")
    words = ("--commands", "; ".join(texts), *SHORT)
    counts = document(load(tmp_path, url_of(server), *words))["result"]["counts"]
    rows = server.execute("SELECT text FROM counted").splitlines()
    assert counts["errors"] == 0
    assert 0 < len(rows) < counts["completed"] == counts["intended"]
    assert set(rows) == {"a;b"}


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT 'a", "' is not closed"),
        ("SELECT $1::int", "parameter"),
        ("BEGIN", "BEGIN"),
    ],
)
def test_commands_that_cannot_be_prepared_are_refused(
    server: Postgres, tmp_path: Path, commands: str, message: str
) -> None:
    done = load(tmp_path, url_of(server), "--commands", commands, *SHORT)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_search_has_commands_as_statements(server: Postgres, tmp_path: Path) -> None:
    server.execute("TRUNCATE counted")
    insert = "INSERT INTO counted (text) VALUES ('ramp')"
    done = bw(
        tmp_path,
        *("ramp", "--target", url_of(server), "--commands", insert, "--json"),
        *("--connections", "2", "--highest", "2", "--hold", "300ms"),
    )
    assert done.returncode in (0, 3), done.stderr
    assert set(server.execute("SELECT text FROM counted").splitlines()) == {"ramp"}


def test_a_list_of_statements_is_one_transaction(server: Postgres, tmp_path: Path) -> None:
    server.execute("TRUNCATE counted")
    good = f"[{INSERT}, {INSERT}]"
    bad = f'[{INSERT}, "INSERT INTO single VALUES (1)"]'
    file = statements(tmp_path, good, bad)
    words = (file, "--connections", "3", "--outstanding", "8", "--max-errors", "100%")
    found = document(load(tmp_path, url_of(server), *words))
    counts = found["result"]["counts"]
    assert counts["errors"] > 0
    assert errors_of(found) == {"SQLSTATE 23505": counts["errors"]}
    rows = int(server.execute("SELECT count(*) FROM counted"))
    assert rows == 2 * (counts["completed"] - counts["errors"]) > 0
    assert found["result"]["target"]["reconnects"] == 0


def test_parameters_with_values_are_those_of_the_seed(server: Postgres, tmp_path: Path) -> None:
    insert = "INSERT INTO counted VALUES ($1, $2)"
    (tmp_path / "w.toml").write_text(
        f"""
        [target]
        to = "{url_of(server)}"
        connections = 2
        outstanding = 4
        statements = [{{sql = "{insert}", parameters = ["${{n}}", "${{n}}-${{text}}"]}}]
        [values]
        n = "counter"
        text = "text 10 digits"
        [[filament]]
        type = "open"
        rate = "1k"
        count = 300
        """
    )
    stored = []
    for workers in ("1", "2"):
        server.execute("TRUNCATE counted")
        done = bw(tmp_path, "load", "w.toml", "--json", "--workers", workers)
        counts = document(done)["result"]["counts"]
        assert (counts["completed"], counts["errors"]) == (300, 0)
        rows = server.execute("SELECT id, text FROM counted ORDER BY id")
        stored.append(rows.splitlines())
    one, two = stored
    assert one == two
    pattern = re.compile(r"(\d+)\|\1-\d{10}")
    assert all(pattern.fullmatch(row) for row in one)
    assert len(set(one)) == 300


def test_a_value_that_is_not_there_is_refused_at_its_place(
    server: Postgres, tmp_path: Path
) -> None:
    one = '{sql = "SELECT $1", parameters = ["${id}"]}'
    done = load(tmp_path, url_of(server), statements(tmp_path, one))
    assert done.returncode == 2
    assert 'there is no value "id"' in done.stderr
    assert "w.toml:2:" in done.stderr


@pytest.mark.parametrize("role", ["by_scram_sha_256", "by_md5", "by_clear"])
def test_a_password_is_needed_and_must_be_right(
    server: Postgres, tmp_path: Path, role: str
) -> None:
    url = url_of(server, role)
    absent = load(tmp_path, url, *SHORT)
    assert absent.returncode == 2
    assert "PGPASSWORD" in absent.stderr
    wrong = load(tmp_path, url, *SHORT, PGPASSWORD="wrong-secret")
    assert wrong.returncode == 2
    assert "28P01: password authentication failed" in wrong.stderr
    assert "wrong-secret" not in wrong.stderr + wrong.stdout
    right = load(tmp_path, url, *SHORT, PGPASSWORD=PASSWORD)
    assert document(right)["result"]["counts"]["errors"] == 0
    assert PASSWORD not in right.stdout + right.stderr


def test_passwords_in_files(server: Postgres, tmp_path: Path) -> None:
    url = url_of(server, "by_scram_sha_256")
    escaped = PASSWORD.replace("\\", "\\\\").replace(":", "\\:")
    line = f"127.0.0.1:{server.port}:postgres:by_scram_sha_256:{escaped}\n"
    for name in (".pgpass", "passes"):
        file = tmp_path / name
        file.write_text(f"other:1:*:*:no\n{line}")
        file.chmod(0o600)
    document(load(tmp_path, url, *SHORT))
    (tmp_path / ".pgpass").chmod(0o644)
    assert load(tmp_path, url, *SHORT).returncode == 2
    document(load(tmp_path, url, *SHORT, PGPASSFILE="passes"))
    (tmp_path / "alone").write_text(PASSWORD + "\n")
    (tmp_path / "w.toml").write_text(
        f'[target]\nto = "{url}"\npassword_file = "alone"\nconnections = 2\n'
        '[[filament]]\ntype = "closed"\nusers = 1\n[run]\nduration = "500ms"\n'
    )
    document(bw(tmp_path, "load", "--json", "w.toml"))


def test_the_unix_socket(server: Postgres, tmp_path: Path) -> None:
    directory = str(server.home).replace("/", "%2F")
    url = f"postgres://bench@{directory}:{server.port}/postgres"
    found = document(load(tmp_path, url, *SHORT))
    path = f"unix:{server.home}/.s.PGSQL.{server.port}"
    assert found["result"]["target"]["address"] == path


def certificate(directory: Path, *key: str) -> tuple[Path, Path]:
    """Make a certificate of localhost and its key, of this kind."""
    files = (directory / "server.crt", directory / "server.key")
    words = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    words += key or ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    words += ["-addext", "subjectAltName=DNS:localhost"]
    words += ["-addext", "basicConstraints=critical,CA:FALSE"]
    words += ["-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run(words, check=True, capture_output=True)
    files[1].chmod(0o600)
    return files


@contextlib.contextmanager
def in_between(server: Postgres, files: tuple[Path, Path]) -> Iterator[int]:
    """Relay connections to a server, decrypted, with a certificate of our own; return the port."""
    outer = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    outer.load_cert_chain(*files)
    inner = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    inner.check_hostname, inner.verify_mode = False, ssl.CERT_NONE

    def copy(source: ssl.SSLSocket, sink: ssl.SSLSocket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                sink.sendall(piece)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def relay(client: socket.socket) -> None:
        address = ("127.0.0.1", server.port)
        with contextlib.suppress(OSError), client, socket.create_connection(address) as plain:
            plain.sendall(client.recv(8))
            client.sendall(plain.recv(1))
            with (
                outer.wrap_socket(client, server_side=True) as one,
                inner.wrap_socket(plain) as other,
            ):
                back = threading.Thread(target=copy, args=(other, one))
                back.start()
                copy(one, other)
                back.join()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=relay, args=(client,)).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
@pytest.mark.parametrize("key", ["ec", "rsa"])
def test_scram_is_bound_to_the_server_s_certificate(
    server: Postgres, tmp_path: Path, key: str
) -> None:
    words = {"ec": (), "rsa": ("-newkey", "rsa:2048", "-sha512")}[key]
    files = certificate(server.data, *words)
    own = certificate(tmp_path, *words)
    for file in files:
        if not os.geteuid():
            shutil.chown(file, "postgres")
    server.set(ssl="on")
    try:
        trust = ("--ca", str(files[0]), "--server-name", "localhost")
        url = url_of(server, "by_scram_sha_256", "?sslmode=require")
        found = document(load(tmp_path, url, *SHORT, *trust, PGPASSWORD=PASSWORD))
        assert found["result"]["counts"]["errors"] == 0
        trust = ("--ca", str(own[0]), "--server-name", "localhost")
        with in_between(server, own) as port:
            # What is not bound passes; what is bound does not.
            url = f"postgres://by_md5@127.0.0.1:{port}/postgres?sslmode=require"
            document(load(tmp_path, url, *SHORT, *trust, PGPASSWORD=PASSWORD))
            url = url.replace("by_md5", "by_scram_sha_256")
            refused = load(tmp_path, url, *SHORT, *trust, PGPASSWORD=PASSWORD)
        assert refused.returncode == 2
        assert "SCRAM channel binding check failed" in refused.stderr
    finally:
        server.set(ssl="off")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
def test_tls(server: Postgres, tmp_path: Path) -> None:
    refused = load(tmp_path, url_of(server, more="?sslmode=require"), *SHORT)
    assert refused.returncode == 2
    assert "does not use TLS" in refused.stderr
    files = certificate(server.data)
    for file in files:
        if not os.geteuid():
            shutil.chown(file, "postgres")
    server.set(ssl="on")
    try:
        url = url_of(server, "by_scram_sha_256", "?sslmode=require")
        unknown = load(tmp_path, url, *SHORT, PGPASSWORD=PASSWORD)
        assert unknown.returncode == 2
        assert "--ca" in unknown.stderr
        trust = ("--ca", str(files[0]), "--server-name", "localhost")
        found = document(load(tmp_path, url, *SHORT, *trust, PGPASSWORD=PASSWORD))
        assert found["result"]["counts"]["errors"] == 0
        tls = found["result"]["target"]["tls"]
        assert (tls["version"], tls["verified"]) == ("TLSv1.3", True)
        # The options alone turn TLS on.
        found = document(load(tmp_path, url_of(server), *SHORT, "--insecure"))
        assert not found["result"]["target"]["tls"]["verified"]
        assert "certificate-not-verified" in {one["code"] for one in found["findings"]}
    finally:
        server.set(ssl="off")


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ('"SELECT a FROM nowhere"', '42P01: relation "nowhere" does not exist'),
        ('"SELECT"', None),
        ('"SELEC 1"', "42601"),
        ('"SELECT $1::int"', "1 parameters, and 0 are given"),
        ('"SELECT 1; SELECT 2"', "42601"),
        ('"COPY counted FROM STDIN"', "COPY is not supported"),
        ('"BEGIN"', "one transaction"),
    ],
)
def test_statements_are_refused_before_the_run(
    server: Postgres, tmp_path: Path, operation: str, message: str | None
) -> None:
    words = (statements(tmp_path, operation), "--connections", "2")
    done = load(tmp_path, url_of(server), *words)
    if message is None:
        document(done)
    else:
        assert done.returncode == 2
        assert message in done.stderr


def test_too_many_connections_and_an_unknown_database(server: Postgres, tmp_path: Path) -> None:
    many = load(tmp_path, url_of(server), "--duration", "1s", "--connections", "200")
    assert many.returncode == 2
    assert "53300" in many.stderr
    assert "max_connections" in many.stderr
    url = f"postgres://bench@127.0.0.1:{server.port}/nothing"
    unknown = load(tmp_path, url, *SHORT)
    assert unknown.returncode == 2
    assert '3D000: database "nothing" does not exist' in unknown.stderr


def _after_rows(server: Postgres, rows: int, act: Any) -> threading.Thread:
    """Do something once the load has inserted rows."""

    def wait() -> None:
        end_s = time.monotonic() + PATIENCE_S
        while int(server.execute("SELECT count(*) FROM counted")) < rows:
            assert time.monotonic() < end_s, "no row was inserted"
            time.sleep(0.02)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_connections_that_the_server_ends_are_made_again(server: Postgres, tmp_path: Path) -> None:
    server.execute("TRUNCATE counted")
    file = statements(tmp_path, INSERT, filament='type = "closed"\nusers = 8')
    end = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'benchwright'"
    )
    thread = _after_rows(server, 50, lambda: server.execute(end))
    words = (file, "--connections", "4", "--max-errors", "100%", "--duration", "3s")
    found = document(load(tmp_path, url_of(server), *words))
    thread.join()
    counts, target = found["result"]["counts"], found["result"]["target"]
    assert target["reconnects"] >= 4
    rows = int(server.execute("SELECT count(*) FROM counted"))
    # An operation that failed may have been executed before its connection ended.
    assert counts["completed"] - counts["errors"] <= rows <= counts["completed"]
    assert sum(errors_of(found).values()) == counts["errors"]
    assert set(errors_of(found)) <= {"SQLSTATE 57P01", "ECONNRESET", "EPIPE", "response cut"}


def test_a_server_that_is_killed_gives_a_finding_and_correct_counts(
    server: Postgres, tmp_path: Path
) -> None:
    server.execute("TRUNCATE counted")
    file = statements(tmp_path, INSERT, filament='type = "open"\nrate = "500"')
    thread = _after_rows(server, 50, server.kill)
    words = (file, "--connections", "4", "--outstanding", "8", "--duration", "3s")
    done = load(tmp_path, url_of(server), *words)
    thread.join()
    server.start()
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    counts = found["result"]["counts"]
    assert counts["issued"] + counts["waiting"] == counts["intended"]
    assert counts["completed"] + counts["unfinished"] == counts["issued"]
    rows = int(server.execute("SELECT count(*) FROM counted"))
    good = counts["completed"] - counts["errors"]
    assert 50 <= good <= rows <= good + 4 * 8
    assert errors_of(found)["ECONNREFUSED"] > 0
    assert sum(errors_of(found).values()) == counts["errors"] > 0
    assert "operations-failed" in {one["code"] for one in found["findings"]}


def test_a_search_of_the_highest_rate(server: Postgres, tmp_path: Path) -> None:
    done = bw(
        tmp_path,
        *("peak", "--target", url_of(server), "--connections", "4", "--json"),
        *("--max-trials", "2", "--run-length", "1s", "--start", "100"),
        *("--limit", "p99 < 500ms"),
    )
    assert done.returncode in (0, 3), done.stderr
    assert json.loads(done.stdout)["trials"], done.stdout


# -- A mix of transactions ---------------------------------------------------------------

EXAMPLES = Path(__file__).parents[2] / "examples"
CONSISTENT = {
    "1": "SELECT w_id FROM warehouse JOIN district ON d_w_id = w_id "
    "GROUP BY w_id, w_ytd HAVING sum(d_ytd) <> w_ytd",
    "2": "SELECT d_id FROM district JOIN orders ON o_w_id = d_w_id AND o_d_id = d_id "
    "GROUP BY d_w_id, d_id, d_next_o_id HAVING max(o_id) <> d_next_o_id - 1",
    "3": "SELECT no_d_id FROM new_order GROUP BY no_w_id, no_d_id "
    "HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    "4": "SELECT 1 WHERE (SELECT sum(o_ol_cnt) FROM orders) <> (SELECT count(*) FROM order_line)",
    "5": "SELECT o_id FROM orders LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id "
    "AND no_o_id = o_id WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    "7": "SELECT ol_o_id FROM order_line JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id "
    "AND o_id = ol_o_id WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    "8": "SELECT w_id FROM warehouse JOIN history ON h_w_id = w_id "
    "GROUP BY w_id, w_ytd HAVING sum(h_amount) <> w_ytd",
    "10": "SELECT c_id FROM customer WHERE c_balance <> - c_ytd_payment + coalesce((SELECT sum(ol_amount) "
    "FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id "
    "WHERE ol_delivery_d IS NOT NULL AND o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id), 0)",
}
"""Clause 3.3.2 of TPC-C by the number of the condition: what must have no row."""


def test_a_mix_like_tpc_c_leaves_its_tables_consistent_and_as_the_counts_say(
    server: Postgres, tmp_path: Path
) -> None:
    sizes = ("-v", "warehouses=2", "-v", "customers=30", "-v", "items=1000")
    place = ("-h", "127.0.0.1", "-p", str(server.port), "-U", "bench", "postgres")
    tables = EXAMPLES / "postgres" / "tpcc.sql"
    subprocess.run(["psql", "-X", "-q", *sizes, "-f", tables, *place], check=True)
    text = (EXAMPLES / "tpcc-like.toml").read_text()
    small = {"1..4": "1..2", "max = 3000": "max = 30", "max = 100_000": "max = 1000"}
    for full, some in small.items():
        assert full in text
        text = text.replace(full, some)
    (tmp_path / "w.toml").write_text(text)
    words = ("--rate", "200", "--duration", "3s", "--warm-up", "0s")
    found = document(load(tmp_path, url_of(server), "w.toml", *words, "--drain", "20s"))
    labels = found["result"]["labels"]
    assert set(labels) == {"new-order", "payment", "order-status", "delivery", "stock-level"}
    assert all(one["errors"] == {} and one["operations"] for one in labels.values())
    added = server.execute("SELECT sum(d_next_o_id - 31) FROM district")
    assert int(added) == labels["new-order"]["operations"]
    assert int(server.execute("SELECT count(*) FROM history")) == labels["payment"]["operations"]
    broken = {name: rows for name, sql in CONSISTENT.items() if (rows := server.execute(sql))}
    assert broken == {}
    # The conditions can fail.
    server.execute("UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1")
    assert server.execute(CONSISTENT["1"]) == "1"
