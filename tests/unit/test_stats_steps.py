"""The transformations of `bw stats` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchwright.cli.main import main

ROWS = """\
thread,epoch,command,status,elapsed,user,system,ops
1,1,tar x,0,1.0,0.5,0.25,100
1,1,make,0,4.0,3.0,0.5,200
2,1,tar x,0,1.5,0.5,0.25,110
2,1,make,0,5.0,3.0,0.5,210
1,2,tar x,0,1.1,0.5,0.25,100
1,2,make,0,4.1,3.0,0.5,
2,2,tar x,0,1.6,0.5,0.25,110
2,2,make,0,5.1,3.0,0.5,230
1,3,tar x,0,1.2,0.5,0.25,100
1,3,make,0,4.2,3.0,0.5,220
2,3,tar x,0,1.4,0.5,0.25,110
2,3,make,0,5.3,3.0,0.5,210
"""


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("two.csv").write_text(ROWS)
    return "two.csv"


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """Return what `bw stats --json` says."""
    assert main(["stats", "--json", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def means(document: dict[str, Any], place: int = 0) -> dict[str, float]:
    """Return the means of one input."""
    return {q["name"]: q["mean"] for q in document["inputs"][place]["quantities"]}


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Return the diagnostics' first lines; the exit code is 2."""
    assert main(["stats", *words]) == 2
    err = capsys.readouterr().err
    return [line for line in err.splitlines() if line.startswith("--")]


