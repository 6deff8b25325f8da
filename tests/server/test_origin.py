"""The address under which a client reached the server."""

from __future__ import annotations

import pytest

from penstock.names import region_of_host

PATTERN = "sqs.{region}.localhost"


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("sqs.eu-west-1.localhost", "eu-west-1"),
        ("SQS.EU-West-1.Localhost", "eu-west-1"),
        ("sqs.localhost", None),
        ("sqs..localhost", None),
        ("sqs.a.b.localhost", None),
        ("sqs.eu_west.localhost", None),
        ("sqs.eu-west-1.localhost.evil.test", None),
        ("localhost", None),
    ],
)
def test_a_host_names_its_region(host: str, region: str | None) -> None:
    assert region_of_host(host, PATTERN) == region


def test_a_pattern_without_a_region_names_none() -> None:
    assert region_of_host("queues.test", "queues.test") is None
