"""Parses the texts that users write for loads: rates, shares, distributions, arrivals,
locations, targets."""

from __future__ import annotations

import base64
import math
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec

from benchwright.core.hosts import HOST, NamedServer
from benchwright.core.quantity import parse_cpu_list, parse_duration_ns, parse_size_bytes
from benchwright.core.untrusted import open_regular
from benchwright.features.load import workload as w
from benchwright.features.load.request import (
    DirTarget,
    Events,
    FileTarget,
    GrpcCall,
    HttpRequest,
    HttpTarget,
    LanguageModel,
    LoadTarget,
    NfsTarget,
    NullTarget,
    OneTarget,
    Payload,
    PostgresTarget,
    ProtoFile,
    RedisTarget,
    ServerTarget,
    SeveralTarget,
    Statement,
    StreamTarget,
    TcpTarget,
    Tls,
    UdpTarget,
    WebSocketTarget,
)
from benchwright.inputs.form import Form, needed, optional

T = TypeVar("T")
AnyTarget = TypeVar("AnyTarget", bound=LoadTarget)

# -- Texts for load: rates, shares, distributions, arrivals, locations -----------------
#
# Purpose: one table of forms (`zipf` with its fields and their types) for both notations:
# a short text (`"zipf 1.2"`, `zipf:1.2`) and a TOML table (`{type = "zipf", exponent =
# 1.2}`). Decision: a short text has the fields in the table's order; any of them may be
# named (`lognormal 10ms cv 2`). Rejected: a grammar with brackets, because TOML has one.
# Every function raises ValueError with a message that states what was expected.

ParseText = Callable[[str], Any]

_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*\Z", re.ASCII)
_RATE = re.compile(
    r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*+([kMG]?)\s*+(?:/\s*+(s|min|h))?\s*\Z", re.ASCII
)
_SCALE = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
_PER_S = {None: 1, "s": 1, "min": 60, "h": 3600}
_LARGEST = 2**63 - 1
_BLANKS = re.compile(r"[\s:]+")


# -- single values ---------------------------------------------------------------------


def rate_micro(text: str, least: int = 1) -> int:
    """Return a rate such as `10k`, `2.5M/s` or `600/min` [millionths of 1/s].

    Rounded to the nearest millionth; a rate that rounding would change by more than 0.1 %
    is refused (`1/h` is 278 millionths, which changes it by 0.08 %).
    """
    match = _RATE.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a rate such as 10k, 10k/s or 600/min")
    exact = Fraction(match[1]) * _SCALE[match[2]] * w.MICRO / _PER_S[match[3] or None]
    micro = round(exact)
    if not least <= micro <= 10**9 * w.MICRO:
        raise ValueError(f"{text!r} is outside 0.000001 .. 1G operations a second")
    if abs(micro - exact) * 1000 > exact:
        raise ValueError(f"{text!r} is not a whole number of millionths of a second")
    return micro


def number_micro(text: str) -> int:
    """Return a number above 0 such as `1.2` in millionths."""
    match = _NUMBER.match(text)
    micro = int(Fraction(match[1]) * w.MICRO) if match else 0
    if not 0 < micro <= _LARGEST:
        raise ValueError(f"{text!r} is not a number above 0 such as 1.2")
    return micro


def share_micro(text: str) -> int:
    """Return a share such as `70%` or `0.7`, from 0 to 1, in millionths."""
    bare = text.strip()
    percent = bare.endswith("%")
    match = _NUMBER.match(bare.removesuffix("%"))
    if match is None:
        raise ValueError(f"{text!r} is not a share such as 70% or 0.7")
    share = Fraction(match[1]) / (100 if percent else 1)
    if share > 1:
        if percent:
            raise ValueError(f"{bare!r} is more than 100 %")
        whole = f"{float(share) * 100:g} %"
        raise ValueError(f"{bare!r} would be {whole}: did you mean {bare}%?")
    return int(share * w.MICRO)


def share(text: str) -> float:
    """Return a share such as `70%` or `0.7`, from 0 to 1."""
    return share_micro(text) / 1e6


def duration_ns(text: str) -> int:
    """Return a duration such as `10ms` [ns]; `0` needs no unit."""
    return _bounded(0 if text.strip() == "0" else parse_duration_ns(text), text)


def some_ns(text: str) -> int:
    """Return a duration above 0 [ns]."""
    return _above_zero(duration_ns(text), text)


def seconds(text: str) -> float:
    """Return a duration above 0 such as `10m` [s]."""
    return some_ns(text) / 1e9


def timeout_ns(text: str) -> int | None:
    """Return a duration above 0 [ns]; None for `none`."""
    return None if text.strip() == "none" else some_ns(text)


def size_bytes(text: str) -> int:
    """Return a size such as `4k` [bytes]."""
    return _bounded(parse_size_bytes(text), text)


def some_bytes(text: str) -> int:
    """Return a size above 0 [bytes]."""
    return _above_zero(size_bytes(text), text)


def count(text: str) -> int:
    """Return a whole number such as `5`, `10k` or `1M`."""
    match = re.fullmatch(r"\s*([0-9]+)\s*+([kMG]?)\s*", text, re.ASCII)
    if match is None:
        raise ValueError(f"{text!r} is not a whole number such as 5 or 10k")
    return _bounded(int(match[1]) * _SCALE[match[2]], text)


def some(text: str) -> int:
    """Return a whole number above 0."""
    return _above_zero(count(text), text)


def from_one(text: str, most: int) -> int:
    """Return a whole number from 1 to `most`."""
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= most:
        raise ValueError(f"{text!r} is not a whole number from 1 to {most}")
    return int(text)


def operation_bytes(text: str) -> int:
    """Return the size of one operation, below 4 GiB [bytes]."""
    size = some_bytes(text)
    if size >= 2**32:
        raise ValueError(f"{text!r} is more than one operation can have (4G - 1)")
    return size


def _above_zero(value: int, text: str) -> int:
    if value == 0:
        raise ValueError(f"{text!r} is zero; it must be more")
    return value


