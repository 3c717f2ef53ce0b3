"""Requests to language models: prompts of stated lengths, for the API that a server has.

Purpose: `--llm` of a load, and the same keys of `[target]`. Decision: a request is a text with places
for values, as those of `[[request]]` are, so that the engine makes it: a prompt of a list, a beginning
that no other request has, and its most tokens. Prompts have a number of words: how many tokens these
are, only the server's own tokenizer knows, and its usage says so (`stream_options.include_usage`).
Where lengths are given in tokens (a trace, the earlier answers of a conversation), the server is asked
once how many a word has (token_probe.py). A conversation is a request for each of its turns, whose
values are those of its session. Rejected: a tokenizer of ours, which would be another model's; the
server's own earlier answers in later turns, for which the engine would wait for texts while it
measures. Source: the OpenAI API (platform.openai.com/docs/api-reference).
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import re
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.parse import MOST_WORDS
from benchwright.features.load.prompt_traces import PromptRow, PromptTrace, read_prompt_trace
from benchwright.features.load.prompts import WORDS, some_words
from benchwright.features.load.token_probe import TokensOfWords, measured
from benchwright.inputs.mistakes import Where, mistake

TargetT = TypeVar("TargetT", bound=r.LoadTarget)

KEY_VARIABLE = "OPENAI_API_KEY"
"""The environment variable with the key of the server, as clients of this API have it."""
PROMPT_WORDS, OUTPUT_TOKENS = w.ConstantValue(256), w.ConstantValue(128)
_ONE_LENGTH, _LENGTHS = 8, 64
"""Prompts of a load: of one length, and of a distribution of lengths."""
_UNIQUE = 16
"""Random characters that a prompt begins with, after those of its run: 64 bits, so that hardly two of
a load are the same. Those of the run are needed because a load with the same seed draws the same
again, and a server that has it in its cache answers sooner."""
_MOST_TOKENS = 2 * 10**8
"""Tokens of the prompts of a trace together: their texts of about 1 GB are in memory."""
_DRAWS = 65
"""Draws of a distribution for each length: their median is the length."""


class _Api(NamedTuple):
    """How an API is called."""

    path: str
    most: str
    """The member with the most tokens of an answer."""
    prompt: Callable[[str, Sequence[str]], dict[str, Any]]
    """Returns the members of a prompt, from the text that all share, and the texts of its turns: of
    the user, of the model, of the user, ..."""


def _messages(turns: Sequence[str]) -> list[dict[str, str]]:
    roles = itertools.cycle(("user", "assistant"))
    return [{"role": role, "content": text} for role, text in zip(roles, turns, strict=False)]


def _chat(shared: str, turns: Sequence[str]) -> dict[str, Any]:
    system = [{"role": "system", "content": shared}] if shared else []
    return {"messages": [*system, *_messages(turns)]}


def _completions(shared: str, turns: Sequence[str]) -> dict[str, Any]:
    return {"prompt": " ".join([shared, *turns]).lstrip()}


def _responses(shared: str, turns: Sequence[str]) -> dict[str, Any]:
    own = {"input": turns[0] if len(turns) == 1 else _messages(turns)}
    return {"instructions": shared, **own} if shared else own


_APIS = {
    "chat": _Api("/v1/chat/completions", "max_tokens", _chat),
    "completions": _Api("/v1/completions", "max_tokens", _completions),
    "responses": _Api("/v1/responses", "max_output_tokens", _responses),
}


def with_requests_of_models(target: TargetT) -> TargetT:
    """Return a target, or several, with the requests of its language model. Raises InputError."""
    if isinstance(target, r.SeveralTarget):
        each = (
            msgspec.structs.replace(one, target=with_requests_of_models(one.target))
            for one in target.targets
        )
        return msgspec.structs.replace(target, targets=tuple(each))
    if not isinstance(target, r.HttpTarget):
        return target
    if not isinstance(target.language_model, r.LanguageModel):
        return target
    model = target.language_model
    if isinstance(model.prompt_trace, str):
        trace = read_prompt_trace(model.prompt_trace)
        model = msgspec.structs.replace(model, prompt_trace=trace)
    return msgspec.structs.replace(target, **_requests(target, model))


def _requests(target: r.HttpTarget, model: r.LanguageModel) -> dict[str, Any]:
    """Return the fields of a target with the requests of a model. Raises InputError."""
    if model.llm is None:
        given = next(name for name, value in msgspec.structs.asdict(model).items() if value)
        option = f"--{given.replace('_', '-')}"
        raise mistake(Where(option), "bad-argument", f"{option} is for --llm", "add --llm chat")
    if model.model is None:
        hint = "the server's GET /v1/models lists their names"
        raise mistake(Where("--llm"), "bad-argument", "--llm needs --model NAME", hint)
    if target.requests or target.body_bytes or target.method != "GET" or len(target.paths) > 1:
        message = "--llm makes the requests, and the target has some too"
        raise mistake(Where("--llm"), "bad-argument", message, "leave one of them out")
    _check_turns(model)
    api = _APIS[model.llm]
    path = api.path if target.paths in ((), ("/",)) else target.paths[0]
    made = _Requests(model, api, _per_word(target, path, model, api))
    values = made.values()
    headers = _headers(target, values)
    requests = tuple(
        r.HttpRequest(label=model.llm, method="POST", path=path, headers=headers, body=body)
        for body in made.bodies()
    )
    read = target.events if isinstance(target.events, r.Events) else r.Events()
    return {
        "paths": (),
        "headers": (),
        "requests": requests,
        "values": values,
        "events": msgspec.structs.replace(read, meaning=model.llm),
        "language_model": msgspec.UNSET,
    }


def conversation_of(target: r.LoadTarget) -> w.Distribution | None:
    """Return the number of turns of a target's conversations; None: its requests are none."""
    model = getattr(target, "language_model", None)
    return model.turns if isinstance(model, r.LanguageModel) else None


