"""A consumer that opens the envelopes of topics."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from client.consumer.fake_queue import FakeQueue, Started, run
from client.test_envelopes import changed
from client.test_signatures import Signer, fetching
from penstock.client import Consumer, ConsumerSettings, SignatureVerifier, Worker
from penstock.client.consumer.context import MessageContext
from penstock.client.errors import Unavailable
from penstock.client.http.exchange import HttpResponse
from penstock.client.structs import Message
from support.texts import says

ORDER = changed(Message='{"number": 1}')


class Order(msgspec.Struct):
    number: int


def handled(*bodies: str, **settings: Any) -> tuple[list[Any], FakeQueue]:
    """What the handler got, and the queue with its dead letters."""
    got: list[Any] = []
    queue = FakeQueue(dead_letters="dead", is_penstock=True)

    async def handle(order: Order, context: MessageContext) -> None:
        message = context.message
        got.append((order.number, message.topic, context.attribute("n"), message.body))

    async def story() -> None:
        queue.put(*bodies)
        async with Started(queue, handle, **settings):
            await queue.until(lambda: len(got) + len(queue.dead) == len(bodies), "all are handled")

    run(story())
    return got, queue


def test_handlers_get_what_was_published() -> None:
    got, _ = handled(ORDER, envelopes=True)
    assert got == [(1, "orders", 1.23, '{"number": 1}')]


def test_envelopes_stay_closed_unless_it_is_asked_for() -> None:
    got, queue = handled(ORDER)
    assert got == [] and queue.dead == [ORDER]


def test_a_body_without_an_envelope_is_given_up_where_all_have_one() -> None:
    got, queue = handled('{"number": 1}', envelopes=True)
    assert got == [] and queue.dead == ['{"number": 1}']
    says(queue.reports[0]["reason"], "DecodeError:", "envelope")


def test_auto_opens_what_is_an_envelope() -> None:
    other = '{"number": 2, "Type": "Notification"}'
    got, _ = handled(ORDER, other, envelopes="auto")
    assert sorted(got) == [(1, "orders", 1.23, '{"number": 1}'), (2, None, None, other)]


def test_the_message_itself_is_the_published_one() -> None:
    async def story() -> None:
        queue, got = FakeQueue(), list[Message]()
        queue.put(ORDER)

        async def handle(message: Message) -> None:
            got.append(message)

        async with Started(queue, handle, envelopes=True):
            await queue.empty()
        assert got[0].notification is not None and got[0].notification.subject == 'new "order"'
        assert got[0].body == '{"number": 1}' and got[0].receive_count == 1

    run(story())


def test_dead_letters_keep_their_envelope() -> None:
    """Amazon SQS cannot move a message: the same body is sent to the other queue."""
    queue = FakeQueue(dead_letters="dead")

    async def handle(order: Order) -> None:
        raise AssertionError("it is no order")

    async def story() -> None:
        queue.put(changed(Message="no order"))
        async with Started(queue, handle, envelopes=True):
            await queue.until(lambda: bool(queue.dead), "it is given up")

    run(story())
    ((_, body, options),) = queue.dead
    assert body == changed(Message="no order") and not options["message_attributes"]


# -- signatures ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def signer() -> Signer:
    return Signer.make(rsa.generate_private_key(65537, 2048))


def test_signed_messages_are_handled_and_others_given_up(signer: Signer) -> None:
    signed = signer.signed("2", Message='{"number": 1}')
    forged = signed.replace("number", "Number")
    fetch, asked = fetching(signer)
    verifier = SignatureVerifier(fetch=fetch)
    got, queue = handled(signed, forged, signed, ORDER, envelopes=True, verify_signature=verifier)
    assert [each[0] for each in got] == [1, 1]
    assert sorted(queue.dead) == sorted([forged, ORDER])
    assert {report["reason"].partition(":")[0] for report in queue.reports} == {"SignatureInvalid"}
    assert 1 <= len(asked) <= 4, "several may ask before there is an answer"


def test_a_certificate_that_cannot_be_fetched_now_is_fetched_later(signer: Signer) -> None:
    answers = [Unavailable("no answer")]

    def fetch(url: str) -> HttpResponse:
        if answers:
            raise answers.pop()
        return HttpResponse(200, [], signer.certificate)

    verifier = SignatureVerifier(fetch=fetch)
    signed = signer.signed("2", Message='{"number": 1}')
    got, queue = handled(signed, envelopes=True, verify_signature=verifier)
    assert len(got) == 1 and queue.dead == []
    assert len(queue.done("hide")) == 1


def test_a_message_that_was_lost_meanwhile_is_not_handled() -> None:
    """The certificate came after the visibility timeout."""
    got: list[Any] = []
    queue = FakeQueue(visibility_s=2)

    async def handle(order: Order) -> None:
        got.append(order)

    async def story() -> None:
        queue.put(ORDER)
        consumer = Consumer(queue, "orders", handle, envelopes=True, heartbeat=False)
        opening = consumer._opener.open
        slow = [10.0]

        async def open(message: Message) -> Message:
            await asyncio.sleep(slow.pop() if slow else 0)
            return await opening(message)

        consumer._opener.open = open  # type: ignore[method-assign]
        running = asyncio.create_task(consumer.run())
        await queue.empty()
        await asyncio.sleep(20)
        assert len(got) == 1
        await consumer.stop(0)
        await running

    run(story())


def test_signatures_need_envelopes() -> None:
    for envelopes in (False, "auto"):
        with pytest.raises(ValueError) as raised:
            ConsumerSettings(envelopes=envelopes, verify_signature=True)
        says(str(raised.value), "envelopes", "verify_signature")
    with pytest.raises(ValueError, match="envelopes"):
        ConsumerSettings(envelopes="yes")  # type: ignore[arg-type]


def test_a_handler_of_a_worker_has_the_same_settings() -> None:
    app = Worker(envelopes="auto")

    @app.handler("orders", envelopes=True, verify_signature=True)
    async def handle(order: Order) -> None: ...

    assert app.handlers["orders"].settings.verify_signature is True
