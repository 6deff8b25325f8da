import json
import time

import boto3
import orders
import pytest
from moto import mock_aws
from orders import Order


@pytest.fixture
def sqs(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        client = boto3.client("sqs")
        orders.create_queues(client)
        yield client


@pytest.fixture
def charged(monkeypatch):
    """Order 13 is refused, and the bank does not answer the first time."""
    calls = []

    def charge(order):
        calls.append(order.number)
        if order.number == 13:
            raise ValueError("refused")
        if calls.count(order.number) == 1:
            raise ConnectionError("no answer")

    monkeypatch.setattr(orders, "charge", charge)
    return calls


def handle_all(sqs):
    worker = orders.Worker(sqs)
    deadline = time.monotonic() + 30
    while count(sqs, "orders"):
        assert time.monotonic() < deadline, "the queue is not empty"
        worker.poll()
        time.sleep(0.1)


def count(sqs, queue):
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return int(shown["ApproximateNumberOfMessages"]) + int(shown["ApproximateNumberOfMessagesNotVisible"])


def dead_letters(sqs):
    url = sqs.get_queue_url(QueueName="orders-dlq")["QueueUrl"]
    response = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    return [message["Body"] for message in response.get("Messages", [])]


def test_an_order_is_charged_and_retried(sqs, charged):
    orders.place_order(sqs, Order(1, 450))
    handle_all(sqs)
    assert charged == [1, 1]


def test_an_order_that_is_placed_twice_is_charged_once(sqs, charged):
    orders.place_order(sqs, Order(2, 450))
    orders.place_order(sqs, Order(2, 450))
    handle_all(sqs)
    assert charged == [2, 2]  # the first time the bank did not answer


def test_what_cannot_be_charged_or_read_is_a_dead_letter(sqs, charged):
    orders.place_order(sqs, Order(13, 450))
    url = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="hello")
    handle_all(sqs)
    assert charged == [13]
    assert sorted(dead_letters(sqs)) == ["hello", json.dumps({"number": 13, "cents": 450})]
