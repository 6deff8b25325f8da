"""Dramatiq with dramatiq_sqs: actors, delays, retries, and dead letters."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import dramatiq
import pytest
from dramatiq.middleware import AgeLimit, Callbacks, Retries
from dramatiq_sqs import SQSBroker

SOON_S = 60


@pytest.fixture
def broker(reach: dict[str, str]) -> Iterator[Any]:
    middleware = [AgeLimit(), Callbacks(), Retries(min_backoff=2000, max_backoff=2000, max_retries=2)]
    broker = SQSBroker(
        namespace="suite", middleware=middleware, dead_letter=True, visibility_timeout=30,
        tags={"team": "water"}, **reach,
    )  # fmt: skip
    dramatiq.set_broker(broker)
    yield broker
    broker.close()


@pytest.fixture
def worker(broker: Any) -> Iterator[Any]:
    """Started by the test, once its actors are declared."""
    made = dramatiq.Worker(broker, worker_timeout=100, worker_threads=2)
    yield made
    made.stop(timeout=10_000)


def test_every_message_is_processed_once(broker: Any, worker: Any) -> None:
    seen: list[int] = []
    done = threading.Event()

    @dramatiq.actor
    def note(number: int) -> None:
        seen.append(number)
        if len(seen) == 25:
            done.set()

    worker.start()
    for number in range(25):
        note.send(number)
    assert done.wait(SOON_S)
    assert sorted(seen) == list(range(25))


def test_a_delay_is_kept(broker: Any, worker: Any) -> None:
    ran: list[float] = []
    done = threading.Event()

    @dramatiq.actor
    def note() -> None:
        ran.append(time.monotonic())
        done.set()

    worker.start()
    asked = time.monotonic()
    note.send_with_options(delay=2000)
    assert done.wait(SOON_S)
    assert ran[0] - asked >= 1.9


def test_a_failing_message_is_retried_and_then_moved_to_the_dead_letter_queue(
    broker: Any, worker: Any
) -> None:
    tries: list[float] = []

    @dramatiq.actor
    def fail() -> None:
        tries.append(time.monotonic())
        raise ValueError("always")

    worker.start()
    fail.send()
    dead = wait_for(lambda: dead_letters(broker))
    assert len(dead) == 1
    assert len(tries) == 3
    assert all(after - before >= 0.9 for before, after in itertools.pairwise(tries))


def test_queues_have_their_tags(broker: Any) -> None:
    @dramatiq.actor
    def note() -> None: ...

    note.send()
    url = broker.queues["default"].url
    assert url.endswith("/suite_default")
    tags = broker.sqs.meta.client.list_queue_tags(QueueUrl=url)["Tags"]
    assert tags == {"team": "water"}


def dead_letters(broker: Any) -> list[Any]:
    queues = broker.dead_letter_queues.values()
    return [message for queue in queues for message in queue.receive_messages(WaitTimeSeconds=1)]


def wait_for(look: Any) -> Any:
    deadline = time.monotonic() + SOON_S
    while not (found := look()):
        assert time.monotonic() < deadline, "not in time"
    return found
