"""SPEC.toml: what it means, and every mistake in it at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchwright.core.errors import InputError
from benchwright.core.hosts import NamedServer
from benchwright.core.notice import CommandTarget, NoticeEvent, NoticeSettings
from benchwright.core.plan import Command
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.search import spec_toml
from benchwright.features.search.spec import CommandReady, HttpReady, Spec, TcpReady
from benchwright.features.search.spec_toml import parse_address, read_spec, target_of
from benchwright.features.search.types import ClaimKind
from benchwright.inputs.toml_table import TomlTable

LOAD = '[load]\ntarget = "null"\n'
PEAK = '[peak]\ncriteria = "40ms"\n'


def read(text: str) -> Spec:
    """Return a spec that has a load."""
    return read_spec(text if "[load]" in text else text + LOAD, "dir/spec.toml")


def mistakes(text: str) -> list[str]:
    """Return each mistake as `line:column code message`."""
    with pytest.raises(InputError) as caught:
        read(text)
    return [f"{d.line}:{d.column} {d.code} {d.message}" for d in caught.value.diagnostics]


def configured(text: str, values: dict[str, str], factors: str) -> Command:
    """Return what a configure command comes to at a sample."""
    spec = read(f"[server]\nconfigure = {text}\n{LOAD}[factors]\n{factors}\n")
    assert spec.server is not None
    return spec.server.configure[0].filled(values)


# -- commands ----------------------------------------------------------------------------


def test_a_level_stays_one_word() -> None:
    command = configured("'mk {x} -v'", {"x": "a b; rm"}, 'x = ["1"]')
    assert command.argv == ("mk", "a b; rm", "-v")


def test_a_level_in_a_shell_command_is_quoted() -> None:
    command = configured("'mk {x} > log'", {"x": "a; rm"}, 'x = ["1"]')
    assert command.argv == ("/bin/sh", "-c", "mk 'a; rm' > log")


def test_braces_alone_make_no_shell_command() -> None:
    assert configured("'mk {state}/{x}'", {"x": "1", "state": "/s"}, "x = [1]").argv == (
        "mk",
        "/s/1",
    )


def test_an_array_of_arrays_is_words() -> None:
    command = configured("[['mk', 'a b', '{x}']]", {"x": "1"}, "x = [1]")
    assert command.argv == ("mk", "a b", "1")


def test_a_shell_keeps_braces_of_its_own() -> None:
    command = configured("\"awk '{print}' f | sort\"", {}, "x = [1]")
    assert command.argv[2] == "awk '{print}' f | sort"


def test_a_misspelt_factor_is_told_even_in_a_shell_command() -> None:
    found = mistakes(
        f"[server]\nconfigure = 'mk {{worker}} > log'\n{LOAD}[factors]\nworkers = [1]\n"
    )
    assert found == ["2:17 spec-unknown-name there is no variable 'worker'"]


# -- server ------------------------------------------------------------------------------


def test_the_server_is_read() -> None:
    plan = read(
        """
        [server]
        start = "nginx -c {here}/conf"
        ready = { tcp = "127.0.0.1:{port}" }
        ready_timeout = "3s"
        stop = "nginx -s quit"
        restart = "trial"
        cpus = "0-1"
        environment = { WORKERS = "{workers}", N = 3 }
        [load]
        target = "http://127.0.0.1:{port}/"
        [factors]
        workers = [1, 2]
        """
    ).server
    assert plan is not None
    assert isinstance(plan.ready, TcpReady)
    assert (plan.restart, plan.cpus, plan.ready_timeout_ns) == ("trial", (0, 1), 3 * 10**9)
    assert [name for name, _ in plan.environment] == ["WORKERS", "N"]
    assert plan.stop is not None
    assert not plan.daemon


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{ tcp = "[::1]:80" }', TcpReady),
        ('{ http = "http://h/x" }', HttpReady),
        ('{ command = "pg_isready -q" }', CommandReady),
    ],
)
def test_each_way_to_be_ready(text: str, kind: type[Any]) -> None:
    spec = read(f'[server]\nstart = "s"\nready = {text}\n')
    assert spec.server is not None
    assert isinstance(spec.server.ready, kind)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("start = 's'", "1:2 spec-missing ready is missing"),
        ("daemon = true\nready = {tcp='h:1'}", "daemon has no effect without start"),
        ("cpus = '0'", "neither start nor configure nor ready"),
        ("start = 's'\nready = {}", "ready is one of tcp, http and command"),
        ("start = 's'\nready = {tcp='h'}", "'h' is not HOST:PORT"),
        ("start = 's'\nready = {http='https://h'}", "begins with http://"),
        ("start = 's'\nready = {tcp='h:1'}\nrestart = 'never'", "must be one of trial, sample"),
        ("start = ['a', 3]\nready = {tcp='h:1'}", "a word of start is a whole number"),
    ],
)
def test_what_a_server_cannot_be(text: str, found: str) -> None:
    assert found in " ".join(mistakes(f"[server]\n{text}\n"))


def test_an_address_is_checked_with_every_level() -> None:
    text = """
        [server]
        start = "s"
        ready = { tcp = "{host}:{port}" }
        [factors]
        host = ["h", "not a host"]
        """
    assert "'not a host:1' is not HOST:PORT" in " ".join(mistakes(text))


def test_a_misspelt_placeholder_of_a_command_is_told() -> None:
    text = """
        [load]
        generator = "command"
        command = "gen {rate} {duratoin} {rates}"
        values = { response_ms_mean = "/x" }
        [factors]
        rates = [1, 2]
        """
    (found,) = mistakes(text)
    assert "there is no variable {duratoin}: did you mean {duration}?" in found


def test_of_an_unknown_generator_no_key_is_missed() -> None:
    (found,) = mistakes("[load]\ngenerator = 'wrk3'\nscript = 'x'\n")
    assert "'wrk3' is not a generator" in found


@pytest.mark.parametrize("text", ["h:0", "h:65536", "h", ":80", "h:8x"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(text)


# -- load --------------------------------------------------------------------------------


def test_the_engine_is_the_generator_unless_another_is_named() -> None:
    spec = read(
        """
        [load]
        target = "http://127.0.0.1:{port}/{page}"
        connections = 8
        arrival = "constant"
        headers = { Accept-Encoding = "gzip" }
        [factors]
        page = ["a", "b"]
        """
    )
    settings = spec.load.settings
    assert (spec.load.generator, settings.arrival) == ("engine", w.ConstantArrival())
    assert target_of(settings, {"port": "8080", "page": "b"}) == r.HttpTarget(
        "http://127.0.0.1:8080/",
        paths=("/b",),
        headers=(("Accept-Encoding", "gzip"),),
        connections=8,
    )


def test_another_generator_reads_its_own_keys() -> None:
    spec = read(
        """
        [load]
        generator = "command"
        command = "gen {rate} {duration}"
        values = { response_ms_mean = "/mean" }
        """
    )
    assert spec.load.settings.name == "command"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("generator = 'wrk3'", "'wrk3' is not a generator: must be one of engine"),
        ("cpus = '0'", "target is missing here"),
        ("target = 'null'\ndirect = true", "direct is not an option of a null target"),
        ("target = 'ftp://h/'", "ftp:// is not a kind of target"),
        ("target = 'http://h/'\npaths = ['x']", "a path begins with /"),
        ("target = 'http://h/'\npaths = ['/[2-1]']", "[2-1] in /[2-1] is not a range"),
        ("target = 'http://h/'\npaths = ['/[1-999999]']", "more than 100,000 paths"),
        ("target = 'null'\ncommand = 'x'", "unknown key 'command'"),
        ("target = 'null'\narrival = 'sometimes'", "is no arrival process"),
    ],
)
def test_what_a_load_cannot_be(text: str, found: str) -> None:
    assert found in " ".join(mistakes(f"[load]\n{text}\n"))


def test_a_peak_rate_needs_a_generator_with_a_rate() -> None:
    text = "[load]\ngenerator = 'redis-benchmark'\n"
    assert read(text).load.generator == "redis-benchmark"
    (found,) = mistakes(text + PEAK)
    assert found.startswith("2:13 spec-value redis-benchmark cannot be given a rate")


def test_a_target_is_tried_with_every_level() -> None:
    found = mistakes("[load]\ntarget = '{t}'\n[factors]\nt = ['null', 'gopher://h']\n")
    assert "gopher:// is not a kind of target" in found[0]


def test_a_spec_without_a_load_is_told() -> None:
    with pytest.raises(InputError, match=r"\[load\] is missing"):
        read_spec(PEAK, "s.toml")


# -- notify ------------------------------------------------------------------------------


def test_a_spec_says_who_is_told_of_the_end() -> None:
    spec = read("[notify]\non = 'done'\ncommand = ['say', '{x}']\n")
    assert spec.notify == NoticeSettings((CommandTarget(("say", "{x}")),), (NoticeEvent.DONE,))
    assert read("").notify is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[notify]\n", "1:2 suite-notify there is no notification target"),
        ("[notify]\ncomand = ['x']\n", "2:1 spec-unknown-key unknown key 'comand'"),
        ("notify = 3\n", "1:10 spec-type notify is a whole number, expected a table"),
        ("[notify.mail]\npassword = 'x'\n", "2:1 spec-unknown-key"),
    ],
)
def test_a_mistake_of_a_notice_is_told_at_its_line(text: str, found: str) -> None:
    assert any(one.startswith(found) for one in mistakes(text + LOAD))


# -- peak --------------------------------------------------------------------------------


def test_the_goal_is_read() -> None:
    spec = read(
        """
        [peak]
        criteria = ["p99 response < 10ms", "90% within 2s"]
        claim = "rate:5%, slo:90%"
        start = "10k"
        highest = "1M"
        budget = "3m"
        run_length = "20s"
        max_trials = 7
        seed = 5
        """
    )
    goal = spec.goal
    assert goal is not None
    assert [one.key for one in goal.criteria] == ["response_ms_p99", "within_2s_share"]
    assert (goal.start_rate, goal.highest_rate) == (10_000, 1e6)
    assert (goal.budget_s, goal.run_length_s) == (180, 20)
    assert (goal.max_trials, goal.seed) == (7, 5)
    assert goal.claim.kind is ClaimKind.RATE
    assert spec.peak is not None
    assert spec.peak.claim == "rate:5%, slo:90%"


def test_a_confidence_of_its_own() -> None:
    goal = read(PEAK + 'confidence = "99%"\n').goal
    assert goal is not None
    assert goal.claim.confidence == 0.99


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("criteria = []", "criteria is empty"),
        ("start = '1'", "criteria is missing here"),
        ("criteria = ['fast']", "'fast' is not a criterion"),
        ("criteria = ['1ms', 'mean < 2ms']", "has two limits"),
        ("criteria = '1ms'\nclaim = 'peak'", "is not a claim"),
        ("criteria = '1ms'\nstart = '5'\nhighest = '4'", "the highest rate is below the first one"),
        ("criteria = '1ms'\nlowest = '5'\nhighest = '5'", "is below lowest"),
        ("criteria = '1ms'\nclaim = 'slo:9%'", "not a confidence"),
        ("criteria = '1ms'\nclaim = 'slo:90%'\nconfidence = '99%'", "contains its confidence"),
        ("criteria = '1ms'\npolicy = 'luck'", "'luck' is not a policy: must be one of"),
    ],
)
def test_what_a_goal_cannot_be(text: str, found: str) -> None:
    assert found in " ".join(mistakes(f"[peak]\n{text}\n"))


# -- the whole ---------------------------------------------------------------------------


def test_every_mistake_is_told_at_once_in_order() -> None:
    found = mistakes(
        "[sever]\nx = 1\n[load]\ntarget = 'x://y'\n[factors]\nrate = [1]\n"
        "[peak]\ncriteria = 'never'\n"
    )
    assert [one.split(" ")[0] for one in found] == ["1:2", "4:10", "6:8", "8:12"]


def test_a_toml_mistake_is_told_alone() -> None:
    assert mistakes("[peak\n")[0].startswith("1:6 spec-toml")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = 'a\ny = 1\nz = 'b'\n", "1:5 spec-toml a quote is opened here"),
        ('x = 1\ny = "a\nz = 2\n', "2:5 spec-toml a quote is opened here"),
        ("x = 1 # it's\ny = 'a\n", "2:5 spec-toml a quote is opened here"),
        ('x = """a \'b\n"""\ny =\n', "3:4 spec-toml Invalid value"),
    ],
)
def test_a_quote_without_its_end_is_told_where_it_begins(text: str, found: str) -> None:
    (only,) = mistakes(text)
    assert only.startswith(found)


