"""A server whose clock tests advance: ``penstock serve --memory --test-clock``."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from e2e.admin.requests import bodies, make, make_with_dead_letters, refusal, send
from penstock.client.api import ApiSession, Json
from penstock.client.credentials import SigningKeys
from support.identities import HOME
from support.process import ServerProcess
from support.secured import Secured
from support.texts import says

REGION = "us-east-1"
DAY = 86_400
ACTIONS = [
    ("GET", "/test/clock", None),
    ("POST", "/test/clock/advance", {"seconds": 1}),
    ("PATCH", "/test/clock", {"frozen": False}),
    ("POST", "/test/clock/reset", None),
    ("POST", "/test/clear", {}),
]


@pytest.fixture(scope="module", params=[1, 4], ids=["one shard", "four shards"])
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    with ServerProcess("--memory", "--test-clock", "--shards", str(request.param)) as running:
        yield running
        assert running.stop() == 0
        assert not [line for line in running.log if '"error"' in line.lower()], "the server logged an error"


@pytest.fixture
def api(server: ServerProcess) -> Iterator[ApiSession]:
    session = ApiSession(server.url, REGION)
    yield session
    session.admin("POST", "/test/clear")
    session.admin("POST", "/test/clock/reset")
    session.close()


def advance(api: ApiSession, **by: float) -> Json:
    return api.admin("POST", "/test/clock/advance", body=by)


def receive(api: ApiSession, url: str, **members: Any) -> list[Json]:
    answer = api.sqs("ReceiveMessage", QueueUrl=url, AttributeNames=["All"], **members)
    messages: list[Json] = answer.get("Messages", [])
    return messages


def received(api: ApiSession, url: str, **members: Any) -> list[str]:
    return [each["Body"] for each in receive(api, url, **members)]


class Poll:
    """A long poll in a thread of its own, which waits on the server once this is made."""

    def __init__(self, server: ServerProcess, api: ApiSession, queue: str, seconds: int) -> None:
        self.bodies: list[str] | None = None
        self._url = api.sqs("GetQueueUrl", QueueName=queue)["QueueUrl"]
        self._seconds = seconds
        self._endpoint = server.url
        waiting = api.admin("GET", f"/queues/{queue}")["waiting_receives"]
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        end = time.monotonic() + 30
        while api.admin("GET", f"/queues/{queue}")["waiting_receives"] == waiting:
            assert time.monotonic() < end, "the receive does not wait"

    def _run(self) -> None:
        session = ApiSession(self._endpoint, REGION)
        self.bodies = received(session, self._url, WaitTimeSeconds=self._seconds)
        session.close()

    def ended(self) -> list[str]:
        self._thread.join(30)
        assert self.bodies is not None, "the receive still waits"
        return self.bodies


def test_a_message_becomes_visible_again(api: ApiSession) -> None:
    url = make(api, "visible", VisibilityTimeout="900")
    send(api, url, "one")
    assert received(api, url) == ["one"]
    advance(api, minutes=14)
    assert received(api, url) == []
    advance(api, minutes=1)
    assert received(api, url) == ["one"]


def test_a_delay_ends(api: ApiSession) -> None:
    url = make(api, "delayed")
    send(api, url, "one", DelaySeconds=600)
    assert received(api, url) == []
    advance(api, minutes=10)
    assert received(api, url) == ["one"]


def test_a_message_expires(api: ApiSession) -> None:
    url = make(api, "expiring", MessageRetentionPeriod=str(2 * DAY))
    send(api, url, "one")
    advance(api, days=1)
    assert bodies(api, "expiring") == ["one"]
    advance(api, days=1, seconds=90)
    assert bodies(api, "expiring") == []


def test_a_send_is_no_longer_a_duplicate(api: ApiSession) -> None:
    url = make(api, "dedup.fifo", FifoQueue="true")
    members = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}
    first = send(api, url, "one", **members)
    assert send(api, url, "one", **members) == first
    advance(api, minutes=5)
    assert send(api, url, "one", **members) != first


def test_a_move_task_with_a_rate_goes_on(api: ApiSession) -> None:
    url = make_with_dead_letters(api, "moved", receives=1)
    dead = url.replace("moved", "moved-dead")
    for n in range(5):
        send(api, url, str(n))
    # Of the last two receives, the second sees the dead letters of other shards arrive.
    for _ in range(12):
        received(api, url, VisibilityTimeout=0, MaxNumberOfMessages=10)
        advance(api, seconds=10)
        if len(bodies(api, "moved-dead")) == 5:
            break
    arns = api.sqs("GetQueueAttributes", QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]
    api.admin("PATCH", "/test/clock", body={"frozen": True})
    api.sqs("StartMessageMoveTask", SourceArn=arns["QueueArn"], MaxNumberOfMessagesPerSecond=1)
    advance(api, seconds=2.5)
    assert 1 <= len(bodies(api, "moved-dead")) < 5
    advance(api, seconds=20)
    assert bodies(api, "moved-dead") == [] and sorted(bodies(api, "moved")) == list("01234")


def test_a_waiting_receive_gets_what_becomes_visible(server: ServerProcess, api: ApiSession) -> None:
    url = make(api, "polled")
    send(api, url, "one", DelaySeconds=15)
    poll = Poll(server, api, "polled", 20)
    advance(api, seconds=14)
    assert poll.bodies is None
    advance(api, seconds=1)
    assert poll.ended() == ["one"]


def test_the_time_of_a_waiting_receive_ends(server: ServerProcess, api: ApiSession) -> None:
    url = make(api, "polled-in-vain")
    send(api, url, "one", DelaySeconds=21)
    poll = Poll(server, api, "polled-in-vain", 20)
    advance(api, hours=1)
    assert poll.ended() == []
    assert received(api, url) == ["one"]


def test_timestamps_follow_the_clock_and_a_reset_shows_the_real_time(api: ApiSession) -> None:
    url = make(api, "stamped")
    shown = advance(api, days=3)
    assert 3 * DAY - 5 < shown["ahead_s"] < 3 * DAY + 60
    send(api, url, "later")
    sent_s = int(receive(api, url)[0]["Attributes"]["SentTimestamp"]) / 1000
    assert sent_s > time.time() + 2 * DAY
    assert abs(api.admin("POST", "/test/clock/reset")["ahead_s"]) < 30
    send(api, url, "now")
    again = {each["Body"]: each for each in receive(api, url, MaxNumberOfMessages=10)}
    assert abs(int(again["now"]["Attributes"]["SentTimestamp"]) / 1000 - time.time()) < 60


def test_time_stands_still_when_it_is_frozen(api: ApiSession) -> None:
    url = make(api, "frozen")
    frozen = api.admin("PATCH", "/test/clock", body={"frozen": True})
    assert frozen["frozen"]
    send(api, url, "one", DelaySeconds=1)
    time.sleep(1.2)  # of the real time, which is what is not to count
    assert received(api, url) == []
    assert api.admin("GET", "/test/clock")["now"] == frozen["now"]
    advance(api, seconds=1)
    assert received(api, url) == ["one"]
    assert not api.admin("PATCH", "/test/clock", body={"frozen": False})["frozen"]


def test_everything_is_deleted_or_the_queues_of_an_account(server: ServerProcess, api: ApiSession) -> None:
    others = [ApiSession(server.url, REGION, SigningKeys(account, "x")) for account in ("1" * 12, "2" * 12)]
    for session in others:
        make(session, "first")
        make(session, "second")
    assert api.admin("POST", "/test/clear", body={"account": "1" * 12}) == {"deleted_queues": 2}
    assert [len(each.admin("GET", "/queues")["queues"]) for each in others] == [0, 2]
    make(others[0], "first")
    assert api.admin("POST", "/test/clear") == {"deleted_queues": 3}
    assert [len(each.admin("GET", "/queues")["queues"]) for each in others] == [0, 0]
    assert refusal(api.admin, "POST", "/test/clear", body={"account": "12"}) == (400, "InvalidParameter")
    for session in others:
        session.close()


@pytest.mark.parametrize(
    "by", [{"days": 32}, {"seconds": -1}, {"days": 1e300}, {"weeks": 1}, {"seconds": "5"}]
)
def test_an_advance_that_makes_no_sense_is_refused(api: ApiSession, by: Json) -> None:
    status, _ = refusal(api.admin, "POST", "/test/clock/advance", body=by)
    assert status == 400


@pytest.mark.parametrize("seconds", ["1e300", "1e999", "-1"])
def test_a_refused_advance_says_what_is_expected(server: ServerProcess, seconds: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    connection.request("POST", "/admin/v1/test/clock/advance", f'{{"seconds": {seconds}}}')
    response = connection.getresponse()
    message = json.loads(response.read())["message"]
    connection.close()
    assert response.status == 400
    says(message, "not advanced", "for seconds", "0 seconds to 31 days")


def test_declared_queues_are_there_again_when_everything_was_deleted(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("memory = true\ntest_clock = true\n[queues.declared]\nVisibilityTimeout = 7\n")
    with ServerProcess("--config", str(file)) as running:
        api = ApiSession(running.url, REGION)
        url = make(api, "made")
        send(api, url.replace("made", "declared"), "one")
        waiting = Poll(running, api, "made", 20)
        assert api.admin("POST", "/test/clear") == {"deleted_queues": 2}
        assert waiting.ended() == []
        (queue,) = api.admin("GET", "/queues")["queues"]
        assert (queue["name"], queue["visible"]) == ("declared", 0)
        assert refusal(received, api, url)[1].endswith("NonExistentQueue")
        advance(api, hours=1)
        api.close()


def test_deleted_names_are_free_at_once_even_with_the_pauses_of_sqs() -> None:
    with ServerProcess("--memory", "--test-clock", "--no-relaxed-waits") as running:
        api = ApiSession(running.url, REGION)
        make(api, "again")
        api.admin("POST", "/test/clear", body={"account": "0" * 12})
        url = make(api, "again")
        api.sqs("DeleteQueue", QueueUrl=url)
        assert refusal(make, api, "again")[1].endswith("QueueDeletedRecently")
        advance(api, seconds=60)
        make(api, "again")
        api.close()


# -- who may -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("--memory",), ("--processes", "2", "--memory")])
def test_a_server_without_a_test_clock_refuses(arguments: tuple[str, ...]) -> None:
    with ServerProcess(*arguments) as running:
        api = ApiSession(running.url, REGION)
        make(api, "kept")
        for method, path, body in ACTIONS:
            assert refusal(api.admin, method, path, body=body) == (409, "NotPossible"), path
        assert [each["name"] for each in api.admin("GET", "/queues")["queues"]] == ["kept"]
        api.close()


def answer(running: ServerProcess, headers: dict[str, str]) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    connection.request("POST", "/admin/v1/test/clock/advance", b'{"days": 1}', headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def test_an_open_server_obeys_programs_on_its_own_machine_only() -> None:
    with ServerProcess("--memory", "--test-clock", "--trusted-proxies", "127.0.0.1") as running:
        for address in ("192.0.2.7", "2001:db8::7", "172.17.0.1"):
            status, text = answer(running, {"X-Forwarded-For": address})
            assert status == 403 and "own machine" in text
        for address in ("127.0.0.9", "::1"):
            assert answer(running, {"X-Forwarded-For": address})[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
        {"User-Agent": "Mozilla/5.0", "Host": "evil.example"},
    ],
)
def test_web_pages_cannot_turn_the_clock(headers: dict[str, str]) -> None:
    with ServerProcess("--memory", "--test-clock") as running:
        assert answer(running, headers)[0] == 403
        api = ApiSession(running.url, REGION)
        assert api.admin("GET", "/test/clock")["ahead_s"] < 60
        api.close()


def test_with_credentials_a_permission_is_necessary(tmp_path: Path) -> None:
    world = Secured(tmp_path)
    policy = {
        "Version": "2012-10-17",
        "Statement": {"Effect": "Allow", "Action": "penstock:AdvanceTestClock", "Resource": "*"},
    }
    (tmp_path / "turner.json").write_text(json.dumps(policy))
    world.add("turner", str(tmp_path / "turner.json"))
    world.add("sender", "sqs-full-access")
    world.add("outsider", "penstock-full-access", account="4" * 12)
    with world.running("--memory", "--test-clock", "--account", HOME):
        sessions = {
            name: ApiSession(world.server.url, REGION, SigningKeys(*keys))
            for name, keys in world.keys.items()
        }
        assert advance(sessions["turner"], hours=1)["ahead_s"] > 3500
        for name in ("sender", "outsider"):
            for method, path, body in ACTIONS:
                assert refusal(sessions[name].admin, method, path, body=body) == (403, "AccessDenied")
        unsigned = ApiSession(world.server.url, REGION)
        assert refusal(unsigned.admin, "POST", "/test/clock/advance", body={}) == (403, "AccessDenied")
        # Signatures are of the real time, whatever the clock of the broker shows.
        assert sessions["sender"].sqs("ListQueues") == {}
        for session in (*sessions.values(), unsigned):
            session.close()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "memory is not"),
        (("--data", "somewhere"), "memory is not"),
        (("--store", "postgresql://nowhere/penstock"), "remove store"),
        (("--memory", "--store", "postgresql://nowhere/penstock"), "memory store"),
        (("--memory", "--processes", "2"), "cannot processes"),
    ],
)
def test_it_is_refused_at_the_start_where_messages_are_stored(
    arguments: tuple[str, ...], why: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--test-clock", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 2
    says(done.stderr, *why.split())
    assert list(tmp_path.iterdir()) == []
