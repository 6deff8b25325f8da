"""JSON for the audit log: safe to print in a terminal, and of limited size.

Values may be as large as a request, so everything here is done in few passes over bytes.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from itertools import islice
from typing import Any

import msgspec

TEXT_MAX = 512  # characters of a single text that the caller chose: a name, a user agent, an error message

_ELLIPSIS = "…"
# With this much room for each member of a list or map, its name and the beginning of its value can be shown.
_MEMBER_BYTES = 128

# JSON escapes control characters below the space. DEL and C1 can control a terminal too: CSI begins a command.
# In UTF-8 the byte C2 starts these characters, and is not part of other ones.
_DELETE, _ESCAPED_DELETE = b"\x7f", b"\\u007f"
_C1 = [(chr(code).encode(), b"\\u%04x" % code) for code in range(0x80, 0xA0)]


def encode(value: Any) -> bytes:
    text = _plain(value).replace(_DELETE, _ESCAPED_DELETE)
    if b"\xc2" in text:
        for control, escape in _C1:
            text = text.replace(control, escape)
    return text


def _plain(value: Any) -> bytes:
    """Encodes without the additional escapes: never larger than :func:`encode`, and much faster."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can represent
        return json.dumps(value, ensure_ascii=True).encode()


def cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + _ELLIPSIS


def fit(parameters: Mapping[str, Any], bytes_max: int) -> tuple[Mapping[str, Any], int | None]:
    """``parameters`` in at most ``bytes_max`` of JSON, and their full size if they had to be cut.

    Texts are cut to the largest limit at which everything fits, so that short values stay whole and none can be
    hidden behind a long one. Lists and maps keep their first members and a count of the others.
    """
    size = _size(parameters, bytes_max)
    if size <= bytes_max:
        return parameters, None

    def at(limit: int) -> dict[str, Any]:
        return {
            name: _truncated(value, limit, bytes_max // _MEMBER_BYTES) for name, value in parameters.items()
        }

    limits = range(bytes_max)
    best = bisect_right(limits, bytes_max, key=lambda limit: _size(at(limit), bytes_max)) - 1
    return at(max(best, 0)), size


def _size(value: Any, bytes_max: int) -> int:
    """Returns the size, which is exact up to ``bytes_max``; beyond it the escapes are not worth counting."""
    size = len(_plain(value))
    return size if size > bytes_max else len(encode(value))


def _truncated(value: Any, limit: int, members_max: int) -> Any:
    if isinstance(value, str):
        # In bytes: characters that take more room must not leave less for other texts.
        start = value[:limit].encode(errors="backslashreplace")
        if len(start) <= limit and len(value) <= limit:
            return value
        return start[:limit].decode(errors="ignore") + _ELLIPSIS
    if isinstance(value, Mapping):
        members = {
            _truncated(name, limit, members_max): _truncated(item, limit, members_max)
            for name, item in islice(value.items(), members_max)
        }
        more = len(value) - members_max
        return members | {_ELLIPSIS: f"{more} more"} if more > 0 else members
    if isinstance(value, list):
        items = [_truncated(item, limit, members_max) for item in value[:members_max]]
        more = len(value) - members_max
        return [*items, f"{_ELLIPSIS} {more} more"] if more > 0 else items
    return value
