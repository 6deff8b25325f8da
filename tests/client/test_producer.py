"""A producer over a client that answers as the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from penstock.client.codec import EncodeError, JsonCodec
from penstock.client.consumer.retry import Constant
from penstock.client.errors import ApiError, Unavailable
from penstock.client.producer import Producer
from penstock.client.structs import BatchResult, FailedEntry, SendEntry, SentEntry

AT_ONCE = Constant(0)
Answer = Callable[[list[SendEntry]], Awaitable[BatchResult[SentEntry]]]


class FakeClient:
    """``batches`` are the bodies of all requests, ``stored`` those that were accepted."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.batches: list[list[str]] = []
        self.entries: list[SendEntry] = []
        self.stored: list[str] = []
        self.under_way = 0
        self.under_way_max = 0
        self._answer = answer or accept()
        self._next = asyncio.Event()

    async def requested(self, times: int) -> None:
        while len(self.batches) < times:
            self._next.clear()
            await self._next.wait()

    async def send_message_batch(
        self, queue_url: str, entries: Iterable[SendEntry]
    ) -> BatchResult[SentEntry]:
        given = list(entries)
        self.batches.append([entry.body for entry in given])
        self.entries += given
        self._next.set()
        self.under_way += 1
        self.under_way_max = max(self.under_way, self.under_way_max)
        await asyncio.sleep(0)
        try:
            result = await self._answer(given)
        finally:
            self.under_way -= 1
        self.stored += [given[int(sent.id)].body for sent in result.successful]
        return result


def accept(
    fails: Callable[[str], FailedEntry | Exception | None] = lambda body: None,
    gate: asyncio.Event | None = None,
) -> Answer:
    """Each message succeeds unless ``fails`` says how it fails; an exception fails the whole batch."""

    async def answer(entries: list[SendEntry]) -> BatchResult[SentEntry]:
        if gate is not None:
            await gate.wait()
        result: BatchResult[SentEntry] = BatchResult(successful=[], failed=[])
        for place, entry in enumerate(entries):
            failure = fails(entry.body)
            if isinstance(failure, Exception):
                raise failure
            if failure is not None:
                result.failed.append(
                    FailedEntry(str(place), failure.code, failure.sender_fault, failure.message)
                )
            else:
                result.successful.append(SentEntry(f"id-{entry.body}", id=str(place)))
        return result

    return answer


def once(failure: FailedEntry | Exception, *bodies: str) -> Callable[[str], FailedEntry | Exception | None]:
    """Each of these bodies fails at its first attempt."""
    left = set(bodies)

    def fails(body: str) -> FailedEntry | Exception | None:
        if body not in left:
            return None
        left.discard(body)
        return failure

    return fails


THROTTLED = FailedEntry("", "RequestThrottled", False, "slow down")
INVALID = FailedEntry("", "InvalidMessageContents", True, "invalid characters")
BAD_REQUEST = ApiError("InvalidMessageContents", "invalid characters", 400)
NO_ANSWER = Unavailable("no answer")


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await test()

    asyncio.run(limited())


def test_messages_of_many_tasks_share_requests() -> None:
    async def test() -> None:
        client = FakeClient()
        async with Producer(client, "orders", linger_s=0.3) as producer:  # longer than a busy machine pauses
            sent = await asyncio.gather(*(producer.send(str(number)) for number in range(25)))
        assert [one.message_id for one in sent] == [f"id-{number}" for number in range(25)]
        assert sorted(len(batch) for batch in client.batches) == [5, 10, 10]

    run(test)


def test_values_are_encoded_and_keep_their_options() -> None:
    async def test() -> None:
        client = FakeClient()
        async with Producer(client, "orders", codec=JsonCodec(type_attribute="Type")) as producer:
            await producer.send(
                {"drink": "tea"}, delay_seconds=5, message_attributes={"n": 1}, message_group_id="g",
                message_deduplication_id="d",
            )  # fmt: skip
            with pytest.raises(EncodeError):
                await producer.send(object())
        (entry,) = client.entries
        assert entry.body == '{"drink":"tea"}'
        assert entry.message_attributes == {"Type": "dict", "n": 1}
        assert (entry.delay_seconds, entry.message_group_id, entry.message_deduplication_id) == (5, "g", "d")

    run(test)


