"""What the server reports after its start: where it listens, how durable it is, what it recovered, who has access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock import __version__
from penstock.server.settings.address import Address
from penstock.server.settings.config import Config
from penstock.server.settings.types import without_password

Report = Mapping[str, str | int | float | list[str]]
_WARNING = "WARNING: "
_TEST_CLOCK = "a test clock, for example: penstock test advance 15m"


class Recovered(NamedTuple):
    """What the store contained at the start."""

    queues: int
    messages: int
    bytes: int
    seconds: float  # that it took to load it

    @property
    def text(self) -> str:
        what = (amount(self.queues, "queue"), amount(self.messages, "message"), format_bytes(self.bytes))
        return f"{', '.join(what)} in {self.seconds * 1000:.0f} ms"


def startup_report(
    config: Config,
    addresses: Sequence[Address],
    recovered: Recovered,
    encryption: str,
    durability: str,
    processes: str = "",
) -> Report:
    """Texts for people, in the order shown, and numbers for programs. ``addresses`` as they were opened, with their
    ports."""
    audit_file = config.audit_file
    return {
        "version": __version__,
        **({"processes": processes} if processes else {}),
        **({"cluster": f"node {config.advertise}"} if config.advertise is not None else {}),
        "listening": f"{config.scheme}://{addresses[0]}",
        "addresses": [f"{config.scheme}://{address}" for address in addresses],
        "data": describe_data(config),
        "durability": durability,
        **({"clock": _TEST_CLOCK} if config.test_clock else {}),
        "recovered": recovered.text,
        "access": describe_access(config, addresses),
        "encryption": encryption,
        "audit": "off" if audit_file is None else str(audit_file.absolute()),
        **({"console": f"{config.scheme}://{addresses[0].local}/console/"} if config.console else {}),
        "try": f"aws --endpoint-url {config.endpoint_url(addresses[0])} sqs list-queues",
        "queues": recovered.queues,
        "messages": recovered.messages,
        "bytes": recovered.bytes,
        "loaded_ms": round(recovered.seconds * 1000, 1),
        "port": addresses[0].port,
    }


def banner(report: Report) -> str:
    """The report as text for a terminal."""
    lines = {name: value for name, value in report.items() if isinstance(value, str)}
    version, addresses = lines.pop("version"), report["addresses"]
    assert isinstance(addresses, list)
    lines["listening"] = ", ".join(addresses)
    rows = "".join(f"  {name:<11} {value}\n" for name, value in lines.items())
    return f"\nPenstock {version}\n\n{rows}\n"


def warning_in(report: Report) -> str | None:
    """What the operator should change, if there is something."""
    _, found, text = str(report["access"]).partition(_WARNING)
    return text if found else None


def describe_data(config: Config) -> str:
    if config.store is not None:
        return without_password(config.store)
    return "in memory" if config.memory else str(config.data.absolute())


def describe_access(config: Config, addresses: Sequence[Address]) -> str:
    exposed = [address for address in addresses if not address.is_loopback]
    if config.credentials is None:
        if config.tls_client_auth == "required":
            return "open to every client with a certificate: requests are not authenticated beyond that"
        if exposed:
            return f"{_WARNING}open to the network: anyone who can reach {_ports(exposed)} can do everything"
        return "open: every request is accepted, from this machine only"
    parts = [
        "secured: signatures are verified, policies enforced",
        "over TLS" if config.tls_certificate else "plain HTTP",
    ]
    if config.tls_client_auth != "none":
        parts.append(f"client certificates {config.tls_client_auth}")
    parts.append("from the network" if exposed else "from this machine only")
    if exposed and config.tls_certificate is None:
        parts.append(f"{_WARNING}messages can be read on the network, unless a proxy terminates TLS")
    return ", ".join(parts)


def _ports(addresses: Sequence[Address]) -> str:
    ports = sorted({address.port for address in addresses})
    return ("port " if len(ports) == 1 else "ports ") + " or ".join(map(str, ports))


def amount(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_bytes(number: int) -> str:
    size = float(number)
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"
