"""Every action of SQS against a real server: parameters go out, typed results come back."""

from __future__ import annotations

import inspect
import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from client.driver import Driver
from client.fake_server import FakeServer, reply
from penstock.client import (
    ApiError,
    ChecksumMismatch,
    Client,
    DeleteEntry,
    InvalidReceiptHandle,
    MessageAttribute,
    QueueDoesNotExist,
    SendEntry,
    SyncClient,
    Unavailable,
    VisibilityEntry,
)
from penstock.client.actions import Actions
from penstock.client.structs import AttributeValue
from penstock.services.sqs.actions import ACTIONS
from support.process import ServerProcess

_numbers = itertools.count()


def new_name(kind: str = "") -> str:
    return f"client-{next(_numbers)}{kind}"


def snake(action: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in action).lstrip("_")


def test_there_is_a_method_for_every_action() -> None:
    methods = {snake(action) for action in ACTIONS}
    assert len(methods) == 23
    for each in (Client, SyncClient):
        assert not {method for method in methods if not callable(getattr(each, method, None))}


def test_the_blocking_client_has_the_same_methods() -> None:
    for name, method in inspect.getmembers(Actions, inspect.isfunction):
        if name.startswith("_"):
            continue
        blocking = getattr(SyncClient, name)
        assert inspect.signature(blocking) == inspect.signature(method), name
        assert blocking.__doc__ == method.__doc__
    settings = inspect.signature(Client.__init__).parameters
    assert settings == inspect.signature(SyncClient.__init__).parameters


def test_the_life_of_a_message(drive: Driver, server: ServerProcess) -> None:
    async def steps(client: Actions) -> None:
        url = await client.create_queue(new_name(), {"VisibilityTimeout": 60}, {"team": "a"})
        sent = await client.send_message(url, "grüße 🐌", delay_seconds=0)
        assert sent.sequence_number is None and len(sent.md5_of_message_body) == 32
        (message,) = await client.receive_message(
            url, max_number_of_messages=10, wait_time_seconds=5, message_system_attribute_names=["All"]
        )
        assert (message.body, message.message_id) == ("grüße 🐌", sent.message_id)
        assert message.receive_count == 1 and message.group_id is None and message.message_attributes == {}
        await client.change_message_visibility(url, message.receipt_handle, 0)
        (again,) = await client.receive_message(
            url, visibility_timeout=30, message_system_attribute_names=["ApproximateReceiveCount"]
        )
        assert again.attributes == {"ApproximateReceiveCount": "2"}
        await client.delete_message(url, again.receipt_handle)
        assert await client.receive_message(url) == []

    drive(steps, server.url)


def test_message_attributes(drive: Driver, server: ServerProcess) -> None:
    async def steps(client: Actions) -> None:
        url = await client.create_queue(new_name())
        own = MessageAttribute("Number.int", string_value="12")
        values: dict[str, AttributeValue] = {
            "text": "grün",
            "whole": 7,
            "part": 0.5,
            "bytes": b"\x00\xff",
            "own": own,
        }
        trace = "Root=1-5759e988-bd862e3fe1be46a994272793"
        await client.send_message(
            url, "x", message_attributes=values, message_system_attributes={"AWSTraceHeader": trace}
        )
        (message,) = await client.receive_message(
            url, message_attribute_names=["All"], message_system_attribute_names=["AWSTraceHeader"]
        )
        got = message.message_attributes
        assert {name: attribute.value for name, attribute in got.items()} == {**values, "own": 12}
        assert got["own"] == own and got["whole"] == MessageAttribute("Number", string_value="7")
        assert message.attributes == {"AWSTraceHeader": trace} and message.md5_of_message_attributes

    drive(steps, server.url)


