"""A broker inside a test, as a test uses it: ``penstock.testing.Broker``."""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.client import ApiError, Client, QueueDoesNotExist, SyncClient
from penstock.client.structs import AttributeValue, Message
from penstock.testing import Broker
from penstock.testing.server import BrokerFailed
from support.texts import says

DAY = 86_400


@pytest.fixture(scope="module")
def started() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(started: Broker) -> Iterator[Broker]:
    yield started
    started.reset()


@pytest.fixture
def client(broker: Broker) -> Iterator[SyncClient]:
    with broker.client() as client:
        yield client


def received(client: SyncClient, queue: str, **options: Any) -> list[str]:
    return [message.body for message in client.receive_message(queue, max_number_of_messages=10, **options)]


def with_dead_letters(client: SyncClient, name: str, receives: int = 1) -> str:
    dead = client.create_queue(f"{name}-dead")
    arn = client.get_queue_attributes(dead)["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": receives})
    return client.create_queue(name, {"RedrivePolicy": policy})


class Receiving:
    """A receive that waits, in a thread of its own."""

    def __init__(self, broker: Broker, client: SyncClient, queue: str, wait_s: int) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._answer = self._pool.submit(received, client, queue, wait_time_seconds=wait_s)
        broker.wait_for_receive(queue)

    @property
    def waits(self) -> bool:
        return not self._answer.done()

    def result(self) -> list[str]:
        try:
            return self._answer.result(30)
        finally:
            self._pool.shutdown()


# -- the clock -----------------------------------------------------------------------------------------------------


def test_visibility_delay_retention_and_deduplication_follow_the_clock(
    broker: Broker, client: SyncClient
) -> None:
    queue = client.create_queue("orders", {"VisibilityTimeout": 900, "MessageRetentionPeriod": DAY})
    client.send_message(queue, "seen")
    client.send_message(queue, "delayed", delay_seconds=600)
    assert received(client, queue) == ["seen"]
    broker.clock.advance(minutes=10)
    assert received(client, queue) == ["delayed"]
    broker.clock.advance(minutes=5)
    assert received(client, queue) == ["seen"]
    broker.clock.advance(days=1)
    assert received(client, queue) == []
    broker.assert_empty("orders")

    fifo = client.create_queue("orders.fifo", {"FifoQueue": True})
    ids: dict[str, Any] = {"message_group_id": "g", "message_deduplication_id": "d"}
    for _ in range(2):
        client.send_message(fifo, "once", **ids)
    broker.assert_sent("orders.fifo", count=1)
    broker.clock.advance(minutes=5)
    client.send_message(fifo, "again", **ids)
    broker.assert_sent("orders.fifo", count=2)


def test_a_waiting_receive_gets_what_becomes_visible(broker: Broker, client: SyncClient) -> None:
    queue = client.create_queue("orders")
    client.send_message(queue, "late", delay_seconds=15)
    receiving = Receiving(broker, client, queue, 20)
    broker.clock.advance(seconds=10)
    assert receiving.waits
    broker.clock.advance(seconds=5)
    assert receiving.result() == ["late"]


def test_a_waiting_receive_ends_with_its_time(broker: Broker, client: SyncClient) -> None:
    queue = client.create_queue("orders")
    client.send_message(queue, "later", delay_seconds=30)
    receiving = Receiving(broker, client, queue, 20)
    broker.clock.advance(minutes=1)
    assert receiving.result() == []
    assert received(client, queue) == ["later"]


def test_a_move_task_follows_the_clock(broker: Broker, client: SyncClient) -> None:
    queue = with_dead_letters(client, "orders")
    for n in range(6):
        client.send_message(queue, str(n))
    assert len(received(client, queue, visibility_timeout=0)) == 6
    assert received(client, queue) == []
    broker.assert_in_dead_letter_queue("orders", count=6)
    broker.clock.freeze()
    arn = client.get_queue_attributes(f"{queue}-dead")["QueueArn"]
    client.start_message_move_task(arn, max_number_of_messages_per_second=1)
    broker.clock.advance(seconds=2)
    assert 2 <= len(broker.messages("orders")) < 6
    broker.clock.advance(seconds=10)
    assert len(broker.messages("orders")) == 6
    broker.assert_empty("orders-dead")


