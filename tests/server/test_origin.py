"""The address under which a client reached the server."""

from __future__ import annotations

import json
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.names import Space, region_of_host
from penstock.server.callers import OpenCallers
from penstock.server.http.request import HttpError
from penstock.server.origin import Origins
from penstock.server.settings.config import Config
from penstock.server.web_pages import Cors, WebPageFilter
from support.composed import serving as whole_server
from support.harness import HOME, get, made_request, peer, post, run, serving
from support.rows import every_row

PROXIES = (ip_network("10.0.0.0/8"),)
FORWARDED: dict[str, Any] = {
    "host": "inner:1",
    "x_forwarded_host": "queues.example.com",
    "x_forwarded_proto": "https",
}


@every_row(
    ("origins", "headers", "url"),
    [
        (Origins(None, ()), {"host": "mapped.host:4566"}, "http://mapped.host:4566"),
        (Origins(None, ()), {"host": "[::1]:9324"}, "http://[::1]:9324"),
        (Origins(None, ()), {}, "http://127.0.0.1:9324"),
        (Origins(None, ()), FORWARDED, "http://inner:1"),
        (Origins(None, PROXIES), FORWARDED, "https://queues.example.com"),
        (Origins(None, PROXIES), FORWARDED | {"x_forwarded_port": "443"}, "https://queues.example.com"),
        (Origins(None, PROXIES), FORWARDED | {"x_forwarded_port": "8443"}, "https://queues.example.com:8443"),
        (Origins(None, PROXIES), FORWARDED | {"x_forwarded_host": "a.example, b"}, "https://a.example"),
        (Origins(None, PROXIES), FORWARDED | {"x_forwarded_proto": "https, http"}, "http://queues.example.com"),
        (Origins(None, PROXIES), FORWARDED | {"x_forwarded_proto": "http, HTTPS,"}, "https://queues.example.com"),
        (Origins(None, PROXIES), FORWARDED | {"x_forwarded_proto": "gopher"}, "http://queues.example.com"),
        (Origins(None, (ip_network("192.168.0.0/16"),)), FORWARDED, "http://inner:1"),
        (Origins("https://public.example/sqs", PROXIES), FORWARDED, "https://public.example/sqs"),
    ],
)  # fmt: skip
def test_the_base_of_queue_urls(origins: Origins, headers: dict[str, Any], url: str) -> None:
    assert origins.of(made_request(**headers)).base_url == url


def test_a_connection_may_be_used_for_several_hosts() -> None:
    origins, connection = Origins(None, ()), peer()
    for host in ("a.test", "a.test", "b.test:1", "a.test"):
        assert origins.of(made_request(by=connection, host=host)).base_url == f"http://{host}"
    with pytest.raises(HttpError):
        origins.of(made_request(by=connection, host="no host"))
    with pytest.raises(HttpError):
        origins.of(made_request(by=connection, host="no host"))


@every_row("host", ["a b", "<x>", "a/b", "a:b", "user@host", "a" * 300, "[::1", "a:123456"])
def test_an_invalid_host_is_refused(host: str) -> None:
    with pytest.raises(HttpError):
        Origins(None, ()).of(made_request(host=host))


