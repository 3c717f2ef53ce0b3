"""A load from several hosts: what each issues, the clocks, and whether the hosts agree."""

from __future__ import annotations

import json
import os
import random
import subprocess
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from benchwright.core.errors import InputError
from benchwright.core.hosts import HostsSettings
from benchwright.features.load import host_findings as agreement
from benchwright.features.load import samples
from benchwright.features.load import workload as w
from benchwright.features.load.engine import Conversation, read_lines
from benchwright.features.load.findings import load_findings
from benchwright.features.load.host_findings import host_findings, odd_one_out, rank_sum_p
from benchwright.features.load.host_parts import (
    files_of,
    hosts_mistakes,
    part_of,
    target_mistakes,
    with_files,
)
from benchwright.features.load.hosts import ClockOffset, clock_of, offset_of
from benchwright.features.load.parse import parse_hosts, parse_target
from benchwright.features.load.plan import CommandLineLoad, plan_of_command
from benchwright.features.load.report import LoadReport
from benchwright.features.load.request import (
    LoadRequest,
    NamedTarget,
    SchedulePart,
    SeveralTarget,
    TcpTarget,
    Tls,
)
from benchwright.features.load.types import (
    EngineResult,
    HostClock,
    HostResult,
    IntervalResult,
    KindResult,
    LoadCounts,
    LoopModel,
    TimeDistribution,
    WorkerResult,
)
from benchwright.features.load.view import load_text
from benchwright.features.search.spec import Spec
from benchwright.features.search.spec_toml import read_spec
from bw_command import bw

# -- what a host issues --------------------------------------------------------------------


def request_of(**said: Any) -> LoadRequest:
    target = parse_target("tcp://10.0.0.1:7")
    bare = CommandLineLoad(rate=w.ConstantRate(10**9))
    return plan_of_command(bare, said, target).request


@pytest.mark.parametrize(
    ("said", "expected_ms"),
    [
        ({}, 250),
        ({"duration_ns": 60 * 10**9}, 1000),
        ({"duration_ns": 10**9}, 50),
        ({"duration_ns": 7 * 10**6}, 1),
        ({"warm_up_ns": 10**9}, 200),
        ({"interval_ns": 10**9}, 1000),
    ],
)
def test_a_short_load_has_a_series_too(said: dict[str, int], expected_ms: int) -> None:
    assert request_of(**said).interval_ns == expected_ms * 10**6


def test_connections_are_divided_and_every_worker_has_one() -> None:
    parts = [part_of(request_of(workers=2), index, 3) for index in range(3)]
    assert [one.part for one in parts] == [SchedulePart(i, 3) for i in range(3)]
    targets = [one.target for one in parts]
    assert [t.connections for t in targets if isinstance(t, TcpTarget)] == [22, 21, 21]
    few = msgspec.structs.replace(request_of(workers=2), target=TcpTarget("h", 7, connections=1))
    targets = [part_of(few, index, 3).target for index in range(3)]
    assert [t.connections for t in targets if isinstance(t, TcpTarget)] == [2, 2, 2]


@pytest.mark.parametrize(
    ("duration_s", "interval_ms", "expected_ms"),
    [(60, 1000, 1000), (10, 1000, 500), (5, 1000, 250), (1, 100, 50), (0.1, 1000, 10)],
)
def test_the_intervals_of_hosts_are_enough_to_compare_and_divide_those_of_the_result(
    duration_s: float, interval_ms: int, expected_ms: int
) -> None:
    request = request_of(duration_ns=round(duration_s * 1e9), interval_ns=interval_ms * 10**6)
    part = part_of(request, 0, 2)
    assert part.interval_ns == expected_ms * 10**6
    assert part.interval_histograms is True
    assert request.interval_ns % part.interval_ns == 0