def _bounded(value: int, text: str) -> int:
    if value > _LARGEST:
        raise ValueError(f"{text!r} is too large")
    return value


# -- forms -----------------------------------------------------------------------------


Forms = Mapping[str, Form]
"""Forms by the word that names them; each of their keys has a parser."""


def parse_form(text: str, forms: Forms, what: str) -> Any:
    """Return the value of a short text such as `zipf 1.2` or `gamma:2`."""
    word, *rest = _BLANKS.split(text.strip())
    if word not in forms:
        raise ValueError(f"{word!r} is no {what}: one of {', '.join(forms)}")
    form = forms[word]
    names = form.names
    texts = _distribution_named(rest, names, word)
    absent = [str(f.key) for f in form.keys if f.required and f.key not in texts]
    if absent:
        raise ValueError(f"{word} needs {' and '.join(absent)}: {usage(word, form)}")
    parsers = {str(key.key): key.parse for key in form.keys if key.parse}
    return form.made({key: parsers[key](text) for key, text in texts.items() if key in parsers})


def _distribution_named(words: Sequence[str], names: Sequence[str], form: str) -> dict[str, str]:
    """Return the texts of a form's fields, given by name or in order."""
    texts: dict[str, str] = {}
    left = list(words)
    while left:
        named = left[0] in names
        name = left.pop(0) if named else next((n for n in names if n not in texts), "")
        if not name or (named and not left):
            raise ValueError(
                f"{form} takes {' and '.join(names) or 'nothing more'}"
                + (f"; {left[0]!r} is too much" if left else "")
            )
        texts[name] = left.pop(0)
    return texts


def usage(word: str, form: Form) -> str:
    """Return how a form is written: `lognormal MEAN CV`."""
    words = [str(f.key).upper() if f.required else f"[{f.key}]" for f in form.keys]
    return " ".join((word, *words))


# -- distributions ---------------------------------------------------------------------


def distribution_forms(parse: ParseText) -> Forms:
    """Return the forms of distributions whose values `parse` reads."""
    return {
        "constant": Form((needed("value", parse),), w.ConstantValue),
        "uniform": Form((needed("low", parse), needed("high", parse)), _uniform),
        "exponential": Form((needed("mean", parse),), w.Exponential),
        "lognormal": Form(
            (needed("mean", parse), needed("cv", number_micro, field="cv_micro")), w.Lognormal
        ),
        "gamma": Form(
            (needed("mean", parse), needed("shape", number_micro, field="shape_micro")), w.Gamma
        ),
        "pareto": Form(
            (needed("minimum", parse), needed("shape", number_micro, field="shape_micro")), w.Pareto
        ),
    }


def _uniform(low: int, high: int) -> w.UniformValue:
    if low > high:
        raise ValueError("low is above high")
    return w.UniformValue(low, high)


def parse_distribution(text: str, parse: ParseText) -> w.Distribution:
    """Return the distribution of `4k`, `uniform 4k..64k`, `weighted 4k:7 64k:3` and others."""
    words = text.split()
    forms = distribution_forms(parse)
    if len(words) > 1 and words[0] == "weighted":
        return w.Weighted(tuple(_weight(word, parse) for word in words[1:]))
    if words and words[0] == "weighted":
        raise ValueError("weighted needs values: weighted 4k:70 64k:30")
    if words and words[0] in forms:
        spread = text.replace("..", " ")
        return parse_form(spread, forms, "distribution")  # type: ignore[no-any-return]
    if len(words) == 1 and words[0].isalpha():
        names = ", ".join((*forms, "weighted"))
        raise ValueError(f"{text!r} is neither a value nor a distribution ({names})")
    return w.ConstantValue(parse(text))


def _weight(word: str, parse: ParseText) -> tuple[int, int]:
    value, colon, weight = word.partition(":")
    if not colon:
        raise ValueError(f"{word!r} has no weight: write {word}:70")
    return parse(value), some(weight.removesuffix("%"))


# -- arrivals and locations ------------------------------------------------------------

time_distribution: ParseText = partial(parse_distribution, parse=duration_ns)
"""A distribution of durations [ns]."""
size_distribution: ParseText = partial(parse_distribution, parse=operation_bytes)
"""A distribution of the sizes of operations [bytes]."""
count_distribution: ParseText = partial(parse_distribution, parse=some)
"""A distribution of counts."""
MOST_WORDS = 200_000
"""Maximum number of words of a prompt: more than the longest context of today's models holds."""


MOST_TURNS = 256
"""Maximum number of requests of a session whose values are told apart: docs/engine-protocol.md."""


def turns(text: str) -> w.Distribution:
    """Return a number of turns, or a distribution with a greatest value: each turn is a request."""
    found = parse_distribution(text, partial(from_one, most=MOST_TURNS))
    if not isinstance(found, w.ConstantValue | w.UniformValue | w.Weighted):
        raise ValueError(f"{text!r} has no greatest number of turns: uniform 2..6, or weighted")
    return found


def tokens_per_word(text: str) -> float:
    """Return a number of tokens of a mean word, above 0."""
    return number_micro(text) / w.MICRO


def words_of_prompt(text: str) -> int:
    """Return a number of words of a prompt."""
    number = some(text)
    if number > MOST_WORDS:
        raise ValueError(f"{text!r} is more than a prompt can have ({MOST_WORDS:,} words)")
    return number


length_distribution: ParseText = partial(parse_distribution, parse=words_of_prompt)
"""A distribution of the lengths of prompts [words]."""

ARRIVALS: Forms = {
    "constant": Form((), w.ConstantArrival),
    "poisson": Form((), w.PoissonArrival),
    "uniform": Form((), w.UniformArrival),
    "gamma": Form((needed("cv", number_micro, field="cv_micro"),), w.GammaArrival),
    "metronome": Form((optional("period", some_ns, field="period_ns"),), w.MetronomeArrival),
    "on-off": Form(
        (needed("on", time_distribution), needed("off", time_distribution)), w.OnOffArrival
    ),
}

