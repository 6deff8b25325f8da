"""URLs that the server may call: what an operator lists, and everything below it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_PORTS = {"http": 80, "https": 443}


class OutgoingUrl(NamedTuple):
    scheme: str
    host: str
    port: int
    path: str
    query: str

    @classmethod
    def parse(cls, text: str) -> OutgoingUrl | None:
        """Returns None if the text is not a URL that means the same to everyone who reads it."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            return None
        scheme, host = parts.scheme.lower(), parts.hostname
        if scheme not in _PORTS or not host or port == 0 or "@" in parts.netloc or parts.fragment:
            return None
        if not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
            return None
        if not _is_plain(parts.path):
            return None
        return cls(scheme, host.lower().rstrip("."), port or _PORTS[scheme], parts.path or "/", parts.query)

    def is_below(self, allowed: OutgoingUrl) -> bool:
        """Whether the address is the same, and the path is the same one or below it."""
        prefix = allowed.path.rstrip("/")
        is_same_path = self.path == allowed.path or self.path.startswith(f"{prefix}/")
        return self[:3] == allowed[:3] and is_same_path

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def _is_plain(path: str) -> bool:
    """Whether no server sees a segment in it that leads upwards, or a control character.

    Servers decode a path before they resolve it, some of them more than once, or without a check that it is UTF-8.
    Some take other forms of a character for it, and some drop what follows a semicolon in a segment."""
    while (decoded := unicodedata.normalize("NFKC", unquote(path))) != path:
        path = decoded
    if "\ufffd" in path:  # no UTF-8, such as a dot in two bytes
        return False
    names = [segment.partition(";")[0].strip() for segment in re.split(r"[/\\]", path)]
    return path.isprintable() and not any(name and not name.strip(".") for name in names)


class AllowedUrls:
    """What may be called: URLs of the operator, and everything below their paths."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._allowed = [url for text in allowed if (url := OutgoingUrl.parse(text)) is not None]

    def find(self, text: str) -> OutgoingUrl | None:
        """The URL, if it may be called."""
        url = OutgoingUrl.parse(text)
        return url if url is not None and any(url.is_below(each) for each in self._allowed) else None
