import asyncio

import orders
import pytest
from orders import Order


@pytest.fixture
def client(penstock_client, sqs_environment):
    orders.create_queues(penstock_client)
    return penstock_client


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


def handle_all(penstock):
    async def main():
        running = asyncio.create_task(orders.app.serve())
        await asyncio.to_thread(penstock.wait_until_empty, "orders")
        await orders.app.stop()
        await running

    asyncio.run(main())


def test_an_order_is_charged_and_retried(penstock, client, charged):
    orders.place_order(client, Order(1, 450))
    handle_all(penstock)
    assert charged == [1, 1]
    penstock.assert_received("orders", {"number": 1, "cents": 450}, times=2)


def test_an_order_that_is_placed_twice_is_charged_once(penstock, client, charged):
    orders.place_order(client, Order(2, 450))
    orders.place_order(client, Order(2, 450))
    handle_all(penstock)
    assert charged == [2, 2]  # the first time the bank did not answer


def test_what_cannot_be_charged_or_read_is_a_dead_letter(penstock, client, charged):
    orders.place_order(client, Order(13, 450))
    client.send_message("orders", "hello")
    handle_all(penstock)
    assert charged == [13]
    penstock.assert_in_dead_letter_queue("orders", {"number": 13, "cents": 450}, count=1)
    penstock.assert_in_dead_letter_queue("orders", "hello", count=1)
