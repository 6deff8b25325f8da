"""Orders are placed in a queue and charged by a worker: `penstock worker orders:app`."""

import msgspec

from penstock.client import GIVE_UP, Constant, Idempotency, MemoryKeys, RetryPolicy, SyncClient, Worker


class Order(msgspec.Struct):
    number: int
    cents: int


app = Worker()
once = Idempotency(MemoryKeys(), key=lambda context: str(context.value.number))
retry = RetryPolicy(Constant(1), by_type={ValueError: GIVE_UP}, attempts_max=5)


@app.handler("orders", idempotency=once, retry=retry, visibility_timeout=4)
def handle(order: Order) -> None:
    charge(order)


def charge(order: Order) -> None:
    print(f"order {order.number}: {order.cents} cents")


def place_order(client: SyncClient, order: Order) -> None:
    client.send_message("orders", msgspec.json.encode(order).decode())


def create_queues(client: SyncClient) -> None:
    dead = client.create_queue("orders-dlq")
    arn = client.get_queue_attributes(dead, ["QueueArn"])["QueueArn"]
    client.create_queue("orders", {"RedrivePolicy": {"deadLetterTargetArn": arn, "maxReceiveCount": 10}})
