"""`bw schema`: prints the JSON Schemas of `--json` documents and of a study's records."""

from __future__ import annotations

import argparse
import sys
from typing import Annotated, Any

import msgspec

from benchwright.cli.parser import add_command
from benchwright.inputs.options import Option, Text, add_options, request_from


class SchemaOptions(msgspec.Struct, frozen=True):
    """The options of `bw schema`."""

    kind: Annotated[
        Text,
        Option(
            "kind of document, such as `peak`",
            "KIND",
            default="list the kinds",
            positional=True,
            names="document",
        ),
    ] = None


def add_parser(commands: Any) -> None:
    """Add `bw schema` to the commands."""
    parser = add_command(commands, "schema")
    add_options(parser, SchemaOptions)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Run `bw schema`; return the exit code. Raises InputError."""
    from benchwright.cli.schemas import document_types, json_schema, schema_name
    from benchwright.core.errors import argument_error

    types = document_types()
    wanted = request_from(SchemaOptions, arguments).kind
    if wanted is None:
        width = max(map(len, types))
        for kind, one in types.items():
            print(f"{kind:<{width}}  {schema_name(one)}")
        return 0
    document = types.get(wanted)
    if document is None:
        message = f"there is no document of kind {wanted!r}"
        hint = f"there are: {', '.join(types)}"
        raise argument_error("KIND", wanted, message, hint)
    schema = msgspec.json.encode(json_schema(document))
    sys.stdout.write(msgspec.json.format(schema, indent=2).decode() + "\n")
    return 0