def test_the_depth_of_a_closed_loop_is_that_of_every_worker_of_every_host() -> None:
    bare = CommandLineLoad(hosts=3)
    said = {"depth": 8, "workers": 2}
    request = plan_of_command(bare, said, parse_target("tcp://10.0.0.1:7")).request
    (filament,) = request.workload.filaments
    assert isinstance(filament, w.Closed)
    assert filament.users == 48
    alone = request.loop.slots
    assert (msgspec.structs.replace(request, part=SchedulePart(0, 3)).loop.slots, alone) == (48, 16)


@pytest.mark.parametrize("text", ["", "a,", "a,b,a", "-oProxyCommand=x", "a b"])
def test_wrong_hosts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"host|twice"):
        parse_hosts(text)


def test_hosts_are_names_of_ssh() -> None:
    assert parse_hosts("web1, user@web2,ssh://u@[::1]:22") == (
        *("web1", "user@web2", "ssh://u@[::1]:22"),
    )


@pytest.mark.parametrize(
    "target", ["/tmp/x", "dir:/tmp", "nfs://127.0.0.9/x", "http://127.0.0.9/", "tcp://localhost:7"]
)
def test_a_target_that_is_another_one_on_each_host_is_refused(target: str) -> None:
    request = msgspec.structs.replace(request_of(), target=parse_target(target))
    (one,) = hosts_mistakes(request, {})
    assert one.file == "--target"


# -- the clocks ----------------------------------------------------------------------------


@pytest.mark.parametrize("there_ns", [0, 3_000, 40_000])
def test_the_offset_is_that_of_the_shortest_round_trip_within_its_bound(there_ns: int) -> None:
    draw = random.Random(there_ns)
    offset, trips = -(10**15), []
    for number in range(200):
        sent = number * 10**6
        received = sent + there_ns + round(draw.expovariate(1e-5))
        answered = received + 2_000
        returned = answered + 5_000 + round(draw.expovariate(1e-5))
        trips.append((sent, received + offset, answered + offset, returned))
    found = offset_of(trips)
    assert abs(found.offset_ns - offset) <= found.bound_ns
    assert found.round_trips == 200


def measured(at_s: float, offset_ns: int, bound_ns: int = 50) -> ClockOffset:
    return ClockOffset(offset_ns, bound_ns, round(at_s * 1e9), 200, "udp")


def test_a_line_between_two_measurements_shows_drift_and_skew() -> None:
    clock, offset = clock_of(measured(0, 1_000), measured(100, 3_000, 70), 25 * 10**9)
    assert clock == HostClock(
        method="udp",
        round_trips=400,
        offset_ns=1_500,
        bound_ns=70,
        drift_ppm=pytest.approx(0.02),
        drift_bound_ppm=pytest.approx(120 / 1e5),
    )
    assert offset(75 * 10**9) == pytest.approx(2_500)


def test_without_a_second_measurement_the_drift_is_unknown() -> None:
    clock, offset = clock_of(measured(0, 1_000), None, 25 * 10**9)
    assert (clock.offset_ns, clock.drift_ppm, offset(10**12)) == (1_000, None, 1_000)


# -- whether hosts agree -------------------------------------------------------------------


def test_the_rank_test_of_two_is_the_sign_test() -> None:
    # Ten blocks, in nine of which the first one is greater: 2 * (1 + 10) / 2^10.
    assert rank_sum_p(2 * (9 * 2 + 1), 10, 2) == pytest.approx(22 / 1024)
    assert rank_sum_p(2 * 15, 10, 2) == 1.0


def test_the_normal_distribution_of_many_ranks_is_the_exact_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = [(2 * 440, 200, 3), (2 * 330, 200, 2), (2 * 560, 200, 4), (801, 200, 3)]
    exact = [rank_sum_p(*one) for one in points]
    monkeypatch.setattr(agreement, "_EXACT", 0)
    for one, p in zip(points, exact, strict=True):
        assert rank_sum_p(*one) == pytest.approx(p, rel=0.2)


