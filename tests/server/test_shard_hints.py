"""The shard that a request claims to belong to, before it is verified."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.names import QueueName, Space, shard_of
from penstock.server.shard_hints import ShardHints
from support.harness import made_request, signed
from support.rows import every_row

SHARDS = 32
HOME = Space("000000000000", "us-east-1")
JSON = "application/x-amz-json-1.0"
CREDENTIAL = "AKIDEXAMPLE/20260101/eu-west-1/sqs/aws4_request"
URL = "http://localhost:9324/111122223333/orders"


def hint(body: bytes, credential: str = CREDENTIAL, content_type: str = JSON, host: str = "") -> int | None:
    headers: dict[str, Any] = {"authorization": signed(credential)} if credential else {}
    request = made_request(content_type=content_type, **headers)
    request.body = body
    hints = ShardHints(SHARDS, host, HOME)
    first = hints.shard_of(request)
    assert hints.shard_of(request) == first  # from the cache
    return first


def naming(url: str) -> bytes:
    return json.dumps({"MessageBody": "before", "QueueUrl": url}).encode()


def shard(region: str = "eu-west-1") -> int:
    return shard_of(QueueName("111122223333", region, "orders"), SHARDS)


@pytest.mark.parametrize(
    "url", [URL, "/111122223333/orders", "https://sqs.example/prefix/111122223333/orders"]
)
def test_account_and_name_are_the_urls_and_the_region_is_the_signatures(url: str) -> None:
    assert hint(naming(url)) == shard()


def test_a_host_that_names_the_region_wins() -> None:
    url = naming("http://sqs.us-west-2.localhost:9324/111122223333/orders")
    assert hint(url, host="sqs.{region}.localhost") == shard("us-west-2")
    assert hint(url) == shard()


@every_row(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"QueueUrl": null}',
        b'{"QueueUrl": 7}',
        b'{"QueueUrl": "\xff"}',
        b'{"Nested": ' + b"[" * 50_000,
        b'{"QueueUrl": "\\ud800"}',
        naming("orders"),  # whose queue that is depends on the caller
        naming("http://localhost/queue/orders"),
        naming("http://localhost/111122223333/not a name"),
        naming(URL + "x" * 50_000),
    ],
)
def test_what_does_not_name_a_queue_gives_no_hint(body: bytes) -> None:
    assert hint(body) is None


@pytest.mark.parametrize(
    "credential", ["", "AKID", "AKID/20260101/Not A Region/sqs/aws4_request", "a/b/c/d/e/f"]
)
def test_a_request_without_a_scope_gives_no_hint(credential: str) -> None:
    assert hint(naming(URL), credential) is None


def test_a_large_request_is_verified_first() -> None:
    """Or clients without credentials could fill what may be on its way to another process."""
    padded = json.dumps({"QueueUrl": URL, "MessageBody": "x" * 65_000}).encode()
    assert hint(padded) == shard()
    assert hint(padded.replace(b"xx", b"xxxx")) is None


def test_only_aws_json_is_looked_at() -> None:
    assert hint(naming(URL), content_type="application/x-www-form-urlencoded") is None


def test_requests_for_the_same_url_in_other_regions_are_kept_apart() -> None:
    hints = ShardHints(SHARDS, "", HOME)
    for region in ("eu-west-1", "us-east-1", "eu-west-1"):
        request = made_request(
            content_type=JSON, authorization=signed(f"AKID/20260101/{region}/sqs/aws4_request") + "0" * 62
        )
        request.body = naming(URL)
        assert hints.shard_of(request) == shard(region)


@pytest.mark.parametrize(
    ("target", "credential", "name"),
    [
        ("orders", "", QueueName("000000000000", "us-east-1", "orders")),
        ("orders/messages?limit=1", CREDENTIAL, QueueName("000000000000", "eu-west-1", "orders")),
        (
            "orders/messages/x/move",
            CREDENTIAL.replace("AKIDEXAMPLE", "111122223333"),
            QueueName("111122223333", "eu-west-1", "orders"),
        ),
        ("orders?account=111122223333", CREDENTIAL, None),
    ],
)
def test_a_request_of_the_admin_api_names_its_queue_in_the_path(
    target: str, credential: str, name: QueueName | None
) -> None:
    headers: dict[str, Any] = {"authorization": signed(credential)} if credential else {}
    request = made_request(**headers)
    request.target = f"/admin/v1/queues/{target}".encode()
    hints = ShardHints(SHARDS, "", HOME)
    assert hints.shard_of(request) == (None if name is None else shard_of(name, SHARDS))
    request.body = b"x" * 100_000
    assert hints.shard_of(request) is None
