"""Workloads in TOML: what they mean, and every mistake at its file, line and column."""

from __future__ import annotations

import msgspec
import pytest

from benchwright.core.errors import Diagnostic, InputError
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.plan import DURATION_NS, plan_of_file
from benchwright.features.load.types import LoopModel
from benchwright.features.load.workload_toml import WorkloadFile, read_workload

OPEN = '[[filament]]\ntype = "open"\nrate = "10k"\n'


def read(text: str, target: r.LoadTarget | None = None) -> WorkloadFile:
    """Return what a workload beside us says."""
    return read_workload(text, "dir/w.toml", target)


def mistakes(text: str, target: r.LoadTarget | None = None) -> tuple[Diagnostic, ...]:
    """Return every mistake of a workload; there is at least one."""
    with pytest.raises(InputError) as caught:
        read(text, target)
    return caught.value.diagnostics


def only(text: str, target: r.LoadTarget | None = None) -> w.FilamentPlan:
    """Return the one filament of a workload."""
    (filament,) = read(text, target).filaments
    return filament


def test_an_open_filament_with_its_defaults() -> None:
    assert only(OPEN) == w.Open(
        arrival=w.PoissonArrival(),
        rate=w.ConstantRate(10_000_000_000),
        access=w.Access(kinds=(("read", 1),), size=w.ConstantValue(4096)),
    )


def test_everything_an_access_can_say() -> None:
    text = (
        OPEN
        + """
arrival = {type = "gamma", cv = 2}
size = {type = "weighted", values = [["4k", 3], ["64k", 1]]}
kinds = {read = "60%", write = 0.3, flush = "10%"}
location = {type = "mixed", parts = [["sequential", 1], [{type = "zipf", exponent = 0.9}, 3]]}
region = {offset = "1M", length = "1G"}
count = "5k"
"""
    )
    assert only(text) == w.Open(
        arrival=w.GammaArrival(2_000_000),
        rate=w.ConstantRate(10_000_000_000),
        count=5000,
        access=w.Access(
            kinds=(("read", 6), ("write", 3), ("flush", 1)),
            size=w.Weighted(((4096, 3), (65536, 1))),
            location=w.MixedLocation(((w.SequentialLocation(), 1), (w.ZipfLocation(900_000), 3))),
            region=w.Region(2**20, 2**30),
        ),
    )


def test_a_profile_of_rates_and_recorded_gaps() -> None:
    steps = """[[filament]]
type = "open"
rate = [{for = "10s", from = 0, to = "10k"}, {for = "20s", at = "10k"}]
"""
    top = 10_000_000_000
    filament = only(steps)
    assert isinstance(filament, w.Open)
    assert filament.rate == w.RateProfile(
        (w.RateStep(10**10, 0, top), w.RateStep(2 * 10**10, top, top))
    )
    recorded = """[[filament]]
type = "open"
arrival = {type = "recorded", gaps = ["1ms", "3ms"]}
"""
    filament = only(recorded)
    assert isinstance(filament, w.Open)
    assert filament.arrival == w.RecordedArrival((10**6, 3 * 10**6))
    assert filament.rate == w.ConstantRate(500_000_000), "the gaps are the rate"


def test_the_other_filaments() -> None:
    text = """
[[filament]]
type = "closed"
name = "users"
users = 64
think = "exponential 10ms"
[[filament]]
type = "partly-open"
rate = 20
requests = "uniform 1..9"
think = "1s"
[[filament]]
type = "follow"
leader = "users"
every = 10
delay = "1ms"
read = "0%"
[[filament]]
type = "tpcb"
scale = 10
clients = 8
[[filament]]
type = "spc1"
bsus = 10
region = {length = "1G"}
[[filament]]
type = "trace"
path = "web.load"
speed = "4x"
for = "60s"
offsets = "scale"
"""
    closed, partly, follow, tpcb, spc1, trace = read(text).filaments
    assert isinstance(closed, w.Closed)
    assert closed.think == w.Exponential(10**7)
    assert isinstance(partly, w.PartlyOpen)
    assert partly.requests == w.UniformValue(1, 9)
    assert isinstance(follow, w.Follow)
    assert (follow.leader, follow.every) == ("users", 10)
    assert follow.access.kinds == (("write", 1),)
    assert tpcb == w.Tpcb(scale=10, clients=8)
    assert spc1 == w.Spc1(bsus=10, region=w.Region(0, 2**30))
    assert trace == w.Trace(
        path="dir/web.load", speed_micro=4_000_000, for_ns=6 * 10**10, offsets="scale"
    )