@pytest.mark.parametrize("hosts", [2, 3, 5])
def test_equal_hosts_are_found_different_in_at_most_one_of_a_hundred(hosts: int) -> None:
    """Skewed values that all hosts share per block: an A/A run at a level of 5 %."""
    draw, found, runs = random.Random(hosts), 0, 2_000
    for _ in range(runs):
        common = [draw.expovariate(1) for _ in range(20)]
        blocks = [[c + draw.lognormvariate(0, 1) for _ in range(hosts)] for c in common]
        found += odd_one_out(blocks, 0.05) is not None
    # Four standard deviations above the level.
    assert found <= runs * 0.05 + 4 * (runs * 0.05 * 0.95) ** 0.5


def test_a_host_that_differs_is_found_whichever_way() -> None:
    draw = random.Random(1)
    for factor in (0.5, 2.0):
        blocks = [
            [draw.uniform(1, 1.2), draw.uniform(1, 1.2) * factor, draw.uniform(1, 1.2)]
            for _ in range(20)
        ]
        odd = odd_one_out(blocks, 0.01)
        assert odd is not None
        assert odd[0] == 1


# -- findings and report -------------------------------------------------------------------


def times(p50: int, p99: int, count: int = 5_000) -> TimeDistribution:
    values = dict.fromkeys(("p90", "p95", "p98", "p99", "p99_9", "p99_99"), p99)
    return TimeDistribution(count, p50 * 1.0, 1.0, 1, p99, p50=p50, **values)


def host(name: str, **changes: Any) -> HostResult:
    p50 = changes.pop("p50", 100_000)
    late = changes.pop("late", 2_000)
    intervals = tuple(
        IntervalResult(
            start_ns=i * 250_000_000,
            length_ns=250_000_000,
            intended=250,
            issued=250,
            completed=250,
            errors=0,
            dropped=0,
            in_flight=0,
            waiting=0,
            response_ns_p50=p50 + (i * 7_919 + len(name)) % 500,
            response_ns_p99=3 * p50 + (i * 104_729) % 900,
            issue_error_ns_p99=late,
        )
        for i in range(20)
    )
    kind = KindResult(5_000, 0, {}, times(500, late), times(p50, 3 * p50), times(p50, p50))
    fields: dict[str, Any] = {
        "clock": HostClock(
            method="udp",
            round_trips=400,
            offset_ns=7,
            bound_ns=12_000,
            drift_ppm=0.31,
            drift_bound_ppm=0.52,
        ),
        "start_skew_ns": 1_100,
        "end_skew_ns": -450,
        "counts": LoadCounts(5_000, 5_000, 5_000, 0, 0, 0, 0, 0, 0, 0),
        "intended_rate_per_s": 1_000.0,
        "offered_rate_per_s": 1_000.0,
        "achieved_rate_per_s": 1_000.0,
        "lateness_ns": times(500, late),
        "all": kind,
        "intervals": intervals,
        "workers": (WorkerResult(None, 10, 60, 30, 5),),
    }
    return HostResult(host=name, **{**fields, **changes})


def whole(*hosts: HostResult, rate: float = 1_000.0, **changes: Any) -> EngineResult:
    golden = Path(__file__).parents[1] / "golden" / "load" / "result.json"
    document = msgspec.json.decode(golden.read_bytes())
    found = msgspec.convert({**document, "intended_rate_per_s": rate}, EngineResult)
    return msgspec.structs.replace(found, hosts=hosts, **changes)


def codes(result: EngineResult) -> dict[str, str]:
    found = host_findings(result, LoopModel(open=True, closed=False), "t")
    return {one.code: one.evidence for one in found}


def test_equal_hosts_with_known_clocks_have_no_finding() -> None:
    assert codes(whole(host("a"), host("b"), host("c"))) == {}


def test_a_slow_host_is_named_with_its_figures() -> None:
    found = codes(whole(host("a"), host("b", p50=150_000), host("c")))
    assert list(found) == ["host-differs"]
    assert found["host-differs"].startswith("b: response p50 150 us, the others 100 us")
    assert "1 %" in found["host-differs"]


def test_of_two_hosts_the_slower_one_is_named_once() -> None:
    found = codes(whole(host("a"), host("b", late=90_000)))
    assert found["host-differs"].startswith("b: issue error p99 90 us, the others 2 us")


