"""Temporary keys: of roles, of a web identity, of a program; replaced in time, once for all requests."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs

import pytest

from client.driver import Driver
from client.fake_server import FakeServer, reply
from penstock.client import ApiError, Client, Forbidden, ProfileError, SyncClient, Unavailable, keys
from penstock.client.actions import Actions
from penstock.client.credentials import (
    KeysOfProgram,
    KeysOfRole,
    KeysOfWebIdentity,
    KeySource,
    SigningKeys,
    find_credentials,
    read_profile,
)
from penstock.client.http.asynchronous import AsyncNetwork
from penstock.client.keys import CurrentKeys, IssuedKeys
from support.identities import HOME
from support.process import ServerProcess
from support.secured import Secured
from support.texts import says
from support.waiting import until

ROLE = "arn:aws:iam::123456789012:role/ops"
OWN = SigningKeys("AKIAOWN", "own-secret")
BEGIN = 1_800_000_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time by which keys are replaced; those that are issued live for an hour."""
    clock = SimpleNamespace(now=BEGIN)
    monkeypatch.setattr(keys, "time", SimpleNamespace(time=lambda: clock.now))
    return clock


class FakeSts:
    """Issues keys with a number each, which expire at 2027-01-15T09:00:00Z, an hour after the clock begins."""

    def __init__(self) -> None:
        self.forms: list[dict[str, str]] = []
        self.server = FakeServer(self._answer)
        self.url = self.server.url

    def _answer(self, request: bytes) -> bytes:
        head, _, body = request.partition(b"\r\n\r\n")
        form = {name: value for name, (value,) in parse_qs(body.decode()).items()}
        signer = re.search(rb"Credential=(\w+)/\d+/(.*)/aws4_request", head)
        form["signed by"] = signer[1].decode() if signer else "nobody"
        if signer:
            assert signer[2] == b"us-east-1/sts"
        self.forms.append(form)
        result = (
            f"<{form['Action']}Response xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><Result><Credentials>"
            f"<AccessKeyId>ASIA{len(self.forms)}</AccessKeyId><SecretAccessKey>s/+=</SecretAccessKey>"
            "<SessionToken>token</SessionToken><Expiration>2027-01-15T09:00:00Z</Expiration>"
            f"</Credentials></Result></{form['Action']}Response>"
        )
        return reply(body=result.encode(), Content_Type="text/xml")


def signers(fake: FakeServer) -> list[str]:
    """The access keys of its requests, with "+" for a token."""
    found = []
    for request in fake.requests:
        key = re.search(rb"Credential=(\w+)/", request)
        assert key is not None
        found.append(key[1].decode() + ("+" if b"x-amz-security-token: token" in request else ""))
    return found


async def list_queues(client: Actions) -> None:
    await client.list_queues()


def test_a_role_is_assumed_with_the_keys_of_another_profile(drive: Driver, clock: SimpleNamespace) -> None:
    sts = FakeSts()
    source = KeysOfRole(ROLE, OWN, "me", "7F3K", 900, sts.url)
    with sts.server, FakeServer(reply()) as fake:

        async def twice(client: Actions) -> None:
            await client.list_queues()
            await client.list_queues()

        drive(twice, fake.url, keys=source)
        assert signers(fake) == ["ASIA1+"] * 2
        (form,) = sts.forms
    assert form == {
        "Action": "AssumeRole", "Version": "2011-06-15", "RoleArn": ROLE, "RoleSessionName": "me",
        "ExternalId": "7F3K", "DurationSeconds": "900", "signed by": "AKIAOWN",
    }  # fmt: skip


def test_a_role_that_assumes_a_role(drive: Driver, clock: SimpleNamespace) -> None:
    sts = FakeSts()
    inner = KeysOfRole(ROLE, OWN, sts_url=sts.url)
    with sts.server, FakeServer(reply()) as fake:
        drive(list_queues, fake.url, keys=KeysOfRole(f"{ROLE}2", inner, sts_url=sts.url))
        assert signers(fake) == ["ASIA2+"]
    assert [form["signed by"] for form in sts.forms] == ["AKIAOWN", "ASIA1"]


