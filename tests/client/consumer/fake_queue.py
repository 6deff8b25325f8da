"""A queue in memory behind the methods of the client, in an event loop whose time jumps.

It follows the rules of SQS that consumers meet: visibility, receive counts, blocked groups, receipt handles.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.client.client import Client
from penstock.client.consumer.consumer import Consumer
from penstock.client.errors import ApiError, Unavailable, api_error
from penstock.client.structs import (
    BatchResult,
    DeleteEntry,
    DoneEntry,
    FailedEntry,
    Message,
    MessageAttribute,
    SentMessage,
    VisibilityEntry,
)

T = TypeVar("T")


class JumpingLoop(asyncio.SelectorEventLoop):
    """Nothing waits: when there is nothing to do, it is later."""

    def __init__(self) -> None:
        self._now = 1000.0
        super().__init__()

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now = max(self._now, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def run(story: Coroutine[Any, Any, T]) -> T:
    """Fails if it takes an hour of its own time."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(asyncio.wait_for(story, 24 * 3600))


@dataclass(eq=False)
class Stored:
    id: str
    body: str
    group: str | None
    attributes: dict[str, MessageAttribute]
    visible_at: float = 0.0
    receives: int = 0

    @property
    def handle(self) -> str:
        return f"{self.id}#{self.receives}"


def body_of(handle: str) -> str:
    return handle.partition("-")[2].partition("#")[0]


