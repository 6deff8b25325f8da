"""Orders are placed in a queue and charged by a worker: `python orders.py`."""

import json
import logging
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import boto3

CONCURRENCY = 10
RETRY_SECONDS = 1
ATTEMPTS_MAX = 5
log = logging.getLogger("orders")


@dataclass
class Order:
    number: int
    cents: int


def decode(body):
    """Raises ValueError."""
    fields = json.loads(body)
    if not isinstance(fields, dict) or set(fields) != {"number", "cents"}:
        raise ValueError("not an order")
    if not all(isinstance(value, int) for value in fields.values()):
        raise ValueError("not an order")
    return Order(**fields)


class Worker:
    def __init__(self, sqs):
        self.sqs = sqs
        self.url = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
        self.dead_url = sqs.get_queue_url(QueueName="orders-dlq")["QueueUrl"]
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self.done = set()
        self.in_progress = set()

    def run(self):
        signal.signal(signal.SIGTERM, lambda *_: self.stopping.set())
        signal.signal(signal.SIGINT, lambda *_: self.stopping.set())
        while not self.stopping.is_set():
            try:
                self.poll(wait_seconds=20)
            except Exception:
                log.exception("cannot receive")
                self.stopping.wait(5)

    def poll(self, wait_seconds=0):
        response = self.sqs.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=CONCURRENCY,
            WaitTimeSeconds=wait_seconds,
            MessageSystemAttributeNames=["ApproximateReceiveCount"],
        )
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            list(pool.map(self.handle, response.get("Messages", [])))

    def handle(self, message):
        attempt = int(message["Attributes"]["ApproximateReceiveCount"])
        try:
            order = decode(message["Body"])
            if not self.begin(order.number):
                self.retry(message)
                return
            try:
                self.charge_once(order)
            finally:
                self.end(order.number)
            self.delete(message)
        except ValueError:
            log.exception("gave up")
            self.move_to_dead_letters(message)
        except Exception:
            log.exception("failed")
            if attempt >= ATTEMPTS_MAX:
                self.move_to_dead_letters(message)
            else:
                self.retry(message)

    def begin(self, number):
        """False: another thread works on the same order."""
        with self.lock:
            if number in self.in_progress:
                return False
            self.in_progress.add(number)
            return True

    def charge_once(self, order):
        if order.number not in self.done:
            charge(order)
            self.done.add(order.number)

    def end(self, number):
        with self.lock:
            self.in_progress.discard(number)

    def delete(self, message):
        self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])

    def retry(self, message):
        self.sqs.change_message_visibility(
            QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=RETRY_SECONDS
        )

    def move_to_dead_letters(self, message):
        self.sqs.send_message(QueueUrl=self.dead_url, MessageBody=message["Body"])
        self.delete(message)


def charge(order):
    print(f"order {order.number}: {order.cents} cents")


def place_order(sqs, order):
    url = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps(asdict(order)))


def create_queues(sqs):
    dead = sqs.create_queue(QueueName="orders-dlq")["QueueUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]
    policy = {"deadLetterTargetArn": attributes["QueueArn"], "maxReceiveCount": 10}
    sqs.create_queue(QueueName="orders", Attributes={"RedrivePolicy": json.dumps(policy)})


if __name__ == "__main__":
    Worker(boto3.client("sqs")).run()