def test_a_web_identity(drive: Driver, clock: SimpleNamespace, tmp_path: Path) -> None:
    sts, token = FakeSts(), tmp_path / "token"
    token.write_text("eyJ.first\n")
    variables = {
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(token), "AWS_ROLE_ARN": ROLE, "AWS_ENDPOINT_URL_STS": sts.url,
        "AWS_ROLE_SESSION_NAME": "pod-7", "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
    }  # fmt: skip
    source = find_credentials(read_profile(None, variables), environment=variables)
    assert source == KeysOfWebIdentity(ROLE, str(token), "pod-7", None, sts.url)

    async def steps(client: Actions) -> None:
        await client.list_queues()
        token.write_text("eyJ.second")
        clock.now += 3500
        await client.list_queues()

    with sts.server, FakeServer(reply()) as fake:
        drive(steps, fake.url, keys=source)
        assert signers(fake) == ["ASIA1+", "ASIA2+"]
    assert [form["WebIdentityToken"] for form in sts.forms] == ["eyJ.first", "eyJ.second"]
    assert {form["signed by"] for form in sts.forms} == {"nobody"}
    assert sts.forms[0]["RoleSessionName"] == "pod-7"


def test_a_token_that_cannot_be_read(drive: Driver) -> None:
    source = KeysOfWebIdentity(ROLE, "/nowhere/token", sts_url="http://127.0.0.1:1")
    with pytest.raises(ProfileError, match='token "/nowhere/token"'):
        drive(list_queues, "http://127.0.0.1:1", keys=source)


def test_sts_refuses(drive: Driver) -> None:
    denied = (
        b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>"
    )
    with FakeServer(reply(403, denied)) as sts, pytest.raises(Forbidden, match="AccessDenied: not you"):
        drive(list_queues, "http://127.0.0.1:1", keys=KeysOfRole(ROLE, OWN, sts_url=sts.url))


@pytest.mark.parametrize("body", [b"", b"{}", b"<a/>", b"<a><AccessKeyId>A</AccessKeyId></a>"])
def test_something_else_than_sts(drive: Driver, body: bytes) -> None:
    with FakeServer(reply(body=body)) as sts, pytest.raises(Unavailable, match="check AWS_ENDPOINT_URL_STS"):
        drive(list_queues, "http://127.0.0.1:1", keys=KeysOfRole(ROLE, OWN, sts_url=sts.url))


# -- when they are replaced ------------------------------------------------------------------------------------------


class Issuer:
    """A source of keys, as far as CurrentKeys sees it. ``fails``: with this error."""

    def __init__(self, clock: SimpleNamespace, life_s: float = 3600) -> None:
        self._clock, self._life_s = clock, life_s
        self.issued = 0
        self.fails: Exception | None = None
        self.gate: asyncio.Event | None = None

    def keys(self) -> CurrentKeys:
        current = CurrentKeys(KeysOfProgram("none"), AsyncNetwork(1), lambda url, source: None)  # type: ignore[arg-type, return-value]
        current._fetch = self._fetch  # type: ignore[method-assign]
        return current

    async def _fetch(self) -> IssuedKeys:
        self.issued += 1
        number = self.issued
        if self.gate is not None:
            await self.gate.wait()
        if self.fails is not None:
            raise self.fails
        return IssuedKeys(SigningKeys(f"ASIA{number}", "s"), self._clock.now + self._life_s)


def in_loop(test: Callable[..., object]) -> Callable[..., None]:
    def run(clock: SimpleNamespace) -> None:
        asyncio.run(test(clock))  # type: ignore[arg-type]

    run.__name__ = test.__name__
    return run


async def name(current: CurrentKeys) -> str:
    found = await current.get()
    assert found is not None
    return found.access_key