LOCATIONS: Forms = {
    "uniform": Form((), w.UniformLocation),
    "zipf": Form(
        (needed("exponent", number_micro, field="exponent_micro"), optional("objects", some)),
        w.ZipfLocation,
    ),
    "hot-cold": Form(
        (
            needed("space", share_micro, field="hot_space_micro"),
            needed("accesses", share_micro, field="hot_access_micro"),
        ),
        w.HotColdLocation,
    ),
    "sequential": Form((), w.SequentialLocation),
    "strided": Form((needed("stride", some_bytes, field="stride_bytes"),), w.StridedLocation),
}


def parse_arrival(text: str) -> w.Arrival:
    """Return the arrival process of `poisson`, `gamma 2` or `on-off 1s 3s`."""
    return parse_form(text, ARRIVALS, "arrival process")  # type: ignore[no-any-return]


def parse_location(text: str) -> w.Location:
    """Return the location of `uniform`, `zipf 1.2` or `hot-cold 10% 90%`."""
    return parse_form(text, LOCATIONS, "location")  # type: ignore[no-any-return]


def parse_kinds(read: int) -> tuple[tuple[str, int], ...]:
    """Return the weights of reads and writes for a share of reads [millionths]."""
    pairs = (("read", read), ("write", w.MICRO - read))
    return tuple((kind, weight) for kind, weight in pairs if weight)


# -- late operations and CPUs ----------------------------------------------------------


def parse_late(text: str) -> Any:
    """Return the late policy of `catch-up`, `skip 1ms` or `burst 10`."""
    from benchwright.features.load import request as r

    forms: Forms = {
        "catch-up": Form((), r.CatchUp),
        "skip": Form((needed("after", duration_ns, field="after_ns"),), r.Skip),
        "burst": Form((needed("operations", some),), r.Burst),
    }
    return parse_form(text, forms, "policy for late operations")


def parse_cpus(text: str) -> tuple[int, ...]:
    """Return the CPUs of `1`, `0,2` or `0-3,8`."""
    cpus = parse_cpu_list(text)
    if not cpus:
        raise ValueError("there is no CPU in the list")
    if len(set(cpus)) < len(cpus):
        raise ValueError(f"{text!r} names a CPU twice")
    return tuple(cpus)


# --------------------------------------------------------------------------------------
# The value of `--target`: `null`, a path, `dir:PATH`, `http://...`, `https://...`, `tcp://...`,
# `tls://...`, `udp://...`, `ws://...`, `wss://...`, `redis://...`, `rediss://...`, `postgres://...`, `nfs://...`, and its
# options.
#
# Purpose: one parser of targets for the command line and for `[target]` of a workload.
# Decision: an option that does not apply to the kind of target is an error. If it were
# ignored, users would believe that `--direct` had an effect on a server.
# Every function raises ValueError with a message that states what was expected.

MOST_HOSTS = 256
UNIX_PATH_MOST = 107
"""Maximum length of the path of a Unix socket [bytes]: unix(7)."""
_POSTGRES = ("postgres", "postgresql")
_HTTP_PORTS = {"http": 80, "https": 443, "grpc": 80, "grpcs": 443, "ws": 80, "wss": 443}
_SCHEMES = (*_HTTP_PORTS, *("tcp", "tls", "udp", "redis", "rediss"), *(*_POSTGRES, "nfs"))
_DIRECTORY = "dir:"
POSTGRES_PORT = 5432
_TLS: tuple[str, ...] = Tls.__struct_fields__
_NESTED: dict[str, type[msgspec.Struct]] = {
    "events": Events,
    "language_model": LanguageModel,
    "call": GrpcCall,
}
"""Members of an HTTP target whose fields are options of it."""
EVENT_OPTIONS = frozenset((*Events.__struct_fields__, *LanguageModel.__struct_fields__, "grpc"))
"""Options of a target whose answers are read as events; those of a call may be."""
_NESTED_OPTIONS = frozenset(name for kind in _NESTED.values() for name in kind.__struct_fields__)
_REDIS_PORT = 6379
_HOST_PORT = re.compile(r"[\w.-]+:\d+")


def parse_target(text: str) -> OneTarget:
    """Return the target that a text names, with default options."""
    if text == "null":
        return NullTarget()
    if text.startswith(_DIRECTORY):
        return _directory(text.removeprefix(_DIRECTORY))
    scheme, colon, rest = text.partition("://")
    if not colon:
        return _file(text)
    if scheme not in _SCHEMES:
        raise ValueError(
            f"{scheme}:// is not a kind of target; use null, a path, dir:PATH, http://, "
            "https://, ws://, wss://, grpc://, grpcs://, tcp://, tls://, udp://, redis://, rediss://, "
            "postgres:// or nfs://"
        )
    if not rest:
        raise ValueError(f"{text!r} has no host")
    if scheme == "nfs":
        return _nfs(text)
    if scheme in ("redis", "rediss"):
        return _redis(text)
    if scheme in _POSTGRES:
        return _postgres(text)
    return _http(text) if scheme in _HTTP_PORTS else _tcp(text)


def _directory(path: str) -> DirTarget:
    if not path or "\0" in path:
        raise ValueError(f"dir:{path} names no directory: write dir:PATH")
    return DirTarget(path=path)


def _nfs(text: str) -> NfsTarget:
    parts = _split(text)
    if parts.path in ("", "/") or parts.query:
        raise ValueError(f"{text!r} names no export: nfs://HOST/EXPORT")
    assert parts.hostname is not None, "_split checks it"
    return NfsTarget(host=parts.hostname, port=parts.port, export=unquote(parts.path))


def _file(text: str) -> FileTarget:
    if not text or "\0" in text:
        raise ValueError(f"{text!r} is not a path")
    if os.path.isdir(text):
        raise ValueError(
            f"{text!r} is a directory: name a file in it, or dir:{text} for a file set"
        )
    # Other load generators accept HOST:PORT; "no such file" would not explain the mistake.
    if _HOST_PORT.fullmatch(text) and not os.path.exists(text):
        raise ValueError(
            f"{text!r} is not a file; a server is http://{text}/ or tcp://{text}, "
            f"a new file of that name ./{text}"
        )
    return FileTarget(path=text)


