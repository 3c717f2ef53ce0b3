"""Exports of loads with streams under the names of vLLM's `bench serve`, AIPerf and guidellm.

Decision: a name has a figure only where it can be computed by the definition that the name has
there; another is left out, with a sentence why. All three count from the actual start of a request,
so what waited before it is in none of their figures (`first` has it), and their good requests are
not ours. Sums are exact where percentiles are unknown: the gaps of a stream add up to the time from
its first to its last event with content. Rejected: rows of single requests, of which a result has
the first 300 only. Sources: foreign/stream_tools.py.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from benchwright.features.exchange.export.view import (
    Exported,
    ExportLoad,
    ExportView,
    distinct,
    file_name,
    json_text,
    measured_loads,
    moment,
    refusal,
    tests_of,
)
from benchwright.features.load.types import StreamResult, TimeDistribution

_NS_PER_MS = 1e6
_NS_PER_S = 1e9
_RESOLUTION = 1e-3
"""Relative resolution of the histograms of the engine: what is smaller is in no figure."""
_NO_STREAMS = "it has no load with streams"
_SHARED = "chunks that share a read have no gap of their own here"
_AIPERF_SCHEMA = "1.4"
_PERCENTILES = ("p50", "p90", "p95", "p99")

Document = dict[str, Any]


class _Run(msgspec.Struct, frozen=True):
    """A load with at least one stream that succeeded, and what follows from its sums."""

    load: ExportLoad
    streams: StreamResult

    @property
    def count(self) -> int:
        """Streams that succeeded."""
        return self.streams.succeeded

    @property
    def failed(self) -> int:
        """Streams that ended and did not succeed."""
        return self.streams.operations - self.streams.succeeded

    @property
    def length_s(self) -> float:
        """From the start of the measured part to the last end [s]."""
        return (self.load.result.elapsed_ns - self.load.warm_up_ns) / _NS_PER_S

    @property
    def tokens(self) -> int | None:
        """Tokens of all outputs; None unless the server reported those of each."""
        return self.streams.tokens if self.streams.with_tokens == self.count else None

    @property
    def service(self) -> TimeDistribution | None:
        """From the actual start to the end of the answer; None if other operations are in it."""
        service = self.load.result.all.service_ns
        return service if service.count == self.count else None

    @property
    def sum_first_ns(self) -> float | None:
        """From actual starts to first events with content; None if a stream has none."""
        first = self.streams.first_service_ns
        return (first.mean or 0.0) * first.count if first.count == self.count else None

    @property
    def sum_decode_ns(self) -> float:
        """From the first to the last events with content."""
        gap = self.streams.gap_ns
        return (gap.mean or 0.0) * gap.count

    @property
    def between_events_ns(self) -> float:
        """Mean time between events with content, those that share a read included; NaN: none."""
        gaps = self.streams.content_events - self.count
        return self.sum_decode_ns / gaps if gaps else math.nan

    @property
    def before_first_ns(self) -> float:
        """Mean time from the first event of any kind to the first with content."""
        return (self.streams.first_ns.mean or 0.0) - (self.streams.first_event_ns.mean or 0.0)

    @property
    def after_last_ns(self) -> float:
        """Mean time from the last event with content to the end of the answer; NaN: unknown."""
        if self.service is None or self.service.mean is None or self.sum_first_ns is None:
            return math.nan
        return self.service.mean - (self.sum_first_ns + self.sum_decode_ns) / self.count


def _runs(view: ExportView, form: str) -> list[_Run]:
    """Return the loads with streams that succeeded. Raises InputError if there is none."""
    runs = [
        _Run(load, load.result.streams)
        for load in measured_loads(view, form)
        if load.result.streams is not None and load.result.streams.succeeded
    ]
    if not runs:
        message = f"{view.study}@{view.session} has no load with a stream that succeeded"
        raise refusal(form, message, "streams: bw load --llm, or --events")
    return runs


def _exported(
    view: ExportView,
    runs: list[_Run],
    text: str,
    left_out: list[str],
    beside: tuple[tuple[str, str], ...] = (),
) -> Exported:
    if never := sum(run.load.result.counts.never_ended for run in runs):
        left_out.append(f"{never:,} streams that never ended are in no time")
    return Exported(
        text,
        tests_of(view, [run.load.test for run in runs]),
        left_out=tuple(left_out),
        beside=beside,
        needs_beside=False,
        why=_NO_STREAMS,
    )


def _sd(times: TimeDistribution) -> float | None:
    """Return the standard deviation of the values themselves, as all three state it."""
    if times.sd is None or not times.count:
        return None
    return times.sd * math.sqrt((times.count - 1) / times.count)


def _scaled(figures: Mapping[str, float | None], size: float) -> Document:
    return {key: value / size for key, value in figures.items() if value is not None}


def _figures(times: TimeDistribution, names: Mapping[str, str]) -> dict[str, float | None]:
    """Return mean, standard deviation and extremes under the names for them, and percentiles of the
    streams that succeeded, as all three state them."""
    found: dict[str, float | None] = {
        names["mean"]: times.mean,
        names["sd"]: _sd(times),
        names["min"]: times.min,
        names["max"]: times.max,
    }
    return found | {name: getattr(times, name) for name in _PERCENTILES}


# -- vLLM ----------------------------------------------------------------------------------


def vllm(view: ExportView) -> Exported:
    """Return the results of loads, each in a line, as `vllm bench serve --append-result` does."""
    runs = _runs(view, "vllm")
    others: dict[str, str] = {}
    for run in runs:
        others |= _vllm_others(run)
    shared = any(run.streams.shared_events for run in runs)
    lines = [msgspec.json.encode(_vllm(run, others, shared=shared)).decode() for run in runs]
    left_out = [f"the {name} of vLLM is left out: {why}" for name, why in others.items()]
    if shared and "itl" not in others:
        left_out.append(f"of the itl of vLLM only the mean is there: {_SHARED}")
    return _exported(view, runs, "\n".join([*lines, ""]), left_out)


def _vllm(run: _Run, without: Collection[str], *, shared: bool) -> Document:
    streams, length_s, tokens = run.streams, run.length_s, run.tokens
    document: Document = {
        "date": f"{moment(run.load.result.started_ns):%Y%m%d-%H%M%S}",
        "backend": "benchwright",
        "label": run.load.test,
        "duration": length_s,
        "completed": run.count,
        "failed": run.failed,
        "request_throughput": run.count / length_s,
    }
    if tokens is not None:
        document |= {
            "total_input_tokens": streams.prompt_tokens,
            "total_output_tokens": tokens,
            "output_throughput": tokens / length_s,
            "total_token_throughput": (streams.prompt_tokens + tokens) / length_s,
        }
    ours = {
        "ttft": streams.first_service_ns,
        "tpot": streams.tpot_ns,
        "itl": streams.gap_ns,
        "e2el": run.service,
    }
    for name, times in ours.items():
        if name in without or times is None or not times.count:
            continue
        figures: dict[str, float | None] = {
            "mean": times.mean,
            "median": times.p50,
            "std": _sd(times),
        }
        figures |= {key: getattr(times, key) for key in ("p90", "p95", "p99")}
        if name == "itl" and shared:
            figures = {"mean": run.between_events_ns}
        ms = _scaled(figures, _NS_PER_MS)
        document |= {f"{key}_{name}_ms": value for key, value in ms.items()}
    return document


def _vllm_others(run: _Run) -> dict[str, str]:
    """Return the times of vLLM that are none of ours, each with the reason: its first and last
    chunk are those with a choice, which need not have content."""
    streams = run.streams
    found: dict[str, str] = {}
    # The usage and the end mark are events without a choice.
    if streams.events - streams.content_events > streams.with_tokens + run.count:
        found["itl"] = "chunks without content end gaps"
    if run.before_first_ns > _RESOLUTION * (streams.first_service_ns.mean or 0.0):
        found["ttft"] = found["tpot"] = "its time to the first token ends at one without content"
    if not run.after_last_ns <= _RESOLUTION * run.sum_decode_ns / run.count:
        found["tpot"] = found["e2el"] = "its last chunk may be one without content"
    return found


# -- AIPerf --------------------------------------------------------------------------------


def aiperf(view: ExportView) -> Exported:
    """Return the summary of the first load, as `profile_export_aiperf.json`; beside it those of the
    others."""
    runs = _runs(view, "aiperf")
    shared = any(run.streams.shared_events for run in runs)
    left_out = [f"of the inter_chunk_latency of AIPerf only the mean is there: {_SHARED}"] * shared
    texts = [json_text(_aiperf(run, shared=shared)) for run in runs]
    names = distinct(file_name(f"{run.load.test}-{run.load.trial}") for run in runs)
    beside = tuple((f"{name}.json", text) for name, text in zip(names, texts, strict=True))
    return _exported(view, runs, texts[0], left_out, beside[1:])


def _aiperf(run: _Run, *, shared: bool) -> Document:
    streams, length_s, tokens = run.streams, run.length_s, run.tokens
    result = run.load.result
    document: Document = {
        "schema_version": _AIPERF_SCHEMA,
        "start_time": f"{moment(result.started_ns):%Y-%m-%dT%H:%M:%S.%f}",
        "was_cancelled": result.interrupted,
        "request_count": _one("requests", run.count),
        "error_request_count": _one("requests", run.failed),
        "benchmark_duration": _one("sec", length_s),
        "request_throughput": _one("requests/sec", run.count / length_s),
    }
    if tokens is not None:
        document |= {
            "total_isl": _one("tokens", streams.prompt_tokens),
            "total_osl": _one("tokens", tokens),
            "output_token_throughput": _one("tokens/sec", tokens / length_s),
        }
    if run.sum_first_ns is not None:
        latency_ns = (run.sum_first_ns + run.sum_decode_ns) / run.count
        document["request_latency"] = _one("ms", latency_ns / _NS_PER_MS)
    names = {"mean": "avg", "sd": "std", "min": "min", "max": "max"}
    of_names = {"time_to_first_token": "first_service", "inter_token_latency": "tpot"}
    if not shared:
        of_names["inter_chunk_latency"] = "gap"
    elif streams.content_events > run.count:
        document["inter_chunk_latency"] = _one("ms", run.between_events_ns / _NS_PER_MS)
    for name, ours in of_names.items():
        times = streams.times(ours)
        if times.count:
            ms = _scaled(_figures(times, names), _NS_PER_MS)
            document[name] = {"unit": "ms", **ms, "count": times.count}
    return document


def _one(unit: str, value: float) -> Document:
    return {"unit": unit, "avg": value}


# -- guidellm ------------------------------------------------------------------------------


def guidellm(view: ExportView) -> Exported:
    """Return the benchmarks of all loads, as `benchmarks.json`."""
    runs = _runs(view, "guidellm")
    document = {"metadata": {"version": 2}, "benchmarks": [_guidellm(run) for run in runs]}
    return _exported(view, runs, json_text(document), [])


def _guidellm(run: _Run) -> Document:
    streams, length_s, tokens = run.streams, run.length_s, run.tokens
    result = run.load.result
    never = result.counts.never_ended
    names = {"mean": "mean", "sd": "std_dev", "min": "min", "max": "max"}

    def of(times: TimeDistribution, size: float) -> Document:
        found = _scaled(_figures(times, names), size)
        ranks = {key: found.pop(key) for key in _PERCENTILES if key in found}
        return _successful({**found, "median": ranks["p50"], "percentiles": ranks}, times.count)

    metrics: Document = {
        "request_totals": {
            "successful": run.count,
            "errored": run.failed,
            "incomplete": never,
            "total": streams.operations + never,
        },
        "requests_per_second": _successful({"mean": run.count / length_s}, run.count),
        "time_to_first_token_ms": of(streams.first_service_ns, _NS_PER_MS),
    }
    if run.service is not None:
        metrics["request_latency"] = of(run.service, _NS_PER_S)
    if tokens is not None:
        metrics |= {
            "prompt_token_count": _mean(streams.prompt_tokens, run.count),
            "output_token_count": _mean(tokens, run.count),
            "output_tokens_per_second": _successful({"mean": tokens / length_s}, run.count),
        }
        # Both weight each request by its tokens.
        if after_first := tokens - run.count:
            metrics["inter_token_latency_ms"] = _mean(run.sum_decode_ns / _NS_PER_MS, after_first)
        if run.sum_first_ns is not None and tokens:
            whole_ns = run.sum_first_ns + run.sum_decode_ns
            metrics["time_per_output_token_ms"] = _mean(whole_ns / _NS_PER_MS, tokens)
    return {
        "type_": "generative_benchmark",
        "config": {"strategy": {"type_": run.load.test}},
        "metrics": metrics,
        "start_time": result.started_ns / _NS_PER_S,
        "duration": length_s,
    }


def _successful(figures: Document, count: int) -> Document:
    return {"successful": {**figures, "count": count}}


def _mean(total: float, count: int) -> Document:
    return _successful({"mean": total / count, "total_sum": total}, count)
