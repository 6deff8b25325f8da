"""Which requests are repeated, how often and after how long."""

from __future__ import annotations

import pytest

from client.driver import Driver
from client.fake_server import CLOSE, FakeServer, reply
from penstock.client import ApiError, Forbidden, Retries, Throttled, Unavailable, retries
from penstock.client.actions import Actions
from penstock.client.http.asynchronous import AsyncNetwork
from penstock.client.http.blocking import BlockingNetwork

Q = "http://q/1/q"
SENT = reply(body=b'{"MessageId": "1"}')
CAREFUL = Retries(repeats_unknown=False)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client slept, which it does not; chance always gives one half."""
    slept: list[float] = []

    async def sleep(network: object, seconds: float) -> None:
        slept.append(seconds)

    for network in (AsyncNetwork, BlockingNetwork):
        monkeypatch.setattr(network, "sleep", sleep)
    monkeypatch.setattr(retries, "random", lambda: 0.5)
    return slept


def error(code: str) -> bytes:
    return b'{"__type": "com.amazonaws.sqs#%b", "message": "text"}' % code.encode()


async def send(client: Actions) -> None:
    await client.send_message(Q, "x")


async def send_once_only(client: Actions) -> None:
    await client.send_message(Q, "x", message_group_id="g", message_deduplication_id="1")


async def send_batch_once_only(client: Actions) -> None:
    await client.send_message_batch(Q, [])


async def delete(client: Actions) -> None:
    await client.delete_message(Q, "handle")


async def start_task(client: Actions) -> None:
    await client.start_message_move_task("arn")


async def purge(client: Actions) -> None:
    await client.purge_queue(Q)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_server_errors_are_repeated_as_the_aws_sdks_do(
    drive: Driver, waits: list[float], status: int
) -> None:
    with FakeServer(reply(status), reply(status), SENT) as fake:
        drive(send, fake.url)
        assert fake.actions == ["SendMessage"] * 3 and waits == [0.5, 1.0]


@pytest.mark.parametrize("steps", [send, start_task, purge])
@pytest.mark.parametrize("answer", [reply(500), reply(503), CLOSE], ids=["500", "503", "lost"])
def test_an_unknown_outcome_is_not_repeated_by_the_careful(
    drive: Driver, waits: list[float], steps: object, answer: bytes
) -> None:
    with FakeServer(answer, SENT) as fake:
        with pytest.raises((ApiError, Unavailable)):
            drive(steps, fake.url, retries=CAREFUL)  # type: ignore[arg-type]
        assert len(fake.requests) == 1 and waits == []


@pytest.mark.parametrize("steps", [delete, send_once_only, send_batch_once_only])
@pytest.mark.parametrize("answer", [reply(500), CLOSE], ids=["500", "lost"])
def test_what_changes_nothing_the_second_time_is_repeated(
    drive: Driver, waits: list[float], steps: object, answer: bytes
) -> None:
    with FakeServer(answer, SENT) as fake:
        drive(steps, fake.url, retries=CAREFUL)  # type: ignore[arg-type]
        assert len(fake.requests) == 2 and len(waits) == 1


def test_a_request_that_was_not_done_is_repeated_when_the_server_says(
    drive: Driver, waits: list[float]
) -> None:
    busy = reply(503, Retry_After="3")
    with FakeServer(busy, reply(503, Retry_After="3600"), SENT) as fake:
        drive(send, fake.url, retries=CAREFUL)
        assert waits == [3.0, CAREFUL.backoff_s_max]


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "RequestThrottled"), (400, "ThrottlingException"), (429, "Anything"), (400, "KmsThrottled")],
)
def test_throttled_requests_are_repeated(drive: Driver, waits: list[float], status: int, code: str) -> None:
    with FakeServer(reply(status, error(code)), SENT) as fake:
        drive(send, fake.url, retries=CAREFUL)
        assert len(fake.requests) == 2
    with FakeServer(reply(status, error(code))) as fake:
        with pytest.raises(Throttled, match=code):
            drive(send, fake.url)
        assert len(fake.requests) == 3


@pytest.mark.parametrize("status", [400, 403, 404, 413, 501])
def test_refused_requests_are_not_repeated(drive: Driver, waits: list[float], status: int) -> None:
    with FakeServer(reply(status, error("Whatever"))) as fake:
        with pytest.raises(ApiError) as raised:
            drive(delete, fake.url)
        assert isinstance(raised.value, Forbidden) == (status == 403)
        assert len(fake.requests) == 1


def test_a_server_that_cannot_be_reached_is_tried_again(drive: Driver, waits: list[float]) -> None:
    with pytest.raises(Unavailable, match="Connection refused"):
        drive(send, "http://127.0.0.1:1", retries=CAREFUL)
    assert waits == [0.5, 1.0]
    waits.clear()
    with pytest.raises(Unavailable, match="Connection refused"):
        drive(send, "http://127.0.0.1:1", retries=Retries(repeats_connecting=False))
    assert waits == []


def test_the_number_of_attempts(drive: Driver, waits: list[float]) -> None:
    with FakeServer(reply(500)) as fake:
        with pytest.raises(ApiError):
            drive(send, fake.url, retries=Retries(attempts_max=8))
        assert len(fake.requests) == 8 and waits == [0.5, 1, 2, 4, 8, 10, 10]


def test_retries_have_a_quota_that_successes_refill(drive: Driver, waits: list[float]) -> None:
    async def steps(client: Actions) -> list[int]:
        counts = []
        for _ in range(60):
            before = len(fake.requests)
            with pytest.raises(ApiError):
                await client.delete_message(Q, "handle")
            counts.append(len(fake.requests) - before)
        fake._answers = [reply()]
        for _ in range(5):
            await client.delete_message(Q, "handle")
        fake._answers = [reply(500), reply()]
        await client.delete_message(Q, "handle")
        return counts

    with FakeServer(reply(500)) as fake:
        counts = drive(steps, fake.url)
    assert counts[:50] == [3] * 50 and counts[50:] == [1] * 10


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b"<html>Bad Gateway</html>", "HTTP 502", "<html>Bad Gateway</html>"),
        (b"", "HTTP 502", ""),
        (b"<Error><Code>Busy</Code><Message>later</Message></Error>", "Busy", "later"),
        (b'{"__type": "a#B", "Message": "m"}', "B", "m"),
    ],
)
def test_errors_of_anything_on_the_way(
    drive: Driver, waits: list[float], body: bytes, code: str, message: str
) -> None:
    with FakeServer(reply(502, body)) as fake, pytest.raises(ApiError) as raised:
        drive(send, fake.url)
    assert (raised.value.code, raised.value.message, raised.value.status) == (code, message, 502)
