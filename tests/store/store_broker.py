"""A broker on a store, under a clock that tests turn."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from penstock.broker.broker import Broker
from penstock.broker.live_queue import LiveQueue
from penstock.broker.shard import Shard
from penstock.broker.waiting import Ask
from penstock.limits import Limits
from penstock.names import QueueName
from penstock.promise import start
from penstock.queues.messages import Outgoing, Received
from penstock.queues.settings import QueueSettings, Redrive
from penstock.testing.clock import ManualClock
from penstock.testing.runtime import SimulatedRuntime
from store.store_driver import Driver
from support.world import Caller

T = TypeVar("T")


def name_of(short: str) -> QueueName:
    return QueueName("000000000000", "eu-west-1", short)


class StoreBroker:
    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.clock = ManualClock()
        self._open()

    def _open(self) -> None:
        driver = self.driver
        self.runtime = SimulatedRuntime(self.clock, lambda choices: 0)
        shard = Shard(driver.store, self.runtime, self.clock, Limits(), driver.state, lambda error: None)
        self.broker = Broker(Limits())
        self.broker.open_shard(shard)

    def crash(self) -> None:
        """What is not in the store never happened."""
        self.driver.reopen()
        self._open()

    def do(self, coroutine: Coroutine[Any, None, T]) -> T:
        outcome = start(coroutine)
        self.runtime.run_until_idle()
        return outcome.result()

    def create(self, name: str, dead_letters: str | None = None) -> LiveQueue:
        redrive = None if dead_letters is None else Redrive(name_of(dead_letters), 3)
        settings = QueueSettings(fifo=name.endswith(".fifo"), redrive=redrive)
        return self.do(self.broker.create(name_of(name), settings, {}))

    def queue(self, name: str) -> LiveQueue:
        return self.broker.find(name_of(name))

    def send(self, name: str, *bodies: str, group: str | None = None) -> list[str]:
        """Their ids."""
        messages = [Outgoing(body=body, sender="AIDA", group=group) for body in bodies]
        return [sent.id for sent in self.do(self.queue(name).send(messages))]

    def receive(self, name: str, visibility_ms: int = 60_000) -> list[Received]:
        asked = self.queue(name).receive(Ask(10, visibility_ms, None), Caller(), 0)
        return self.do(asked)
