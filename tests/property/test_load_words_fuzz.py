"""Any text is a word for load or a ValueError; any TOML is a workload or placed mistakes."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchwright.core.errors import InputError
from benchwright.features.load import parse as words
from benchwright.features.load.parse import parse_target
from benchwright.features.load.workload_toml import read_workload

PARSERS = (
    words.rate_micro,
    words.share_micro,
    words.number_micro,
    words.count,
    words.parse_cpus,
    words.parse_late,
    words.parse_arrival,
    words.parse_location,
    words.size_distribution,
    words.time_distribution,
    parse_target,
)
WORDS = st.lists(
    st.sampled_from(
        [
            "zipf",
            "uniform",
            "weighted",
            "pareto",
            "gamma",
            "on-off",
            "4k",
            "1.2",
            "10ms",
            "0",
            "70%",
            ":",
            "..",
            "cv",
            "1e9",
        ]
    ),
    max_size=6,
).map(" ".join)


@given(st.sampled_from(PARSERS), st.one_of(st.text(max_size=30), WORDS))
def test_every_word_has_a_meaning_or_a_value_error(parse, text) -> None:  # type: ignore[no-untyped-def]
    message = "it has a meaning"
    try:
        parse(text)
    except ValueError as error:
        message = str(error)
    assert message


@given(st.integers(1, 10**9), st.sampled_from(["", "k", "M"]))
def test_a_rate_is_exact(number: int, scale: str) -> None:
    factor = {"": 1, "k": 10**3, "M": 10**6}[scale]
    if number * factor > 10**9:
        with pytest.raises(ValueError, match="outside"):
            words.rate_micro(f"{number}{scale}")
    else:
        micro = words.rate_micro(f"{number}{scale}/s")
        assert Fraction(micro, 10**6) == number * factor


SCALARS = st.one_of(
    st.sampled_from(['"4k"', '"10k"', '"70%"', "1", "0", "true", '"zipf 1.2"', '"x"', "[]", "{}"]),
    st.just('{type = "zipf", exponent = 1}'),
    st.just('[["4k", 1]]'),
    st.just('[{for = "1s", at = "1k"}]'),
    st.just("1979-05-27"),
)
KEYS = [
    "type",
    "name",
    "arrival",
    "rate",
    "count",
    "size",
    "read",
    "kinds",
    "location",
    "region",
    "align",
    "users",
    "think",
    "requests",
    "leader",
    "every",
    "delay",
    "scale",
    "clients",
    "bsus",
    "path",
    "speed",
    "class",
    "arguments",
]
TYPES = ("open", "closed", "partly-open", "follow", "tpcb", "spc1", "trace", "python")


@given(
    st.lists(
        st.tuples(st.sampled_from(TYPES), st.dictionaries(st.sampled_from(KEYS), SCALARS)),
        max_size=3,
    )
)
def test_any_filament_is_read_or_its_mistakes_are_placed(filaments) -> None:  # type: ignore[no-untyped-def]
    lines = []
    for kind, keys in filaments:
        lines += ["[[filament]]", f'type = "{kind}"']
        lines += [f"{k} = {v}" for k, v in keys.items() if k != "type"]
    text = "\n".join(lines)
    try:
        description = read_workload(text, "w.toml", None)
    except InputError as error:
        for one in error.diagnostics:
            assert one.file == "w.toml"
            assert 1 <= one.line <= max(1, len(lines))
            assert one.column >= 1
    else:
        assert len(description.filaments) == len(filaments)
