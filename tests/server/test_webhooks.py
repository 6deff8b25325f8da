"""Which URLs alarms may call."""

from __future__ import annotations

import pytest

from penstock.errors import ActionFailed
from penstock.server.webhooks import Webhooks
from server.harness import run

ALLOWED = ("https://hooks.example.com/alarms", "http://10.0.0.5:8080", "https://a.example.com/x/")


@pytest.mark.parametrize(
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
    ],
)
def test_allowed(url: str) -> None:
    assert Webhooks(ALLOWED).allows(url)


@pytest.mark.parametrize(
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
    assert not Webhooks(ALLOWED).allows(url)
    assert not Webhooks(()).allows(url)


def test_a_url_that_is_not_allowed_any_more_is_not_called() -> None:
    async def scene() -> None:
        hooks = Webhooks(ALLOWED)
        hooks.change(())
        with pytest.raises(ActionFailed, match="alarm_webhooks") as refused:
            await hooks.post(ALLOWED[0], "{}")
        assert not refused.value.can_repeat
        hooks.close()

    run(scene)


def test_a_web_hook_that_cannot_be_reached_is_tried_again() -> None:
    async def scene() -> None:
        hooks = Webhooks(("http://127.0.0.1:9",))
        with pytest.raises(ActionFailed, match="cannot be reached") as failed:
            await hooks.post("http://127.0.0.1:9/", "{}")
        assert failed.value.can_repeat
        hooks.close()

    run(scene)