def test_timestamps_show_the_clock_and_a_reset_shows_the_real_time(
    broker: Broker, client: SyncClient
) -> None:
    queue = client.create_queue("orders")
    broker.clock.advance(days=3)
    assert (broker.clock.now - datetime.now(UTC)).total_seconds() > 2 * DAY
    client.send_message(queue, "x")
    sent: Message = client.receive_message(queue, message_system_attribute_names=["SentTimestamp"])[0]
    assert int(sent.attributes["SentTimestamp"]) / 1000 > datetime.now(UTC).timestamp() + 2 * DAY
    broker.clock.reset()
    assert abs((broker.clock.now - datetime.now(UTC)).total_seconds()) < 60
    broker.assert_received("orders", times=1)


def test_time_stands_still_if_that_is_wanted() -> None:
    with Broker(frozen=True) as broker:
        assert broker.clock.frozen
        begin = broker.clock.now
        broker.clock.advance(hours=1.5)
        assert (broker.clock.now - begin).total_seconds() == 5400
        broker.clock.run()
        assert not broker.clock.frozen
        broker.reset()
        assert broker.clock.frozen


@pytest.mark.parametrize("by", [{"seconds": -1}, {"days": 32}])
def test_time_does_not_run_back_nor_on_forever(broker: Broker, by: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="0 seconds to 31 days"):
        broker.clock.advance(**by)


# -- assertions ----------------------------------------------------------------------------------------------------


def failure(assertion: Callable[..., object], *arguments: Any, **options: Any) -> str:
    with pytest.raises(AssertionError) as error:
        assertion(*arguments, **options)
    return str(error.value)


def test_what_was_sent_is_known_whatever_became_of_it(broker: Broker, client: SyncClient) -> None:
    queue = client.create_queue("orders")
    attributes: dict[str, AttributeValue] = {"colour": "red", "size": 4}
    client.send_message(queue, '{"order": 17, "cups": [1, 2]}', message_attributes=attributes)
    client.send_message(queue, "tea", message_group_id="table-4")
    client.delete_message(queue, client.receive_message(queue)[0].receipt_handle)
    broker.assert_sent("orders", count=2)
    broker.assert_sent(queue, '{"order": 17, "cups": [1, 2]}', attributes={"colour": "red"}, count=1)
    broker.assert_sent("orders", {"cups": [1, 2], "order": 17}, count=1)
    broker.assert_sent("orders", re.compile("^t.a$"), group="table-4")
    broker.assert_sent("orders", lambda body: body.startswith("te"), count=1)
    broker.assert_sent("orders", "coffee", count=0)
    (sent,) = broker.assert_sent(client.get_queue_attributes(queue)["QueueArn"], "tea")
    assert (sent.body, sent.group, sent.sent, sent.state) == ("tea", "table-4", True, "visible")
    assert [each.state for each in broker.snapshot("orders").messages] == ["deleted", "visible"]


def test_a_failure_shows_the_queue(broker: Broker, client: SyncClient) -> None:
    queue = client.create_queue("orders")
    for body in ("one", "two", "three"):
        client.send_message(queue, body)
    client.send_message(queue, "four", delay_seconds=60, message_attributes={"colour": "red"})
    first, second = client.receive_message(queue), client.receive_message(queue)
    client.delete_message(queue, first[0].receipt_handle)
    assert second[0].body == "two"
    expected, _, shown = failure(broker.assert_sent, "orders", "five", count=2).partition("\n")
    says(expected, "2 messages", "sent", "orders", "'five'", "found 0")
    assert shown == (
        'queue "orders": 1 visible, 1 delayed, 1 in flight, 1 gone\n'
        "  state      received  body\n"
        "  deleted           1  'one'\n"
        "  in flight         1  'two'\n"
        "  visible           0  'three'\n"
        "  delayed           0  'four'  attributes={'colour': 'red'}"
    )
    says(failure(broker.assert_sent, "orders", "five"), "at least 1 message")
    wanted = failure(broker.assert_sent, "orders", "one", attributes={"a": "b"}, group="g").splitlines()[0]
    says(wanted, "at least 1 message", "orders", "'one'", "{'a': 'b'}", "'g'", "found 0")
    receives = failure(broker.assert_received, "orders", "two", times=3).splitlines()[0]
    says(receives, "3 receives", "orders", "'two'", "found 1")
    says(
        failure(broker.assert_deleted, "orders", count=2).splitlines()[0], "2 messages", "deleted", "found 1"
    )
    says(failure(broker.assert_empty, "orders").splitlines()[0], "0 messages", "orders", "found 3")
    broker.assert_deleted("orders", "one", count=1)


