"""The kinds of values a setting can have: how each is read from TOML, from a variable or from a flag.

A kind takes text (variables and flags know nothing else) and the TOML types that mean the same. What it does
not take raises ValueError; ``allowed`` then tells the operator what would have been right. A list may be given
as text with commas; its flag may also be given several times.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from penstock.names import is_account, is_region
from penstock.server.address import Address, read_address


class Kind(NamedTuple):
    allowed: str
    read: Callable[[object], Any]
    placeholder: str  # shown in the help of a flag
    repeatable: bool = False


class WrongPart(ValueError):
    """One part of a list is wrong: the operator is shown this one, not the whole list."""

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part


_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS[_letter] = _UNITS[f"{_letter}b"] = _UNITS[f"{_letter}ib"] = 1024**_power
_SECONDS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*")
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


def _string(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value.strip()


def _such(fits: Callable[[str], object]) -> Callable[[object], str]:
    def read(value: object) -> str:
        text = _string(value)
        if not fits(text):
            raise ValueError
        return text

    return read


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = _string(value).lower()
    if text not in _TRUE + _FALSE:
        raise ValueError
    return text in _TRUE


def _quantity(value: object, units: dict[str, Any]) -> float:
    if isinstance(value, bool):
        raise ValueError
    found = _QUANTITY.fullmatch(str(value).lower() if isinstance(value, (str, int, float)) else "")
    if found is None or found[2] not in units:
        raise ValueError
    amount: float = float(found[1]) * units[found[2]]
    return amount


def _list(value: object, read: Callable[[str], Any]) -> tuple[Any, ...]:
    if isinstance(value, str):
        value = [part for part in value.split(",") if part.strip()]
    if not isinstance(value, (list, tuple)):
        raise ValueError
    return tuple(_part(part, read) for part in value)


def _part(part: object, read: Callable[[str], Any]) -> Any:
    try:
        return read(_string(part))
    except ValueError:
        raise WrongPart(str(part)) from None


def _addresses(value: object) -> tuple[Address, ...]:
    found = _list(value, read_address)
    for number, address in enumerate(found):
        if address.port and address in found[:number]:
            raise WrongPart(str(address))
    return found


def _url(value: object) -> str:
    text = _string(value)
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError
    return text.rstrip("/")


def _trail(value: object) -> str:
    text = _string(value)
    return text.lower() if text.lower() in ("auto", "off") else str(Path(text).expanduser())


def _origin(value: str) -> str:
    return value if value == "*" else _url(value)


def whole(low: int, high: int) -> Kind:
    def read(value: object) -> int:
        if isinstance(value, bool) or not re.fullmatch(r"\s*[0-9]{1,18}\s*", str(value)):
            raise ValueError
        number = int(str(value))
        if not low <= number <= high:
            raise ValueError
        return number

    return Kind(f"a whole number from {low} to {high}", read, "NUMBER")


def size(low: int, low_shown: str) -> Kind:
    def read(value: object) -> int:
        amount = _quantity(value, _UNITS)
        if not low <= amount < 2**50:
            raise ValueError
        return int(amount)

    return Kind(f'a number of bytes such as "96MB" or "1GB", at least {low_shown}', read, "SIZE")


def duration(low: float, high: float) -> Kind:
    def read(value: object) -> float:
        seconds = _quantity(value, _SECONDS)
        if not low <= seconds <= high:
            raise ValueError
        return seconds

    return Kind(f'a time such as "30s" or "2m", from {low:g} to {high:g} seconds', read, "TIME")


def choice(*options: str) -> Kind:
    def read(value: object) -> str:
        text = _string(value).lower()
        if text not in options:
            raise ValueError
        return text

    return Kind("one of " + ", ".join(options), read, "|".join(options))


HOST = Kind("a host name or an IP address", _such(re.compile(r"[A-Za-z0-9._:%-]+").fullmatch), "ADDRESS")
BOOLEAN = Kind("true or false", _boolean, "true|false")
TEXT = Kind("text", _string, "TEXT")
PATH = Kind("a path", lambda value: Path(_string(value)).expanduser(), "PATH")
TRAIL = Kind("auto, off, or the path of a file", _trail, "auto|off|PATH")
ACCOUNT = Kind("twelve digits (quoted, as text)", _such(is_account), "DIGITS")
REGION = Kind("a region such as us-east-1", _such(is_region), "REGION")
REGIONS = Kind(
    "regions such as us-east-1, separated by commas",
    lambda value: _list(value, _such(is_region)),
    "REGIONS",
    repeatable=True,
)
URL = Kind("a URL such as https://queues.example.com", _url, "URL")
NETWORKS = Kind(
    "networks such as 10.0.0.0/8, separated by commas",
    lambda value: _list(value, lambda part: ip_network(part, strict=False)),
    "NETWORKS",
    repeatable=True,
)
ORIGINS = Kind(
    "origins such as https://app.example.com, separated by commas, or *",
    lambda value: _list(value, _origin),
    "ORIGINS",
    repeatable=True,
)
ADDRESSES = Kind(
    "addresses such as 127.0.0.1:9324 or [::1]:9324, separated by commas, each of them once",
    _addresses,
    "HOST:PORT",
    repeatable=True,
)
