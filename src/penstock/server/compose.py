"""The composition root: the one place that names concrete parts and connects them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from penstock.auth.authorize import authorize
from penstock.auth.policy.vocabulary import declare
from penstock.broker.broker import Broker
from penstock.broker.handover import SentFor
from penstock.broker.questions import LocalShards, OtherShards, OwnedShards
from penstock.broker.record_kinds import BROKER_KINDS
from penstock.clock import SystemClock
from penstock.cluster.gather import ClusterShards
from penstock.cluster.link import Peers
from penstock.cluster.owners import Owners
from penstock.errors import JobFailed, PenstockError, StoreError
from penstock.metrics.histogram import Histogram
from penstock.monitoring.measured import ServiceNamespace
from penstock.monitoring.monitoring import Monitoring
from penstock.monitoring.reading import MetricNamespace
from penstock.outgoing import OutgoingHttp
from penstock.publishing.deliveries import Endpoints
from penstock.publishing.publishing import Publishing
from penstock.publishing.signing import Signer
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
from penstock.server.settings.topic_plans import declare_topics
from penstock.server.settings.types import REGION_PLACEHOLDER
from penstock.server.shard_hints import ShardHints
from penstock.server.shards import LoopRuntimes, OpenShards, Runtimes
from penstock.server.signing_key import SigningKeyProtection
from penstock.server.throttle import Throttle
from penstock.server.topic_endpoints import TopicEndpoints
from penstock.server.topics import CERTIFICATE_MOUNT, certificate_page, may_deliver, may_publish
from penstock.server.web_pages import Cors, WebPageFilter
from penstock.server.webhooks import Webhooks
from penstock.services import admin, cloudwatch, sns, sqs, sts
from penstock.services.cloudwatch.notifications import SERVICE_NAME as CLOUDWATCH
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
from penstock.topics.names import TopicName
from penstock.topics.publication import Publication
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


class EarlyParts:
    """What a server has before its store is open: it listens, and answers health checks."""

    def __init__(self, config: Config, place: ClusterPlace | None = None) -> None:
        """``place``: among the processes that share the shards of a machine. Raises StoreRefused or one of
        SETUP_ERRORS."""
        self.config = config
        self.clock = SystemClock()
        self.place = place
        self.origins = Origins(config.public_url, config.trusted_proxies)
        self.throttle = Throttle if place is None else place.throttle
        self.services = declare_services()
        self.security = Security(config, self.clock, self.origins, self.services, self.throttle)
        self.link_security = (
            link_security(config, self.security.link_tls) if config.advertise is not None else None
        )
        self.site = site_of(config)
        self.outgoing = OutgoingHttp()
        self.webhooks = Webhooks(self.outgoing, "alarm_webhooks", config.alarm_webhooks)
        self.topic_endpoints = TopicEndpoints(config)
        self.health = Health([service.name for service in self.services if service.is_announced])
        self.meter = RequestMeter()
        self.disk_space = DiskSpace(watched_directories(config), config.disk_warning)
        self._warns_of_disk = place is None or place.process in (None, 1)  # else the first process does
        self.health.show("disk", self.disk_space.shown)
        self.health.expect(_LOADING)
        self.health.expect(_DECLARING)
        cors, pages = self._cors(config)
        self.routes = Routes(
            callers=self.security.callers,
            origins=self.origins,
            cors=cors,
            health=self.health,
            throttle=self.security.throttle(config),
            recorder=self.security.recorder,
            meter=self.meter,
            pages=pages,
        )
        audit = self.security.audit
        if audit is not None and config.audit_required:
            self.health.watch("the audit log cannot be written", lambda: audit.must_refuse)
        addresses = ClientAddresses(config.trusted_proxies)
        self.listener = Listener(
            self.routes.serve, config.http_limits, addresses, self.routes.is_health_check
        )
        self.metrics_port = None if config.metrics_listen is None else MetricsPort(self.health)

    async def open_metrics_port(self, *, shared: bool = False) -> Address | None:
        """``shared``: with the process that takes the place of this one. Returns the address with its port, None if
        there is none. Raises OSError."""
        wanted = self.config.metrics_listen
        if wanted is None or self.metrics_port is None:
            return None
        return await self.metrics_port.open(wanted, shared=shared)

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
        self.routes.change(self.security.throttle(config), *self._cors(config))
        self.disk_space.warn_below = config.disk_warning
        self.webhooks.change(config.alarm_webhooks)
        self.topic_endpoints.change(config)

    def declared(self, config: Config) -> None:
        """Note that these queues and topics are declared now."""
        self.config = replace(self.config, queues=config.queues, topics=config.topics)

    def look_around(self) -> None:
        """Look at files that may have changed, and at the disk. This is called once a second, on the event loop."""
        self.security.reload(self.listener, requested=False)
        if self._warns_of_disk:
            self.disk_space.check(time.monotonic())

    async def reload_files(self) -> dict[str, str]:
        """Read certificates, credentials and keys again. Returns what is wrong with each; empty: nothing."""
        self.security.reload(self.listener, requested=True)
        return await self.security.problems()

    def stop_accepting(self) -> None:
        self.health.expect(_STOPPING)
        self.listener.stop_accepting()
        if self.metrics_port is not None:
            self.metrics_port.close()

    def close(self) -> None:
        self.outgoing.close()
        self.security.close()


class Parts:
    """The parts of a server whose store is open."""

    def __init__(
        self,
        early: EarlyParts,
        on_fatal: Callable[[StoreError], None],
        load_config: Callable[[], Config] | None,
        reload_others: Callable[[], None],
    ) -> None:
        """Nothing is served before :meth:`open`, which makes them."""
        self.early = early
        telemetry = _telemetry_class(early.config)
        self.clock, self.site, self.security = early.clock, early.site, early.security
        self.health, self.listener, self.webhooks = early.health, early.listener, early.webhooks
        config, place, encryption, shards = (
            early.config,
            early.place,
            self.security.encryption,
            self.site.shards,
        )
        self.commit_times = Histogram()
        self.controlled_time = _controlled_time(config)
        runtimes: Runtimes = self.controlled_time or LoopRuntimes(
            shards, commits_on_loop=self.site.is_local, commit_times=self.commit_times
        )
        linked = early.link_security or (None if place is None else place.security)
        self._peers = peers = None if linked is None else Peers(linked)
        self.broker = Broker(
            config.broker_limits, shards, encryption.guard, encryption.dedup_key,
            None if place is None else place.usage, Turns(runtimes.soon), self.clock, self._others,
            may_deliver if self.security.credentials is not None else None,
        )  # fmt: skip
        self.monitoring = Monitoring(
            self.broker,
            cloudwatch.CloudWatchTexts(is_secured=self.security.credentials is not None),
            self.webhooks.post,
            self._publish_alarm,
            metric_namespaces(),
            config.monitoring_limits,
        )
        root = self.security.root
        signer = Signer(self.broker, None if root is None else SigningKeyProtection(root))
        self.publishing = Publishing(
            self.broker,
            Endpoints(early.topic_endpoints.http, early.topic_endpoints.mail, signer),
            signer,
            self._base_url,
            may_publish if self.security.credentials is not None else None,
        )
        ended_sessions = EndedSessions(self.broker)
        process = None if place is None else place.process
        self.metrics_page = MetricsPage(self, self.broker, early.origins, process)
        # Before the links, which answer the questions of services, too.
        self._services = [service.with_context(context(self)) for service, context in SERVICES]
        open_shards = partial(OpenShards, self.site, self.broker, encryption, runtimes, on_fatal)
        hints = ShardHints(shards, _queue_host(config), config.space)

        def make_links(place: ClusterPlace) -> ClusterLinks:
            assert peers is not None, "there are other processes"
            return ClusterLinks(place, peers, self.broker, early.routes.serve_passed_on, hints.shard_of)

        self.node: ClusterNode | None = None
        self.links: ClusterLinks | None
        if early.link_security is None:
            self.shards = open_shards()
            self.links = None if place is None else make_links(place)
        else:
            self.node = ClusterNode(
                config,
                early.link_security,
                leases_of(self.site),
                shards,
                open_shards,
                make_links,
                self._declare,
            )
            self.shards, self.links = self.node.shards, self.node.links
        self.console = Console(
            early.routes.serve,
            early.origins,
            config.space,
            self.security.credentials,
            lambda: early.routes.pages,  # they change with the settings
            ended_sessions,
            early.services,
            early.throttle,
        )
        instance = {} if process is None else {"penstock.process": str(process)}
        self.telemetry = (
            None
            if telemetry is None
            else telemetry(str(config.telemetry_endpoint), self.metrics_page.families, instance)
        )
        self.reloading = Reloading(self, load_config or (lambda: early.config), reload_others)

    @classmethod
    async def open(
        cls,
        early: EarlyParts,
        on_fatal: Callable[[StoreError], None],
        *,
        load_config: Callable[[], Config] | None = None,
        reload_others: Callable[[], None] = lambda: None,
    ) -> Parts:
        """Open the store, but no shard: requests can be passed on to processes that own them. ``load_config`` reads
        the settings again for a reload, None: they cannot change. ``reload_others`` makes the other processes of the
        server reload, too. Raises PenstockError."""
        await asyncio.to_thread(early.site.open)
        parts = cls(early, on_fatal, load_config, reload_others)
        try:
            await parts._serve()
        except BaseException:
            parts.close()
            await asyncio.to_thread(early.site.close)
            raise
        return parts

    async def _serve(self) -> None:
        """Answer requests from now on. Raises PenstockError."""
        routes, security = self.early.routes, self.security
        if self.links is not None:
            await self.links.start()
        self.health.show("sends", self.send_state)
        self.health.facts["durability"] = self.site.guarantees
        forwarder = None if self.links is None else self.links.forwarder
        around = (
            security.recorder,
            authorize if security.credentials is not None else None,
            None if forwarder is None else forwarder.pass_on,
        )
        dispatcher = Dispatcher(self._services, *around, self.early.meter.of_action, self.broker.turns)
        dispatch: Dispatch = dispatcher.answer
        if self.telemetry is not None:
            self.telemetry.start()
            dispatch = self.telemetry.around(dispatch)
        peek = PeekPage(_sqs(self), *around)
        routes.open(RequestHandlers(dispatch, dispatcher.refusal, dispatcher.methods, forwarder))
        routes.mount(b"_aws", ServiceMount(peek.answer, peek.accepts))
        signer = self.publishing.signer
        routes.mount(CERTIFICATE_MOUNT, Mount(partial(certificate_page, signer), for_any_page=True))
        routes.mount(b"metrics", Mount(self.metrics_page.page, accepts=self.metrics_page.accepts))
        if self.config.console:
            routes.mount(b"console", Mount(self.console.page, for_any_page=True))
        if self.early.metrics_port is not None:
            self.early.metrics_port.show(self.metrics_page)

    @property
    def config(self) -> Config:
        """The present settings."""
        return self.early.config

    async def load(self) -> None:
        """Open the shards and become ready. Raises DeclarationError or PenstockError."""
        if self.node is None:
            if self.config.store is not None:
                await asyncio.to_thread(check_no_nodes, leases_of(self.site))
                self.health.advise("the database cannot be reached", lambda: self.broker.is_away)
            await self.open_shards(range(self.site.shards))
            await self.declare()
        else:
            await self._join(self.node)

    async def _publish_alarm(self, topic: str, alarm: str, account: str, subject: str, body: str) -> None:
        """Publish what an alarm says to a topic. Raises JobFailed."""
        name = TopicName.of_arn(topic)
        if name is None:
            raise JobFailed("it is not the ARN of a topic")
        group = dedup_id = None
        if name.is_fifo:
            group, dedup_id = sha256(alarm.encode()).hexdigest(), sha256(body.encode()).hexdigest()
        publication = Publication(message=body, subject=subject, group=group, dedup_id=dedup_id)
        source = SentFor(CLOUDWATCH, alarm, account)
        await self.publishing.publish_for(name, publication, source)

    def _base_url(self) -> str:
        """Returns what links begin with in messages that no client publishes."""
        config = self.config
        if config.public_url is not None:
            return config.public_url.rstrip("/").replace(REGION_PLACEHOLDER, config.region)
        address = Address(config.host, config.port) if not config.listen else config.listen[0]
        shown = Address("localhost", address.port) if address.local.is_loopback else address
        return f"{config.scheme}://{shown}"

    def _others(self, owned: OwnedShards) -> OtherShards:
        """Asks all shards: those of other processes over the links, if there are others."""
        if self._peers is None:
            return LocalShards(owned)
        place, advertised = self.early.place, self.config.advertise
        address = place.address if advertised is None and place is not None else str(advertised)
        return ClusterShards(address, self._owners, self._peers, owned)

    def _owners(self) -> Owners:
        place = self.early.place if self.node is None else self.node.place
        assert place is not None, "there are other processes"
        return place.owners

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
        """Create the declared queues of the open shards and become ready. Raises DeclarationError or
        PenstockError."""
        await self._declare()
        self.security.encryption.start(self.broker)
        self.health.done(_DECLARING)

    async def _declare(self) -> None:
        await self.declare_queues(self.config)
        await self.declare_topics(self.config)

    async def declare_queues(self, config: Config) -> int:
        """Create and change the queues of these settings in the shards of this process, and return how many those
        were. Raises DeclarationError or PenstockError."""
        return await declare_queues(self.broker, config.queues, self.config.space)

    async def declare_topics(self, config: Config) -> int:
        """Create and change the topics of these settings, as :meth:`declare_queues` does with queues."""
        space, base_url = self.config.space, self._base_url()
        return await declare_topics(self.broker, self.publishing, config.topics, space, base_url)

    def send_state(self) -> str:
        """A full disk does not make the server unready: receivers, who free space, must still reach it."""
        reason = self.broker.sends_refused
        return "accepted" if reason is None else f"refused: {reason}"

    def apply(self, config: Config) -> None:
        """Use settings that differ from the present ones in such that can change while the server runs."""
        self.early.apply(config)
        self.broker.change_limits(config.broker_limits)

    def wind_down(self) -> None:
        """Accept nothing new and answer every long poll with no messages."""
        self.early.stop_accepting()
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
        self.early.outgoing.close()
        self.early.topic_endpoints.close()
        await self.shards.close_all()
        await asyncio.to_thread(self.site.close)

    def close(self) -> None:
        if self.node is not None:
            self.node.close()
        self.shards.stop_threads()


def _controlled_time(config: Config) -> ControlledTime | None:
    if not config.test_clock:
        return None
    from penstock.testing.controlled_time import ControlledTime  # not needed elsewhere

    return ControlledTime(asyncio.get_running_loop())


def _telemetry_class(config: Config) -> type[Telemetry] | None:
    """Returns None if the operator does not want telemetry. Raises PenstockError."""
    if config.telemetry_endpoint is None:
        return None
    try:
        from penstock.server.telemetry import Telemetry  # its libraries are optional
    except ImportError:
        raise PenstockError(
            "OpenTelemetry is not installed: pip install 'penstock-mq[otel]', or unset otel_endpoint and "
            "OTEL_EXPORTER_OTLP_ENDPOINT"
        ) from None
    return Telemetry


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


def _queue_host(config: Config) -> str:
    """The host of queue URLs, if it names the region: ``sqs.{region}.localhost``."""
    host = urlsplit(config.public_url or "").hostname or ""
    return host if REGION_PLACEHOLDER in host else ""


def _sqs(parts: Parts) -> sqs.Sqs:
    hints = RegionHints(parts.broker, parts.clock)
    return sqs.Sqs(parts.broker, sqs.ACTIONS, _queue_host(parts.config), hints.missed)


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
    (
        sns.SERVICE,
        lambda parts: sns.Sns(parts.publishing, parts.broker, sns.ACTIONS, parts.security.encryption.guard),
    ),
    (sts.SERVICE, lambda parts: sts.Sts(parts.security.credentials, parts.clock)),
    (
        admin.SERVICE,
        lambda parts: admin.Admin(
            parts.broker,
            parts.publishing,
            admin.ACTIONS,
            _SQS_TEXTS,
            ProcessControl(parts),
            _rows_with_permission(),
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
