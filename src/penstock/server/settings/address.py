"""Addresses to listen on, written ``HOST:PORT`` with IPv6 hosts in brackets."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import NamedTuple

_TEXT = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>[0-9]{1,5})"
)
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}


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
        """The address that a program on this machine connects to."""
        return Address(_LOOPBACK.get(self.host, self.host), self.port)


def parse_address(text: str) -> Address:
    """Raises ValueError."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError
    port = int(found["port"])
    if port > 65535:
        raise ValueError
    if found["ipv6"]:
        ip_address(found["ipv6"])
    return Address(found["ipv6"] or found["host"], port)