def test_a_trace_at_other_times() -> None:
    text = """
[[filament]]
type = "trace"
path = "a.load"
delay = {type = "exponential", mean = "5ms"}
quantize = "10ms"
"""
    (trace,) = read(text).filaments
    assert isinstance(trace, w.Trace)
    assert trace.delay == w.Exponential(5_000_000)
    assert trace.quantize_ns == 10_000_000


SEVERAL = """
[[target]]
name = "data"
to = "/dev/loop77"
direct = true
[[target]]
name = "web"
to = "http://127.0.0.1:8080/"
connections = 3
"""


def test_several_targets() -> None:
    text = f"""{SEVERAL}
[[filament]]
type = "open"
rate = 5
target = "web"
[[filament]]
type = "closed"
users = 2
target = "data"
"""
    found = read(text)
    web, users = found.filaments
    assert isinstance(web, w.Open)
    assert isinstance(users, w.Closed)
    assert web.access.kinds == (("exchange", 1),)
    assert users.access.kinds == (("read", 1),)
    assert found.target == r.SeveralTarget(
        (
            r.NamedTarget("data", (1,), r.FileTarget("/dev/loop77", direct=True)),
            r.NamedTarget("web", (0,), r.HttpTarget("http://127.0.0.1:8080/", connections=3)),
        )
    )
    assert read(text, r.NullTarget()).target == r.NullTarget()
    (wrong,) = mistakes(text, r.FileTarget("/x"))
    assert "--target would replace all targets" in wrong.message


def test_the_devices_of_a_trace_go_to_several_targets() -> None:
    text = """
[[target]]
name = "a"
to = "/x"
[[target]]
name = "b"
to = "null"
[[filament]]
type = "trace"
name = "disks"
path = "t.bin"
devices = {sdb = "b", sda = "a", sdc = "b"}
[[filament]]
type = "open"
rate = 5
target = "a"
"""
    found = read(text)
    first, other, second = found.filaments
    assert isinstance(first, w.Trace)
    assert isinstance(second, w.Trace)
    assert isinstance(other, w.Open)
    assert (first.name, first.devices) == ("disks on b", ("sdb", "sdc"))
    assert (second.name, second.devices) == ("disks on a", ("sda",))
    assert isinstance(found.target, r.SeveralTarget)
    assert {one.name: one.filaments for one in found.target.targets} == {"a": (1, 2), "b": (0,)}
    assert found.places["workload.filaments[2]"] == found.places["workload.filaments[0]"]


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (f"{SEVERAL}{OPEN}", (10, 3), "target is missing"),
        (f'{SEVERAL}{OPEN}target = "dta"\n', (13, 10), "no target 'dta'"),
        (f'{OPEN}target = "data"\n', (4, 10), "has no [[target]]"),
        (
            '[[target]]\nname = "a"\nto = "dir:/x"\n' + OPEN + 'target = "a"\n',
            (3, 6),
            "the only one of its load",
        ),
        (
            f'{SEVERAL}[[target]]\nname = "web"\nto = "null"\n{OPEN}target = "web"\n',
            (11, 8),
            "used twice",
        ),
        (
            '[[target]]\nname = "a"\nto = "null"\ndirect = true\n' + OPEN + 'target = "a"\n',
            (4, 10),
            "not an option of a null target",
        ),
    ],
)
def test_mistakes_about_targets(text: str, place: tuple[int, int], message: str) -> None:
    (wrong,) = mistakes(text)
    assert message in wrong.message
    assert (wrong.line, wrong.column) == place


def test_a_process() -> None:
    text = '[[filament]]\ntype = "process"\ncommand = "python3 \'my walk.py\' 5"\n'
    assert only(text) == w.Process(command=("python3", "my walk.py", "5"), directory="dir")
    assert only(text.replace("\"python3 'my walk.py' 5\"", '["a", "b c"]')) == w.Process(
        command=("a", "b c"), directory="dir"
    )
    plan = plan_of_file(read(text), {}, r.NullTarget())
    assert plan.request.duration_ns == DURATION_NS
    assert plan.request.loop == LoopModel(open=False, closed=True)
    (wrong,) = mistakes('[[filament]]\ntype = "process"\ncommand = []\n')
    assert wrong.line == 3


def test_a_trace_of_several_files() -> None:
    text = """[[filament]]
type = "trace"
path = ["a.0", "/abs/a.1"]
format = "blktrace"
arrivals = "issue"
devices = ["sda"]
"""
    assert only(text) == w.Trace(
        path=("dir/a.0", "/abs/a.1"), format="blktrace", arrivals="issue", devices=("sda",)
    )
    (wrong,) = mistakes(text.replace("blktrace", "blk"))
    assert (wrong.line, wrong.column) == (4, 10)
    assert "fio-iolog" in wrong.message


