"""`command`: where its values stand, and the keys of all generators in a spec."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
import pytest

from benchwright.core.errors import Diagnostic, InputError
from benchwright.features.generators.adapter import (
    Generator,
    GeneratorOutput,
    GeneratorRequest,
    Measurement,
    UnreadableOutput,
)
from benchwright.features.generators.command import (
    CommandGenerator,
    command_generator,
    command_series,
)
from benchwright.features.generators.output import parse_source
from benchwright.features.generators.registry import GENERATORS
from benchwright.features.load.criteria import parse_criteria
from benchwright.inputs.form import read_form
from benchwright.inputs.toml_table import TomlTable, read_toml

ASKED = GeneratorRequest(rate=10.0, duration_s=1.0, criteria=parse_criteria(["40ms"]))
JSON = '{"latency": {"mean": 2.5, "p/99": 9}, "rows": [[0, 4, 2.0], [1, 6, 3.0]]}'


def read(name: str, text: str) -> tuple[Generator | None, Sequence[Diagnostic]]:
    """Return what a generator's table says, and its mistakes."""
    generator: Generator | None = None

    def keys(table: TomlTable) -> None:
        nonlocal generator
        generator = read_form(table, GENERATORS[name])

    try:
        read_toml(text, "s.toml", "suite", keys)
    except InputError as error:
        return generator, list(error.diagnostics)
    return generator, []


def mistakes(name: str, text: str) -> list[str]:
    generator, found = read(name, text)
    assert (generator is None) or all("unknown key" in one.message for one in found)
    return [f"{one.line}:{one.column}: {one.message}" for one in found]


# -- values ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "out", "err", "value"),
    [
        ("/latency/mean", JSON, "", 2.5),
        ("/latency/p~199", JSON, "", 9.0),
        ("/rows/1/2", f"ready\n{JSON}\n", "", 3.0),
        ("/a", 'log\n{\n "a": 4\n}\n', "", 4.0),
        ("column mean_ms", "note\nrate,mean_ms\n1,2\n2,3.5\n", "", 3.5),
        (r"mean: ([\d.]+) ms", "mean: 7.5 ms", "", 7.5),
        (r"mean: ([\d.]+) ms", "", "mean: 8 ms", 8.0),
    ],
)
def test_a_value_is_found_where_it_is(source: str, out: str, err: str, value: float) -> None:
    assert parse_source(source).value(GeneratorOutput(out, err)) == value
    assert parse_source(source).text == source


@pytest.mark.parametrize(
    ("source", "out", "why"),
    [
        ("/latency/mean", "", "stdout is not JSON"),
        ("/latency/mean", '{"latency": {}}', "has no member 'mean'"),
        ("/latency", JSON, "is .*, not a number"),
        ("column mean", "a,b\n1,2\n", "no CSV header with the column 'mean'"),
        ("column a", "a,b\n", "has no row"),
        ("column a", "a,b\nx,2\n", "of the last row is 'x'"),
        (r"mean=(\d+)", "none", "no line matches"),
        ("/m", '{"m": null}', "not a number"),
        ("/m", '{"m": NaN}', r"/m is NaN, not a number.*/m \(a number\)"),
        ("/m", 'log\n{"a": 1, "m": Infinity}\n', "/m is Infinity, not a number"),
        ("/m", '{"m": -Infinity}', "/m is -Infinity, not a number"),
        ("/latency/mean", "NaN of it", "stdout is not JSON"),
        ("/m", "[" * 100_000, "stdout is JSON, and it is nested too deeply"),
        ("/m", "log\n" + '{"m":' * 100_000, "it is nested too deeply"),
    ],
)
def test_a_value_that_is_not_there_says_why(source: str, out: str, why: str) -> None:
    generator = command_generator("g {rate}", source)
    with pytest.raises(UnreadableOutput, match=why) as told:
        generator.parse(GeneratorOutput(out, ""), ASKED)
    assert "response_ms_mean" in str(told.value)


def test_a_nan_that_nobody_asks_for_hides_nothing() -> None:
    out = '{"m": 2.5, "p99": NaN, "rows": [[0, 4, 2.0], [1, 0, NaN], [2, 0, null]]}'
    found = command_generator("g {rate}", "/m", "/rows").parse(GeneratorOutput(out, ""), ASKED)
    assert found.values == {"response_ms_mean": 2.5}
    assert found.series.counts == (4, 0, 0)
    assert found.series.values["response_ms_mean"] == (2.0, 0.0, 0.0)