def test_clocks_are_judged_against_the_mean_gap() -> None:
    # The bound is 12 us: a tenth of the gap at 8,333 operations per second.
    assert codes(whole(host("a"), host("b"), rate=8_000)) == {}
    found = codes(whole(host("a"), host("b"), rate=9_000))
    assert list(found) == ["clock-uncertain"]
    drifted = host("b", end_skew_ns=-300_000)
    found = codes(whole(host("a"), drifted))
    assert list(found) == ["hosts-skewed"]
    assert found["hosts-skewed"].startswith("b was 300 us early at its end")


def test_a_lost_host_is_serious_and_the_others_stay() -> None:
    lost = HostResult(host="b", lost="b: the connection was lost")
    result = whole(host("a"), lost)
    found = load_findings(result, LoopModel(open=True, closed=False), "t")
    assert found[0].code == "host-lost"
    text = load_text(result, found, LoadReport(target="t", open_loop=True))
    assert "1 of 2 have a result" in text


def test_a_late_or_short_host_is_named_where_the_others_hide_it() -> None:
    late = host("b", late=3_000_000, offered_rate_per_s=900.0)
    result = whole(*(host(name) for name in ("a", "c", "d")), late)
    short = msgspec.structs.replace(result, offered_rate_per_s=980.0)
    found = load_findings(short, LoopModel(open=True, closed=False), "t")
    evidence = {one.code: one.evidence for one in found}
    named = "degraded by b (p99 3 ms, its workers busy 30 %)"
    assert named in evidence["generator-late"]
    assert "degraded by b (900/s of 1,000/s" in evidence["load-not-offered"]


def test_the_table_of_hosts() -> None:
    result = whole(host("web1"), host("web2", start_skew_ns=-40_000))
    text = load_text(result, (), LoadReport(target="t", open_loop=True))
    table = text[text.index("\nhost ") + 1 :].splitlines()[:3]
    assert table == [
        "host      n  failed     rate  p50 us  p99 us  issue error p99 us      start skew            drift",
        "web1  5,000       0  1,000/s     100     300                   2  +1.1 us ±12 us  +0.31 ±0.52 ppm",
        "web2  5,000       0  1,000/s     100     300                   2   -40 us ±12 us  +0.31 ±0.52 ppm",
    ]
    assert "2 together; started within 41 us of each other" in text


# -- hosts in a spec, and on the command line ------------------------------------------------


def spec(load: str, more: str = "") -> Spec:
    text = f'{more}[load]\ntarget = "http://10.0.0.9/"\n{load}\n[peak]\ncriteria = "1s"\n'
    return read_spec(text, "dir/spec.toml")


def test_hosts_of_a_spec_are_a_list_a_text_or_a_factor() -> None:
    settings = HostsSettings(("a", "b"), "conf")
    listed = spec('hosts = ["a", "b"]\nssh_config = "conf"')
    assert listed.load.hosts == settings
    assert spec('hosts = "a,b"\nssh_config = "conf"').load.hosts == settings
    assert spec("").load.hosts is None
    varied = spec('hosts = "{h}"', '[factors]\nh = ["a", "a,b"]\n')
    for level, names in (("a", ("a",)), ("a,b", ("a", "b"))):
        assert varied.at((("h", level),)).load.hosts == HostsSettings(names)


@pytest.mark.parametrize(
    ("load", "more", "key"),
    [
        ('hosts = ["a", "a"]', "", "hosts"),
        ("hosts = []", "", "hosts"),
        ('ssh_config = "x"', "", "ssh_config"),
        ('hosts = "a,b"', '[server]\nstart = "x"\nnetwork = "private"\n', "network"),
        ('hosts = "a,b"', "", "target"),
    ],
)
def test_wrong_hosts_of_a_spec_are_reported_at_their_keys(load: str, more: str, key: str) -> None:
    text = f'{more}[load]\ntarget = "http://10.0.0.9/"\n{load}\n[peak]\ncriteria = "1s"\n'
    if key == "target":
        text = text.replace("10.0.0.9", "localhost")
    if key == "network":
        text = text.replace("[load]", 'ready = { tcp = "10.0.0.9:80" }\n[load]')
    with pytest.raises(InputError) as caught:
        read_spec(text, "dir/spec.toml")
    (one,) = caught.value.diagnostics
    assert text.splitlines()[one.line - 1].startswith(f"{key} =")


