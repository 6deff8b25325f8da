"""Which URLs alarms may call."""

from __future__ import annotations

import pytest

from outgoing.test_client import Answering
from penstock.errors import JobFailed
from penstock.outgoing import OutgoingHttp
from penstock.server.webhooks import Webhooks
from support.harness import run
from support.rows import every_row

ALLOWED = ("https://hooks.example.com/alarms", "http://10.0.0.5:8080", "https://a.example.com/x/")


@every_row(
    "url",
    [
        "https://hooks.example.com/alarms",
        "https://hooks.example.com/alarms/orders?key=1",
        "https://HOOKS.example.com:443/alarms/",
        "https://hooks.example.com./alarms",
        "http://10.0.0.5:8080",
        "http://10.0.0.5:8080/anything",
        "https://a.example.com/x/y",
        "https://a.example.com/x/",
        "https://a.example.com/x/caf%C3%A9",
        "https://a.example.com/x/..y/100%25/a.b;c=d/...e?up=/../..",
    ],
)
def test_allowed(url: str) -> None:
    assert Webhooks(OutgoingHttp(), "alarm_webhooks", ALLOWED).allows(url)


@every_row(
    "url",
    [
        "",
        "hooks.example.com/alarms",
        "ftp://hooks.example.com/alarms",
        "file:///etc/passwd",
        "http://hooks.example.com/alarms",
        "https://hooks.example.com",
        "https://hooks.example.com/alarmsx",
        "https://hooks.example.com/alarms/../secret",
        "https://hooks.example.com/alarms/%2e%2e/secret",
        "https://hooks.example.com/alarms/a%2f..%2f..%2fsecret",
        "https://hooks.example.com/alarms/%252e%252e/secret",
        "https://hooks.example.com/alarms/./x",
        "https://hooks.example.com/alarms/..;/secret",
        "https://hooks.example.com/alarms/..;a=b/secret",
        "https://hooks.example.com/alarms/..%3b/secret",
        "https://hooks.example.com/alarms/%25252e%25252e/secret",
        "https://hooks.example.com/alarms/%2525252e./secret",
        "https://hooks.example.com/alarms/%2e%2e%20/secret",
        "https://hooks.example.com/alarms/..%5csecret",
        "https://hooks.example.com/alarms/.../secret",
        "https://hooks.example.com/alarms/%00/x",
        "https://hooks.example.com/alarms/%c0%ae%c0%ae/secret",
        "https://hooks.example.com/alarms/a%c0%afb",
        "https://hooks.example.com/alarms/%EF%BC%8E%EF%BC%8E/secret",
        "https://hooks.example.com/alarms/x%EF%BC%8F..%EF%BC%8Fsecret",
        "https://hooks.example.com/alarms/%E2%80%A5/secret",
        "https://hooks.example.com/alarms/%EF%BC%852e%EF%BC%852e/secret",
        "https://hooks.example.com/alarms/%250d%250aHost:evil",
        "https://hooks.example.com:8443/alarms",
        "https://hooks.example.com@evil.example.com/alarms",
        "https://user:password@hooks.example.com/alarms",
        "https://hooks.example.com.evil.example.com/alarms",
        "https://evil.example.com/https://hooks.example.com/alarms",
        "https://hooks.example.com/alarms#x",
        "https://hooks.example.com\\@evil.example.com/alarms",
        "https://hooks.example.com/alarms\r\nHost: evil",
        "https://hooks.example.com/alarms x",
        "https://hööks.example.com/alarms",
        "https://hooks.example.com:99999/alarms",
        "https://[::1/alarms",
        "http://10.0.0.5/",
        "http://10.0.0.50:8080/",
    ],
)
def test_not_allowed(url: str) -> None:
    assert not Webhooks(OutgoingHttp(), "alarm_webhooks", ALLOWED).allows(url)
    assert not Webhooks(OutgoingHttp(), "alarm_webhooks", ()).allows(url)


def test_a_url_that_is_not_allowed_any_more_is_not_called() -> None:
    async def scene() -> None:
        hooks = Webhooks(OutgoingHttp(), "alarm_webhooks", ALLOWED)
        hooks.change(())
        with pytest.raises(JobFailed, match="alarm_webhooks") as refused:
            await hooks.post("000000000000", ALLOWED[0], "{}")
        assert not refused.value.can_repeat

    run(scene)


def test_which_failures_are_tried_again() -> None:
    async def scene() -> None:
        async with Answering() as server:
            hooks = Webhooks(OutgoingHttp(), "alarm_webhooks", (server.url,))
            for status in (200, 204, 299):
                server.answer = f"HTTP/1.1 {status} x\r\n\r\n".encode()
                await hooks.post("000000000000", server.url, "{}")
            can_repeat = {}
            for status in (301, 400, 404, 408, 429, 500, 503):
                server.answer = f"HTTP/1.1 {status} x\r\n\r\n".encode()
                with pytest.raises(JobFailed, match=f"answered with status {status}") as failed:
                    await hooks.post("000000000000", server.url, "{}")
                can_repeat[status] = failed.value.can_repeat
            assert [status for status, again in can_repeat.items() if again] == [408, 429, 500, 503]
        with pytest.raises(JobFailed, match="cannot be reached") as failed:
            await hooks.post("000000000000", server.url, "{}")
        assert failed.value.can_repeat

    run(scene)
