"""k6: HTTP with a constant arrival rate, in iterations of a script.

Its response time (http_req_duration) counts from the sending, so no figure includes a late
start. An iteration for which no virtual user was free is dropped and counted: as failed,
and as not offered. With `url` the script is ours and has a metric for each share that a
criterion needs; with `script` it is the user's, and takes RATE, DURATION and USERS from
__ENV. Rates are whole numbers per minute.
Source: k6 v1.8.1, k6 run --help, --summary-export; an output, recorded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import ClassVar

from benchwright.core.criterion import Criterion
from benchwright.core.plan import Command
from benchwright.features.generators.adapter import (
    OPERATIONS_SKIPPED,
    PER_MINUTE,
    CountOrPlaceholder,
    GeneratorOutput,
    GeneratorRequest,
    GeneratorTraits,
    Invocation,
    Measurement,
    ProgramGenerator,
    Statistic,
    fill_text,
    filled,
    placeholder_values,
    whole_per_minute,
)
from benchwright.features.generators.output import JsonOutput, summary_values, wanted_shares
from benchwright.features.load.criteria import within_ns

SUMMARY = "k6.json"
SCRIPT = "load.js"
WELL = "http_req_duration{expected_response:true}"
ALL = "http_req_duration"


class K6(ProgramGenerator, frozen=True, kw_only=True):
    """A URL, or a script."""

    url: str = ""
    """URL to request; or set `script`."""
    script: str = ""
    """Your own script, instead of `url`."""
    vus: CountOrPlaceholder = 50
    """Number of virtual users; an iteration that finds none free is dropped."""

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.script):
            raise ValueError("k6 needs a url or a script, one of the two")

    name: ClassVar = "k6"

    @property
    def traits(self) -> GeneratorTraits:
        """The meaning of its figures: on a schedule, but counted from the sending."""
        own: tuple[Statistic, ...] = ("mean", "percentile", "ratio")
        return GeneratorTraits(
            open_loop=True,
            statistics=(*own, "share") if self.url else own,
            rate_step=1 / PER_MINUTE if self.url else None,
        )

    def invocation(self, request: GeneratorRequest) -> Invocation:
        """Return the command of a trial, with our script unless the user has one."""
        words = ["k6", "run", "--quiet", "--no-color", "--no-usage-report"]
        words += ["--summary-export", f"{request.directory}/{SUMMARY}"]
        words += ["--summary-trend-stats", _trend_stats(request.criteria)]
        words += [word for pair in self._env(request) for word in ("-e", "=".join(pair))]
        words += filled(self.arguments, request)
        ours = f"{request.directory}/{SCRIPT}"
        words.append(fill_text(self.script, request) if self.script else ours)
        rate = None if request.rate is None else whole_per_minute(request.rate) / PER_MINUTE
        return Invocation(
            commands=(Command(tuple(words)),),
            rate=rate if self.url else None,
            writes=((SCRIPT, self._text(request)),) if self.url else (),
            reads=(SUMMARY,),
        )

    def _env(self, request: GeneratorRequest) -> list[tuple[str, str]]:
        if not self.script:
            return []
        rate = [] if request.rate is None else [("RATE", placeholder_values(request.rate))]
        users = str(self.users("vus", request))
        return [*rate, ("DURATION", f"{placeholder_values(request.duration_s)}s"), ("USERS", users)]

    def _text(self, request: GeneratorRequest) -> str:
        limits = {
            criterion.key: ns / 1e6
            for criterion in request.criteria
            if (ns := within_ns(criterion)) is not None
        }
        options = {"discardResponseBodies": True, "scenarios": {"load": self._scenario(request)}}
        return _SCRIPT.format(
            options=json.dumps(options),
            limits=json.dumps(limits),
            url=json.dumps(fill_text(self.url, request)),
        )

    def _scenario(self, request: GeneratorRequest) -> dict[str, object]:
        vus = self.users("vus", request)
        length = f"{placeholder_values(request.duration_s)}s"
        if request.rate is None:
            return {"executor": "constant-vus", "vus": vus, "duration": length}
        return {
            "executor": "constant-arrival-rate",
            "rate": whole_per_minute(request.rate),
            "timeUnit": "1m",
            "duration": length,
            "preAllocatedVUs": vus,
        }

    def parse(self, output: GeneratorOutput, request: GeneratorRequest) -> Measurement:
        """Return the values of its summary. Raises UnreadableOutput."""
        document = JsonOutput(output.files.get(SUMMARY, ""), SUMMARY)
        sent = int(document.number_or(0, "metrics", "http_reqs", "count"))
        # The member `passes` of http_req_failed counts the requests that failed.
        failed = int(document.number_or(0, "metrics", "http_req_failed", "passes"))
        dropped = int(document.number_or(0, "metrics", "dropped_iterations", "count"))
        offered = sent + dropped
        values = _values(document, request.criteria, failed, offered, sent)
        return Measurement(
            values=values,
            offered=sent,
            completed=sent - failed,
            errors=failed,
            marks=(OPERATIONS_SKIPPED,) if dropped else (),
        )


def _values(
    document: JsonOutput, criteria: Iterable[Criterion], failed: int, offered: int, sent: int
) -> dict[str, float]:
    if not offered:
        return {}
    lost = (offered - sent + failed) / offered
    shares = wanted_shares(criteria)
    if sent == failed:
        return summary_values(None, dict.fromkeys(shares, math.inf), lost)
    trend = WELL if document.get("metrics", WELL) is not None else ALL
    percentiles = {share: document.number("metrics", trend, _percentile(share)) for share in shares}
    mean_ms = document.number("metrics", trend, "avg")
    values = summary_values(mean_ms, percentiles, lost)
    for one in criteria:
        within = document.get("metrics", one.key, "passes")
        if within is not None:
            values[one.key] = float(within) / offered
    return values


def _percentile(share: float) -> str:
    return f"p({100 * share:.10g})"


def _trend_stats(criteria: Iterable[Criterion]) -> str:
    return ",".join(["avg", *map(_percentile, wanted_shares(criteria))])


_SCRIPT = """\
import http from 'k6/http';
import {{ Rate }} from 'k6/metrics';
export const options = {options};
const limits = {limits};
const within = {{}};
for (const key in limits) within[key] = new Rate(key);
export default function () {{
  const answer = http.get({url});
  const well = answer.status > 0 && answer.status < 400;
  for (const key in limits) {{
    within[key].add(well && answer.timings.duration <= limits[key]);
  }}
}}
"""
