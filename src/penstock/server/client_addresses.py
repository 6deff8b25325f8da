"""Who counts as one client, or as one caller, where something is limited for each.

An IPv6 client has a whole network of 2^64 addresses to come from, so the network counts. This machine and trusted
proxies speak for many, so no limit by address is held against them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.auth.principal import Principal

Network = IPv4Network | IPv6Network

_CLIENT_PREFIX = 64


def read_ip(address: str) -> IPv4Address | IPv6Address | None:
    """None if it is none. A dual-stack socket shows IPv4 peers as ::ffff:a.b.c.d: they are what they are."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return getattr(ip, "ipv4_mapped", None) or ip


def is_within(address: str, networks: Sequence[Network]) -> bool:
    ip = read_ip(address)
    return ip is not None and any(ip in network for network in networks)


def network_of(address: str) -> str:
    """What counts as one client: an address of IPv4, a network of IPv6."""
    ip = read_ip(address)
    if isinstance(ip, IPv6Address):
        return str(IPv6Network((int(ip), _CLIENT_PREFIX), strict=False))
    return address if ip is None else str(ip)


def caller_name(principal: Principal | None, source_ip: str) -> str:
    """Under which name a request is counted: what a caller can choose freely (an access key that nobody checks, the
    name of a session) must not make it somebody else."""
    if principal is None or principal.kind == "anonymous":
        return network_of(source_ip)
    return principal.role_arn or principal.arn


class ClientAddresses:
    def __init__(self, trusted: Sequence[Network] = ()) -> None:
        self._trusted = tuple(trusted)
        self.client_of = lru_cache(maxsize=4096)(self._client_of)

    def _client_of(self, address: str) -> str | None:
        """Under which name an address is counted; None if it speaks for many."""
        ip = read_ip(address)
        speaks_for_many = ip is None or ip.is_loopback or is_within(address, self._trusted)
        return None if speaks_for_many else network_of(address)