@in_loop
async def test_keys_are_replaced_before_they_expire(clock: SimpleNamespace) -> None:
    current = Issuer(clock).keys()
    assert await name(current) == "ASIA1"
    clock.now += 3299
    assert await name(current) == "ASIA1"
    clock.now += 2
    assert await name(current) == "ASIA2"


@in_loop
async def test_keys_of_a_short_life_are_used_for_most_of_it(clock: SimpleNamespace) -> None:
    current = Issuer(clock, life_s=40).keys()
    assert await name(current) == "ASIA1"
    clock.now += 29
    assert await name(current) == "ASIA1"
    clock.now += 2
    assert await name(current) == "ASIA2"


@in_loop
async def test_keys_are_fetched_once_for_all_requests(clock: SimpleNamespace) -> None:
    issuer = Issuer(clock)
    current, issuer.gate = issuer.keys(), asyncio.Event()
    requests = [asyncio.create_task(name(current)) for _ in range(20)]
    await asyncio.sleep(0)
    issuer.gate.set()
    assert set(await asyncio.gather(*requests)) == {"ASIA1"} and issuer.issued == 1


@in_loop
async def test_requests_go_on_with_the_old_keys_while_new_ones_are_fetched(clock: SimpleNamespace) -> None:
    issuer = Issuer(clock)
    current = issuer.keys()
    await current.get()
    issuer.gate = asyncio.Event()
    clock.now += 3400
    fetching = asyncio.create_task(name(current))
    await asyncio.sleep(0)
    assert await name(current) == "ASIA1"
    clock.now += 300  # the old ones have expired
    late = asyncio.create_task(name(current))
    await asyncio.sleep(0)
    assert not late.done()
    issuer.gate.set()
    assert (await fetching, await late, issuer.issued) == ("ASIA2", "ASIA2", 2)


@pytest.mark.parametrize(
    "error", [Unavailable("away"), ApiError("Busy", "", 503), ProfileError("vault closed")]
)
def test_valid_keys_are_kept_if_there_are_no_new_ones(clock: SimpleNamespace, error: Exception) -> None:
    async def main() -> None:
        issuer = Issuer(clock)
        current = issuer.keys()
        await current.get()
        issuer.fails = error
        clock.now += 3400
        assert await name(current) == await name(current) == "ASIA1"
        assert issuer.issued == 2, "not asked again at once"
        clock.now += 31
        assert await name(current) == "ASIA1" and issuer.issued == 3
        clock.now += 300
        with pytest.raises(type(error)):
            await current.get()
        issuer.fails = None
        assert await name(current) == "ASIA5"

    asyncio.run(main())


def test_a_cancelled_fetch_is_begun_again(clock: SimpleNamespace) -> None:
    async def main() -> None:
        issuer = Issuer(clock)
        current, issuer.gate = issuer.keys(), asyncio.Event()
        first = asyncio.create_task(name(current))
        second = asyncio.create_task(name(current))
        await asyncio.sleep(0)
        first.cancel()
        issuer.gate.set()
        assert await second == "ASIA2"

    asyncio.run(main())


def test_a_token_that_the_server_calls_expired_is_replaced(drive: Driver, clock: SimpleNamespace) -> None:
    sts = FakeSts()
    expired = reply(403, b'{"__type": "a#ExpiredTokenException", "message": "late"}')
    source = KeysOfRole(ROLE, OWN, sts_url=sts.url)
    with sts.server, FakeServer(expired, reply()) as fake:
        drive(list_queues, fake.url, keys=source)
        assert signers(fake) == ["ASIA1+", "ASIA2+"]
    with sts.server, FakeServer(expired) as fake, pytest.raises(ApiError, match="late"):
        drive(list_queues, fake.url, keys=OWN)
    assert len(fake.requests) == 1, "there are no others"