def _http(text: str) -> HttpTarget | WebSocketTarget:
    parts = _split(text)
    path = parts.path or "/"
    if parts.query:
        path += "?" + parts.query
    if parts.scheme in ("ws", "wss"):
        return WebSocketTarget(
            url=f"{parts.scheme}://{parts.netloc}{path}",
            tls=Tls() if parts.scheme == "wss" else None,
        )
    is_grpc = parts.scheme in ("grpc", "grpcs")
    if is_grpc and path != "/":
        raise ValueError(f"{text!r} has more than {parts.scheme}://HOST:PORT: a method is --grpc")
    return HttpTarget(
        url=f"{parts.scheme}://{parts.netloc}/",
        paths=(path,),
        http="2" if is_grpc else "1.1",
        tls=Tls() if parts.scheme in ("https", "grpcs") else None,
    )


def _tcp(text: str) -> TcpTarget | UdpTarget:
    parts = _split(text)
    if parts.port is None:
        raise ValueError(f"{text!r} has no port: {parts.scheme}://HOST:PORT")
    if parts.path.strip("/") or parts.query:
        raise ValueError(f"{text!r} has more than {parts.scheme}://HOST:PORT")
    assert parts.hostname is not None, "_split checks it"
    if parts.scheme == "udp":
        return UdpTarget(host=parts.hostname, port=parts.port)
    return TcpTarget(
        host=parts.hostname, port=parts.port, tls=Tls() if parts.scheme == "tls" else None
    )


def _redis(text: str) -> RedisTarget:
    scheme, _, rest = text.partition("://")
    user, _, server = rest.rpartition("@")
    if ":" in user:
        # Without the text, which contains the password; it may also contain # and /.
        raise ValueError(
            f"a password in {scheme}:// would be in the process list and in results: set the "
            "environment variable REDISCLI_AUTH, or password_file in a workload's [target]"
        )
    parts = _split(f"{scheme}://{server}")
    database = parts.path.removeprefix("/")
    if not re.fullmatch(r"[0-9]{0,9}", database, re.ASCII) or parts.query:
        raise ValueError(f"{text!r} has more than a database: {parts.scheme}://HOST:PORT/NUMBER")
    return RedisTarget(
        host=parts.hostname,
        port=parts.port or _REDIS_PORT,
        database=int(database) if database else None,
        user=unquote(user) or None,
        tls=Tls() if parts.scheme == "rediss" else None,
    )


