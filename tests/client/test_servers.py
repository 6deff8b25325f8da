"""The client with real servers: secured ones, over TLS, of several processes, restarted in between."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from client.driver import Driver
from penstock.client import (
    Client,
    EndpointError,
    Forbidden,
    Retries,
    SigningKeys,
    SyncClient,
    Unavailable,
)
from penstock.client.actions import Actions
from penstock.client.endpoint import Context, Contexts, write_contexts
from support.certificates import write_certificate
from support.process import ServerProcess
from support.secured import Secured


async def one_message(client: Actions) -> None:
    """Sends a message of the largest size through all that the path of a message has."""
    url = await client.create_queue("orders")
    body = 'ü🐌\n"x' * 116_000  # 1,044,000 bytes
    sent = await client.send_message(url, body, message_attributes={"a": "b"})
    (message,) = await client.receive_message(url, wait_time_seconds=10, message_attribute_names=["a"])
    assert (message.message_id, message.body) == (sent.message_id, body)
    await client.delete_message(url, message.receipt_handle)
    await client.delete_queue(url)


def test_a_secured_server(drive: Driver, tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    secured.add("root")
    secured.add("reader", "sqs-read-only")
    keys = {name: SigningKeys(*pair) for name, pair in secured.keys.items()}

    async def denied(client: Actions) -> None:
        with pytest.raises(Forbidden) as raised:
            await client.create_queue("orders")
        assert raised.value.is_denied and raised.value.status == 403

    async def wrong(client: Actions) -> None:
        with pytest.raises(Forbidden, match="SignatureDoesNotMatch") as raised:
            await client.list_queues()
        assert not raised.value.is_denied

    with secured.running("--memory") as server:
        drive(one_message, server.url, keys=keys["root"], region="eu-central-1")
        drive(denied, server.url, keys=keys["reader"])
        drive(denied, server.url, keys=None)
        drive(wrong, server.url, keys=keys["root"]._replace(secret_key="wrong"))


def test_tls(drive: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write_certificate(tmp_path)

    async def unknown(client: Actions) -> None:
        with pytest.raises(Unavailable, match="certificate verify failed"):
            await client.list_queues()

    async def missing(client: Actions) -> None:
        with pytest.raises(Unavailable, match=r'"/nowhere.pem".*CA certificates.*No such file'):
            await client.list_queues()

    with ServerProcess(
        "--memory", "--tls-certificate", str(files.certificate), "--tls-key", str(files.key)
    ) as server:
        url = f"https://127.0.0.1:{server.port}"
        drive(one_message, url, ca_file=str(files.authority))
        drive(unknown, url)
        drive(missing, url, ca_file="/nowhere.pem")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(files.authority))
        with SyncClient(endpoint_url=url) as client:
            assert client.is_penstock() and client.list_queues().queue_urls == []


def test_several_processes(drive: Driver, tmp_path: Path) -> None:
    async def steps(client: Actions) -> None:
        await one_message(client)
        for number in range(8):
            await client.create_queue(f"queue-{number}")
        urls = (await client.list_queues("queue-")).queue_urls
        assert len(urls) == 8
        for url in urls:
            await client.send_message(url, url)
            (message,) = await client.receive_message(url.rpartition("/")[2], wait_time_seconds=10)
            assert message.body == url

    with ServerProcess("--data", str(tmp_path / "data"), "--processes", "2") as server:
        drive(steps, server.url)


def test_a_server_that_is_restarted(drive: Driver, tmp_path: Path) -> None:
    """What was an idle connection is not used, and nothing is sent twice."""
    data = ("--data", str(tmp_path / "data"))
    first = ServerProcess(*data)
    again: list[ServerProcess] = []

    async def steps(client: Actions) -> None:
        url = await client.create_queue("orders")
        await client.send_message(url, "before")
        first.stop()
        again.append(ServerProcess(*data, "--port", str(first.port)))
        await client.send_message(url, "after")
        received: list[str] = []
        while messages := await client.receive_message(url, max_number_of_messages=10):
            received += [message.body for message in messages]
        assert sorted(received) == ["after", "before"]

    try:
        drive(steps, first.url, retries=Retries(repeats_unknown=False))
    finally:
        for server in (first, *again):
            server.__exit__(None, None, None)


def test_a_server_that_is_killed_while_a_poll_waits(drive: Driver) -> None:
    async def steps(client: Actions) -> None:
        url = await client.create_queue("orders")
        threading.Timer(0.5, server.process.kill).start()
        with pytest.raises(Unavailable, match=r"closed the connection|reset by peer|refused"):
            await client.receive_message(url, wait_time_seconds=20)

    with ServerProcess("--memory") as server:
        drive(steps, server.url, retries=Retries(attempts_max=1))


# -- which server it is ----------------------------------------------------------------------------------------------


def test_server_and_keys_are_found_as_commands_find_them(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "333344445555")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    write_contexts(Contexts(None, {"lab": Context(server.url, "eu-north-1")}))
    with SyncClient(context="lab") as client:
        assert client.create_queue("orders") == f"{server.url}/333344445555/orders"
        assert client.endpoint.region == "eu-north-1"
    with SyncClient(
        context="lab", credentials=SigningKeys("333344445556", "any"), region="us-west-2"
    ) as other:
        assert other.create_queue("orders") == f"{server.url}/333344445556/orders"
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", server.url)

    async def main() -> None:
        async with Client(region="eu-north-1") as client:
            assert await client.get_queue_url("orders") == f"{server.url}/333344445555/orders"

    asyncio.run(main())
    for kind in (Client, SyncClient):
        with pytest.raises(EndpointError, match=r"queues.example.com.*endpoint"):
            kind(endpoint_url="queues.example.com")
        with pytest.raises(EndpointError, match='no context "prod"'):
            kind(context="prod")


def test_the_package_is_imported_without_what_is_not_used() -> None:
    script = (
        "import json, sys; import penstock.client as c; c.ApiError, c.SigningKeys\n"
        "early = {'asyncio', 'msgspec', 'httptools'} & set(sys.modules)\n"
        "c.SyncClient; assert 'SyncClient' in dir(c)\n"
        "assert all(getattr(c, name) for name in c.__all__)\n"
        "print(json.dumps(sorted(early)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_a_name_that_does_not_exist() -> None:
    import penstock.client

    with pytest.raises(AttributeError, match="has no attribute 'Klient'"):
        penstock.client.Klient  # type: ignore[attr-defined]  # noqa: B018