def test_a_text_without_quotes_is_told_so() -> None:
    with pytest.raises(InputError) as caught:
        read("[load]\ntarget = http://127.0.0.1/\n")
    assert caught.value.diagnostics[0].hint.startswith("write a text in quotes")


def test_what_is_missing_hides_no_other_mistake() -> None:
    text = "[load]\narrival = 'x'\n[peak]\nbudget = '4 minutes'\nstart = 'fast'\n"
    found = mistakes(text)
    assert "1:2 spec-missing target is missing here" in found
    assert "3:2 spec-missing criteria is missing here" in found
    assert [one.split()[0] for one in found] == ["1:2", "2:11", "3:2", "4:10", "5:9"]


def test_a_rate_or_a_length_in_the_load_is_sent_where_it_belongs() -> None:
    with pytest.raises(InputError) as caught:
        read("[load]\ntarget = 'null'\nrate = 100\nduration = '10s'\n")
    rate, duration = caught.value.diagnostics
    assert (rate.code, duration.code) == ("spec-unknown-key",) * 2
    assert "start of [peak]" in rate.hint
    assert "run_length of [peak]" in duration.hint
    assert "drain" not in duration.hint


def test_a_ready_that_is_a_text_is_shown_its_form() -> None:
    with pytest.raises(InputError) as caught:
        read("[server]\nstart = 'x'\nready = 'tcp 127.0.0.1:1'\n")
    (only,) = caught.value.diagnostics
    assert only.message == "ready is a string, expected a table"
    assert 'ready = { tcp = "HOST:PORT" }' in only.hint


