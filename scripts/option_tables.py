#!/usr/bin/env python3
"""The tables of options and keys in docs/, made from their declarations.

`scripts/option_tables.py` writes them between their markers; tests/unit/test_option_tables.py
fails where a page is not as this writes it.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path

import msgspec

from benchwright.cli.why import WhyOptions
from benchwright.features.generators.adapter import ProgramGenerator
from benchwright.features.load.file_toml import CHAIN, FILES, chain_keys, files_filament
from benchwright.features.load.workload_toml import access_keys, access_of
from benchwright.features.pool.toml import POOL
from benchwright.features.search.options import PeakRequest, RampRequest
from benchwright.features.search.server.toml import IO, REMOTE_OF_SPEC, RESOURCES
from benchwright.features.search.spec_toml import SERVER
from benchwright.features.search.surface.spec import SURFACE
from benchwright.inputs.form import Form
from benchwright.inputs.options import options_of
from benchwright.suite.comparison import ComparisonRequest

DOCS = Path(__file__).parents[1] / "docs"
TABLES: dict[str, tuple[str, Form | type[msgspec.Struct]]] = {
    "server": ("workbench.md", SERVER),
    "resources": ("workbench.md", RESOURCES),
    "io": ("workbench.md", IO),
    "remote": ("workbench.md", REMOTE_OF_SPEC),
    "compare": ("suite-toml.md", ComparisonRequest),
    "ramp": ("ramp.md", RampRequest),
    "surface": ("surface.md", SURFACE),
    "pool": ("pool.md", POOL),
    "peak": ("workbench.md", PeakRequest),
    "access": ("workload-toml.md", Form(access_keys(network=False), access_of)),
    "files": ("workload-toml.md", FILES),
    "chains": ("workload-toml.md", Form(chain_keys(), files_filament(None))),
    "chain": ("workload-toml.md", CHAIN),
    "why": ("why.md", WhyOptions),
    **{kind.name: ("generators.md", kind) for kind in ProgramGenerator.__subclasses__()},
}
"""The name of a marker: the page, and the request or the form whose keys the table lists."""
COMMANDS = {"why"}
"""Tables of the options of a command, with or without a key: those without a heading of their own."""


def table_of(name: str) -> str:
    """Return a table in Markdown: each key, what it means, its default."""
    declared = TABLES[name][1]
    if isinstance(declared, Form):
        return of_form(declared)
    if name in COMMANDS:
        return of_command(declared)
    if issubclass(declared, ProgramGenerator):
        return of_record(declared)
    return of_options(declared)


def of_options(request: type[msgspec.Struct]) -> str:
    """Return the keys that are options too: `--help` and its page say what each means."""
    keys = [
        f"`{option.key}`"
        + ("" if option.flag == as_flag(str(option.key)) else f" (`{option.flag}`)")
        for option in options_of(request).values()
        if option.key
    ]
    return textwrap.fill(", ".join(keys) + ".", width=100, break_on_hyphens=False)


def as_flag(key: str) -> str:
    """Return the option that a key is usually called on the command line."""
    return "--" + key.replace("_", "-")


def of_command(request: type[msgspec.Struct]) -> str:
    """Return the table of the options that `--help` lists without a heading."""
    rows = []
    for option in options_of(request).values():
        if not option.group:
            shown = f"{option.flag} {option.metavar}".strip()
            written = f"[{option.flag}]" if option.positional else shown
            rows.append((f"`{written}`", option.help, option.default))
    return table(("option", "meaning", "default"), rows)


def of_form(form: Form) -> str:
    """Return the table of a form's keys."""
    rows = [(f"`{one.key}`", one.default, one.help) for one in form.keys]
    return table(("key", "default", "meaning"), rows)


def of_record(kind: type[msgspec.Struct]) -> str:
    """Return the table of a generator's own keys; the meaning of each is its docstring."""
    own = kind.__annotations__
    fields = sorted(msgspec.structs.fields(kind), key=lambda one: one.name not in own)
    meanings = {**docstrings(kind.__bases__[0]), **docstrings(kind)}
    rows = [
        (f"`{one.name}`", default_of(one), meanings[one.name])
        for one in fields
        if one.name != "arguments"  # every generator has it: the page describes it once
    ]
    return table(("key", "default", "meaning"), rows)


def docstrings(kind: type) -> dict[str, str]:
    """Return the docstrings of a class's fields."""
    (body,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    return {
        ast.unparse(field.target): ast.literal_eval(text.value)
        for field, text in itertools.pairwise(body.body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }


def default_of(field: msgspec.structs.FieldInfo) -> str:
    """Return a field's default as TOML has it; nothing where there is none."""
    if field.required:
        return "needed"
    if field.default in ("", None, ()):
        return ""
    return f"`{json.dumps(field.default)}`"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [head, *([one.replace("|", "\\|") for one in row] for row in rows)]
    texts = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([texts[0], "|---" * len(head) + "|", *texts[1:]])


def page_of(name: str) -> str:
    """Return the page of a table with the table as it is declared."""
    text = (DOCS / TABLES[name][0]).read_text()
    marked = rf"(<!-- options: {name} -->\n).*?(\n<!-- end -->)"
    found, count = re.subn(marked, lambda m: m[1] + table_of(name) + m[2], text, flags=re.DOTALL)
    assert count == 1, f"{TABLES[name][0]} has no place for the table {name}"
    return found


if __name__ == "__main__":
    for one in TABLES:
        (DOCS / TABLES[one][0]).write_text(page_of(one))
