"""Every setting of the server: its name, type, description and default.

A setting has one name everywhere: ``max_connections`` in the file, ``PENSTOCK_MAX_CONNECTIONS`` in the environment,
``--max-connections`` as a flag. Precedence: defaults < file < environment < flags. Unknown names and invalid values
stop the start.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

from penstock.limits import SECOND, Limits
from penstock.monitoring.limits import ALARM_BYTES, MonitoringLimits
from penstock.names import Space
from penstock.server.client_addresses import Network
from penstock.server.http.limits import HttpLimits
from penstock.server.settings.address import Address
from penstock.server.settings.queues import DeclaredQueue
from penstock.server.settings.topics import DeclaredTopic
from penstock.server.settings.types import (
    ACCOUNT,
    ADDRESS,
    ADDRESSES,
    AUDIT_FILE,
    BOOLEAN,
    DATABASE,
    HOST,
    MAIL_ADDRESS,
    MAIL_URL,
    NETWORKS,
    ORIGINS,
    PATH,
    PRIVATE_ENDPOINTS,
    PUBLIC_URL,
    REGION,
    REGION_PLACEHOLDER,
    REGIONS,
    TEXT,
    URLS,
    SettingType,
    choice,
    duration,
    integer,
    size,
)  # fmt: skip

_HTTP = HttpLimits()
_KIB = 1024
_MIB = 1024 * _KIB

MEMORY_BUDGET_MIN = 8 * _MIB  # of one process


class ConfigError(Exception):
    """One line for the operator."""


class Setting(NamedTuple):
    name: str
    type: SettingType
    help: str
    default: Any

    @property
    def variable(self) -> str:
        return f"PENSTOCK_{self.name.upper()}"

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"


# Names of the version before, which still work and warn. The next version does not know them.
FORMER_NAMES = {"workers": "processes"}


# Each annotation holds the type of the setting and its line of help.
@dataclass(frozen=True, kw_only=True)
class Config:
    host: Annotated[str, HOST, "Address to listen on; 0.0.0.0 or :: for every interface."] = "127.0.0.1"
    port: Annotated[int, integer(0, 65535), "Port to listen on; 0 for any free port."] = 9324
    listen: Annotated[
        tuple[Address, ...], ADDRESSES, "Addresses to listen on, instead of host and port."
    ] = ()
    data: Annotated[Path, PATH, "Directory for queues and messages."] = Path("penstock-data")
    store: Annotated[
        str | None,
        DATABASE,
        "PostgreSQL database for queues and messages, instead of files in the data directory.",
    ] = None
    advertise: Annotated[
        Address | None, ADDRESS, "Address under which the other nodes of a cluster reach this one."
    ] = None
    cluster_listen: Annotated[
        Address | None,
        ADDRESS,
        "Address to listen on for the other nodes. Default: that of advertise if it is loopback, else its port on "
        "every interface.",
    ] = None
    cluster_secret_file: Annotated[
        Path | None, PATH, "File with the secret that the nodes of a cluster share."
    ] = None
    cluster_tls_certificate: Annotated[
        Path | None, PATH, "Certificate chain (PEM) of this node, for TLS between the nodes."
    ] = None
    cluster_tls_key: Annotated[Path | None, PATH, "Private key (PEM) of cluster_tls_certificate."] = None
    cluster_tls_ca: Annotated[
        Path | None, PATH, "Certificate authorities (PEM) of the certificates of all nodes."
    ] = None
    shards: Annotated[
        int,
        integer(0, 1024),
        "Parts that queues are divided among, fixed when the store is made. 0: as many as there are, or one.",
    ] = 0
    credentials: Annotated[
        Path | None, PATH, "File with users, roles and their keys. With it, every request must be signed."
    ] = None
    root_key_file: Annotated[
        Path | None, PATH, "File with the root key. With a root key, messages are encrypted on disk."
    ] = None
    root_key_command: Annotated[str | None, TEXT, "Command that prints the root key, instead of a file."] = (
        None
    )
    keyring: Annotated[
        Path | None, PATH, "File with the encryption keys. Default: penstock-keys.json in the data directory."
    ] = None
    backup_directory: Annotated[
        Path | None, PATH, "Directory for backups that clients of the admin API ask for. Default: none."
    ] = None
    memory: Annotated[bool, BOOLEAN, "Keep everything in memory: nothing survives a stop."] = False
    test_clock: Annotated[
        bool, BOOLEAN, "Let tests advance the clock of the broker, with the admin API. Needs memory."
    ] = False
    processes: Annotated[
        int, integer(1, 64), "Server processes that share the port and the shards of the data."
    ] = 1
    durability: Annotated[
        str,
        choice("commit", "interval", "system"),
        "When changes are synced to disk: at every commit, every durability_interval, or when the system does.",
    ] = "commit"
    durability_interval: Annotated[
        float, duration(0.01, 60), "How often changes are synced with durability = interval."
    ] = 1.0
    disk_warning: Annotated[
        int, size(0, "0"), "Warn if less is free on the disk. 0: a tenth of it, at most 10GB."
    ] = 0
    public_url: Annotated[
        str | None,
        PUBLIC_URL,
        "Base of the queue URLs returned; {region} in its host stands for the region. "
        "Default: the host each request was sent to.",
    ] = None
    trusted_proxies: Annotated[
        tuple[Network, ...], NETWORKS, "Proxies whose X-Forwarded-Host, -Proto, -Port and -For are trusted."
    ] = ()
    account: Annotated[str, ACCOUNT, "Account of callers whose access key is not an account id."] = (
        "000000000000"
    )
    region: Annotated[str, REGION, "Region of requests that do not name one."] = "us-east-1"
    regions: Annotated[
        tuple[str, ...], REGIONS, "Regions that requests may be signed for. Default: any."
    ] = ()
    relaxed_waits: Annotated[
        bool | None,
        BOOLEAN,
        "Allow PurgeQueue and the reuse of a deleted queue's name at once, instead of after 60 seconds. "
        "Default: on with memory, otherwise off.",
    ] = None
    log_level: Annotated[str, choice("debug", "info", "warning", "error"), "Lowest level that is logged."] = (
        "info"
    )
    log_format: Annotated[
        str, choice("auto", "human", "json"), "Log lines as text or as JSON; auto: text in a terminal."
    ] = "auto"
    print_ready: Annotated[bool, BOOLEAN, 'Print "Ready." on standard output when the server is ready.'] = (
        False
    )
    tls_certificate: Annotated[Path | None, PATH, "Certificate chain (PEM) for HTTPS."] = None
    tls_key: Annotated[Path | None, PATH, "Private key (PEM) of the certificate."] = None
    tls_client_ca: Annotated[
        Path | None, PATH, "Certificate authorities (PEM) that client certificates are verified against."
    ] = None
    tls_client_auth: Annotated[
        str, choice("none", "optional", "required"), "Whether clients must present a certificate."
    ] = "none"
    allow_plain_http: Annotated[
        bool, BOOLEAN, "Accept signed requests from the network without TLS, as behind a proxy."
    ] = False
    cors_origins: Annotated[tuple[str, ...], ORIGINS, "Origins whose web pages may call the server."] = ()
    console: Annotated[bool, BOOLEAN, "Serve the web console at /console/."] = True
    audit: Annotated[
        str,
        AUDIT_FILE,
        "File of the audit log. auto: audit/audit.jsonl in the data directory if credentials are set.",
    ] = "auto"
    audit_data_events: Annotated[
        bool, BOOLEAN, "Record message requests too (send, receive, delete), not only changes of queues."
    ] = False
    audit_max_size: Annotated[int, size(_MIB, "1MB"), "Size at which the audit log is rotated."] = 100 * _MIB
    audit_keep: Annotated[int, integer(1, 10_000), "Number of rotated audit log files to keep."] = 10
    audit_required: Annotated[
        bool, BOOLEAN, "Refuse requests for as long as the audit log cannot be written."
    ] = False
    memory_budget: Annotated[
        int, size(MEMORY_BUDGET_MIN, "8MB"), "Memory for waiting messages; the rest stays on disk."
    ] = Limits().memory_budget_bytes
    message_history: Annotated[
        int, integer(0, 10_000_000), "Events of messages that are kept in memory; 0: none."
    ] = Limits().history_events_max
    message_history_time: Annotated[
        float, duration(60, 14 * 86_400), "How long an event of a message is kept, at most."
    ] = Limits().history_ms_max / SECOND
    metrics_size: Annotated[
        int, size(0, "0"), "Space for stored metrics of queues; the oldest go first. 0: no metrics are kept."
    ] = Limits().metrics_bytes_max
    metrics_queues: Annotated[
        int,
        integer(0, 1_000_000),
        "Queues with time series of their own in /metrics; the others are summed up.",
    ] = 1000
    metrics_listen: Annotated[
        Address | None,
        ADDRESS,
        "Address for /metrics and health checks only, open to every client that can reach it.",
    ] = None
    metrics_networks: Annotated[
        tuple[Network, ...], NETWORKS, "Networks whose clients may read /metrics of a secured server."
    ] = ()
    metrics_token_file: Annotated[
        Path | None, PATH, "File with a token: who sends it as a bearer token may read /metrics."
    ] = None
    otel_endpoint: Annotated[
        str | None,
        TEXT,
        "Collector for traces and metrics of OpenTelemetry (OTLP over HTTP). Default: OTEL_EXPORTER_OTLP_ENDPOINT.",
    ] = None
    max_connections: Annotated[int, integer(1, 1_000_000), "Concurrent connections."] = _HTTP.connections_max
    max_connections_per_address: Annotated[
        int, integer(0, 1_000_000), "Concurrent connections of one client address; 0: no limit."
    ] = _HTTP.connections_per_address_max
    max_header_size: Annotated[int, size(4 * _KIB, "4KB"), "Headers of one request."] = _HTTP.header_bytes_max
    max_body_size: Annotated[int, size(2 * _MIB, "2MB"), "Body of one request."] = _HTTP.body_bytes_max
    max_buffered_size: Annotated[
        int, size(16 * _MIB, "16MB"), "Requests still arriving or waiting, all together."
    ] = _HTTP.buffered_bytes_max
    # SQS clients poll for 20 s and then reuse the connection.
    idle_timeout: Annotated[float, duration(30, 3600), "How long an unused connection stays open."] = (
        _HTTP.idle_s
    )
    header_timeout: Annotated[float, duration(1, 300), "How long a request's headers may take."] = (
        _HTTP.head_s
    )
    body_timeout: Annotated[float, duration(1, 300), "How long a request's body may stall."] = _HTTP.body_s
    write_timeout: Annotated[float, duration(1, 300), "How long a client may leave responses unread."] = (
        _HTTP.write_s
    )
    stop_timeout: Annotated[float, duration(0, 300), "How long a stop waits for running requests."] = 10.0
    requests_per_second: Annotated[
        int, integer(0, 1_000_000), "Rate limit for each caller, in requests per second; 0: no limit."
    ] = 0
    requests_burst: Annotated[
        int,
        integer(0, 1_000_000),
        "Requests a caller may make at once after a pause; 0: as many as in one second.",
    ] = 0
    quota_queues: Annotated[int, integer(0, 10_000_000), "Queues per account; 0: no limit."] = 0
    quota_messages: Annotated[int, integer(0, 10**15), "Stored messages per account; 0: no limit."] = 0
    quota_bytes: Annotated[int, size(0, "0"), "Stored bytes of messages per account; 0: no limit."] = 0
    quota_metrics: Annotated[
        int, integer(1, 10_000_000), "Metrics that clients send, per account and shard."
    ] = MonitoringLimits().metrics_max
    quota_alarms: Annotated[int, integer(1, 1_000_000), "Alarms per account and region."] = (
        MonitoringLimits().alarms_max
    )
    metrics_memory: Annotated[
        int,
        size(_MIB, "1MB"),
        "Memory for metrics that clients send; beyond it the oldest values are forgotten.",
    ] = MonitoringLimits().metrics_bytes_max
    alarm_webhooks: Annotated[
        tuple[str, ...], URLS, "URLs that alarms may call, with everything below their paths. Default: none."
    ] = ()
    topic_private_endpoints: Annotated[
        tuple[str, ...] | None,
        PRIVATE_ENDPOINTS,
        "Hosts and networks that are not of the internet, but may be subscribed to topics over HTTP. "
        "Default: all if the server listens on loopback only, without credentials and proxies, otherwise none.",
    ] = None
    smtp_url: Annotated[
        str | None,
        MAIL_URL,
        "Mail server that sends the mail of topics. Default: none, mail is in the outbox.",
    ] = None
    smtp_password_file: Annotated[
        Path | None, PATH, "File with the password of the user in smtp_url, instead of one in it."
    ] = None
    email_from: Annotated[str | None, MAIL_ADDRESS, "Address that mail of topics comes from."] = None

    # Not settings: the tables [queues.NAME] and [topics.NAME] of the config file, and the name of that file; where
    # each setting was given; flags and variables, so that the settings can be read again; a flag of one start; and
    # warnings about names of earlier versions.
    queues: tuple[DeclaredQueue, ...] = ()
    topics: tuple[DeclaredTopic, ...] = ()
    file: str = ""
    sources: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    flags: dict[str, object] = field(default_factory=dict, compare=False, repr=False)
    variables: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    accept_data_loss: bool = field(default=False, compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def addresses(self) -> tuple[Address, ...]:
        return self.listen or (Address(self.host, self.port),)

    @property
    def private_endpoints(self) -> tuple[str, ...]:
        """Which private hosts topics may call."""
        if self.topic_private_endpoints is not None:
            return self.topic_private_endpoints
        # Who can reach such a server could call them himself.
        is_open = self.credentials is None and not self.trusted_proxies
        is_local = is_open and all(address.is_loopback for address in self.addresses)
        return ("all",) if is_local else ()

    @property
    def cluster_address(self) -> Address:
        """Where a node listens for the others."""
        assert self.advertise is not None
        if self.cluster_listen is not None:
            return self.cluster_listen
        if self.advertise.is_loopback:
            return self.advertise  # the others are on this machine
        # A machine may not have the advertised address itself, as behind a NAT: so it is not the one to listen on.
        return Address("::" if ":" in self.advertise.host else "0.0.0.0", self.advertise.port)

    @property
    def telemetry_endpoint(self) -> str | None:
        """The variables are those of OpenTelemetry. None: it is off."""
        if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
            return None
        return self.otel_endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None

    @property
    def scheme(self) -> str:
        return "https" if self.tls_certificate is not None else "http"

    def endpoint_url(self, address: Address) -> str:
        """The URL of the server for a client in the default region. ``address`` was opened, and has its port."""
        if self.public_url is None:
            return f"{self.scheme}://{address.local}"
        return self.public_url.replace(REGION_PLACEHOLDER, self.region)

    @property
    def space(self) -> Space:
        """Account and region of the declared queues and topics."""
        return Space(self.account, self.region)

    @property
    def audit_file(self) -> Path | None:
        """The file of the audit log; None if there is no audit log."""
        if self.audit == "auto":
            # Without credentials no caller is known, and --memory writes no files.
            return self.default_audit_file if self.credentials is not None and not self.memory else None
        return None if self.audit == "off" else Path(self.audit)

    @property
    def default_audit_file(self) -> Path:
        return self.data / "audit" / "audit.jsonl"

    @property
    def keyring_file(self) -> Path | None:
        """The file of the keyring; None with --memory, where keys need not be stored, unless a keyring is set."""
        return self.keyring or (None if self.memory else self.data / "penstock-keys.json")

    def share(self, processes: int, shards: int) -> Config:
        """Returns the settings of one of several processes: its part of what all may use together."""
        return replace(
            self,
            shards=shards,
            memory_budget=self.memory_budget // processes,
            message_history=self.message_history // processes,
            metrics_queues=-(-self.metrics_queues // processes),
            metrics_memory=self.metrics_memory // processes,
            max_buffered_size=self.max_buffered_size // processes,
            max_connections=-(-self.max_connections // processes),
            max_connections_per_address=-(-self.max_connections_per_address // processes),
        )

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
    def monitoring_limits(self) -> MonitoringLimits:
        return MonitoringLimits(
            metrics_bytes_max=self.metrics_memory,
            metrics_max=self.quota_metrics,
            alarms_max=self.quota_alarms,
            alarm_bytes_max=max(MonitoringLimits().alarm_bytes_max, self.quota_alarms * ALARM_BYTES),
        )

    @property
    def broker_limits(self) -> Limits:
        sqs = Limits()
        relaxed = self.memory if self.relaxed_waits is None else self.relaxed_waits
        return Limits(
            memory_budget_bytes=self.memory_budget,
            history_events_max=self.message_history,
            history_ms_max=int(self.message_history_time * SECOND),
            metrics_bytes_max=self.metrics_size,
            quota_queues=self.quota_queues,
            quota_messages=self.quota_messages,
            quota_bytes=self.quota_bytes,
            purge_pause_ms=0 if relaxed else sqs.purge_pause_ms,
            delete_pause_ms=0 if relaxed else sqs.delete_pause_ms,
        )


@cache
def settings() -> dict[str, Setting]:
    hints = get_type_hints(Config, include_extras=True)
    found = {}
    for each in fields(Config):
        if metadata := getattr(hints[each.name], "__metadata__", ()):
            type_, description = metadata
            found[each.name] = Setting(each.name, type_, description, each.default)
    return found


@cache
def former_settings() -> dict[str, Setting]:
    """The renamed settings, under the names that they had."""
    return {former: settings()[name]._replace(name=former) for former, name in FORMER_NAMES.items()}
