"""Arguments that several commands take, such as a queue or a duration, and how durations and sizes are shown."""

from __future__ import annotations

import math
import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from penstock.quantities import SECONDS, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from click.shell_completion import CompletionItem

    from penstock.client.api import ApiSession
    from penstock.client.topic_names import Subscriber

_COMPLETION_TIMEOUT_S = 1.0
_COMPLETIONS_MAX = 200
_COMPLETED = re.compile(r"[\w.-]+", re.ASCII)  # a shell would run parts of other texts
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/(s|m|h))?")
_PER = {None: 1, "s": 1, "m": 60, "h": 3600}


class QueueArgument(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """A queue by name, URL or ARN."""

    name = "queue"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names of the server that the flags so far choose."""
        from click.shell_completion import CompletionItem

        from penstock.client.queue_names import queue_name

        prefix = {"QueueNamePrefix": incomplete} if incomplete else {}
        found = _ask(ctx, lambda session: session.sqs("ListQueues", **prefix))
        names = (queue_name(url) for url in found.get("QueueUrls", []))
        return [CompletionItem(name) for name in names if _COMPLETED.fullmatch(name)][:_COMPLETIONS_MAX]


class MessageIdArgument(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """The id of a message in the queue that was given before it."""

    name = "id"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Suggests the ids of the first messages, each with its state. Amazon SQS does not tell them."""
        from click.shell_completion import CompletionItem

        from penstock.client.api import quoted
        from penstock.client.queue_names import queue_name

        queue = ctx.params.get("queue")
        if queue is None:
            return []
        path = f"/queues/{quoted(queue_name(queue))}/messages"
        query = {"limit": _COMPLETIONS_MAX, "body_bytes": 0}
        found = _ask(ctx, lambda session: session.admin("GET", path, query) if session.is_penstock else {})
        return [
            CompletionItem(message["id"], help=message["state"])
            for message in found.get("messages", [])
            if message["id"].startswith(incomplete) and _COMPLETED.fullmatch(message["id"])
        ]


class TopicArgument(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """A topic by name or ARN."""

    name = "topic"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Suggests names of the server that the flags so far choose."""
        from click.shell_completion import CompletionItem

        from penstock.client.topic_names import topic_name

        found = _ask(ctx, lambda session: session.sns("ListTopics"))
        names = sorted(topic_name(topic["TopicArn"]) for topic in found.get("Topics", []))
        fitting = (name for name in names if name.startswith(incomplete) and _COMPLETED.fullmatch(name))
        return [CompletionItem(name) for name in fitting][:_COMPLETIONS_MAX]


class SubscriberArgument(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """Who gets the messages of a topic: queue:NAME, a URL, mailto:ADDRESS, sms:NUMBER or an ARN."""

    name = "endpoint"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Subscriber:
        from penstock.client.topic_names import Subscriber, read_subscriber

        if isinstance(value, Subscriber):
            return value
        read = read_subscriber(value)
        if read is None:
            self.fail(
                f'"{value}" is not an endpoint: expected queue:NAME, https://…, mailto:ADDRESS, sms:NUMBER or an ARN',
                param,
                ctx,
            )
        return read

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Suggests the kinds of endpoints, and queues of the server that the flags so far choose."""
        from click.shell_completion import CompletionItem

        kind, colon, name = incomplete.partition(":")
        if kind == "queue" and colon:
            queues = QUEUE.shell_complete(ctx, param, name)
            return [CompletionItem(f"queue:{queue.value}") for queue in queues]
        kinds = ("queue:", "https://", "http://", "mailto:", "sms:")
        return [CompletionItem(each) for each in kinds if each.startswith(incomplete)]


def _ask(ctx: click.Context, question: Callable[[ApiSession], dict[str, Any]]) -> dict[str, Any]:
    """The server that the flags so far choose. If it does not answer at once, there is nothing to offer."""
    from penstock.cli.failure import Failure
    from penstock.cli.target import Target
    from penstock.client.api import ApiError, ApiSession, Unavailable
    from penstock.client.credentials import ProfileError
    from penstock.client.endpoint import EndpointError, find_endpoint

    flags: dict[str, Any] = {name: ctx.params.get(name) for name in ("context", "profile", "region")}
    flags["url"] = ctx.params.get("endpoint_url")
    shell = ctx.find_object(Target)
    try:
        endpoint = find_endpoint(**flags) if shell is None else shell.changed(flags, shell.out).endpoint
        with closing(ApiSession.of(endpoint, timeout_s=_COMPLETION_TIMEOUT_S)) as session:
            return question(session)
    except (ApiError, Unavailable, EndpointError, ProfileError, Failure):
        return {}


def complete_context(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from penstock.client.endpoint import EndpointError, read_contexts

    try:
        return sorted(name for name in read_contexts().by_name if name.startswith(incomplete))
    except EndpointError:
        return []


class DurationArgument(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """``30s``, ``15m``, ``2h``, ``4d``, or seconds; in seconds."""

    name = "duration"

    def __init__(self, low: float = 0, high: float = math.inf) -> None:
        self._low, self._high = low, high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            seconds = parse_quantity(str(value), SECONDS)
        except ValueError:
            self.fail(f'"{value}" is not a duration: expected for example 30s, 15m, 2h or 4d', param, ctx)
        if not self._low <= seconds <= self._high:
            limits = f"{short_duration(self._low)} to {short_duration(self._high)}"
            self.fail(f"{value} is not in the range of {limits}", param, ctx)
        return seconds


class RateArgument(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """``50``, ``50/s`` or ``600/m``; per second."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = _RATE.fullmatch(str(value).strip())
        if found is None or not float(found[1]):
            self.fail(
                f'"{value}" is not a rate: expected for example 50 (a second), 50/s or 600/m', param, ctx
            )
        return float(found[1]) / _PER[found[2]]


QUEUE = QueueArgument()
TOPIC = TopicArgument()
SUBSCRIBER = SubscriberArgument()
MESSAGE_ID = MessageIdArgument()
DURATION = DurationArgument()
RATE = RateArgument()

topic_argument = click.argument("topic", type=TOPIC, metavar="TOPIC")
queue_argument = click.argument("queue", type=QUEUE, metavar="QUEUE")
id_argument = click.argument("id", type=MESSAGE_ID, metavar="ID")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def read_pairs(texts: Iterable[str], flag: str) -> dict[str, str]:
    """Reads NAME=VALUE, however often the flag was given."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise click.BadParameter(f'"{text}" has no "="', param_hint=flag)
        found[name] = value
    return found


def short_duration(seconds: float | None) -> str | None:
    """Formats a duration in its two largest units: "4d", "1h 30m", "250ms"."""
    if seconds is None:
        return None
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    left, parts = int(seconds), []
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if count := left // length:
            parts.append(f"{count}{unit}")
            left -= count * length
    return " ".join(parts[:2]) or "0s"


def short_age(seconds: float | None) -> str | None:
    """Shows an age in whole seconds."""
    return None if seconds is None else short_duration(int(seconds))


def short_size(count: int | None) -> str | None:
    """Shows a size in the largest unit: "512B", "1.5KB"."""
    if count is None:
        return None
    size, units = float(count), ["B", "KB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.1f}".removesuffix(".0") + units[0]
