"""How open the server is: who reaches it, who may do what, and who could listen in.

Keys travel as signatures and are never sent, but messages are: a server with credentials that is reached over the
network speaks TLS, unless the operator says that something in front of it does.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.server.address import Address
from penstock.server.settings.config import Config, ConfigError


def check_exposure(config: Config) -> None:
    """Raises ConfigError if signed requests would cross the network in the clear without anybody having said so."""
    if config.credentials is None or config.tls_certificate is not None or config.allow_plain_http:
        return
    for address in config.addresses:
        if not address.is_loopback:
            raise ConfigError(
                f"{address} can be reached over the network, there are credentials, and no TLS: set tls_certificate "
                "and tls_key, or allow_plain_http if a proxy in front of this server ends TLS"
            )


def describe_exposure(config: Config, addresses: Sequence[Address]) -> str:
    """For the start-up. ``addresses`` as they were opened, with their ports."""
    exposed = [address for address in addresses if not address.is_loopback]
    if config.credentials is None:
        if config.tls_client_auth == "required":
            return "open to every client with a certificate: no request is checked beyond that"
        if exposed:
            return f"WARNING: open to the network: whoever reaches {_ports(exposed)} can do everything"
        return "open: every request is accepted, from this machine only"
    parts = [
        "secured: signatures are verified, policies enforced",
        "over TLS" if config.tls_certificate else "plain HTTP",
    ]
    if config.tls_client_auth != "none":
        parts.append(f"client certificates {config.tls_client_auth}")
    parts.append("from the network" if exposed else "from this machine only")
    if exposed and config.tls_certificate is None:
        parts.append(
            "WARNING: messages can be read on the way here, unless a proxy ends TLS in front of this server"
        )
    return ", ".join(parts)


def _ports(addresses: Sequence[Address]) -> str:
    ports = sorted({address.port for address in addresses})
    return ("port " if len(ports) == 1 else "ports ") + " or ".join(map(str, ports))
