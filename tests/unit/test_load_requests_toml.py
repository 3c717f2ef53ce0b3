"""`[[request]]`, `[values]` and `paths_file` of a workload: what is read, and each mistake at its
place."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.errors import InputError
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.host_parts import part_of
from benchwright.features.load.plan import Probe, plan_of_file
from benchwright.features.load.requests_toml import places_of
from benchwright.features.load.workload_toml import WorkloadFile, read_workload
from benchwright.features.search.engine_generator import request_of
from benchwright.features.search.spec_toml import read_spec

FILAMENT = """
[[filament]]
type = "open"
rate = 10
"""
TWO = """
[values]
id = "integer -5..1k 6"
n = {type = "counter", start = 7}
user = {type = "line", lines = ["a", "b"], location = "sequential"}
token = "text 16 digits"

[[request]]
label = "get"
weight = 3
path = "/item/${id}?u=${user}"
expect = {status = 200, contains = "ok", min_bytes = "1k"}

[[request]]
method = "POST"
path = "/put"
headers = {X-Token = "${token}"}
body = "n=${n} $${n}"
"""
HTTP = r.HttpTarget("http://h/")


def read(text: str, file: Path | str = "w.toml") -> WorkloadFile:
    """Return a workload for an HTTP server."""
    return read_workload(text + FILAMENT, str(file), HTTP)


def mistakes(
    text: str, target: r.LoadTarget | None = HTTP, file: Path | str = "w.toml"
) -> list[tuple[int, int, str]]:
    """Return line, column and message of each mistake."""
    with pytest.raises(InputError) as refused:
        read_workload(text + FILAMENT, str(file), target)
    return [(one.line, one.column, one.message) for one in refused.value.diagnostics]


def test_requests_and_values_are_read() -> None:
    table = read(TWO).requests
    assert table is not None
    assert table.requests == (
        r.HttpRequest(
            label="get",
            path="/item/${id}?u=${user}",
            expect=r.Expect(status=200, contains="ok", min_bytes=1024),
        ),
        r.HttpRequest(
            label="POST /put",
            method="POST",
            path="/put",
            headers=(("X-Token", "${token}"),),
            body="n=${n} $${n}",
        ),
    )
    assert table.values == {
        "id": r.IntegerValue(min=-5, max=1000, digits=6),
        "n": r.CounterValue(start=7),
        "user": r.LineValue(lines=("a", "b"), location=w.SequentialLocation()),
        "token": r.TextValue(length=16, characters="digits"),
    }


def test_the_weights_are_the_location_of_the_operations() -> None:
    (weighted,) = read(TWO).filaments
    assert isinstance(weighted, w.Open)
    assert weighted.access.location == w.WeightedLocation((3, 1))
    (equal,) = read(TWO.replace("weight = 3", "weight = 1")).filaments
    assert isinstance(equal, w.Open)
    assert equal.access.location == w.UniformLocation()
    with pytest.raises(InputError, match="weights"):
        read_workload(TWO + FILAMENT + 'location = "sequential"\n', "w.toml", HTTP)


def test_the_target_gets_the_requests_and_the_null_target_does_not() -> None:
    description = read(TWO)
    target = plan_of_file(description, {}, HTTP).request.target
    assert isinstance(target, r.HttpTarget)
    assert [one.label for one in target.requests] == ["get", "POST /put"]
    assert set(target.values) == {"id", "n", "user", "token"}
    assert target.paths == ()
    alone = read_workload(TWO + FILAMENT, "w.toml", r.NullTarget())
    plan = plan_of_file(alone, {}, r.NullTarget())
    assert plan.request.target == r.NullTarget()
    (filament,) = plan.request.workload.filaments
    assert isinstance(filament, w.Open)
    assert filament.access.location == w.UniformLocation()


def test_a_spec_may_name_the_server_later() -> None:
    description = read_workload(TWO + FILAMENT, "w.toml", None)
    (filament,) = description.filaments
    assert isinstance(filament, w.Open)
    assert filament.access.kinds == (("exchange", 1),)
    with pytest.raises(InputError, match="tcp"):
        plan_of_file(description, {}, r.TcpTarget("h", 7))


def test_files_are_read_into_the_request(tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text("ann\n\nbob\n")
    (tmp_path / "body.bin").write_bytes(b"\xff\x00${id}")
    text = """
