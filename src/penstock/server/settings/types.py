"""The types of setting values: how each is parsed from TOML, from an environment variable or from a flag.

A type accepts text, which is all that variables and flags can give, and the TOML values that mean the same. Anything
else raises ValueError, and ``expected`` completes the message for the operator. A list can be given as text with
commas; its flag can also be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from penstock.names import is_account, is_region
from penstock.quantities import BYTES, SECONDS, parse_quantity
from penstock.server.settings.address import Address, parse_address

REGION_PLACEHOLDER = "{region}"


class SettingType(NamedTuple):
    expected: str
    parse: Callable[[object], Any]
    metavar: str  # in the help of a flag
    repeatable: bool = False


class InvalidItem(ValueError):
    """One item of a list is invalid: the message shows this item, not the whole list."""

    def __init__(self, item: str) -> None:
        super().__init__(item)
        self.item = item


_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^/@]*@")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value.strip()


def _matching(matches: Callable[[str], object]) -> Callable[[object], str]:
    def parse(value: object) -> str:
        text = _text(value)
        if not matches(text):
            raise ValueError
        return text

    return parse


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = _text(value).lower()
    if text not in _TRUE + _FALSE:
        raise ValueError
    return text in _TRUE


def _quantity(value: object, units: Mapping[str, float]) -> float:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError
    return parse_quantity(str(value), units)


def _list(value: object, parse: Callable[[str], Any]) -> tuple[Any, ...]:
    if isinstance(value, str):
        value = [item for item in value.split(",") if item.strip()]
    if not isinstance(value, (list, tuple)):
        raise ValueError
    return tuple(_item(item, parse) for item in value)


def _item(item: object, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(_text(item))
    except ValueError:
        raise InvalidItem(str(item)) from None


def _addresses(value: object) -> tuple[Address, ...]:
    found = _list(value, parse_address)
    for number, address in enumerate(found):
        if address.port and address in found[:number]:
            raise InvalidItem(str(address))
    return found


def _url(value: object) -> str:
    text = _text(value)
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError
    return text.rstrip("/")


def _public_url(value: object) -> str:
    text = _url(value)
    host = urlsplit(text).netloc
    # The placeholder belongs in the host, once: a request to such a host tells its region.
    rest = text.replace(host, host.replace(REGION_PLACEHOLDER, "", 1), 1)
    if "{" in rest or "}" in rest:
        raise ValueError
    return text


def _audit_file(value: object) -> str:
    text = _text(value)
    return text.lower() if text.lower() in ("auto", "off") else str(Path(text).expanduser())


def _database(value: object) -> str:
    text = _text(value)
    if urlsplit(text).scheme not in ("postgresql", "postgres"):
        raise ValueError
    return text


def without_password(text: str) -> str:
    """A URL as it may be shown; what follows ? can hold a password, too."""
    return _PASSWORD.sub(r"\1@", text).partition("?")[0] if "://" in text else text


def _private_endpoints(value: object) -> tuple[str, ...]:
    if isinstance(value, str) and value.strip().lower() in ("all", "none"):
        return () if value.strip().lower() == "none" else ("all",)
    return _list(value, _host_or_network)


def _host_or_network(text: str) -> str:
    if "/" in text or ":" in text:
        return str(ip_network(text, strict=False))
    if not _HOST.fullmatch(text) or text.lower() in ("all", "none"):
        raise ValueError
    return text.lower()


def _mail_url(value: object) -> str:
    from penstock.publishing.email_delivery import MailServer  # not needed by commands that do not send mail

    text = _text(value)
    MailServer.parse(text, "nobody@example.com")
    return text


def _mail_address(text: str) -> bool:
    from penstock.publishing.email_delivery import is_mail_address

    return is_mail_address(text)


def _origin(value: str) -> str:
    return value if value == "*" else _url(value)


def integer(low: int, high: int) -> SettingType:
    def parse(value: object) -> int:
        if isinstance(value, bool) or not re.fullmatch(r"\s*[0-9]{1,18}\s*", str(value)):
            raise ValueError
        number = int(str(value))
        if not low <= number <= high:
            raise ValueError
        return number

    return SettingType(f"an integer from {low} to {high}", parse, "NUMBER")


def size(low: int, low_shown: str) -> SettingType:
    def parse(value: object) -> int:
        amount = _quantity(value, BYTES)
        if not low <= amount < 2**50:
            raise ValueError
        return int(amount)

    return SettingType(f'a size such as "96MB" or "1GB", at least {low_shown}', parse, "SIZE")


def duration(low: float, high: float) -> SettingType:
    def parse(value: object) -> float:
        seconds = _quantity(value, SECONDS)
        if not low <= seconds <= high:
            raise ValueError
        return seconds

    return SettingType(f'a duration such as "30s" or "2m", from {low:g} to {high:g} seconds', parse, "TIME")


def choice(*options: str) -> SettingType:
    def parse(value: object) -> str:
        text = _text(value).lower()
        if text not in options:
            raise ValueError
        return text

    return SettingType("one of " + ", ".join(options), parse, "|".join(options))


HOST = SettingType(
    "a host name or an IP address", _matching(re.compile(r"[A-Za-z0-9._:%-]+").fullmatch), "ADDRESS"
)
BOOLEAN = SettingType("true or false", _boolean, "true|false")
TEXT = SettingType("text", _text, "TEXT")
PATH = SettingType("a path", lambda value: Path(_text(value)).expanduser(), "PATH")
AUDIT_FILE = SettingType("auto, off, or the path of a file", _audit_file, "auto|off|PATH")
ACCOUNT = SettingType("twelve digits (quoted, as text)", _matching(is_account), "DIGITS")
REGION = SettingType("a region such as us-east-1", _matching(is_region), "REGION")
REGIONS = SettingType(
    "regions such as us-east-1, separated by commas",
    lambda value: _list(value, _matching(is_region)),
    "REGIONS",
    repeatable=True,
)
PUBLIC_URL = SettingType(
    "a URL such as https://queues.example.com, or https://sqs.{region}.example.com", _public_url, "URL"
)
NETWORKS = SettingType(
    "networks such as 10.0.0.0/8, separated by commas",
    lambda value: _list(value, lambda item: ip_network(item, strict=False)),
    "NETWORKS",
    repeatable=True,
)
ORIGINS = SettingType(
    "origins such as https://app.example.com, separated by commas, or *",
    lambda value: _list(value, _origin),
    "ORIGINS",
    repeatable=True,
)
URLS = SettingType(
    "URLs such as https://hooks.example.com/alarms, separated by commas",
    lambda value: _list(value, _url),
    "URLS",
    repeatable=True,
)
PRIVATE_ENDPOINTS = SettingType(
    "all, none, or hosts and networks such as hooks.internal and 10.0.0.0/8, separated by commas",
    _private_endpoints,
    "all|none|HOSTS",
    repeatable=True,
)
MAIL_URL = SettingType(
    "a URL such as smtp://user@mail.example.com:587?tls=starttls, or smtps://mail.example.com",
    _mail_url,
    "URL",
)
MAIL_ADDRESS = SettingType("a mail address such as topics@example.com", _matching(_mail_address), "ADDRESS")
DATABASE = SettingType(
    "the URL of a PostgreSQL database such as postgresql://penstock@db.internal/penstock", _database, "URL"
)
ADDRESS = SettingType(
    "an address such as 10.0.0.5:9400 or [fd00::5]:9400",
    lambda value: parse_address(_text(value)),
    "HOST:PORT",
)
ADDRESSES = SettingType(
    "addresses such as 127.0.0.1:9324 or [::1]:9324, separated by commas, each of them once",
    _addresses,
    "HOST:PORT",
    repeatable=True,
)
