"""The one place that names concrete parts and joins them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.broker.broker import Broker
from penstock.broker.runtime import LoopRuntime
from penstock.clock import SystemClock
from penstock.errors import StoreError
from penstock.server.caller import Callers
from penstock.server.config import Config
from penstock.server.cors import Cors
from penstock.server.declared import declare_all
from penstock.server.health import Health
from penstock.server.listener import Listener
from penstock.server.origin import Origins
from penstock.server.routes import Routes
from penstock.services.sqs import sqs_service
from penstock.store.sqlite import SqliteStore
from penstock.wire.dispatch import Dispatcher

_LOADING = "the store is being loaded"
_DECLARING = "the declared queues are being made"
_STOPPING = "the server is stopping"


class Parts:
    """A server put together. Its coroutines await nothing but :class:`Later`."""

    def __init__(self, config: Config, on_fatal: Callable[[StoreError], None]) -> None:
        self._config = config
        self._on_fatal = on_fatal
        self._clock = SystemClock()
        self._runtime = LoopRuntime(asyncio.get_running_loop(), self._clock)
        self._store = SqliteStore(None if config.memory else config.data)
        self.broker: Broker
        self.health = Health()
        self.health.expect(_LOADING)
        self.health.expect(_DECLARING)
        self._routes = Routes(
            callers=Callers(config.account, config.region),
            origins=Origins(config.public_url, config.trusted_proxies),
            cors=Cors(config.cors_origins),
            health=self.health,
        )
        self.listener = Listener(self._routes.serve, config.http_limits)

    async def load(self) -> None:
        """Open the store and become ready. Raises Fault or PenstockError."""
        shard = await self._runtime.write(self._store.open)
        self._clock.resume(shard.mark.now_ms, shard.mark.wall_ms)
        limits = self._config.broker_limits
        self.broker = Broker(self._store, self._runtime, self._clock, limits, shard, self._on_fatal)
        self.broker.start()
        self._routes.dispatch = Dispatcher([sqs_service(self.broker)]).answer
        self.health.done(_LOADING)
        await declare_all(self.broker, self._config.queues, self._config.space)
        self.health.done(_DECLARING)

    def wind_down(self) -> None:
        """Take nothing new; every long poll is answered, with nothing."""
        self.health.expect(_STOPPING)
        self.listener.stop_accepting()
        self.broker.end_polls()

    async def unload(self) -> None:
        """Make the last changes durable and let go of the store."""
        await self.broker.stop()
        await self._runtime.write(self._store.close)

    def close(self) -> None:
        self._runtime.close()
