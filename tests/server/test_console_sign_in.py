"""Sign-in to the web console: wrong keys are limited for each client before they are verified."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from penstock.auth.identity import Credentials
from penstock.names import Space
from penstock.server.console import Console
from penstock.server.console_sign_outs import EndedSessions
from penstock.server.http.request import Peer, Request
from penstock.server.origin import Origins
from penstock.server.throttle import Throttle
from penstock.wire.service import Response

RIGHT, WRONG = "AKIARIGHT", "AKIAWRONG"
AT_ONCE, EVERY_S = 10, 10  # failed sign-ins
ISSUED = {"AccessKeyId": "ASIA", "SecretAccessKey": "secret", "SessionToken": "token"}


class TriedConsole:
    """A console whose server knows one key, and counts how often it is asked."""

    def __init__(self, throttle: Throttle | None = None) -> None:
        self.now_s = 1000.0
        self.asked = 0
        self.refusal = (403, "InvalidClientTokenId")
        self.waiting: list[Request] | None = None  # a list: requests are not answered yet
        self._console = Console(
            self._serve,
            Origins(None, ()),
            Space("000000000000", "us-east-1"),
            cast(Credentials, object()),
            lambda: None,
            cast(EndedSessions, object()),
            (),
            Throttle if throttle is None else lambda *_: throttle,
            lambda: self.now_s,
        )

    def _serve(self, request: Request) -> None:
        self.asked += 1
        if self.waiting is None:
            self.answer(request)
        else:
            self.waiting.append(request)

    def answer(self, request: Request) -> None:
        if RIGHT.encode() in request.headers[b"authorization"]:
            page: Any = {"GetSessionTokenResponse": {"GetSessionTokenResult": {"Credentials": ISSUED}}}
            request.respond(Response(200, [], json.dumps(page).encode()))
        else:
            status, code = self.refusal
            request.respond(Response(status, [], json.dumps({"Error": {"Code": code}}).encode()))

    async def sign_in(self, key: str, address: str = "192.0.2.1") -> Response:
        body = json.dumps({"access_key": key, "secret_key": "guess"}).encode()
        headers = {b"host": b"127.0.0.1:9324", b"x-penstock-console": b"1"}
        peer = Peer(address, "http", "127.0.0.1:9324")
        return await self._console.page(
            Request(peer, "id", b"POST", b"/console/session", headers, None, body)
        )

    def statuses(self, *keys: str, address: str = "192.0.2.1") -> list[int]:
        async def each() -> list[int]:
            return [(await self.sign_in(key, address)).status for key in keys]

        return asyncio.run(each())


def test_wrong_keys_are_refused_unverified_after_some_until_time_has_passed() -> None:
    console = TriedConsole()
    assert console.statuses(*[WRONG] * (AT_ONCE + 3)) == [401] * AT_ONCE + [429] * 3
    assert console.asked == AT_ONCE
    assert console.statuses(RIGHT) == [429], "whether a key is right is not to be learned now"
    console.now_s += EVERY_S + 0.01
    assert console.statuses(WRONG, RIGHT) == [401, 429]
    console.now_s += EVERY_S + 0.01
    assert console.statuses(RIGHT) == [200]


def test_the_refusal_says_how_long_to_wait() -> None:
    console = TriedConsole()
    console.statuses(*[WRONG] * AT_ONCE)
    console.now_s += 7.5
    refused = asyncio.run(console.sign_in(RIGHT))
    assert (b"Retry-After", b"3") in refused.headers
    assert json.loads(refused.body)["message"].endswith("Try again in 3 seconds.")
    console.now_s += 2.1
    assert json.loads(asyncio.run(console.sign_in(RIGHT)).body)["message"].endswith("in 1 second.")


def test_right_keys_do_not_count() -> None:
    console = TriedConsole()
    assert console.statuses(*[RIGHT] * 50) == [200] * 50
    assert console.statuses(*[WRONG] * (AT_ONCE + 1)) == [401] * AT_ONCE + [429]


@pytest.mark.parametrize("refusal", [(503, "ServiceUnavailable"), (403, "RequestThrottled")])
def test_what_says_nothing_about_the_key_does_not_count(refusal: tuple[int, str]) -> None:
    console = TriedConsole()
    console.refusal = refusal
    assert console.statuses(*[WRONG] * 50) == [503] * 50


def test_clients_are_counted_apart_and_a_network_of_ipv6_is_one() -> None:
    console = TriedConsole()
    for number in range(AT_ONCE):
        assert console.statuses(WRONG, address=f"2001:db8::{number:x}") == [401]
    assert console.statuses(RIGHT, address="2001:db8::ffff") == [429]
    assert console.statuses(RIGHT, address="2001:db8:0:1::1") == [200]
    assert console.statuses(RIGHT, address="192.0.2.7") == [200]


def test_attempts_at_the_same_time_gain_nothing() -> None:
    async def scenario() -> None:
        console = TriedConsole()
        console.waiting = []
        attempts = [asyncio.create_task(console.sign_in(WRONG)) for _ in range(100)]
        await asyncio.sleep(0)
        assert len(console.waiting) == AT_ONCE
        for request in console.waiting:
            console.answer(request)
        statuses = [(await attempt).status for attempt in attempts]
        assert sorted(statuses) == [401] * AT_ONCE + [429] * 90

    asyncio.run(scenario())


def test_memory_of_clients_is_bounded() -> None:
    throttle = Throttle(1 / EVERY_S, AT_ONCE, callers_max=20)
    console = TriedConsole(throttle)
    statuses = [console.statuses(WRONG, address=f"192.0.2.{number}")[0] for number in range(100)]
    assert statuses.count(401) == 20 + AT_ONCE  # the others share one allowance
    assert len(throttle) == 21
