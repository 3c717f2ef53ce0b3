"""`bw schema`: the JSON Schemas of the documents that `--json` prints and a study keeps."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from benchwright.cli.parser import add_command


def add_parser(commands: Any) -> None:
    """Add `bw schema` to the commands."""
    parser = add_command(commands, "schema")
    parser.add_argument(
        "kind",
        nargs="?",
        metavar="KIND",
        help="kind of document, such as `peak` (default: list the kinds)",
    )
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw schema` and return its exit code. Raises InputError."""
    import msgspec

    from benchwright.core.errors import argument_error
    from benchwright.report.schemas import document_types, json_schema, schema_name

    types = document_types()
    if arguments.kind is None:
        width = max(map(len, types))
        for kind, one in types.items():
            print(f"{kind:<{width}}  {schema_name(one)}")
        return 0
    document = types.get(arguments.kind)
    if document is None:
        message = f"there is no document of kind {arguments.kind!r}"
        hint = f"there are: {', '.join(types)}"
        raise argument_error("KIND", arguments.kind, message, hint)
    schema = msgspec.json.encode(json_schema(document))
    sys.stdout.write(msgspec.json.format(schema, indent=2).decode() + "\n")
    return 0
