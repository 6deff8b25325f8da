"""Exchanges with real endpoints: what the answers mean, what is read of them, and what is called."""

from __future__ import annotations

import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from outgoing.test_client import Answering
from penstock.outgoing import ALL_HOSTS, OpenUrls, OutgoingHttp
from penstock.promise import outcome, start
from penstock.publishing.http_delivery import HttpAnswer, HttpEndpoints, HttpMessage
from support.certificates import write_certificate
from support.harness import run

MESSAGE = HttpMessage({"x-amz-sns-message-type": "Notification", "Content-Type": "text/plain"}, b"hello")
LOCAL = OpenUrls([ALL_HOSTS])
TINY_S = 0.2


def endpoints(timeout_s: float = 5.0, urls: OpenUrls = LOCAL, **more: Any) -> HttpEndpoints:
    return HttpEndpoints(OutgoingHttp(timeout_s, **more), urls)


async def post(to: HttpEndpoints, url: str, account: str = "0") -> HttpAnswer:
    return await outcome(start(to.post(account, url, MESSAGE)))


def answer(status: int, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@pytest.mark.parametrize(
    ("status", "is_complete", "text"),
    [
        (200, True, "OK"),
        (202, True, "Accepted"),
        (302, True, "Found"),
        (400, True, "Bad Request"),
        (404, True, "Not Found"),
        (429, False, "Too Many Requests"),
        (500, False, "Internal Server Error"),
        (503, False, "Service Unavailable"),
        (299, True, "status 299"),
        (599, False, "status 599"),
    ],
)
def test_what_an_answer_means(status: int, is_complete: bool, text: str) -> None:
    async def scene() -> None:
        async with Answering(answer(status, "Location: /other")) as server:
            got = await post(endpoints(), f"{server.url}/a?b=c#d")
            assert (got.status, got.text, got.is_complete) == (status, text, is_complete)
            assert len(server.requests) == 1, "a redirect is not followed"
            head, _, body = server.requests[0].partition(b"\r\n\r\n")
            assert head.startswith(b"POST /a?b=c HTTP/1.1\r\n") and body == b"hello"
            assert b"x-amz-sns-message-type: Notification" in head

    run(scene)


def test_credentials_of_the_url_become_a_header() -> None:
    async def scene() -> None:
        async with Answering() as server:
            await post(endpoints(), f"http://us%3Aer:pa%20ss@127.0.0.1:{server.port}/")
            assert b"\r\nAuthorization: Basic dXM6ZXI6cGEgc3M=\r\n" in server.requests[0]
            assert b"Host: 127.0.0.1:" in server.requests[0]

    run(scene)


def test_an_answer_of_gigabytes_is_not_read() -> None:
    async def scene() -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n"
        async with Answering(head, drips=True) as server:
            begun = time.monotonic()
            assert (await post(endpoints(), server.url)).status == 200
            assert time.monotonic() - begun < 2

    run(scene)


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"", "no answer|does not speak HTTP"),
        (b"HTTP/1.1 200 ", "no answer within|head of the answer"),
        (b"HTTP/1.1 200 OK\r\nA: ", "no answer within|head of the answer"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 3, "no answer within|speak HTTP"),
    ],
)
def test_an_endpoint_that_answers_slowly_or_never_is_left(head: bytes, reason: str) -> None:
    async def scene() -> None:
        for drips in (False, True):
            async with Answering(head, drips=drips) as server:
                got = await post(endpoints(TINY_S), server.url)
                assert (got.status, got.is_complete) == (0, False)
                assert any(part in got.text for part in reason.split("|")), got.text

    run(scene)


def test_an_endpoint_that_ends_the_connection_has_not_answered() -> None:
    async def scene() -> None:
        for given in (b"", b"HTTP/1.1 20"):
            async with Answering(given, closes=True) as server:
                got = await post(endpoints(), server.url)
                assert not got.is_complete and got.text
        assert not (await post(endpoints(), "http://127.0.0.1:1/")).is_complete

    run(scene)


def test_a_certificate_that_nobody_knows_is_a_failure(tmp_path: Path) -> None:
    async def scene() -> None:
        files = write_certificate(tmp_path)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(files.certificate, files.key)
        async with Answering(tls=tls) as server:
            got = await post(endpoints(), server.url)
            assert not got.is_complete
            assert server.requests == []

    run(scene)


def test_an_endpoint_that_must_not_be_called_gets_nothing() -> None:
    async def scene() -> None:
        async with Answering() as server:
            for url in (
                server.url,
                f"http://localhost:{server.port}/",
                f"http://[::1]:{server.port}/",
                "http://a b/",
            ):
                got = await post(endpoints(urls=OpenUrls()), url)
                assert not got.is_complete and "must not be called" in got.text
            assert server.requests == []
            to = endpoints(urls=OpenUrls())
            to.change(OpenUrls(["127.0.0.0/8"]))
            assert (await post(to, server.url)).status == 200

    run(scene)


def test_which_urls_may_be_subscribed() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        found = {"public.example.com": ["1.1.1.1"], "private.example.com": ["10.0.0.1"]}.get(host)
        if found is None:
            raise OSError("no such name")
        return found

    async def scene() -> None:
        rows = {
            "https://public.example.com/": True,
            "https://u:p@public.example.com/#x": True,
            "https://private.example.com/": False,
            "https://unknown.example.com/": True,
            "https://127.0.0.1/": False,
            "http://169.254.169.254/latest": False,
            "no url": False,
        }
        to = endpoints(urls=OpenUrls(), resolve=resolve)
        found = {url: await outcome(start(to.may_subscribe("0", url))) for url in rows}
        assert found == rows

    run(scene)


def test_an_account_that_waits_does_not_delay_others() -> None:
    async def scene() -> None:
        async with Answering(b"") as silent, Answering() as server:
            to = endpoints(5.0, at_a_time=3, of_one_account=2)
            slow = [start(to.post("1", silent.url, MESSAGE)) for _ in range(10)]
            await silent.called.wait()
            assert (await post(to, server.url, "2")).status == 200
            assert not any(each.done for each in slow)
            to._http.close()
            for each in slow:
                assert "stops" in (await outcome(each)).text

    run(scene)
