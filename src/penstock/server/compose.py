"""The one place that names concrete parts and joins them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.broker.broker import Broker
from penstock.broker.runtime import LoopRuntime
from penstock.clock import SystemClock
from penstock.errors import StoreError
from penstock.server.client_addresses import ClientAddresses
from penstock.server.cors import Cors
from penstock.server.health import Health
from penstock.server.http.listener import Listener
from penstock.server.origin import Origins
from penstock.server.routes import Routes
from penstock.server.security import Security
from penstock.server.settings.config import Config
from penstock.server.settings.durability import store_options
from penstock.server.settings.queues import declare_all
from penstock.server.web_pages import Browsers
from penstock.services.sqs import sqs_service
from penstock.services.sts import sts_service
from penstock.store.sqlite.store import SqliteStore
from penstock.wire.dispatch import Dispatcher

_LOADING = "the store is being loaded"
_DECLARING = "the declared queues are being made"
_STOPPING = "the server is stopping"


class Parts:
    """A server put together. What loads and unloads it awaits nothing but :class:`Later`."""

    def __init__(self, config: Config, on_fatal: Callable[[StoreError], None]) -> None:
        """Raises one of SETUP_ERRORS."""
        self._config = config
        self._on_fatal = on_fatal
        self._clock = SystemClock()
        self._runtime = LoopRuntime(asyncio.get_running_loop(), self._clock)
        origins = Origins(config.public_url, config.trusted_proxies)
        self.locks = Security(config, self._clock, origins)
        disk = SqliteStore(None if config.memory else config.data, **store_options(config))
        self._store = self.locks.encryption.around(disk)
        self.broker: Broker
        self.health = Health()
        self.health.expect(_LOADING)
        self.health.expect(_DECLARING)
        cors = Cors(config.cors_origins)
        guarded = self.locks.credentials is None and "*" not in config.cors_origins
        self._routes = Routes(
            callers=self.locks.callers,
            origins=origins,
            cors=cors,
            health=self.health,
            throttle=self.locks.throttle,
            witness=self.locks.witness,
            browsers=Browsers(cors, config.public_url) if guarded else None,
        )
        audit = self.locks.audit
        if audit is not None and config.audit_required:
            self.health.watch("the audit trail cannot be written", lambda: audit.must_refuse)
        neighbours = ClientAddresses(config.trusted_proxies)
        self.listener = Listener(self._routes.serve, config.http_limits, neighbours)

    async def load(self) -> None:
        """Open the store and become ready. Raises Fault or PenstockError."""
        shard = await self._runtime.write(self._store.open)
        self.locks.start()
        self._clock.resume(shard.mark.now_ms, shard.mark.wall_ms)
        limits = self._config.broker_limits
        encryption = self.locks.encryption
        self.broker = Broker(
            self._store, self._runtime, self._clock, limits, shard, self._on_fatal, encryption.guard,
            encryption.dedup_key,
        )  # fmt: skip
        self.broker.start()
        self.health.tell("sends", self._sends)
        services = [sqs_service(self.broker), sts_service(self.locks.credentials, self._clock)]
        witness = self.locks.witness
        self._routes.dispatch = Dispatcher(services, witness.answered if witness is not None else None).answer
        self.health.done(_LOADING)
        await declare_all(self.broker, self._config.queues, self._config.space)
        encryption.start(self._store, self._runtime, self.broker, self._on_fatal)
        self.health.done(_DECLARING)

    def _sends(self) -> str:
        """No obstacle: a balancer that took the server out would keep away the receivers, who make room."""
        return "refused: the disk is full" if self.broker.is_full else "taken"

    def look(self, *, asked: bool) -> None:
        """Take up files that have changed; ``asked`` if an operator wants it now. Runs on the event loop."""
        self.locks.look(self.listener, asked=asked)

    def wind_down(self) -> None:
        """Take nothing new; every long poll is answered, with nothing."""
        self.health.expect(_STOPPING)
        self.listener.stop_accepting()
        self.broker.end_polls()

    async def unload(self) -> None:
        """Make the last changes durable and let go of the store."""
        self.locks.encryption.stop()
        await self.broker.stop()
        await self._runtime.write(self._store.close)

    def close(self) -> None:
        self._runtime.close()
        self.locks.close()