def test_a_derived_column_is_in_the_table(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = means(asked(capsys, rows, "--derive", "busy=$user + $system"))
    # Summed over commands, averaged over threads, as every undeclared value.
    assert found["busy"] == pytest.approx(0.75 + 3.5)
    steps = ("--derive", "rate=$ops/$elapsed", "--aggregate", "rate=max")
    document = asked(capsys, rows, *steps)
    assert means(document)["rate"] == pytest.approx((100 + 100 / 1.2) / 2)
    # Epoch 2 lacks the ops of one command: absent, and said so.
    assert [f["code"] for f in document["findings"]][:1] == ["missing-metric"]
    assert "rate is missing" in document["findings"][0]["evidence"]


def test_steps_are_applied_in_the_order_given(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    summed = ("--aggregate", "ops=sum", "--derive", "rate=$ops/$elapsed")
    first = means(asked(capsys, rows, "--select", "$epoch != 2", *summed))["rate"]
    assert first == pytest.approx((620 / 6.5 + 640 / 6.7) / 2)
    # Rows of one command never take 5.2 s; unified ones do.
    before = asked(capsys, rows, "--select", "$elapsed > 5.2", "--unify")
    after = asked(capsys, rows, "--unify", "--select", "$elapsed > 5.2")
    counts = [d["inputs"][0]["quantities"][0]["count"] for d in (before, after)]
    assert counts == [1, 3]


def test_rows_can_be_selected_by_their_labels(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = '$command eq "make" && $thread == 1 && $epoch < 3'
    found = asked(capsys, rows, "--select", where)["inputs"][0]["quantities"][0]
    assert (found["name"], found["count"], found["mean"]) == ("elapsed", 2, 4.05)


def test_a_group_is_a_table_of_its_own(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = asked(capsys, rows, "--group", "thread")
    assert [one["name"] for one in found["inputs"]] == [
        "two.csv thread=1",
        "two.csv thread=2",
    ]
    assert means(found, 1)["elapsed"] == pytest.approx((6.5 + 6.7 + 6.7) / 3)
    assert found["inputs"][1]["quantities"][0]["overhead_percent"] is not None
    assert main(["stats", rows, "--group", "thread", "--ttest"]) == 0
    assert "Comparing two.csv thread=2 (Sample 1) to" in capsys.readouterr().out


def test_each_command_by_itself(rows: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, rows, "--no-unify")
    names = [one["name"] for one in found["inputs"]]
    assert names == ["two.csv command=tar x", "two.csv command=make"]
    # Threads of one command are aggregated as ever: the longest.
    assert means(found)["elapsed"] == pytest.approx(1.5)
    assert means(asked(capsys, rows, "--unify")) == pytest.approx(
        means(asked(capsys, rows))
    )
    counted = asked(capsys, rows, "--no-unify", "--aggregate", "ops=count")
    assert means(counted, 1)["ops"] == pytest.approx((2 + 1 + 2) / 3)


def test_what_is_aggregated_differs_in_what_was_named_only(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = means(asked(capsys, rows))
    for how, expected in (("min", 100.0), ("count", 11 / 3), ("median", None)):
        found = means(asked(capsys, rows, "--aggregate", f"ops={how}"))
        if expected is not None and how == "count":
            assert found["ops"] == pytest.approx(expected)
        rest = {name: mean for name, mean in found.items() if name != "ops"}
        assert rest == pytest.approx({n: plain[n] for n in rest})
    both = ("--aggregate", "ops=count", "--aggregate", "Elapsed=sum")
    found = means(asked(capsys, rows, *both))
    assert found["elapsed"] == pytest.approx((11.5 + 11.9 + 12.1) / 3)


def test_a_warning_names_the_rows_and_the_exit_code_stays_0(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = asked(capsys, rows, "--warn", "$elapsed > 5")["findings"]
    (warned,) = [one for one in found if one["code"] == "warned"]
    assert warned["severity"] == "warning"
    assert warned["evidence"] == (
        "$elapsed > 5 holds for 2 of 12 rows: "
        "epoch 2 thread 2 `make`; epoch 3 thread 2 `make`"
    )
    many = asked(capsys, rows, "--warn", "$elapsed > 0")["findings"]
    assert [o["evidence"][-5:] for o in many if o["code"] == "warned"] == ["; ..."]
    silent = asked(capsys, rows, "--warn", "$elapsed > 50")["findings"]
    assert "warned" not in [one["code"] for one in silent]
    assert main(["stats", rows, "--dump", "--warn", "$elapsed > 5"]) == 0
    shown = capsys.readouterr()
    assert "[warned]" in shown.err
    assert shown.out.startswith("input,thread,epoch,command,status,")


def test_the_dump_and_the_predicate_see_what_was_made(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [rows, "--unify", "--derive", "twice=2*$elapsed"]
    assert main(["stats", *words, "--dump"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert (
        out[0] == "input,thread,epoch,command,status,elapsed,user,system,ops,wait,twice"
    )
    assert out[1].startswith("two.csv,1,1,tar x + make,0,5.0,")
    assert out[1].endswith(",10.0")
    one = ["--select", '$command eq "make"', "--predicate"]
    assert main(["stats", rows, *one, "$max < 6.5"]) == 0
    assert main(["stats", rows, "--predicate", "$max < 6.5"]) == 1


def test_every_mistake_of_form_is_told_before_a_file_is_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["missing.csv", "--derive", "elapsed=1", "--derive", "y=$a +"]
    words += ["--derive", "$x", "--aggregate", "ops=most", "--aggregate", "epoch=max"]
    words += ["--aggregate", "=sum"]
    places = [line.split(": ")[0] for line in refused(capsys, *words)]
    assert places == [
        "--derive",
        "--derive",
        "--derive",
        "--aggregate",
        "--aggregate",
        "--aggregate",
    ]


def test_every_unknown_name_is_told_with_its_column(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--derive", "x=$foo/2", "--select", "$x > $bar", "--group", "baz"]
    words += ["--aggregate", "zops=sum", "--warn", "$elapsed > $x"]
    places = [line.split(": ")[0] for line in refused(capsys, rows, *words)]
    assert places == ["--derive", "--select", "--group", "--aggregate"]


def test_a_selection_that_leaves_nothing_is_a_mistake(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = refused(capsys, rows, "--select", "$elapsed > 100")
    assert line == "--select: no row is left [bad-argument]"
    (line,) = refused(capsys, rows, "--derive", "x=$elapsed / 0")
    assert line == "--derive: no row has a value of x [bad-argument]"


def test_a_name_that_only_one_input_has_is_no_mistake(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("other.csv").write_text("epoch,elapsed\n1,2.0\n2,2.5\n")
    found = asked(capsys, rows, "other.csv", "--derive", "rate=$ops/$elapsed")
    assert "rate" in means(found)
    assert "rate" not in means(found, 1)
    # A value that every measured row could have is absent, not unknown.
    assert main(["stats", "other.csv", "--warn", "$user > 1"]) == 0


@pytest.mark.parametrize("how", ["count", "sum", "min", "median"])
def test_cpu_and_wait_stay_when_a_time_is_aggregated_otherwise(
    rows: str, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = means(asked(capsys, rows))
    found = means(asked(capsys, rows, "--aggregate", f"elapsed={how}"))
    assert found["elapsed"] != plain["elapsed"]
    for name in ("cpu_percent", "wait", "user", "system"):
        assert found[name] == pytest.approx(plain[name])
    apart = means(asked(capsys, rows, "--no-unify"))
    words = ("--no-unify", "--aggregate", f"elapsed={how}")
    found = means(asked(capsys, rows, *words))
    assert found["cpu_percent"] == pytest.approx(apart["cpu_percent"])


def test_steps_in_an_order_that_makes_no_sense(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = refused(capsys, rows, "--aggregate", "elapsed=sum", "--no-unify")
    assert line == (
        "--no-unify: --aggregate before it has merged the commands into one row "
        "[bad-argument]"
    )
    (line,) = refused(capsys, rows, "--unify", "--no-unify")
    assert line.startswith("--no-unify: --unify before it")
    (line,) = refused(capsys, rows, "--no-unify", "--unify")
    assert line == "--unify: --no-unify and --unify contradict [bad-argument]"
    (line,) = refused(capsys, rows, "--aggregate", "elapsed=sum", "--group", "thread")
    assert line == "--group: no row has one thread [bad-argument]"


def test_what_is_never_a_number_is_no_derived_column(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = refused(capsys, rows, "--derive", "r=1e400")
    assert line.startswith("--derive: no row has a value of r")
    (line,) = refused(capsys, rows, "--derive", "r=$command")
    assert line.startswith("--derive: r is text and has no statistics")
    found = asked(capsys, rows, "--derive", "r=$command", "--group", "r")
    assert found["inputs"][0]["name"] == "two.csv r=tar x"
    asked(capsys, rows, "--derive", "r=$command", "--select", '$r eq "make"')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("r", "there is no = and no expression"),
        ("a b=1", "'a b' is not a name"),
        ("=1", "a column needs a name"),
        ("r=", "r has no expression"),
    ],
)
def test_a_derived_column_that_is_not_written_well(
    text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = refused(capsys, "missing.csv", "--derive", text)
    assert line.startswith(f"--derive: {message}")


def test_a_selection_that_leaves_nothing_of_one_input_says_so(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("other.csv").write_text("epoch,elapsed\n1,2.0\n2,2.5\n")
    for words in (["--select", "$elapsed > 3"], ["--command", "make"]):
        document = asked(capsys, rows, "other.csv", *words)
        assert [one["name"] for one in document["inputs"]] == [rows]
        assert all(one["subject"] == rows for one in document["findings"])
        (notice,) = [n for n in document["notices"] if n["subject"] == "selection"]
        assert "1 of 2 left out, no trial was selected: other.csv" in notice["text"]


def test_columns_without_any_number_are_named(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("n.csv").write_text("epoch,elapsed,note,ops\n1,2.0,a,\n2,2.5,,n/a\n")
    (notice,) = asked(capsys, "n.csv")["notices"]
    assert notice["text"] == "Left out, without any number: note, ops."
    Path("n.csv").write_text("epoch,elapsed,ops\n1,2.0,x\n2,2.5,7\n")
    assert asked(capsys, "n.csv")["notices"] == []
    assert asked(capsys, rows)["notices"] == []


@pytest.mark.parametrize(("separator", "name"), [(";", "';'"), ("\t", "tabs")])
def test_other_separators_are_told_once(
    rows: str, separator: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "epoch,elapsed\n1,2,5\n2,3,5\n".replace(",", separator, 1)
    Path(rows).write_text(text)
    assert main(["stats", rows]) == 2
    lines = [x for x in capsys.readouterr().err.splitlines() if x.startswith(rows)]
    assert lines == [
        f"two.csv:1:6: the columns are separated by {name}, not by commas [csv-syntax]"
    ]
