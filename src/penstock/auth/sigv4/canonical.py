"""The one spelling of a request that both ends of a signature agree on.

Rule 1: whatever can change what a request means changes its canonical form; what only looks different (the case of
a header's name, the order of parameters, how a character is escaped) does not.
Rule 2: every function takes linear time, apart from one sort of the parameters.

The path is escaped once more than it was sent, as every service but S3 wants it: ``%20`` is signed as ``%2520``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from urllib.parse import quote_from_bytes, unquote_to_bytes

_UNRESERVED = "-._~"  # besides letters and digits (RFC 3986, 2.3)

Parameters = list[tuple[bytes, bytes]]
"""Names and values of a query string, in order, unescaped."""


def canonical_path(path: bytes) -> bytes:
    if path == b"/":
        return path
    kept: list[bytes] = []
    for segment in path.split(b"/"):
        if segment == b"..":
            del kept[-1:]
        elif segment not in (b"", b"."):
            kept.append(segment)
    end = b"/" if kept and path.endswith(b"/") else b""
    return b"/" + quote_from_bytes(b"/".join(kept), "/" + _UNRESERVED).encode() + end


def read_parameters(query: bytes) -> Parameters:
    # A plus means a space to whoever reads the parameters afterwards, so it is signed as one.
    pairs = (pair.partition(b"=") for pair in query.replace(b"+", b" ").split(b"&") if pair)
    return [(unquote_to_bytes(name), unquote_to_bytes(value)) for name, _, value in pairs]


def canonical_query(parameters: Parameters) -> bytes:
    """All but the signature itself, which only a presigned URL has."""
    escaped = [(_escaped(name), _escaped(value)) for name, value in parameters if name != b"X-Amz-Signature"]
    return "&".join(f"{name}={value}" for name, value in sorted(escaped)).encode()


def _escaped(text: bytes) -> str:
    return quote_from_bytes(text, _UNRESERVED)


def merged_headers(
    headers: Sequence[tuple[bytes, bytes]], by_name: Mapping[bytes, bytes]
) -> Mapping[bytes, bytes]:
    """Each header once, by its lower-case name; one that was given again is a list without spaces."""
    if len(headers) == len(by_name):
        return by_name
    lists: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        lists.setdefault(name.lower(), []).append(value.strip())
    return {name: b",".join(values) for name, values in lists.items()}


class HeaderLines:
    """A line for each signed header, with every run of white space, line folds included, as one space.

    Clients sign the same headers in every request, so their names are put in place once.
    """

    __slots__ = ("_names", "_template", "_values")

    def __init__(self, names: Sequence[bytes]) -> None:
        self._names = names
        self._template = b"".join([b"%b:%%b\n" % name.replace(b"%", b"%%") for name in names])
        self._values = itemgetter(*names)

    def of(self, headers: Mapping[bytes, bytes]) -> bytes:
        """Raises KeyError for a name that is not there."""
        lines: bytes = self._template % self._values(headers)
        if lines.count(b"\n") == len(self._names):
            for untidy in _UNTIDY:
                if untidy in lines:
                    break
            else:
                return lines
        return b"".join([b"%b:%b\n" % (name, b" ".join(headers[name].split())) for name in self._names])


# One of these is in the lines if a value has white space at an end, or other than a single space within.
_UNTIDY = (b": ", b" \n", b"  ", b"\t", b"\r", b"\v", b"\f")
