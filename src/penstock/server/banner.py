"""What an operator should know when the server has started: where, how durable, what came back, how open."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

from penstock import __version__
from penstock.server.config import Config

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def facts(config: Config, port: int, recovered: str) -> dict[str, str]:
    """In the order they are shown."""
    host = f"[{config.host}]" if ":" in config.host else config.host
    local = f"{config.scheme}://{_WILDCARDS.get(config.host, host)}:{port}"
    if config.memory:
        data, durability = "in memory", "none: nothing survives a stop"
    else:
        data = str(Path(config.data).absolute())
        durability = "every answer waits until its change is on disk (fsync on every commit)"
    if is_loopback(config.host):
        access = "open: every request is accepted, from this machine only"
    else:
        access = f"WARNING: open to the network: whoever reaches port {port} can do everything"
    return {
        "listening": f"{config.scheme}://{host}:{port}",
        "data": data,
        "durability": durability,
        "recovered": recovered,
        "access": access,
        "try": f"aws --endpoint-url {config.public_url or local} sqs list-queues",
    }


def banner(shown: dict[str, str]) -> str:
    lines = [f"  {name:<11} {value}" for name, value in shown.items()]
    return "\n".join(["", f"Penstock {__version__}", "", *lines, "", ""])


def amount(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def shown_bytes(number: int) -> str:
    size = float(number)
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"