def test_a_program_whose_keys_expire(drive: Driver, clock: SimpleNamespace, tmp_path: Path) -> None:
    count, program = tmp_path / "count", tmp_path / "program.py"
    count.write_text("")
    printed = {
        "Version": 1,
        "SecretAccessKey": "s",
        "SessionToken": "token",
        "Expiration": "2027-01-15T09:00:00Z",
    }
    program.write_text(
        f"import json, pathlib\nfile = pathlib.Path({str(count)!r})\nfile.write_text(file.read_text() + 'x')\n"
        f"print(json.dumps({printed!r} | {{'AccessKeyId': 'ASIA%d' % len(file.read_text())}}))\n"
    )

    async def steps(client: Actions) -> None:
        await client.list_queues()
        await client.list_queues()
        clock.now += 3400
        await client.list_queues()

    with FakeServer(reply()) as fake:
        drive(steps, fake.url, keys=KeysOfProgram(f"{sys.executable} {program}"))
        assert signers(fake) == ["ASIA1+", "ASIA1+", "ASIA2+"]


def test_threads_fetch_keys_once(clock: SimpleNamespace) -> None:
    sts = FakeSts()
    source = KeysOfRole(ROLE, OWN, sts_url=sts.url)
    with (
        sts.server,
        FakeServer(reply()) as fake,
        SyncClient(endpoint_url=fake.url, credentials=source) as client,
    ):
        threads = [threading.Thread(target=client.list_queues) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert signers(fake) == ["ASIA1+"] * 8 and len(sts.forms) == 1


# -- profiles --------------------------------------------------------------------------------------------------------

CONFIG = """\
[default]
aws_access_key_id = AKIAOWN
aws_secret_access_key = own-secret
[profile ops]
role_arn = arn:aws:iam::123456789012:role/ops
source_profile = default
role_session_name = me
external_id = 7F3K
duration_seconds = 1800
services = local
[services local]
sqs =
  endpoint_url = http://queues:9324
sts =
  endpoint_url = http://sts:9324
[profile chained]
role_arn = arn:aws:iam::123456789012:role/deep
source_profile = ops
endpoint_url = http://all:9324
[profile itself]
role_arn = arn:aws:iam::123456789012:role/ops
source_profile = itself
aws_access_key_id = AKIAITSELF
aws_secret_access_key = s
[profile pod]
role_arn = arn:aws:iam::123456789012:role/ops
web_identity_token_file = /var/token
[profile variables]
role_arn = arn:aws:iam::123456789012:role/ops
credential_source = Environment
[profile machine]
role_arn = arn:aws:iam::123456789012:role/ops
credential_source = Ec2InstanceMetadata
[profile device]
role_arn = arn:aws:iam::123456789012:role/ops
source_profile = default
mfa_serial = arn:aws:iam::123456789012:mfa/me
[profile alone]
role_arn = arn:aws:iam::123456789012:role/ops
[profile empty]
region = eu-west-1
[profile keyless]
role_arn = arn:aws:iam::123456789012:role/ops
source_profile = empty
[profile ring]
role_arn = arn:aws:iam::123456789012:role/ops
source_profile = gnir
[profile gnir]
role_arn = arn:aws:iam::123456789012:role/ops
source_profile = ring
[profile soon]
role_arn = arn:aws:iam::123456789012:role/ops
source_profile = default
duration_seconds = soon
"""


def found(folder: Path, profile: str, **variables: str) -> KeySource | None:
    (folder / "config").write_text(CONFIG)
    environment = {
        "AWS_CONFIG_FILE": str(folder / "config"), "AWS_SHARED_CREDENTIALS_FILE": "/nowhere", **variables
    }  # fmt: skip
    return find_credentials(read_profile(profile, environment), asked=True, environment=environment)


OPS = KeysOfRole(ROLE, OWN, "me", "7F3K", 1800, "http://sts:9324")


@pytest.mark.parametrize(
    ("profile", "variables", "source"),
    [
        ("ops", {}, OPS),
        ("ops", {"AWS_ENDPOINT_URL": "http://a"}, OPS._replace(sts_url="http://a")),
        (
            "ops",
            {"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_STS": "http://b"},
            OPS._replace(sts_url="http://b"),
        ),
        ("chained", {}, KeysOfRole(f"{ROLE[:-3]}deep", OPS, sts_url="http://all:9324")),
        ("itself", {}, KeysOfRole(ROLE, SigningKeys("AKIAITSELF", "s"))),
        ("pod", {}, KeysOfWebIdentity(ROLE, "/var/token")),
        (
            "variables",
            {"AWS_ACCESS_KEY_ID": "AKIAOWN", "AWS_SECRET_ACCESS_KEY": "own-secret"},
            KeysOfRole(ROLE, OWN),
        ),
    ],
)
def test_profiles_with_roles(
    tmp_path: Path, profile: str, variables: dict[str, str], source: KeySource
) -> None:
    assert found(tmp_path, profile, **variables) == source


@pytest.mark.parametrize(
    ("profile", "problem"),
    [
        ("machine", "credential_source = Ec2InstanceMetadata eval"),
        ("device", "mfa_serial eval"),
        ("alone", "role_arn without source_profile"),
        ("keyless", 'no keys role "keyless"'),
        ("ring", 'no keys role "gnir"'),
        ("variables", "no keys role"),
        ("soon", 'invalid duration_seconds "soon" profile seconds'),
    ],
)
def test_profiles_that_lead_to_no_keys(tmp_path: Path, profile: str, problem: str) -> None:
    with pytest.raises(ProfileError) as refused:
        found(tmp_path, profile)
    says(str(refused.value), *problem.split())


def test_keys_do_not_print_their_secret() -> None:
    assert "own-secret" not in repr(OPS) and "AKIAOWN" in repr(OPS)


# -- with a real STS -------------------------------------------------------------------------------------------------


def test_a_role_of_a_secured_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secured = Secured(tmp_path)
    secured.add("root")
    secured.add("alice")
    secured.penstock(
        "role",
        "create",
        "sender",
        "--account",
        HOME,
        "--trust",
        "alice",
        "--policy",
        "sqs-send",
        *secured.files,
    )
    with secured.running("--memory") as server:
        key, secret = secured.keys["alice"]
        (tmp_path / "config").write_text(
            f"[profile alice]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n"
            f"[profile sender]\nrole_arn = arn:aws:iam::{HOME}:role/sender\nsource_profile = alice\n"
            f"endpoint_url = {server.url}\n"
        )
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        with SyncClient(endpoint_url=server.url, credentials=SigningKeys(*secured.keys["root"])) as root:
            url = root.create_queue("orders")
        with SyncClient(profile="sender") as sender:
            assert sender.endpoint.url == server.url
            assert sender.send_message(url, "by role").message_id
            with pytest.raises(Forbidden) as raised:
                sender.receive_message(url)
            assert raised.value.is_denied

        async def main() -> None:
            async with Client(profile="sender") as sender:
                await sender.send_message(url, "by role")

        asyncio.run(main())


def test_commands_use_roles_too(server: ServerProcess, tmp_path: Path) -> None:
    """The open server gives a session of any role, and its account decides which queues there are."""
    config = tmp_path / "config"
    config.write_text(
        f"[profile own]\naws_access_key_id = any\naws_secret_access_key = any\n"
        f"[profile other]\nrole_arn = arn:aws:iam::210987654321:role/x\nsource_profile = own\n"
        f"endpoint_url = {server.url}\n"
    )
    from support.command_line import CommandLine

    commands = CommandLine(server.url, AWS_CONFIG_FILE=str(config))
    commands.done("queue", "create", "of-a-role", "--profile", "other")
    until(lambda: "of-a-role" in commands.done("queue", "ls", "--profile", "other"), "the queue is listed")
    assert "of-a-role" not in commands.done("queue", "ls")
    config.write_text(
        "[profile broken]\nrole_arn = arn:aws:iam::210987654321:role/x\nsource_profile = none\n"
    )
    says(commands.failed("queue", "ls", "--profile", "broken", code=2), 'no profile "none"')
    config.write_text("[profile broken]\ncredential_process = /nowhere/program\n")
    assert "credential_process cannot be run" in commands.failed("queue", "ls", "--profile", "broken", code=2)
