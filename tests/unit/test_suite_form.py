"""A table of TOML that is declared as data is read with every error at its place."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from benchwright.core.errors import InputError
from benchwright.core.quantity import parse_duration_ns
from benchwright.inputs.form import (
    Form,
    each,
    form_of,
    keys_of,
    needed,
    nested,
    optional,
    read_form,
)
from benchwright.inputs.options import Option
from benchwright.inputs.toml_table import read_toml


class Server(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    port: int = 80
    mode: Literal["on", "off"] = "on"
    wait_ns: Annotated[int, Option(key="wait", parse=parse_duration_ns)] = 0
    words: tuple[str, ...] = ()
    fast: bool = False

    def __post_init__(self) -> None:
        if self.fast and self.wait_ns:
            raise ValueError("a fast server does not wait")


PAIR = Form((needed("low", int), optional("high", int)))


def read(text: str, form: Form) -> Any:
    return read_toml(text, "f.toml", "spec", lambda top: read_form(top, form))


def errors(text: str, form: Form) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(text, form)
    return [f"{d.line}:{d.column} {d.code}" for d in caught.value.diagnostics]


def test_the_fields_of_a_record_are_the_keys() -> None:
    text = 'name = "a"\nmode = "off"\nwait = "2us"\nwords = "w"\nfast = false\n'
    assert read(text, form_of(Server)) == Server(name="a", mode="off", wait_ns=2000, words=("w",))


def test_every_error_is_reported_at_its_place() -> None:
    text = 'nmae = "a"\nport = 0\nmode = "up"\nwait = 5\nwords = [1]\nfast = 1\n'
    assert errors(text, form_of(Server)) == [
        "1:1 spec-unknown-key",
        "1:1 spec-missing",
        "2:8 spec-range",
        "3:8 spec-value",
        "4:8 spec-value",
        "5:10 spec-type",
        "6:8 spec-type",
    ]


def test_an_unknown_key_has_the_hint_of_its_neighbour() -> None:
    with pytest.raises(InputError, match=r"did you mean name\?"):
        read('name = "a"\nnmae = "b"\n', form_of(Server))


def test_values_that_contradict_each_other_are_an_error_of_the_table() -> None:
    with pytest.raises(InputError, match="a fast server does not wait"):
        read('name = "a"\nwait = "1s"\nfast = true\n', form_of(Server))


def test_settled_fields_are_no_keys() -> None:
    assert read("port = 1\n", form_of(Server, name="b")) == Server(name="b", port=1)
    assert errors('name = "a"\n', form_of(Server, name="b")) == ["1:1 spec-unknown-key"]


def test_tables_stand_inside_tables() -> None:
    form = Form((needed("one", read=nested(PAIR)), optional("many", read=each(PAIR))))
    assert read("one = {low = 1}\nmany = [{low = 2, high = 3}]\n", form) == {
        "one": {"low": 1},
        "many": ({"low": 2, "high": 3},),
    }
    text = "one = {high = 1}\nmany = [{low = 'x'}, 3]\n"
    assert errors(text, form) == ["1:1 spec-missing", "2:16 spec-value", "2:22 spec-type"]


def limit_ns(text: str) -> int | None:
    return None if text == "none" else parse_duration_ns(text)


class Limits(msgspec.Struct, frozen=True):
    time: Annotated[str | None, Option("time limit", "30s", limit_ns, "time_ns", key=True)] = None
    hard: Annotated[bool, Option("stop at it", key=True)] = False
    quiet: Annotated[bool, Option("print nothing")] = False
    most: Annotated[str | None, Option(parse=int, key="at_most")] = None


def test_the_options_of_a_request_are_keys() -> None:
    form = Form(keys_of(Limits))
    assert form.fields == {"time": "time_ns", "hard": "hard", "at_most": "at_most"}
    assert read('time = "none"\nhard = true\nat_most = 3\n', form) == {
        "time_ns": None,
        "hard": True,
        "at_most": 3,
    }
    assert errors("time = 1\nhard = 1\nquiet = true\n", form) == [
        "1:8 spec-value",
        "2:8 spec-type",
        "3:1 spec-unknown-key",
    ]
