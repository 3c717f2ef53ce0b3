"""Steps of a long measurement of servers: runs of `bw peak` and `bw surface` whose results are
kept.

Purpose: what benches/surface_servers.py, benches/run_lengths.py and the test of their
small forms have in common. A step has a folder of its own, OUT/SERVER/NAME: its study, its
progress, its document (result.json), and its options with the state of the machine
(step.json). Decision: a measurement of hours goes on where it was stopped. A step with the
same options that has a document is not run again; a search that was cut begins anew,
because half of it ran on the machine of another day; a surface goes on with its next trial.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parts import busy_machine
from parts.long_runs import LongRun

Document = dict[str, Any]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PATIENCE_S = 3 * 3600.0
"""A search that takes longer is ended."""
SURFACE_PATIENCE_S = 12 * 3600.0


class Server(NamedTuple):
    """A server to search."""

    name: str
    spec: str
    """A file in examples/."""
    program: str
    """It must be installed."""
    levels: Mapping[str, Sequence[int]] = {}
    """Levels of the spec's factors instead of those that it has."""


class Step(NamedTuple):
    """One run of `bw peak` or `bw surface`."""

    server: Server
    name: str
    """`search-3`, `binsearch`, `long-1-0.95`."""
    words: tuple[str, ...]
    """Options beside the spec, the study and --json."""
    command: str = "peak"


class Outcome(NamedTuple):
    """A step's result."""

    step: Step
    document: Document
    """Empty where there was none."""
    trouble: str
    """The end of its messages, where there is no document."""
    busy: busy_machine.Busy


def nfs(workload: str, **levels: Sequence[int]) -> Server:
    """Return NFS-Ganesha under one of Fstress's workloads; one disk and 8 threads by default."""
    chosen = {"disks": (1,), "threads": (8,), **levels}
    spec = f"workbench/nfs-ganesha-{workload}.toml"
    return Server(f"nfs-{workload}", spec, "ganesha.nfsd", chosen)


def is_installed(server: Server) -> bool:
    """Return whether the server's program is there."""
    return shutil.which(server.program) is not None


def prepare() -> None:
    """Find Debian's servers, and let a signal that ends the measurement end its step too."""
    os.environ["PATH"] = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def spec_of(server: Server, out: Path) -> Path:
    """Return the server's spec: the example, or with other levels a copy beside the results,
    together with the files that it names."""
    if not server.levels:
        return EXAMPLES / server.spec
    text = (EXAMPLES / server.spec).read_text()
    for name, levels in server.levels.items():
        text, n = re.subn(rf"(?m)^{name} = \[.*\]$", f"{name} = {list(levels)}", text, count=1)
        assert n, f"{server.spec} has no factor {name}"
    # Of the levels that the example has.
    text = re.sub(r"(?m)^samples = \d+$", "", text)
    copy = out / server.name / "examples"
    spec = copy / server.spec
    # A step that runs at the same time may be reading it.
    if not spec.exists() or spec.read_text() != text:
        shutil.copytree(EXAMPLES, copy, dirs_exist_ok=True)
        spec.write_text(text)
    return spec


def run(step: Step, out: Path) -> Outcome:
    """Run one step, unless its document is there already."""
    place = out / step.server.name / step.name
    spec = spec_of(step.server, out)
    options = [step.command, *step.words, spec.read_text()]
    kept = _kept(place)
    begun = kept.get("options") == options
    if begun and (done := _done(step, place, kept)) is not None:
        return done
    study = place / "study"
    if begun and step.command == "surface" and (study / "journal.sqlite").exists():
        words = ["resume", str(study), "--json"]
    else:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        words = [step.command, str(spec), "--study", str(study), "--json", *step.words]
    keep: Document = {"options": options}
    (place / "step.json").write_text(json.dumps(keep))
    begin = busy_machine.now()
    document, trouble = _document_of(words, place / "progress.txt", step.command)
    busy = busy_machine.since(begin)
    (place / "result.json").write_text(json.dumps(document))
    keep |= {"trouble": trouble, "busy": busy._asdict()}
    (place / "step.json").write_text(json.dumps(keep))
    return Outcome(step, document, trouble, busy)


def _kept(place: Path) -> Document:
    """Return what is kept of a step that was begun; empty without one."""
    file = place / "step.json"
    return json.loads(file.read_text()) if file.exists() else {}


def _done(step: Step, place: Path, kept: Document) -> Outcome | None:
    """Return the outcome of a step that has a document."""
    if "busy" not in kept:
        return None
    document = json.loads((place / "result.json").read_text())
    if not document:
        return None
    return Outcome(step, document, kept["trouble"], busy_machine.Busy(**kept["busy"]))