def test_other_controllers_read_their_tables_with_ours() -> None:
    def reader(table: TomlTable, spec: Spec) -> tuple[int | None, int]:
        table.only(("steps",))
        return table.whole("steps", 1), len(spec.factors)

    text = f"{LOAD}[factors]\nx = [1]\n[ramp]\nsteps = 4\n"
    assert read_spec(text, "s", {"ramp": reader}).more == {"ramp": (4, 1)}
    assert read_spec(text, "s").more == {}
    with pytest.raises(InputError) as caught:
        read_spec(text.replace("x = [1]", "x = []"), "s", {"ramp": reader})
    assert len(caught.value.diagnostics) == 1


def test_places_of_what_was_said_are_kept() -> None:
    spec = read(f"{LOAD}cpus = '0'\n{PEAK}")
    assert spec.places["load.cpus"].line == 3
    assert spec.places["peak"].line == 4


VALUES = st.sampled_from(
    [
        "1",
        "-1",
        "0",
        "true",
        "1.5",
        "1979-05-27",
        "[]",
        "{}",
        "[1, 'x']",
        "[['a', 'b']]",
        "[[]]",
        "{ tcp = 'h:1' }",
        "{ tcp = 3, http = 'x' }",
        "''",
        "'{x}'",
        "'{worker} > f'",
        "'null'",
        "'http://h/{x}'",
        "'5s'",
        "'10%'",
        "'40ms'",
        "'p99 < 1s'",
        "'engine'",
        "'command'",
        "'pgbench'",
        "'0-1'",
    ]
)
TABLES = {
    "server": spec_toml.SERVER.names,
    "load": (
        *spec_toml.ENGINE_LOAD.names,
        *spec_toml.ENGINE_OPTIONS,
        "generator",
        "cpus",
        "command",
        "values",
    ),
    "factors": ("x", "rate", "y"),
    "peak": spec_toml._PEAK.names,
}


