"""Calls of gRPC as users write them: targets, `.proto` files with their imports, metadata, statuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchwright.features.load import parse as words
from benchwright.features.load import request as r

FILES = {
    "a/api/greeter.proto": 'import "api/kind.proto";\nimport public "shared.proto";\n// import "no.proto";',
    "a/api/kind.proto": 'import "google/protobuf/any.proto";',
    "b/shared.proto": "import 'api/greeter.proto';\nimport \"gone.proto\";",
}


def read(path: str) -> bytes | None:
    text = FILES.get(path)
    return None if text is None else text.encode()


def test_a_target_is_an_http_server_with_http_2() -> None:
    plain, secure = map(words.parse_target, ("grpc://h:5", "grpcs://h:5"))
    assert isinstance(plain, r.HttpTarget)
    assert isinstance(secure, r.HttpTarget)
    assert (plain.url, plain.http, plain.tls) == ("grpc://h:5/", "2", None)
    assert (secure.url, secure.http, secure.tls) == ("grpcs://h:5/", "2", r.Tls())
    assert words.is_grpc(plain)
    assert words.address_of(plain) == "h:5"
    with pytest.raises(ValueError, match="--grpc"):
        words.parse_target("grpc://h:5/demo.Greeter/Hello")


def test_imports_are_found_in_the_directories() -> None:
    found = words.proto_files("a/api/greeter.proto", "a:b", read)
    names = {file.name: file.text for file in found}
    assert found[0].name == "api/greeter.proto"
    assert names == {
        "api/greeter.proto": FILES["a/api/greeter.proto"],
        "api/kind.proto": FILES["a/api/kind.proto"],
        "shared.proto": FILES["b/shared.proto"],
    }


def test_without_directories_imports_are_beside_the_file() -> None:
    found = words.proto_files("a/api/kind.proto", None, read)
    assert [file.name for file in found] == ["kind.proto"]
    assert words.proto_files("none.proto", None, read) == ()


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("Tenant: a:b ", ("tenant", "a:b")),
        ("x-bin:AAE=", ("x-bin", "AAE")),
        ("empty:", ("empty", "")),
    ],
)
def test_metadata_are_a_name_and_a_value(text: str, pair: tuple[str, str]) -> None:
    assert words.grpc_metadata(text) == pair


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (words.grpc_metadata, "tenant"),
        (words.grpc_metadata, "a b:c"),
        (words.grpc_metadata, "grpc-timeout:1S"),
        (words.grpc_metadata, "x-bin:%"),
        (words.grpc_method, "Hello"),
        (words.grpc_method, "demo.Greeter/"),
        (words.grpc_statuses, "OK"),
        (words.grpc_statuses, "NOT_FOUND,"),
        (words.grpc_data, "@no/such/file"),
        (words.proto_path, "no/such/file"),
    ],
)
def test_what_is_wrong_is_refused(parse: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ValueError, match=r"is no|a name of gRPC|No such file"):
        parse(text)


def test_statuses_have_numbers() -> None:
    assert words.grpc_statuses("not_found, UNAUTHENTICATED") == (5, 16)
