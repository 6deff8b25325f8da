"""The composition root: the one place that names concrete parts and connects them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from penstock.auth.authorize import authorize
from penstock.auth.policy.vocabulary import declare
from penstock.broker.broker import Broker
from penstock.broker.questions import LocalShards, OtherShards, OwnedShards
from penstock.broker.record_kinds import BROKER_KINDS
from penstock.clock import SystemClock
from penstock.cluster.gather import ClusterShards
from penstock.cluster.link import Peers
from penstock.cluster.owners import Owners
from penstock.errors import PenstockError, StoreError
from penstock.metrics.histogram import Histogram
from penstock.monitoring.measured import ServiceNamespace
from penstock.monitoring.monitoring import Monitoring
from penstock.monitoring.reading import MetricNamespace
from penstock.outgoing import OutgoingHttp
from penstock.server.client_addresses import ClientAddresses
from penstock.server.cluster import ClusterLinks, ClusterPlace
from penstock.server.console import Console
from penstock.server.console_sign_outs import SIGN_OUTS, EndedSessions
from penstock.server.control import ProcessControl
from penstock.server.disk_space import DiskSpace, watched_directories
from penstock.server.health import Health
from penstock.server.http.listener import Listener
from penstock.server.logs import set_log_level
from penstock.server.metrics.page import MetricsPage, MetricsPort
from penstock.server.metrics.requests import RequestMeter
from penstock.server.node import ClusterNode, check_no_nodes, link_security
from penstock.server.origin import Origins
from penstock.server.peeking import PeekPage
from penstock.server.reload import Reloading
from penstock.server.routes import Dispatch, Mount, RequestHandlers, Routes, ServiceMount
from penstock.server.security import Security
from penstock.server.settings.address import Address
from penstock.server.settings.config import Config
from penstock.server.settings.queues import declare_queues
from penstock.server.settings.types import REGION_PLACEHOLDER
from penstock.server.shard_hints import ShardHints
from penstock.server.shards import LoopRuntimes, OpenShards, Runtimes
from penstock.server.throttle import Throttle
from penstock.server.web_pages import Cors, WebPageFilter
from penstock.server.webhooks import Webhooks
from penstock.services import admin, cloudwatch, sqs, sts
from penstock.services.sqs.attributes import shown_queue
from penstock.services.sqs.edited import check_edited
from penstock.services.sqs.region_hints import RegionHints
from penstock.services.sqs.resources import queue_url
from penstock.services.sqs.sending import sequence_number
from penstock.store.changes import RecordKind
from penstock.store.leases import Leases
from penstock.store.memory import MemorySite
from penstock.store.port import StoreSite
from penstock.store.sqlite.file import Synchronous
from penstock.store.sqlite.site import SqliteSite
from penstock.turns import Turns
from penstock.wire.dispatch import Dispatcher
from penstock.wire.service import Action, Service

if TYPE_CHECKING:
    from penstock.server.telemetry import Telemetry
    from penstock.testing.controlled_time import ControlledTime

SHARDS_PER_PROCESS = 4  # of a new store: so that it can grow without being copied

_LOADING = "the store is being loaded"
_DECLARING = "the declared queues are being created"
_STOPPING = "the server is stopping"


class Parts:
    """The parts of one server."""

    def __init__(
        self,
        config: Config,
        on_fatal: Callable[[StoreError], None],
        place: ClusterPlace | None = None,
        load_config: Callable[[], Config] | None = None,
        reload_others: Callable[[], None] = lambda: None,
    ) -> None:
        """``place``: among the processes that share the shards of a machine. ``load_config`` reads the settings again
        for a reload, None: they cannot change. ``reload_others`` makes the other processes of the server reload, too.
        Raises StoreRefused or one of SETUP_ERRORS."""
        self.config = config
        self._on_fatal = on_fatal
        self.clock = SystemClock()
        origins = Origins(config.public_url, config.trusted_proxies)
        self._place = place
        throttle = Throttle if place is None else place.throttle
        services = declare_services()
        self.security = Security(config, self.clock, origins, services, throttle)
        self.links: ClusterLinks | None = None
        self.node: ClusterNode | None = None
        self._link_security = (
            link_security(config, self.security.link_tls) if config.advertise is not None else None
        )
        linked = self._link_security or (None if place is None else place.security)
        self._peers = None if linked is None else Peers(linked)
        self.site = site_of(config)
        self.broker: Broker
        self.monitoring: Monitoring
        self._ended_sessions: EndedSessions | None = None
        self.outgoing = OutgoingHttp()
        self.webhooks = Webhooks(self.outgoing, config.alarm_webhooks)
        self.shards: OpenShards
        self.controlled_time: ControlledTime | None = None  # with test_clock
        self.reloading = Reloading(self, load_config or (lambda: self.config), reload_others)
        self.health = Health([service.name for service in services if service.is_announced])
        self.meter = RequestMeter()
        self.commit_times = Histogram()
        self._origins = origins
        self.metrics_page: MetricsPage | None = None  # when the store is open
        self.metrics_port: MetricsPort | None = None
        self.telemetry: Telemetry | None = None
        self.disk_space = DiskSpace(watched_directories(config), config.disk_warning)
        self._warns_of_disk = place is None or place.process in (None, 1)  # else the first process does
        self.health.show("disk", self.disk_space.shown)
        self.health.expect(_LOADING)
        self.health.expect(_DECLARING)
        cors, pages = self._cors(config)
        self._routes = Routes(
            callers=self.security.callers,
            origins=origins,
            cors=cors,
            health=self.health,
            throttle=self.security.throttle(config),
            recorder=self.security.recorder,
            meter=self.meter,
            pages=pages,
        )
        self.console = Console(
            self._routes.serve,
            origins,
            config.space,
            self.security.credentials,
            lambda: self._routes.pages,
            lambda: self._ended_sessions,
            services,
            throttle,
        )
        if config.console:
            self._routes.mount(b"console", Mount(self.console.page, for_any_page=True))
        audit = self.security.audit
        if audit is not None and config.audit_required:
            self.health.watch("the audit log cannot be written", lambda: audit.must_refuse)
        addresses = ClientAddresses(config.trusted_proxies)
        self.listener = Listener(
            self._routes.serve, config.http_limits, addresses, self._routes.is_health_check
        )

    async def load(self) -> None:
        """Open the store and become ready. Raises DeclaredQueueError or PenstockError."""
        await self.open_site()
        if self.node is None:
            if self.config.store is not None:
                await asyncio.to_thread(check_no_nodes, leases_of(self.site))
                self.health.advise("the database cannot be reached", lambda: self.broker.is_away)
            await self.open_shards(range(self.site.shards))
            await self.declare()
        else:
            await self._join(self.node)

    async def open_site(self) -> None:
        """Everything but the shards: requests can be passed on to processes that own them. Raises PenstockError."""
        await asyncio.to_thread(self.site.open)
        encryption = self.security.encryption
        place, peers, runtimes = self._place, self._peers, self._runtimes()
        self.broker = Broker(
            self.config.broker_limits, self.site.shards, encryption.guard, encryption.dedup_key,
            None if place is None else place.usage, Turns(runtimes.soon), self.clock, self._others,
        )  # fmt: skip
        self.monitoring = Monitoring(
            self.broker,
            cloudwatch.CloudWatchTexts(is_secured=self.security.credentials is not None),
            self.webhooks.post,
            metric_namespaces(),
            self.config.monitoring_limits,
        )
        self._ended_sessions = EndedSessions(self.broker)
        self.metrics_page = metrics_page = MetricsPage(
            self, self.broker, self._origins, None if place is None else place.process
        )
        open_shards = partial(OpenShards, self.site, self.broker, encryption, runtimes, self._on_fatal)
        hints = ShardHints(self.site.shards, _queue_host(self), self.config.space)

        def make_links(place: ClusterPlace) -> ClusterLinks:
            assert peers is not None, "there are other processes"
            return ClusterLinks(place, peers, self.broker, self._routes.serve_passed_on, hints.shard_of)

        if self._link_security is None:
            self.shards = open_shards()
            self.links = None if place is None else make_links(place)
        else:
            self.node = ClusterNode(
                self.config, self._link_security, leases_of(self.site), self.site.shards, open_shards,
                make_links, self._declare,
            )  # fmt: skip
            self.shards, self.links = self.node.shards, self.node.links
        if self.links is not None:
            await self.links.start()
        self.health.show("sends", self.send_state)
        self.health.facts["durability"] = self.site.guarantees
        services = [service.with_context(context(self)) for service, context in SERVICES]
        forwarder = None if self.links is None else self.links.forwarder
        around = (
            self.security.recorder,
            authorize if self.security.credentials is not None else None,
            None if forwarder is None else forwarder.pass_on,
        )
        dispatcher = Dispatcher(services, *around, self.meter.of_action, self.broker.turns)
        dispatch: Dispatch = dispatcher.answer
        if self.config.telemetry_endpoint is not None:
            self.telemetry = self._telemetry(self.config.telemetry_endpoint, metrics_page)
            dispatch = self.telemetry.around(dispatch)
        self._routes.open(RequestHandlers(dispatch, dispatcher.refusal, dispatcher.methods, forwarder))
        peek = PeekPage(_sqs(self), *around)
        self._routes.mount(b"_aws", ServiceMount(peek.answer, peek.accepts))
        self._routes.mount(b"metrics", Mount(metrics_page.page, accepts=metrics_page.accepts))

    def _others(self, owned: OwnedShards) -> OtherShards:
        """Asks all shards: those of other processes over the links, if there are others."""
        if self._peers is None:
            return LocalShards(owned)
        place, advertised = self._place, self.config.advertise
        address = place.address if advertised is None and place is not None else str(advertised)
        return ClusterShards(address, self._owners, self._peers, owned)

    def _owners(self) -> Owners:
        place = self._place if self.node is None else self.node.place
        assert place is not None, "there are other processes"
        return place.owners

    def _telemetry(self, endpoint: str, metrics: MetricsPage) -> Telemetry:
        """Raises PenstockError."""
        try:
            from penstock.server.telemetry import Telemetry  # its libraries are optional
        except ImportError:
            raise PenstockError(
                "OpenTelemetry is not installed: pip install 'penstock-mq[otel]', or unset otel_endpoint and "
                "OTEL_EXPORTER_OTLP_ENDPOINT"
            ) from None
        process = None if self._place is None else self._place.process
        telemetry = Telemetry(
            endpoint,
            metrics.families,
            {} if process is None else {"penstock.process": str(process)},
        )
        telemetry.start()
        return telemetry

    async def open_metrics_port(self, *, shared: bool = False) -> Address | None:
        """``shared``: with the process that takes the place of this one. Returns the address with its port, None if
        there is none. Raises OSError."""
        if self.config.metrics_listen is None:
            return None
        self.metrics_port = MetricsPort(lambda: self.metrics_page, self.health)
        return await self.metrics_port.open(self.config.metrics_listen, shared=shared)

    def _runtimes(self) -> Runtimes:
        if not self.config.test_clock:
            return LoopRuntimes(
                self.site.shards, commits_on_loop=self.site.is_local, commit_times=self.commit_times
            )
        from penstock.testing.controlled_time import ControlledTime  # not needed elsewhere

        self.controlled_time = ControlledTime(asyncio.get_running_loop())
        return self.controlled_time

    async def open_shards(self, indexes: Iterable[int]) -> None:
        """Raises PenstockError."""
        await self.shards.open(indexes)
        self.security.start()
        self.health.done(_LOADING)

    async def start_over(self) -> None:
        """Forget everything, as a restart does that stores nothing. It is for tests."""
        assert isinstance(self.site, MemorySite), "a test clock needs memory"
        indexes = list(self.broker.owned)
        for index in indexes:
            await self.shards.close(index)
        self.site.forget()
        await self.shards.open(indexes)
        await self._declare()

    async def _join(self, node: ClusterNode) -> None:
        """Become a node of the cluster. Shards and their declared queues come with the leases."""
        self.security.start()
        self.health.done(_LOADING)
        await node.membership.start()
        self.security.encryption.start(self.broker)
        node.report_to(self.health)
        self.health.done(_DECLARING)

    async def declare(self) -> None:
        """Create the declared queues of the open shards and become ready. Raises DeclaredQueueError or
        PenstockError."""
        await self._declare()
        self.security.encryption.start(self.broker)
        self.health.done(_DECLARING)

    async def _declare(self) -> None:
        await declare_queues(self.broker, self.config.queues, self.config.space)

    def send_state(self) -> str:
        """A full disk does not make the server unready: receivers, who free space, must still reach it."""
        reason = self.broker.sends_refused
        return "accepted" if reason is None else f"refused: {reason}"

    def _cors(self, config: Config) -> tuple[Cors, WebPageFilter | None]:
        cors = Cors(config.cors_origins)
        # Without credentials, a web page in the operator's browser could call the server.
        checks_pages = self.security.credentials is None and "*" not in config.cors_origins
        return cors, WebPageFilter(cors, config.public_url) if checks_pages else None

    def apply(self, config: Config) -> None:
        """Use settings that differ from the present ones in such that can change while the server runs."""
        self.config = config
        set_log_level(config.log_level)
        self.listener.limits = config.http_limits
        self._routes.change(self.security.throttle(config), *self._cors(config))
        self.broker.change_limits(config.broker_limits)
        self.disk_space.warn_below = config.disk_warning
        self.webhooks.change(config.alarm_webhooks)

    def look_around(self) -> None:
        """Once a second, on the event loop: at files that may have changed, and at the disk."""
        self.security.reload(self.listener, requested=False)
        if self._warns_of_disk:
            self.disk_space.check(time.monotonic())

    async def reload_files(self) -> dict[str, str]:
        """Read certificates, credentials and keys again. Returns what is wrong with each; empty: nothing."""
        self.security.reload(self.listener, requested=True)
        return await self.security.problems()

    def wind_down(self) -> None:
        """Accept nothing new and answer every long poll with no messages."""
        self.health.expect(_STOPPING)
        self.listener.stop_accepting()
        if self.metrics_port is not None:
            self.metrics_port.close()
        self.console.stop()
        self.broker.end_polls()

    async def unload(self) -> None:
        """Commit the last changes and close the store."""
        self.security.encryption.stop()
        if self.node is not None:
            await self.node.leave(self.config.stop_timeout)
        if self.telemetry is not None:
            self.telemetry.stop()
            await asyncio.to_thread(self.telemetry.close)
        await self.broker.stop()
        self.outgoing.close()
        await self.shards.close_all()
        await asyncio.to_thread(self.site.close)

    def close(self) -> None:
        if self.node is not None:
            self.node.close()
        if hasattr(self, "shards"):
            self.shards.stop_threads()
        self.outgoing.close()
        self.security.close()


def site_of(config: Config) -> StoreSite:
    """Where the shards are stored. Raises StoreRefused."""
    of_new_store = 1 if config.processes == 1 else SHARDS_PER_PROCESS * config.processes
    if config.memory:
        return MemorySite(config.shards or of_new_store)
    if config.store is not None:
        from penstock.store.postgres.site import PostgresSite  # needs psycopg, which is optional

        return PostgresSite(config.store, config.shards or None)
    synchronous, sync_every_s = sync_policy(config)
    return SqliteSite(
        config.data,
        config.shards or None,
        of_new_store,
        synchronous=synchronous,
        sync_every_s=sync_every_s,
        accept_data_loss=config.accept_data_loss,
    )


def leases_of(site: StoreSite) -> Leases:
    """Which nodes there are, in the database that holds the shards."""
    from penstock.store.postgres.leases import PostgresLeases
    from penstock.store.postgres.site import PostgresSite

    assert isinstance(site, PostgresSite), "checked when the settings are read"
    return PostgresLeases(site.database, site.shards)


def sync_policy(config: Config) -> tuple[Synchronous, float | None]:
    # Even without a sync at every commit, SQLite syncs before it copies the log into the data file: a power cut can
    # lose the last commits, but never damage the file.
    return (
        "full" if config.durability == "commit" else "normal",
        config.durability_interval if config.durability == "interval" else None,
    )


def _queue_host(parts: Parts) -> str:
    """The host of queue URLs, if it names the region: ``sqs.{region}.localhost``."""
    host = urlsplit(parts.config.public_url or "").hostname or ""
    return host if REGION_PLACEHOLDER in host else ""


def _sqs(parts: Parts) -> sqs.Sqs:
    hints = RegionHints(parts.broker, parts.clock)
    return sqs.Sqs(parts.broker, sqs.ACTIONS, _queue_host(parts), hints.missed)


_SQS_TEXTS = admin.SqsTexts(shown_queue, sequence_number, queue_url, check_edited)


def _rows_with_permission() -> tuple[Action, ...]:
    """Returns the rows that policies decide about, but for those that give credentials: about these the trust policy
    of a role decides, too."""
    rows = [row for service, _ in SERVICES for row in service.actions.values()]
    return tuple(row for row in rows if row.permission and not row.audit.gives_credentials)


SERVICES: tuple[tuple[Service, Callable[[Parts], Any]], ...] = (
    (sqs.SERVICE, _sqs),
    (
        cloudwatch.SERVICE,
        lambda parts: cloudwatch.CloudWatch(
            parts.monitoring,
            parts.broker,
            cloudwatch.ACTIONS,
            parts.webhooks.allows,
            None if parts.security.credentials is None else parts.security.credentials.directory.partition,
        ),
    ),
    (sts.SERVICE, lambda parts: sts.Sts(parts.security.credentials, parts.clock)),
    (
        admin.SERVICE,
        lambda parts: admin.Admin(
            parts.broker, admin.ACTIONS, _SQS_TEXTS, ProcessControl(parts), _rows_with_permission()
        ),
    ),
)
"""Every service and what its handlers need."""


def declare_services() -> list[Service]:
    """Returns the registered services, once policies know their condition keys and built-in policies."""
    services = [service for service, _ in SERVICES]
    declare(services)
    return services


def metric_namespaces() -> list[MetricNamespace | ServiceNamespace]:
    """The namespaces whose metrics the registered services measure. All others are of clients."""
    namespaces: list[Any] = [each for service, _ in SERVICES for each in service.metric_namespaces]
    return namespaces


def record_kinds() -> list[RecordKind[Any]]:
    """Every kind of record that a store may hold."""
    of_services: list[Any] = [kind for service, _ in SERVICES for kind in service.records]
    return [*BROKER_KINDS, *of_services, SIGN_OUTS]