def redis_commands(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the words of each command of `SET key "a b"; GET key`; with shares (`90% GET a; 10%
    SET a b`) each command as often as its share says."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";")
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word.strip(";"):
                found[-1].append(word)
            elif word:
                found.append([])
            else:
                found[-1].append(word)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    commands: list[tuple[int | None, tuple[str, ...]]] = []
    for first, *rest in filter(None, found):
        share = _SHARE.fullmatch(first)
        words = (first, *rest) if share is None else tuple(rest)
        commands.append((None if share is None else int(share[1]), words))
    if not commands or not all(words for _, words in commands):
        raise ValueError(f"{text!r} has no command: write it like 'GET key'")
    return _by_share(commands)


_SHARE = re.compile(r"(\d{1,3})%", re.ASCII)


def _by_share(operations: Sequence[tuple[int | None, T]]) -> tuple[T, ...]:
    """Return operations, each as often as its share [percent] says; None: no share.

    Decision: an operation of a load is any of these with equal probability, so shares need no
    further mechanism; finer ones than a percent are weights of `[[request]]`.
    """
    shares = [share for share, _ in operations if share is not None]
    if not shares:
        return tuple(operation for _, operation in operations)
    if len(shares) < len(operations):
        raise ValueError("give each command a share, as in '90% GET a; 10% SET a b', or none")
    if sum(shares) != 100 or 0 in shares:
        total = sum(shares)
        raise ValueError(f"the shares must be 1% or more each, and 100% together, not {total}%")
    common = math.gcd(*shares)
    return tuple(
        operation for share, operation in operations for _ in range((share or 0) // common)
    )


_SQL = re.compile(
    r"""
    (?P<end> ; )
    | [eE]' (?: [^'\\] | \\. | '' )* '          # E'a\'b'
    | ' (?: [^'] | '' )* '                      # 'it''s'
    | " (?: [^"] | "" )* "                      # "a name"
    | (?P<dollar> \$ (?: [A-Za-z_]\w* )? \$ ) .*? (?P=dollar)
    | (?P<comment> -- [^\n]* | /\* .*? \*/ )
    | \w+                                       # so that the E of NAME'x' begins no text
    | (?P<open> ['"] | /\* | \$ (?: [A-Za-z_]\w* )? \$ ) .*    # up to the end
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
"""The parts of SQL that may contain a `;`, and the rest. Comments within comments are not known."""


def sql_statements(text: str) -> tuple[tuple[Statement, ...], ...]:
    """Return the operations of `SELECT 1; SELECT 'a;b'`: each is one statement; with shares
    (`90% SELECT 1; 10% SELECT 2`) each as often as its share says."""
    found, begin = [[""]], 0
    for part in _SQL.finditer(text):
        if part["open"]:
            raise ValueError(f"{text!r}: {part['open']} is not closed")
        if part["end"]:
            found.append([""])
        else:
            found[-1].append(" " if part["comment"] else part[0])
        begin = part.end()
    assert begin == len(text), "every character is a part"
    statements = ["".join(parts).strip() for parts in found]
    operations: list[tuple[int | None, tuple[Statement, ...]]] = []
    for sql in filter(None, statements):
        share = _SHARE.match(sql)
        bare = sql if share is None else sql[share.end() :].strip()
        if not bare:
            raise ValueError(f"{sql!r} has no statement: write it like 'SELECT 1'")
        operations.append((None if share is None else int(share[1]), (Statement(bare),)))
    if not operations:
        raise ValueError(f"{text!r} has no statement: write it like 'SELECT 1'")
    return _by_share(operations)


MOST_LABELS = 100
"""Maximum number of labels of a load."""
_LABEL_LENGTH = 60
"""Maximum length of a label that is a statement."""


def command_label(words: Sequence[str]) -> str:
    """Return the label of a Redis command where none is given: its name."""
    return words[0].upper() if words else ""


def message_label(message: Payload) -> str:
    """Return the label of a message of WebSocket where none is given: its beginning."""
    text = " ".join((message.text or message.hex or "message").split())
    return text if len(text) <= _LABEL_LENGTH else f"{text[: _LABEL_LENGTH - 1]}…"


def transaction_label(statements: Sequence[Statement]) -> str:
    """Return the label of statements where none is given: their beginning."""
    text = " ".join("; ".join(statement.sql for statement in statements).split())
    return text if len(text) <= _LABEL_LENGTH else f"{text[: _LABEL_LENGTH - 1]}…"


def labels_by(names: Sequence[str]) -> tuple[str, ...]:
    """Return the labels of operations without labels of their own; none if they would tell nothing
    apart, or are too many."""
    return tuple(names) if 1 < len(set(names)) <= MOST_LABELS else ()


def path_requests(target: LoadTarget) -> tuple[HttpRequest, ...]:
    """Return the requests of a list of paths, each labelled by method and path as those of
    `[[request]]`, so that each path has its own times; none if that is impossible or would tell
    nothing apart. What the engine refuses stays a path, and is reported as one."""
    if not isinstance(target, HttpTarget) or target.requests or target.body_bytes:
        return ()
    if target.call is not msgspec.UNSET or target.language_model is not msgspec.UNSET:
        return ()
    if not all(_PLAIN_PATH.fullmatch(path) for path in target.paths):
        return ()
    labels = labels_by([f"{target.method} {path}" for path in target.paths])
    return tuple(
        HttpRequest(label=label, method=target.method, path=path.replace("${", "$${"))
        for label, path in zip(labels, target.paths, strict=bool(labels))
    )


_PLAIN_PATH = re.compile(r"/[!-~]*")


def labels_of(target: LoadTarget) -> tuple[str, ...]:
    """Return the different labels of a target's operations."""
    found: list[str] = []
    for one in each_of(target):
        match one:
            case HttpTarget():
                found += [request.label for request in one.requests or path_requests(one)]
            case RedisTarget() | PostgresTarget() | WebSocketTarget():
                found += one.labels
    return tuple(dict.fromkeys(found))


def exchange_name(target: LoadTarget, *, recorded: bool) -> str:
    """Return what the operations on a server are called: the method, command or verb that all of
    them have, or `requests`; `recorded`: they are those of a trace, which have methods of their
    own."""
    names: set[str] = set()
    if recorded:
        return "requests"
    for one in each_of(target):
        match one:
            case HttpTarget():
                names |= {_name_of(request, one) for request in one.requests} or {one.method}
            case RedisTarget():
                names |= {command_label(words) for words in one.commands}
            case PostgresTarget():
                sql = [each.sql for group in one.statements for each in group]
                names |= {text.split()[0].upper() for text in sql or ["SELECT 1"]}
            case WebSocketTarget():
                names.add("messages")
            case _:
                return "requests"
    return names.pop() if len(names) == 1 else "requests"


def _name_of(request: HttpRequest, target: HttpTarget) -> str:
    """Return the method of a request, of HTTP or of gRPC."""
    return request.path.rpartition("/")[2] if is_grpc(target) else request.method


def is_grpc(target: HttpTarget) -> bool:
    """Return whether operations are calls of gRPC."""
    return target.url.startswith(("grpc:", "grpcs:"))


def commands_text(text: str) -> str:
    """Return the commands of a Redis server, or the statements of a database, whose target reads
    them."""
    if not text.strip(" ;\t\n"):
        raise ValueError(f"{text!r} has no command: write it like 'GET key'")
    return text


def _with_commands(target: LoadTarget, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with commands as the target has them, and their labels. Raises ValueError."""
    said = options.get("commands")
    if isinstance(target, PostgresTarget):
        found = options.get("statements")
        others = {key: value for key, value in options.items() if key != "commands"}
        if said is not None:
            if found is not None:
                raise ValueError("commands and statements say the same: leave one out")
            if not isinstance(said, str):
                raise ValueError(
                    "it is one text for PostgreSQL, with a statement for each operation; "
                    "an array is statements"
                )
            found = sql_statements(said)
        if not isinstance(found, tuple):
            # None, or an array that has not been read yet.
            return options
        labels = labels_by([transaction_label(one) for one in found])
        return {**others, "statements": found, "labels": labels}
    commands = redis_commands(said) if isinstance(said, str) else said
    if not isinstance(commands, tuple):
        return options
    labels = labels_by([command_label(command) for command in commands])
    return {**options, "commands": commands, "labels": labels}


def events_of(target: LoadTarget) -> Events | None:
    """Return how a target's answers are read as events; None: they are not."""
    if isinstance(target, HttpTarget | WebSocketTarget) and isinstance(target.events, Events):
        return target.events
    return None


def _with_nested(target: LoadTarget, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with those of events, and of a language model, as the target has them."""
    found = dict(options)
    if isinstance(path := found.get("proto"), str):
        found["proto"] = proto_files(path, found.get("import_path"), _contents_of)
    for member, kind in _NESTED.items() if isinstance(target, HttpTarget | WebSocketTarget) else ():
        own = {k: found.pop(k) for k in kind.__struct_fields__ if k in found}
        if own:
            read = getattr(target, member) or kind()
            if isinstance(target, WebSocketTarget):
                own = {"events": "websocket", **own}
            found[member] = msgspec.structs.replace(read, **own)
    return found


# -- gRPC ------------------------------------------------------------------------------

_IMPORT = re.compile(
    r"""^[ \t]*import\s+(?:public\s+|weak\s+)?["']([^"']+)["']\s*;""", re.MULTILINE
)
_METADATA = re.compile(r"[0-9a-z_.-]+", re.ASCII)
MOST_PROTO_BYTES = 16 * 2**20
"""Maximum length of a `.proto` file."""


def _contents_of(path: str) -> bytes | None:
    """Return the contents of a file; None if there is none."""
    if not os.path.isfile(path):
        return None
    with open_regular(path) as file:
        return file.read(MOST_PROTO_BYTES)


def proto_files(
    path: str, import_path: str | None, read: Callable[[str], bytes | None]
) -> tuple[ProtoFile, ...]:
    """Return a `.proto` file and those that it imports, as far as they are found: in the directories
    of `import_path`, separated by `:`, and in that of the file. The engine has those of protobuf
    itself, and reports the others that are not there. Raises ValueError for bytes that are no text.
    """
    directories = [*(import_path.split(":") if import_path else ()), os.path.dirname(path)]
    wanted = [(_import_name(path, directories), [path])]
    found: dict[str, ProtoFile] = {}
    while wanted:
        name, candidates = wanted.pop()
        if name in found:
            continue
        contents = next((one for at in candidates if (one := read(at)) is not None), None)
        if contents is None:
            continue
        try:
            text = contents.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{name} is not UTF-8") from None
        found[name] = ProtoFile(name, text)
        wanted += [
            (one, [os.path.join(directory, one) for directory in directories])
            for one in _IMPORT.findall(text)
        ]
    return tuple(found.values())


def _import_name(path: str, directories: Sequence[str]) -> str:
    """Return the name of a file in the first directory that has it, its last part if none has."""
    inside = (os.path.relpath(path, directory or ".") for directory in directories)
    return next((one for one in inside if not one.startswith("..")), os.path.basename(path))


def proto_path(text: str) -> str:
    """Return the path of a `.proto` file that can be read."""
    try:
        with open_regular(text):
            return text
    except OSError as error:
        raise ValueError(f"{text}: {error.strerror}") from None


def grpc_method(text: str) -> str:
    """Return the name of a method, `package.Service/Method`."""
    if not re.fullmatch(r"/?[\w.]+[/.]\w+", text, re.ASCII):
        raise ValueError(f"{text!r} is not a method such as package.Service/Method")
    return text


_STATUSES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"),
    *("ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"),
    *("ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    "UNAUTHENTICATED",
)
"""The statuses of gRPC by number. Source: google/rpc/code.proto."""


def grpc_statuses(text: str) -> tuple[int, ...]:
    """Return the numbers of statuses of gRPC, of their names separated by commas."""
    names = [name.strip().upper() for name in text.split(",")]
    for name in names:
        if name not in _STATUSES[1:]:
            raise ValueError(f"{name!r} is not a status other than OK: {', '.join(_STATUSES[1:])}")
    return tuple(map(_STATUSES.index, names))


def grpc_compression(text: str) -> str:
    """Return how messages are compressed."""
    if text != "gzip":
        raise ValueError(f"{text!r} is not gzip")
    return text


def grpc_data(text: str) -> str:
    """Return messages as JSON: a text, or the contents of `@FILE`."""
    if not text.startswith("@"):
        return text
    try:
        with open_regular(text[1:]) as file:
            return file.read().decode()
    except OSError as error:
        raise ValueError(f"{text}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{text} is not UTF-8") from None


def grpc_metadata(text: str) -> tuple[str, str]:
    """Return the name and value of `NAME:VALUE`."""
    name, colon, value = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r} is not NAME:VALUE")
    return grpc_pair(name, value)


def grpc_pair(name: str, value: str) -> tuple[str, str]:
    """Return a name of metadata and its value, of a name that ends with `-bin` base64."""
    name, value = name.strip().lower(), value.strip()
    if not _METADATA.fullmatch(name):
        raise ValueError(f"{name!r} is no name of metadata: it has letters, digits, - _ and .")
    if name.startswith("grpc-") or name in ("te", "content-type", "host"):
        raise ValueError(f"{name} is a name of gRPC itself")
    if name.endswith("-bin"):
        try:
            value = base64.b64encode(base64.b64decode(value, validate=True)).decode().rstrip("=")
        except ValueError:
            raise ValueError(f"the value of {name} is not base64") from None
    return name, value


_HEX_WITH_PLACES = re.compile(r"(?:[0-9a-f\s]|\$\{[A-Za-z0-9_-]+\})*", re.ASCII | re.IGNORECASE)
MOST_DATAGRAM_BYTES = 65_507
"""Maximum length of a datagram: what IPv4 has room for."""


def payload_file(text: str) -> str | None:
    """Return the path of `file:PATH`; None if the text is another form of a payload."""
    form, colon, path = text.partition(":")
    return path if colon and form == "file" else None


def _form_of(text: str) -> tuple[str, str]:
    """Return the form of `text:TEXT` or `hex:DIGITS`, and the rest; without one of these before it,
    it is a text."""
    form, colon, rest = text.partition(":")
    return (form, rest) if colon and form in ("text", "hex") else ("text", text)


def payload(text: str) -> Payload:
    """Return what a text says that operations send: `text:TEXT`, `hex:DIGITS`, or a text without
    one of these forms before it."""
    form, rest = _form_of(text)
    if not rest.strip() if form == "hex" else not rest:
        raise ValueError(f"{text!r} is empty: a datagram has at least one byte")
    if form == "text":
        return Payload(text=rest)
    if not _HEX_WITH_PLACES.fullmatch(rest):
        raise ValueError(
            f"{text!r} is not hexadecimal: write two digits for each byte, and ${{NAME}} for values"
        )
    return Payload(hex=rest)


def payload_of_bytes(contents: bytes) -> Payload:
    """Return the payload of a file's contents."""
    if not 0 < len(contents) <= MOST_DATAGRAM_BYTES:
        raise ValueError(
            f"it has {len(contents):,} bytes: a datagram has 1 to {MOST_DATAGRAM_BYTES:,}"
        )
    return Payload(base64=base64.b64encode(contents).decode())


def payloads(text: str) -> tuple[Payload, ...]:
    """Return the one payload that a text of the command line names; a file is read."""
    path = payload_file(text)
    if path is None:
        return (payload(text),)
    try:
        with open_regular(path) as file:
            contents = file.read(MOST_DATAGRAM_BYTES + 1)
        return (payload_of_bytes(contents),)
    except OSError as error:
        raise ValueError(f"{text}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from None


def answers(text: str) -> str:
    """Return which messages of a server of WebSocket are answers, as the engine reads it: of `next`,
    `none`, a JSON pointer such as `/id`, `text:TEXT` or `hex:DIGITS`."""
    if text in ("next", "none") or re.fullmatch(r"/([^~]|~[01])*", text):
        return text
    if not text.startswith(("text:", "hex:")):
        raise ValueError(
            f"{text!r} is none of next, none, a JSON pointer such as /id, text:BEGINNING and hex:DIGITS"
        )
    return f"hex:{answer_prefix(text)}"


def answer_prefix(text: str) -> str:
    """Return what an answer begins with as hexadecimal digits, `??` for any byte: of `text:TEXT`,
    `hex:DIGITS`, or a text without one of these forms before it."""
    form, rest = _form_of(text)
    if not rest:
        raise ValueError(f"{text!r} is empty: any answer begins with nothing")
    if form == "text":
        return rest.encode().hex()
    digits = "".join(rest.split()).lower()
    if not re.fullmatch(r"(?:[0-9a-f]{2}|\?\?)+", digits, re.ASCII):
        raise ValueError(
            f"{text!r} is not hexadecimal: write two digits for each byte, or ?? for any"
        )
    return digits


def end_mark(text: str) -> str:
    """Return the data of the event that ends a stream."""
    if not text or "\n" in text or "\r" in text:
        raise ValueError(f"{text!r} is not the data of an event: a line that is not empty")
    return text


def model_name(text: str) -> str:
    """Return the name of a language model."""
    if not text.strip() or not text.isprintable():
        raise ValueError(f"{text!r} is not the name of a model")
    return text


def resp(text: str) -> int:
    """Return a version of Redis' protocol."""
    if text not in ("2", "3"):
        raise ValueError(f"{text!r} is not a version of Redis' protocol: 2 or 3")
    return int(text)


_POSTGRES_FORM = "postgres://USER@HOST[:PORT]/DATABASE"
_AUTHORITY = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d*))?", re.ASCII)
_SSL_MODES = {"disable": None, "require": Tls(), "verify-full": Tls()}
"""Modes of libpq that do not depend on what the server chooses. Decision: `require` verifies the
certificate, as https does; libpq's accepts any, which is `insecure` here."""


def _postgres(text: str) -> PostgresTarget:
    """Return the target of a connection URI as libpq has it: a host that begins with `/`, or its
    `host=` in the query, is the directory of a Unix socket. No message repeats the URL, which may
    contain a password."""
    parts = urlsplit(text)
    login, at, server = parts.netloc.rpartition("@")
    name, colon, _ = login.partition(":")
    if colon:
        raise ValueError(
            "a password in the URL would be visible to all users of this machine: set PGPASSWORD, "
            "or write it into ~/.pgpass"
        )
    if not at or not name:
        raise ValueError(f"the URL names no user: {_POSTGRES_FORM}")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = [key for key in query if key not in ("sslmode", "host")]
    if unknown or parts.fragment:
        raise ValueError(f"the URL has more than {_POSTGRES_FORM}?sslmode=MODE")
    mode = query.get("sslmode", "disable")
    if mode not in _SSL_MODES:
        modes = ", ".join(_SSL_MODES)
        raise ValueError(f"sslmode {mode!r} is not supported; it must be one of {modes}")
    split = _AUTHORITY.fullmatch(server)
    host = query.get("host", unquote(split[1].strip("[]")) if split else "")
    port = int(split[2]) if split and split[2] else POSTGRES_PORT
    if not host or not 1 <= port <= 65_535:
        raise ValueError(f"the URL has no valid host or port (1 to 65535): {_POSTGRES_FORM}")
    directory = host if host.startswith("/") else None
    database = unquote(parts.path.removeprefix("/"))
    return PostgresTarget(
        host="localhost" if directory else host,
        port=port,
        user=unquote(name),
        database=database or None,
        unix_socket=directory and unix_socket(f"{directory}/.s.PGSQL.{port}"),
        tls=_SSL_MODES[mode],
    )


def _split(text: str) -> Any:
    parts = urlsplit(text)
    try:
        good = parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"{text!r} has no valid host or port (1 to 65535)")
    if parts.username is not None or parts.fragment:
        raise ValueError(f"{text!r} has a user name or a #fragment; leave it out")
    return parts


def parse_hosts(text: str) -> tuple[str, ...]:
    """Return the hosts of a load from `HOST,HOST`: names of ssh, each one once."""
    names = tuple(one.strip() for one in text.split(","))
    for place, name in enumerate(names):
        if not HOST.fullmatch(name):
            raise ValueError(
                f"{name!r} is not a host: a name of ~/.ssh/config, user@host, or ssh://host:port"
            )
        if name in names[:place]:
            raise ValueError(f"{name} is named twice: each host issues one part")
    if len(names) > MOST_HOSTS:
        raise ValueError(f"{len(names)} hosts; at most {MOST_HOSTS}")
    return names


def each_of(target: LoadTarget) -> Iterator[OneTarget]:
    """Yield a target, or each of several."""
    if isinstance(target, SeveralTarget):
        yield from (named_target.target for named_target in target.targets)
    else:
        yield target


def kind_of(target: LoadTarget) -> str:
    """Return the kind of a target: null, file, tcp, udp, http, websocket, redis, postgres, dir, nfs."""
    return str(target.__struct_config__.tag)


def tls_of(target: LoadTarget) -> Tls | None:
    """Return how a target uses TLS; None if it does not."""
    return target.tls if isinstance(target, StreamTarget) else None


def options_of(target: LoadTarget) -> tuple[str, ...]:
    """Return the names of the options that a target accepts, or one of several targets."""
    if isinstance(target, SeveralTarget):
        every = (
            name for named_target in target.targets for name in options_of(named_target.target)
        )
        return tuple(dict.fromkeys(every))
    fields = target.__struct_fields__
    if isinstance(target, PostgresTarget):
        # Those of TLS turn it on.
        return (*fields, "commands", *_TLS)
    if isinstance(target, HttpTarget):
        fields = (*fields, *sorted(_NESTED_OPTIONS))
    if isinstance(target, WebSocketTarget):
        fields = (*fields, *sorted({*Events.__struct_fields__} - {"meaning"}))
    return fields if tls_of(target) is None else (*fields, *_TLS)


def why_refused(target: LoadTarget, field: str, option: str) -> str | None:
    """Return why a target does not accept the option of a field; None if it accepts it."""
    if field in options_of(target):
        return None
    if isinstance(target, SeveralTarget):
        return f"none of the targets has {option}"
    if field in _TLS and is_network(target):
        return f"{option} is for TLS: write https://HOST/PATH, wss://HOST/PATH, tls://HOST:PORT or rediss://HOST"
    return f"{option} is not an option of a {kind_of(target)} target"


def with_options(target: AnyTarget, options: dict[str, Any]) -> AnyTarget:
    """Return the target with some options set. Raises ValueError for one that it does not accept,
    and for commands that it cannot read."""
    for field in options:
        if why := why_refused(target, field, field):
            raise ValueError(why)
    said = _with_nested(target, _with_commands(target, options))
    fields = {k: v for k, v in said.items() if k not in _TLS}
    own = {k: v for k, v in options.items() if k in _TLS}
    if own:
        fields["tls"] = msgspec.structs.replace(tls_of(target) or Tls(), **own)
    return msgspec.structs.replace(target, **fields)


def with_own_options(target: AnyTarget, options: dict[str, Any]) -> AnyTarget:
    """Return the target with those options set that its kind accepts; of several targets, each
    with its own."""
    if isinstance(target, SeveralTarget):
        each = tuple(
            msgspec.structs.replace(
                named_target, target=with_own_options(named_target.target, options)
            )
            for named_target in target.targets
        )
        return msgspec.structs.replace(target, targets=each)
    own = options_of(target)
    return with_options(target, {k: v for k, v in options.items() if k in own})


def has_files(target: LoadTarget) -> bool:
    """Return whether operations are those of filaments of type `files`."""
    return isinstance(target, DirTarget | NfsTarget)


def unix_socket(text: str) -> str:
    """Return the path of a Unix socket."""
    if "\0" in text or not 1 <= len(os.fsencode(text)) <= UNIX_PATH_MOST:
        raise ValueError(f"{text!r} is not a path of a Unix socket: 1 to {UNIX_PATH_MOST} bytes")
    return text


def is_network(target: LoadTarget) -> bool:
    """Return whether operations are exchanges with a server."""
    return isinstance(target, ServerTarget)


def implied_server(target: LoadTarget) -> NamedServer | None:
    """Return the server on this machine's loopback that a target names by its port."""
    place = _host_and_port(target)
    if place is None:
        return None
    host, port = place
    return NamedServer("port", str(port), implied=True) if is_loopback(host) else None


def is_loopback(host: str) -> bool:
    """Return whether a name or an address is this machine's loopback."""
    return host in ("localhost", "::1") or host.startswith("127.")


def address_of(target: LoadTarget) -> str | None:
    """Return the HOST:PORT that a target connects to; None if it connects to nothing: a UDP server
    accepts no connection."""
    place = _host_and_port(target)
    if place is None or isinstance(target, UdpTarget):
        return None
    host, port = place
    return f"{_in_url(host)}:{port}"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _host_and_port(target: LoadTarget) -> tuple[str, int] | None:
    match target:
        case TcpTarget() | HttpTarget() | WebSocketTarget() | RedisTarget() | PostgresTarget() if (
            target.unix_socket is not None
        ):
            return None
        case TcpTarget() | UdpTarget() | RedisTarget() | PostgresTarget():
            return target.host, target.port
        case HttpTarget() | WebSocketTarget():
            parts = urlsplit(target.url)
            return parts.hostname or "", parts.port or _HTTP_PORTS[parts.scheme]
        case NfsTarget(port=int(port)):
            return target.host, port
        case _:
            return None


def target_text(target: LoadTarget) -> str:
    """Return a target as the user would write it."""
    match target:
        case NullTarget():
            return "null"
        case FileTarget():
            return target.path
        case TcpTarget():
            scheme = "tcp" if target.tls is None else "tls"
            return f"{scheme}://{_in_url(target.host)}:{target.port}"
        case UdpTarget():
            return f"udp://{_in_url(target.host)}:{target.port}"
        case HttpTarget():
            only = target.paths[0] if len(target.paths) == 1 else "/"
            return target.url.removesuffix("/") + only
        case WebSocketTarget():
            return target.url
        case RedisTarget():
            scheme = "redis" if target.tls is None else "rediss"
            user = "" if target.user is None else f"{quote(target.user, safe='')}@"
            database = "" if target.database is None else f"/{target.database}"
            return f"{scheme}://{user}{_in_url(target.host)}:{target.port}{database}"
        case PostgresTarget():
            return _postgres_text(target)
        case DirTarget():
            return _DIRECTORY + target.path
        case NfsTarget():
            port = "" if target.port is None else f":{target.port}"
            return f"nfs://{_in_url(target.host)}{port}{target.export}"
        case SeveralTarget():
            return ", ".join(
                f"{named_target.name} ({target_text(named_target.target)})"
                for named_target in target.targets
            )


def _postgres_text(target: PostgresTarget) -> str:
    host = _in_url(target.host)
    if target.unix_socket is not None:
        host = quote(os.path.dirname(target.unix_socket), safe="")
    port = "" if target.port == POSTGRES_PORT else f":{target.port}"
    database = quote(target.database or "", safe="")
    tls = "" if target.tls is None else "?sslmode=require"
    return f"postgres://{quote(target.user, safe='')}@{host}{port}/{database}{tls}"