def test_receives_are_counted(broker: Broker, client: SyncClient) -> None:
    queue = client.create_queue("orders", {"VisibilityTimeout": 30})
    client.send_message(queue, "one")
    failure(broker.assert_received, "orders")
    for times in (1, 2, 3):
        assert received(client, queue) == ["one"]
        broker.assert_received("orders", "one", times=times)
        broker.clock.advance(seconds=30)


def test_dead_letters_are_found_by_the_queue_they_came_from(broker: Broker, client: SyncClient) -> None:
    queue = with_dead_letters(client, "orders", receives=2)
    client.send_message(queue, "poison")
    client.send_message(f"{queue}-dead", "sent there by hand")
    text = failure(broker.assert_in_dead_letter_queue, "orders", "poison", count=1)
    says(text.splitlines()[0], "1 message", "orders", "orders-dead", "'poison'", "found 0")
    assert text.splitlines()[1].startswith('queue "orders-dead": 1 visible')
    assert re.search('queue "orders": 1 visible, 0 delayed, 0 in flight.* orders-dead', text)
    for _ in range(3):
        received(client, queue, visibility_timeout=0)
    (letter,) = broker.assert_in_dead_letter_queue("orders", count=1)
    assert (letter.body, letter.source, letter.sent, letter.received) == ("poison", "orders", False, 0)
    (moved,) = broker.snapshot("orders").messages
    assert (moved.state, moved.received) == ("moved", 2)
    broker.assert_sent("orders-dead", count=1)
    assert "  visible           0  'poison'  from orders" in str(broker.snapshot("orders-dead"))
    assert "orders-dead has no dead-letter queue" in failure(
        broker.assert_in_dead_letter_queue, "orders-dead"
    )


def test_purged_expired_and_moved_messages_say_so(broker: Broker, client: SyncClient) -> None:
    queue = client.create_queue("orders", {"MessageRetentionPeriod": 60})
    client.send_message(queue, "purged")
    client.purge_queue(queue)
    client.send_message(queue, "expired")
    broker.clock.advance(minutes=2)
    client.send_message(queue, "moved")
    client.create_queue("others")
    id = broker.messages("orders")[0].id
    client.admin("POST", f"/queues/orders/messages/{id}/move", body={"to": "others"})
    states = {each.body: each.state for each in broker.snapshot("orders").messages}
    assert states == {"purged": "purged", "expired": "expired", "moved": "moved"}
    assert [(each.body, each.sent) for each in broker.messages("others")] == [("moved", False)]
    broker.assert_sent("orders", count=3)
    broker.assert_sent("others", count=0)


def test_a_queue_that_is_not_there_is_named_with_those_that_are(broker: Broker, client: SyncClient) -> None:
    says(failure(broker.messages, "orders"), 'no queue "orders"', "none")
    client.create_queue("order")
    says(failure(broker.assert_empty, "orders"), 'no queue "orders"', "order")


def test_long_bodies_and_queues_are_cut_in_failures(broker: Broker, client: SyncClient) -> None:
    queue = client.create_queue("orders")
    for n in range(25):
        client.send_message(queue, f"{n} " + "x" * 1000)
    text = failure(broker.assert_empty, "orders")
    assert len(text) < 20 * 300
    assert "'24 xxx" in text
    says(text, "(1,003 characters)", "5 before")


def test_assertions_look_at_many_messages(broker: Broker, client: SyncClient) -> None:
    queue = client.create_queue("orders")
    for n in range(0, 2500, 10):
        client.send_message_batch(queue, [f"{n + i:04}" for i in range(10)])
    broker.assert_sent("orders", count=2500)
    assert [each.body for each in broker.messages("orders")] == [f"{n:04}" for n in range(2500)]


# -- waiting -------------------------------------------------------------------------------------------------------


