"""Every command that the documentation shows is parsed by the real parser; each option it names
exists."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from benchwright.cli.main import parser
from benchwright.cli.parser import CommandParser
from benchwright.features.autopilot import programs

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    {
        *(ROOT / name for name in ("README.md", "CHANGELOG.md")),
        *(ROOT / name for name in ("ARCHITECTURE.md", "GLOSSARY.md")),
        *(ROOT / "docs").rglob("*.md"),
    }
)
SCRIPTS = sorted(
    file
    for folder in ("examples", "scripts")
    for file in (ROOT / folder).rglob("*")
    if file.suffix in (".ap", ".toml", ".sh", ".inc")
)
CODE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$|^((?: {4}[^\n]*\n)+)", re.DOTALL | re.MULTILINE)
SEPARATOR = re.compile(r"[();<>|&]+")
FILLED = {"{rate}": "1k", "...": None, "[STUDY]": "STUDY", "B...": "B", "INPUT...": "A"}
FILLED["NAME"] = "junit"  # a format of `bw export`; elsewhere any word is a name
"""What a page writes in the place of a value: what the parser gets, None for nothing."""

OTHER_PROGRAMS = {
    "benches/*.py": "--sessions --tables --first --only --out --place --bw --report --run --before --after --turn --quick --repetitions --long --truth --at-once --busy",
    "asv, hyperfine, k6, pyperf": "--record-samples --export-csv --export-json --parameter --out"
    " --new-machine-readable-summary --summary-export --track-memory",
    "cargo-criterion": "--message-format",
    "Google Benchmark, pytest-benchmark": "--benchmark_out --benchmark_report_aggregates_only"
    " --benchmark-json --benchmark-save-data",
    "BenchmarkDotNet": "--exporters",
    "bw-sampler": "--kmsg --proc --sys",
    "a command with a secret": "--community --key-size --password --user",
    "dnsmasq": "--bind-interfaces --conf-file --host-record --keep-in-foreground --listen-address"
    " --no-resolv --pid-file --user",
    "fio": "--bs --client --fdatasync --filename --fsync --invalidate --iodepth --loops --number_ios --rate_iops"
    " --rate_process --read_iolog --replay_redirect --rw --rwmixread --status-interval --sync"
    " --write_lat_log",
    "otava, node_exporter, bencher": "--adapter --collector --config-file",
    "pytest with the fixture bw_gate": "--bw-undecided",
    "perf": "--append --per-core",
    "python3": "--bind",
    "redis-server, redis-benchmark": "--csv --save",
    "sbatch, squeue": "--exclusive --me --mem --no-requeue --test-only",
    "sort": "--parallel",
    "git": "--bare",
    "cargo, pipx, twine": "--spec --strict --workspace",
    "k6, memtier, oha": "--data-size --latency-correction --no-tui --output-format"
    " --rate-limiting --ratio --seconds",
    "vLLM, AIPerf": "--append-result --label --per-chunk-usage --save-detailed --save-result"
    " --use-server-token-count",
    "systemd-escape": "--path --template",
    "zramctl": "--algorithm --find",
    "timeout": "--foreground",
}
"""The options on our pages that belong to other programs."""


def texts_of(file: Path) -> Iterator[str]:
    """Yield each command line of a page, or of the text and comments of a script."""
    text = file.read_text().replace("\\\n", " ")
    if file in SCRIPTS:
        for line in text.splitlines():
            yield (line.split(" #")[0].lstrip("# ").removeprefix("SYSTEM ").split("  ")[0])
        return
    for language, fenced, indented in CODE.findall(text):
        for line in (fenced or indented).splitlines():
            if language != "console" or line.startswith(("$ ", "# ")):
                yield line.strip().lstrip("$# ")
    yield from re.findall(r"`([^`\n]+)`", CODE.sub("", text))


def commands_in(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of ours in a command line, also of those that another starts."""
    try:
        lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
        lexer.wordchars += "{}[]$%:,=@+"
        words = list(lexer)
    except ValueError:
        return  # a line of output, or half of a quotation
    command: list[str] = []
    for word in (*words, ";"):
        if not SEPARATOR.fullmatch(word):
            command.append(word.removesuffix(","))
        if SEPARATOR.fullmatch(word) or word.endswith(","):
            yield from ours_of(command)
            command = []


def ours_of(words: list[str]) -> Iterator[list[str]]:
    """Yield a command if it is one of ours, and the commands in its arguments."""
    for at, word in enumerate(words):
        if word in ("graphit", "getstats") or (word == "bw" and words[at + 1 :]):
            ours = words[at:]
            yield ours[: ours.index("--")] if "--" in ours else ours
            rest = ours[ours.index("--") + 1 :] if "--" in ours else []
            yield from ours_of(rest)
            break
        if re.fullmatch(r"\w+=.*", word) or word in ("sh", "-c", "exec", "taskset", "1"):
            continue
        break
    for word in words:
        if re.search(r"\bbw (\w+)", word):
            yield from commands_in(word)


@cache
def parsers() -> dict[str, CommandParser]:
    """Return the parser of each program."""
    return {"bw": parser(), "graphit": programs.graphit(), "getstats": programs.getstats()}


@cache
def commands_of(file: Path) -> list[list[str]]:
    """Return the words of each command of ours in a file, ready for the parser.

    A name alone (`bw trace stat`) is a mention: the parser of its help is asked.
    """
    return [
        [filled for word in words if (filled := FILLED.get(word, word)) is not None]
        + ["--help"] * bool(re.fullmatch(r"\w+ [a-z]+( [a-z]+)?", " ".join(words)))
        for text in texts_of(file)
        for words in commands_in(text)
    ]


@pytest.mark.parametrize(
    "file",
    [file for file in (*PAGES, *SCRIPTS) if commands_of(file)],
    ids=lambda file: str(file.relative_to(ROOT)),
)
def test_every_command_is_parsed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = []
    for program, *words in commands_of(file):
        try:
            _, unknown = parsers()[program].parse_known_args(words)
        except SystemExit as ended:
            unknown = [capsys.readouterr().err] if ended.code else []
        if unknown:
            refused.append((shlex.join([program, *words]), unknown))
    assert refused == []


def test_the_commands_are_found() -> None:
    """A search that no longer finds the commands would pass the other tests."""
    found = {file.name: len(commands_of(file)) for file in (*PAGES, *SCRIPTS)}
    assert found["README.md"] >= 15
    assert found["plots.md"] >= 14
    assert found["workload-toml.md"] >= 10
    assert sum(found.values()) >= 200


def flags_of(one: argparse.ArgumentParser) -> set[str]:
    """Return the long and short options of a parser and of its commands."""
    found = {flag for action in one._actions for flag in action.option_strings}
    for action in one._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(*(flags_of(below) for below in action.choices.values()))
    return found


def test_every_option_that_is_named_exists() -> None:
    known = set().union(*(flags_of(one) for one in parsers().values()))
    others = {flag for flags in OTHER_PROGRAMS.values() for flag in flags.split()}
    unknown = {
        (str(page.relative_to(ROOT)), flag)
        for page in PAGES
        if page.name != "CHANGELOG.md"  # it names options of earlier versions
        for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", page.read_text())
        if flag not in known | others
    }
    assert unknown == set()
