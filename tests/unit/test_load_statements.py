"""`statements` of a workload's target: what operations on a database execute."""

from __future__ import annotations

import re

import pytest

from benchwright.core.errors import InputError
from benchwright.features.load import request as r
from benchwright.features.load.plan import plan_of_file
from benchwright.features.load.request import position_of
from benchwright.features.load.workload_toml import read_workload

FILAMENT = '[[filament]]\ntype = "closed"\nusers = 2\n'


def target_with(statements: str) -> r.PostgresTarget:
    text = f'[target]\nto = "postgres://u@h/db"\nstatements = {statements}\n{FILAMENT}'
    target = read_workload(text, "w.toml", None).target
    assert isinstance(target, r.PostgresTarget)
    return target


def test_an_operation_is_a_statement_or_several_in_order() -> None:
    target = target_with(
        '["VALUES (1)", {sql = "SELECT $1", parameters = ["a", 7, 1.5]}, '
        '["UPDATE a SET b = 1", {sql = "SELECT $1", parameters = [true]}]]'
    )
    assert target.statements == (
        (r.Statement("VALUES (1)"),),
        (r.Statement("SELECT $1", ("a", "7", "1.5")),),
        (r.Statement("UPDATE a SET b = 1"), r.Statement("SELECT $1", ("true",))),
    )


def test_operations_on_a_database_are_exchanges() -> None:
    text = f'[target]\nto = "postgres://u@h/db"\n{FILAMENT}'
    (filament,) = read_workload(text, "w.toml", None).filaments
    assert filament.access.kinds == (("exchange", 1),)  # type: ignore[union-attr]


def test_parameters_have_values() -> None:
    text = (
        '[target]\nto = "postgres://u@h/db"\n'
        'statements = [{sql = "SELECT $1", parameters = ["a-${id}"]}]\n'
        f'[values]\nid = "integer 1..10"\n{FILAMENT}'
    )
    found = read_workload(text, "w.toml", None)
    assert found.target is not None
    target = plan_of_file(found, {}, found.target).request.target
    assert isinstance(target, r.PostgresTarget)
    assert target.statements == ((r.Statement("SELECT $1", ("a-${id}",)),),)
    assert target.values == {"id": r.IntegerValue(min=1, max=10)}
    assert found.places["target.statements"].line == 3
    where = position_of(found.places, "target.statements[0][0]", "")
    assert where is not None
    assert where.line == 3
    assert found.places["target.values"].line == 4


def test_each_statement_has_its_position() -> None:
    text = (
        '[target]\nto = "postgres://u@h/db"\n'
        'statements = [\n"SELECT 1",\n["SELECT 2",\n{sql = "SELECT 3"}]]\n'
        f"{FILAMENT}"
    )
    places = read_workload(text, "w.toml", None).places
    lines = {"": 3, "[0]": 4, "[0][0]": 4, "[1]": 5, "[1][0]": 5, "[1][1]": 6}
    found = {key: position_of(places, f"target.statements{key}", "") for key in lines}
    assert {key: where and where.line for key, where in found.items()} == lines
    spec = {"target.statements": places["target.statements"]}
    where = position_of(spec, "target.statements[1][0]", "it is wrong")
    assert where is not None
    assert where.line == 3


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ("[]", "statements is empty"),
        ("[[]]", "an operation of statements is empty"),
        ('[" "]', "a statement is empty"),
        ("[7]", "a statement is a whole number"),
        ('"SELECT 1"', "statements is a string"),
        ('[{parameters = ["1"]}]', "sql"),
        ('[{sql = "SELECT 1", parameters = "1"}]', "parameters is a string"),
        ('[{sql = "SELECT 1", parameters = [[1]]}]', "a value of parameters"),
        ('[{sql = "SELECT 1", more = 1}]', "more"),
    ],
)
def test_statements_that_are_wrong_are_reported(statements: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        target_with(statements)


def test_statements_are_for_a_database() -> None:
    text = f'[target]\nto = "tcp://h:7"\nstatements = ["SELECT 1"]\n{FILAMENT}'
    with pytest.raises(InputError, match="not an option of a tcp target"):
        read_workload(text, "w.toml", None)
