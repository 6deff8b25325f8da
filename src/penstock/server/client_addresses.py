"""IP addresses, and which of them count as one client where something is limited per client.

An IPv6 client has a network of 2^64 addresses, so the network counts. This machine and trusted proxies send the
requests of many clients, so no limit by address applies to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

from penstock.cache import BoundedCache

if TYPE_CHECKING:
    from penstock.auth.principal import Principal

Network = IPv4Network | IPv6Network

_CLIENT_PREFIX = 64
_CACHED_MAX = 4096
_MANY = ""


def read_ip(address: str) -> IPv4Address | IPv6Address | None:
    """Returns None if the text is not an address. A dual-stack socket shows IPv4 peers as ::ffff:a.b.c.d, which is
    read as IPv4."""
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


def without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and (port.isdecimal() or not port) else host


def caller_name(principal: Principal | None, source_ip: str) -> str:
    """The name under which requests are counted. What a caller can choose freely (an access key that is not checked,
    the name of a session) must not give it another one."""
    if principal is None or principal.kind == "anonymous":
        return network_of(source_ip)
    return principal.role_arn or principal.arn


class ClientAddresses:
    def __init__(self, trusted: Sequence[Network] = ()) -> None:
        self._trusted = tuple(trusted)
        self._cache: BoundedCache[str, str] = BoundedCache(_CACHED_MAX)

    def client_of(self, address: str) -> str | None:
        """The name under which an address is counted; None if it stands for many clients."""
        client = self._cache.get(address)
        if client is None:
            ip = read_ip(address)
            many = ip is None or ip.is_loopback or is_within(address, self._trusted)
            client = self._cache.put(address, _MANY if many else network_of(address))
        return client or None
