"""No request keeps the event loop for more than some milliseconds, whichever action it is and however much it asks.

Time is CPU time of the thread of the loop, in units of a short calculation: other processes of the machine do not
count, and slow machines are slow at both.
"""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import uvloop

from penstock.server.compose import SERVICES
from penstock.server.settings.config import Config
from support.composed import Server, serving
from support.cpu import unit_s

from . import heaviest_requests as heavy
from .heaviest_topics import SNS_REQUESTS, fill_topics

REQUESTS = {**heavy.REQUESTS, "sns": SNS_REQUESTS}
STALL_UNITS_MAX = 25
ATTEMPTS = 3
TICK_S = 0.001
TEST_CLOCK = ("GetTestClock", "AdvanceTestClock", "ChangeTestClock", "ResetTestClock", "ClearServer")


class Stalls:
    """The longest turn of the running loop, by what was asked for meanwhile."""

    def __init__(self) -> None:
        self.asked = ""
        self.longest_s: defaultdict[str, float] = defaultdict(float)
        self._loop = asyncio.get_running_loop()
        self._stopped = False
        self._last_s = time.thread_time()
        self._tick()

    def _tick(self) -> None:
        self._note()
        if not self._stopped:
            self._loop.call_later(TICK_S, self._tick)

    def _note(self) -> None:
        now_s = time.thread_time()
        if self.asked:
            self.longest_s[self.asked] = max(self.longest_s[self.asked], now_s - self._last_s)
        self._last_s = now_s

    def ask(self, asked: str) -> None:
        """What is asked for from now on. Another thread calls this, so that what the loop has done is noted first."""

        async def change() -> None:
            self._note()
            self.asked = asked

        asyncio.run_coroutine_threadsafe(change(), self._loop).result()

    def stop(self) -> None:
        self._stopped = True


