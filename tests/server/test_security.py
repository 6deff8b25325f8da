"""The security settings in a composed server: they are in force, and stay so while files change."""

from __future__ import annotations

import errno
import json
import logging
import os
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

from penstock.auth.encryption.keyring import Keyring, KeyringError
from penstock.auth.encryption.root_key import RootKeyError
from penstock.auth.identity import CredentialsError
from penstock.auth.identity.admin import find_user, remove
from penstock.broker.encryption import Reencryption
from penstock.errors import StoreRefused
from penstock.server.audit.file import AuditFile
from penstock.server.audit.rate_cap import EVENTS_MAX, WINDOW_MS
from penstock.server.compose import EarlyParts
from penstock.server.encryption import Encryption
from penstock.server.http.request import Peer, Request
from penstock.server.origin import Origins
from penstock.server.periodic import PeriodicThread
from penstock.server.security import Security, open_credentials
from penstock.server.settings.config import Config, ConfigError
from penstock.server.settings.load import load_config
from penstock.services import sqs
from penstock.store.encrypted import EncryptedStore
from penstock.store.port import OutdatedMessages
from penstock.testing.clock import ManualClock
from penstock.wire.faults import wrong_signature
from penstock.wire.service import Fault
from support.certificates import ServerFiles
from support.composed import loaded, serving
from support.harness import get, post, run, until
from support.identities import ROOT_KEY, Accounts
from support.texts import says

LOOPBACK = (ip_network("127.0.0.0/8"),)
OUTSIDE = "queues.example.com"
NO_LISTENER: Any = SimpleNamespace(tls=None)  # not listening


@pytest.fixture
def accounts(tmp_path: Path) -> Accounts:
    accounts = Accounts(tmp_path)
    accounts.user("ann", "sqs-full-access")
    return accounts


@pytest.fixture
def secured(accounts: Accounts, tmp_path: Path) -> Config:
    key = tmp_path / "root.key"
    key.write_text(bytes(range(32)).hex())  # ROOT_KEY
    key.chmod(0o600)
    return Config(credentials=accounts.path, root_key_file=key, data=tmp_path / "data", port=0)


def secured_by(config: Config, clock: ManualClock | None = None) -> Security:
    origins = Origins(config.public_url, config.trusted_proxies)
    return Security(config, clock or ManualClock(), origins, [sqs.SERVICE])


def signed(accounts: Accounts, *, host: str = "127.0.0.1:9324", region: str = "us-east-1") -> dict[str, str]:
    """The headers of a ListQueues request of ann's, as an SDK sends them."""
    request = AWSRequest("POST", f"http://{host}/", {"X-Amz-Target": "AmazonSQS.ListQueues"}, b"{}")
    key = accounts.keys["ann"]
    request.headers["Host"] = host
    SigV4Auth(Keys(key, accounts.secrets[key]), "sqs", region).add_auth(request)
    return dict(request.headers)


def arrived(headers: dict[str, str], **forwarded: str) -> Request:
    request = Request(Peer("127.0.0.1", "http", "127.0.0.1:9324"))
    request.method, request.target, request.body = b"POST", b"/", b"{}"
    all_headers = headers | {f"X-Forwarded-{name}": value for name, value in forwarded.items()}
    request.raw_headers = [(name.encode(), value.encode()) for name, value in all_headers.items()]
    request.headers = {name.lower(): value for name, value in request.raw_headers}
    return request


