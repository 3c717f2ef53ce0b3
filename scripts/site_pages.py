"""The pages of the documentation site that are made from the code, as hooks of MkDocs.

mkdocs.yml names this file. While the site is built it adds a page for each command (from the
options' declarations), a page for each JSON document (from its type), and the pages that are kept
outside docs/; and it fills the placeholders of the navigation.

Decision: these pages are not stored, so that they cannot be stale, and a change of an option does
not change a second file. The tables within the pages of docs/ are stored (option_tables.py),
because those pages are also read without the site.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from benchwright.cli.main import parser
from benchwright.cli.parser import CommandParser
from benchwright.cli.schemas import document_types, json_schema, schema_name

ROOT = Path(__file__).parents[1]
OUTSIDE = ("ARCHITECTURE.md", "CHANGELOG.md", "GLOSSARY.md")
"""Pages of the site that are kept at the top of the repository."""


# -- Commands --------------------------------------------------------------------------


@cache
def commands() -> dict[str, CommandParser]:
    """Return the parser of each command without subcommands, by its words: `trace stat`."""
    whole = parser()
    parsers = {words: whole.of(words) for words in whole.commands() if words}
    return {
        " ".join(words): one
        for words, one in parsers.items()
        if not any(isinstance(a, argparse._SubParsersAction) for a in one._actions)
    }


def command_page(words: str) -> str:
    """Return the page of a command: what it does, its usage, its options by group, its examples."""
    one = commands()[words]
    summary, _, more = (one.description or "").partition("\n\n")
    lines = [f"# bw {words}", "", summary, "", *block(one.format_usage()), *block(more)]
    for group in one._action_groups:
        rows = [row_of(action) for action in group._group_actions]
        if rows:
            title = (group.title or "options").capitalize()
            lines += [f"## {title}", "", *table(("option", "meaning"), rows), ""]
    if one.epilog:
        lines += ["## More", "", *block(one.epilog)]
    return "\n".join(lines)


def block(text: str) -> list[str]:
    """Return the lines of a block of code; none for an empty text."""
    return ["```text", text.strip("\n"), "```", ""] if text.strip() else []


def row_of(action: argparse.Action) -> tuple[str, str]:
    """Return how an option is written, and its help with the default value."""
    formatter = argparse.HelpFormatter("bw", width=10_000, max_help_position=9_000)
    written = formatter._format_action_invocation(action)
    return f"`{written}`", formatter._expand_help(action) if action.help else ""


# -- JSON documents --------------------------------------------------------------------


def document_page(kind: str) -> str:
    """Return the page of a JSON document: a table of its members, and one for each of its parts."""
    document = document_types()[kind]
    schema = json_schema(document)
    parts: dict[str, dict[str, Any]] = schema["$defs"]
    meanings = meanings_of(document)
    first = schema["$ref"].rpartition("/")[2]
    lines = [f"# {schema_name(document)}", "", f"`bw schema {kind}` prints the JSON Schema."]
    for name in sorted(parts, key=lambda name: (name != first, name)):
        part = parts[name]
        lines += ["", f"## {name}", "", part.get("description", ""), ""]
        if "properties" in part:
            needed = part.get("required", ())
            rows = [
                (
                    f"`{member}`",
                    type_text(of) + ("" if member in needed else ", optional"),
                    meanings.get((name, member), ""),
                )
                for member, of in part["properties"].items()
            ]
            lines += table(("member", "type", "meaning"), rows)
        elif "enum" in part:
            lines.append("One of " + ", ".join(f"`{one}`" for one in part["enum"]) + ".")
    return "\n".join([*lines, ""])


def type_text(schema: dict[str, Any]) -> str:
    """Return a JSON type in words, with a link to a part of the document."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(type_text(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        items = schema.get("items") or {}
        return f"array of {type_text(items)}" if items else "array"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"object of {type_text(values)}" if isinstance(values, dict) else "object"
    return str(schema.get("type", "any"))


def meanings_of(document: type[msgspec.Struct]) -> dict[tuple[str, str], str]:
    """Return the docstring of each member of a document's types, by the names of both."""
    return {
        (kind.__name__, member): meaning
        for kind in structs_in(document)
        for owner in reversed(kind.__mro__)
        if owner.__module__.startswith("benchwright.")
        for member, meaning in docstrings(owner).items()
    }


