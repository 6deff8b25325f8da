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
from penstock.server.client_addresses import Network
from penstock.server.http.limits import HttpLimits
from penstock.server.settings.queues import DeclaredQueue
from penstock.server.settings.types import (
    ACCOUNT,
    ADDRESSES,
    BOOLEAN,
    HOST,
    NETWORKS,
    ORIGINS,
    PATH,
    REGION,
    REGIONS,
    TEXT,
    TRAIL,
    URL,
    Kind,
    choice,
    duration,
    size,
    whole,
)  # fmt: skip

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
    credentials: Annotated[
        Path | None,
        About(PATH, "File with users, roles and their keys. With it every request must be signed."),
    ] = None
    root_key_file: Annotated[
        Path | None, About(PATH, "File with the root key. With one, messages are encrypted on disk.")
    ] = None
    root_key_command: Annotated[
        str | None, About(TEXT, "Command that prints the root key, instead of a file.")
    ] = None
    keyring: Annotated[
        Path | None,
        About(PATH, "File with the encryption keys. Default: penstock-keys.json in the data directory."),
    ] = None
    memory: Annotated[bool, About(BOOLEAN, "Keep everything in memory: nothing survives a stop.")] = False
    durability: Annotated[
        str,
        About(
            choice("commit", "interval", "system"),
            "When changes are synced to disk: at every commit, every durability_interval, or by the system.",
        ),
    ] = "commit"
    durability_interval: Annotated[
        float, About(duration(0.01, 60), "How often changes are synced with durability = interval.")
    ] = 1.0
    public_url: Annotated[
        str | None,
        About(URL, "Base of the queue URLs given out. Default: the host each request was sent to."),
    ] = None
    trusted_proxies: Annotated[
        tuple[Network, ...],
        About(NETWORKS, "Proxies whose X-Forwarded-Host, -Proto, -Port and -For are believed."),
    ] = ()
    account: Annotated[str, About(ACCOUNT, "Account of callers whose access key is not one itself.")] = (
        "000000000000"
    )
    region: Annotated[str, About(REGION, "Region of requests that do not name one.")] = "us-east-1"
    regions: Annotated[
        tuple[str, ...], About(REGIONS, "Regions that requests may be signed for. Default: any.")
    ] = ()
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
    tls_client_ca: Annotated[
        Path | None, About(PATH, "Authorities (PEM) whose certificates clients have to show.")
    ] = None
    tls_client_auth: Annotated[
        str,
        About(choice("none", "optional", "required"), "Whether clients have to show a certificate."),
    ] = "none"
    allow_plain_http: Annotated[
        bool, About(BOOLEAN, "Take signed requests from the network without TLS, as behind a proxy.")
    ] = False
    cors_origins: Annotated[
        tuple[str, ...], About(ORIGINS, "Origins whose web pages may call the server.")
    ] = ()
    audit: Annotated[
        str,
        About(
            TRAIL,
            "File of the audit trail. auto: audit/audit.jsonl beside the data if there are credentials.",
        ),
    ] = "auto"
    audit_data_events: Annotated[
        bool, About(BOOLEAN, "Write an event for every message request too, not only for changes of queues.")
    ] = False
    audit_max_size: Annotated[
        int, About(size(_MIB, "1MB"), "Size at which a file of the audit trail is set aside.")
    ] = 100 * _MIB
    audit_keep: Annotated[int, About(whole(1, 10_000), "Older files of the audit trail to keep.")] = 10
    audit_required: Annotated[
        bool, About(BOOLEAN, "Refuse requests for as long as the audit trail cannot be written.")
    ] = False
    memory_budget: Annotated[
        int, About(size(8 * _MIB, "8MB"), "Memory for waiting messages; the rest stays on disk.")
    ] = Limits().memory_budget_bytes
    max_connections: Annotated[int, About(whole(1, 1_000_000), "Connections at a time.")] = (
        _HTTP.connections_max
    )
    max_connections_per_address: Annotated[
        int, About(whole(0, 1_000_000), "Connections of one client address at a time; 0: no such limit.")
    ] = _HTTP.connections_per_address_max
    max_header_size: Annotated[int, About(size(4 * _KIB, "4KB"), "Headers of one request.")] = (
        _HTTP.header_bytes_max
    )
    max_body_size: Annotated[int, About(size(2 * _MIB, "2MB"), "Body of one request.")] = _HTTP.body_bytes_max
    max_buffered_size: Annotated[
        int, About(size(16 * _MIB, "16MB"), "Requests that are still arriving or wait, together.")
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
    requests_per_second: Annotated[
        int, About(whole(0, 1_000_000), "Requests of one caller a second; 0: no limit.")
    ] = 0
    requests_burst: Annotated[
        int,
        About(
            whole(0, 1_000_000),
            "Requests that a caller may make at once after a rest; 0: as many as in a second.",
        ),
    ] = 0
    quota_queues: Annotated[
        int, About(whole(0, 10_000_000), "Queues that an account may have; 0: no limit.")
    ] = 0
    quota_messages: Annotated[
        int, About(whole(0, 10**15), "Messages that an account may keep; 0: no limit.")
    ] = 0
    quota_bytes: Annotated[
        int, About(size(0, "0"), "Bytes of messages that an account may keep; 0: no limit.")
    ] = 0

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
    def keeps_trail(self) -> bool:
        """An open server knows no callers to tell of, and one in memory keeps nothing, unless told otherwise."""
        if self.audit == "auto":
            return self.credentials is not None and not self.memory
        return self.audit != "off"

    @property
    def keyring_file(self) -> Path | None:
        """None: with everything in memory there is nothing to keep keys for, unless a keyring is named."""
        return self.keyring or (None if self.memory else self.data / "penstock-keys.json")

    @property
    def http_limits(self) -> HttpLimits:
        return HttpLimits(
            connections_max=self.max_connections,
            connections_per_address_max=self.max_connections_per_address,
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
        return Limits(
            memory_budget_bytes=self.memory_budget,
            quota_queues=self.quota_queues,
            quota_messages=self.quota_messages,
            quota_bytes=self.quota_bytes,
        )


@cache
def settings() -> dict[str, Setting]:
    hints = get_type_hints(Config, include_extras=True)
    found = {}
    for each in fields(Config):
        for about in getattr(hints[each.name], "__metadata__", ()):
            found[each.name] = Setting(each.name, about.kind, about.help, each.default)
    return found
