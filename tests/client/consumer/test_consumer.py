"""A consumer with a queue in memory: what it asks of the queue, and when."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from client.consumer.fake_queue import NO_ANSWER, FakeQueue, Started, run
from penstock.client.codec import DecodeError
from penstock.client.consumer.consumer import Consumer
from penstock.client.consumer.context import MessageContext
from penstock.client.consumer.receiving import CannotStart
from penstock.client.consumer.retry import Constant, GiveUp, Retry, RetryPolicy
from penstock.client.credentials import ProfileError
from penstock.client.errors import api_error
from penstock.client.structs import Message
from support.texts import says

DENIED = api_error("AccessDenied", "not allowed", 403, "")


class Order(msgspec.Struct):
    number: int


# -- handling ------------------------------------------------------------------------------------------------


def test_messages_are_handled_and_deleted() -> None:
    async def story() -> None:
        queue, got = FakeQueue(), list[Any]()
        queue.put('{"number": 1}', '{"number": 2}')

        async def handle(order: Order, context: MessageContext) -> None:
            got.append((order.number, context.attempt, context.queue, context.worker))

        async with Started(queue, handle):
            await queue.empty()
        assert got == [(1, 1, "orders", "w1"), (2, 1, "orders", "w1")]

    run(story())


def test_at_most_so_many_at_a_time() -> None:
    async def story() -> None:
        queue, running, most = FakeQueue(), 0, 0
        queue.put(*(str(number) for number in range(50)))

        async def handle(message: Message) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.1)
            running -= 1

        async with Started(queue, handle, concurrency=7):
            await queue.empty()
        assert most == 7

    run(story())


def test_slow_handlers_leave_messages_to_other_workers() -> None:
    async def story() -> None:
        queue = FakeQueue()
        queue.put(*(str(number) for number in range(50)))

        async def handle(message: Message) -> None:
            await asyncio.sleep(60)

        async with Started(queue, handle, concurrency=3):
            await queue.until(lambda: len(queue.stored) < 40, "some are handled")
            assert len(queue.stored) - len(queue.visible) == 3, "none waits here"

    run(story())


def test_quick_handlers_have_messages_received_in_advance() -> None:
    async def story() -> None:
        queue = FakeQueue()
        queue.put(*(str(number) for number in range(500)))

        async def handle(message: Message) -> None:
            await asyncio.sleep(0.05)

        async with Started(queue, handle, concurrency=2):
            await queue.empty()
        assert Counter(queue.receives)[10] > 20, "most receives fetch ten"

    run(story())


def test_a_failing_handler_is_tried_again_after_the_pause() -> None:
    async def story() -> None:
        queue, attempts = FakeQueue(is_penstock=True), list[tuple[int, float]]()
        queue.put("x")

        async def handle(body: str, context: MessageContext) -> None:
            attempts.append((context.attempt, asyncio.get_running_loop().time()))
            if context.attempt < 3:
                raise ValueError("order 17 of customer 12345 is wrong")

        async with Started(queue, handle, retry=RetryPolicy(Constant(7))):
            await queue.empty()
        assert [attempt for attempt, _ in attempts] == [1, 2, 3]
        pauses = [later - earlier for (_, earlier), (_, later) in pairwise(attempts)]
        assert all(7 <= pause < 7.5 for pause in pauses)
        first, second = queue.reports
        assert first["reason"] == "ValueError: order 17 of customer … is wrong"
        assert "in handle\n" in first["detail"] and "order 17 of customer 12345" in first["detail"]
        assert "call_through" not in first["detail"], "only what is of the user"
        assert (first["attempt"], second["attempt"], first["worker"]) == (1, 2, "w1")

    run(story())


def test_a_handler_asks_for_another_attempt() -> None:
    async def story() -> None:
        queue = FakeQueue(is_penstock=True)
        queue.put("x", "y")

        async def handle(body: str, context: MessageContext) -> None:
            if context.attempt == 1:
                raise Retry("busy" if body == "x" else "", after=42)

        async with Started(queue, handle):
            await queue.empty()
        assert sorted(queue.done("hide")) == [("x", 42), ("y", 42)]
        assert [report["reason"] for report in queue.reports] == ["busy"], "nothing to say, nothing to report"

    run(story())


def test_errors_are_passed_on() -> None:
    async def story() -> None:
        queue, reported = FakeQueue(), list[Any]()
        queue.put("x")

        async def handle(body: str, context: MessageContext) -> None:
            if context.attempt < 3:
                raise ValueError(body)

        def on_error(error: BaseException, context: MessageContext) -> None:
            reported.append((str(error), context.attempt))
            raise RuntimeError("the error of an error handler is only logged")

        async with Started(queue, handle, on_error=on_error, retry=RetryPolicy(Constant(1))):
            await queue.empty()
        assert reported == [("x", 1), ("x", 2)]

    run(story())


@pytest.mark.parametrize("problem", [NO_ANSWER, DENIED, api_error("MessageDoesNotExist", "gone", 404, "")])
def test_a_report_that_fails_harms_nothing(problem: Exception) -> None:
    async def story() -> None:
        queue, handled = FakeQueue(is_penstock=True), 0
        queue.put("x")
        queue.failing["failures"] = problem

        async def handle(body: str) -> None:
            nonlocal handled
            handled += 1
            if handled < 3:
                raise ValueError

        async with Started(queue, handle, retry=RetryPolicy(Constant(1))):
            await queue.empty()

    run(story())


def test_a_report_without_an_answer_takes_two_seconds_at_most() -> None:
    async def story() -> None:
        queue = FakeQueue(is_penstock=True)
        queue.put("x")
        queue.answers_late_s["failures"] = 600

        async def handle(body: str, context: MessageContext) -> None:
            if context.attempt == 1:
                raise ValueError

        started = asyncio.get_running_loop().time()
        async with Started(queue, handle, retry=RetryPolicy(Constant(1))):
            await queue.empty()
        assert asyncio.get_running_loop().time() - started < 5

    run(story())


def test_nothing_is_reported_to_amazon() -> None:
    async def story() -> None:
        queue = FakeQueue(is_penstock=False)
        queue.put("x")

        async def handle(body: str, context: MessageContext) -> None:
            if context.attempt == 1:
                raise ValueError

        async with Started(queue, handle, retry=RetryPolicy(Constant(1))):
            await queue.empty()
        assert queue.reports == []

    run(story())


def test_sys_exit_in_a_handler_is_a_failure_of_its_message() -> None:
    async def story() -> None:
        queue = FakeQueue(is_penstock=True)
        queue.put("x")

        async def handle(body: str, context: MessageContext) -> None:
            if context.attempt == 1:
                raise SystemExit(3)

        async with Started(queue, handle, retry=RetryPolicy(Constant(1))):
            await queue.empty()
        assert queue.reports[0]["reason"] == "RuntimeError: the handler raised SystemExit: 3"

    run(story())


def test_a_handler_that_cancels_itself_has_failed() -> None:
    async def story() -> None:
        queue = FakeQueue(is_penstock=True)
        queue.put("x")

        async def handle(body: str, context: MessageContext) -> None:
            if context.attempt < 3:
                inner = asyncio.create_task(asyncio.sleep(10))
                inner.cancel()
                await inner

        async with Started(queue, handle, retry=RetryPolicy(Constant(5))):
            await queue.empty()
        assert queue.done("hide") == [("x", 5), ("x", 5)], "it does not come back at once"
        assert queue.reports[0]["reason"] == "CancelledError"

    run(story())


def test_a_policy_that_fails_is_replaced_by_the_default() -> None:
    async def story() -> None:
        queue = FakeQueue()
        queue.put("x")

        def backoff(attempt: int) -> float:
            raise ZeroDivisionError

        async def handle(body: str, context: MessageContext) -> None:
            if context.attempt < 3:
                raise ValueError

        async with Started(queue, handle, retry=RetryPolicy(backoff)):
            await queue.empty()
        assert [body for body, _ in queue.done("hide")] == ["x", "x"]

    run(story())


# -- giving up -----------------------------------------------------------------------------------------------


async def give_up(queue: FakeQueue, **options: Any) -> None:
    async def handle(body: str) -> None:
        raise GiveUp("poison")

    async with Started(queue, handle, **options):
        await queue.empty()


def test_penstock_moves_what_is_given_up() -> None:
    async def story() -> None:
        queue = FakeQueue(dead_letters="dead", is_penstock=True)
        queue.put("x")
        await give_up(queue)
        assert queue.dead == ["x"] and queue.done("delete") == []
        assert [report["reason"] for report in queue.reports] == ["poison"]

    run(story())


@pytest.mark.parametrize("is_penstock", [False, True], ids=["Amazon", "without the permission"])
def test_elsewhere_it_is_sent_with_its_attributes_and_deleted(is_penstock: bool) -> None:
    async def story() -> None:
        queue = FakeQueue(dead_letters="dead", is_penstock=is_penstock)
        queue.put("x", colour="blue")
        queue.failing["dead-letter"] = DENIED
        await give_up(queue)
        ((url, body, options),) = queue.dead
        assert (url, body) == ("https://sqs.us-east-1.amazonaws.com/123456789012/dead", "x")
        assert options["message_attributes"]["colour"].value == "blue"
        assert options["message_deduplication_id"] is None
        assert queue.done("delete") == [["x"]]

    run(story())


def test_fifo_dead_letters_keep_their_group() -> None:
    async def story() -> None:
        queue = FakeQueue("orders.fifo", dead_letters="dead.fifo")
        queue.put("x", group="g")
        await give_up(queue)
        ((_, _, options),) = queue.dead
        assert (options["message_group_id"], options["message_deduplication_id"]) == ("g", "m0-x")

    run(story())


@pytest.mark.parametrize("is_penstock", [False, True])
def test_without_a_dead_letter_queue_it_is_tried_again(is_penstock: bool) -> None:
    async def story() -> None:
        queue, attempts = FakeQueue(is_penstock=is_penstock), 0
        queue.put("x")

        async def handle(body: str) -> None:
            nonlocal attempts
            attempts += 1
            if attempts < 3:
                raise GiveUp

        async with Started(queue, handle, retry=RetryPolicy(Constant(5))):
            await queue.empty()
        assert queue.done("hide") == [("x", 5), ("x", 5)] and queue.dead == []

    run(story())


def test_it_is_tried_again_if_it_cannot_be_moved() -> None:
    async def story() -> None:
        queue = FakeQueue(dead_letters="dead")
        queue.put("x")
        queue.failing["send_message"] = NO_ANSWER

        async def handle(body: str, context: MessageContext) -> None:
            if context.attempt == 2:
                del queue.failing["send_message"]
            raise GiveUp

        async with Started(queue, handle, retry=RetryPolicy(Constant(5))):
            await queue.empty()
        assert queue.done("hide") == [("x", 5)] and len(queue.dead) == 1

    run(story())


def test_it_is_deleted_if_the_settings_say_so() -> None:
    async def story() -> None:
        queue = FakeQueue(dead_letters="dead", is_penstock=True)
        queue.put("x")
        await give_up(queue, delete_on_give_up=True)
        assert queue.dead == [] and queue.done("delete") == [["x"]]

    run(story())


def test_a_body_that_cannot_be_read_is_given_up_and_the_handler_is_not_called() -> None:
    async def story() -> None:
        queue, seen = FakeQueue(dead_letters="dead", is_penstock=True), list[BaseException]()
        queue.put('{"number": "many"}')

        async def handle(order: Order) -> None:
            raise AssertionError

        async def middleware(context: MessageContext, call_next: Any) -> Any:
            try:
                return await call_next()
            except BaseException as error:
                seen.append(error)
                raise

        async with Started(queue, handle, middleware=[middleware]):
            await queue.empty()
        says(queue.reports[0]["reason"], "DecodeError:", "Order")
        assert isinstance(seen[0], DecodeError), "middleware learns of it"

    run(story())


# -- claims --------------------------------------------------------------------------------------------------


def test_a_long_handler_keeps_its_message() -> None:
    async def story() -> None:
        queue, handled = FakeQueue(visibility_s=10), 0
        queue.put("x")

        async def handle(body: str) -> None:
            nonlocal handled
            handled += 1
            await asyncio.sleep(300)

        async with Started(queue, handle):
            await queue.empty()
        assert handled == 1
        assert 55 <= len(queue.done("extend")) <= 65

    run(story())


def test_messages_that_wait_are_kept_too_and_extended_in_batches() -> None:
    async def story() -> None:
        queue, handled = FakeQueue("orders.fifo", visibility_s=10), list[str]()

        async def handle(body: str) -> None:
            handled.append(body)
            if body.startswith("slow"):
                await asyncio.sleep(100)

        async with Started(queue, handle, concurrency=5):
            queue.put(*(f"quick{number}" for number in range(20)), group="a")
            await queue.empty()
            names = ["slow", *(f"next{number}" for number in range(9))]
            queue.put(*names, group="a")
            await queue.empty()
        assert handled[20:] == names, "each was handled once"
        assert max(len(batch) for batch in queue.done("extend")) == 10, "of all ten in one request"

    run(story())


def test_a_handler_is_cancelled_when_its_message_is_lost() -> None:
    async def story() -> None:
        queue, ended, attempts = FakeQueue(visibility_s=10), list[str](), 0
        queue.put("x")

        async def handle(body: str, context: MessageContext) -> None:
            nonlocal attempts
            attempts += 1
            if attempts > 1:
                return
            queue.failing["change_message_visibility_batch"] = NO_ANSWER
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                ended.append("lost" if context.claim_lost.is_set() else "?")
                raise

        async with Started(queue, handle):
            await queue.until(lambda: attempts == 2, "it is delivered again")
            await queue.empty()
        assert ended == ["lost"]
        assert queue.done("delete") == [["x"]], "by the second delivery"

    run(story())


def test_what_a_handler_does_after_it_lost_its_message_does_not_count() -> None:
    async def story() -> None:
        queue, attempts = FakeQueue(visibility_s=10), 0
        queue.put("x")

        async def handle(body: str) -> None:
            nonlocal attempts
            attempts += 1
            if attempts == 1:
                queue.failing["change_message_visibility_batch"] = NO_ANSWER
                try:
                    await asyncio.sleep(100)
                except asyncio.CancelledError:
                    return  # as if all was well
            await asyncio.sleep(3)
            assert queue.done("delete") == []

        async with Started(queue, handle):
            await queue.until(lambda: attempts == 2, "it is delivered again")
            await queue.empty()

    run(story())


def test_the_queue_says_that_a_message_is_lost() -> None:
    async def story() -> None:
        queue, cancelled = FakeQueue("orders.fifo", visibility_s=10), 0
        queue.put("x", group="g")

        async def handle(body: str) -> None:
            nonlocal cancelled
            if not cancelled:
                queue.stored[0].receives += 1  # another consumer has it
                try:
                    await asyncio.sleep(100)
                except asyncio.CancelledError:
                    cancelled += 1
                    raise

        async with Started(queue, handle):
            await queue.empty()
        assert cancelled == 1

    run(story())


async def attempts_s(queue: FakeQueue, sleep_s: int, *, extended_s: int, **settings: Any) -> list[float]:
    """How long the attempts at a message last. The second one asks for more time."""
    took = list[float]()
    queue.put("x")

    async def handle(body: str, context: MessageContext) -> None:
        started = asyncio.get_running_loop().time()
        if context.attempt == 2:
            context.extend(extended_s)
        try:
            await asyncio.sleep(sleep_s)
        finally:
            took.append(round(asyncio.get_running_loop().time() - started))

    async with Started(queue, handle, **settings):
        await queue.empty()
    return took


def test_a_call_has_a_longest_time_unless_it_asks_for_more() -> None:
    async def story() -> None:
        queue = FakeQueue(visibility_s=10)
        assert await attempts_s(queue, 400, extended_s=500, processing_s_max=60) == [60, 400]

    run(story())


def test_without_heartbeats_a_message_comes_back_unless_it_is_extended() -> None:
    async def story() -> None:
        queue = FakeQueue(visibility_s=10)
        assert await attempts_s(queue, 50, extended_s=100, heartbeat=False) == [10, 50]
        assert len(queue.done("extend")) == 1

    run(story())


def test_a_heartbeat_that_hangs_does_not_keep_others_from_being_sent() -> None:
    async def story() -> None:
        queue, handled = FakeQueue(visibility_s=10), 0
        queue.put("x")
        queue.answers_late_s["change_message_visibility_batch"] = 1000

        async def handle(body: str) -> None:
            nonlocal handled
            handled += 1
            await asyncio.sleep(6)
            queue.answers_late_s.clear()
            await asyncio.sleep(20)

        async with Started(queue, handle):
            await queue.empty()
        assert handled == 1

    run(story())


# -- FIFO ----------------------------------------------------------------------------------------------------


def test_groups_in_order_and_in_parallel() -> None:
    async def story() -> None:
        queue, order, running, most = FakeQueue("orders.fifo"), list[str](), 0, 0
        for number in range(5):
            for group in "abc":
                queue.put(f"{group}{number}", group=group)

        async def handle(body: str) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            order.append(body)
            await asyncio.sleep(0.5)
            running -= 1

        async with Started(queue, handle):
            await queue.empty()
        for group in "abc":
            assert [body for body in order if body[0] == group] == [f"{group}{number}" for number in range(5)]
        assert most == 3

    run(story())


def test_after_a_failure_the_rest_of_the_group_is_given_back() -> None:
    async def story() -> None:
        queue, order, failures = FakeQueue("orders.fifo"), list[str](), 0

        async def handle(body: str) -> None:
            nonlocal failures
            order.append(body)
            if body == "c" and failures < 2:
                failures += 1
                raise ValueError

        async with Started(queue, handle, retry=RetryPolicy(Constant(5))):
            queue.put(
                *(f"quick{number}" for number in range(20)), group="g"
            )  # until ten are received at once
            await queue.empty()
            order.clear()
            queue.requests.clear()
            queue.put("a", "b", "c", "d", "e", "f", group="g")
            await queue.empty()
        assert order == ["a", "b", "c", "c", "c", "d", "e", "f"]
        assert queue.done("give back") == [["f", "e", "d"]], "once: then they are received one by one"
        place = queue.requests.index(("give back", ["f", "e", "d"]))
        assert queue.requests[place + 1] == ("hide", ("c", 5)), (
            "before the first of them can be delivered again"
        )

    run(story())


def test_the_next_of_a_group_waits_until_the_one_before_is_deleted() -> None:
    async def story() -> None:
        queue, order = FakeQueue("orders.fifo"), list[Any]()

        async def handle(body: str) -> None:
            order.append(body)

        async with Started(queue, handle):
            queue.put(*(f"quick{number}" for number in range(20)), group="g")
            await queue.empty()
            queue.failing["delete_message_batch"] = NO_ANSWER
            order.clear()
            queue.put("a", "b", group="g")
            await asyncio.sleep(20)
            assert order == ["a"]
            queue.failing.clear()
            await queue.empty()
        assert order == ["a", "b"]

    run(story())


# -- batches -------------------------------------------------------------------------------------------------


def test_a_batch_fails_in_part() -> None:
    async def story() -> None:
        queue, batches = FakeQueue(is_penstock=True), list[list[int]]()
        queue.put(*(f'{{"number": {number}}}' for number in range(6)))

        async def check(order: Order, attempt: int) -> None:
            if order.number % 2 and attempt == 1:
                raise ValueError(f"odd {order.number}")

        async def handle(orders: list[Order], context: MessageContext) -> Any:
            batches.append([order.number for order in orders])
            checks = (check(order, context.attempt) for order in orders)
            return await asyncio.gather(*checks, return_exceptions=True)

        async with Started(queue, handle, batch_size=10, concurrency=1, retry=RetryPolicy(Constant(3))):
            await queue.empty()
        assert batches == [[0, 1, 2, 3, 4, 5], [1, 3, 5]]
        assert sorted(report["reason"] for report in queue.reports) == [
            "ValueError: odd 1", "ValueError: odd 3", "ValueError: odd 5",
        ]  # fmt: skip

    run(story())


def test_a_batch_fails_as_a_whole_if_the_handler_raises_or_returns_something_else() -> None:
    async def story() -> None:
        queue = FakeQueue(is_penstock=True)
        queue.put("a", "b")

        async def handle(bodies: list[str], context: MessageContext) -> Any:
            if context.attempt == 1:
                raise ValueError
            return [None] if context.attempt == 2 else None

        async with Started(queue, handle, batch_size=10, retry=RetryPolicy(Constant(3))):
            await queue.empty()
        reasons = [report["reason"] for report in queue.reports]
        assert reasons[:2] == ["ValueError", "ValueError"]
        says(reasons[2], "TypeError:", "returned list", "None")

    run(story())


def test_unreadable_messages_are_not_in_the_batch() -> None:
    async def story() -> None:
        queue, batches = FakeQueue(dead_letters="dead", is_penstock=True), list[Any]()
        queue.put('{"number": 1}', "no JSON", '{"number": 3}')

        async def handle(orders: list[Order], context: MessageContext) -> None:
            batches.append(([order.number for order in orders], [each.body for each in context.messages]))

        async with Started(queue, handle, batch_size=10):
            await queue.empty()
        assert batches == [([1, 3], ['{"number": 1}', '{"number": 3}'])] and queue.dead == ["no JSON"]

    run(story())


def test_a_batch_of_a_group_ends_with_its_first_failure() -> None:
    async def story() -> None:
        queue, batches = FakeQueue("orders.fifo"), list[list[str]]()
        queue.put("a", "b", "c", "d", group="g")

        async def handle(bodies: list[str], context: MessageContext) -> Any:
            batches.append(bodies)
            if len(batches) == 1:
                return [None, ValueError(), None, None]
            return None

        async with Started(queue, handle, batch_size=10, retry=RetryPolicy(Constant(3))):
            await queue.empty()
        assert batches[0] == ["a", "b", "c", "d"]
        assert [body for batch in batches[1:] for body in batch] == ["b", "c", "d"]
        assert queue.done("give back") == [["d", "c"]]

    run(story())


def test_a_batch_waits_to_become_full() -> None:
    async def story() -> None:
        queue, batches = FakeQueue(), list[list[str]]()

        async def handle(bodies: list[str]) -> None:
            batches.append(bodies)

        async with Started(queue, handle, batch_size=3, batch_wait_s=60, concurrency=1):
            for body in "abcd":
                queue.put(body)
                await asyncio.sleep(5)
            await queue.empty()
        assert batches == [["a", "b", "c"], ["d"]]

    run(story())


# -- a server in trouble -------------------------------------------------------------------------------------


def test_receives_go_on_after_the_server_was_away() -> None:
    async def story() -> None:
        queue = FakeQueue()
        queue.failing["receive_message"] = NO_ANSWER
        queue.put("x")

        async def handle(body: str) -> None:
            pass

        async with Started(queue, handle):
            await asyncio.sleep(600)
            assert 20 < len(queue.receives) < 50, "with growing pauses"
            queue.failing.clear()
            await queue.empty()

    run(story())


def test_a_server_that_does_not_wait_is_not_asked_all_the_time() -> None:
    async def story() -> None:
        queue = FakeQueue()

        async def handle(body: str) -> None:
            pass

        async with Started(queue, handle, wait_time_seconds=0, poll_interval_s=5):
            await asyncio.sleep(60)
            assert 10 < len(queue.receives) < 20

    run(story())


def test_a_delete_is_repeated_while_the_message_is_held() -> None:
    async def story() -> None:
        queue, handled = FakeQueue(visibility_s=10), 0
        queue.put("x")
        queue.failing["delete_message_batch"] = NO_ANSWER

        async def handle(body: str) -> None:
            nonlocal handled
            handled += 1

        async with Started(queue, handle):
            await asyncio.sleep(120)
            queue.failing.clear()
            await queue.empty()
        assert handled == 1

    run(story())


def test_a_server_that_does_not_delete_does_not_fill_the_memory() -> None:
    async def story() -> None:
        queue, handled = FakeQueue(), 0
        queue.put(*(str(number) for number in range(1000)))
        queue.failing["delete_message_batch"] = NO_ANSWER

        async def handle(body: str) -> None:
            nonlocal handled
            handled += 1

        async with Started(queue, handle, concurrency=2):
            await asyncio.sleep(120)
            assert handled < 100
            queue.failing.clear()
            await queue.empty()
        assert handled == 1000

    run(story())


def test_a_message_that_may_not_be_deleted_is_delivered_again() -> None:
    async def story() -> None:
        queue, handled = FakeQueue(visibility_s=10), 0
        queue.put("x")
        queue.failing["delete_message_batch"] = DENIED

        async def handle(body: str) -> None:
            nonlocal handled
            handled += 1

        async with Started(queue, handle):
            await queue.until(lambda: handled == 3, "it is handled again")

    run(story())


def test_keys_that_are_away_for_a_while() -> None:
    async def story() -> None:
        queue, handled = FakeQueue(visibility_s=10, is_penstock=True), 0
        queue.put("x")
        methods = (
            "get_queue_attributes", "receive_message", "delete_message_batch", "change_message_visibility_batch",
            "change_message_visibility", "failures", "is_penstock",
        )  # fmt: skip
        expired = dict.fromkeys(methods, ProfileError("the session of the profile has ended"))
        queue.failing |= expired

        async def handle(body: str) -> None:
            nonlocal handled
            handled += 1
            if handled < 3:
                queue.failing |= expired
            if handled == 1:
                raise ValueError

        async with Started(queue, handle):
            for _ in range(4):
                await asyncio.sleep(60)
                queue.failing.clear()
                await asyncio.sleep(60)
            await queue.empty()
        assert handled >= 2

    run(story())


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (api_error("QueueDoesNotExist", "The queue does not exist", 400, ""), 'no queue "orders"'),
        (api_error("InvalidClientTokenId", "The key is wrong", 403, ""), "The key is wrong"),
        (api_error("InvalidAddress", "The address is wrong", 400, ""), "The address is wrong"),
    ],
)
def test_what_prevents_a_start(problem: Exception, text: str) -> None:
    async def story() -> None:
        queue = FakeQueue()
        queue.failing["get_queue_attributes"] = problem
        with pytest.raises(CannotStart, match=text):
            await Consumer(queue, "orders", lambda message: None).run()

    run(story())


def test_a_queue_without_a_visibility_timeout_needs_one() -> None:
    async def story() -> None:
        queue = FakeQueue(visibility_s=0)
        with pytest.raises(CannotStart, match="is 0"):
            await Consumer(queue, "orders", lambda message: None).run()

    run(story())


def test_a_start_waits_for_the_server_and_does_without_a_permission() -> None:
    async def story() -> None:
        queue, handled = FakeQueue(), 0
        queue.put("x")
        queue.failing["get_queue_attributes"] = NO_ANSWER

        async def handle(body: str) -> None:
            nonlocal handled
            handled += 1

        async with Started(queue, handle):
            await asyncio.sleep(120)
            assert not handled
            queue.failing["get_queue_attributes"] = DENIED
            await queue.empty()

    run(story())


def test_a_stop_while_it_waits_for_the_server() -> None:
    async def story() -> None:
        queue = FakeQueue()
        queue.failing["get_queue_attributes"] = NO_ANSWER
        async with Started(queue, lambda message: None):
            await asyncio.sleep(100)

    run(story())


# -- stopping ------------------------------------------------------------------------------------------------


def test_a_stop_ends_the_poll_at_once() -> None:
    async def story() -> None:
        queue = FakeQueue()

        async def handle(body: str) -> None:
            pass

        async with Started(queue, handle) as consumer:
            await queue.until(lambda: bool(queue.receives), "it polls")
            started = asyncio.get_running_loop().time()
            await consumer.stop()
            assert asyncio.get_running_loop().time() - started < 1
        assert queue.aborted_receives == 1

    run(story())


def test_a_stop_lets_handlers_end_and_gives_back_the_rest() -> None:
    async def story() -> None:
        queue, handled = FakeQueue(visibility_s=10), list[str]()
        slow = False

        async def handle(body: str) -> None:
            await asyncio.sleep(25 if slow else 0.01)
            handled.append(body)

        async with Started(queue, handle, concurrency=2) as consumer:
            queue.put(*(f"quick{number}" for number in range(50)))
            await queue.empty()
            handled.clear()
            slow = True
            queue.put(*"abcdefgh")
            await queue.until(lambda: not queue.visible, "all are received")
            await consumer.stop(timeout_s=60)
            assert sorted(handled) == ["a", "b"], "no other was begun"
            assert queue.bodies == queue.visible == [*"cdefgh"]

    run(story())


def test_what_does_not_end_in_time_is_cancelled_and_given_back() -> None:
    async def story() -> None:
        queue, ended = FakeQueue(visibility_s=1000), list[Any]()
        queue.put("polite", "stubborn")

        async def handle(body: str, context: MessageContext) -> None:
            for _ in range(3):
                try:
                    await asyncio.sleep(10_000)
                except asyncio.CancelledError:
                    ended.append((body, context.claim_lost.is_set()))
                    if body == "polite":
                        raise

        async with Started(queue, handle) as consumer:
            await queue.until(lambda: not queue.visible, "both are handled")
            await consumer.stop(timeout_s=5)
            assert ("polite", True) in ended and ("stubborn", True) in ended
            assert queue.visible == ["polite", "stubborn"]
        assert queue.reports == [], "that is no failure"

    run(story())


def test_another_stop_is_in_a_hurry() -> None:
    async def story() -> None:
        queue = FakeQueue(visibility_s=1000)
        queue.put("x")

        async def handle(body: str) -> None:
            await asyncio.sleep(10_000)

        async with Started(queue, handle) as consumer:
            await queue.until(lambda: not queue.visible, "it is handled")
            started = asyncio.get_running_loop().time()
            first = asyncio.create_task(consumer.stop(timeout_s=3600))
            await asyncio.sleep(10)
            await consumer.stop(timeout_s=0)
            await first
            assert asyncio.get_running_loop().time() - started < 15
            assert queue.visible == ["x"]

    run(story())


def test_a_server_that_does_not_answer_does_not_keep_a_stop_waiting() -> None:
    async def story() -> None:
        queue = FakeQueue(visibility_s=1000)
        queue.put("x")

        async def handle(body: str) -> None:
            await asyncio.sleep(10_000)

        async with Started(queue, handle) as consumer:
            await queue.until(lambda: not queue.visible, "it is handled")
            queue.answers_late_s = dict.fromkeys(
                ("change_message_visibility_batch", "receive_message"), 10_000.0
            )
            started = asyncio.get_running_loop().time()
            await consumer.stop(timeout_s=5)
            assert asyncio.get_running_loop().time() - started < 20

    run(story())


def test_a_stop_of_a_consumer_that_does_not_run() -> None:
    async def story() -> None:
        await Consumer(FakeQueue(), "orders", lambda message: None).stop()

    run(story())


def test_a_cancelled_consumer_gives_back_what_it_has() -> None:
    async def story() -> None:
        queue = FakeQueue(visibility_s=1000)
        queue.put("x")

        async def handle(body: str) -> None:
            await asyncio.sleep(10_000)

        task = asyncio.create_task(Consumer(queue, "orders", handle).run())
        await queue.until(lambda: not queue.visible, "it is handled")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert queue.visible == ["x"]

    run(story())