def test_a_value_that_nobody_wants_may_be_absent() -> None:
    generator = CommandGenerator(
        command="g {rate}",
        values=(
            ("response_ms_mean", parse_source("/latency/mean")),
            ("hits", parse_source("/hits")),
        ),
    )
    assert generator.parse(GeneratorOutput(JSON, ""), ASKED).values == {"response_ms_mean": 2.5}


def test_a_series_is_rows_of_second_count_mean() -> None:
    generator = command_generator("g {rate}", "/latency/mean", "/rows")
    series = generator.parse(GeneratorOutput(JSON, ""), ASKED).series
    assert (series.at_s, series.counts, series.width_s) == ((0.0, 1.0), (4, 6), 1.0)
    assert series.values == {"response_ms_mean": (2.0, 3.0)}


def test_a_series_says_which_moment_its_rows_go_by() -> None:
    said, found = read(
        "command",
        'command = "g {rate}"\nvalues = { response_ms_mean = "/latency/mean" }\n'
        'series = "/rows"\nseries_by_end = true\n',
    )
    assert found == []
    assert isinstance(said, CommandGenerator)
    assert said.parse(GeneratorOutput(JSON, ""), ASKED).series.binned_by == "completion"
    unsaid = command_generator("g {rate}", "/latency/mean", "/rows")
    assert unsaid.parse(GeneratorOutput(JSON, ""), ASKED).series.binned_by != "completion"


def test_a_series_is_put_in_order_and_its_width_is_the_smallest_gap() -> None:
    series = command_series([(3.0, 1, 9.0), (0.0, 1, 7.0), (0.5, 2, 8.0)])
    assert series.at_s == (0.0, 0.5, 3.0)
    assert series.width_s == 0.5


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ("5", "is int, not an array"),
        ("[[1, 2]]", r"/rows/0 is \[1, 2\], not \[second, count, mean_ms\]"),
        ("[[0, 1, 2.0], [1, 1.5, 2.0]]", "/rows/1 is"),
        ("[[0, -1, 2.0]]", "/rows/0 is"),
        ("[[0, 1, 2.0], [1, 3, NaN]]", r"/rows/1 is \[1, 3, NaN\], not"),
        ("[[0, Infinity, 2.0]]", r"/rows/0 is \[0, Infinity, 2.0\], not"),
        ("[[0, 1, null]]", r"/rows/0 is \[0, 1, null\], not"),
        ("[[0, 0, true]]", r"/rows/0 is"),
    ],
)
def test_a_series_of_another_shape_is_refused(rows: str, why: str) -> None:
    generator = command_generator("g {rate}", "/m", "/rows")
    with pytest.raises(UnreadableOutput, match=why):
        generator.parse(GeneratorOutput(f'{{"m": 1, "rows": {rows}}}', ""), ASKED)


