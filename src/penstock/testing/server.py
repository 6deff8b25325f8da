"""A whole server in a thread of this process: in memory, on a loopback port, under a clock that the test controls."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import uvloop

from penstock.errors import StoreError
from penstock.promise import outcome, run, start
from penstock.publishing.shard_topics import ShardTopics
from penstock.server.compose import EarlyParts, Parts
from penstock.server.settings.config import Config
from penstock.testing.controlled_time import ControlledTime
from penstock.testing.known_messages import KnownMessages
from penstock.testing.known_publications import KnownPublications

T = TypeVar("T")

_HOST = "127.0.0.1"
_ANSWERS_WITHIN_S = 120  # an advance by a month with alarms takes half a minute
_STOP_GRACE_S = 1.0


class BrokerFailed(Exception):
    """The server in the thread did not start, or does not answer any more."""


class ServerThread:
    """A server in a thread, which is started when this is constructed."""

    def __init__(self, config: Config, *, frozen: bool = False) -> None:
        """Raises BrokerFailed."""
        self._config = config
        self._frozen = frozen
        self._process = os.getpid()
        self._started: Future[None] = Future()
        self._stopping: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self.parts: Parts
        self.time: ControlledTime
        self.known = KnownMessages()
        self.publications = KnownPublications()
        self.port = 0
        self._thread = threading.Thread(target=self._run, name="penstock-broker", daemon=True)
        self._thread.start()
        try:
            self._started.result(_ANSWERS_WITHIN_S)
        except Exception as error:
            raise BrokerFailed(f"the broker did not start: {error or type(error).__name__}") from error

    @property
    def url(self) -> str:
        return f"http://{_HOST}:{self.port}"

    def call(self, function: Callable[[], T]) -> T:
        """Run a function on the loop of the server, and return what it returns. Call this in any other thread."""
        answer: Future[T] = Future()

        def called() -> None:
            try:
                answer.set_result(function())
            except BaseException as error:
                answer.set_exception(error)

        self._post(called)
        return self._result(answer)

    def wait_for(self, coroutine: Coroutine[Any, None, T]) -> T:
        """The same for a coroutine of the broker."""
        answer: Future[T] = Future()

        def done(value: T | None, error: BaseException | None) -> None:
            if error is None:
                answer.set_result(value)  # type: ignore[arg-type]
            else:
                answer.set_exception(error)

        try:
            self._post(lambda: run(coroutine, done))
        except BaseException:
            coroutine.close()
            raise
        return self._result(answer)

    def stop(self) -> None:
        """Returns when it has stopped: nothing that it had is left."""
        if self._process == os.getpid() and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(_ANSWERS_WITHIN_S)

    # -- calls from other threads --------------------------------------------------------------------------------

    def _post(self, callback: Callable[[], None]) -> None:
        if self._process != os.getpid():
            raise BrokerFailed(
                "this process was forked from the one with the broker: start another Broker in it"
            )
        if not self._thread.is_alive():
            raise BrokerFailed("the broker has stopped: use it within its with block")
        self._loop.call_soon_threadsafe(callback)

    def _result(self, answer: Future[T]) -> T:
        try:
            return answer.result(_ANSWERS_WITHIN_S)
        except TimeoutError:
            raise BrokerFailed("the broker does not answer") from None

    # -- in the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        early = EarlyParts(self._config)
        try:
            self.port = await early.listener.listen(_HOST, 0, None)
            self.parts = parts = await outcome(start(Parts.open(early, self._failed)))
            try:
                await outcome(start(self._load(parts)))
                self._started.set_result(None)
                await self._stopping.wait()
                parts.wind_down()
                await parts.listener.close(_STOP_GRACE_S)
                await outcome(start(parts.unload()))
            finally:
                parts.close()
        finally:
            early.close()

    async def _load(self, parts: Parts) -> None:
        parts.broker.extend(self.known.follow)
        parts.broker.history.watch(self.known.noted)
        self.publications.follow(parts.publishing)
        await parts.open_shards(range(parts.site.shards))
        await parts.declare()
        assert parts.controlled_time is not None, "the settings have a test clock"
        self.time = parts.controlled_time
        if self._frozen:
            self.time.freeze(for_good=True)

    async def deliveries(self) -> int:
        """How many requests to subscribers of topics are under way, or begin now."""
        partitions = [self.parts.broker.partition(index) for index in self.parts.broker.owned]
        consumers = [
            (partition, consumer)
            for partition in partitions
            for jobs in partition.part(ShardTopics).deliveries.job_queues
            for consumer in jobs.consumers
        ]
        if consumers:
            await self.time.advance()  # by nothing: what can be done without waiting is done
        found = [await consumer.status(partition) for partition, consumer in consumers]
        return sum(each.running + each.waiting - each.put_off for each in found if each is not None)

    def _failed(self, error: StoreError) -> None:
        """Stop the server. This does not happen: a store in memory neither fails nor is taken."""
        self._stopping.set()