def audit_log(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def names(path: Path) -> list[str]:
    return [each["eventName"] for each in audit_log(path)]


# -- who may come in -----------------------------------------------------------------------------------------


def test_behind_a_proxy_the_signed_host_is_verified(accounts: Accounts, secured: Config) -> None:
    headers = signed(accounts, host=OUTSIDE) | {"Host": "inner:1"}
    caller = secured_by(replace(secured, trusted_proxies=LOOPBACK)).callers.of(arrived(headers, Host=OUTSIDE))
    assert caller.principal == accounts.principal("ann")
    with pytest.raises(Fault, match="signature"):
        secured_by(secured).callers.of(arrived(headers, Host=OUTSIDE))


def test_only_signatures_for_served_regions_are_accepted(accounts: Accounts, secured: Config) -> None:
    here, elsewhere = (arrived(signed(accounts, region=region)) for region in ("eu-west-1", "us-east-1"))
    only = secured_by(replace(secured, regions=("eu-west-1",))).callers
    assert only.of(here).space.region == "eu-west-1"
    with pytest.raises(Fault, match="scoped to a valid region"):
        only.of(elsewhere)
    assert secured_by(secured).callers.of(elsewhere).space.region == "us-east-1"


def test_signed_requests_over_the_network_need_tls(secured: Config) -> None:
    with pytest.raises(ConfigError, match="TLS is not"):
        secured_by(replace(secured, host="0.0.0.0"))


def test_connections_are_not_renegotiated(server_files: ServerFiles) -> None:
    security = secured_by(
        Config(memory=True, tls_certificate=server_files.certificate, tls_key=server_files.key)
    )
    assert security.tls is not None
    for _ in range(2):
        assert security.tls.context.options & ssl.OP_NO_RENEGOTIATION
        assert security.tls.reload()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"PENSTOCK_REGIONS": "eu-west-1"}, "regions.*credentials"),
        ({"PENSTOCK_AUDIT_REQUIRED": "true"}, "no audit log"),
        ({"PENSTOCK_AUDIT_REQUIRED": "true", "PENSTOCK_AUDIT": "off", "PENSTOCK_CREDENTIALS": "c"}, "no audit"),
    ],
)  # fmt: skip
def test_a_setting_without_effect_is_refused(settings: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_config({}, settings)


def test_settings_with_an_effect_are_accepted() -> None:
    kept = {"PENSTOCK_AUDIT_REQUIRED": "true", "PENSTOCK_AUDIT": "/var/log/penstock/audit.jsonl"}
    assert load_config({}, kept).audit_required
    known = {"PENSTOCK_REGIONS": "eu-west-1,us-east-1", "PENSTOCK_CREDENTIALS": "c"}
    assert load_config({}, known).regions == ("eu-west-1", "us-east-1")


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o646])
def test_a_config_file_that_others_can_write_may_not_name_a_command(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text("root_key_command = 'cat key'\n")
    path.chmod(mode)
    if mode in (0o600, 0o644):
        assert load_config({"config": str(path)}, {}).root_key_command == "cat key"
        return
    with pytest.raises(ConfigError) as raised:
        load_config({"config": str(path)}, {})
    says(str(raised.value), str(path), "root_key_command", "chmod go-w")
    path.write_text("port = 9999\n")
    assert load_config({"config": str(path)}, {}).port == 9999, "other settings are accepted as before"


def test_a_config_file_of_another_user_may_not_name_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text("root_key_command = 'cat key'\n")
    os.chown(path, 12345, -1) if os.geteuid() == 0 else monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ConfigError, match="another user"):
        load_config({"config": str(path)}, {})


