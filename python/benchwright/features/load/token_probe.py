"""How many tokens a word is to the server of a language model, as its usage says.

Purpose: prompts of a number of tokens, without a tokenizer: those of a trace, and earlier answers of
a conversation. Decision: two requests of a load's own form, whose prompts differ by every word of the
list exactly once. So the difference of their tokens is that of a mean word, whatever words a prompt
then draws, and the rest is what the template of the server and the beginning of each prompt add.
Rejected: a ratio that the user must know (`--tokens-per-word` states one where no server can be
asked), and a tokenizer of ours. The probe is not measured; it speaks HTTP/1.1.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from benchwright.core.errors import BenchError
from benchwright.features.load.request import HttpTarget
from benchwright.features.load.server_client import connected

_PATIENCE_S = 30.0
_HINT = "--tokens-per-word states it, in place of asking the server"


class TokensOfWords(NamedTuple):
    """Tokens of a prompt: `fixed`, and `per_word` for each of its words."""

    per_word: float
    fixed: float

    def words(self, tokens: float) -> int:
        """Return how many words make a prompt of so many tokens, at least 1."""
        return max(1, round((tokens - self.fixed) / self.per_word))


def measured(
    target: HttpTarget, path: str, body_of: Callable[[str], bytes], words: list[str], key: str
) -> TokensOfWords:
    """Return what the server's usage says of prompts of these words.

    `body_of` makes the body of a request of its prompt. Raises BenchError `tokens-unknown`.
    """
    short, long = (
        _prompt_tokens(target, path, body_of(" ".join(text)), key) for text in (words[:1], words)
    )
    per_word = (long - short) / (len(words) - 1)
    if per_word <= 0:
        raise _unknown(target, f"{len(words)} words and 1 have {long} and {short} tokens")
    return TokensOfWords(per_word, short - per_word)


def _unknown(target: HttpTarget, why: str) -> BenchError:
    message = f"how many tokens a word is to {target.url} is unknown: {why}"
    return BenchError("tokens-unknown", message, _HINT)


def _prompt_tokens(target: HttpTarget, path: str, body: bytes, key: str) -> int:
    """Return the tokens of a request's prompt. Raises BenchError."""
    import http.client

    headers = {"content-type": "application/json", **dict(target.headers)}
    if key and "authorization" not in {name.lower() for name in headers}:
        headers["authorization"] = f"Bearer {key}"
    try:
        connection = connected(target, _PATIENCE_S)
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        raise _unknown(target, str(error) or type(error).__name__) from None
    if answer.status >= 400:
        raise _unknown(target, f"it answered {answer.status}: {text[:200]}")
    found = [number for line in text.splitlines() if (number := _of_usage(line)) is not None]
    if not found:
        raise _unknown(target, "its answer has no usage")
    return found[-1]


def _of_usage(line: str) -> int | None:
    """Return the tokens of the prompt in an event, or in an answer that is none."""
    try:
        event: Any = json.loads(line.removeprefix("data:"))
        event = event.get("response", event)
        usage = event["usage"]
        tokens = usage.get("prompt_tokens", usage.get("input_tokens"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return tokens if type(tokens) is int else None
