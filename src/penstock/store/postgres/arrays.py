"""Parameters for statements over many rows: one array per column, in PostgreSQL's binary format.

psycopg writes a list value by value, and finds the type again for each list. Here the type is fixed, so a statement
is prepared once, and an array takes one call of ``struct`` or one join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from struct import Struct, pack
from typing import Any

from psycopg.adapt import AdaptersMap
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import BytesBinaryDumper, StrBinaryDumper

_BYTEA, _INT8, _TEXT = 17, 20, 25  # type numbers of PostgreSQL
_HEADER = Struct("!iiIii")  # dimensions, any NULL, type of the values, how many, number of the first
_LENGTH = Struct("!i")
_NULL = _LENGTH.pack(-1)


class Int8Array(bytes):
    """Numbers, ready to be sent."""


class ByteaArray(bytes):
    """Bytes or NULLs, ready to be sent."""


class TextArray(bytes):
    """Texts or NULLs, ready to be sent."""


def int8_array(values: Sequence[int]) -> Int8Array:
    """Raises struct.error for a number beyond 64 bits."""
    count = len(values)
    return Int8Array(
        _HEADER.pack(1, 0, _INT8, count, 1)
        + pack("!" + "iq" * count, *chain.from_iterable(zip(repeat(8), values, strict=False)))
    )


def columns(types: str, rows: Iterable[Sequence[Any]]) -> list[bytes]:
    """Rows, at least one, as one array per column. ``types`` has a letter for each: see ``_COLUMNS``."""
    return [_COLUMNS[letter](values) for letter, values in zip(types, zip(*rows, strict=True), strict=True)]


_COLUMNS: dict[str, Callable[[Sequence[Any]], bytes]] = {
    "i": int8_array,
    "b": lambda values: ByteaArray(_values(_BYTEA, values)),
    "t": lambda values: TextArray(_values(_TEXT, _utf_8(values))),
    "u": lambda values: ByteaArray(_values(_BYTEA, _utf_8(values))),
}
"""Numbers; numbers or NULL; bytes; texts or NULL; texts or NULL as bytes."""


def _utf_8(values: Iterable[str | None]) -> Iterator[bytes | None]:
    return (None if value is None else value.encode() for value in values)


def _values(type_number: int, values: Iterable[bytes | None]) -> bytes:
    parts, count, nulls = [b""], 0, 0
    for value in values:
        count += 1
        if value is None:
            nulls = 1
            parts.append(_NULL)
        else:
            parts.append(_LENGTH.pack(len(value)))
            parts.append(value)
    parts[0] = _HEADER.pack(1, nulls, type_number, count, 1)
    return b"".join(parts)


class _ArrayDumper:
    """Sends an array as it is."""

    format = Format.BINARY
    oid = 0

    def __init__(self, cls: type, context: object = None) -> None:
        self._cls = cls

    def dump(self, array: bytes) -> bytes:
        return array

    def quote(self, array: bytes) -> bytes:
        raise NotImplementedError("arrays are parameters, never part of a statement's text")

    def get_key(self, array: bytes, format: object) -> type:
        return self._cls

    def upgrade(self, array: bytes, format: object) -> _ArrayDumper:
        return self


class _Int8ArrayDumper(_ArrayDumper):
    oid = 1016


class _ByteaArrayDumper(_ArrayDumper):
    oid = 1001


class _TextArrayDumper(_ArrayDumper):
    oid = 1009


def register(adapters: AdaptersMap) -> None:
    """Parameters of a connection have one type each whatever their value, so statements are prepared once."""
    dumpers: dict[type, Any] = {
        int: Int8BinaryDumper, bytes: BytesBinaryDumper, str: StrBinaryDumper,
        Int8Array: _Int8ArrayDumper, ByteaArray: _ByteaArrayDumper, TextArray: _TextArrayDumper,
    }  # fmt: skip
    for cls, dumper in dumpers.items():
        adapters.register_dumper(cls, dumper)