class Client:
    """A client in a thread of its own: what it computes is not the server's time."""

    def __init__(self, port: int, stalls: Stalls) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._stalls = stalls
        self.failures: list[str] = []

    def ask(self, request: heavy.Request) -> tuple[int, bytes]:
        method, target, headers, body = request
        self._connection.request(method, target, body, headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def get(self, request: heavy.Request) -> Any:
        status, body = self.ask(request)
        assert status == 200, (status, request[1:3], body[:500])
        return json.loads(body or b"null")

    def measure(self, name: str, request: heavy.Request) -> None:
        self._stalls.ask(name)
        status, body = self.ask(request)
        self.ask(("GET", "/health", {}, b""))  # what the request left to be done counts, too
        self._stalls.ask("")
        if status >= 500:
            self.failures.append(f"{name}: {status} {body[:200]!r}")


def fill(client: Client) -> heavy.Held:
    """What the server holds when it is asked."""
    held = heavy.Held(int(time.time()) // 60 * 60)
    dead_letters = {
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": heavy.arn("dead"), "maxReceiveCount": 5})
    }
    for name in ("dead", "sent", "deleted", "purged", "fat", "attributes"):
        client.get(heavy.sqs("CreateQueue", QueueName=name))
    client.get(heavy.sqs("CreateQueue", QueueName="big", Attributes=dead_letters))
    for number in range(heavy.QUEUES):
        client.get(heavy.sqs("CreateQueue", QueueName=heavy.queue_name(number), Attributes=dead_letters))
    client.get(heavy.SQS_REQUESTS["TagQueue"][0](held))

    def send(queue: str, count: int, body: str, **members: Any) -> None:
        for first in range(0, count, 10):
            entries = [
                {"Id": str(number), "MessageBody": body, **members} for number in range(first, first + 10)
            ]
            client.get(heavy.sqs("SendMessageBatch", QueueUrl=heavy.url(queue), Entries=entries))

    small = json.dumps({"a": 1, "text": "ab" * 50})
    for queue, count in (("big", heavy.SMALL_MESSAGES), ("deleted", 1000), ("purged", 1000), ("dead", 500)):
        send(queue, count, small)
    send("attributes", 10, "b", MessageAttributes=heavy.attributes("v" * 100))
    for _ in range(10):
        client.get(heavy.sqs("SendMessage", QueueUrl=heavy.url("fat"), MessageBody="x" * heavy.MIB))
    for _ in range(5):
        received = client.get(heavy.sqs("ReceiveMessage", QueueUrl=heavy.url("big"), MaxNumberOfMessages=10))
        held.handles += [each["ReceiptHandle"] for each in received["Messages"]]
    listed = client.get(heavy.admin("GET", "/queues/big/messages", limit=1000, state="visible"))
    held.message_ids = [each["id"] for each in listed["messages"]]
    slow = heavy.sqs("StartMessageMoveTask", SourceArn=heavy.arn("dead"), MaxNumberOfMessagesPerSecond=1)
    slow = (
        "POST",
        "/",
        slow[2],
        slow[3].replace(b"}", b', "DestinationArn": "%b"}' % heavy.arn("q0005").encode()),
    )
    held.move_task = client.get(slow)["TaskHandle"]
    send("q0006", 100, small)
    held.task = client.get(heavy.admin("POST", "/queues/q0006/tasks", {"operation": "delete", "rate": 1}))[
        "id"
    ]
    fill_monitoring(client, held)
    fill_topics(client.get)
    return held


def fill_monitoring(client: Client, held: heavy.Held) -> None:
    def put(data: list[dict[str, Any]]) -> None:
        for first in range(0, len(data), 1000):
            status, body = client.ask(
                heavy.cloudwatch("PutMetricData", Namespace="held", MetricData=data[first : first + 1000])
            )
            assert status == 200, body

    put([{"MetricName": f"metric{number:04d}", "Value": 1.0} for number in range(heavy.METRICS)])
    minutes = range(heavy.MINUTES)
    put(
        [
            {
                "MetricName": "metric0000",
                "Values": [1.0 + at % 7, 50.0, 900.0],
                "Timestamp": held.now_s - at * 60,
            }
            for at in minutes
        ]
    )
    for number in range(heavy.ALARMS):
        client.ask(
            heavy.cloudwatch(
                "PutMetricAlarm", AlarmName=heavy.alarm_name(number), Namespace="held", MetricName="metric0000",
                Statistic="Sum", Period=60, EvaluationPeriods=5, Threshold=1e9,
                ComparisonOperator="GreaterThanThreshold", AlarmDescription="d" * 200,
            )
        )  # fmt: skip
    for number in range(heavy.COMPOSITES):
        client.get(
            heavy.cloudwatch(
                "PutCompositeAlarm", AlarmName=f"composite-{number:04d}", AlarmRule=heavy.composite_rule()
            )
        )
    for number in range(heavy.DASHBOARDS):
        body = heavy.dashboard_body(100, 1000)
        client.get(
            heavy.cloudwatch("PutDashboard", DashboardName=heavy.dashboard_name(number), DashboardBody=body)
        )


def measured(
    config: Config,
    prepare: Callable[[Client], heavy.Held],
    wanted: Callable[[str], bool] = lambda action: True,
    services: Mapping[str, heavy.Rows] = REQUESTS,
) -> dict[str, float]:
    """The longest stall of each request, in units, by its name. What is too long is tried again."""
    longest: dict[str, float] = {}
    failures: list[str] = []

    async def test() -> None:
        async with serving(config) as server:
            stalls = Stalls()
            try:
                await asyncio.to_thread(client, server, stalls)
            finally:
                stalls.stop()

    def client(server: Server, stalls: Stalls) -> None:
        caller = Client(server._port, stalls)
        held = prepare(caller)
        for service, actions in services.items():
            for action, requests in actions.items():
                for number, request in enumerate(requests if wanted(action) else ()):
                    name = f"{service} {action} {number}"
                    for attempt in range(ATTEMPTS):
                        unit = unit_s()
                        try:
                            given = request(held)
                        except IndexError:
                            break
                        caller.measure(f"{name} {attempt}", given)
                        units = stalls.longest_s[f"{name} {attempt}"] / unit
                        longest[name] = min(longest.get(name, units), units)
                        if units <= STALL_UNITS_MAX:
                            break
        failures.extend(caller.failures)

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)  # as a server does, so that the client has its turn
    gc.disable()  # a server collects rarely; here there is more to look at than its own
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(test())
    finally:
        gc.enable()
        sys.setswitchinterval(interval_s)
    assert failures == []
    return longest


def test_every_action_has_its_heaviest_request() -> None:
    assert {name: set(rows) for name, rows in REQUESTS.items()} == {
        service.signing_name: set(service.actions) for service, _ in SERVICES
    }


def check(longest: Mapping[str, float]) -> None:
    too_long = {name: round(units) for name, units in longest.items() if units > STALL_UNITS_MAX}
    assert too_long == {}, f"units of about a millisecond, at most {STALL_UNITS_MAX} are allowed"


@pytest.mark.slow
def test_no_request_keeps_the_event_loop(tmp_path: Path) -> None:
    config = Config(memory=True, audit=str(tmp_path / "audit.jsonl"), audit_data_events=True)
    check(measured(config, fill, lambda action: action not in TEST_CLOCK))


@pytest.mark.slow
def test_no_long_request_keeps_the_event_loop() -> None:
    """Whatever the protocol, and whether it is refused."""
    config = Config(memory=True)
    now_s = int(time.time()) // 60 * 60
    check(measured(config, lambda client: heavy.Held(now_s), services={"monitoring": heavy.LONG_REQUESTS}))


def test_an_advance_of_the_test_clock_lets_the_loop_turn() -> None:
    """It may take longer: a server with such a clock is for one test, which waits for it."""
    config = Config(memory=True, test_clock=True)
    longest = measured(config, lambda client: heavy.Held(0), lambda action: action in TEST_CLOCK)
    assert max(longest.values()) < 10 * STALL_UNITS_MAX, longest
