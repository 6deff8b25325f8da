"""The locks as the settings want them, joined to a server: what is set is set, and stays so while it runs."""

from __future__ import annotations

import errno
import json
import logging
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as Keys

from identities import ROOT_KEY, Town
from penstock.auth.encryption.keyring import Keyring
from penstock.auth.identity.admin import find_user, remove
from penstock.broker.resealing import Resealing
from penstock.clock import ManualClock
from penstock.errors import StoreRefused
from penstock.server.audit.file import AuditFile
from penstock.server.audit.rate_cap import EVENTS_MAX, WINDOW_MS
from penstock.server.compose import Parts
from penstock.server.http.request import Peer, Request
from penstock.server.origin import Origins
from penstock.server.periodic import Lookout
from penstock.server.security import Security
from penstock.server.settings.config import Config, ConfigError
from penstock.server.settings.load import load_config
from penstock.store.encrypted import EncryptedStore
from penstock.store.port import Resealed
from penstock.wire.faults import wrong_signature
from penstock.wire.service import Fault

from .certificates import ServerFiles
from .composed import loaded, serving
from .harness import get, post, run, until

LOOPBACK = (ip_network("127.0.0.0/8"),)
OUTSIDE = "queues.example.com"
NOBODY: Any = SimpleNamespace(tls=None)  # a listener without listening


@pytest.fixture
def town(tmp_path: Path) -> Town:
    town = Town(tmp_path)
    town.user("ann", "sqs-full-access")
    return town


@pytest.fixture
def secured(town: Town, tmp_path: Path) -> Config:
    key = tmp_path / "root.key"
    key.write_text(bytes(range(32)).hex())  # the town's
    key.chmod(0o600)
    return Config(credentials=town.path, root_key_file=key, data=tmp_path / "data", port=0)


def locked(config: Config, clock: ManualClock | None = None) -> Security:
    return Security(config, clock or ManualClock(), Origins(config.public_url, config.trusted_proxies), [])


def signed(town: Town, *, host: str = "127.0.0.1:9324", region: str = "us-east-1") -> dict[str, str]:
    """The headers of a ListQueues request of ann's, as an SDK sends them."""
    request = AWSRequest("POST", f"http://{host}/", {"X-Amz-Target": "AmazonSQS.ListQueues"}, b"{}")
    key = town.keys["ann"]
    request.headers["Host"] = host
    SigV4Auth(Keys(key, town.secrets[key]), "sqs", region).add_auth(request)
    return dict(request.headers)


def arrived(headers: dict[str, str], **forwarded: str) -> Request:
    request = Request(Peer("127.0.0.1", "http", "127.0.0.1:9324"))
    request.method, request.target, request.body = b"POST", b"/", b"{}"
    all_headers = headers | {f"X-Forwarded-{name}": value for name, value in forwarded.items()}
    request.raw_headers = [(name.encode(), value.encode()) for name, value in all_headers.items()]
    request.headers = {name.lower(): value for name, value in request.raw_headers}
    return request


