"""The blocking client: the same actions, without an event loop."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from penstock.client.actions import Actions
from penstock.client.api import run
from penstock.client.client import CONNECTIONS_MAX, chosen_endpoint
from penstock.client.credentials import KeySource
from penstock.client.endpoint import Endpoint
from penstock.client.http.blocking import BlockingNetwork
from penstock.client.large_payloads import LargePayloads
from penstock.client.retries import Retries
from penstock.client.session import TIMEOUT_S, Session

P = ParamSpec("P")
R = TypeVar("R")


def _blocking(
    action: Callable[Concatenate[Actions, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[SyncClient, P], R]:
    """The same method with the same parameters. Its coroutine awaits nothing but the blocking network."""

    @functools.wraps(action)
    def call(client: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return run(action(client._actions, *args, **kwargs))

    return call


def _blocking_iterator(
    action: Callable[Concatenate[Actions, P], AsyncIterator[R]],
) -> Callable[Concatenate[SyncClient, P], Iterator[R]]:
    @functools.wraps(action)
    def iterate(client: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        items = action(client._actions, *args, **kwargs)
        while True:
            try:
                yield run(anext(items))  # type: ignore[arg-type]  # it can be sent to, as a coroutine
            except StopAsyncIteration:
                return

    return iterate


class SyncClient:
    """A client of Penstock, or of Amazon SQS and SNS, without asyncio, for any number of threads.

    Its methods are those of :class:`Client`, and block. Use it as a context manager, or close it:

        with SyncClient() as client:
            client.send_message("orders", "two lattes")
    """

    def __init__(
        self,
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        profile: str | None = None,
        context: str | None = None,
        credentials: KeySource | None = None,
        max_connections: int = CONNECTIONS_MAX,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        large_payloads: LargePayloads | None = None,
    ) -> None:
        """Find the server and the keys; nothing is sent yet.

        :param endpoint_url: The URL of the server, or ``"aws"`` for Amazon SQS. By default it is found as commands
            and AWS SDKs find it.
        :param region: The AWS region. By default it is found like the endpoint.
        :param profile: The profile of the AWS files to take keys and settings from. By default that
            of the context, or ``AWS_PROFILE``.
        :param context: The context of ``penstock context`` to take the server from. By default the chosen one, if
            there is any.
        :param credentials: Keys to sign with, or where they come from. By default they are found as AWS SDKs find
            them.
        :param max_connections: How many connections are open at most; 64 by default. Further requests wait.
        :param timeout_s: Seconds for one attempt; 30 by default. A receive has in addition what the server may wait.
        :param retries: Which requests are repeated. By default :class:`Retries` with its defaults.
        :param large_payloads: Where bodies are stored that are too large for a queue. By default, nowhere.
        :raises EndpointError: It is not clear which server is meant.
        :raises ProfileError: The profile cannot be read.
        :raises ValueError: A limit is invalid.
        """
        endpoint = chosen_endpoint(endpoint_url, region, profile, context, credentials)
        network = BlockingNetwork(max_connections)
        self._session = Session(endpoint, network, timeout_s=timeout_s, retries=retries)
        self._actions = Actions(self._session, large_payloads)

    send_message = _blocking(Actions.send_message)
    send_at = _blocking(Actions.send_at)
    send_message_batch = _blocking(Actions.send_message_batch)
    receive_message = _blocking(Actions.receive_message)
    delete_message = _blocking(Actions.delete_message)
    delete_message_batch = _blocking(Actions.delete_message_batch)
    change_message_visibility = _blocking(Actions.change_message_visibility)
    change_message_visibility_batch = _blocking(Actions.change_message_visibility_batch)
    create_queue = _blocking(Actions.create_queue)
    get_queue_url = _blocking(Actions.get_queue_url)
    list_queues = _blocking(Actions.list_queues)
    list_queue_pages = _blocking_iterator(Actions.list_queue_pages)
    get_queue_attributes = _blocking(Actions.get_queue_attributes)
    set_queue_attributes = _blocking(Actions.set_queue_attributes)
    purge_queue = _blocking(Actions.purge_queue)
    delete_queue = _blocking(Actions.delete_queue)
    list_dead_letter_source_queues = _blocking(Actions.list_dead_letter_source_queues)
    tag_queue = _blocking(Actions.tag_queue)
    untag_queue = _blocking(Actions.untag_queue)
    list_queue_tags = _blocking(Actions.list_queue_tags)
    add_permission = _blocking(Actions.add_permission)
    remove_permission = _blocking(Actions.remove_permission)
    start_message_move_task = _blocking(Actions.start_message_move_task)
    cancel_message_move_task = _blocking(Actions.cancel_message_move_task)
    list_message_move_tasks = _blocking(Actions.list_message_move_tasks)
    create_topic = _blocking(Actions.create_topic)
    delete_topic = _blocking(Actions.delete_topic)
    list_topics = _blocking(Actions.list_topics)
    list_topic_pages = _blocking_iterator(Actions.list_topic_pages)
    get_topic_attributes = _blocking(Actions.get_topic_attributes)
    set_topic_attributes = _blocking(Actions.set_topic_attributes)
    subscribe = _blocking(Actions.subscribe)
    subscribe_queue = _blocking(Actions.subscribe_queue)
    confirm_subscription = _blocking(Actions.confirm_subscription)
    unsubscribe = _blocking(Actions.unsubscribe)
    get_subscription_attributes = _blocking(Actions.get_subscription_attributes)
    set_subscription_attributes = _blocking(Actions.set_subscription_attributes)
    list_subscriptions = _blocking(Actions.list_subscriptions)
    list_subscriptions_by_topic = _blocking(Actions.list_subscriptions_by_topic)
    publish = _blocking(Actions.publish)
    publish_batch = _blocking(Actions.publish_batch)
    tag_topic = _blocking(Actions.tag_topic)
    untag_topic = _blocking(Actions.untag_topic)
    list_topic_tags = _blocking(Actions.list_topic_tags)
    is_penstock = _blocking(Actions.is_penstock)
    admin = _blocking(Actions.admin)

    @property
    def endpoint(self) -> Endpoint:
        """The server that was chosen."""
        return self._session.endpoint

    def close(self) -> None:
        """Close all connections that are not in use."""
        run(self._session.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