@pytest.mark.parametrize("value", [True, None, [1], datetime.now(UTC)])
def test_a_value_that_is_no_attribute(drive: Driver, value: object) -> None:
    async def steps(client: Actions) -> None:
        await client.send_message("http://127.0.0.1:1/q", "x", message_attributes={"flag": value})  # type: ignore[dict-item]

    with pytest.raises(TypeError, match=r"attribute 'flag': .*str, int"):
        drive(steps, "http://127.0.0.1:1")


@pytest.mark.parametrize("body", [b"bytes", None, {"a": 1}])
def test_a_body_that_is_no_text(drive: Driver, body: Any) -> None:
    async def steps(client: Actions) -> None:
        with pytest.raises(TypeError, match=r"body: .*str"):
            await client.send_message("http://q/1/q", body)
        with pytest.raises(TypeError, match=r"body: .*str"):
            await client.send_message_batch("http://q/1/q", [SendEntry(body=body)])

    drive(steps, "http://127.0.0.1:1")


def test_fifo(drive: Driver, server: ServerProcess) -> None:
    async def steps(client: Actions) -> None:
        url = await client.create_queue(new_name(".fifo"), {"FifoQueue": True})
        first, again = [
            await client.send_message(url, "x", message_group_id="g", message_deduplication_id="1")
            for _ in "ab"
        ]
        assert first.message_id == again.message_id and first.sequence_number is not None
        received = [
            await client.receive_message(
                url, receive_request_attempt_id="a", message_system_attribute_names=["MessageGroupId"]
            )
            for _ in "ab"
        ]
        assert [message.message_id for (message,) in received] == [first.message_id] * 2
        assert received[0][0].group_id == "g"

    drive(steps, server.url)


def test_batches_succeed_in_part(drive: Driver, server: ServerProcess) -> None:
    async def steps(client: Actions) -> None:
        url = await client.create_queue(new_name())
        sent = await client.send_message_batch(
            url, ["one", SendEntry(body="two", id="second"), SendEntry(body="late", delay_seconds=901)]
        )
        assert [entry.id for entry in sent.successful] == ["0", "second"]
        (failed,) = sent.failed
        assert (failed.id, failed.code, failed.sender_fault) == ("2", "InvalidParameterValue", True)
        assert "DelaySeconds" in failed.message
        received = await client.receive_message(url, max_number_of_messages=10)
        handles = [message.receipt_handle for message in received]
        changed = await client.change_message_visibility_batch(
            url, [VisibilityEntry(handles[0], 60), VisibilityEntry("nonsense", 60, id="bad")]
        )
        assert ([entry.id for entry in changed.successful], changed.failed[0].id) == (["0"], "bad")
        deleted = await client.delete_message_batch(
            url, [handles[0], DeleteEntry(handles[1], id="b"), "nonsense"]
        )
        assert [entry.id for entry in deleted.successful] == ["0", "b"]
        assert [entry.id for entry in deleted.failed] == ["2"]

    drive(steps, server.url)


