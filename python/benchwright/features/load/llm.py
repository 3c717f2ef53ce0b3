"""Requests to language models: prompts of stated lengths, for the API that a server has. Pure.

Purpose: `--llm` of a load, and the same keys of `[target]`. Decision: a request is a text with places
for values, as those of `[[request]]` are, so that the engine makes it: a prompt of a list, a beginning
that no other request has, and its most tokens. Prompts have a number of words: how many tokens these
are, only the server's own tokenizer knows, and its usage says so (`stream_options.include_usage`).
Rejected: a tokenizer of ours, which would be another model's; lengths in tokens by a measured ratio,
which differs from text to text. Source: the OpenAI API (platform.openai.com/docs/api-reference).
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from benchwright.features.load import request as r
from benchwright.features.load import workload as w
from benchwright.features.load.parse import MOST_WORDS
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
_DRAWS = 65
"""Draws of a distribution for each length: their median is the length."""
_COMMON = """
the of and to in that it was for on are with as his they be at one have this from or had by hot word
but what some we can out other were all there when up use your how said an each she which do their
time if will way about many then them write would like so these her long make thing see him two has
look more day could go come did number sound no most people my over know water than call first who
may down side been now find any new work part take get place made live where after back little only
round man year came show every good me give our under name very through just form sentence great
think say help low line differ turn cause much mean before move right boy old too same tell does set
three want air well also play small end put home read hand port large spell add even land here must
big high such follow act why ask men change went light kind off need house picture try us again
"""
"""Frequent words of English, of which prompts consist."""
_WORDS = _COMMON.split()


class _Api(NamedTuple):
    """How an API is called."""

    path: str
    most: str
    """The member with the most tokens of an answer."""
    prompt: Callable[[str, str], dict[str, Any]]
    """Returns the members of a prompt, from the text that all share, and its own."""


def _chat(shared: str, own: str) -> dict[str, Any]:
    system = [{"role": "system", "content": shared}] if shared else []
    return {"messages": [*system, {"role": "user", "content": own}]}


def _completions(shared: str, own: str) -> dict[str, Any]:
    return {"prompt": f"{shared} {own}".lstrip()}


def _responses(shared: str, own: str) -> dict[str, Any]:
    return {"instructions": shared, "input": own} if shared else {"input": own}


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
    fields = _requests(target, target.language_model)
    return msgspec.structs.replace(target, **fields)


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
    api = _APIS[model.llm]
    values = _values(model)
    request = r.HttpRequest(
        label=model.llm,
        method="POST",
        path=api.path if target.paths in ((), ("/",)) else target.paths[0],
        headers=_headers(target, values),
        body=_body(model, api),
    )
    read = target.events if isinstance(target.events, r.Events) else r.Events()
    return {
        "paths": (),
        "headers": (),
        "requests": (request,),
        "values": values,
        "events": msgspec.structs.replace(read, meaning=model.llm),
        "language_model": msgspec.UNSET,
    }


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


def _body(model: r.LanguageModel, api: _Api) -> str:
    """Return the body of a request with the places of its values."""
    shared = " ".join(_some_words(random.Random(0), model.shared_prefix or 0))
    body: dict[str, Any] = {
        "model": _literal(model.model or ""),
        **api.prompt(shared, "${run}${unique} ${prompt}"),
        "stream": True,
    }
    if model.llm != "responses":
        body["stream_options"] = {"include_usage": True}
    # A number, so its place is not within quotes.
    text = json.dumps(body)[:-1]
    tokens = model.output_tokens or OUTPUT_TOKENS
    most = str(tokens.value) if isinstance(tokens, w.ConstantValue) else "${tokens}"
    text += f', "{api.most}": {most}'
    if model.ignore_eos:
        text += f', "ignore_eos": true, "min_tokens": {most}'
    return text + "}"


def _values(model: r.LanguageModel) -> dict[str, r.Value]:
    """Return the values of a request's places."""
    chance = random.Random(1)
    prompts = [
        " ".join(_some_words(chance, length))
        for length in _lengths(model.prompt_words or PROMPT_WORDS, chance)
    ]
    found: dict[str, r.Value] = {
        "run": r.RunValue(),
        "unique": r.TextValue(length=_UNIQUE),
        "prompt": r.LineValue(lines=tuple(prompts)),
    }
    if model.output_tokens is not None and not isinstance(model.output_tokens, w.ConstantValue):
        lengths = _lengths(model.output_tokens, chance)
        found["tokens"] = r.LineValue(lines=tuple(map(str, lengths)))
    return found


def asked_tokens(request: r.LoadRequest) -> float | None:
    """Return the mean of the most tokens of each answer, 0 if the requests do not say it; None if no
    language model is asked."""
    target = request.target
    each = (
        [one.target for one in target.targets] if isinstance(target, r.SeveralTarget) else [target]
    )
    means = [
        mean
        for one in each
        if isinstance(one, r.HttpTarget) and (mean := _asked_of(one)) is not None
    ]
    return statistics.mean(means) if means else None


def _asked_of(target: r.HttpTarget) -> float | None:
    if not isinstance(target.events, r.Events) or target.events.meaning not in _APIS:
        return None
    drawn = target.values.get("tokens")
    if isinstance(drawn, r.LineValue):
        return statistics.mean(int(line) for line in drawn.lines)
    most = re.compile(rf'"{_APIS[target.events.meaning].most}"\s*:\s*(\d+)', re.ASCII)
    found = [match[1] for one in target.requests if (match := most.search(one.body or ""))]
    return statistics.mean(map(int, found)) if found else 0.0


def _literal(text: str) -> str:
    """Return a text without places for values."""
    return text.replace("${", "$${")


def _some_words(chance: random.Random, number: int) -> list[str]:
    return chance.choices(_WORDS, k=min(number, MOST_WORDS))


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