@pytest.mark.parametrize(
    ("text", "response", "series", "why"),
    [
        ("", "/m", None, "empty"),
        ("g --duration {duration}", "/m", None, r"neither \{rate\} nor \{users\}"),
        ("g {rates}", "/m", None, r"did you mean \{rate\}"),
        ("g {rate:integer}", "/m", None, r"neither \{rate\} nor \{users\}"),
        ("g {rate} {users:int}", "/m", None, r"did you mean \{users\}"),
        ("g {rate}", "", None, "empty"),
        ("g {rate}", "/a~2", None, "not followed by 0 or 1"),
        ("g {rate}", "mean: [", None, "bad regular expression"),
        ("g {rate}", "mean", None, "is not the position of a value: /mean is a JSON pointer"),
        ("g {rate}", "/m", r"(\d+)", "is not a JSON pointer"),
    ],
)
def test_what_the_command_line_cannot_mean_is_refused(
    text: str, response: str, series: str | None, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        command_generator(text, response, series)


def test_a_command_says_which_axes_it_has() -> None:
    assert command_generator("g {rate}", "/m").traits.axes == ("rate",)
    assert command_generator("g {users}", "/m").traits.axes == ("users",)


def test_a_program_that_takes_whole_numbers_is_told_whole_numbers() -> None:
    generator = command_generator("g {rate:int} {duration:int} {rate}", "/m")
    assert generator.traits.axes == ("rate",)
    assert generator.traits.rate_step == 1
    call = generator.invocation(GeneratorRequest(rate=321.4, duration_s=8.2))
    assert call.commands[0].argv == ("g", "321", "9", "321.4")
    assert call.rate == 321
    assert generator.parse(
        GeneratorOutput('{"m": 2}', ""), GeneratorRequest(rate=3, duration_s=8.2)
    ) == Measurement(values={"response_ms_mean": 2.0}, lasted_s=9.0)
    assert generator.invocation(GeneratorRequest(rate=0.2, duration_s=8.0)).commands[0].argv == (
        "g",
        "1",
        "8",
        "0.2",
    )
    plain = command_generator("g {rate} {duration}", "/m")
    assert plain.traits.rate_step is None
    assert plain.invocation(GeneratorRequest(rate=321.4, duration_s=8.2)).rate is None
    with pytest.raises(ValueError, match=r"\{rate:int\} of the command has no value"):
        generator.invocation(GeneratorRequest(users=4, duration_s=1.0))


# -- counts, lateness ------------------------------------------------------------------

ROWS = [[0, 70, 2.0], [1, 80, 3.0]]
"""150 operations in 2 s."""


@pytest.mark.parametrize(
    ("figures", "rate", "by_end", "counts"),
    [
        ({}, 75.0, False, (150, None, 0)),
        ({}, 100.0, False, (150, None, 0)),
        ({}, 75.0, True, (None, 150, 0)),
        ({"failed": 0.2}, 75.0, False, (150, 120, 30)),
        ({"failed": 0.2}, 75.0, True, (None, 120, 30)),
        ({"failed": 1}, 75.0, False, (150, 0, 150)),
        # 10,000 were due: the series is of what was answered.
        ({"failed": 0.985}, 5000.0, False, (10000, 150, 9850)),
        # Neither the series alone nor with the failures is what was due: nothing is assumed.
        ({"failed": 0.5}, 5000.0, False, (150, 75, 75)),
        ({"errors": 9850}, 5000.0, False, (10000, 150, 9850)),
        ({"errors": 30}, 75.0, False, (150, 120, 30)),
        ({"sent": 160}, 75.0, False, (160, None, 0)),
        ({"sent": 160, "failed": 0.25}, 75.0, False, (160, None, 40)),
        ({"sent": 160, "done": 90, "errors": 30}, 75.0, False, (160, 90, 30)),
    ],
)
def test_the_counts_of_a_series_are_what_was_offered_or_ended(
    figures: dict[str, float], rate: float, by_end: bool, counts: tuple[int | None, int | None, int]
) -> None:
    names = {"sent": "offered", "done": "completed", "errors": "errors"}
    given = ("failed",) if "failed" in figures else ()
    generator = CommandGenerator(
        command="g {rate}",
        values=(
            ("response_ms_mean", parse_source("/m")),
            *(("error_ratio", parse_source(f"/{name}")) for name in given),
        ),
        counts=tuple(
            (key, parse_source(f"/{name}")) for name, key in names.items() if name in figures
        ),
        series=parse_source("/rows"),
        series_by_end=by_end,
    )
    text = json.dumps({"m": 2.5, "rows": ROWS, **figures})
    request = GeneratorRequest(rate=rate, duration_s=2.0)
    found = generator.parse(GeneratorOutput(text, ""), request)
    assert (found.offered, found.completed, found.errors) == counts
    assert found.offered_by_series == ("sent" not in figures and not by_end)


def test_a_closed_loop_has_no_offered_rate() -> None:
    text = json.dumps({"m": 2.5, "rows": ROWS})
    request = GeneratorRequest(users=4, duration_s=2.0)
    generator = command_generator("g {users}", "/m", "/rows")
    assert generator.parse(GeneratorOutput(text, ""), request).offered is None


def test_counts_of_errors_give_their_share() -> None:
    counts = (("errors", parse_source("/e")), ("offered", parse_source("/n")))
    generator = CommandGenerator(
        command="g {rate}", values=(("response_ms_mean", parse_source("/m")),), counts=counts
    )
    limit = parse_criteria(["errors < 1%"])[0]
    assert generator.traits.refusal(limit) == ""
    found = generator.parse(GeneratorOutput('{"m": 1, "e": 3, "n": 12}', ""), ASKED)
    assert found.values["error_ratio"] == 0.25
    alone = msgspec.structs.replace(generator, counts=counts[:1])
    assert alone.traits.refusal(limit), "a number of errors without a whole is no share"
    assert "refusals-unseen" not in alone.traits.rate_marks


def test_a_program_may_say_how_late_it_was() -> None:
    generator = command_generator("g {rate}", "/m", late="/late", target_response="/started")
    assert "lateness-unknown" not in generator.traits.rate_marks
    text = '{"m": 9, "late": 7.5, "started": 2}'
    found = generator.parse(GeneratorOutput(text, ""), ASKED)
    assert found.late_p99_ms == 7.5
    assert found.target_values == {"response_ms_mean": 2.0}
    for absent in ("late", "started"):
        with pytest.raises(UnreadableOutput, match=f"no .*'{absent}'"):
            generator.parse(GeneratorOutput(text.replace(absent, "x"), ""), ASKED)


def test_a_value_without_lateness_is_one_of_the_values() -> None:
    text = 'command = "g {rate}"\nvalues = { response_ms_mean = "/m" }\n'
    told = mistakes("command", text + 'target_values = { response_ms_p99 = "/p" }\n')
    assert len(told) == 1
    assert "response_ms_p99, which values does not have" in told[0]
    generator, found = read(
        "command", text + 'late = "/l"\ntarget_values = { response_ms_mean = "/t" }\n'
    )
    assert found == []
    assert isinstance(generator, CommandGenerator)
    assert generator.late == parse_source("/l")
    assert generator.target_values == (("response_ms_mean", parse_source("/t")),)


# -- keys in a spec --------------------------------------------------------------------


def test_a_command_is_read_from_its_table() -> None:
    generator, found = read(
        "command",
        'command = "g {rate}"\nseries = "/rows"\nopen_loop = false\n'
        'values = { response_ms_mean = "/m", hits = "column hits" }\n'
        'counts = { errors = "/e" }\n',
    )
    assert found == []
    assert isinstance(generator, CommandGenerator)
    assert [key for key, _ in generator.values] == ["response_ms_mean", "hits"]
    assert generator.traits.marks == ("closed-loop-generator",)
    out = GeneratorOutput('{"m": 1, "e": 3, "rows": []}\nhits\n5\n', "")
    assert generator.counts[0][1].value(GeneratorOutput('{"e": 3}', "")) == 3.0
    assert generator.values[1][1].value(out) == 5.0


def test_every_mistake_of_a_command_is_told() -> None:
    text = (
        'command = "g"\nvalues = { a = "/x", b = "no group", c = 5 }\n'
        'counts = { done = "/d" }\nloops = 1\nseries = "x"\n'
    )
    told = mistakes("command", text)
    assert any("1:11: `g` has neither {rate} nor {users}" in one for one in told)
    assert any(
        "5:10: 'x' is not the position of a value: /x is a JSON pointer" in one for one in told
    )
    assert any("4:1: unknown key 'loops'" in one for one in told)
    assert any("2:26: b: the regular expression has 0 groups" in one for one in told)
    assert any("2:42: c is a whole number, expected a string" in one for one in told)
    assert any("3:12: unknown key 'done'" in one for one in told)
    assert mistakes("command", 'command = "g {rate}"\n') == ["1:1: values is missing here"]


def test_fields_are_read_by_their_types() -> None:
    generator, found = read(
        "pgbench",
        'clients = "{clients}"\nport = 5433\nlatency_limit = "40ms"\n'
        "arguments = \"--random-seed 7 -D 'a=b c'\"\n",
    )
    assert found == []
    assert generator is not None
    argv = (
        generator.invocation(GeneratorRequest(rate=1.0, duration_s=1.0, sample=(("clients", "3"),)))
        .commands[0]
        .argv
    )
    line = " ".join(argv)
    assert "-c 3 " in line
    assert "-p 5433 -L 40 --random-seed 7 -D a=b c postgres" in line


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("pgbench", "clients = 0\n", "1:11: clients is out of range"),
        ("pgbench", "clients = 2.5\n", "1:11: clients is a number, expected"),
        ("pgbench", 'latency_limit = "40"\n', "has no unit of time"),
        ("pgbench", 'arguments = "\'"\n', "1:13: arguments: No closing quotation"),
        ("pgbench", "arguments = [1]\n", "1:14: an element of arguments"),
        ("fio", "\n", "1:1: filename is missing here"),
        ("fio", 'filename = "f"\ndirect = 1\n', "2:10: direct is a whole number"),
        ("k6", "vus = 5\n", "needs a url or a script"),
        ("vegeta", 'url = "u"\ntargets = "t"\n', "needs a url or targets"),
    ],
)
def test_a_key_that_cannot_be_is_told_at_its_place(name: str, text: str, told: str) -> None:
    found = mistakes(name, text)
    assert any(told in one for one in found), found
