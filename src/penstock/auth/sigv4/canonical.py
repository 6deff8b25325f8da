"""The canonical form of a request that client and server both sign.

Whatever changes the meaning of a request changes its canonical form. The case of a header's name, the order of
parameters and the way characters are escaped do not. Everything takes linear time, apart from one sort of the
parameters. The path is escaped once more than it was sent, as for every service but S3: ``%20`` is signed as
``%2520``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from urllib.parse import quote_from_bytes, unquote_to_bytes

_UNRESERVED = "-._~"  # besides letters and digits (RFC 3986, 2.3)

Headers = Collection[tuple[bytes, bytes]]
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
    # The protocols read a plus as a space, so it is signed as one.
    pairs = (pair.partition(b"=") for pair in query.replace(b"+", b" ").split(b"&") if pair)
    return [(unquote_to_bytes(name), unquote_to_bytes(value)) for name, _, value in pairs]


def canonical_query(parameters: Parameters) -> bytes:
    """All parameters but the signature itself, which only a presigned URL has."""
    escaped = [(_escaped(name), _escaped(value)) for name, value in parameters if name != b"X-Amz-Signature"]
    return "&".join(f"{name}={value}" for name, value in sorted(escaped)).encode()


def _escaped(text: bytes) -> str:
    return quote_from_bytes(text, _UNRESERVED)


def merged_headers(headers: Headers) -> dict[bytes, bytes]:
    """Each header once, by its lower-case name; the values of a repeated one are joined by commas without spaces."""
    lists: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        lists.setdefault(name.lower(), []).append(value.strip())
    return {name: b",".join(values) for name, values in lists.items()}


class HeaderLines:
    """A line for each signed header, with every run of white space, line folds included, as one space.

    Clients sign the same headers in every request: their names are put into a template once.
    """

    __slots__ = ("_names", "_template", "values")

    def __init__(self, names: Sequence[bytes]) -> None:
        self._names = names
        self._template = b"".join([b"%b:%%b\n" % name.replace(b"%", b"%%") for name in names])
        self.values: Callable[[Mapping[bytes, bytes]], object] = itemgetter(*names)
        """What the lines are made of. Raises KeyError for a header that is missing."""

    def of(self, headers: Mapping[bytes, bytes]) -> bytes:
        """Raises KeyError for a header that is missing."""
        lines = self._template % self.values(headers)
        if lines.count(b"\n") != len(self._names) or (
            b": " in lines or b" \n" in lines or b"  " in lines or _has_other_space(lines)
        ):
            lines = b"".join([b"%b:%b\n" % (name, b" ".join(headers[name].split())) for name in self._names])
        return lines


def _has_other_space(lines: bytes) -> bool:
    return b"\t" in lines or b"\r" in lines or b"\v" in lines or b"\f" in lines