def test_a_server_has_exchanges() -> None:
    filament = only(OPEN, r.TcpTarget("127.0.0.1", 7))
    assert isinstance(filament, w.Open)
    assert filament.access.kinds == (("exchange", 1),)
    (wrong,) = mistakes(OPEN + 'read = "70%"', r.HttpTarget("http://h/"))
    assert (wrong.line, wrong.column) == (4, 8)
    assert "exchanges" in wrong.message


def test_what_is_sent_is_what_the_protocol_says() -> None:
    workload = w.Workload(filaments=read(OPEN).filaments, seed=7)
    assert msgspec.to_builtins(workload) == {
        "seed": 7,
        "filaments": (
            {
                "type": "open",
                "arrival": {"type": "poisson"},
                "rate": {"micro_per_s": 10_000_000_000},
                "access": {
                    "kinds": (("read", 1),),
                    "size": {"type": "constant", "value": 4096},
                    "location": {"type": "uniform"},
                    "region": {"offset_bytes": 0, "length_bytes": None},
                    "align_bytes": 4096,
                },
            },
        ),
    }


def test_the_command_line_wins() -> None:
    text = '[run]\ndepth = 4\nseed = 9\nlate = "skip 1ms"\n' + OPEN
    plan = plan_of_file(read(text), {"depth": 8}, r.NullTarget())
    assert (plan.request.depth, plan.request.late) == (8, r.Skip(10**6))
    assert plan.request.workload.seed == 9
    assert plan.request.duration_ns == DURATION_NS
    assert plan.request.loop == LoopModel(open=True, closed=False)


@pytest.mark.parametrize(
    ("more", "loop"),
    [
        ("", LoopModel(open=False, closed=True, slots=6)),
        ("[run]\ndepth = 2\nworkers = 2\n", LoopModel(open=False, closed=True, slots=4)),
        (OPEN, LoopModel(open=True, closed=True)),
    ],
)
def test_a_closed_loop_has_a_place_for_each_user_in_flight(more: str, loop: LoopModel) -> None:
    text = more + "".join(f'[[filament]]\ntype = "closed"\nusers = {n}\n' for n in (5, 1))
    assert plan_of_file(read(text), {}, r.NullTarget()).request.loop == loop


def test_what_ends_by_itself_needs_no_duration() -> None:
    counted = read(OPEN + "count = 10")
    assert plan_of_file(counted, {}, r.NullTarget()).request.duration_ns is None


def test_a_target_of_the_file_and_its_options() -> None:
    text = """[target]
to = "/nowhere/x"
direct = true
size = "1G"
"""
    target = read(text + OPEN).target
    assert target == r.FileTarget("/nowhere/x", direct=True, size_bytes=2**30)
    assert read(text + OPEN, r.NullTarget()).target == r.NullTarget()
    (one, two) = mistakes(text + OPEN, r.TcpTarget("h", 7))
    assert "direct is not an option of a tcp target" in one.message
    assert (two.line, two.column) == (4, 8)
    stalled = '[target]\nto = "null"\nstalls = [{at = "1s", for = "2s"}]\n'
    assert read(stalled + OPEN).target == r.NullTarget(stalls=(r.Stall(10**9, 2 * 10**9),))