def trail(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def names(path: Path) -> list[str]:
    return [each["eventName"] for each in trail(path)]


# -- who may come in -----------------------------------------------------------------------------------------


def test_behind_a_proxy_the_host_that_was_signed_counts(town: Town, secured: Config) -> None:
    headers = signed(town, host=OUTSIDE) | {"Host": "inner:1"}
    caller = locked(replace(secured, trusted_proxies=LOOPBACK)).callers.of(arrived(headers, Host=OUTSIDE))
    assert caller.principal == town.principal("ann")
    with pytest.raises(Fault, match="signature"):
        locked(secured).callers.of(arrived(headers, Host=OUTSIDE))


def test_only_the_regions_that_are_served_may_be_signed_for(town: Town, secured: Config) -> None:
    here, elsewhere = (arrived(signed(town, region=region)) for region in ("eu-west-1", "us-east-1"))
    only = locked(replace(secured, regions=("eu-west-1",))).callers
    assert only.of(here).space.region == "eu-west-1"
    with pytest.raises(Fault, match="scoped to a valid region"):
        only.of(elsewhere)
    assert locked(secured).callers.of(elsewhere).space.region == "us-east-1"


def test_signed_requests_do_not_cross_the_network_in_the_clear(secured: Config) -> None:
    with pytest.raises(ConfigError, match="TLS is not"):
        locked(replace(secured, host="0.0.0.0"))


def test_a_connection_is_not_negotiated_twice(server_files: ServerFiles) -> None:
    locks = locked(Config(memory=True, tls_certificate=server_files.certificate, tls_key=server_files.key))
    assert locks.tls is not None
    for _ in range(2):
        assert locks.tls.context.options & ssl.OP_NO_RENEGOTIATION
        assert locks.tls.reload()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"PENSTOCK_REGIONS": "eu-west-1"}, "regions is set but credentials is not"),
        ({"PENSTOCK_AUDIT_REQUIRED": "true"}, "there is no audit log"),
        ({"PENSTOCK_AUDIT_REQUIRED": "true", "PENSTOCK_AUDIT": "off", "PENSTOCK_CREDENTIALS": "c"}, "no audit"),
    ],
)  # fmt: skip
def test_a_lock_that_would_hold_nothing_is_refused(settings: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_config({}, settings)


def test_locks_that_hold_are_taken() -> None:
    kept = {"PENSTOCK_AUDIT_REQUIRED": "true", "PENSTOCK_AUDIT": "/var/log/penstock/audit.jsonl"}
    assert load_config({}, kept).audit_required
    known = {"PENSTOCK_REGIONS": "eu-west-1,us-east-1", "PENSTOCK_CREDENTIALS": "c"}
    assert load_config({}, known).regions == ("eu-west-1", "us-east-1")


# -- looked after once a second ------------------------------------------------------------------------------


@pytest.fixture
def audited(secured: Config, server_files: ServerFiles) -> Config:
    return replace(secured, tls_certificate=server_files.certificate, tls_key=server_files.key)


def looked_after(config: Config, prepare: Callable[[Security], object], *, asked: bool = False) -> Path:
    """A flood that was counted, a minute, and then one look; where the trail is."""
    clock = ManualClock()
    locks = locked(config, clock)
    assert locks.audit is not None and locks.witness is not None
    locks.start()
    for _ in range(EVENTS_MAX + 3):
        locks.witness.turned_away(arrived({}), wrong_signature("no"), None)
    assert locks.audit.flush()
    clock.advance(WINDOW_MS)
    prepare(locks)
    locks.look(NOBODY, asked=asked)
    assert locks.audit.flush()
    told = names(locks.audit.path) if locks.audit.path.exists() else []
    locks.close()
    assert told[-1:] == ["RefusalsSuppressed"], "it is told with the look, not with the stop"
    return locks.audit.path


def test_what_was_counted_is_told_when_its_minute_is_over(secured: Config) -> None:
    path = looked_after(secured, lambda _: None)
    assert trail(path)[-2]["serviceEventDetails"] == {"caller": "127.0.0.1", "count": 3}


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("failing", ["tls", "encryption"])
def test_trouble_with_one_lock_does_not_leave_the_others_alone(
    audited: Config, failing: str, asked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def unforeseen(*_: object, **__: object) -> None:
        raise RuntimeError("nobody thought of this")

    def break_one(locks: Security) -> None:
        one: Any = getattr(locks, failing)
        one.reload = one.look = unforeseen

    logging.getLogger("penstock").propagate = True
    looked_after(audited, break_one, asked=asked)
    assert "failed; trying again" in caplog.text


@pytest.mark.parametrize("asked", [False, True])
def test_who_asks_gets_a_new_file_for_the_one_that_was_moved_away(secured: Config, asked: bool) -> None:
    locks = locked(secured)
    audit = locks.audit
    assert audit is not None
    locks.start()
    assert audit.flush()
    audit.path.rename(audit.path.with_name("moved"))
    locks.look(NOBODY, asked=asked)
    assert audit.flush()
    assert audit.path.exists() == asked, "without a new event there is no other reason to begin one"
    locks.close()


def test_changed_certificates_are_taken_up(audited: Config) -> None:
    locks = locked(audited)
    listener: Any = SimpleNamespace(tls=None)
    locks.look(listener, asked=True)
    assert locks.tls is not None and listener.tls is locks.tls.context


def come_true(condition: Callable[[], bool]) -> bool:
    """For what another thread does: nothing else runs here meanwhile, and no event loop."""
    patience = time.monotonic() + 20
    while not condition() and time.monotonic() < patience:
        time.sleep(0.002)
    return condition()


def test_a_withdrawn_key_counts_no_more_though_the_loop_never_turns(
    town: Town, secured: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.server.periodic.EVERY_S", 0.01)

    async def scene() -> None:  # awaits nothing
        locks = locked(secured)
        locks.start()
        asking = arrived(signed(town))
        assert locks.callers.of(asking).principal == town.principal("ann")
        town.change(lambda content: remove(content, find_user(content, "ann", None)))

        def refused() -> bool:
            try:
                locks.callers.of(asking)
            except Fault:
                return True
            return False

        assert come_true(refused)
        locks.close()

    run(scene)


def test_who_asks_has_the_users_read_at_once(
    town: Town, secured: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.server.periodic.EVERY_S", 3600)
    locks = locked(secured)
    locks.start()
    key = town.user("bob")
    credentials = locks.credentials
    assert credentials is not None
    before = credentials.directory
    locks.look(NOBODY, asked=True)
    assert come_true(lambda: credentials.directory is not before)
    assert credentials.directory.principal(key, None).name == "bob"
    locks.close()


def test_trouble_with_a_look_is_told_and_the_next_one_comes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("penstock.server.periodic.EVERY_S", 0.001)
    logging.getLogger("penstock").propagate = True
    looks: list[bool] = []

    def look(asked: bool) -> None:
        looks.append(asked)
        raise RuntimeError("nobody thought of this")

    lookout = Lookout("credentials", look)
    lookout.start()
    assert come_true(lambda: len(looks) > 1)
    lookout.close()
    assert "looking after credentials failed; trying again" in caplog.text
    assert not any(looks), "nobody asked"
    last = len(looks)
    lookout.ask()
    assert len(looks) == last, "it has ended"


def test_who_asks_has_the_keyring_read_too(secured: Config, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    logging.getLogger("penstock").propagate = True
    Keyring(secured.keyring_file, ROOT_KEY, ManualClock()).ensure_file()
    locks = locked(secured)
    for asked, times in ((False, 0), (True, 1)):
        locks.look(NOBODY, asked=asked)
        assert caplog.text.count("keyring reloaded") == times
    locks.close()


# -- joined to a server --------------------------------------------------------------------------------------


def test_where_a_request_came_from_is_what_the_trusted_proxy_says(secured: Config) -> None:
    path = secured.data / "audit" / "audit.jsonl"
    said = (b"X-Forwarded-For: 203.0.113.9", b"X-Forwarded-Proto: https")
    forged = (
        b"Authorization: AWS4-HMAC-SHA256 Credential=AKIA/20260101/us-east-1/sqs/aws4_request, Signature=00"
    )

    async def scene(proxies: tuple[Any, ...]) -> None:
        async with serving(replace(secured, trusted_proxies=proxies)) as server:
            for headers in (said, (*said, forged)):
                assert (await server.ask(post("AmazonSQS.ListQueues", b"{}", *headers))).status >= 400

    for proxies, address, secure in ((LOOPBACK, "203.0.113.9", True), ((), "127.0.0.1", False)):
        run(lambda proxies=proxies: scene(proxies))  # type: ignore[misc]
        told = [each for each in trail(path) if each["eventName"] == "ListQueues"]
        assert [each["userIdentity"]["type"] for each in told] == ["AWSAccount", "Unknown"]
        assert [each["sourceIPAddress"] for each in told] == [address] * 2
        assert ["tlsDetails" in each for each in told] == [secure] * 2
        path.unlink()


@pytest.mark.parametrize("required", [False, True])
def test_with_a_required_trail_nothing_is_served_while_it_cannot_be_written(
    town: Town, secured: Config, required: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = threading.Event()
    append = AuditFile.append

    def refuse(self: AuditFile, lines: bytes) -> None:
        if full.is_set():
            raise OSError(errno.ENOSPC, "full")
        append(self, lines)

    monkeypatch.setattr(AuditFile, "append", refuse)

    async def scene() -> None:
        async with serving(replace(secured, audit_required=required)) as server:
            audit = server.parts.security.audit
            assert audit is not None
            assert (await server.ask(get("/health/ready"))).status == 200
            full.set()
            assert (await server.ask(post("AmazonSQS.ListQueues"))).status == 403  # and leaves a line
            await until(lambda: audit._writer.failing)
            page = await server.ask(get("/health/ready"))
            assert page.json().get("reasons") == (["the audit log cannot be written"] if required else None)
            assert page.status == (503 if required else 200)
            assert await server.list_queues(signed(town)) == (503 if required else 200)
            full.clear()
            await until(lambda: not audit._writer.failing)
            assert await server.list_queues(signed(town)) == 200

    run(scene)


def test_whoever_signs_may_call_from_any_page(town: Town, secured: Config) -> None:
    async def scene() -> None:
        async with serving(secured) as server:
            page = {"Origin": "https://page.test", "User-Agent": "Mozilla/5.0"}
            assert await server.list_queues(signed(town) | page) == 200

    run(scene)


def test_a_caller_has_one_rate_for_all_its_requests(town: Town, secured: Config) -> None:
    async def scene() -> None:
        async with serving(replace(secured, requests_per_second=1, requests_burst=2)) as server:
            answers = [await server.list_queues(signed(town)) for _ in range(10)]
            assert answers[:2] == [200, 200]
            assert 403 in answers, "unless each of them took a second"

    run(scene)


def test_encrypting_anew_ends_before_the_store_is_closed(
    secured: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EncryptedStore, "resealed", lambda *_: Resealed(1, 1, [], 0))  # there is always more
    seen: list[Resealing] = []
    wake = Resealing.wake
    monkeypatch.setattr(Resealing, "wake", lambda self: (seen.append(self), wake(self)))

    async def scene() -> None:
        async with serving(secured):
            (resealing,) = seen
            assert resealing._running
        assert resealing._stopped

    run(scene)


# -- a start that fails --------------------------------------------------------------------------------------


def test_a_start_that_fails_leaves_no_word_in_the_trail_of_a_running_server(secured: Config) -> None:
    path = secured.data / "audit" / "audit.jsonl"

    async def scene() -> None:
        async with serving(secured) as server:
            audit = server.parts.security.audit
            assert audit is not None and audit.flush()
            with pytest.raises(StoreRefused):
                await loaded(secured)
            Parts(secured, lambda _: None).close()  # as if its port were in use
            assert names(path) == ["StartLogging"]
        assert names(path) == ["StartLogging", "StopLogging"]

    run(scene)