def structs_in(document: type[msgspec.Struct]) -> set[type]:
    """Return a document's type and those of its parts."""
    found: set[type] = set()

    def visit(one: Any) -> None:
        if isinstance(one, msgspec.inspect.StructType):
            if one.cls in found:
                return
            found.add(one.cls)
        for name in getattr(one, "__struct_fields__", ()):
            value = getattr(one, name)
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, msgspec.Struct):
                    visit(part)

    visit(msgspec.inspect.type_info(document))
    return found


@cache
def docstrings(kind: type) -> dict[str, str]:
    """Return the docstrings of a class's own fields."""
    (body,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    return {
        ast.unparse(field.target): " ".join(ast.literal_eval(text.value).split())
        for field, text in itertools.pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return ["| " + " | ".join(cell(one) for one in line) + " |" for line in lines]


def cell(text: str) -> str:
    """Return a text as the cell of a table: on one line, with bars and tags escaped outside code."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(
        part if code else part.replace("<", "&lt;").replace("|", "\\|")
        for part, code in zip(parts, itertools.cycle((False, True)), strict=False)
    )


# -- The site --------------------------------------------------------------------------


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each page that is made here, or kept outside docs/."""
    summaries = [
        (f"[bw {words}]({slug(words)}.md)", (one.description or "").partition("\n")[0])
        for words, one in commands().items()
    ]
    lines = ["# Commands", "", "Generated from the declarations of the options.", ""]
    yield (
        "reference/index.md",
        "\n".join([*lines, *table(("command", "what it does"), summaries), ""]),
    )
    for words in commands():
        yield f"reference/{slug(words)}.md", command_page(words)
    kinds = [
        (f"[{schema_name(one)}]({kind}.md)", (inspect.getdoc(one) or "").partition("\n\n")[0])
        for kind, one in document_types().items()
    ]
    lines = ["# JSON documents", "", "What `--json` prints, and what a study stores.", ""]
    lines += ["Generated from the types of the documents. Members may be added to a document;"]
    lines += ["a member that is removed or changed raises the number in `schema`.", ""]
    yield ("documents/index.md", "\n".join([*lines, *table(("document", "what it is"), kinds), ""]))
    for kind in document_types():
        yield f"documents/{kind}.md", document_page(kind)
    for name in OUTSIDE:
        yield name, (ROOT / name).read_text()


def slug(words: str) -> str:
    """Return the file name of a command's page."""
    return "bw-" + words.replace(" ", "-")


def title_of(page: Path) -> str:
    """Return the first heading of a page, without marks."""
    return page.read_text().partition("\n")[0].lstrip("# ").replace("`", "")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the lists of the navigation that are not written by hand."""
    docs = ROOT / "docs"
    written = (ROOT / "mkdocs.yml").read_text()
    others = [page for page in sorted(docs.glob("*.md")) if f": {page.name}" not in written]
    lists = {
        "reference/": [
            {"All commands": "reference/index.md"},
            *({f"bw {words}": f"reference/{slug(words)}.md"} for words in commands()),
        ],
        "documents/": [
            {"All documents": "documents/index.md"},
            *({kind: f"documents/{kind}.md"} for kind in document_types()),
        ],
        "decisions/": [
            {title_of(page): f"decisions/{page.name}"}
            for page in sorted((docs / "decisions").glob("*.md"))
        ],
        "others/": [{title_of(page): page.name} for page in others],
    }
    for section in config.nav or ():
        for title, entries in section.items():
            filled = [
                {name: lists.get(target, target) for name, target in entry.items()}
                for entry in entries
            ]
            section[title] = [entry for entry in filled if any(entry.values())]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for path, text in pages():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_others: object) -> str:
    """Link to the pages from outside docs/ where they are on the site; name other files without a
    link."""
    below = "../" * page.file.src_uri.count("/")

    def linked(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        inside = target.removeprefix("docs/")
        if page.file.src_uri in OUTSIDE:
            return (
                f"[{text}]({inside})"
                if files.get_file_from_path(inside.partition("#")[0])
                else text
            )
        name = target.removeprefix(f"{below}../")
        if name == target:
            return match[0]
        return f"[{text}]({below}{name})" if name.partition("#")[0] in OUTSIDE else text

    return re.sub(r"(?<!!)\[([^\]\n]+)\]\(((?!https?:|#)[^)\s]+)\)", linked, markdown)