@given(
    st.fixed_dictionaries(
        {
            name: st.dictionaries(st.sampled_from(keys), VALUES, max_size=5)
            for name, keys in TABLES.items()
        }
    )
)
@settings(max_examples=300)
def test_whatever_stands_there_is_a_spec_or_a_placed_mistake(
    tables: dict[str, dict[str, str]],
) -> None:
    lines = []
    for name, pairs in tables.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in pairs.items())]
    text = "\n".join(lines) + "\n"
    try:
        spec = read_spec(text, "fuzz.toml")
    except InputError as error:
        for one in error.diagnostics:
            assert one.file == "fuzz.toml"
            assert 1 <= one.line <= len(lines)
            assert one.text in lines
    else:
        assert spec.load.settings is not None


# -- a server that runs already ----------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [("pid", "812"), ("pid", "/run/x.pid"), ("port", "80"), ("unit", "nginx.service")],
)
def test_a_running_server_is_named(key: Any, value: str) -> None:
    text = value if value.isdecimal() else f'"{value}"'
    server = read(f"[server]\n{key} = {text}\n").server
    assert server is not None
    assert server.named == NamedServer(key, value)
    assert server.start is None


def test_its_port_may_be_a_factor() -> None:
    spec = read(f'[server]\nport = "{{p}}"\n{LOAD}[factors]\np = [80, 81]\n')
    server = spec.at((("p", "81"),)).server
    assert server is not None
    assert server.named == NamedServer("port", "81")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("port = 80\npid = 1", "2:8 spec-value port and pid both name the server"),
        (
            "port = 80\nstart = 'x'\nready = {tcp = 'h:1'}",
            "3:9 spec-value start has no effect: the server of port runs already",
        ),
        ("port = 80\nstop = 'x'", "3:8 spec-value stop has no effect without start"),
        ("port = 0", "2:8 spec-value port: '0' is not a port: a number from 1 to 65535"),
        (
            "pid = 'x.pid'",
            "2:7 spec-value pid: 'x.pid' is not a process id: a number from 1 to 4194304, or the "
            "absolute path of a file with one",
        ),
        (
            "unit = '/x'",
            "2:8 spec-value unit: '/x' is not the name of a systemd unit, such as "
            "postgresql.service",
        ),
    ],
)
def test_mistakes_of_a_running_server(text: str, told: str) -> None:
    assert mistakes(f"[server]\n{text}\n") == [told]