def _document_of(words: Sequence[str], progress: Path, command: str) -> tuple[Document, str]:
    """Run bw and return its document, and what is wrong where there is none."""
    patience_s = SURFACE_PATIENCE_S if command == "surface" else PATIENCE_S
    with progress.open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchwright.cli.main", *words],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            text, _ = process.communicate(timeout=patience_s)
            return json.loads(text), ""
        except subprocess.TimeoutExpired:
            return {}, f"ended after {patience_s:g} s"
        except json.JSONDecodeError:
            return {}, progress.read_text()[-400:].strip()
        finally:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """End a search that still runs: it stops its server itself."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def search_words(asked: Namespace) -> tuple[str, ...]:
    """Return the options of a search that a bench's command line sets."""
    said = {
        "--policy": asked.policy,
        "--claim": asked.claim,
        "--budget": asked.budget,
        "--run-length": asked.run_length,
        "--start": asked.start,
    }
    words = [word for flag, text in said.items() if text for word in (flag, text)]
    return (*words, *criteria_words(asked))


def criteria_words(asked: Namespace) -> tuple[str, ...]:
    """Return the options of the criteria."""
    return tuple(word for limit in asked.limit for word in ("--limit", limit))


def add_search_options(parser: ArgumentParser, claim: str | None, budget: str | None) -> None:
    """Add the options of `search_words`, with the claim and the budget of a bench."""
    parser.add_argument("--policy", help="of our searches (default: the product's own)")
    parser.add_argument("--claim", default=claim, help="(default: the spec's)")
    parser.add_argument("--budget", default=budget, help="(default: the spec's)")
    parser.add_argument("--run-length", help="of trials (default: the policy's)")
    parser.add_argument("--start", help="first rate (default: the spec's)")
    parser.add_argument(
        "--limit", action="append", default=[], help="instead of the spec's criteria"
    )
    parser.add_argument("--long", default="90s", help="length of a long run")


def fixed_run(rate: float, length: str, seed: int) -> tuple[str, ...]:
    """Return the options of one trial at a rate [1/s]: a policy that stops none early, at the
    rate where it begins."""
    at = f"{rate:.5g}"
    return (
        *("--policy", "binsearch", "--start", at, "--lowest", at, "--max-trials", "1"),
        *("--run-length", length, "--budget", "1h", "--seed", str(seed)),
    )


def as_long_run(outcome: Outcome, share: float) -> LongRun:
    """Return whether the one trial of a fixed run meets every criterion."""
    trials = outcome.document.get("trials") or [{}]
    values = trials[0].get("values", {})
    rate = float(trials[0].get("rate") or 0)
    verdicts, texts = [], []
    for one in outcome.document.get("criteria", []):
        value = values.get(one["key"])
        if value is None:
            return LongRun(share, rate, None, f"{one['key']}: no value")
        lower = one["better"] == "lower"
        verdicts.append(value <= one["limit"] if lower else value >= one["limit"])
        value_text = f"{value:.4g} {one['unit']}".rstrip()
        texts.append(f"{one['key']} {value_text} (limit {one['limit']:g})")
    if not verdicts:
        return LongRun(share, rate, None, outcome.trouble or "no trial")
    return LongRun(share, rate, all(verdicts), "; ".join(texts))


HEADER = (
    "| server | run | began | ended as | peak/s | interval | seconds | trials "
    "| stolen | idle | load | findings |\n" + "|---" * 12 + "|"
)


def row(outcome: Outcome, long: LongRun | None = None) -> str:
    """Return a step as a row of the table."""
    document, busy = outcome.document, outcome.busy
    ended = str(document.get("status", "no answer"))
    if outcome.trouble:
        ended += f": {' '.join(outcome.trouble.split())[-200:]}"
    rate, (low, high) = (document.get("peak_rate"), document.get("interval") or (None, None))
    peak = "" if rate is None else f"{rate:.5g}"
    interval = "" if low is None or high is None else f"{low:.5g} to {high:.5g}"
    codes = dict.fromkeys(one["code"] for one in document.get("findings", []))
    if long is not None:
        verdict = {True: "holds", False: "fails", None: "not known"}[long.holds]
        ended, peak, interval = verdict, f"{long.rate:.5g}", long.values
    trials = document.get("trials", ())
    cells = (
        *(outcome.step.server.name, outcome.step.name),
        time.strftime("%H:%M:%S", time.localtime(busy.began_s)),
        *(ended, peak, interval, f"{document.get('seconds') or busy.lasted_s:.0f}"),
        str(trials if isinstance(trials, int) else len(trials)),
        *(f"{100 * busy.steal_share:.1f} %", f"{100 * busy.idle_share:.0f} %"),
        *(f"{busy.load_average:.1f}", ", ".join(codes)),
    )
    return "| " + " | ".join(cells) + " |"
