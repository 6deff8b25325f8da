"""Addresses that the server may call if the name of a host leads to them.

An operator lists names, but the owner of the DNS of a name controls its addresses. Loopback and private addresses
pass: what an operator lists is often a host of his own network. What passes never is an address that no host of a
network has, and the metadata services of clouds, which give their keys to every caller on this machine. Where
accounts choose the names, only addresses of the internet pass, and networks that an operator lists. An IPv4 address
is judged alike in each of the forms that it has in IPv6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

_HERE = ip_network("0.0.0.0/8")  # "this network": systems connect to themselves

# Metadata services, and others of the kind, whose addresses are not link-local.
_METADATA = tuple(
    ip_network(each)
    for each in (
        "100.100.100.200/32",  # Alibaba Cloud
        "168.63.129.16/32",  # Azure
        "192.0.0.192/32",  # Oracle Cloud, classic
        "fd00:ec2::/32",  # Amazon EC2
        "fd00:42::42/128",  # Scaleway
        "fd00:c1::a9fe:a9fe/128",  # Oracle Cloud
        "fd20:ce::254/128",  # Google Cloud
    )
)

# Networks whose last 32 bits are an IPv4 address: translated, compatible, and those of NAT64.
_HOLDING_IPV4 = tuple(
    ip_network(each) for each in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
)


# Of IPv6, the internet has these addresses only, without those for examples.
_INTERNET_IPV6, _EXAMPLES_IPV6 = ip_network("2000::/3"), ip_network("3fff::/20")
# Of IPv4, some that releases of Python disagree about.
_PROTOCOLS_IPV4 = ip_network("192.0.0.0/24")


def is_callable(text: str) -> bool:
    return not any(_is_refused(form) for form in _forms(ip_address(text)))


def is_public(text: str) -> bool:
    """Whether the address may be called, and is one of the internet."""
    return all(not _is_refused(form) and _is_of_internet(form) for form in _forms(ip_address(text)))


def is_within(text: str, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    """Whether the address is in one of these networks."""
    networks = list(networks)
    return all(any(form in network for network in networks) for form in _forms(ip_address(text)))


def _is_of_internet(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address) and (address not in _INTERNET_IPV6 or address in _EXAMPLES_IPV6):
        return False
    return address.is_global and address not in _PROTOCOLS_IPV4


def _is_refused(address: IPv4Address | IPv6Address) -> bool:
    return (
        address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address in _HERE
        or (address.is_reserved and not address.is_loopback)  # broadcast, too
        or any(address in network for network in _METADATA)
    )


def _forms(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """What an address leads to: the IPv4 addresses in it, or else itself."""
    if isinstance(address, IPv4Address) or address.is_loopback or address.is_unspecified:
        yield address
    elif address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    elif address.sixtofour is not None:
        yield address.sixtofour
    elif address.teredo is not None:
        yield from address.teredo
    elif any(address in network for network in _HOLDING_IPV4):
        yield IPv4Address(int(address) & 0xFFFF_FFFF)
    else:
        yield address