class FakeQueue(Client):
    """The client and its queue in one. ``requests`` are those that changed something, in their order."""

    def __init__(
        self,
        name: str = "orders",
        *,
        visibility_s: int = 30,
        dead_letters: str | None = None,
        is_penstock: bool = False,
    ) -> None:
        self.name = name
        self.stored: list[Stored] = []
        self.dead: list[Any] = []
        self.requests: list[tuple[str, Any]] = []
        self.receives: list[int] = []  # how many messages were asked for
        self.reports: list[dict[str, Any]] = []
        self.failing: dict[str, Exception] = {}  # by method
        self.answers_late_s: dict[str, float] = {}
        self.aborted_receives = 0
        self._visibility_s = visibility_s
        self._dead_letters = dead_letters
        self._has_admin = is_penstock
        self._changed = asyncio.Event()

    def put(self, *bodies: str, group: str | None = None, **attributes: str) -> None:
        values = {name: MessageAttribute("String", string_value=value) for name, value in attributes.items()}
        for body in bodies:
            self.stored.append(Stored(f"m{len(self.stored)}-{body}", body, group, values))
        self._changed.set()

    @property
    def bodies(self) -> list[str]:
        return [message.body for message in self.stored]

    @property
    def visible(self) -> list[str]:
        now = asyncio.get_running_loop().time()
        return [message.body for message in self.stored if message.visible_at <= now]

    def done(self, kind: str) -> list[Any]:
        return [what for name, what in self.requests if name == kind]

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        for _ in range(100_000):
            if holds():
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"in vain: {what}")

    async def empty(self) -> None:
        await self.until(lambda: not self.stored, f"the queue has {self.bodies}")

    # -- the methods of the client -----------------------------------------------------------------------------

    async def _answer(self, method: str) -> None:
        await asyncio.sleep(self.answers_late_s.get(method, 0.001))
        if method in self.failing:
            raise self.failing[method]

    async def get_queue_attributes(self, queue_url: str, names: Sequence[str] = ("All",)) -> dict[str, str]:
        await self._answer("get_queue_attributes")
        attributes = {"VisibilityTimeout": str(self._visibility_s)}
        if self._dead_letters:
            arn = f"arn:aws:sqs:us-east-1:123456789012:{self._dead_letters}"
            attributes["RedrivePolicy"] = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 9})
        return {name: attributes[name] for name in names if name in attributes}

    async def get_queue_url(self, name: str, *, owner_account_id: str | None = None) -> str:
        return f"https://sqs.us-east-1.amazonaws.com/{owner_account_id}/{name}"

    async def receive_message(self, queue_url: str, **options: Any) -> list[Message]:
        self.receives.append(options["max_number_of_messages"])
        loop = asyncio.get_running_loop()
        until = loop.time() + options["wait_time_seconds"]
        try:
            await self._answer("receive_message")
            while not (
                messages := self._deliver(options["max_number_of_messages"], options["visibility_timeout"])
            ):
                self._changed.clear()
                visible = min(
                    (each.visible_at for each in self.stored if each.visible_at > loop.time()), default=until
                )
                if loop.time() >= until:
                    return []
                try:
                    async with asyncio.timeout_at(min(until, visible)):
                        await self._changed.wait()
                except TimeoutError:
                    pass
        except asyncio.CancelledError:
            self.aborted_receives += 1
            raise
        return messages

    def _deliver(self, count: int, visibility_s: int) -> list[Message]:
        now = asyncio.get_running_loop().time()
        blocked: set[str] = set()
        given: list[Stored] = []
        for message in self.stored:
            if message.visible_at > now:
                blocked.add(message.group or "")
            elif len(given) < count and not (message.group and message.group in blocked):
                message.receives += 1
                message.visible_at = now + visibility_s
                given.append(message)
        return [
            Message(
                each.id, each.handle, each.body, message_attributes=each.attributes,
                attributes={"ApproximateReceiveCount": str(each.receives)}
                | ({"MessageGroupId": each.group} if each.group else {}),
            )
            for each in given
        ]  # fmt: skip

    def _held(self, handle: str) -> Stored:
        """SQS: only FIFO queues refuse a handle of an earlier receive."""
        now = asyncio.get_running_loop().time()
        for message in self.stored:
            if message.id == handle.partition("#")[0]:
                if message.group and (message.handle != handle or message.visible_at <= now):
                    break
                return message
        raise api_error("ReceiptHandleIsInvalid", "The receipt handle has expired", 400, "")

    async def delete_message_batch(
        self, queue_url: str, entries: Iterable[DeleteEntry | str]
    ) -> BatchResult[DoneEntry]:
        handles = [entry for entry in entries if isinstance(entry, str)]
        await self._answer("delete_message_batch")
        self.requests.append(("delete", [body_of(handle) for handle in handles]))
        return self._batch(handles, self._delete)

    def _delete(self, place: int, handle: str) -> None:
        if any(message.id == handle.partition("#")[0] for message in self.stored):
            self.stored.remove(self._held(handle))
        self._changed.set()

    async def change_message_visibility(
        self, queue_url: str, receipt_handle: str, visibility_timeout: int
    ) -> None:
        await self._answer("change_message_visibility")
        self._hide(receipt_handle, visibility_timeout)
        self.requests.append(("hide", (body_of(receipt_handle), visibility_timeout)))

    async def change_message_visibility_batch(
        self, queue_url: str, entries: Iterable[VisibilityEntry]
    ) -> BatchResult[DoneEntry]:
        given = list(entries)
        await self._answer("change_message_visibility_batch")
        kind = "extend" if given[0].visibility_timeout else "give back"
        self.requests.append((kind, [body_of(each.receipt_handle) for each in given]))
        return self._batch(
            [each.receipt_handle for each in given],
            lambda place, handle: self._hide(handle, given[place].visibility_timeout),
        )

    def _hide(self, handle: str, seconds: int) -> None:
        self._held(handle).visible_at = asyncio.get_running_loop().time() + seconds
        self._changed.set()

    def _batch(self, handles: list[str], change: Callable[[int, str], None]) -> BatchResult[DoneEntry]:
        result: BatchResult[DoneEntry] = BatchResult([], [])
        for place, handle in enumerate(handles):
            try:
                change(place, handle)
                result.successful.append(DoneEntry(str(place)))
            except ApiError as error:
                result.failed.append(FailedEntry(str(place), error.code, True, error.message))
        return result

    async def send_message(self, queue_url: str, body: str, **options: Any) -> SentMessage:
        await self._answer("send_message")
        self.dead.append((queue_url, body, options))
        return SentMessage("new")

    async def is_penstock(self) -> bool:
        await self._answer("is_penstock")
        return self._has_admin

    async def admin(
        self, method: str, path: str, query: dict[str, Any] | None = None, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        assert method == "POST" and body is not None
        _, _, _, _, id, action = path.split("/")
        await self._answer(action)
        if action == "failures":
            self.reports.append({"id": id, **body})
            return {}
        assert action == "dead-letter"
        if self._dead_letters is None:
            raise api_error("NotPossible", "The queue has no dead-letter queue", 409, "")
        message = self._held(body["receipt_handle"])
        self.stored.remove(message)
        self.dead.append(message.body)
        return {}


class Started:
    """A consumer that runs while the block does."""

    def __init__(self, queue: FakeQueue, function: Callable[..., Any], **options: Any) -> None:
        self.consumer = Consumer(queue, queue.name, function, worker="w1", **options)

    async def __aenter__(self) -> Consumer:
        self._task = asyncio.create_task(self.consumer.run())
        return self.consumer

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        await self.consumer.stop(0)
        await self._task


Handle = Callable[..., Awaitable[Any]]
NO_ANSWER = Unavailable("no answer")
