"""Traces of prompts: four published formats, their malformed rows, and the requests that they become."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchwright.core.errors import InputError
from benchwright.features.load import parse
from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.engine import encoded
from benchwright.features.load.llm import AskedOfModels, asked_of_models
from benchwright.features.load.plan import CommandLineLoad, plan_of_command, plan_of_prompts
from benchwright.features.load.prompt_traces import PromptTrace, TracePart, read_prompt_trace
from benchwright.features.load.prompts import WORDS

S, MS = 10**9, 10**6
BURST = """\
Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
45.5,GPT-4,417,0,417,API log
50,GPT-4,276,3,279,API log
"""
AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,110,27
"""
AZURE_2024 = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:01.009930+00:00,2399,6
"""
MOONCAKE = """\
{"timestamp": 0, "input_length": 1300, "output_length": 52, "hash_ids": [46, 47, 48]}
{"timestamp": 3000, "input_length": 600, "output_length": 26, "hash_ids": [46, 51]}
"""
BAILIAN = """\
{"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 40, "output_length": 13, "type": "text", "turn": 1, "hash_ids": [7, 8, 9]}
{"chat_id": 160, "parent_chat_id": 159, "timestamp": 62.614, "input_length": 60, "output_length": 20, "type": "text", "turn": 2, "hash_ids": [7, 8, 11, 12]}
"""


def read(directory: Path, text: str, part: TracePart = TracePart()) -> PromptTrace:  # noqa: B008
    """Read a trace of this text."""
    file = directory / "trace"
    file.write_text(text)
    return read_prompt_trace(str(file), part)


@pytest.mark.parametrize(
    ("text", "rows", "block_tokens", "left_out"),
    [
        (BURST, [(0, 472, 18, ()), (40 * S, 1087, 230, ()), (45 * S, 276, 3, ())], 0, 1),
        (AZURE, [(0, 4808, 10, ()), (52 * MS, 110, 27, ())], 0, 0),
        (AZURE_2024, [(0, 2162, 5, ()), (S, 2399, 6, ())], 0, 0),
        (MOONCAKE, [(0, 1300, 52, (46, 47, 48)), (3 * S, 600, 26, (46, 51))], 512, 0),
        (BAILIAN, [(0, 40, 13, (7, 8, 9)), (1500 * MS, 60, 20, (7, 8, 11, 12))], 16, 0),
    ],
)
def test_each_format(
    tmp_path: Path, text: str, rows: list[Any], block_tokens: int, left_out: int
) -> None:
    trace = read(tmp_path, text)
    assert list(trace.rows) == rows
    assert (trace.block_tokens, trace.left_out, trace.skipped) == (block_tokens, left_out, 0)
    compressed = tmp_path / "trace.gz"
    compressed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    assert read_prompt_trace(str(compressed)).rows == trace.rows


def test_a_part_begins_at_its_own_moment_and_rows_are_by_their_times(tmp_path: Path) -> None:
    part = TracePart(from_ns=40 * S, for_ns=5 * S + 1)
    assert [row.at_ns for row in read(tmp_path, BURST, part).rows] == [0, 5 * S]
    lines = MOONCAKE.splitlines(keepends=True)
    assert read(tmp_path, "".join(lines[::-1])).rows == read(tmp_path, MOONCAKE).rows
    with pytest.raises(InputError, match="no request"):
        read(tmp_path, BURST, TracePart(from_ns=60 * S))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (BURST.replace("1087", "many"), 3),
        (BURST.replace("5,ChatGPT,472", "nan,ChatGPT,472"), 2),
        (BURST.replace("472,18", "472,18.5"), 2),
        (BURST.replace("472,18", "472"), 2),
        (AZURE.replace("2023-11-16 18:17:04", "yesterday"), 3),
        (MOONCAKE.replace("600", "-1"), 2),
        (MOONCAKE.replace('"output_length": 26, ', ""), 2),
        (MOONCAKE.replace("[46, 51]", '["46"]'), 2),
        (BAILIAN.replace('"turn": 2', '"turn": 2,}'), 2),
        (BAILIAN + "[]\n", 3),
    ],
)
def test_a_malformed_row_is_an_error_with_its_line_or_is_counted(
    tmp_path: Path, text: str, line: int
) -> None:
    with pytest.raises(InputError) as raised:
        read(tmp_path, text)
    (wrong,) = raised.value.diagnostics
    assert (wrong.code, wrong.line) == ("trace-format", line)
    trace = read(tmp_path, text, TracePart(lenient=True))
    assert trace.skipped == 1
    assert trace.rows


def test_other_files_are_no_traces(tmp_path: Path) -> None:
    for text in ("", "a,b\n1,2\n", '{"text": 1}\n', "\x00\x01"):
        with pytest.raises(InputError):
            read(tmp_path, text)
    with pytest.raises(InputError, match="cannot be read"):
        read_prompt_trace(str(tmp_path / "none"))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(BURST.encode() * 99)[:-20])
    with pytest.raises(InputError, match="cannot be read"):
        read_prompt_trace(str(tmp_path / "cut.gz"))


# -- requests -----------------------------------------------------------------------------------


def target_of(trace: PromptTrace | str, **more: Any) -> r.HttpTarget:
    """Return a target whose model has prompts of a trace."""
    own = {"llm": "chat", "model": "m", "prompt_trace": trace, "tokens_per_word": 1.3} | more
    target = parse.with_options(parse.parse_target("http://h:1"), own)
    assert isinstance(target, r.HttpTarget)
    return target


def sent(request: r.LoadRequest) -> tuple[list[str], list[int]]:
    """Return the prompts and lengths of outputs that an engine gets, in order."""
    values = json.loads(encoded(request))["target"]["values"]
    assert values["prompt"]["location"] == values["tokens"]["location"] == {"type": "sequential"}
    return values["prompt"]["lines"], [int(line) for line in values["tokens"]["lines"]]


def test_a_replay_has_the_times_and_lengths_of_the_trace(tmp_path: Path) -> None:
    trace = read(tmp_path, BURST)
    request = plan_of_prompts(trace, 2 * w.MICRO, {}, target_of(trace)).request
    (filament,) = request.workload.filaments
    assert isinstance(filament, w.Open)
    assert filament.arrival == w.RecordedArrival((0, 20 * S, S * 5 // 2))
    assert (filament.count, filament.rate) == (3, w.RecordedRate())
    prompts, outputs = sent(request)
    assert outputs == [18, 230, 3]
    # 1.3 tokens a word, as stated.
    assert [len(prompt.split()) for prompt in prompts] == [363, 836, 212]
    assert {word for prompt in prompts for word in prompt.split()} <= set(WORDS)
    assert request.target.requests[0].body.count("${run}${unique} ${prompt}") == 1  # type: ignore


def test_equal_blocks_are_equal_words_and_others_are_not(tmp_path: Path) -> None:
    trace = read(tmp_path, BAILIAN)
    request = plan_of_prompts(trace, w.MICRO, {}, target_of(trace, tokens_per_word=1.0)).request
    (first, second), _ = sent(request)
    assert (len(first.split()), len(second.split())) == (40, 60)
    assert first.split()[:32] == second.split()[:32]
    assert first.split()[32:36] != second.split()[32:36]
    assert sent(request) == sent(request)
    other = msgspec.structs.replace(request.workload, seed=2)
    assert sent(msgspec.structs.replace(request, workload=other))[0] != [first, second]
    # Nothing that differs between requests is before the blocks.
    assert "${unique}" not in request.target.requests[0].body  # type: ignore


def test_lengths_alone_at_a_rate_of_the_load(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text(BURST)
    rate = CommandLineLoad(rate=w.ConstantRate(5 * w.MICRO))
    request = plan_of_command(rate, {}, target_of(str(tmp_path / "trace"))).request
    assert isinstance(request.workload.filaments[0], w.Open)
    assert sent(request)[1] == [18, 230, 3]
    # What a study stores has no texts: they follow from it.
    assert WORDS[0] + " " not in msgspec.json.encode(request).decode()


def test_what_is_asked_is_that_of_the_rows_that_were_sent(tmp_path: Path) -> None:
    trace = read(tmp_path, BURST)
    request = plan_of_prompts(trace, w.MICRO, {}, target_of(trace)).request
    asked = asked_of_models(request, 4)
    assert asked is not None
    assert asked.output_tokens == (18 + 230 + 3 + 18) / 4
    assert asked.prompt_tokens(2) == (472 + 1087) / 2
    assert not asked.shares
    blocks = read(tmp_path, MOONCAKE)
    of_blocks = plan_of_prompts(blocks, w.MICRO, {}, target_of(blocks)).request
    assert asked_of_models(of_blocks, 4).shares  # type: ignore[union-attr]


# -- conversations ------------------------------------------------------------------------------


def conversations(turns: w.Distribution, **more: Any) -> r.LoadRequest:
    """Return the request of conversations of these turns, 12 requests a second."""
    own = {"llm": "chat", "model": "m", "turns": turns, "tokens_per_word": 2.0} | more
    target = parse.with_options(parse.parse_target("http://h:1"), own)
    bare = CommandLineLoad(rate=w.ConstantRate(12 * w.MICRO), think=w.Exponential(S))
    return plan_of_command(bare, {}, target).request


def test_each_turn_repeats_those_before_it() -> None:
    request = conversations(w.UniformValue(2, 4), output_tokens=w.ConstantValue(50))
    (filament,) = request.workload.filaments
    assert isinstance(filament, w.PartlyOpen)
    # Four a second, of three requests on average.
    assert filament.rate == w.ConstantRate(4 * w.MICRO)
    assert (filament.requests, filament.think) == (w.UniformValue(2, 4), w.Exponential(S))
    assert filament.access.location == w.SequentialLocation()
    target = request.target
    assert isinstance(target, r.HttpTarget)
    bodies = [json.loads(one.body or "")["messages"] for one in target.requests]
    assert [len(messages) for messages in bodies] == [1, 3, 5, 7]
    for before, after in itertools.pairwise(bodies):
        assert after[: len(before)] == before
        assert [message["role"] for message in after[-2:]] == ["assistant", "user"]
    values = json.loads(encoded(request))["target"]["values"]
    assert {one["of"] for name, one in values.items() if name != "run"} == {"session"}
    # Answers of 50 tokens at two tokens a word.
    assert {len(line.split()) for line in values["answer3"]["lines"]} == {25}
    assert asked_of_models(request, 9) == AskedOfModels(50, None, shares=True)


@pytest.mark.parametrize("api", ["completions", "responses"])
def test_turns_of_other_apis(api: str) -> None:
    target = conversations(w.ConstantValue(2), llm=api).target
    assert isinstance(target, r.HttpTarget)
    first, second = (json.loads(one.body or "") for one in target.requests)
    if api == "completions":
        assert second["prompt"] == first["prompt"] + " ${answer1} ${prompt2}"
    else:
        assert [one["role"] for one in second["input"]] == ["user", "assistant", "user"]
        assert second["input"][0]["content"] == first["input"]


def test_what_contradicts_conversations(tmp_path: Path) -> None:
    for text in ("0", "257", "exponential 3", "two"):
        with pytest.raises(ValueError):  # noqa: PT011
            parse.turns(text)
    (tmp_path / "trace").write_text(BURST)
    with pytest.raises(InputError, match="earlier turns"):
        conversations(w.ConstantValue(2), prompt_trace=str(tmp_path / "trace"))
    own = {"llm": "chat", "model": "m", "turns": w.ConstantValue(2)}
    target = parse.with_options(parse.parse_target("http://h:1"), own)
    with pytest.raises(InputError, match="at a rate"):
        plan_of_command(CommandLineLoad(), {}, target)
