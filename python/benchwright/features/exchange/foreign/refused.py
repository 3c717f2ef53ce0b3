"""Formats of other tools that are recognised and not read, with the option that writes one that is.

Purpose: a table that a tool writes for people or for a spreadsheet must not be read as something
else, such as one test whose trials are the rows of different benchmarks. Decision: each is known by
the first bytes of the file, before any parser is asked.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import msgspec

from benchwright.core.errors import InputError
from benchwright.features.exchange.foreign.json_file import DamagedJson, input_error, load_json
from benchwright.features.exchange.foreign.load_tools import FIO_MARK, FIO_TEXT
from benchwright.study.parsers.api import read_content


class Refused(msgspec.Struct, frozen=True):
    """A format that is not read."""

    what: str
    """Whose it is, in a few words: `JMH's CSV`."""
    head: re.Pattern[bytes]
    """Found in the first bytes of a file of this format."""
    hint: str
    """How the tool writes a file that is read."""
    unless: bytes = b""
    """A file with this text anywhere has a format that is read, too."""


_FIO_HINT = "write JSON: fio --output-format=json --output=FILE JOB"
_K6_HINT = "write JSON: k6 run --summary-export=FILE SCRIPT, or --out json=FILE"
_GOOGLE_HINT = "write JSON: PROGRAM --benchmark_out=FILE --benchmark_out_format=json"
_JMH_HINT = "write JSON: java -jar benchmarks.jar -rf json -rff FILE"

_LLAMA_HINT = "write JSON: llama-bench -o json, or -o jsonl"
_DOTNET_HINT = "give the JSON of --exporters json, in BenchmarkDotNet.Artifacts/results"
_LOCUST_HINT = (
    "it has counts and percentiles of one run, and no result of a request: write CSV with the columns "
    "test and elapsed, a row for each request or run"
)
_BY_HEAD = (
    ("JMH's CSV", rb'\A"Benchmark"([,;])"Mode"\1"Threads"\1', _JMH_HINT),
    ("JMH's table", rb"^Benchmark +(\(\S+\) +)*Mode +(Cnt +)?Score ", _JMH_HINT),
    (
        "pytest-benchmark's CSV",
        rb"\Aname,(param:[^,\n]*,|min,|max,|mean,|stddev,){2}.*\brounds\b",
        "give the file of --benchmark-json or --benchmark-save-data",
    ),
    (
        "criterion's raw.csv",
        rb"\Agroup,function,value,throughput_num,",
        "give the directory target/criterion",
    ),
    ("k6's CSV", rb"\Ametric_name,timestamp,metric_value,", _K6_HINT),
    ("k6's text", rb"^ *http_req_duration\.{3,}: ", _K6_HINT),
    (
        "a log of fio (write_lat_log and others)",
        rb"\A([0-9]+, +[0-9]+, +[0-3], +[0-9]+(, +[0-9]+)*\r?\n){2}",
        _FIO_HINT,
    ),
    ("Google Benchmark's CSV", rb"^name,iterations,real_time,cpu_time,time_unit,", _GOOGLE_HINT),
    ("Google Benchmark's table", rb"^Benchmark +Time +CPU +Iterations", _GOOGLE_HINT),
    ("llama-bench's CSV", rb"\Abuild_commit,.*\bavg_ns,stddev_ns\b", _LLAMA_HINT),
    ("llama-bench's table", rb"^\| model +\| +size \| +params \|", _LLAMA_HINT),
    ("BenchmarkDotNet's CSV of measurements", rb"\A.*\bMeasurement_IterationStage\b", _DOTNET_HINT),
    (
        "BenchmarkDotNet's CSV",
        rb"\A.*\bMethod([,;]).*\bMean\1Error\1(StdErr\1)?StdDev\b",
        _DOTNET_HINT,
    ),
    ("BenchmarkDotNet's table", rb"^BenchmarkDotNet( v|=v)", _DOTNET_HINT),
    (
        "hyperfine's table",
        rb"\A(\[cols=[^\n]*\n\|===\n)?\| Command *(\||\n)",
        "write JSON: hyperfine --export-json FILE",
    ),
    (
        "redis-benchmark's CSV without a header line",
        rb'\A"[A-Za-z_][^"\n]*","[0-9]+\.[0-9]{2}"\r?\n',
        'write the line "test","rps" above it, as redis-benchmark does from 6.2 on',
    ),
    (
        "JMeter's CSV",
        rb"\AtimeStamp,elapsed,label,",
        "write CSV with the columns test and elapsed, in seconds: JMeter's are milliseconds",
    ),
    ("Locust's history of one run", rb"\ATimestamp,User Count,Type,Name,", _LOCUST_HINT),
    ("Locust's table of requests", rb"\AType,Name,(Request Count|# requests),", _LOCUST_HINT),
    (
        "JMeter's report of all requests",
        rb"\ALabel,# Samples,Average,",
        "write CSV with the columns test and elapsed, in seconds, from the file of jmeter -l FILE",
    ),
    ("Locust's table of failures", rb"\AMethod,Name,Error,Occurrences", _LOCUST_HINT),
    ("Locust's table of exceptions", rb"\ACount,Message,Traceback,Nodes", _LOCUST_HINT),
    (
        "YCSB's summary",
        rb"^\[OVERALL\], (RunTime\(ms\)|Throughput\(ops/sec\)), ",
        "it has means and percentiles of one run: write CSV with the columns test and elapsed, a row "
        "for each request or run",
    ),
    (
        "perf stat's table",
        rb"^ Performance counter stats for ",
        "write a row for each counter: perf stat -x, --append -o FILE COMMAND, once for each run",
    ),
    (
        "ApacheBench's CSV",
        rb"\APercentage served,Time in ms",
        "it has percentiles of one run, and no result of a request",
    ),
    (
        "ApacheBench's table of requests (ab -g)",
        rb"\Astarttime\tseconds\tctime\tdtime\tttime\twait",
        "write CSV with one column elapsed, in seconds: its ttime is whole milliseconds",
    ),
    (
        "oha's CSV",
        rb"\Arequest-start,DNS,DNS\+dialup,",
        "write CSV with one column elapsed: its request-duration, in seconds",
    ),
)
"""Whose each format is, what the first bytes of such a file have (`^`: a line of them), and how the
tool writes a file that is read."""
REFUSED = (
    *(Refused(what, re.compile(head, re.MULTILINE), hint) for what, head, hint in _BY_HEAD),
    Refused("fio's text or terse output", FIO_TEXT, _FIO_HINT, unless=FIO_MARK),
)

_PRINTED = re.compile(rb'\A\s*\{\s*"schema":\s*"benchwright/([a-z-]+)/[0-9]+"')


def printed_by_bw(path: Path, head: bytes) -> tuple[str, str] | None:
    """Return a sentence about a document that `bw COMMAND --json` printed, and the study that it
    speaks of; None for any other file. The study is empty if the document has none."""
    match = _PRINTED.match(head)
    if match is None:
        return None
    study = ""
    with contextlib.suppress(DamagedJson):
        document = load_json(path)
        if isinstance(document.get("study"), str):
            session = document.get("session")
            part = f"@{session}" if isinstance(session, int) else ""
            study = document["study"] + part
    what = f"what bw printed with --json ({match[1].decode()})"
    return f"{path} is {what}" + (f" about {study}" if study else ""), study


def refusal(path: Path, head: bytes) -> InputError | None:
    """Return the error for a file in a format that is recognised and not read; None for any other."""
    if (printed := printed_by_bw(path, head)) is not None:
        message, study = printed
        hint = f"name the study: {study}" if study else "bw export reads that of bw load"
        return input_error(path, "format", f"{message}; its results are not read", hint)
    for one in REFUSED:
        if one.head.search(head) and not (one.unless and one.unless in read_content(path)):
            return input_error(path, "format", f"{path} is {one.what}, which is not read", one.hint)
    return None
