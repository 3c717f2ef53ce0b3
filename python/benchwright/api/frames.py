"""Tables as data frames, by the Arrow PyCapsule interface without a dependency, and as HTML for
notebooks.

`StudyFrame.__arrow_c_stream__` exports one record batch of columns of int64, float64 and UTF-8
text, which pandas, polars, pyarrow and DuckDB read. Decision: the structures of the Arrow C data
interface by ctypes; pyarrow has over 40 MB, and the structures have ten fields. Memory belongs to
`_ALIVE` until the consumer calls `release`, from any thread. Source: Apache Arrow, The Arrow C data
interface; The Arrow C stream interface; The Arrow PyCapsule Interface.
"""

from __future__ import annotations

import ctypes
import html
import itertools
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec


def table_html(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of HTML; every text is escaped."""
    head = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


Values = Sequence[int | None] | Sequence[float | None] | Sequence[str | None]
_NULLABLE = 2
"""ARROW_FLAG_NULLABLE."""


class StudyFrame(msgspec.Struct, frozen=True):
    """A table: columns of the same length, each of one type, with None for what is absent."""

    columns: Mapping[str, Values]
    types: Mapping[str, str]
    """The type of each column: `int64`, `float64` or `text`."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> Values:
        """Return a column. Raises KeyError."""
        return self.columns[name]

    def rows(self) -> list[dict[str, int | float | str | None]]:
        """Return each row as a dictionary."""
        names = list(self.columns)
        values = zip(*self.columns.values(), strict=True)
        return [dict(zip(names, row, strict=True)) for row in values]

    def __arrow_c_schema__(self) -> object:
        """Return a capsule `arrow_schema`."""
        schema = _Schema()
        _fill_schema(schema, self)
        return _capsule(schema, b"arrow_schema")

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule `arrow_array_stream` with one record batch.

        `requested_schema` is a wish, which the interface permits to ignore.
        """
        stream = _Stream()
        stream.get_schema, stream.get_next = _GET_SCHEMA, _GET_NEXT
        stream.get_last_error, stream.release = _GET_LAST_ERROR, _RELEASE_STREAM
        stream.private_data = _keep([self, False])
        return _capsule(stream, b"arrow_array_stream")

    def _repr_html_(self) -> str:

        texts = [
            ["" if value is None else str(value) for value in row.values()] for row in self.rows()
        ]
        return table_html(list(self.columns), texts)


# -- The structures --------------------------------------------------------------------


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_SchemaPointer = ctypes.POINTER(_Schema)
_ArrayPointer = ctypes.POINTER(_Array)
_StreamPointer = ctypes.POINTER(_Stream)
_ReleaseSchema = ctypes.CFUNCTYPE(None, _SchemaPointer)
_ReleaseArray = ctypes.CFUNCTYPE(None, _ArrayPointer)
_ReleaseStream = ctypes.CFUNCTYPE(None, _StreamPointer)
_GetSchema = ctypes.CFUNCTYPE(ctypes.c_int, _StreamPointer, _SchemaPointer)
_GetNext = ctypes.CFUNCTYPE(ctypes.c_int, _StreamPointer, _ArrayPointer)
_GetLastError = ctypes.CFUNCTYPE(ctypes.c_void_p, _StreamPointer)
_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(_SchemaPointer)),
    ("dictionary", _SchemaPointer),
    ("release", _ReleaseSchema),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(_ArrayPointer)),
    ("dictionary", _ArrayPointer),
    ("release", _ReleaseArray),
    ("private_data", ctypes.c_void_p),
]
_Stream._fields_ = [
    ("get_schema", _GetSchema),
    ("get_next", _GetNext),
    ("get_last_error", _GetLastError),
    ("release", _ReleaseStream),
    ("private_data", ctypes.c_void_p),
]

_ALIVE: dict[int, Any] = {}
"""What exported structures refer to, by their `private_data`."""
_NUMBERS = itertools.count(1)
_FORMATS = {"int64": b"l", "float64": b"g", "text": b"u"}


def _keep(what: object) -> int:
    number = next(_NUMBERS)
    _ALIVE[number] = what
    return number


def _fill_schema(schema: _Schema, frame: StudyFrame) -> None:
    children = (_Schema * len(frame.columns))()
    pointers = (_SchemaPointer * len(frame.columns))()
    for at, name in enumerate(frame.columns):
        child = children[at]
        texts = (_FORMATS[frame.types[name]], name.encode())
        child.format, child.name, child.flags = *texts, _NULLABLE
        child.release, child.private_data = _RELEASE_SCHEMA, _keep(texts)
        pointers[at] = ctypes.pointer(child)
    schema.format, schema.name = b"+s", b""
    schema.n_children, schema.children = len(children), pointers
    schema.release = _RELEASE_SCHEMA
    schema.private_data = _keep((children, pointers))


def _fill_array(batch: _Array, frame: StudyFrame) -> None:
    children = (_Array * len(frame.columns))()
    pointers = (_ArrayPointer * len(frame.columns))()
    for at, (name, values) in enumerate(frame.columns.items()):
        child = children[at]
        buffers = _buffers(frame.types[name], values)
        _set_buffers(child, buffers)
        child.length = len(values)
        child.null_count = sum(value is None for value in values)
        pointers[at] = ctypes.pointer(child)
    _set_buffers(batch, [None], children, pointers)
    batch.length = len(frame)
    batch.n_children, batch.children = len(children), pointers


def _set_buffers(array_: _Array, buffers: list[Any], *also: object) -> None:
    addresses = (ctypes.c_void_p * len(buffers))(
        *(None if buffer is None else ctypes.addressof(buffer) for buffer in buffers)
    )
    array_.n_buffers, array_.buffers = len(buffers), addresses
    array_.release = _RELEASE_ARRAY
    array_.private_data = _keep((buffers, addresses, *also))


def _buffers(kind: str, values: Values) -> list[Any]:
    """Return the validity bitmap and the buffers with the values, as arrays of ctypes."""
    bits = bytearray(-(-len(values) // 8))
    for at, value in enumerate(values):
        bits[at // 8] |= (value is not None) << at % 8
    if kind == "text":
        texts = ["" if value is None else str(value) for value in values]
        data = [text.encode(errors="replace") for text in texts]
        offsets = array("i", itertools.accumulate(map(len, data), initial=0))
        parts: list[Any] = [offsets, b"".join(data)]
    else:
        code = "q" if kind == "int64" else "d"
        parts = [array(code, (0 if value is None else value for value in values))]
    return [_block(bytes(part)) for part in (bits, *parts)]


def _block(data: bytes) -> Any:
    """Return memory with these bytes; at least one, because an address must not be null."""
    return ctypes.create_string_buffer(data, max(1, len(data)))


# -- The functions that a consumer calls -----------------------------------------------


def _call_release_schema(pointer: Any) -> None:
    _release(pointer.contents, _ReleaseSchema)


def _call_release_array(pointer: Any) -> None:
    _release(pointer.contents, _ReleaseArray)


def _release(one: Any, no_function: Any) -> None:
    """Release a structure and those of its children that the consumer did not move away."""
    for at in range(one.n_children):
        child = one.children[at]
        if child.contents.release:
            child.contents.release(child)
    one.release = no_function()
    _ALIVE.pop(one.private_data, None)


def _call_release_stream(pointer: Any) -> None:
    stream = pointer.contents
    stream.release = _ReleaseStream()
    _ALIVE.pop(stream.private_data, None)


def _call_get_schema(stream: Any, into: Any) -> int:
    frame, _ = _ALIVE[stream.contents.private_data]
    _fill_schema(into.contents, frame)
    return 0


def _call_get_next(stream: Any, into: Any) -> int:
    """Fill in the batch; the second time none, which a null `release` marks."""
    state = _ALIVE[stream.contents.private_data]
    if state[1]:
        ctypes.memset(into, 0, ctypes.sizeof(_Array))
        return 0
    state[1] = True
    ctypes.memset(into, 0, ctypes.sizeof(_Array))
    _fill_array(into.contents, state[0])
    return 0


def _call_get_last_error(_stream: Any) -> None:
    return None


_RELEASE_SCHEMA = _ReleaseSchema(_call_release_schema)
_RELEASE_ARRAY = _ReleaseArray(_call_release_array)
_RELEASE_STREAM = _ReleaseStream(_call_release_stream)
_GET_SCHEMA = _GetSchema(_call_get_schema)
_GET_NEXT = _GetNext(_call_get_next)
_GET_LAST_ERROR = _GetLastError(_call_get_last_error)


# -- Capsules --------------------------------------------------------------------------

_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
"""Its argument is the capsule's address: a reference would revive an object that is deleted."""
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_name_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_EXPORTED: dict[int, tuple[Any, bytes]] = {}
"""The structures of living capsules by address, with their names."""


def _call_destroy(capsule: int) -> None:
    """Release a structure that no consumer has moved away, and its memory."""
    address = _pointer_of(capsule, _name_of(capsule))
    one, _ = _EXPORTED.pop(address)
    if one.release:
        one.release(ctypes.pointer(one))


_DESTROY = _Destructor(_call_destroy)


def _capsule(one: Any, name: bytes) -> object:
    address = ctypes.addressof(one)
    _EXPORTED[address] = (one, name)
    return _new(address, name, _DESTROY)