def test_our_engine_in_remote_is_refused_with_the_key_that_does_it() -> None:
    with pytest.raises(InputError) as caught:
        spec("", '[remote]\nhost = "filer"\nrun = "load"\n')
    (one,) = caught.value.diagnostics
    assert 'hosts = ["filer"] in [load]' in one.hint


@pytest.mark.parametrize(
    "filament",
    [
        'type = "follow"\nleader = "a"\nevery = 2\ndelay = "1ms"',
        'type = "python"\nclass = "mine:Mine"',
        'type = "files"\nrate = "10"\noperations = {read = 1}',
    ],
)
def test_filaments_that_hosts_cannot_share_are_reported_at_their_place(
    tmp_path: Path, filament: str
) -> None:
    (tmp_path / "mine.py").write_text("class Mine:\n    def batches(self): return []\n")
    first = '[[filament]]\nname = "a"\ntype = "open"\nrate = "10"\n'
    files = '[files]\nfiles = 10\nsize = "4k"\n' if "operations" in filament else ""
    text = f"{first}[[filament]]\n{filament}\n{files}"
    (tmp_path / "w.toml").write_text(text)
    done = bw(*(tmp_path, "load", "w.toml", "--hosts", "a,b", "--target", "tcp://10.0.0.9:7"))
    assert done.returncode == 2
    assert done.stderr.startswith("w.toml:5:")
    assert "[bad-argument]" in done.stderr


@pytest.mark.parametrize("key", ["workload", "filament"])
def test_a_file_set_of_a_spec_is_refused_at_its_place(tmp_path: Path, key: str) -> None:
    files = '[files]\nfiles = 10\nsize = "4k"\n'
    filament = '[[filament]]\ntype = "files"\nrate = "10"\noperations = {read = 1}\n'
    (tmp_path / "w.toml").write_text(files + filament)
    named = f'workload = "{tmp_path}/w.toml"\n' if key == "workload" else ""
    inline = "" if named else files + filament
    text = (
        f'[load]\ntarget = "http://10.0.0.9/"\nhosts = "a,b"\n{named}{inline}'
        '[peak]\ncriteria = "mean response < 1s"\n'
    )
    with pytest.raises(InputError) as caught:
        read_spec(text, "spec.toml")
    (one,) = caught.value.diagnostics
    assert "a file set each on an NFS server only" in one.message
    line = text.splitlines()[one.line - 1]
    assert line.startswith("workload" if named else "[[filament]]")


@pytest.mark.parametrize("target", ["dir:.", "./file"])
def test_targets_that_hosts_do_not_share_are_refused(tmp_path: Path, target: str) -> None:
    files = '[files]\nfiles = 10\nsize = "4k"\n'
    filament = '[[filament]]\ntype = "files"\nrate = "10"\noperations = {read = 1}\n'
    (tmp_path / "w.toml").write_text(files + filament)
    words = ["w.toml"] if target != "./file" else ["--rate", "10"]
    done = bw(tmp_path, "load", *words, "--hosts", "a,b", "--target", target)
    assert done.returncode == 2
    assert "target is not one server that all hosts reach" in done.stderr


def test_an_nfs_server_on_the_loopback_is_another_one_on_each_host(tmp_path: Path) -> None:
    files = '[files]\nfiles = 10\nsize = "4k"\n'
    filament = '[[filament]]\ntype = "files"\nrate = "10"\noperations = {read = 1}\n'
    (tmp_path / "w.toml").write_text(files + filament)
    for server in ("localhost", "127.0.0.2", "[::1]:2049"):
        words = ("load", "w.toml", "--hosts", "a,b", "--target", f"nfs://{server}/export")
        done = bw(tmp_path, *words)
        assert done.returncode == 2
        assert "a loopback address is another machine on each host" in done.stderr