def test_the_trace_of_the_environment_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988-bd862e3fe1be46a994272793")

    async def test() -> None:
        client = FakeClient()
        async with Producer(client, "orders") as producer:
            await producer.send("tea")
        trace = {"AWSTraceHeader": "Root=1-5759e988-bd862e3fe1be46a994272793"}
        assert client.entries[0].message_system_attributes == trace

    run(test)


def test_the_current_span_is_passed_on() -> None:
    context = SpanContext(
        trace_id=0x5759E988BD862E3FE1BE46A994272793, span_id=0x53995C3F42CD8AD8, is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )  # fmt: skip
    header = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"

    async def test() -> None:
        client = FakeClient()
        async with Producer(client, "orders") as producer:
            with trace.use_span(NonRecordingSpan(context)):
                await producer.send("tea")
                await producer.send("coffee", message_system_attributes={"AWSTraceHeader": "Root=other"})
            await producer.send("water")
        traces = [entry.message_system_attributes for entry in client.entries]
        assert traces == [{"AWSTraceHeader": header}, {"AWSTraceHeader": "Root=other"}, None]

    run(test)


def test_a_closed_producer_has_sent_everything_and_takes_nothing_more() -> None:
    async def test() -> None:
        client = FakeClient()
        producer = Producer(client, "orders", linger_s=3600)
        outcome = await producer.submit("tea")
        await producer.aclose()
        assert (await outcome).message_id == "id-tea"
        with pytest.raises(RuntimeError, match="closed"):
            await producer.send("coffee")

    run(test)


def test_a_flush_waits_for_what_was_submitted() -> None:
    async def test() -> None:
        client = FakeClient()
        async with Producer(client, "orders", linger_s=3600) as producer:
            await producer.submit("tea")
            await producer.flush()
            assert client.stored == ["tea"]

    run(test)


@pytest.mark.parametrize(
    "wrong", [{"requests_max": 0}, {"messages_max": 0}, {"bytes_max": 0}, {"linger_s": -1.0}]
)
def test_limits_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    async def test() -> None:
        ((name, value),) = wrong.items()
        with pytest.raises(ValueError, match=f"{name}={value}"):
            Producer(FakeClient(), "orders", **wrong)

    run(test)


def test_requests_at_a_time_are_bounded() -> None:
    async def test() -> None:
        client = FakeClient()
        async with Producer(client, "orders", requests_max=3) as producer:
            await asyncio.gather(*(producer.send(str(number)) for number in range(200)))
        assert client.under_way_max == 3

    run(test)


def test_a_loop_of_submits_does_not_keep_requests_from_being_made() -> None:
    async def test() -> None:
        client = FakeClient()
        async with Producer(client, "orders") as producer:
            for number in range(1000):
                await producer.submit(str(number))
            assert len(client.stored) > 100

    run(test)


# -- failures ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [THROTTLED, NO_ANSWER, ApiError("InternalError", "?", 500)])
def test_what_failed_for_now_is_sent_again(failure: FailedEntry | Exception) -> None:
    async def test() -> None:
        client = FakeClient(accept(once(failure, "3", "7")))
        async with Producer(client, "orders", backoff=AT_ONCE) as producer:
            await asyncio.gather(*(producer.send(str(number)) for number in range(10)))
        assert sorted(client.stored) == [str(number) for number in range(10)]

    run(test)


def test_a_refused_message_fails_alone() -> None:
    async def test() -> None:
        client = FakeClient(accept(lambda body: INVALID if body == "3" else None))
        async with Producer(client, "orders", linger_s=3600) as producer:
            sent = await asyncio.gather(
                *(producer.send(str(number)) for number in range(10)), return_exceptions=True
            )
        (failed,) = [one for one in sent if isinstance(one, Exception)]
        assert sent.index(failed) == 3
        assert isinstance(failed, ApiError)
        assert failed.code == "InvalidMessageContents"
        assert len(client.batches) == 1, "it is not tried again"

    run(test)


def test_a_batch_that_is_refused_as_a_whole_is_sent_one_by_one() -> None:
    async def test() -> None:
        client = FakeClient(accept(lambda body: BAD_REQUEST if body == "3" else None))
        async with Producer(client, "orders") as producer:
            sent = await asyncio.gather(
                *(producer.send(str(number)) for number in range(10)), return_exceptions=True
            )
        assert [place for place, one in enumerate(sent) if isinstance(one, Exception)] == [3]
        assert sent[3] is BAD_REQUEST
        assert sorted(client.stored) == [str(number) for number in range(10) if number != 3]

    run(test)


