"""A broker for one test after the other: with its address, its account, its clock, and assertions about its queues.

The server is imported when a broker starts: importing this module costs next to nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from penstock.testing.assertions import QueueAssertions
from penstock.testing.http_subscriber import HttpSubscriber
from penstock.testing.publications import PublicationSnapshot
from penstock.testing.snapshots import QueueSnapshot, counted, snapshot_of
from penstock.testing.topic_assertions import Endpoint, TopicAssertions
from penstock.testing.topics import FixtureTopic

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue
    from penstock.client import Client, SyncClient
    from penstock.testing.server import ServerThread

T = TypeVar("T")

REGION = "us-east-1"
_FIRST_ACCOUNT = 100_000_000_001
_SECRET = "penstock"  # any: signatures are not checked
_LOOK_AGAIN_S = 0.002
_DELIVERIES_S = 2.0  # a subscriber may wait for the thread that advances the clock


class _NoQueue(Exception):
    """The text says which queues there are."""


class _NoTopic(Exception):
    """The text says which topics there are."""


class InProcessBroker(QueueAssertions, TopicAssertions):
    """A broker in a thread of this process, on a port of the loopback interface, with everything in memory.

    Start and stop it with a ``with`` block; in coroutines, with ``async with``:

        with Broker() as broker:
            sqs = broker.boto3_client()

    Its methods can be called in any thread. Those that wait block their thread: ``await
    asyncio.to_thread(broker.wait_for_receive, "orders")``.
    """

    def __init__(self, *, frozen: bool = False, relaxed_waits: bool = True) -> None:
        """Prepare a broker; it is not started yet.

        :param frozen: Whether time stands still unless the test advances it; False by default: it runs along with the
            real time.
        :param relaxed_waits: Whether the pauses of 60 seconds after DeleteQueue and PurgeQueue are left out; True by
            default.
        """
        self._frozen = frozen
        self._relaxed_waits = relaxed_waits
        self._running: ServerThread | None = None
        self._boto3_session: Any = None  # it takes time to make, and clients of one share what they load
        self._account = _FIRST_ACCOUNT
        self.region = REGION
        self.clock = BrokerClock(self)

    # -- start and stop ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the broker.

        :raises BrokerFailed: The server cannot start.
        :raises AssertionError: The broker is running.
        """
        assert self._running is None, "the broker is running"
        with _plain_imports():
            from penstock.server.settings.config import Config
            from penstock.testing.server import ServerThread
        config = Config(memory=True, test_clock=True, port=0, relaxed_waits=self._relaxed_waits)
        self._running = ServerThread(config, frozen=self._frozen)

    def stop(self) -> None:
        """Stop the broker, if it is running."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    def reset(self) -> None:
        """Prepare for the next test: delete everything, and let the clock show the real time.

        The account is another one then, so that what earlier tests have left running finds nothing.

        :raises RuntimeError: The broker is not running.
        """
        self._server.wait_for(self._server.parts.start_over())
        self._server.call(self._server.publications.clear)
        self._server.call(self._server.time.reset)
        self._account += 1

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        import asyncio

        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.stop)

    @property
    def _server(self) -> ServerThread:
        if self._running is None:
            raise RuntimeError("the broker is not running: use it within its with block, or call start()")
        return self._running

    # -- how clients reach it --------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The endpoint URL for SDKs."""
        return self._server.url

    @property
    def account(self) -> str:
        """The account number, which is also the access key."""
        return str(self._account)

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which AWS SDKs and ``penstock.client`` find the broker by themselves."""
        return {
            "AWS_ENDPOINT_URL_SQS": self.url,
            "AWS_ENDPOINT_URL_SNS": self.url,
            "AWS_ACCESS_KEY_ID": self.account,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
        }

    def boto3_client(self, service: str = "sqs", **options: Any) -> Any:
        """Make a client of boto3.

        :param service: ``sqs`` (the default), ``sns``, or another service of Penstock.
        :param options: More arguments of ``boto3.client``, such as ``config``.
        :returns: The client.
        :raises RuntimeError: The broker is not running, or boto3 is not installed.
        """
        if self._boto3_session is None:
            self._boto3_session = _boto3_session()
        given: dict[str, Any] = {
            "endpoint_url": self.url,
            "region_name": self.region,
            "aws_access_key_id": self.account,
            "aws_secret_access_key": _SECRET,
        }
        return self._boto3_session.client(service, **given | options)

    def client(self) -> SyncClient:
        """Make a client of ``penstock.client`` without asyncio. Close it, or use it in a ``with`` block.

        :returns: The client.
        :raises RuntimeError: The broker is not running.
        """
        from penstock.client import SigningKeys, SyncClient

        keys = SigningKeys(self.account, _SECRET)
        return SyncClient(endpoint_url=self.url, region=self.region, credentials=keys)

    def async_client(self) -> Client:
        """Make a client of ``penstock.client`` for asyncio. Use it in an ``async with`` block.

        :returns: The client.
        :raises RuntimeError: The broker is not running.
        """
        from penstock.client import Client, SigningKeys

        keys = SigningKeys(self.account, _SECRET)
        return Client(endpoint_url=self.url, region=self.region, credentials=keys)

    def wait_for_deliveries(self, *, timeout: float = 10) -> None:
        """Wait until no request to a subscriber of a topic is under way, nor about to begin.

        One that failed is tried again later: let time pass for it. ``clock.advance`` waits by itself.

        :param timeout: How many seconds to wait; 10 by default.
        :raises AssertionError: Some are still under way after that time.
        """
        __tracebackhide__ = True
        if busy := self._still_delivering(timeout):
            raise AssertionError(f"{counted(busy, 'delivery')} under way after {timeout:g} s")

    def _still_delivering(self, timeout: float) -> int:
        """How many requests are under way after this time; 0 as soon as there are none."""
        server = self._server
        return self._wait(lambda: server.wait_for(server.deliveries()), lambda busy: not busy, timeout)

    # -- topics ----------------------------------------------------------------------------------------------------

    def topic(self, name: str, **attributes: Any) -> FixtureTopic:
        """Create a topic, or find it if there is one.

            broker.topic("orders").subscribe("kitchen")

        :param name: The name of the topic. One that ends with ``.fifo`` is a FIFO topic.
        :param attributes: Attributes of SNS, such as ``ContentBasedDeduplication=True``. By default, none.
        :returns: The topic, to subscribe and to publish.
        :raises ApiError: The broker refused it.
        """
        given = {"FifoTopic": True, **attributes} if name.endswith(".fifo") else attributes
        with self.client() as client:
            return FixtureTopic(self, client.create_topic(name, given))

    def http_subscriber(self, *, confirms: bool = True) -> HttpSubscriber:
        """Make an HTTP server that topics send to, for a ``with`` block.

            with broker.http_subscriber() as subscriber:
                broker.topic("orders").subscribe(subscriber)

        :param confirms: Whether it confirms subscriptions by itself; True by default.
        :returns: The server, which is not started yet.
        """
        return HttpSubscriber(self.url, confirms=confirms)

    def publications(self, topic: str) -> list[PublicationSnapshot]:
        """List what was published to a topic, whoever did it.

        :param topic: The name or ARN of the topic.
        :returns: The messages, oldest first.
        :raises AssertionError: There is no such topic.
        """
        __tracebackhide__ = True
        try:
            return self._server.call(lambda: self._publications(topic))
        except _NoTopic as error:
            raise AssertionError(str(error)) from None

    def _publications(self, topic: str) -> list[PublicationSnapshot]:
        """This is called on the loop. Raises _NoTopic."""
        from penstock.names import Space
        from penstock.topics.names import TopicName

        server = self._server
        known = server.publications.of_topic(topic)
        if not known:
            name = TopicName.of_arn(topic) or TopicName(self.account, self.region, topic)
            topics = server.parts.publishing.at(name)
            if topics.get(name) is None:
                space = Space(self.account, self.region)
                names = {arn.rpartition(":")[2] for arn in topics.names(space, "", 100)}
                there = ", ".join(sorted(names | server.publications.topics())) or "none"
                raise _NoTopic(f'there is no topic "{topic}"; there are: {there}')
        return [each.snapshot() for each in known]

    def _endpoint(self, endpoint: Endpoint) -> str:
        __tracebackhide__ = True
        if isinstance(endpoint, HttpSubscriber):
            return endpoint.url
        try:
            return self._server.call(lambda: self._find(endpoint).name.arn)
        except _NoQueue as error:
            if "://" in endpoint:
                return endpoint
            raise AssertionError(str(error)) from None

    # -- queues ----------------------------------------------------------------------------------------------------

    def snapshot(self, queue: str) -> QueueSnapshot:
        """Look at all messages that are or were in a queue. This changes nothing.

        :param queue: The name, URL or ARN of the queue.
        :returns: The queue at this moment.
        :raises AssertionError: There is no such queue.
        """
        __tracebackhide__ = True
        try:
            return self._server.wait_for(self._snapshot(queue))
        except _NoQueue as error:  # without the frames of the thread of the broker
            raise AssertionError(str(error)) from None

    async def _snapshot(self, queue: str) -> QueueSnapshot:
        server = self._server
        return await snapshot_of(self._find(queue), server.parts.broker, server.known)

    def wait_for_receive(self, queue: str, *, count: int = 1, timeout: float = 10) -> None:
        """Wait until receives wait at the queue for messages.

        Call it before ``clock.advance``: a receive that another thread has begun may not have arrived yet.

        :param queue: The name, URL or ARN of the queue.
        :param count: How many receives must wait; 1 by default.
        :param timeout: How many seconds to wait for them; 10 by default.
        :raises AssertionError: There are fewer after that time, or there is no such queue.
        """
        __tracebackhide__ = True
        shown = self.snapshot(queue)  # raises if there is no such queue
        found = self._wait(
            lambda: self._server.call(lambda: len(self._find(queue).waiting.long_polls)),
            lambda waiting: waiting >= count,
            timeout,
        )
        if found < count:
            wanted = counted(count, "waiting receive")
            raise AssertionError(f"expected {wanted} at {queue}, found {found} after {timeout:g} s\n{shown}")

    def wait_until_empty(self, queue: str, *, timeout: float = 10) -> None:
        """Wait until nothing is in the queue: consumers have deleted all messages.

        :param queue: The name, URL or ARN of the queue.
        :param timeout: How many seconds to wait; 10 by default.
        :raises AssertionError: The queue is not empty after that time, or there is no such queue.
        """
        __tracebackhide__ = True
        self.snapshot(queue)  # raises if there is no such queue
        if self._wait(lambda: self._server.wait_for(self._held(queue)), lambda held: not held, timeout):
            raise AssertionError(f"{queue} is not empty after {timeout:g} s\n{self.snapshot(queue)}")

    async def _held(self, queue: str) -> int:
        counts = await self._find(queue).counts()
        return counts.visible + counts.delayed + counts.in_flight

    def _wait(self, look: Callable[[], T], enough: Callable[[T], bool], timeout: float) -> T:
        end = time.monotonic() + timeout
        while not enough(found := look()) and time.monotonic() < end:
            time.sleep(_LOOK_AGAIN_S)
        return found

    def _find(self, queue: str) -> LiveQueue:
        """Find a queue; this is called on the loop. Everything in the broker is this test's, whatever keys its
        clients have: if the account has no such queue, that of another one is meant. Raises _NoQueue."""
        name = queue.rstrip("/").rpartition("/" if "://" in queue else ":")[2]
        queues = self._server.parts.broker.queues()
        found = [each for each in queues if each.name.name == name]
        if not found:
            names = ", ".join(sorted({each.name.name for each in queues})) or "none"
            raise _NoQueue(f'there is no queue "{name}"; there are: {names}')
        own = [
            each for each in found if f"/{each.name.account}/" in queue or f":{each.name.account}:" in queue
        ]
        own = own or [each for each in found if each.name.account == self.account]
        here = [each for each in own or found if each.name.region == self.region]
        return (here or own or found)[0]


@contextmanager
def _plain_imports() -> Iterator[None]:
    """pytest compiles all modules of a distribution with a plugin, to rewrite their assertions. Doing so for a
    whole server takes a second."""
    finders = [each for each in sys.meta_path if type(each).__module__ == "_pytest.assertion.rewrite"]
    sys.meta_path[:] = [each for each in sys.meta_path if each not in finders]
    try:
        yield
    finally:
        sys.meta_path[:0] = finders


def _boto3_session() -> Any:
    try:
        from boto3.session import Session
    except ImportError:
        raise RuntimeError("boto3 is not installed: pip install 'penstock-mq[testing]', or boto3") from None
    return Session()


class BrokerClock:
    """The clock of a broker. All its accounts and queues share it.

    For example:

        broker.clock.advance(minutes=5)
    """

    def __init__(self, broker: InProcessBroker) -> None:
        """The broker makes its clock: use ``broker.clock``.

        :param broker: The broker.
        """
        self._broker = broker

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Let time pass.

        When this returns, everything has happened that was due by then: messages became visible or expired, delays
        ended, and receives that waited have their answer. Requests to subscribers of topics that are under way have
        ended before, and those that this begins have ended, too, unless they take more than two seconds.

            broker.clock.advance(minutes=5)

        :param days: Added to the others; 0 by default.
        :param hours: Added to the others; 0 by default.
        :param minutes: Added to the others; 0 by default.
        :param seconds: Added to the others; 0 by default.
        :raises ValueError: The sum is negative or more than 31 days.
        """
        server = self._broker._server
        self._broker._still_delivering(_DELIVERIES_S)
        server.wait_for(server.time.advance(days=days, hours=hours, minutes=minutes, seconds=seconds))
        self._broker._still_delivering(_DELIVERIES_S)

    @property
    def now(self) -> datetime:
        """The time as timestamps of messages show it."""
        server = self._broker._server
        return datetime.fromtimestamp(server.call(lambda: server.time.shown_ms) / 1000, UTC)

    @property
    def frozen(self) -> bool:
        """Whether time stands still unless the test advances it."""
        server = self._broker._server
        return server.call(lambda: server.time.is_frozen)

    def freeze(self) -> None:
        """Let time stand still until it is advanced, or runs again."""
        self._broker._server.call(self._broker._server.time.freeze)

    def run(self) -> None:
        """Let time run along with the real time, from what the clock shows."""
        self._broker._server.call(self._broker._server.time.run)

    def reset(self) -> None:
        """Show the real time again. What has happened is not undone."""
        self._broker._server.call(self._broker._server.time.reset)