def test_queues(drive: Driver, server: ServerProcess) -> None:
    async def steps(client: Actions) -> None:
        name = new_name("-a")
        policy = {"Version": "2012-10-17", "Statement": []}
        url = await client.create_queue(name, {"DelaySeconds": "5"})
        assert await client.get_queue_url(name) == url
        await client.set_queue_attributes(name, {"DelaySeconds": 0, "MaximumMessageSize": 2048})
        found = await client.get_queue_attributes(url, ["DelaySeconds", "MaximumMessageSize"])
        assert found == {"DelaySeconds": "0", "MaximumMessageSize": "2048"}
        assert {"QueueArn", "CreatedTimestamp"} <= (await client.get_queue_attributes(url)).keys()
        others = [await client.create_queue(f"{name}{number}") for number in range(4)]
        page = await client.list_queues(name, max_results=2)
        assert len(page.queue_urls) == 2 and page.next_token
        pages = [page async for page in client.list_queue_pages(name, page_size=2)]
        assert [len(page.queue_urls) for page in pages] == [2, 2, 1]
        assert {listed for page in pages for listed in page.queue_urls} == {url, *others}
        await client.send_message(url, "x")
        await client.purge_queue(url)
        assert await client.receive_message(url) == []
        await client.tag_queue(url, {"team": "a", "stage": "b"})
        await client.untag_queue(url, ["stage"])
        assert await client.list_queue_tags(url) == {"team": "a"}
        await client.add_permission(url, "friends", ["111122223333"], ["SendMessage"])
        text = (await client.get_queue_attributes(url, ["Policy"]))["Policy"]
        assert json.loads(text)["Statement"][0]["Sid"] == "friends"
        await client.remove_permission(url, "friends")
        assert "Policy" not in await client.get_queue_attributes(url, ["Policy"])
        await client.delete_queue(url)
        with pytest.raises(QueueDoesNotExist) as raised:
            await client.send_message(url, "x")
        assert raised.value.status == 400 and raised.value.request_id
        with pytest.raises(ApiError, match="Policy"):
            await client.set_queue_attributes(others[0], {"Policy": policy})

    drive(steps, server.url)


def test_dead_letters_and_move_tasks(drive: Driver, server: ServerProcess) -> None:
    async def steps(client: Actions) -> None:
        dead = await client.create_queue(new_name())
        arn = (await client.get_queue_attributes(dead, ["QueueArn"]))["QueueArn"]
        redrive = {"deadLetterTargetArn": arn, "maxReceiveCount": 1}
        source = await client.create_queue(new_name(), {"RedrivePolicy": redrive, "VisibilityTimeout": 0})
        page = await client.list_dead_letter_source_queues(dead, max_results=10)
        assert (page.queue_urls, page.next_token) == ([source], None)
        await client.send_message(source, "poison")
        assert len(await client.receive_message(source)) == 1
        assert await client.receive_message(source) == []
        handle = await client.start_message_move_task(arn, max_number_of_messages_per_second=10)
        assert handle
        (back,) = await client.receive_message(source, wait_time_seconds=10)
        assert back.body == "poison"
        while (task := (await client.list_message_move_tasks(arn, max_results=5))[0]).status == "RUNNING":
            assert task.task_handle == handle
        assert (task.status, task.source_arn) == ("COMPLETED", arn)
        assert task.max_number_of_messages_per_second == 10 and task.started_timestamp > 1_600_000_000_000
        assert task.approximate_number_of_messages_moved == 1 and task.task_handle is None
        await client.send_message_batch(dead, [str(number) for number in range(5)])
        handle = await client.start_message_move_task(
            arn, destination_arn=arn.rpartition(":")[0] + ":" + source.rpartition("/")[2],
            max_number_of_messages_per_second=1,
        )  # fmt: skip
        assert await client.cancel_message_move_task(handle) < 5

    drive(steps, server.url)


def test_a_queue_is_found_by_its_name_once(drive: Driver) -> None:
    found = reply(body=b'{"QueueUrl": "https://sqs.example.com/1/orders"}')
    sent = reply(body=b'{"MessageId": "1"}')

    async def steps(client: Actions) -> None:
        await client.send_message("orders", "a")
        await client.send_message("orders", "b")

    with FakeServer(found, sent) as fake:
        drive(steps, fake.url)
        assert fake.actions == ["GetQueueUrl", "SendMessage", "SendMessage"]
        assert b'"QueueUrl":"https://sqs.example.com/1/orders"' in fake.requests[-1]


def test_a_name_is_used_as_it_is_by_who_may_not_ask_for_the_url(drive: Driver) -> None:
    denied = reply(403, b'{"__type": "com.amazonaws.sqs#AccessDeniedException", "message": "no"}')

    async def steps(client: Actions) -> None:
        await client.delete_message("orders", "handle")

    with FakeServer(denied, reply()) as fake:
        drive(steps, fake.url)
        assert b'"QueueUrl":"orders"' in fake.requests[-1]