@every_row(
    ("said", "address"),
    [
        ("6.6.6.6", "6.6.6.6"),
        ("9.9.9.9, 6.6.6.6", "6.6.6.6"),
        ("9.9.9.9, 6.6.6.6, 10.0.0.9, 10.0.0.8", "6.6.6.6"),
        ("9.9.9.9,, 6.6.6.6, ,", "6.6.6.6"),
        ("6.6.6.6:5555", "6.6.6.6"),
        ('"6.6.6.6"', "6.6.6.6"),
        ('"6.6.6.6:5555"', "6.6.6.6"),
        ("::ffff:6.6.6.6", "6.6.6.6"),
        ("[::ffff:6.6.6.6]", "6.6.6.6"),
        ("2001:db8::0001", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ('"[2001:db8::1]:443"', "2001:db8::1"),
        ("6.6.6.6, 10.0.0.9:80, [::ffff:10.0.0.8]:80", "6.6.6.6"),
        # What is not an address ends the search; the entries before it do not count.
        ("unknown", "10.1.2.3"),
        ("9.9.9.9, unknown", "10.1.2.3"),
        ("9.9.9.9, 006.6.6.6", "10.1.2.3"),
        ("9.9.9.9, 6.6.6.6:x", "10.1.2.3"),
        ("9.9.9.9, _hidden, 10.0.0.9", "10.0.0.9"),
        ("[", "10.1.2.3"),
        ("", "10.1.2.3"),
    ],
)
def test_the_source_address_behind_proxies(said: str, address: str) -> None:
    assert Origins(None, PROXIES).source_ip(made_request(x_forwarded_for=said)) == address
    assert Origins(None, ()).source_ip(made_request(x_forwarded_for=said)) == "10.1.2.3"


@given(st.text(st.characters(max_codepoint=255)) | st.ip_addresses().map(str))
def test_the_source_is_always_an_address(said: str) -> None:
    ip_address(Origins(None, PROXIES).source_ip(made_request(x_forwarded_for=said)))


@pytest.mark.parametrize(
    ("said", "secure"),
    [
        ("https", True),
        ("http", False),
        ("https, http", False),
        ("http, https", True),
        ("", False),
        ("x", False),
    ],
)
def test_the_nearest_proxy_decides_whether_it_came_over_tls(said: str, secure: bool) -> None:
    assert Origins(None, PROXIES).is_secure(made_request(x_forwarded_proto=said)) is secure


def test_behind_a_proxy_the_headers_are_as_the_client_signed_them() -> None:
    made = made_request(**FORWARDED)
    assert Origins(None, PROXIES).as_signed(made) == {**made.headers, b"host": b"queues.example.com"}
    made.headers[b"x-forwarded-port"] = b"8443"
    assert Origins(None, PROXIES).as_signed(made)[b"host"] == b"queues.example.com:8443"
    del made.headers[b"x-forwarded-host"]
    for received, origins in ((made, Origins(None, PROXIES)), (made_request(**FORWARDED), Origins(None, ()))):
        assert origins.as_signed(received) == received.headers


def test_repeated_headers_are_joined_as_signatures_join_them() -> None:
    made = made_request(**FORWARDED, x_amz_meta="a, b")
    made.raw_headers = [(b"X-Amz-Meta", b" a"), *made.headers.items(), (b"x-amz-meta", b"b ")]
    made.raw_headers.remove((b"x-amz-meta", b"a, b"))
    signed = {**made.headers, b"x-amz-meta": b"a,b"}
    assert Origins(None, ()).as_signed(made) == signed
    assert Origins(None, PROXIES).as_signed(made) == {**signed, b"host": b"queues.example.com"}


# -- regions in hosts ------------------------------------------------------------------------------------------

PATTERN = "sqs.{region}.localhost"


@every_row(
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
    async def scenario() -> None:
        origins = Origins(PUBLIC_URL, ())
        async with serving(origins=origins, callers=OpenCallers(HOME, origins)) as server:
            client = await server.connect()
            for _ in range(2):
                client.send(to(host, *headers))
                await client.response()
            for seen in server.dispatcher.seen:
                assert seen.call.space == Space("000000000000", region)
                assert seen.call.base_url == f"http://sqs.{region}.localhost:9324"

    run(scenario)


def test_without_a_region_in_the_signature_the_host_counts_for_each_request() -> None:
    async def scenario() -> None:
        origins = Origins(PUBLIC_URL, ())
        async with serving(origins=origins, callers=OpenCallers(HOME, origins)) as server:
            client = await server.connect()
            unscoped = (
                b"Authorization: AWS4-HMAC-SHA256 Credential=AKID, SignedHeaders=host, Signature=" + b"0" * 64
            )
            regions = ["eu-west-1", "eu-west-2", "eu-west-1"]
            for region in regions:
                client.send(to(f"sqs.{region}.localhost", unscoped))
                await client.response()
            assert [seen.call.space.region for seen in server.dispatcher.seen] == regions

    run(scenario)


def test_queues_of_two_regions_have_different_urls() -> None:
    async def scenario() -> None:
        async with whole_server(Config(memory=True, port=0, public_url=PUBLIC_URL)) as server:
            for region in ("eu-west-1", "us-east-1"):
                body = json.dumps({"QueueName": "orders"}).encode()
                request = post("AmazonSQS.CreateQueue", body)
                host = f"sqs.{region}.localhost:9324"
                created = await server.ask(request.replace(b"queues.test:9324", host.encode()))
                assert created.json()["QueueUrl"] == f"http://{host}/000000000000/orders"

    run(scenario)


def test_a_browser_may_use_the_hosts_of_regions() -> None:
    async def scenario() -> None:
        pages = WebPageFilter(Cors(()), "http://sqs.{region}.queues.test")
        async with serving(pages=pages) as server:
            browser = "User-Agent: Mozilla/5.0"
            for host, status in (("sqs.eu-west-1.queues.test", 200), ("sqs.queues.test", 403)):
                request = get("/?Action=ListQueues", browser).replace(b"queues.test:9324", host.encode())
                assert (await server.ask(request)).status == status

    run(scenario)


def test_an_origin_is_scheme_host_and_port() -> None:
    proxied = {"host": "inner:1", "x_forwarded_host": "queues.example.com", "x_forwarded_proto": "https"}
    public = Origins("https://queues.example.com:443", ())
    regional = Origins("https://sqs.{region}.example.com", ())
    host = {"host": "queues.example.com:9324"}
    for origins, headers, origin, is_own in [
        (Origins(None, ()), host, "http://queues.example.com:9324", True),
        (Origins(None, ()), host, "http://QUEUES.example.com:9324", True),
        (Origins(None, ()), host, "https://queues.example.com:9324", False),
        (Origins(None, ()), host, "http://queues.example.com", False),
        (Origins(None, ()), {"host": "queues.example.com"}, "http://queues.example.com:80", True),
        (Origins(None, ()), {"host": "[::1]:9324"}, "http://[::1]:9324", True),
        (Origins(None, ()), host, "null", False),
        (Origins(None, ()), host, "http://", False),
        (Origins(None, ()), host, "http://queues.example.com:99999", False),
        (Origins(None, ()), host, "http://[", False),
        (Origins(None, ()), host, "", False),
        (public, {"host": "inner:1"}, "https://queues.example.com", True),
        (public, {"host": "inner:1"}, "http://queues.example.com", False),
        (public, {"host": "inner:1"}, "http://inner:1", True),
        (regional, {"host": "sqs.eu-west-1.example.com"}, "https://sqs.eu-west-1.example.com", True),
        (regional, {"host": "sqs.eu-west-1.example.com"}, "https://sqs.us-east-1.example.com", False),
        (Origins(None, PROXIES), proxied, "https://queues.example.com", True),
        (Origins(None, PROXIES), proxied, "http://queues.example.com", False),
        (Origins(None, PROXIES), proxied, "http://inner:1", False),
    ]:
        request = made_request(**dict[str, Any](headers))
        assert origins.is_own(request, origin.encode()) is is_own, (headers, origin)