[values]
user = {type = "line", file = "users.txt"}
[[request]]
path = "/${user}"
body_file = "body.bin"
"""
    beside: dict[str, str] = {}
    file = str(tmp_path / "w.toml")
    found = read_workload(text + FILAMENT, file, HTTP, beside)
    assert found.requests is not None
    assert found.requests.values == {"user": r.LineValue(lines=("ann", "bob"))}
    (request,) = found.requests.requests
    assert base64.b64decode(request.body_base64 or "") == b"\xff\x00${id}"
    for name in ("users.txt", "body.bin"):
        (tmp_path / name).unlink()
    # A resumed search has what it read.
    assert read_workload(text + FILAMENT, file, HTTP, beside) == found


def test_paths_come_from_a_file_beside_the_workload(tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("/b\n/c?x=1\n")
    text = '[target]\nto = "http://h/"\npaths = ["/a"]\npaths_file = "urls.txt"\n'
    found = read_workload(text + FILAMENT, str(tmp_path / "w.toml"), None)
    assert isinstance(found.target, r.HttpTarget)
    assert found.target.paths == ("/a", "/b", "/c?x=1")
    (tmp_path / "urls.txt").write_text("/b\nc\n")
    ((line, column, message),) = mistakes(text, None, tmp_path / "w.toml")
    assert (line, column) == (4, 14)
    assert "path 2" in message


@pytest.mark.parametrize(
    ("text", "line", "column", "word"),
    [
        ('[[request]]\nlabel = "a"\n', 1, 3, "path"),
        ('[[request]]\npath = "a"\n', 2, 8, "begins with /"),
        ('[[request]]\npath = "/${x}"\n', 2, 10, "no value 'x'"),
        ('[[request]]\npath = "/${x"\n', 2, 10, "missing"),
        ('[[request]]\npath = "/"\nheaders = {A = "${y}"}\n', 3, 17, "no value 'y'"),
        ('[[request]]\npath = "/"\nbody = "b"\nbody_file = "no"\n', 4, 13, "body"),
        ('[[request]]\npath = "/"\nbody_file = "no"\n', 3, 13, "there is no file"),
        ('[[request]]\npath = "/"\nweight = 0\n', 3, 10, "zero"),
        ('[[request]]\npath = "/"\nexpect = {status = 99}\n', 3, 20, "range"),
        ('[[request]]\npath = "/"\nexpect = {stats = 200}\n', 3, 11, "stats"),
        ('[values]\nv = "counter"\n', 1, 2, "no effect"),
        ('[values]\nv = "integer 5 1"\n', 2, 5, "min is above max"),
        ('[values]\nv = "text 2M"\n', 2, 5, "longer"),
        ('[values]\nv = {type = "line"}\n', 2, 1, "file or lines"),
        ('[values]\nv = {type = "lines"}\n', 2, 13, "lines"),
    ],
)
def test_each_mistake_is_at_its_place(text: str, line: int, column: int, word: str) -> None:
    found = [one for one in mistakes(text) if word in one[2]]
    assert [(one[0], one[1]) for one in found] == [(line, column)]


@pytest.mark.parametrize(
    "target",
    [
        r.TcpTarget("h", 7),
        r.HttpTarget("http://h/", paths=("/a",)),
        r.HttpTarget("http://h/", method="POST"),
    ],
)
def test_a_target_without_use_for_requests_is_refused(target: r.LoadTarget) -> None:
    found = mistakes('[[request]]\npath = "/"\n', target)
    assert any("[[request]]" in message for _, _, message in found)


@given(st.text("$a{}", max_size=12))
def test_places_are_those_of_a_simple_reader(text: str) -> None:
    """The reference reads one character after the other."""
    expected: list[int] = []
    at = 0
    while at < len(text):
        if text.startswith("$${", at):
            at += 3
        elif text.startswith("${", at):
            expected.append(at)
            end = text.find("}", at)
            name = text[at + 2 : end]
            at = end + 1 if end > 0 and name and set(name) == {"a"} else at + 2
        else:
            at += 1
    assert [offset for offset, _ in places_of(text)] == expected


SPEC = """
[load]
target = "http://127.0.0.1:8080/"
workload = "w.toml"
[factors]
id = ["1", "2"]
"""


def test_a_search_sends_the_requests_of_its_workload(tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text("ann\nbob\n")
    lines = TWO.replace('lines = ["a", "b"]', 'file = "users.txt"')
    (tmp_path / "w.toml").write_text(lines + FILAMENT)
    file = str(tmp_path / "spec.toml")
    spec = read_spec(SPEC, file)
    probe = Probe(rate=60.0, duration_s=2.0)
    found = request_of(spec.load.settings, probe, (), {})
    assert isinstance(found.target, r.HttpTarget)
    # The factor `id` of the spec is another thing than the value `${id}`.
    assert found.target.requests[0].path == "/item/${id}?u=${user}"
    assert found.asked_rate_per_s == pytest.approx(60)
    for name in ("users.txt", "w.toml"):
        (tmp_path / name).unlink()
    resumed = read_spec(SPEC, file, beside=spec.files)
    assert resumed.load == spec.load


def test_each_host_gets_the_requests() -> None:
    whole = plan_of_file(read(TWO), {}, HTTP).request
    for index in range(2):
        part = part_of(whole, index, 2)
        assert isinstance(part.target, r.HttpTarget)
        assert isinstance(whole.target, r.HttpTarget)
        assert part.target.requests == whole.target.requests
        assert part.target.values == whole.target.values
        assert part.workload == whole.workload


# -- several targets -----------------------------------------------------------------------

SEVERAL = """
[[target]]
name = "web"
to = "http://h/"
[[target]]
name = "api"
to = "http://h:81/"
http = "2"
[[target]]
name = "store"
to = "redis://h"
commands = ["GET key:${id}"]
[[target]]
name = "plain"
to = "null"
[values]
id = "integer 1..9"
[[request]]
label = "both"
path = "/${id}"
[[request]]
label = "page"
path = "/page"
target = "web"
weight = 3
[[request]]
label = "order"
path = "/order"
target = "api"
"""
FOUR = "".join(
    f'[[filament]]\ntype = "open"\nrate = 10\ntarget = "{name}"\n'
    for name in ("store", "api", "web", "plain")
)


def test_each_target_has_its_requests_those_of_all_and_the_values() -> None:
    description = read_workload(SEVERAL + FOUR, "w.toml", None)
    assert description.target is not None
    plan = plan_of_file(description, {}, description.target)
    several = plan.request.target
    assert isinstance(several, r.SeveralTarget)
    web, api, store, plain = (one.target for one in several.targets)
    assert isinstance(web, r.HttpTarget)
    assert isinstance(api, r.HttpTarget)
    assert [one.label for one in web.requests] == ["both", "page"]
    assert [one.label for one in api.requests] == ["both", "order"]
    assert (web.paths, api.paths) == ((), ())
    assert isinstance(store, r.RedisTarget)
    assert web.values == api.values == store.values != {}
    assert plain == r.NullTarget()
    locations = [
        one.access.location for one in plan.request.workload.filaments if isinstance(one, w.Open)
    ]
    # The weights of web's requests; those of api's are equal.
    uniform = w.UniformLocation()
    assert locations == [uniform, uniform, w.WeightedLocation((1, 3)), uniform]


def test_the_places_of_requests_and_values_are_those_of_their_target() -> None:
    places = read_workload(SEVERAL + FOUR, "w.toml", None).places
    lines = SEVERAL.splitlines()

    def line_of(field: str) -> str:
        return lines[places[field].line - 1]

    requests = [n for n, line in enumerate(lines, 1) if line == "[[request]]"]
    for part, own in ((0, (0, 1)), (1, (0, 2))):
        for place, request in enumerate(own):
            field = f"target.targets[{part}].target.requests[{place}]"
            assert places[field].line == requests[request]
    assert line_of("target.targets[2].target.commands").startswith("commands")
    assert line_of("target.targets[2].target.values") == "[values]"


def test_the_null_target_replaces_targets_with_requests() -> None:
    null = r.NullTarget()
    description = read_workload(SEVERAL + FOUR, "w.toml", null)
    assert plan_of_file(description, {}, null).request.target == null


ONE = '[[target]]\nname = "{}"\nto = "{}"\n[[filament]]\ntype = "open"\nrate = 10\ntarget = "{}"\n'


@pytest.mark.parametrize(
    ("targets", "keys", "place", "message"),
    [
        (("a", "http://h/"), 'target = "b"', "target", "there is no target 'b'"),
        (
            ("a", "redis://h"),
            'target = "a"',
            "[[request]]",
            "a request to a redis target has command",
        ),
        (("a", "null"), 'target = "a"', "target", "the null target needs no requests"),
        (("a", "udp://h:1"), 'target = "a"', "target", "not for a udp target"),
        (("a", "redis://h"), "", "[[request]]", "none of the targets is of the kind"),
        (("a", "http://h/x"), "", "[[request]]", "target a: [[request]] has the paths"),
        (None, 'target = "a"', "target", "the workload has no [[target]]"),
    ],
)
def test_requests_that_no_target_can_use_are_refused_at_their_place(
    targets: tuple[str, str] | None, keys: str, place: str, message: str
) -> None:
    name, to = targets or ("a", "")
    head = f'[target]\nto = "http://h/"\n{FILAMENT}' if targets is None else ""
    text = (head or ONE.format(name, to, name)) + f'[[request]]\npath = "/"\n{keys}\n'
    with pytest.raises(InputError) as refused:
        read_workload(text, "w.toml", None)
    (one,) = refused.value.diagnostics
    assert message in one.message
    assert text.splitlines()[one.line - 1].startswith(place)


def test_a_request_of_another_target_does_not_touch_paths() -> None:
    text = (
        ONE.format("a", "http://h/x", "a")
        + ONE.format("b", "http://h/", "b")
        + '[[request]]\npath = "/y"\ntarget = "b"\n'
    )
    description = read_workload(text, "w.toml", None)
    assert description.target is not None
    several = plan_of_file(description, {}, description.target).request.target
    assert isinstance(several, r.SeveralTarget)
    first, second = (one.target for one in several.targets)
    assert isinstance(first, r.HttpTarget)
    assert isinstance(second, r.HttpTarget)
    assert (first.paths, first.requests) == (("/x",), ())
    assert [one.path for one in second.requests] == ["/y"]


def test_values_without_use_are_refused_with_several_targets() -> None:
    text = ONE.format("a", "http://h/", "a") + '[values]\nid = "integer 1..9"\n'
    with pytest.raises(InputError, match=r"no effect without \[\[request\]\]"):
        read_workload(text, "w.toml", None)


COMMANDS = """
[[request]]
weight = 9
command = "GET key:${id}"

