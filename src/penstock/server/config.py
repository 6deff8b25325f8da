"""Every setting of the server: its one name, its default, what it takes, and what it is for.

A setting has the same name everywhere: ``max_connections`` in the file, ``PENSTOCK_MAX_CONNECTIONS`` in the
environment, ``--max-connections`` as a flag. Defaults < file < environment < flags. Nothing is passed over in
silence: an unknown name or a wrong value stops the start with one line that says where and what is right.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

from penstock.limits import Limits
from penstock.names import Space
from penstock.server.address import Address
from penstock.server.declared import DeclaredQueue
from penstock.server.http_limits import HttpLimits
from penstock.server.kinds import (
    ACCOUNT,
    ADDRESSES,
    BOOLEAN,
    HOST,
    NETWORKS,
    ORIGINS,
    PATH,
    REGION,
    URL,
    Kind,
    choice,
    duration,
    size,
    whole,
)  # fmt: skip
from penstock.server.origin import Network

_HTTP = HttpLimits()
_KIB = 1024
_MIB = 1024 * _KIB


class ConfigError(Exception):
    """One line for the operator."""


class Setting(NamedTuple):
    name: str
    kind: Kind
    help: str
    default: Any

    @property
    def variable(self) -> str:
        return f"PENSTOCK_{self.name.upper()}"

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"


class About(NamedTuple):
    kind: Kind
    help: str


@dataclass(frozen=True, kw_only=True)
class Config:
    host: Annotated[str, About(HOST, "Address to listen on; 0.0.0.0 or :: for every interface.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, About(whole(0, 65535), "Port to listen on; 0 takes a free one.")] = 9324
    listen: Annotated[
        tuple[Address, ...], About(ADDRESSES, "Addresses to listen on, instead of host and port.")
    ] = ()
    data: Annotated[Path, About(PATH, "Directory that holds queues and messages.")] = Path("penstock-data")
    memory: Annotated[bool, About(BOOLEAN, "Keep everything in memory: nothing survives a stop.")] = False
    public_url: Annotated[
        str | None,
        About(URL, "Base of the queue URLs given out. Default: the host each request was sent to."),
    ] = None
    trusted_proxies: Annotated[
        tuple[Network, ...], About(NETWORKS, "Proxies whose X-Forwarded-Host, -Proto and -Port are believed.")
    ] = ()
    account: Annotated[str, About(ACCOUNT, "Account of callers whose access key is not one itself.")] = (
        "000000000000"
    )
    region: Annotated[str, About(REGION, "Region of requests that do not name one.")] = "us-east-1"
    log_level: Annotated[
        str, About(choice("debug", "info", "warning", "error"), "What is worth a log line.")
    ] = "info"
    log_format: Annotated[
        str,
        About(
            choice("auto", "human", "json"), "Log lines for people or as JSON; auto: people in a terminal."
        ),
    ] = "auto"
    print_ready: Annotated[
        bool, About(BOOLEAN, 'Print "Ready." on standard output once requests are taken.')
    ] = False
    tls_certificate: Annotated[Path | None, About(PATH, "Certificate chain (PEM) to serve HTTPS with.")] = (
        None
    )
    tls_key: Annotated[Path | None, About(PATH, "Private key (PEM) of the certificate.")] = None
    cors_origins: Annotated[
        tuple[str, ...], About(ORIGINS, "Origins whose web pages may call the server.")
    ] = ()
    memory_budget: Annotated[
        int, About(size(8 * _MIB, "8MB"), "Memory for waiting messages; the rest stays on disk.")
    ] = Limits().memory_budget_bytes
    max_connections: Annotated[int, About(whole(1, 1_000_000), "Connections at a time.")] = (
        _HTTP.connections_max
    )
    max_header_size: Annotated[int, About(size(4 * _KIB, "4KB"), "Headers of one request.")] = (
        _HTTP.header_bytes_max
    )
    max_body_size: Annotated[int, About(size(2 * _MIB, "2MB"), "Body of one request.")] = _HTTP.body_bytes_max
    max_buffered_size: Annotated[
        int, About(size(16 * _MIB, "16MB"), "Bodies of all requests that are still arriving.")
    ] = _HTTP.buffered_bytes_max
    # SQS clients poll for 20 s and then use the connection again.
    idle_timeout: Annotated[float, About(duration(30, 3600), "How long an unused connection stays open.")] = (
        _HTTP.idle_s
    )
    header_timeout: Annotated[float, About(duration(1, 300), "How long a request's headers may take.")] = (
        _HTTP.head_s
    )
    body_timeout: Annotated[float, About(duration(1, 300), "How long a request's body may stall.")] = (
        _HTTP.body_s
    )
    write_timeout: Annotated[
        float, About(duration(1, 300), "How long a client may leave answers unread.")
    ] = _HTTP.write_s
    stop_timeout: Annotated[float, About(duration(0, 300), "How long a stop waits for running requests.")] = (
        10.0
    )

    queues: tuple[DeclaredQueue, ...] = ()  # not a setting: the tables [queues.NAME] of the file

    @property
    def addresses(self) -> tuple[Address, ...]:
        return self.listen or (Address(self.host, self.port),)

    @property
    def scheme(self) -> str:
        return "https" if self.tls_certificate is not None else "http"

    @property
    def space(self) -> Space:
        """Whose the declared queues are."""
        return Space(self.account, self.region)

    @property
    def http_limits(self) -> HttpLimits:
        return HttpLimits(
            connections_max=self.max_connections,
            header_bytes_max=self.max_header_size,
            body_bytes_max=self.max_body_size,
            buffered_bytes_max=self.max_buffered_size,
            idle_s=self.idle_timeout,
            head_s=self.header_timeout,
            body_s=self.body_timeout,
            write_s=self.write_timeout,
        )

    @property
    def broker_limits(self) -> Limits:
        return Limits(memory_budget_bytes=self.memory_budget)


@cache
def settings() -> dict[str, Setting]:
    hints = get_type_hints(Config, include_extras=True)
    found = {}
    for each in fields(Config):
        for about in getattr(hints[each.name], "__metadata__", ()):
            found[each.name] = Setting(each.name, about.kind, about.help, each.default)
    return found
