"""Virtual queues and abandoned reply queues; no clock, no server."""

from __future__ import annotations

import pytest

from penstock.client.reply_queues import VirtualQueue, is_abandoned

HEARTBEAT = "__AmazonSQSIdleQueueDeletingClient.LastHeartbeatTimestamp"
IDLE = "__IdleQueueRetentionPeriodSeconds"


@pytest.mark.parametrize(
    ("url", "host", "name"),
    [
        ("http://h/1/host#name", "http://h/1/host", "name"),
        ("http://h/1/host", "http://h/1/host", None),
        ("http://h/1/host#", "http://h/1/host", ""),
    ],
)
def test_a_virtual_queue_is_a_name_after_the_url_of_its_host(url: str, host: str, name: str | None) -> None:
    assert VirtualQueue.of(url) == (host, name)
    assert VirtualQueue(host, name).url == url


@pytest.mark.parametrize(
    ("tags", "abandoned"),
    [
        ({HEARTBEAT: "100000", IDLE: "10"}, False),
        ({HEARTBEAT: "99999", IDLE: "10"}, True),
        ({HEARTBEAT: "999999", IDLE: "10"}, False),  # by a clock that is ahead
        ({IDLE: "10"}, True),
        ({HEARTBEAT: "0"}, False),
        ({}, False),
        ({HEARTBEAT: "soon", IDLE: "10"}, False),
    ],
)
def test_a_queue_without_heartbeats_is_abandoned(tags: dict[str, str], abandoned: bool) -> None:
    assert is_abandoned(tags, now_ms=110_000) == abandoned
