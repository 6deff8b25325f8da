"""URLs that the server may call: what an operator lists, and everything below it, or what is not private."""

from __future__ import annotations

import re
import unicodedata
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple, Protocol
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from penstock.outgoing.addresses import is_callable, is_public, is_within

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


class AddressRule(Protocol):
    """Decides which addresses of a host may be called."""

    def may_call(self, host: str, address: str) -> bool:
        """``host``: as the URL has it. ``address``: what it leads to, or is."""


class AllowedUrls:
    """What may be called: URLs of the operator, and everything below their paths."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._allowed = [url for text in allowed if (url := OutgoingUrl.parse(text)) is not None]

    def find(self, text: str) -> OutgoingUrl | None:
        """The URL, if it may be called."""
        url = OutgoingUrl.parse(text)
        return url if url is not None and any(url.is_below(each) for each in self._allowed) else None

    @staticmethod
    def may_call(host: str, address: str) -> bool:
        return is_address(host) or is_callable(address)  # the operator has named it


class CredentialUrl(NamedTuple):
    """A URL whose user and password, if it has them, were taken out."""

    url: OutgoingUrl
    authorization: str | None  # the value of the header

    @classmethod
    def parse(cls, text: str) -> CredentialUrl | None:
        """Returns None if the text is not a URL. A fragment is dropped, since no server gets it."""
        text = text.partition("#")[0]
        scheme, separator, rest = text.partition("://")
        place = re.split(r"[/?]", rest, maxsplit=1)[0]
        user, at, host = place.rpartition("@")
        if not at:
            url = OutgoingUrl.parse(text)
            return None if url is None else cls(url, None)
        url = OutgoingUrl.parse(f"{scheme}{separator}{host}{rest[len(place) :]}")
        if url is None or not user.isascii() or not user.isprintable() or " " in user or "\\" in user:
            return None
        user = user if ":" in user else f"{user}:"
        return cls(url, f"Basic {b64encode(unquote_to_bytes(user)).decode()}")


ALL_HOSTS = "all"


class OpenUrls:
    """Every URL may be called that leads to the internet. What is private may be called as far as an operator allows
    it, and addresses that no host has, and metadata services, never."""

    def __init__(self, private: Sequence[str] = ()) -> None:
        """``private``: names of hosts, addresses and networks, or ALL_HOSTS."""
        self._all = ALL_HOSTS in private
        self._hosts: set[str] = set()
        self._networks: list[IPv4Network | IPv6Network] = []
        for each in private:
            try:
                self._networks.append(ip_network(each, strict=False))
            except ValueError:
                self._hosts.add(each.lower().rstrip("."))

    def find(self, text: str) -> CredentialUrl | None:
        """The URL, if it may be called as far as that is known before its name is looked up."""
        found = CredentialUrl.parse(text)
        if found is None:
            return None
        host = found.url.host
        return None if is_address(host) and not self.may_call(host, host) else found

    def may_call(self, host: str, address: str) -> bool:
        if is_public(address):
            return True
        is_allowed = self._all or host in self._hosts or is_within(address, self._networks)
        return is_allowed and is_callable(address)


def is_address(host: str) -> bool:
    with suppress(ValueError):
        ip_address(host)
        return True
    return False