[[request]]
label = "put"
command = ["SET", "key:${id}", "a b"]
"""
STATEMENTS = """
[[request]]
label = "read"
weight = 3
sql = "SELECT $1"
parameters = ["${id}"]

[[request]]
statements = ["UPDATE a SET b = 1", {sql = "SELECT $1", parameters = [7]}]
"""
IDS = '[values]\nid = "integer 1..10"\n'


def planned(text: str, to: str) -> r.LoadRequest:
    """Return the request of a workload for a target."""
    found = read_workload(f'[target]\nto = "{to}"\n{IDS}{text}{FILAMENT}', "w.toml", None)
    assert found.target is not None
    return plan_of_file(found, {}, found.target).request


def test_commands_of_redis_have_labels_and_weights() -> None:
    request = planned(COMMANDS, "redis://h")
    target = request.target
    assert isinstance(target, r.RedisTarget)
    assert target.commands == (("GET", "key:${id}"), ("SET", "key:${id}", "a b"))
    assert target.labels == ("GET", "put")
    assert target.values.keys() == {"id"}
    (filament,) = request.workload.filaments
    assert isinstance(filament, w.Open)
    assert filament.access.location == w.WeightedLocation((9, 1))


def test_statements_of_a_database_have_labels_and_weights() -> None:
    request = planned(STATEMENTS, "postgres://u@h/d")
    target = request.target
    assert isinstance(target, r.PostgresTarget)
    assert target.statements == (
        (r.Statement("SELECT $1", ("${id}",)),),
        (r.Statement("UPDATE a SET b = 1"), r.Statement("SELECT $1", ("7",))),
    )
    assert target.labels == ("read", "UPDATE a SET b = 1; SELECT $1")
    (filament,) = request.workload.filaments
    assert isinstance(filament, w.Open)
    assert filament.access.location == w.WeightedLocation((3, 1))


def test_each_of_several_targets_gets_the_requests_of_its_kind() -> None:
    targets = "".join(
        f'[[target]]\nname = "{name}"\nto = "{to}"\n'
        f'[[filament]]\ntype = "open"\nrate = 1\ntarget = "{name}"\n'
        for name, to in (("cache", "redis://h"), ("store", "postgres://u@h/d"))
    )
    text = f"{IDS}{targets}{COMMANDS}{STATEMENTS}"
    found = read_workload(text, "w.toml", None)
    assert isinstance(found.target, r.SeveralTarget)
    request = plan_of_file(found, {}, found.target).request
    assert isinstance(request.target, r.SeveralTarget)
    labels = [one.target.labels for one in request.target.targets]  # type: ignore[union-attr]
    assert labels == [("GET", "put"), ("read", "UPDATE a SET b = 1; SELECT $1")]
    locations = [one.access.location for one in request.workload.filaments]  # type: ignore[union-attr]
    assert locations == [w.WeightedLocation((9, 1)), w.WeightedLocation((3, 1))]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('label = "x"', "a request needs path (HTTP), message (WebSocket), command (Redis)"),
        ('command = "GET a"\nsql = "SELECT 1"', "command and sql are two requests"),
        ('command = "GET a; GET b"', "command has several commands"),
        ('command = "GET a"\nmethod = "GET"', "method is for a request with path"),
        ('command = "GET a"\nparameters = [1]', "parameters is for a request with sql"),
        ('grpc = "a.B/C"\nbody = "x"', "body is for a request with path"),
        ('path = "/"\ndata = "{}"', "data is for a request with grpc"),
        ("command = []", "command is empty"),
        ('path = "/"', "a request to a redis target has command"),
    ],
)
def test_a_request_of_another_kind_is_refused(keys: str, message: str) -> None:
    text = f'[target]\nto = "redis://h"\n[[request]]\n{keys}\n{FILAMENT}'
    with pytest.raises(InputError) as refused:
        read_workload(text, "w.toml", None)
    assert any(message in one.message for one in refused.value.diagnostics)
