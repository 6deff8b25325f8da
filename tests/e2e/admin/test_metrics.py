"""What queues did over time, of one process and of two processes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from e2e.admin.requests import REGION, make, make_with_dead_letters, refusal, send
from penstock.client.api import ApiSession
from penstock.metrics.queue_rows import QUEUE_METRICS
from support.process import ServerProcess
from support.rows import every_row
from support.waiting import until


def series(api: ApiSession, queue: str, **query: Any) -> dict[str, dict[int, float]]:
    found = api.admin("GET", f"/queues/{queue}/metrics", query)
    assert found["queue"] == queue
    return {
        f"{each['metric']} {each['statistic']}": dict(zip(each["times"], each["values"], strict=True))
        for each in found["series"]
    }


def total(api: ApiSession, queue: str, metric: str, **query: Any) -> float:
    return sum(series(api, queue, metrics=metric, **query)[f"{metric} Sum"].values())


def test_what_was_done_is_in_the_metrics_at_once(api: ApiSession) -> None:
    url = make(api, "metered")
    for size in (5, 5, 14):
        send(api, url, "x" * size)
    (first,) = api.sqs("ReceiveMessage", QueueUrl=url)["Messages"]
    api.sqs("DeleteMessage", QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    api.sqs("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)
    api.sqs("ReceiveMessage", QueueUrl=url)
    assert total(api, "metered", "sent") == 3
    assert total(api, "metered", "deleted") == 1
    assert total(api, "metered", "received") >= 2
    assert total(api, "metered", "empty_receives") >= 1
    sizes = series(api, "metered", metrics="sent_bytes", statistics="Sum,Minimum,Maximum,p50,SampleCount")
    assert {name: max(values.values()) for name, values in sizes.items()} == {
        "sent_bytes Sum": 24, "sent_bytes Minimum": 5, "sent_bytes Maximum": 14, "sent_bytes p50": 5,
        "sent_bytes SampleCount": 3,
    }  # fmt: skip
    found = api.admin("GET", "/queues/metered/metrics")
    assert found["period_s"] == 60 and found["start"] % 60 == 0
    assert [each["metric"] for each in found["series"]] == [
        name for name in QUEUE_METRICS if name not in ("groups_in_flight", "duplicates")
    ]


def test_seconds(api: ApiSession) -> None:
    url = make(api, "by-second")
    send(api, url, "x")
    send(api, url, "x")

    def seen() -> bool:
        found = series(api, "by-second", metrics="sent,visible", period_s=1, start=-60)
        return sum(found["sent Sum"].values()) == 2 and 2 in found["visible Maximum"].values()

    until(seen, "the seconds of two sends")


def test_all_queues_in_pages(api: ApiSession) -> None:
    for n in range(5):
        url = make(api, f"charted-{n}")
        for _ in range(n):
            send(api, url, "x")
    make_with_dead_letters(api, "charted-dlq")
    make(api, "charted.fifo", FifoQueue="true")
    sent: dict[str, float] = {}
    after = None
    while True:
        query = {"prefix": "charted", "limit": 3, "after": after, "metrics": "sent,groups_in_flight"}
        page = api.admin("GET", "/metrics", query)
        for each in page["queues"]:
            sent[each["queue"]] = sum(each["series"][0]["values"])
            assert len(each["series"]) == (2 if each["kind"] == "fifo" else 1)
        after = page.get("next")
        if after is None:
            break
    assert sent == {
        **{f"charted-{n}": n for n in range(5)}, "charted-dlq": 0, "charted-dlq-dead": 0, "charted.fifo": 0,
    }  # fmt: skip
    assert list(sent) == sorted(sent)


def test_times_and_periods(api: ApiSession) -> None:
    send(api, make(api, "timed"), "x")
    now_s = int(time.time())
    assert total(api, "timed", "sent", start=now_s - 120, end=now_s + 60) == 1
    assert total(api, "timed", "sent", start="-300") == 1
    assert total(api, "timed", "sent", start="2020-01-01T00:00:00Z", end="2020-01-01T01:00:00Z") == 0
    assert api.admin("GET", "/queues/timed/metrics", {"start": -86_400})["period_s"] == 300
    assert api.admin("GET", "/queues/timed/metrics", {"start": -864_000})["period_s"] == 3600


@every_row(
    "query",
    [
        {"metrics": "sent,nothing"},
        {"statistics": "Median"},
        {"statistics": "p1,p2,p3,p4,p5,p6"},
        {"start": "yesterday"},
        {"start": "2020-01-01T00:00:00"},
        {"start": -60, "end": -120},
        {"period_s": 7},
        {"period_s": 0},
        {"period_s": 90},
        {"start": -864_000, "period_s": 1},
    ],
)
def test_what_cannot_be_answered_is_refused(api: ApiSession, query: dict[str, Any]) -> None:
    make(api, "refused")
    assert refusal(api.admin, "GET", "/queues/refused/metrics", query) == (400, "InvalidParameter")


# -- scaling ---------------------------------------------------------------------------------------------------


def test_scaling_has_plain_numbers(api: ApiSession) -> None:
    """The metrics-api scaler of KEDA reads such numbers."""
    url = make(api, "scaled")
    found = api.admin("GET", "/queues/scaled/scaling")
    assert (found["backlog"], found["suggested_workers"]) == (0, 0)
    assert "processing_time_s" not in found
    for _ in range(30):
        send(api, url, "x")
    messages = api.sqs("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    for message in messages[:-1]:
        api.sqs("DeleteMessage", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    found = api.admin("GET", "/queues/scaled/scaling", {"latency_s": 0.001, "workers": 4})
    assert (found["backlog"], found["in_flight"]) == (20, 1)
    assert found["backlog_per_worker"] == 5
    assert found["sent_rate"] == 0.5, "30 messages; a new queue is measured over a minute at least"
    assert found["deleted_rate"] == 0.15
    assert found["processing_time_s"] > 0
    assert found["suggested_workers"] >= 1
    assert all(isinstance(value, (int, float)) for name, value in found.items() if name != "queue")
    bounded = api.admin(
        "GET", "/queues/scaled/scaling", {"latency_s": 0.001, "max_workers": 2, "min_workers": 2}
    )
    assert bounded["suggested_workers"] == 2


@every_row(
    "query",
    [
        {"latency_s": 0}, {"latency_s": -5}, {"latency_s": 1e12}, {"messages_per_worker": 0}, {"workers": -1},
        {"min_workers": 5, "max_workers": 4},
    ],
)  # fmt: skip
def test_scaling_refuses_what_makes_no_sense(api: ApiSession, query: dict[str, Any]) -> None:
    make(api, "refused")
    assert refusal(api.admin, "GET", "/queues/refused/scaling", query) == (400, "InvalidParameter")


def test_all_that_the_scaler_of_keda_asks_for_are_integers_in_strings(api: ApiSession) -> None:
    """Its aws-sqs-queue scaler fails if one of them is missing or something else."""
    url = make(api, "kept-by-keda")
    send(api, url, "x")
    asked = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    ]
    for names in (asked[:1], asked[:2], asked):
        found = api.sqs("GetQueueAttributes", QueueUrl=url, AttributeNames=names)["Attributes"]
        assert found.keys() == set(names)
        assert all(isinstance(value, str) and value.isdecimal() for value in found.values())


@pytest.mark.parametrize("processes", ["1", "2"])
def test_metrics_survive_a_restart(tmp_path: Path, processes: str) -> None:
    for _ in range(2):
        with ServerProcess("--data", str(tmp_path), "--processes", processes, "--region", REGION) as server:
            api = ApiSession(server.url, REGION)
            for n in range(4):
                send(api, make(api, f"kept-{n}"), "x")
            found = [total(api, f"kept-{n}", "sent") for n in range(4)]
            api.close()
            assert server.stop() == 0
    assert found == [2, 2, 2, 2]