def test_a_test_waits_for_its_consumer(broker: Broker, client: SyncClient) -> None:
    queue = client.create_queue("orders")
    stop = threading.Event()

    def consume() -> None:
        with broker.client() as own:
            while not stop.is_set():
                for message in own.receive_message(queue, wait_time_seconds=20):
                    own.delete_message(queue, message.receipt_handle)

    consumer = threading.Thread(target=consume)
    consumer.start()
    broker.wait_for_receive("orders")
    for n in range(20):
        client.send_message(queue, str(n))
    broker.wait_until_empty("orders")
    broker.assert_deleted("orders", count=20)
    broker.wait_for_receive("orders", timeout=60)  # before it is asked to stop: then it looks no more
    stop.set()
    broker.clock.advance(seconds=20)
    consumer.join(60)
    assert not consumer.is_alive()


def test_waits_end_with_a_failure_that_shows_the_queue(broker: Broker, client: SyncClient) -> None:
    client.send_message(client.create_queue("orders"), "stays")
    text = failure(broker.wait_for_receive, "orders", count=2, timeout=0.01)
    assert text.startswith("expected 2 waiting receives at orders, found 0 after 0.01 s\n")
    assert "no queue" in failure(broker.wait_for_receive, "missing", timeout=0.01)
    text = failure(broker.wait_until_empty, "orders", timeout=0.01)
    says(text, "orders", "not empty", "0.01 s", "'stays'")


# -- clients -------------------------------------------------------------------------------------------------------


def test_boto3_and_clients_with_other_keys_reach_the_same_broker(broker: Broker) -> None:
    sqs = broker.boto3_client()
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    assert f"/{broker.account}/orders" in url
    sqs.send_message(QueueUrl=url, MessageBody="one")
    sqs.close()
    broker.assert_sent("orders", "one", count=1)
    other = broker.boto3_client(aws_access_key_id="test", region_name="eu-west-1")
    other_url = other.create_queue(QueueName="others")["QueueUrl"]
    other.send_message(QueueUrl=other_url, MessageBody="two")
    other.close()
    broker.assert_sent("others", "two", count=1)
    broker.assert_sent(other_url, "two", count=1)


def test_the_own_account_comes_first_and_a_url_names_another(broker: Broker) -> None:
    other = broker.boto3_client(aws_access_key_id="999999999999")
    url = other.create_queue(QueueName="orders")["QueueUrl"]
    other.close()
    with broker.client() as client:
        client.send_message(client.create_queue("orders"), "mine")
    broker.assert_sent("orders", count=1)
    broker.assert_sent(url, count=0)
    broker.assert_sent("arn:aws:sqs:us-east-1:999999999999:orders", count=0)


def test_clients_find_the_broker_by_the_environment(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in broker.environment.items():
        monkeypatch.setenv(name, value)
    with SyncClient() as client:
        client.create_queue("orders")
    import boto3

    sqs = boto3.session.Session().client("sqs")
    assert [url.rpartition("/")[2] for url in sqs.list_queues()["QueueUrls"]] == ["orders"]
    sqs.close()


def test_it_is_used_in_coroutines() -> None:
    async def test() -> None:
        async with Broker() as broker, broker.async_client() as client:
            queue = await client.create_queue("orders")
            receiving = asyncio.create_task(client.receive_message(queue, wait_time_seconds=20))
            await asyncio.to_thread(broker.wait_for_receive, "orders")
            await client.send_message(queue, "one")
            assert [message.body for message in await receiving] == ["one"]
            broker.clock.advance(minutes=1)
            await _receive_again(broker, client, queue)

    asyncio.run(test())


async def _receive_again(broker: Broker, client: Client, queue: str) -> None:
    assert len(await client.receive_message(queue)) == 1
    broker.assert_received("orders", times=2)


# -- start, reset and stop -----------------------------------------------------------------------------------------


def test_a_reset_leaves_nothing_of_the_test_before() -> None:
    with Broker() as broker:
        account = broker.account
        with broker.client() as before:
            queue = before.create_queue("orders")
            broker.clock.advance(hours=1)
            broker.clock.freeze()
            receiving = ThreadPoolExecutor(1)
            answer = receiving.submit(before.receive_message, queue, wait_time_seconds=20)
            broker.wait_for_receive("orders")
            broker.reset()
            assert answer.result(30) == []
            receiving.shutdown()
            assert broker.account != account and not broker.clock.frozen
            with broker.client() as after:
                again = after.create_queue("orders")
                after.send_message(again, "new")
                assert again != queue
                with pytest.raises(QueueDoesNotExist):
                    before.receive_message(queue)  # a consumer of the test before, which still runs
                broker.assert_sent("orders", count=1)


def test_a_reset_deletes_what_other_services_keep(broker: Broker) -> None:
    import boto3

    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "us-east-1"}
    cloudwatch = boto3.session.Session().client("cloudwatch", endpoint_url=broker.url, **keys)
    cloudwatch.put_dashboard(DashboardName="d", DashboardBody='{"widgets": []}')
    assert len(cloudwatch.list_dashboards()["DashboardEntries"]) == 1
    broker.reset()
    assert cloudwatch.list_dashboards()["DashboardEntries"] == []
    cloudwatch.close()