def mean_turns(turns: w.Distribution) -> float:
    """Return the mean number of requests of a conversation."""
    match turns:
        case w.ConstantValue(value):
            return value
        case w.UniformValue(low, high):
            return (low + high) / 2
        case w.Weighted(values):
            whole = sum(weight for _, weight in values)
            return sum(value * weight for value, weight in values) / whole
    raise AssertionError(f"{turns} has a greatest value: parse.py")


def _most_turns(turns: w.Distribution | None) -> int:
    match turns:
        case None:
            return 1
        case w.ConstantValue(value) | w.UniformValue(_, value):
            return value
        case w.Weighted(values):
            return max(value for value, _ in values)
    raise AssertionError(f"{turns} has a greatest value: parse.py")


def _check_turns(model: r.LanguageModel) -> None:
    """Raise InputError for conversations with prompts of a trace."""
    if model.turns is None:
        return
    if model.prompt_trace is not None:
        message = "the prompts of a trace have their earlier turns in them"
        raise mistake(Where("--turns"), "bad-argument", message, "leave --turns out")


def _per_word(
    target: r.HttpTarget, path: str, model: r.LanguageModel, api: _Api
) -> TokensOfWords | None:
    """Return how many tokens words are, where a length is given in tokens; None: none is."""
    if model.prompt_trace is None and _most_turns(model.turns) == 1:
        return None
    if model.tokens_per_word is not None:
        return TokensOfWords(model.tokens_per_word, 0.0)
    own = os.urandom(4).hex() + ("" if _has_blocks(model) else os.urandom(_UNIQUE // 2).hex())

    def body(prompt: str) -> bytes:
        return _body(model, api, [f"{own} {prompt}"], "1", str).encode()

    each_word = random.Random(0).sample(WORDS, len(WORDS))
    return measured(target, path, body, each_word, os.environ.get(KEY_VARIABLE, ""))


def _has_blocks(model: r.LanguageModel) -> bool:
    return isinstance(model.prompt_trace, PromptTrace) and model.prompt_trace.block_tokens > 0


def _headers(target: r.HttpTarget, values: dict[str, r.Value]) -> tuple[tuple[str, str], ...]:
    """Return the headers of a request; the key of the server is a value that no capture has."""
    names = {name.lower() for name, _ in target.headers}
    found = [(name, _literal(text)) for name, text in target.headers]
    if "content-type" not in names:
        found.append(("content-type", "application/json"))
    if "authorization" not in names and os.environ.get(KEY_VARIABLE):
        values["key"] = r.EnvironmentValue(variable=KEY_VARIABLE)
        found.append(("authorization", "Bearer ${key}"))
    return tuple(found)


def _body(
    model: r.LanguageModel,
    api: _Api,
    turns: Sequence[str],
    most: str,
    literal: Callable[[str], str],
) -> str:
    """Return the body of a request with these turns and most tokens; `literal` makes a text one
    without places."""
    shared = " ".join(some_words(random.Random(0), model.shared_prefix or 0))
    body: dict[str, Any] = {
        "model": literal(model.model or ""),
        **api.prompt(shared, turns),
        "stream": True,
    }
    if model.llm != "responses":
        body["stream_options"] = {"include_usage": True}
    # A number, so its place is not within quotes.
    text = json.dumps(body)[:-1]
    text += f', "{api.most}": {most}'
    if model.ignore_eos:
        text += f', "ignore_eos": true, "min_tokens": {most}'
    return text + "}"


class _Requests:
    """The requests of a model: one, or one for each turn of its conversations."""

    def __init__(self, model: r.LanguageModel, api: _Api, of_words: TokensOfWords | None) -> None:
        self._model, self._api, self._of_words = model, api, of_words
        self._chance = random.Random(1)
        self._turns = _most_turns(model.turns)

    def bodies(self) -> list[str]:
        """Return their bodies with the places of their values."""
        model = self._model
        tokens = model.output_tokens or OUTPUT_TOKENS
        is_constant = isinstance(tokens, w.ConstantValue) and model.prompt_trace is None
        most = str(tokens.value) if is_constant else "${tokens}"  # type: ignore[union-attr]
        begin = "${run}" if _has_blocks(model) else "${run}${unique}"
        texts = [f"{begin} ${{prompt}}"]
        for turn in range(2, self._turns + 1):
            texts += [f"${{answer{turn - 1}}}", f"${{prompt{turn}}}"]
        return [
            _body(model, self._api, texts[: 2 * turn - 1], most, _literal)
            for turn in range(1, self._turns + 1)
        ]

    def values(self) -> dict[str, r.Value]:
        """Return the values of their places."""
        model = self._model
        of = "operation" if model.turns is None else "session"
        found: dict[str, r.Value] = {
            "run": r.RunValue(),
            "unique": r.TextValue(length=_UNIQUE, of=of),
        }
        if isinstance(model.prompt_trace, PromptTrace):
            return found | self._of_trace(model.prompt_trace)
        prompts = model.prompt_words or PROMPT_WORDS
        found["prompt"] = self._lines(prompts, of)
        tokens = model.output_tokens
        if tokens is not None and not isinstance(tokens, w.ConstantValue):
            lengths = _lengths(tokens, self._chance)
            found["tokens"] = r.LineValue(lines=tuple(map(str, lengths)))
        for turn in range(2, self._turns + 1):
            found[f"answer{turn - 1}"] = self._lines(tokens or OUTPUT_TOKENS, of, tokens=True)
            found[f"prompt{turn}"] = self._lines(prompts, of)
        return found

    def _lines(self, lengths: w.Distribution, of: str, *, tokens: bool = False) -> r.LineValue:
        """Return texts of these lengths, in words or in tokens."""
        each = _lengths(lengths, self._chance)
        if tokens:
            assert self._of_words is not None, "asked for, since there are turns"
            each = [max(1, round(one / self._of_words.per_word)) for one in each]
        return r.LineValue(
            lines=tuple(" ".join(_some_words(self._chance, length)) for length in each), of=of
        )

    def _of_trace(self, trace: PromptTrace) -> dict[str, r.Value]:
        assert self._of_words is not None, "asked for, since there is a trace"
        tokens = sum(row.prompt for row in trace.rows)
        if tokens > _MOST_TOKENS:
            message = f"the prompts of {trace.path} have {tokens:,} tokens together"
            hint = f"at most {_MOST_TOKENS:,}: take a part of it"
            raise mistake(Where(trace.path), "bad-argument", message, hint)
        prompts = r.PromptsValue(
            prompts=tuple(
                _parts(row, trace.block_tokens, self._of_words, place)
                for place, row in enumerate(trace.rows)
            ),
            tokens=tuple(row.prompt for row in trace.rows),
            path=trace.path,
            has_blocks=trace.block_tokens > 0,
            left_out=trace.left_out,
            skipped=trace.skipped,
        )
        outputs = tuple(str(row.output) for row in trace.rows)
        in_order = w.SequentialLocation()
        return {"prompt": prompts, "tokens": r.LineValue(lines=outputs, location=in_order)}


def _parts(
    row: PromptRow, block_tokens: int, of_words: TokensOfWords, place: int
) -> tuple[tuple[int, int], ...]:
    """Return the parts of a prompt: its blocks, whose words are those of their tokens, and the rest.

    What the server adds to a prompt is subtracted at its end, where no other prompt has the same.
    """
    whole = of_words.words(row.prompt)
    parts, begin = [], 0
    for number, block in enumerate(row.blocks, 1):
        end = min(round(number * block_tokens / of_words.per_word), whole)
        if end > begin:
            parts.append((block, end - begin))
        begin = max(begin, end)
    if whole > begin:
        parts.append((-1 - place, whole - begin))
    return tuple(parts)


class AskedOfModels(NamedTuple):
    """What the requests of a load ask of language models."""

    output_tokens: float
    """Mean of the most tokens of an answer; 0: the requests do not say it."""
    prompts: r.PromptsValue | None
    """Those of a trace."""
    shares: bool
    """Whether prompts begin as others do because real ones do: blocks of a trace, earlier turns."""

    def prompt_tokens(self, streams: int) -> float | None:
        """Return the mean length of the first prompts of the trace; None: there is no trace."""
        if self.prompts is None:
            return None
        return _mean_of_first(self.prompts.tokens, streams)


def _mean_of_first(lengths: Sequence[int], streams: int) -> float:
    """Return the mean of lengths that so many streams have in order, from the first one again after
    the last."""
    times, rest = divmod(max(1, streams), len(lengths))
    return (times * sum(lengths) + sum(lengths[:rest])) / max(1, streams)


def asked_of_models(request: r.LoadRequest, streams: int) -> AskedOfModels | None:
    """Return what a load that has had so many streams asks; None: no language model is asked."""
    target = request.target
    each = (
        [one.target for one in target.targets] if isinstance(target, r.SeveralTarget) else [target]
    )
    found = [
        asked
        for one in each
        if isinstance(one, r.HttpTarget) and (asked := _asked_of(one, streams)) is not None
    ]
    if not found:
        return None
    traces = [one.prompts for one in found if one.prompts is not None]
    return AskedOfModels(
        statistics.mean(one.output_tokens for one in found),
        traces[0] if len(found) == len(traces) == 1 else None,
        any(one.shares for one in found),
    )


def _asked_of(target: r.HttpTarget, streams: int) -> AskedOfModels | None:
    if not isinstance(target.events, r.Events) or target.events.meaning not in _APIS:
        return None
    drawn, prompts = target.values.get("tokens"), target.values.get("prompt")
    trace = prompts if isinstance(prompts, r.PromptsValue) else None
    shares = trace.has_blocks if trace is not None else getattr(prompts, "of", "") == "session"
    if isinstance(drawn, r.LineValue):
        lengths = [int(line) for line in drawn.lines]
        return AskedOfModels(
            statistics.mean(lengths) if trace is None else _mean_of_first(lengths, streams),
            trace,
            shares,
        )
    most = re.compile(rf'"{_APIS[target.events.meaning].most}"\s*:\s*(\d+)', re.ASCII)
    found = [match[1] for one in target.requests if (match := most.search(one.body or ""))]
    return AskedOfModels(statistics.mean(map(int, found)) if found else 0.0, None, shares)


def _literal(text: str) -> str:
    """Return a text without places for values."""
    return text.replace("${", "$${")


def _some_words(chance: random.Random, number: int) -> list[str]:
    return some_words(chance, min(number, MOST_WORDS))


def _lengths(of: w.Distribution, chance: random.Random) -> list[int]:
    """Return lengths that together have this distribution: medians of equal shares of many draws."""
    if isinstance(of, w.ConstantValue):
        return [of.value] * _ONE_LENGTH
    draw = _drawing(of, chance)
    draws = sorted(draw() for _ in range(_LENGTHS * _DRAWS))
    lengths = [max(1, round(one)) for one in draws[_DRAWS // 2 :: _DRAWS]]
    chance.shuffle(lengths)
    return lengths


def _drawing(of: w.Distribution, chance: random.Random) -> Callable[[], float]:
    """Return the function that draws from a distribution."""
    match of:
        case w.UniformValue(low, high):
            return lambda: chance.randint(low, high)
        case w.Exponential(mean):
            return lambda: chance.expovariate(1 / mean)
        case w.Lognormal(mean, cv_micro):
            variance = math.log1p((cv_micro / w.MICRO) ** 2)
            middle = math.log(mean) - variance / 2
            return lambda: chance.lognormvariate(middle, math.sqrt(variance))
        case w.Gamma(mean, shape_micro):
            shape = shape_micro / w.MICRO
            return lambda: chance.gammavariate(shape, mean / shape)
        case w.Pareto(minimum, shape_micro):
            return lambda: minimum * chance.paretovariate(shape_micro / w.MICRO)
        case w.Weighted(values):
            each, weights = zip(*values, strict=True)
            return lambda: chance.choices(each, weights)[0]
        case w.ConstantValue(value):
            return lambda: value
