"""The address under which a client reached the server."""

from __future__ import annotations

import json

import pytest

from penstock.names import Space, region_of_host
from penstock.server.callers import OpenCallers
from penstock.server.origin import Origins
from penstock.server.settings.config import Config
from penstock.server.web_pages import Cors, WebPageFilter

from .composed import serving as whole_server
from .harness import HOME, get, post, run, serving

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


PUBLIC_URL = "http://sqs.{region}.localhost:9324"
SIGNED = b"Authorization: AWS4-HMAC-SHA256 Credential=AKID/20260101/eu-west-3/sqs/aws4_request, Signature=00"


def to(host: str, *headers: bytes) -> bytes:
    return post("A.B", b"{}", *headers).replace(b"queues.test:9324", host.encode())


@pytest.mark.parametrize(
    ("host", "headers", "region"),
    [
        ("sqs.eu-west-1.localhost:9324", (), "eu-west-1"),
        ("sqs.eu-west-1.localhost", (), "eu-west-1"),
        ("localhost:9324", (), "us-east-1"),
        ("sqs.eu-west-1.localhost:9324", (SIGNED,), "eu-west-3"),
        ("localhost:9324", (SIGNED,), "eu-west-3"),
    ],
)
def test_an_unsigned_request_belongs_to_the_region_of_its_host(
    host: str, headers: tuple[bytes, ...], region: str
) -> None:
    async def scene() -> None:
        origins = Origins(PUBLIC_URL, ())
        async with serving(origins=origins, callers=OpenCallers(HOME, origins)) as server:
            client = await server.connect()
            for _ in range(2):
                client.send(to(host, *headers))
                await client.response()
            for seen in server.dispatcher.seen:
                assert seen.call.space == Space("000000000000", region)
                assert seen.call.base_url == f"http://sqs.{region}.localhost:9324"

    run(scene)


def test_queues_of_two_regions_have_different_urls() -> None:
    async def scene() -> None:
        async with whole_server(Config(memory=True, port=0, public_url=PUBLIC_URL)) as server:
            for region in ("eu-west-1", "us-east-1"):
                body = json.dumps({"QueueName": "orders"}).encode()
                request = post("AmazonSQS.CreateQueue", body)
                host = f"sqs.{region}.localhost:9324"
                created = await server.ask(request.replace(b"queues.test:9324", host.encode()))
                assert created.json()["QueueUrl"] == f"http://{host}/000000000000/orders"

    run(scene)


def test_a_browser_may_use_the_hosts_of_regions() -> None:
    async def scene() -> None:
        pages = WebPageFilter(Cors(()), "http://sqs.{region}.queues.test")
        async with serving(pages=pages) as server:
            browser = "User-Agent: Mozilla/5.0"
            for host, status in (("sqs.eu-west-1.queues.test", 200), ("sqs.queues.test", 403)):
                request = get("/?Action=ListQueues", browser).replace(b"queues.test:9324", host.encode())
                assert (await server.ask(request)).status == status

    run(scene)