def test_requests_during_a_reset_get_an_answer_that_makes_sense(broker: Broker) -> None:
    stop, seen = threading.Event(), set[str]()

    def use() -> None:
        with broker.client() as client:
            while not stop.is_set():
                try:
                    queue = client.create_queue("orders")
                    client.send_message(queue, "one")
                    for message in client.receive_message(queue, wait_time_seconds=1):
                        client.delete_message(queue, message.receipt_handle)
                    seen.add("served")
                except ApiError as error:
                    seen.add(error.code)

    users = [threading.Thread(target=use) for _ in range(3)]
    for user in users:
        user.start()
    for _ in range(50):
        broker.reset()
    end = time.monotonic() + 60
    while "served" not in seen and time.monotonic() < end:  # once nothing is reset any more, it works
        time.sleep(0.01)
    stop.set()
    for user in users:
        user.join(60)
    assert "served" in seen
    assert seen <= {
        "served",
        "AWS.SimpleQueueService.NonExistentQueue",
        "ReceiptHandleIsInvalid",
        "ServiceUnavailable",
    }


def test_a_deleted_queue_and_its_messages_are_forgotten(broker: Broker, client: SyncClient) -> None:
    for _ in range(2):  # its name is free at once
        queue = client.create_queue("orders")
        client.send_message(queue, "one")
        broker.assert_sent("orders", count=1)
        client.delete_queue(queue)


def test_the_pauses_of_sqs_can_be_had() -> None:
    with Broker(relaxed_waits=False) as broker, broker.client() as client:
        queue = client.create_queue("orders")
        client.purge_queue(queue)
        with pytest.raises(ApiError, match="PurgeQueueInProgress"):
            client.purge_queue(queue)
        broker.clock.advance(seconds=60)
        client.purge_queue(queue)


def test_brokers_are_independent_and_leave_no_threads() -> None:
    before = set(threading.enumerate())
    with Broker() as first, Broker() as second:
        assert first.url != second.url
        first.clock.advance(days=1)
        assert (first.clock.now - second.clock.now).total_seconds() > DAY / 2
        with first.client() as client:
            client.create_queue("orders")
        failure(second.messages, "orders")
    assert set(threading.enumerate()) <= before


def test_a_broker_that_does_not_run_says_so(broker: Broker) -> None:
    stopped = Broker()
    with pytest.raises(RuntimeError, match="with block"):
        print(stopped.url)
    with stopped:
        server = stopped._server
    with pytest.raises(RuntimeError, match="with block"):
        stopped.messages("orders")
    with pytest.raises(BrokerFailed, match="has stopped"):
        server.call(lambda: None)
    with stopped:  # and can be started again
        assert stopped.account


def test_a_forked_process_is_told_to_start_its_own(broker: Broker) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            broker.reset()
        except BrokerFailed as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    assert "start another Broker" in text


def test_metrics_and_scaling_go_by_the_clock_of_the_server(broker: Broker, client: SyncClient) -> None:
    client.create_queue("orders")
    broker.clock.advance(days=3)
    for _ in range(5):
        client.send_message("orders", "a")
    metrics = client.admin("GET", "/queues/orders/metrics", {"metrics": "sent"})
    assert sum(metrics["series"][0]["values"]) == 5
    assert metrics["end"] > time.time() + 2 * DAY
    assert client.admin("GET", "/queues/orders/scaling")["sent_rate"] > 0