def test_a_config_file_that_others_can_replace_may_not_name_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may write a directory on the way to the file may put another file in its place."""
    above = tmp_path / "above"
    directory = above / "directory"
    directory.mkdir(parents=True)
    path, link = directory / "penstock.toml", above / "link.toml"
    path.write_text("root_key_command = 'cat key'\n")
    link.symlink_to(path)

    def problem(named: Path, folder: Path, mode: int) -> str:
        folder.chmod(mode)
        try:
            load_config({"config": str(named)}, {})
        except ConfigError as error:
            says(str(error), f"directory {folder} ", "chmod go-w")  # not a directory below it
            return "refused"
        finally:
            folder.chmod(0o755)
        return ""

    for folder in (directory, above):
        assert problem(path, folder, 0o755) == ""
        assert problem(path, folder, 0o777) == problem(path, folder, 0o775) == "refused"
        # As in /tmp: only the owner of a file can rename or remove it.
        assert problem(path, folder, 0o1777) == ""
    assert problem(link, directory, 0o777) == "refused"
    assert problem(link, above, 0o777) == "refused"

    # Kubernetes mounts a ConfigMap as a directory of mode 0777 that nobody can write.
    read_only = os.statvfs_result([*os.statvfs("/")[:8], os.ST_RDONLY, 255])
    monkeypatch.setattr(os, "statvfs", lambda folder: read_only)
    assert problem(path, directory, 0o777) == ""


def test_a_config_file_in_the_directory_of_another_user_may_not_name_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text("root_key_command = 'cat key'\n")
    by_others = os.stat_result([*tmp_path.stat()[:4], os.geteuid() + 12345, *tmp_path.stat()[5:10]])
    stat = Path.stat
    monkeypatch.setattr(
        Path, "stat", lambda each, **more: by_others if each == tmp_path else stat(each, **more)
    )
    with pytest.raises(ConfigError, match=f"{tmp_path} .*another user"):
        load_config({"config": str(path)}, {})


# -- files that are missing or cannot be reached -------------------------------------------------------------

UNREACHABLE = "x" * 300
"""No file system has such a name: what asks for it gets an error other than "not found", as in a directory that may
not be entered."""


def test_a_missing_credentials_file_is_reported_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    with pytest.raises(CredentialsError) as raised:
        secured_by(Config(memory=True, credentials=path))
    says(str(raised.value), f"no credentials file {path}", "penstock user create", "--credentials")


def test_a_credentials_file_that_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / UNREACHABLE / "credentials.toml"
    for root in (None, ROOT_KEY):
        with pytest.raises(CredentialsError) as raised:
            open_credentials(Config(memory=True, credentials=path), root, ManualClock())
        assert "\n" not in str(raised.value)
        says(str(raised.value), f"credentials file {path}", "File name too long")
    with pytest.raises(RootKeyError, match=r"root key .*: File name too long"):
        secured_by(Config(memory=True, credentials=path))


def test_a_keyring_that_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    config = Config(data=tmp_path / UNREACHABLE)
    for root in (None, ROOT_KEY):
        with pytest.raises(KeyringError, match=r"keyring .*: File name too long"):
            Encryption(config, root, ManualClock())


# -- reloaded once a second ------------------------------------------------------------------------------


@pytest.fixture
def audited(secured: Config, server_files: ServerFiles) -> Config:
    return replace(secured, tls_certificate=server_files.certificate, tls_key=server_files.key)


def after_a_reload(config: Config, prepare: Callable[[Security], object], *, requested: bool = False) -> Path:
    """More refusals than the audit log records, a minute, and one reload. Returns the path of the audit log."""
    clock = ManualClock()
    security = secured_by(config, clock)
    assert security.audit is not None and security.recorder is not None
    security.start()
    for _ in range(EVENTS_MAX + 3):
        security.recorder.refused_early(arrived({}), wrong_signature("no"), None)
    assert security.audit.flush()
    clock.advance(WINDOW_MS)
    prepare(security)
    security.reload(NO_LISTENER, requested=requested)
    assert security.audit.flush()
    recorded = names(security.audit.path) if security.audit.path.exists() else []
    security.close()
    assert recorded[-1:] == ["RefusalsSuppressed"], "recorded by the reload, not by the stop"
    return security.audit.path


def test_suppressed_events_are_recorded_after_their_minute(secured: Config) -> None:
    path = after_a_reload(secured, lambda _: None)
    assert audit_log(path)[-2]["serviceEventDetails"] == {"caller": "127.0.0.1", "count": 3}


@pytest.mark.parametrize("requested", [False, True])
@pytest.mark.parametrize("failing", ["tls", "encryption"])
def test_an_error_in_one_part_does_not_keep_others_from_reloading(
    audited: Config, failing: str, requested: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def unforeseen(*_: object, **__: object) -> None:
        raise RuntimeError("unexpected")

    def break_one(security: Security) -> None:
        one: Any = getattr(security, failing)
        one.reload = one.check = unforeseen

    logging.getLogger("penstock").propagate = True
    after_a_reload(audited, break_one, requested=requested)
    assert "failed to reload " in caplog.text and "; trying again" in caplog.text


@pytest.mark.parametrize("requested", [False, True])
def test_a_requested_reload_creates_a_new_audit_file_for_a_moved_one(
    secured: Config, requested: bool
) -> None:
    security = secured_by(secured)
    audit = security.audit
    assert audit is not None
    security.start()
    assert audit.flush()
    audit.path.rename(audit.path.with_name("moved"))
    security.reload(NO_LISTENER, requested=requested)
    assert audit.flush()
    assert audit.path.exists() == requested, "otherwise the next event creates it"
    security.close()


def test_changed_certificates_are_loaded(audited: Config) -> None:
    security = secured_by(audited)
    listener: Any = SimpleNamespace(tls=None)
    security.reload(listener, requested=True)
    assert security.tls is not None and listener.tls is security.tls.context


def eventually(condition: Callable[[], bool]) -> bool:
    """Wait for another thread, without an event loop."""
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.002)
    return condition()


def test_a_removed_key_is_refused_while_the_event_loop_is_blocked(
    accounts: Accounts, secured: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.server.periodic.EVERY_S", 0.01)

    async def scene() -> None:  # awaits nothing
        security = secured_by(secured)
        security.start()
        asking = arrived(signed(accounts))
        assert security.callers.of(asking).principal == accounts.principal("ann")
        accounts.change(lambda content: remove(content, find_user(content, "ann", None)))

        def refused() -> bool:
            try:
                security.callers.of(asking)
            except Fault:
                return True
            return False

        assert eventually(refused)
        security.close()

    run(scene)


def test_a_requested_reload_reads_credentials_at_once(
    accounts: Accounts, secured: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.server.periodic.EVERY_S", 3600)
    security = secured_by(secured)
    security.start()
    key = accounts.user("bob")
    credentials = security.credentials
    assert credentials is not None
    before = credentials.directory
    security.reload(NO_LISTENER, requested=True)
    assert eventually(lambda: credentials.directory is not before)
    assert credentials.directory.principal(key, None).name == "bob"
    security.close()


def test_an_error_is_logged_and_the_periodic_work_continues(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("penstock.server.periodic.EVERY_S", 0.001)
    logging.getLogger("penstock").propagate = True
    runs: list[bool] = []

    def work(*, requested: bool) -> None:
        runs.append(requested)
        raise RuntimeError("unexpected")

    thread = PeriodicThread("reload credentials", work)
    thread.start()
    assert eventually(lambda: len(runs) > 1)
    thread.close()
    assert "failed to reload credentials; trying again" in caplog.text
    assert not any(runs)
    last = len(runs)
    thread.run_now()
    assert len(runs) == last, "it is closed"


def test_a_requested_reload_reads_the_keyring(secured: Config, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    logging.getLogger("penstock").propagate = True
    Keyring(secured.keyring_file, ROOT_KEY, ManualClock()).ensure_file()
    security = secured_by(secured)
    for requested, times in ((False, 0), (True, 1)):
        security.reload(NO_LISTENER, requested=requested)
        assert caplog.text.count("keyring reloaded") == times
    security.close()


# -- joined to a server --------------------------------------------------------------------------------------


def test_the_client_address_comes_from_a_trusted_proxy(secured: Config) -> None:
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
        recorded = [each for each in audit_log(path) if each["eventName"] == "ListQueues"]
        assert [each["userIdentity"]["type"] for each in recorded] == ["AWSAccount", "Unknown"]
        assert [each["sourceIPAddress"] for each in recorded] == [address] * 2
        assert ["tlsDetails" in each for each in recorded] == [secure] * 2
        path.unlink()


@pytest.mark.parametrize("required", [False, True])
def test_a_required_audit_log_that_cannot_be_written_stops_service(
    accounts: Accounts, secured: Config, required: bool, monkeypatch: pytest.MonkeyPatch
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
            assert await server.list_queues(signed(accounts)) == (503 if required else 200)
            full.clear()
            await until(lambda: not audit._writer.failing)
            assert await server.list_queues(signed(accounts)) == 200

    run(scene)


def test_signed_requests_may_come_from_any_web_page(accounts: Accounts, secured: Config) -> None:
    async def scene() -> None:
        async with serving(secured) as server:
            page = {"Origin": "https://page.test", "User-Agent": "Mozilla/5.0"}
            assert await server.list_queues(signed(accounts) | page) == 200

    run(scene)


def test_a_caller_has_one_rate_for_all_its_requests(accounts: Accounts, secured: Config) -> None:
    async def scene() -> None:
        async with serving(replace(secured, requests_per_second=1, requests_burst=2)) as server:
            answers = [await server.list_queues(signed(accounts)) for _ in range(10)]
            assert answers[:2] == [200, 200]
            assert 403 in answers, "unless each of them took a second"

    run(scene)


def test_a_request_that_computes_for_long_uses_up_the_rate() -> None:
    """Metric math over ten days of minutes takes far longer than 5 ms for each request of the burst."""
    now_s = int(time.time())
    queries = [{"Id": f"e{n}", "Expression": "YEAR(TIME_SERIES(1))", "Period": 60} for n in range(30)]
    asked = {"StartTime": now_s - 864_000, "EndTime": now_s, "MetricDataQueries": queries}
    heavy = post("GraniteServiceVersion20100801.GetMetricData", json.dumps(asked).encode())
    light = post("AmazonSQS.ListQueues", b"{}")

    async def scene() -> None:
        config = Config(memory=True, requests_per_second=10, requests_burst=5)
        async with serving(config) as server:
            assert [(await server.ask(light)).status for _ in range(3)] == [200] * 3
            answer = await server.ask(heavy)
            assert answer.status == 200, answer.body
            refused = await server.ask(light)
            assert (refused.status, b"Throttl" in refused.body) == (403, True)

    run(scene)


def test_reencryption_stops_before_the_store_is_closed(
    secured: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        EncryptedStore, "outdated", lambda *_: OutdatedMessages(1, 1, [], 0)
    )  # there is always more
    seen: list[Reencryption] = []
    wake = Reencryption.wake

    def seen_wake(reencryption: Reencryption) -> None:
        seen.append(reencryption)
        wake(reencryption)

    monkeypatch.setattr(Reencryption, "wake", seen_wake)

    async def scene() -> None:
        async with serving(secured):
            (reencryption,) = seen
            assert reencryption._running
        assert reencryption._stopped

    run(scene)


# -- a start that fails --------------------------------------------------------------------------------------


def test_a_failed_start_writes_nothing_to_the_audit_log_of_a_running_server(secured: Config) -> None:
    path = secured.data / "audit" / "audit.jsonl"

    async def scene() -> None:
        async with serving(secured) as server:
            audit = server.parts.security.audit
            assert audit is not None and audit.flush()
            with pytest.raises(StoreRefused):
                await loaded(secured)
            EarlyParts(secured).close()  # as if its port were in use
            assert names(path) == ["StartLogging"]
        assert names(path) == ["StartLogging", "StopLogging"]

    run(scene)
