"""From the launcher's record to a trial: blocks, values, what is missing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from benchwright.core.observation import ProcessRecord, TrialEnding
from benchwright.core.plan import Command, FixedCount, MetricSpec, Phases, TestPlan
from benchwright.trial.observe import MetricNotFound, extract_metric, observe
from benchwright.trial.protocol import EpochRecord


def plan(*metrics: MetricSpec, threads: int = 1) -> TestPlan:
    """Return a plan with one EXEC command."""
    return TestPlan(
        name="t",
        stopping=FixedCount(1),
        phases=Phases(setup=(Command(("setup",)),), exec=(Command(("work", "a b")),)),
        threads=threads,
        metrics=metrics,
    )


def process(thread: int = 1, status: int = 0, mode: str = "EXEC") -> ProcessRecord:
    """Return a process of 2 s elapsed, 0.5 s user, 0.25 s system."""
    return ProcessRecord(
        mode=mode,
        index=0,
        thread=thread,
        status=status,
        elapsed_ns=2_000_000_000,
        user_us=500_000,
        system_us=250_000,
        rss_bytes=1 << 20,
    )


def record(*processes: ProcessRecord, **more: object) -> EpochRecord:
    """Return a record of epoch 3."""
    base = EpochRecord(
        id=1,
        epoch=3,
        ending=TrialEnding.OK,
        started_ns=1,
        duration_ns=2,
        release_skew_ns=0,
        left_running=0,
        processes=processes,
    )
    return msgspec.structs.replace(base, **more)


def silent(_process: ProcessRecord, _stream: str) -> str:
    return ""


def test_without_measurement_blocks_each_exec_process_is_a_block() -> None:
    trial = observe(record(process(0, mode="SETUP"), process()), plan(), silent)
    (block,) = trial.blocks
    assert (block.thread, block.epoch, block.command) == (1, 3, "work 'a b'")
    assert block.values["elapsed"] == 2.0
    assert block.values["user"] == 0.5
    assert block.values["system"] == 0.25
    assert block.values["rss_bytes"] == 1 << 20


def test_when_a_command_started_is_no_value() -> None:
    aplog = ((1, "[measurement]\ncommand = sleep\nstart_ns = 17\nelapsed = 0.3\n"),)
    (block,) = observe(record(process(), aplog=aplog), plan(), silent).blocks
    assert block.values == {"elapsed": 0.3}


def test_measurement_blocks_replace_the_exec_block_and_free_values_join_the_last() -> None:
    log = (
        "ops = 7\n[measurement]\nthread = 1\nepoch = 3\ncommand = tar x\n"
        "user = 0.5\nsys = 0.1\nelapsed = 1.5\nstatus = 0\n\n"
        "[measurement]\ncommand = make\nuser = 1\nsys = 2\nelapsed = 3\nstatus = 0\n\n"
        "[disk]\nsda = 12\n"
    )
    trial = observe(record(process(), aplog=((1, log),)), plan(), silent)
    assert [b.command for b in trial.blocks] == ["tar x", "make"]
    assert trial.blocks[0].values == {"user": 0.5, "system": 0.1, "elapsed": 1.5}
    assert trial.blocks[1].values["ops"] == 7
    assert trial.extra_blocks == ({"": "disk", "sda": "12"},)


def test_a_measured_command_that_failed_fails_the_trial() -> None:
    log = "[measurement]\ncommand = make\nelapsed = 3\nstatus = 2\n"
    trial = observe(record(process(), aplog=((1, log),)), plan(), silent)
    assert trial.ending is TrialEnding.FAILED


def test_a_metric_that_is_missing_or_no_number_is_named_with_its_reason() -> None:
    specs = (MetricSpec("ops", pointer="/ops"), MetricSpec("lag", pattern=r"lag (\S+)"))
    trial = observe(record(process()), plan(*specs), lambda _p, _s: '{"ops": "many"}\nlag none')
    assert len(trial.missing) == 2
    assert any("ops (thread 1)" in line for line in trial.missing)
    assert any("not a number" in line for line in trial.missing)
    assert "ops" not in trial.blocks[0].values


def test_each_thread_has_its_own_values() -> None:
    outputs = {1: "rate=10", 2: "rate=30"}
    trial = observe(
        record(process(1), process(2)),
        plan(MetricSpec("rate", pattern=r"rate=(\d+)"), threads=2),
        lambda p, s: outputs[p.thread] if s == "out" else "",
    )
    assert [b.values["rate"] for b in trial.blocks] == [10, 30]


def test_hooks_values_join_the_exec_blocks_and_their_blocks_are_kept() -> None:
    hooks = (
        ("free", "start", "ignored text\n"),
        ("free", "end", "free_memory_bytes = 5\n"),
        ("cpu", "final", "[others]\ncron = 0.5\n"),
    )
    trial = observe(record(process(), hooks=hooks), plan(), silent)
    assert trial.blocks[0].values["free_memory_bytes"] == 5
    assert trial.extra_blocks == ({"": "others", "cron": "0.5"},)


def test_nothing_is_missing_from_a_trial_that_was_cut_short() -> None:
    trial = observe(
        record(process(), ending=TrialEnding.INTERRUPTED),
        plan(MetricSpec("ops", pointer="/ops")),
        silent,
    )
    assert trial.missing == ()


@pytest.mark.parametrize(
    ("pointer", "text", "value"),
    [
        ("/a/0/b", '{"a": [{"b": 2.5}]}', 2.5),
        ("/a~1b", '{"a/b": 1}', 1),
        ("/m~0n", '{"m~n": 4}', 4),
        ("", "17", 17),
        ("/ops", 'warming up\n{"ops": 3}\n', 3),
        ("/ops", '{"ops": "12.5"}', 12.5),
        ("/ops", 'warming up\n{\n  "ops": 3\n}\n', 3),
    ],
)
def test_pointers_follow_rfc_6901(pointer: str, text: str, value: float) -> None:
    assert extract_metric(MetricSpec("m", pointer=pointer), text, "") == value
    undecoded = memoryview(text.encode())
    assert extract_metric(MetricSpec("m", pointer=pointer), undecoded, "") == value


@pytest.mark.parametrize(
    "text", ["", "plain", '{"ops": true}', '{"ops": null}', '{"ops": [1]}', '{"x": 1}']
)
def test_what_is_no_number_is_not_found(text: str) -> None:
    with pytest.raises(MetricNotFound):
        extract_metric(MetricSpec("ops", pointer="/ops"), text, "")


def test_a_pattern_is_searched_in_stdout_then_stderr() -> None:
    spec = MetricSpec("m", pattern=r"^took ([\d,.]+)")
    assert extract_metric(spec, "x\ntook 1,250.5 ms", "took 9") == 1250.5
    assert extract_metric(spec, "x", "took 9") == 9
    large = memoryview(b"\xff\xfe\n" * 10 + b"took 1,250.5 ms")
    assert extract_metric(spec, large, "took 9") == 1250.5
    assert extract_metric(spec, memoryview(b"x"), large) == 1250.5


@pytest.mark.parametrize("before", [0, 1, 1 << 20, (1 << 20) - 9, 3_000_000])
@pytest.mark.parametrize("after", [0, 1, (1 << 20) - 20, 2_500_000])
def test_the_last_json_line_of_a_large_output_is_found(before: int, after: int) -> None:
    text = b"{" * before + b"\n" + b'{"ops": 1}\n{"ops": 2}\n' + b"x" * after
    assert extract_metric(MetricSpec("ops", pointer="/ops"), memoryview(text), "") == 2


def test_a_large_output_without_json_has_no_value() -> None:
    with pytest.raises(MetricNotFound):
        extract_metric(MetricSpec("ops", pointer="/ops"), memoryview(b"log\n" * 900_000), "")


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("rate: 5\nrate: 7\n", True),
        ("rate: 5\nrate: 5.0\n", False),
        ("rate: 5\nrate: -\n", False),
        ("rate: 5\n", False),
    ],
)
@pytest.mark.parametrize("stream", ["out", "err"])
def test_a_pattern_that_matches_several_values_is_a_finding(
    text: str, is_named: bool, stream: str
) -> None:
    rate = MetricSpec("rate", pattern=r"rate: (\S*)")
    for kind in (str, lambda text: memoryview(text.encode())):

        def output(_process: ProcessRecord, which: str, kind: Any = kind) -> Any:
            return kind(text if which == stream else "")

        trial = observe(record(process()), plan(rate), output)
        assert trial.blocks[0].values["rate"] == 5
        assert [block["code"] for block in trial.extra_blocks] == ["several-matches"] * is_named
        if is_named:
            taken = r"rate: `rate: (\S*)` matches 5, which is taken, and 7"
            assert trial.extra_blocks[0]["evidence"] == taken


def test_what_is_measured_is_not_taken_from_a_scripts_word() -> None:
    log = "elapsed = 5\nin_blocks = 9\nops = 7\n"
    trial = observe(record(process(), aplog=((1, log),)), plan(), silent)
    (block,) = trial.blocks
    assert block.values["elapsed"] == 2.0
    assert block.values["in_blocks"] == 0
    assert block.values["ops"] == 7
    assert [line.partition(":")[0] for line in trial.missing] == [
        "elapsed (thread 1)",
        "in_blocks (thread 1)",
    ]


def test_a_hooks_value_is_one_of_the_trial_not_one_of_each_command() -> None:
    """Two EXEC commands are summed: the value in both blocks would count twice."""
    second = msgspec.structs.replace(process(), index=1)
    phases = Phases(exec=(Command(("one",)), Command(("two",))))
    two = msgspec.structs.replace(plan(), phases=phases)
    hooks = (("disk", "end", "sectors = 10\nuser = 99\n"),)
    trial = observe(record(process(), second, hooks=hooks), two, silent)
    assert ["sectors" in block.values for block in trial.blocks] == [False, True]
    assert trial.blocks[1].values["user"] == 0.5


def test_a_hook_that_fails_is_a_finding_with_what_it_said() -> None:
    hooks = (
        ("free-memory", "end", "free_bytes = 1\n"),
        ("mine", "start", "# error: exited with status 3\n"),
        ("mine", "end", "# error: exited with status 3\n"),
        ("told", "end", "# error: x\n[finding]\ncode = remote-incomplete\n"),
    )
    trial = observe(record(process(), hooks=hooks), plan(), silent)
    (found,) = [b for b in trial.extra_blocks if b.get("code") == "hook-failed"]
    assert found["evidence"] == ("mine start: exited with status 3; mine end: exited with status 3")
    assert trial.blocks[0].values["free_bytes"] == 1


def test_a_command_with_a_form_feed_adds_no_field() -> None:
    log = "[measurement]\ncommand = echo \x0cops = 77\x1cfoo = 1\nelapsed = 3\n\n"
    trial = observe(record(process(), aplog=((1, log),)), plan(), silent)
    assert trial.blocks[0].values == {"elapsed": 3.0}


@pytest.mark.parametrize("text", ["1_000", "\u0661\u0662", "nan", "inf", "0x10"])
def test_numbers_are_strict(text: str) -> None:
    log = f"ops = {text}\n"
    trial = observe(record(process(), aplog=((1, log),)), plan(), silent)
    assert "ops" not in trial.blocks[0].values
    assert trial.missing


def test_json_without_bottom_is_no_traceback() -> None:
    with pytest.raises(MetricNotFound, match="too deeply"):
        extract_metric(MetricSpec("x", pointer="/a"), "[" * 100_000, "")


def test_a_long_line_in_aplog_takes_no_quadratic_time() -> None:
    """A quarter of a mebibyte of spaces took a minute and a half."""
    line = "a" + " " * (1 << 18) + "b"
    log = f"{line}\n{line} = 1\n = 2\nops  =  7 \n"
    trial = observe(record(process(), aplog=((1, log),)), plan(), silent)
    assert trial.blocks[0].values["ops"] == 7