@pytest.mark.parametrize(
    ("text", "line", "column", "part"),
    [
        ("", 1, 1, "filament is missing"),
        ("filament = 1", 1, 12, "filament is a whole number"),
        ("[[filament]]", 1, 3, "type is missing"),
        ('[[filament]]\ntyp = "open"', 1, 3, "typ is here: did you mean type?"),
        ('[[filament]]\ntype = "opne"', 2, 8, "no type of filament"),
        ('[[filament]]\ntype = "opne"', 2, 8, "did you mean open? one of open, cl"),
        (OPEN + 'location = {type = "zip"}', 4, 20, "did you mean zipf?"),
        ('[[filament]]\ntype = "open"', 1, 3, "rate is missing"),
        (OPEN + "rat = 1", 4, 1, "did you mean rate?"),
        (OPEN + 'size = "4q"', 4, 8, "no unit of size"),
        (OPEN + 'size = {type = "uniform", low = "8k", high = "4k"}', 4, 1, "above"),
        (OPEN + 'size = {type = "uniform", low = "8k"}', 4, 1, "high is missing"),
        (OPEN + 'size = {type = "weighted", values = [["4k"]]}', 4, 38, "[value, wei"),
        (OPEN + 'location = "zip 1"', 4, 12, "one of uniform, zipf"),
        (OPEN + "kinds = {reed = 1}", 4, 10, "did you mean read?"),
        (OPEN + "kinds = {read = 0}", 4, 9, "no kind has a weight"),
        (OPEN + 'kinds = {read = 1}\nread = "1%"', 5, 8, "say the same"),
        (OPEN + "name = 'a'\n" + OPEN + "name = 'a'", 8, 8, "used twice"),
        (OPEN + "name = '2'\n" + OPEN, 4, 8, "the number of a filament"),
        (OPEN + "region = {length = 0}", 4, 20, "is zero"),
        (OPEN + "size = 1979-05-27", 4, 8, "a date or time"),
        ('[[filament]]\ntype = "open"\nrate = []', 3, 8, "no steps"),
        ('[[filament]]\ntype="open"\nrate=[{for="1s",at=0}]', 3, 6, "all the time"),
        ('[[filament]]\ntype="follow"\nleader="x"', 3, 8, "no other filament"),
        ('[[filament]]\ntype="python"\nclass="x"', 3, 7, "does not name a class"),
        ('[run]\ncpus = "x"\n' + OPEN, 2, 8, "list of CPUs"),
        ('[run]\nfull = "wait"\n' + OPEN, 2, 8, "must be one of queue, drop"),
        ("[target]\ndirect = true\n" + OPEN, 1, 2, "these options need a target"),
        ('[target]\nto = "ftp://x"\n' + OPEN, 2, 6, "not a kind of target"),
        ("[[filament]\n", 1, 11, "Expected"),
    ],
)
def test_mistakes_are_placed(text: str, line: int, column: int, part: str) -> None:
    wrong = mistakes(text)[0]
    assert part in wrong.message + wrong.hint
    assert (wrong.line, wrong.column) == (line, column)
    assert wrong.code.startswith("workload-")


def test_all_mistakes_at_once_in_order() -> None:
    text = OPEN + 'size = "4q"\nlocation = "x"\n[run]\nseed = "many"\n'
    assert [one.line for one in mistakes(text)] == [4, 5, 7]


def test_a_time_limit_can_be_none() -> None:
    text = '[target]\nto = "tcp://h:1"\ntimeout = "none"\n' + OPEN
    target = read_workload(text, "w.toml", None).target
    assert isinstance(target, r.TcpTarget)
    assert target.timeout_ns is None


def test_the_commands_of_a_redis_server() -> None:
    head = '[target]\nto = "redis://h/2"\n'
    text = (
        'commands = ["SET k \'a b\'; GET k", ["GET", "a;b"]]\nresp = 3\npassword_file = "secret"\n'
    )
    found = read_workload(head + text + OPEN, "w.toml", None).target
    assert found == r.RedisTarget(
        "h",
        database=2,
        commands=(("SET", "k", "a b"), ("GET", "k"), ("GET", "a;b")),
        labels=("SET", "GET", "GET"),
        resp=3,
        password_file="secret",
    )
    one = read_workload(head + 'commands = "PING; GET k"\n' + OPEN, "w.toml", None)
    assert one.target == r.RedisTarget(
        "h", database=2, commands=(("PING",), ("GET", "k")), labels=("PING", "GET")
    )
    for wrong in (
        *("commands = []", "commands = [1]", "commands = [[]]", "resp = 4"),
        *('commands = ["GET \'a"]', 'commands = ""', "commands = [[1]]"),
    ):
        (mistake,) = mistakes(head + wrong + "\n" + OPEN)
        assert mistake.line == 3
    (mistake,) = mistakes('[target]\nto = "tcp://h:7"\ncommands = "PING"\n' + OPEN)
    assert "not an option of a tcp target" in mistake.message


def test_the_words_of_commands_have_values() -> None:
    text = (
        '[target]\nto = "redis://h"\ncommands = ["SET key:${id} ${text}"]\n'
        '[values]\nid = "integer 1..10"\ntext = "text 16"\n' + OPEN
    )
    found = read_workload(text, "w.toml", None)
    assert found.target is not None
    target = plan_of_file(found, {}, found.target).request.target
    assert isinstance(target, r.RedisTarget)
    assert target.commands == (("SET", "key:${id}", "${text}"),)
    assert target.values == {"id": r.IntegerValue(min=1, max=10), "text": r.TextValue(length=16)}
    assert found.places["target.commands"].line == 3
    assert found.places["target.values"].line == 4
    with pytest.raises(InputError, match="no effect"):
        plan_of_file(found, {}, r.HttpTarget("http://h/"))
    (wrong,) = mistakes('[target]\nto = "redis://h"\n[values]\nid = "integer 2..1"\n' + OPEN)
    assert wrong.line == 4
