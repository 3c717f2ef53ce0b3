"""What --target names."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import msgspec
import pytest

from benchwright.core.errors import Diagnostic, InputError
from benchwright.features.load import request as r
from benchwright.features.load.host_parts import part_of, target_mistakes
from benchwright.features.load.parse import (
    address_of,
    answer_prefix,
    implied_server,
    is_network,
    options_of,
    parse_target,
    payloads,
    redis_commands,
    sql_statements,
    target_text,
    unix_socket,
    with_options,
)
from benchwright.features.load.plan import plan_of_file
from benchwright.features.load.workload_toml import read_workload
from benchwright.features.search.spec_toml import read_spec


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("null", r.NullTarget()),
        ("./null", r.FileTarget("./null")),
        ("./h:7", r.FileTarget("./h:7")),
        ("/dev/loop0", r.FileTarget("/dev/loop0")),
        ("tcp://127.0.0.1:7", r.TcpTarget("127.0.0.1", 7)),
        ("tcp://[::1]:7", r.TcpTarget("::1", 7)),
        ("http://h:80/a?b=1", r.HttpTarget("http://h:80/", paths=("/a?b=1",))),
        ("http://h", r.HttpTarget("http://h/")),
        ("https://h/a", r.HttpTarget("https://h/", paths=("/a",), tls=r.Tls())),
        ("tls://h:7", r.TcpTarget("h", 7, tls=r.Tls())),
        ("udp://h:53", r.UdpTarget("h", 53)),
        ("udp://[::1]:53", r.UdpTarget("::1", 53)),
        ("redis://h", r.RedisTarget("h")),
        ("redis://[::1]:7/3", r.RedisTarget("::1", 7, database=3)),
        ("redis://a%40b@h/0", r.RedisTarget("h", database=0, user="a@b")),
        ("rediss://h:7/", r.RedisTarget("h", 7, tls=r.Tls())),
        ("postgres://u@h/db", r.PostgresTarget("h", "u", database="db")),
        ("postgresql://u@h", r.PostgresTarget("h", "u")),
        (
            "postgres://a%40b@[::1]:7/d%2Fb?sslmode=require",
            r.PostgresTarget("::1", "a@b", 7, "d/b", tls=r.Tls()),
        ),
        ("postgres://u@h/?sslmode=disable", r.PostgresTarget("h", "u")),
        (
            "postgres://u@%2Frun%2FSocket/db",
            r.PostgresTarget(
                "localhost", "u", database="db", unix_socket="/run/Socket/.s.PGSQL.5432"
            ),
        ),
        (
            "postgres://u@:7/db?host=/run/x",
            r.PostgresTarget("localhost", "u", 7, "db", unix_socket="/run/x/.s.PGSQL.7"),
        ),
    ],
)
def test_targets(text: str, target: r.LoadTarget) -> None:
    assert parse_target(text) == target
    assert parse_target(target_text(target)) == target


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "not a path"),
        ("ftp://h/", "not a kind of target"),
        ("tcp://h", "no port"),
        ("tcp://h:99999", "no valid host or port"),
        ("tcp://h:7/x", "more than"),
        ("tls://h", "tls://HOST:PORT"),
        ("udp://h", "udp://HOST:PORT"),
        ("udp://h:53/x", "more than"),
        ("http://", "has no host"),
        ("http://u:p@h/", "user name"),
        ("redis://", "has no host"),
        ("redis://h:0", "no valid host or port"),
        ("redis://h/x", "redis://HOST:PORT/NUMBER"),
        ("redis://h/1?x=1", "redis://HOST:PORT/NUMBER"),
        ("redis://:p@h", "REDISCLI_AUTH"),
        ("postgres://h/db", "names no user"),
        ("postgres://@h/db", "names no user"),
        ("postgres://u:secret@h/db", "set PGPASSWORD"),
        ("postgres://u@/db", "no valid host or port"),
        ("postgres://u@h:0/db", "no valid host or port"),
        ("postgres://u@h:x/db", "no valid host or port"),
        ("postgres://u@h/db?sslmode=prefer", "must be one of disable, require"),
        ("postgres://u@h/db?password=secret", "has more than"),
        ("postgres://u@%2Frun%2F" + "x" * 100 + "/db", "not a path of a Unix socket"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080/ or tcp://127.0.0.1:8080"),
        ("localhost:7", "a new file of that name ./localhost:7"),
    ],
)
def test_no_targets(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=re.escape(part)):
        parse_target(text)


def test_a_directory_is_no_target(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a directory"):
        parse_target(str(tmp_path))


@pytest.mark.parametrize("text", ["", "a\0b", "/" + "x" * 107])
def test_no_paths_of_a_unix_socket(text: str) -> None:
    with pytest.raises(ValueError, match="not a path of a Unix socket: 1 to 107 bytes"):
        unix_socket(text)


@pytest.mark.parametrize("text", ["http://localhost/", "tcp://localhost:7"])
def test_a_unix_socket_takes_the_place_of_a_port(text: str) -> None:
    target = parse_target(text)
    assert address_of(target) is not None
    assert implied_server(target) is not None
    path = unix_socket("/run/server")
    target = with_options(target, {"unix_socket": path, "outstanding": 8})
    assert (address_of(target), implied_server(target)) == (None, None)
    assert msgspec.to_builtins(target)["unix_socket"] == "/run/server"
    assert target_mistakes(target) == [
        ("a Unix socket is another server on each host", "name the server by its host and port")
    ]


def test_options_of_tls_apply_to_targets_with_tls_only() -> None:
    target = with_options(
        parse_target("https://h/"), {"ca": "a.pem", "connections": 2, "insecure": True}
    )
    assert target == r.HttpTarget("https://h/", connections=2, tls=r.Tls(ca="a.pem", insecure=True))
    assert "server_name" in options_of(parse_target("tls://h:7"))
    for text in ("http://h/", "tcp://h:7"):
        assert "ca" not in options_of(parse_target(text))
        with pytest.raises(ValueError, match="ca is for TLS"):
            with_options(parse_target(text), {"ca": "a.pem"})
    with pytest.raises(ValueError, match="not an option of a null target"):
        with_options(r.NullTarget(), {"ca": "a.pem"})


def test_the_version_of_http_is_an_option_of_http_targets_only() -> None:
    target = with_options(parse_target("https://h/"), {"http": "2"})
    assert target == r.HttpTarget("https://h/", tls=r.Tls(), http="2")
    assert msgspec.to_builtins(parse_target("http://h/"))["http"] == "1.1"
    with pytest.raises(ValueError, match="not an option of a tcp target"):
        with_options(parse_target("tls://h:7"), {"http": "2"})


@pytest.mark.parametrize("key", ["2", '"2"'])
def test_a_workload_has_the_version_and_its_part_for_a_host_too(key: str) -> None:
    text = f"""
