"""Files of vLLM's `bench serve`, AIPerf and guidellm: units, requests, what is named instead; and
exports under their names, read back."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import exported_session
from benchwright.core.errors import InputError
from benchwright.features.exchange.export import FORMATS
from benchwright.findings.result import TestResult
from benchwright.results.inputs import read_inputs

Document = dict[str, Any]


def read(path: Path, *documents: Any) -> list[TestResult]:
    """Write each document as a line, and return the tests of the file."""
    path.write_text("\n".join(map(json.dumps, documents)))
    return read_inputs([str(path)])


def run_values(one: TestResult) -> dict[str, float]:
    (block,) = one.blocks
    return dict(block.values)


def figures(one: TestResult) -> dict[str, float]:
    """Return the figures that a file with requests states."""
    return {summary.name: summary.mean for summary in one.summaries}


def column(one: TestResult, name: str) -> list[float | None]:
    return [block.values.get(name) for block in one.blocks]


def not_read(one: TestResult) -> str:
    return " ".join(
        finding.evidence for finding in one.session_findings if finding.code == "results-not-read"
    )


# -- vLLM ----------------------------------------------------------------------------------

FIRSTS, GAPS = [0.05, 0.07, 0.0], [[0.01, 0.02], [0.03], []]


def vllm(**more: Any) -> Document:
    """Return a result of two requests that succeeded and one that failed."""
    tpots = [sum(gaps) / len(gaps) for gaps in GAPS if gaps]
    return {
        "date": "20261130-091500",
        "endpoint_type": "openai-chat",
        "backend": "openai-chat",
        "label": None,
        "model_id": "any/model",
        "tokenizer_id": "any/model",
        "num_prompts": 3,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": None,
        "duration": 2.0,
        "completed": 2,
        "failed": 1,
        "total_input_tokens": 20,
        "total_output_tokens": 5,
        "request_throughput": 1.0,
        "request_goodput": None,
        "output_throughput": 2.5,
        "total_token_throughput": 12.5,
        "max_output_tokens_per_s": 5.0,
        "max_concurrent_requests": 2,
        "rtfx": 0.0,
        "mean_ttft_ms": 60.0,
        "median_ttft_ms": 60.0,
        "std_ttft_ms": 10.0,
        "p99_ttft_ms": 69.8,
        "mean_tpot_ms": 1e3 * statistics.mean(tpots),
        "p99.9_itl_ms": 29.98,
        **more,
    }


def detailed(**more: Any) -> Document:
    """Return the same with the requests."""
    return vllm(
        input_lens=[10, 10, 10],
        output_lens=[3, 2, 0],
        ttfts=[*FIRSTS],
        itls=[*GAPS],
        start_times=[8.5, 8.0, 9.0],
        generated_texts=["a b c", "a b", ""],
        errors=["", "", "Traceback\nTimeoutError: no answer"],
        **more,
    )


def test_a_run_of_vllm_is_a_trial_in_base_units(tmp_path: Path) -> None:
    (one,) = read(tmp_path / "run.json", vllm())
    values = run_values(one)
    assert one.name == "run.json"
    assert values["mean_ttft"] == pytest.approx(0.06)
    assert values["p99.9_itl"] == pytest.approx(0.02998)
    assert (values["output_throughput"], values["completed"], values["failed"]) == (2.5, 2, 1)
    assert "rtfx" not in values
    assert dict(one.settings)["request_rate"] == "inf"
    better = {spec.name: (spec.unit, spec.better) for spec in one.specs}
    assert better["mean_ttft"] == ("s", "lower")
    assert better["request_throughput"] == ("1/s", "higher")
    assert one.origin is not None
    assert one.origin.started_ns == 1_796_030_100 * 10**9


def test_runs_that_vllm_appends_are_trials_unless_their_settings_differ(tmp_path: Path) -> None:
    again = vllm(mean_ttft_ms=70.0, date="20261130-091600")
    one, other = read(tmp_path / "all.json", vllm(), again, vllm(request_rate=2.0))
    assert column(one, "mean_ttft") == pytest.approx([0.06, 0.07])
    assert [block.epoch for block in one.blocks] == [1, 2]
    assert (len(other.blocks), dict(other.settings)["request_rate"]) == (1, "2")


def test_requests_of_vllm_are_trials_in_the_order_of_their_starts(tmp_path: Path) -> None:
    (one,) = read(tmp_path / "run.json", detailed())
    assert column(one, "ttft") == [0.07, 0.05, None]
    assert column(one, "tpot") == [pytest.approx(0.03), pytest.approx(0.015), None]
    assert column(one, "e2el") == [pytest.approx(0.1), pytest.approx(0.08), None]
    assert [block.failure for block in one.blocks] == ["", "", "TimeoutError: no answer"]
    assert not not_read(one)


def test_figures_of_vllm_are_stated_beside_its_requests(tmp_path: Path) -> None:
    whole = detailed(completed=2, failed=0)
    for name in ("output_lens", "ttfts", "itls", "start_times", "errors"):
        whole[name].pop()
    (one,) = read(tmp_path / "run.json", whole)
    assert figures(one)["mean_ttft"] == pytest.approx(0.06)
    assert figures(one)["p99.9_itl"] == pytest.approx(0.02998)
    assert [summary.method for summary in one.summaries] == ["stated"] * len(one.summaries)


@pytest.mark.parametrize(
    ("more", "named"),
    [({"mean_tpot_ms": 99.0}, "tpot of the requests"), ({"completed": 3}, "completed is 3")],
)
def test_requests_that_do_not_give_the_figures_of_vllm_are_named(
    more: Mapping[str, Any], named: str, tmp_path: Path
) -> None:
    (one,) = read(tmp_path / "run.json", {**detailed(), **more})
    assert named in not_read(one)
    assert "tpot" not in one.blocks[0].values


def test_arrays_of_vllm_of_different_lengths_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path / "run.json", {**detailed(), "errors": [""]})
    assert caught.value.diagnostics[0].code == "vllm-syntax"


def test_what_vllm_has_beside_figures_is_named(tmp_path: Path) -> None:
    (one,) = read(tmp_path / "run.json", vllm(rps_change_events=[{"rps": 1}]))
    assert "rps_change_events" in not_read(one)


# -- AIPerf --------------------------------------------------------------------------------


def aiperf(**more: Any) -> Document:
    spread = {"min": 30.0, "max": 40.0, "p50": 34.0, "p99": 39.9, "std": 2.0, "count": 40}
    return {
        "schema_version": "1.4",
        "aiperf_version": "0.13.0",
        "request_throughput": {"unit": "requests/sec", "avg": 9.5},
        "request_latency": {"unit": "ms", "avg": 126.0, **spread},
        "request_count": {"unit": "requests", "avg": 40.0},
        "time_to_first_token": {"unit": "ms", "avg": 35.0, **spread, "sum": 1400.0},
        "output_sequence_length": {"unit": "tokens", "avg": 20.0, "min": 20.0, "max": 20.0},
        "http_req_data_sent": {"unit": "KB", "avg": 2.0},
        "input_config": {
            "endpoint": {"type": "chat", "streaming": True},
            "phases": [{"concurrency": 10}],
            "artifacts": {"dir": "/x"},
        },
        "was_cancelled": False,
        "is_complete": True,
        "start_time": "2026-11-30T09:12:19.412291",
        **more,
    }


def record(at: int, **more: Any) -> Document:
    return {
        "metadata": {
            "session_num": at,
            "request_start_ns": 10**18 - at * 10**9,
            "benchmark_phase": "profiling",
            **more.pop("metadata", {}),
        },
        "metrics": {
            "time_to_first_token": {"value": 30.0 + at, "unit": "ms"},
            "inter_chunk_latency": {"value": [5.0, 5.1], "unit": "ms"},
            "output_token_throughput_per_user": {"value": 190.0, "unit": "tokens/sec/user"},
        },
        **more,
    }


def test_a_summary_of_aiperf_is_a_trial_in_base_units(tmp_path: Path) -> None:
    (one,) = read(tmp_path / "profile.json", aiperf())
    values = run_values(one)
    assert values["time_to_first_token_avg"] == pytest.approx(0.035)
    assert values["time_to_first_token_p99"] == pytest.approx(0.0399)
    assert (values["request_throughput"], values["request_count"]) == (9.5, 40)
    assert values["http_req_data_sent"] == 2048
    assert "output_sequence_length_min" not in values  # It is the same in all requests.
    assert dict(one.settings) == {
        "endpoint.type": "chat",
        "endpoint.streaming": "true",
        "phases.0.concurrency": "10",
    }
    assert one.origin is not None
    assert one.origin.tool == "AIPerf 0.13.0"


def test_a_run_of_aiperf_that_was_cancelled_failed(tmp_path: Path) -> None:
    (one,) = read(tmp_path / "profile.json", aiperf(was_cancelled=True))
    assert one.blocks[0].failed({0})


def test_records_of_aiperf_are_trials_in_the_order_of_their_starts(tmp_path: Path) -> None:
    failed = record(2, error={"type": "TimeoutError", "message": "no answer"})
    warm = record(9, metadata={"benchmark_phase": "warmup"})
    (one,) = read(tmp_path / "profile_export.jsonl", warm, record(1), record(0), failed)
    assert column(one, "time_to_first_token") == [None, pytest.approx(0.031), pytest.approx(0.03)]
    assert [block.failure for block in one.blocks] == ["no answer", "", ""]
    assert "warm-up (1 of 4 records)" in not_read(one)
    assert "inter_chunk_latency" in not_read(one)
    specs = {spec.name: (spec.unit, spec.better) for spec in one.specs}
    assert specs["output_token_throughput_per_user"] == ("1/s", "higher")


def test_a_damaged_record_of_aiperf_is_a_mistake_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "profile_export.jsonl"
    path.write_text(json.dumps(record(0)) + '\n{"metadata": ')
    with pytest.raises(InputError) as caught:
        read_inputs([str(path)])
    assert "line 2" in caught.value.diagnostics[0].message


# -- guidellm ------------------------------------------------------------------------------

TOKENS, PER_TOKEN = [11, 21], [10.0, 4.0]


def spread(values: list[float], weights: list[int] | None = None) -> Document:
    """Return a distribution of guidellm, by outcome."""
    counts = weights or [1] * len(values)
    mean = math.fsum(map(math.prod, zip(values, counts, strict=True))) / sum(counts)
    ends = {"min": min(values), "max": max(values), "median": min(values), "std_dev": 1.0}
    ranks = {"p001": min(values), "p05": min(values), "p50": min(values), "p999": max(values)}
    found = {"mean": mean, **ends, "count": sum(counts), "percentiles": ranks}
    return {"successful": found, "errored": {"mean": 0.0, "count": 0}}


def guidellm(*, failed: int = 0, **more: Any) -> Document:
    requests = [
        {
            "request_start_time": 100.0 + at,
            "time_to_first_token_ms": 30.0 + at,
            "inter_token_latency_ms": PER_TOKEN[at],
            "request_latency": 0.5,
            "output_tokens": TOKENS[at],
            "info": {"error": None},
        }
        for at in range(2)
    ]
    errored = [{"request_start_time": 99.0, "info": {"error": "no answer"}}] * failed
    return {
        "config": {"strategy": {"type_": "constant", "rate": 10.0}, "run_id": "x"},
        "metrics": {
            "request_totals": {"successful": 2, "errored": failed, "total": 2 + failed},
            "requests_per_second": spread([9.0, 11.0]),
            "time_to_first_token_ms": spread([30.0, 31.0]),
            "inter_token_latency_ms": spread(PER_TOKEN, [tokens - 1 for tokens in TOKENS]),
            "request_latency": spread([0.5, 0.5]),
            "text": {"tokens": {"input": None}},
        },
        "requests": {"successful": requests, "errored": errored, "incomplete": []},
        "start_time": 1796029974.5,
        **more,
    }


def benchmarks(*several: Document) -> Document:
    return {"metadata": {"version": 2, "guidellm_version": "0.8.1"}, "benchmarks": list(several)}


def test_requests_of_guidellm_are_trials_beside_its_figures(tmp_path: Path) -> None:
    (one,) = read(tmp_path / "benchmarks.json", benchmarks(guidellm(failed=1)))
    assert one.name == "constant@10.00"
    assert column(one, "time_to_first_token") == [None, pytest.approx(0.03), pytest.approx(0.031)]
    assert one.blocks[0].failure == "no answer"
    assert column(one, "request_latency") == [None, 0.5, 0.5]
    assert not not_read(one)


def test_figures_of_guidellm_weight_requests_by_their_tokens(tmp_path: Path) -> None:
    (one,) = read(tmp_path / "benchmarks.json", benchmarks(guidellm()))
    assert column(one, "inter_token_latency") == pytest.approx([0.01, 0.004])
    # By tokens: 10 of 10 ms and 20 of 4 ms; over the requests it would be 7 ms.
    assert figures(one)["inter_token_latency_mean"] == pytest.approx(0.006)
    assert figures(one)["requests_successful"] == 2
    assert not not_read(one)


def test_a_benchmark_of_guidellm_without_requests_is_a_trial(tmp_path: Path) -> None:
    bare = guidellm(requests={"successful": [], "errored": [], "incomplete": []})
    (one,) = read(tmp_path / "benchmarks.json", benchmarks(bare))
    values = run_values(one)
    assert values["time_to_first_token_mean"] == pytest.approx(0.0305)
    assert values["time_to_first_token_p0.1"] == pytest.approx(0.03)
    assert values["time_to_first_token_p5"] == pytest.approx(0.03)
    assert values["time_to_first_token_p99.9"] == pytest.approx(0.031)
    assert values["requests_per_second_mean"] == 10


def test_a_part_of_the_requests_of_guidellm_is_not_read(tmp_path: Path) -> None:
    document = guidellm()
    document["requests"]["successful"].pop()
    (one,) = read(tmp_path / "benchmarks.json", benchmarks(document))
    assert "1 of 2 requests" in not_read(one)
    assert run_values(one)["time_to_first_token_mean"] == pytest.approx(0.0305)


def test_requests_that_do_not_give_the_figure_of_guidellm_are_named(tmp_path: Path) -> None:
    document = guidellm()
    document["metrics"]["inter_token_latency_ms"] = spread(PER_TOKEN)
    (one,) = read(tmp_path / "benchmarks.json", benchmarks(document))
    assert "inter_token_latency of the requests" in not_read(one)
    assert figures(one)["inter_token_latency_mean"] == pytest.approx(0.007)


def test_benchmarks_of_guidellm_with_one_name_are_numbered(tmp_path: Path) -> None:
    found = read(tmp_path / "benchmarks.json", benchmarks(guidellm(), guidellm()))
    assert [one.name for one in found] == ["constant@10.00", "constant@10.00#2"]


def test_benchmarks_of_guidellm_without_requests_are_trials_of_one(tmp_path: Path) -> None:
    several = [guidellm(requests={}), guidellm(requests={})]
    (one,) = read(tmp_path / "benchmarks.json", benchmarks(*several))
    assert column(one, "requests_per_second_mean") == [10, 10]


# -- exports, read back --------------------------------------------------------------------


def exported(form: str, tmp_path: Path, **streams: int) -> tuple[dict[str, float], str]:
    """Return the figures of an exported load as they are read back, and what was left out."""
    found = FORMATS[form].write(exported_session.streams(**streams))
    path = tmp_path / f"{form}.json"
    path.write_text(found.text)
    (one,) = read_inputs([str(path)])
    assert not not_read(one)
    return run_values(one), " ".join(found.left_out)


COMPLETE = {
    "vllm": {
        "completed": 20,
        "failed": 0,
        "duration": 2.0,
        "request_throughput": 10.0,
        "output_throughput": 110.0,
        "total_token_throughput": 180.0,
        "mean_ttft": 0.0595,
        "median_ttft": 0.059,
        "p95_ttft": 0.068,
        "mean_tpot": 0.01,
        "mean_itl": 0.01,
        "mean_e2el": 0.1595,
    },
    "aiperf": {
        "request_count": 20,
        "error_request_count": 0,
        "benchmark_duration": 2.0,
        "request_throughput": 10.0,
        "output_token_throughput": 110.0,
        "time_to_first_token_avg": 0.0595,
        "time_to_first_token_p95": 0.068,
        "time_to_first_token_std": math.sqrt(33.25) / 1e3,
        "inter_token_latency_avg": 0.01,
        "inter_chunk_latency_avg": 0.01,
        "request_latency": 0.1595,
    },
    "guidellm": {
        "requests_successful": 20,
        "requests_per_second_mean": 10.0,
        "output_tokens_per_second_mean": 110.0,
        "time_to_first_token_mean": 0.0595,
        "time_to_first_token_p95": 0.068,
        "inter_token_latency_mean": 0.01,
        "time_per_output_token_mean": 0.0145,
        "request_latency_mean": 0.1595,
        "output_token_count_mean": 11,
    },
}
"""What follows from the 20 streams by the definitions of each."""


@pytest.mark.parametrize("form", COMPLETE)
def test_an_export_has_the_figures_by_the_definitions_of_its_names(
    form: str, tmp_path: Path
) -> None:
    values, left_out = exported(form, tmp_path, warm_up_ns=10**9)
    for name, value in COMPLETE[form].items():
        assert values[name] == pytest.approx(value, rel=1e-9), name
    assert not left_out


def test_failed_streams_are_counted_and_in_no_time(tmp_path: Path) -> None:
    values, _ = exported("vllm", tmp_path, failed=5)
    assert (values["completed"], values["failed"]) == (20, 5)
    assert values["mean_ttft"] == pytest.approx(0.0595)
    assert exported("aiperf", tmp_path, failed=5)[0]["error_request_count"] == 5
    assert exported("guidellm", tmp_path, failed=5)[0]["requests_errored"] == 5


def test_a_time_that_vllm_ends_at_a_chunk_without_content_is_left_out(tmp_path: Path) -> None:
    values, left_out = exported("vllm", tmp_path, role_ns=30 * 10**6)
    assert not {"mean_ttft", "mean_tpot", "mean_itl"} & set(values)
    assert values["mean_e2el"] == pytest.approx(0.1595)
    assert "ttft of vLLM is left out" in left_out
    values, left_out = exported("vllm", tmp_path, finish_ns=5 * 10**6)
    assert not {"mean_tpot", "mean_itl", "mean_e2el"} & set(values)
    assert values["mean_ttft"] == pytest.approx(0.0595)
    assert "tpot of vLLM is left out" in left_out
    # AIPerf's times end at content, guidellm's latency at the end of the answer.
    values, _ = exported("aiperf", tmp_path, role_ns=30 * 10**6, finish_ns=5 * 10**6)
    assert values["request_latency"] == pytest.approx(0.1595)
    values, _ = exported("guidellm", tmp_path, role_ns=30 * 10**6, finish_ns=5 * 10**6)
    assert values["request_latency_mean"] == pytest.approx(0.1645)


@pytest.mark.parametrize(
    ("form", "name", "median"),
    [
        ("vllm", "mean_itl", "median_itl"),
        ("aiperf", "inter_chunk_latency", "inter_chunk_latency_p50"),
    ],
)
def test_gaps_have_only_a_mean_where_chunks_share_a_read(
    form: str, name: str, median: str, tmp_path: Path
) -> None:
    values, left_out = exported(form, tmp_path, shared=20)
    # Each stream has 11 events in 10 reads, that are 10 ms apart.
    assert values[name] == pytest.approx(0.009)
    assert median not in values
    assert "only the mean" in left_out


@pytest.mark.parametrize("form", ["vllm", "guidellm"])
def test_several_loads_of_a_test_are_its_trials(form: str, tmp_path: Path) -> None:
    view = exported_session.streams()
    late = exported_session.streams(finish_ns=5 * 10**6, failed=1).loads
    found = FORMATS[form].write(msgspec.structs.replace(view, loads=(*view.loads, *late)))
    path = tmp_path / "several"
    path.write_text(found.text)
    (one,) = read_inputs([str(path)])
    first = {"vllm": "mean_ttft", "guidellm": "time_to_first_token_mean"}[form]
    assert column(one, first) == pytest.approx([0.0595, 0.0595])
    # What one load does not have is in none.
    assert column(one, "mean_tpot") == [None, None]


@pytest.mark.parametrize("form", COMPLETE)
def test_a_load_without_streams_is_refused(form: str) -> None:
    with pytest.raises(InputError) as caught:
        FORMATS[form].write(exported_session.loads())
    assert "no load with a stream" in caught.value.diagnostics[0].message