def test_a_body_that_was_changed_on_the_way(drive: Driver) -> None:
    other = "900150983cd24fb0d6963f7d28e17f72"  # of "abc"
    sent = {"MessageId": "1", "MD5OfMessageBody": other}
    received = {"MessageId": "1", "ReceiptHandle": "h", "Body": "abd", "MD5OfBody": other}
    batch = {"Successful": [{"Id": "0", **sent}]}

    async def steps(client: Actions) -> None:
        assert (await client.send_message("http://q/1/q", "abc")).message_id == "1"
        with pytest.raises(ChecksumMismatch, match="message 1"):
            await client.send_message("http://q/1/q", "abd")
        with pytest.raises(ChecksumMismatch):
            await client.send_message_batch("http://q/1/q", ["abd"])
        with pytest.raises(ChecksumMismatch):
            await client.receive_message("http://q/1/q")

    answers = [sent, sent, batch, {"Messages": [received]}]
    with FakeServer(*(reply(body=json.dumps(answer).encode()) for answer in answers)) as fake:
        drive(steps, fake.url)


def test_a_message_for_later(drive: Driver, server: ServerProcess) -> None:
    async def steps(client: Actions) -> None:
        url = await client.create_queue(new_name())
        now = datetime.now(UTC)
        await client.send_at(url, "now", now - timedelta(hours=1))
        await client.send_at(url, "soon", now + timedelta(seconds=890), message_attributes={"a": 1})
        found = await client.get_queue_attributes(url, ["All"])
        assert found["ApproximateNumberOfMessages"] == found["ApproximateNumberOfMessagesDelayed"] == "1"
        with pytest.raises(ValueError, match="900 seconds"):
            await client.send_at(url, "late", now + timedelta(seconds=1000))
        with pytest.raises(ValueError, match="time zone"):
            await client.send_at(url, "when?", datetime(2030, 1, 1))

    drive(steps, server.url)


def test_errors_have_classes(drive: Driver, server: ServerProcess) -> None:
    async def steps(client: Actions) -> None:
        url = await client.create_queue(new_name())
        with pytest.raises(InvalidReceiptHandle):
            await client.delete_message(url, "nonsense")
        with pytest.raises(QueueDoesNotExist) as raised:
            await client.get_queue_url("nothing")
        assert (
            raised.value.is_missing_queue and raised.value.code == "AWS.SimpleQueueService.NonExistentQueue"
        )

    drive(steps, server.url)


def test_the_admin_api(drive: Driver, server: ServerProcess) -> None:
    async def steps(client: Actions) -> None:
        assert await client.is_penstock()
        name = new_name()
        url = await client.create_queue(name)
        sent = await client.send_message(url, "x")
        path = f"/queues/{name}/messages/{sent.message_id}"
        await client.admin("POST", f"{path}/failures", body={"reason": "ValueError"})
        assert (await client.admin("GET", path))["failure"]["reason"] == "ValueError"
        assert len((await client.admin("GET", "/queues", {"prefix": name, "limit": None}))["queues"]) == 1

    drive(steps, server.url)


def test_amazon_is_never_asked_whether_it_is_penstock(drive: Driver) -> None:
    async def steps(client: Actions) -> bool:
        return await client.is_penstock()

    assert not drive(steps, "https://sqs.eu-central-1.amazonaws.com", timeout_s=0.001)


@pytest.mark.parametrize("body", [b"[]", b"<html>", b'{"Messages": [{"Body": 1}]}', b'{"Messages": "\xff"}'])
def test_an_answer_of_something_else(drive: Driver, body: bytes) -> None:
    async def steps(client: Actions) -> None:
        await client.receive_message("http://q/1/q")

    with FakeServer(reply(body=body)) as fake, pytest.raises(Unavailable, match="check the endpoint URL"):
        drive(steps, fake.url)