def test_each_host_has_its_part_of_a_file_set() -> None:
    files = w.FileSet(
        directories=w.ConstantValue(20),
        max_depth=2,
        files=w.ConstantValue(100),
        symlinks=w.ConstantValue(1),
        file_size=w.ConstantValue(4096),
    )
    workload = w.Workload(filaments=(), seed=1, file_set=files)
    target = parse_target("nfs://10.0.0.9/export")
    request = msgspec.structs.replace(request_of(), workload=workload, target=target)
    assert hosts_mistakes(request, {}) == []
    part = part_of(request, 1, 3)
    own = part.workload.file_set
    assert own is not None
    assert own.files == w.ConstantValue(33)
    assert own.symlinks == w.ConstantValue(1), "none would have no links at all"
    assert own.empty_directories == w.ConstantValue(0)
    assert (own.seed, own.directories, own.file_size) == (1, files.directories, files.file_size)
    assert part.part == SchedulePart(1, 3)


def test_the_files_of_a_load_are_found_and_moved() -> None:
    secure = msgspec.structs.replace(parse_target("https://10.0.0.9/"), tls=Tls(ca="ca.pem"))
    open_one = w.Open(
        arrival=w.PoissonArrival(),
        rate=w.ConstantRate(10**9),
        access=w.Access(kinds=(("exchange", 1),), size=w.ConstantValue(64)),
    )
    traces = (w.Trace(path=("a", "b")), open_one, w.Trace(path="a"))
    request = msgspec.structs.replace(
        request_of(),
        workload=w.Workload(filaments=traces, seed=1),
        target=SeveralTarget(
            (
                NamedTarget("x", (0, 1), secure),
                NamedTarget("y", (2,), parse_target("tcp://10.0.0.9:7")),
            )
        ),
    )
    assert hosts_mistakes(request, {}) == []
    assert files_of(request) == ("a", "b", "ca.pem")
    there = {"a": "/t/0", "b": "/t/1", "ca.pem": "/t/2"}
    moved = with_files(request, there)
    first, second, third = moved.workload.filaments
    assert (first.path, third.path) == (("/t/0", "/t/1"), "/t/0")  # type: ignore[union-attr]
    assert second == open_one
    assert files_of(moved) == ("/t/0", "/t/1", "/t/2")
    assert files_of(request_of()) == ()


def test_each_of_several_targets_is_divided_and_checked() -> None:
    def several(*texts: str) -> LoadRequest:
        named = (
            NamedTarget(text[:1], (place,), parse_target(text)) for place, text in enumerate(texts)
        )
        return msgspec.structs.replace(request_of(), target=SeveralTarget((*named,)))

    good = several("tcp://10.0.0.1:7", "http://10.0.0.2/", "null")
    assert hosts_mistakes(good, {}) == []
    target = part_of(good, 1, 3).target
    assert isinstance(target, SeveralTarget)
    connections = [getattr(one.target, "connections", 0) for one in target.targets]
    assert connections == [21, 21, 0]
    messages = [
        one.message for one in hosts_mistakes(several("tcp://10.0.0.1:7", "/f", "dir:x"), {})
    ]
    assert messages == [
        "target /: a file target is not one server that all hosts reach",
        "target d: a dir target is not one server that all hosts reach",
    ]


@pytest.mark.parametrize("target", ["redis://h", "postgres://u@h/d"])
def test_a_file_with_a_password_is_not_copied(target: str) -> None:
    secret = msgspec.structs.replace(parse_target(target), password_file="x")
    ((message, _),) = target_mistakes(secret)
    assert "password_file is on this machine" in message


def test_a_replay_that_hosts_cannot_share_is_refused_at_its_option(tmp_path: Path) -> None:
    for words, option in (
        (("-", "--target", "tcp://10.0.0.9:7"), "--hosts"),
        (("t.bw", "--target", "/tmp/x"), "--target"),
        (("t.bw", "--map", "a=/tmp/x", "--map", "b=tcp://10.0.0.9:7"), "--map"),
    ):
        done = bw(tmp_path, "replay", *words, "--hosts", "a,b")
        assert done.returncode == 2
        assert done.stderr.startswith(f"{option}:"), done.stderr