[target]
to = "http://h/"
http = {key}
outstanding = 8
connections = 4

[[filament]]
type = "open"
rate = 100
"""
    file = read_workload(text, "w.toml", None)
    assert file.target == r.HttpTarget("http://h/", http="2", outstanding=8, connections=4)
    request = plan_of_file(file, {}, file.target).request
    part = part_of(request, 1, 2).target
    assert part == r.HttpTarget("http://h/", http="2", outstanding=8, connections=2)


def test_no_version_of_http() -> None:
    text = '[target]\nto = "http://h/"\nhttp = 3\n'
    with pytest.raises(InputError, match=re.escape("1.1")):
        read_workload(text, "w.toml", None)


def test_https_has_a_port_of_its_own() -> None:
    assert address_of(parse_target("https://h/")) == "h:443"
    assert address_of(parse_target("http://h/")) == "h:80"


@pytest.mark.parametrize(
    "text",
    [
        *("redis://:s3cret@h", "rediss://u:s3cret@h:0/x", "redis://:s3#cr/et@h"),
        *("redis://:s3@cret@h", "redis://:s3:cret@[::1]:7/"),
    ],
)
def test_a_password_of_an_address_is_in_no_message(text: str) -> None:
    with pytest.raises(ValueError, match="REDISCLI_AUTH") as wrong:
        parse_target(text)
    for part in ("s3", "cret"):
        assert part not in str(wrong.value)
    place = Diagnostic("x", str(wrong.value), text=f'to = "{text}"').render()
    assert "s3" not in place
    assert "cret" not in place


def test_commands_are_words_as_in_a_shell() -> None:
    assert redis_commands("PING") == (("PING",),)
    assert redis_commands("SET k 'a;b c'; GET k;") == (("SET", "k", "a;b c"), ("GET", "k"))
    assert redis_commands('SET {a}#k ""') == (("SET", "{a}#k", ""),)
    assert redis_commands("SET ${k} ${v}") == (("SET", "${k}", "${v}"),)
    for text in ("", " ; ", "GET 'a"):
        with pytest.raises(ValueError, match=r"command|quotation"):
            redis_commands(text)


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1; SELECT 'a;b' ;", ["SELECT 1", "SELECT 'a;b'"]),
        ("SELECT 'it''s;'; X", ["SELECT 'it''s;'", "X"]),
        (r"SELECT E'a\';b'; X", [r"SELECT E'a\';b'", "X"]),
        ("SELECT name'\\'; X", ["SELECT name'\\'", "X"]),
        ('SELECT "a;""b"; X', ['SELECT "a;""b"', "X"]),
        ("SELECT $$a;b$$; SELECT $t$;$$;$t$", ["SELECT $$a;b$$", "SELECT $t$;$$;$t$"]),
        ("SELECT 1/2 -- a;b\n; X /* ; */", ["SELECT 1/2", "X"]),
        ("DELETE FROM t WHERE a = $1", ["DELETE FROM t WHERE a = $1"]),
    ],
)
def test_statements_of_sql_are_separated_by_semicolons(text: str, statements: list[str]) -> None:
    found = sql_statements(text)
    assert found == tuple((r.Statement(sql),) for sql in statements)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no statement"),
        (" ;; -- x", "no statement"),
        ("SELECT 'a", "' is not closed"),
        ('SELECT "a', '" is not closed'),
        ("SELECT $a$ b", r"\$a\$ is not closed"),
        ("SELECT 1 /* x", r"/\* is not closed"),
    ],
)
def test_no_statements_of_sql(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sql_statements(text)


def test_the_commands_of_a_database_are_its_statements() -> None:
    target = parse_target("postgres://u@h/d")
    assert "commands" in options_of(target)
    found = with_options(target, {"commands": "SELECT 1; SELECT 2"})
    assert isinstance(found, r.PostgresTarget)
    assert found.statements == sql_statements("SELECT 1; SELECT 2")
    both = {"commands": "SELECT 1", "statements": found.statements}
    for wrong, message in ((both, "the same"), ({"commands": (("X",),)}, "statements")):
        with pytest.raises(ValueError, match=message):
            with_options(target, wrong)
    redis = with_options(parse_target("redis://h"), {"commands": "GET a; PING"})
    assert isinstance(redis, r.RedisTarget)
    assert redis.commands == (("GET", "a"), ("PING",))


@pytest.mark.parametrize(
    ("to", "key", "message"),
    [
        ("postgres://u@h/d", 'commands = "SELECT \'a"', "is not closed"),
        ("postgres://u@h/d", 'commands = ["SELECT 1"]', "an array is statements"),
        ("redis://h", 'commands = "GET \'a"', "quotation"),
        ("tcp://h:7", 'commands = "PING"', "not an option of a tcp target"),
    ],
)
@pytest.mark.parametrize("where", ["[target]", "[[target]]", "[load]"])
def test_commands_that_a_target_cannot_read_are_refused_at_their_key(
    to: str, key: str, message: str, where: str
) -> None:
    filament = '[[filament]]\ntype = "closed"\nusers = 1\n'
    texts = {
        "[target]": f'[target]\nto = "{to}"\n{key}\n{filament}',
        "[[target]]": f'[[target]]\nname = "a"\n{key}\nto = "{to}"\n{filament}target = "a"\n',
        "[load]": f'[load]\ntarget = "{to}"\n{key}\n[peak]\ncriteria = "1s"\n',
    }
    read = read_spec if where == "[load]" else partial(read_workload, target=None)
    with pytest.raises(InputError) as refused:
        read(texts[where], "w.toml")
    (one,) = refused.value.diagnostics
    assert message in one.message
    assert (one.line, one.column) == (3, 12)


def test_a_redis_server_is_a_server_on_the_network() -> None:
    target = parse_target("redis://127.0.0.1/2")
    assert is_network(target)
    assert address_of(target) == "127.0.0.1:6379"
    assert implied_server(target) is not None
    assert "commands" in options_of(target)
    assert "ca" not in options_of(target)
    assert "ca" in options_of(parse_target("rediss://h"))
    assert target_mistakes(parse_target("redis://h")) == []
    assert [hint for _, hint in target_mistakes(r.FileTarget("/x"))] == [
        "name http://HOST/PATH, ws://HOST/PATH, redis://HOST, postgres://USER@HOST/DB, nfs://HOST/EXPORT, "
        "tcp://HOST:PORT or udp://HOST:PORT"
    ]
    with pytest.raises(ValueError, match="not an option of a tcp target"):
        with_options(parse_target("tcp://h:7"), {"commands": (("PING",),)})


def test_a_password_in_a_url_is_not_repeated() -> None:
    for text in (
        "postgres://u:secret@h/db",
        "postgres://u@h/db?password=secret",
        "postgres://u:a/secret@h/db",
        "postgres://u:a#secret@h/db",
    ):
        with pytest.raises(ValueError, match=r"postgres://|PGPASSWORD") as refused:
            parse_target(text)
        assert "secret" not in str(refused.value)


def test_options_of_tls_turn_it_on_for_postgres() -> None:
    target = parse_target("postgres://u@h/db")
    assert target == with_options(target, {"connections": 64})
    trusted = with_options(target, {"ca": "a.pem", "outstanding": 8})
    assert trusted == r.PostgresTarget(
        "h", "u", database="db", outstanding=8, tls=r.Tls(ca="a.pem")
    )
    assert address_of(target) == "h:5432"
    assert target_mistakes(target) == []
    stored = with_options(target, {"password_file": "secret.txt"})
    ((message, _),) = target_mistakes(stored)
    assert "password_file" in message


def test_payloads_are_texts_digits_and_files(tmp_path: Path) -> None:
    assert payloads("ping ${n}") == (r.Payload(text="ping ${n}"),)
    assert payloads("text:hex:00") == (r.Payload(text="hex:00"),)
    assert payloads("a:b") == (r.Payload(text="a:b"),)
    assert payloads("hex:00 fF${id}") == (r.Payload(hex="00 fF${id}"),)
    path = tmp_path / "query"
    path.write_bytes(b"\0\xff")
    assert payloads(f"file:{path}") == (r.Payload(base64="AP8="),)
    path.write_bytes(b"x" * 65_508)
    for text, part in (
        *(("", "empty"), ("text:", "empty"), ("hex: ", "empty")),
        *(("hex:0g", "not hexadecimal"), ("hex:$0", "not hexadecimal")),
        (f"file:{path}", "a datagram has 1 to 65,507"),
        (f"file:{tmp_path}/none", "No such file"),
    ):
        with pytest.raises(ValueError, match=part):
            payloads(text)


def test_the_beginning_of_an_answer_is_digits() -> None:
    assert answer_prefix("OK") == "4f4b"
    assert answer_prefix("text:hex:") == "6865783a"
    assert answer_prefix("hex:??FF 00") == "??ff00"
    for text in ("", "hex:", "hex:0", "hex:?0", "hex:zz"):
        with pytest.raises(ValueError, match=r"empty|not hexadecimal"):
            answer_prefix(text)


def test_a_udp_server_is_a_server_on_the_network() -> None:
    target = parse_target("udp://127.0.0.1:53")
    assert is_network(target)
    # Nothing accepts a connection there.
    assert address_of(target) is None
    assert implied_server(target) is not None
    assert target_mistakes(parse_target("udp://h:53")) == []
    assert msgspec.to_builtins(target)["timeout_ns"] == 1_000_000_000
    for field in ("unix_socket", "outstanding", "ca"):
        assert field not in options_of(target)
    with pytest.raises(ValueError, match="not an option of a tcp target"):
        with_options(parse_target("tcp://h:7"), {"payloads": ()})


def test_the_payloads_of_a_workload_have_values(tmp_path: Path) -> None:
    (tmp_path / "query.bin").write_bytes(b"\0\x01")
    head = '[target]\nto = "udp://h:53"\n'
    text = (
        f'{head}payload = ["hex:${{id}}01", "plain", "file:query.bin"]\n'
        'match = 2\nexpect = "hex:????8180"\nreceive = "100"\ntimeout = "200ms"\n'
        '[values]\nid = "text 4"\n[[filament]]\ntype = "open"\nrate = 10\n'
    )
    found = read_workload(text, str(tmp_path / "w.toml"), None)
    assert found.target is not None
    target = plan_of_file(found, {}, found.target).request.target
    assert target == r.UdpTarget(
        "h",
        53,
        payloads=(r.Payload(hex="${id}01"), r.Payload(text="plain"), r.Payload(base64="AAE=")),
        values={"id": r.TextValue(length=4)},
        match_bytes=2,
        expect="????8180",
        receive_bytes=100,
        timeout_ns=200_000_000,
    )
    assert found.places["target.payloads"].line == 3
    tail = '\n[[filament]]\ntype = "closed"\nusers = 1\n'
    one = read_workload(f'{head}payload = "a"{tail}', "w.toml", None)
    assert one.target == r.UdpTarget("h", 53, payloads=(r.Payload(text="a"),))
    for wrong in (
        *("payload = []", "payload = 1", "payload = [1]", 'payload = ["hex:0g"]'),
        *('payload = "file:none.bin"', 'expect = "hex:0"', "match = true"),
        *('commands = "PING"', 'unix_socket = "/s"', "outstanding = 2"),
    ):
        with pytest.raises(InputError) as refused:
            read_workload(head + wrong + tail, str(tmp_path / "w.toml"), None)
        (mistake,) = refused.value.diagnostics
        assert mistake.line == 3, mistake
