"""What an operator should know when the server has started: where, how durable, what came back, how open."""

from __future__ import annotations

from collections.abc import Sequence

from penstock import __version__
from penstock.server.address import Address
from penstock.server.audit.opening import trail_path
from penstock.server.exposure import describe_exposure
from penstock.server.settings.config import Config
from penstock.server.settings.durability import promise


def facts(
    config: Config, addresses: Sequence[Address], recovered: str, encryption: str
) -> dict[str, str | list[str]]:
    """In the order they are shown. ``addresses`` as they were opened, with their ports."""
    trail = trail_path(config)
    first = addresses[0]
    return {
        "listening": f"{config.scheme}://{first}",
        "addresses": [f"{config.scheme}://{address}" for address in addresses],
        "data": "in memory" if config.memory else str(config.data.absolute()),
        "durability": promise(config),
        "recovered": recovered,
        "access": describe_exposure(config, addresses),
        "encryption": encryption,
        "audit": "off" if trail is None else str(trail.absolute()),
        "try": f"aws --endpoint-url {config.public_url or f'{config.scheme}://{first.local}'} sqs list-queues",
    }


def banner(shown: dict[str, str | list[str]]) -> str:
    lines = {name: value for name, value in shown.items() if isinstance(value, str)}
    lines["listening"] = ", ".join(shown["addresses"])
    return "\n".join(
        [
            "",
            f"Penstock {__version__}",
            "",
            *(f"  {name:<11} {value}" for name, value in lines.items()),
            "",
            "",
        ]
    )


def amount(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def shown_bytes(number: int) -> str:
    size = float(number)
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"