@pytest.mark.parametrize("code", ["AWS.SimpleQueueService.NonExistentQueue", "AccessDenied"])
def test_a_refusal_of_the_queue_is_one_of_all_messages(code: str) -> None:
    async def test() -> None:
        client = FakeClient(accept(lambda body: ApiError(code, "?", 400)))
        async with Producer(client, "orders", linger_s=3600) as producer:
            sent = await asyncio.gather(
                *(producer.send(str(number)) for number in range(10)), return_exceptions=True
            )
        assert all(isinstance(one, ApiError) for one in sent)
        assert len(client.batches) == 1

    run(test)  # fmt: skip


def test_a_message_fails_when_its_time_is_over() -> None:
    async def test() -> None:
        client = FakeClient(accept(lambda body: NO_ANSWER))
        pauses = {1: 0.0, 2: 0.0, 3: 3600.0}
        async with Producer(client, "orders", backoff=pauses.__getitem__, retry_s_max=60) as producer:
            with pytest.raises(Unavailable):
                await producer.send("tea")
        assert len(client.batches) == 3

    run(test)


def test_an_unexpected_error_reaches_the_senders() -> None:
    async def test() -> None:
        client = FakeClient(accept(lambda body: ZeroDivisionError()))
        async with Producer(client, "orders") as producer:
            with pytest.raises(ZeroDivisionError):
                await producer.send("tea")

    run(test)


# -- order ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "batch_groups"),
    [(THROTTLED, False), (NO_ANSWER, False), (NO_ANSWER, True), (BAD_REQUEST, False), (BAD_REQUEST, True)],
)
def test_a_failed_message_of_a_group_is_not_overtaken(
    failure: FailedEntry | Exception, batch_groups: bool
) -> None:
    async def test() -> None:
        client = FakeClient(accept(once(failure, "a0", "a3", "b5")))
        async with Producer(client, "orders.fifo", backoff=AT_ONCE, batch_groups=batch_groups) as producer:
            await asyncio.gather(
                *(producer.send(f"{group}{number}", message_group_id=group)
                  for number in range(8) for group in "abc"),
                return_exceptions=True,
            )  # fmt: skip
        for group in "abc":
            arrived = [body for body in client.stored if body.startswith(group)]
            assert arrived == sorted(arrived)

    run(test)


# -- back-pressure -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits", [{"messages_max": 2}, {"bytes_max": 20}, {"bytes_max": 1, "messages_max": 2}]
)
def test_senders_wait_for_room_in_their_order(limits: dict[str, int]) -> None:
    async def test() -> None:
        gate = asyncio.Event()
        client = FakeClient(accept(gate=gate))
        async with Producer(client, "orders", **limits) as producer:  # type: ignore[arg-type]
            senders = [asyncio.create_task(producer.send(f"message {number}")) for number in range(6)]
            await client.requested(1)
            assert 1 <= len(client.entries) <= 2
            gate.set()
            await asyncio.gather(*senders)
        assert client.stored == [f"message {number}" for number in range(6)]

    run(test)


def test_a_cancelled_sender_makes_room() -> None:
    async def test() -> None:
        gate = asyncio.Event()
        client = FakeClient(accept(gate=gate))
        async with Producer(client, "orders", messages_max=1, linger_s=0) as producer:
            first, second, third = (asyncio.create_task(producer.send(body)) for body in "abc")
            await client.requested(1)
            second.cancel()  # while it waits for room
            first.cancel()  # while its request is under way
            await client.requested(2)
            gate.set()
            await third
        assert sorted(client.stored) == ["a", "c"]

    run(test)


def test_a_message_can_be_withdrawn_before_its_request() -> None:
    async def test() -> None:
        client = FakeClient()
        async with Producer(client, "orders.fifo", linger_s=3600) as producer:
            outcomes = [await producer.submit(body, message_group_id="g") for body in "abc"]
            outcomes[0].cancel()
            outcomes[1].cancel()
            await producer.flush()
        assert client.stored == ["c"]

    run(test)


def test_a_cancelled_close_gives_up_and_nobody_waits() -> None:
    async def test() -> None:
        client = FakeClient(accept(gate=asyncio.Event()))
        producer = Producer(client, "orders", linger_s=0)
        sender = asyncio.create_task(producer.send("tea"))
        await client.requested(1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(producer.aclose(), 0.01)
        with pytest.raises(asyncio.CancelledError):
            await sender

    run(test)