def test_a_host_of_another_architecture_is_named(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\necho "bw-remote /tmp/d Linux sparc64 4 /bin"\n')
    ssh.chmod(0o755)
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = ("load", "--hosts", "web1", "--rate", "10", "--target", "null")
    done = bw(tmp_path, *words, env=path)
    assert done.returncode == 2
    assert "web1: it is Linux sparc64, and this machine Linux" in done.stderr
    assert "use a host with the architecture of this machine" in done.stderr


# -- the samples of several hosts ----------------------------------------------------------


def samples_file(path: Path, intended: list[int], workers: int) -> None:
    """Write a file of samples, in the order in which operations end."""
    fields = {
        "content": "samples",
        "time_unit": "ns",
        "order": "none",
        "devices": [f"worker {number}" for number in range(workers)],
        "started_ns": 1,
        "source": "bw-engine 0",
        "policies": {},
    }
    text = json.dumps(fields).encode()
    head = samples.HEAD.pack(
        *(samples.MAGIC, samples.VERSION, samples.ROW.itemsize), *(len(text), zlib.crc32(text), 0)
    )
    rows = np.zeros(len(intended), samples.ROW)
    rows["intended"] = intended
    rows["completed"] = rows["intended"] + 10
    rows["device"] = np.arange(len(intended)) % workers
    blocks = b"".join(samples.blocks_of(rows))
    path.write_bytes(head + text + blocks + samples.end_block())


def test_samples_of_hosts_are_merged_by_their_intended_starts(tmp_path: Path) -> None:
    draw = random.Random(1)
    every = [draw.randrange(10**9) for _ in range(200_000)]
    samples_file(tmp_path / "a", every[::3], 2)
    samples_file(tmp_path / "b", [], 1)
    samples_file(tmp_path / "c", [*every[1::3], *every[2::3]], 3)
    parts = [(name, tmp_path / name) for name in "abc"]
    number = samples.merge_samples(parts, tmp_path / "all", 77)
    rows = samples.read_samples(tmp_path / "all")
    assert number == len(rows) == len(every)
    assert rows["intended"].tolist() == sorted(every)
    assert (rows["completed"] == rows["intended"] + 10).all()
    of_c = rows[rows["device"] >= 3]
    assert sorted(of_c["intended"].tolist()) == sorted([*every[1::3], *every[2::3]])
    data = (tmp_path / "all").read_bytes()
    _, _, _, length, _, _ = samples.HEAD.unpack(data[: samples.HEAD.size])
    header = json.loads(data[samples.HEAD.size :][:length])
    assert header["devices"] == [
        *("a worker 0", "a worker 1", "b worker 0"),
        *("c worker 0", "c worker 1", "c worker 2"),
    ]
    assert (header["content"], header["order"]) == ("samples", "intended")
    assert header["started_ns"] == 77
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a", "all", "b", "c"]


def test_samples_that_were_cut_short_are_not_merged(tmp_path: Path) -> None:
    samples_file(tmp_path / "a", [1, 2, 3], 1)
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:-30])
    with pytest.raises(InputError):
        samples.merge_samples([("a", tmp_path / "a")], tmp_path / "all", 0)
    assert not (tmp_path / "all").exists()


def test_a_line_is_waited_for_behind_what_is_none() -> None:
    class There(Conversation):
        def read(self) -> list[bytes | None]:
            return [line for line in super().read() if line != b"a banner"]

    text = "echo a banner; sleep 0.1; printf '{\"type\":'; sleep 0.1; echo '1}'; printf last"
    words = ["sh", "-c", text]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        engine = There(process)
        assert read_lines((engine,), 60) == [(engine, b'{"type":1}')]
        assert read_lines((engine,), 60) == [(engine, b"last"), (engine, None)]
