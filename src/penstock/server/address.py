"""Where the server listens, and how such a place is written: ``HOST:PORT``, IPv6 in brackets."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import NamedTuple

_WRITTEN = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>[0-9]{1,5})"
)
_LOCAL = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def local(self) -> Address:
        """How a program on this machine reaches it."""
        return Address(_LOCAL.get(self.host, self.host), self.port)


def read_address(text: str) -> Address:
    """Raises ValueError."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError
    port = int(found["port"])
    if port > 65535:
        raise ValueError
    if found["six"]:
        ip_address(found["six"])
    return Address(found["six"] or found["host"], port)
