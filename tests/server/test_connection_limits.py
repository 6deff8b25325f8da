"""How many connections there may be: in all, of one address, and with a TLS handshake that never ends."""

from __future__ import annotations

import asyncio
import errno
import socket
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.client_addresses import ClientAddresses
from penstock.server.http.limits import HttpLimits
from penstock.server.http.listener import open_sockets
from support.certificates import ServerFiles
from support.harness import Client, Running, get, post, run, serving, until
from support.rows import every_row


class OneClient(ClientAddresses):
    """Connections of a test come from loopback: here they all count as those of one other machine."""

    def client_of(self, address: str) -> str | None:
        return "203.0.113.7"


@every_row(
    ("address", "client"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("127.0.0.1", None),
        ("::1", None),
        ("::ffff:127.0.0.1", None),
        ("10.1.2.3", None),
        ("2001:db8:ffff::1", None),
        ("", None),
    ],
)
def test_who_counts_as_one_client(address: str, client: str | None) -> None:
    trusted = [ip_network("10.0.0.0/8"), ip_network("2001:db8:ffff::/48")]
    assert ClientAddresses(trusted).client_of(address) == client


@given(st.ip_addresses(v=6), st.integers(0, 2**64 - 1))
def test_a_network_of_ipv6_is_one_client(address: object, host: int) -> None:
    addresses = ClientAddresses()
    network = ip_network((int(address), 64), strict=False)  # type: ignore[call-overload]
    if network.network_address.is_loopback or int(network.network_address) == 0:
        return  # where loopback and the mapped addresses are
    assert addresses.client_of(str(network[host])) == addresses.client_of(str(network[0]))


def test_connections_per_address_are_limited() -> None:
    async def scenario() -> None:
        limits = HttpLimits(connections_per_address_max=3)
        async with serving(limits) as server:
            server.listener._clients = OneClient()
            clients = [await server.connect() for _ in range(3)]
            await until(lambda: len(server.listener._connections) == 3)
            refused = await server.connect()
            response = await refused.response()
            assert response.status == 503
            assert "from your address" in response.json()["message"]
            server.listener._clients = ClientAddresses()
            assert (await server.ask(get("/"))).status == 200, "others are not refused"
            server.listener._clients = OneClient()
            refused.close()
            clients[0].close()
            await until(lambda: len(server.listener._connections) == 2)
            assert (await server.ask(post())).status == 200
            for client in clients:
                client.close()
            await until(lambda: not server.listener._by_client)

    run(scenario)


def test_without_a_limit_per_address_one_client_may_use_all_connections() -> None:
    async def scenario() -> None:
        async with serving(HttpLimits(connections_per_address_max=0, connections_max=5)) as server:
            server.listener._clients = OneClient()
            clients = []
            for status in (200, 200, 200, 200, 200, 503):
                clients.append(await server.connect())
                clients[-1].send(get("/"))
                assert (await clients[-1].response()).status == status

    run(scenario)


async def without_handshake(server: Running, count: int) -> list[Client]:
    return [await server.connect() for _ in range(count)]


def test_unfinished_handshakes_count_and_give_way_to_new_connections(server_files: ServerFiles) -> None:
    async def scenario() -> None:
        limits = HttpLimits(connections_max=4, silent_s=0)
        async with serving(limits, tls=server_files.context()) as server:
            silent = await without_handshake(server, 4)
            await until(lambda: len(server.listener._connections) == 4)
            client = await server.connect(server_files.trusting())
            client.send(post())
            assert (await client.response()).status == 200
            assert await silent[0].at_end()
            assert len(server.listener._connections) == 4

    run(scenario)


def test_connections_that_never_sent_a_request_give_way_oldest_first() -> None:
    async def scenario() -> None:
        async with serving(HttpLimits(connections_max=4, silent_s=0)) as server:
            first = await server.connect()
            first.send(post())
            assert (await first.response()).status == 200
            silent = [await server.connect() for _ in range(3)]
            silent[0].send(post()[:-1])  # not a whole one
            await until(lambda: len(server.listener._connections) == 4)
            newer = [await server.connect() for _ in range(2)]
            assert await silent[0].at_end() and await silent[1].at_end()
            for client in (first, silent[2], *newer):
                client.send(post())
                assert (await client.response()).status == 200

    run(scenario)


def test_connections_do_not_give_way_before_their_first_request_can_be_read() -> None:
    """All at once: the server accepts many before it reads from any."""

    async def scenario() -> None:
        limits = HttpLimits(connections_max=4, reserved_connections=2, silent_s=3600)
        async with serving(limits) as server:
            server.dispatcher.unanswered = {"Long.Poll"}
            clients = await asyncio.gather(*(server.connect() for _ in range(20)))
            for client in clients[:4]:
                client.send(post("Long.Poll"))
            for client in clients[4:]:
                client.send(post())
            answers = [await client.response() for client in clients[4:]]
            assert {answer.status for answer in answers} == {503}
            assert len(server.listener._connections) >= 4 and not server.listener.displaced_total

    run(scenario)


def test_health_checks_are_answered_when_all_connections_are_in_use() -> None:
    async def scenario() -> None:
        async with serving(HttpLimits(connections_max=3, reserved_connections=2, silent_s=0)) as server:
            clients = [await server.connect() for _ in range(3)]
            for client in clients:
                client.send(post())
                assert (await client.response()).status == 200
            for path in ("/health/live", "/health/ready", "/_localstack/health"):
                checked = await server.ask(get(path))
                assert (checked.status, checked.headers["connection"]) == (200, "close")
            for action in (post(), get("/healthy?Action=A"), get("/health", "X-Amz-Target: A.B")):
                refused = await server.ask(action)
                assert (refused.status, refused.headers["connection"]) == (503, "close")
            silent = [await server.connect() for _ in range(2)]
            await until(lambda: len(server.listener._connections) == 5)
            assert (await server.ask(get("/health/live"))).status == 200, (
                "the oldest of the silent ones gave way"
            )
            assert await silent[0].at_end()
            for client in clients:
                client.send(post())
                assert (await client.response()).status == 200

    run(scenario)


def test_refused_connections_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        limits = HttpLimits(connections_max=1, reserved_connections=1, idle_s=0.1)
        async with serving(limits, clients=OneClient()) as server:
            server.dispatcher.unanswered = {"Long.Poll"}
            client = await server.connect()
            client.send(post("Long.Poll"))
            await server.dispatcher.arrival()
            for _ in range(3):
                assert (await server.ask(post())).status == 503
            await asyncio.sleep(0.2)
            assert (await server.ask(post())).status == 503
            await asyncio.sleep(0.1)

    with caplog.at_level("WARNING", "penstock.http"):
        run(scenario)
    (record,) = caplog.records
    assert "refused" in record.getMessage() and "max_connections is 1" in record.getMessage()


def test_unfinished_handshakes_end_in_time(server_files: ServerFiles) -> None:
    async def scenario() -> None:
        async with serving(HttpLimits(head_s=0.3), tls=server_files.context()) as server:
            (silent,) = await without_handshake(server, 1)
            assert await asyncio.wait_for(silent.at_end(), 5)
            await until(lambda: not server.listener._connections)

    run(scenario)


def test_plain_http_to_a_tls_port_is_disconnected(server_files: ServerFiles) -> None:
    async def scenario() -> None:
        async with serving(tls=server_files.context()) as server:
            client = await server.connect()
            client.send(get("/"))
            with pytest.raises(asyncio.IncompleteReadError):
                await client.response()
            await until(lambda: not server.listener._connections)

    run(scenario)


def test_a_stop_does_not_wait_for_handshakes(server_files: ServerFiles) -> None:
    async def scenario() -> None:
        async with serving(tls=server_files.context()) as server:
            (silent,) = await without_handshake(server, 1)
            await until(lambda: len(server.listener._connections) == 1)
            await asyncio.wait_for(server.listener.close(grace_s=15), 2)
            assert await silent.at_end()

    run(scenario)


class NoFiles:
    """A listening socket on a process that has no more files to open, for a while."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self.failures = 1

    def accept(self) -> object:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listening.accept()

    def __getattr__(self, name: str) -> object:
        return getattr(self._listening, name)


def test_accepting_resumes_after_running_out_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr("penstock.server.http.listener._ACCEPT_PAUSE_S", 0.05)
        async with serving() as server:
            (listening,) = server.listener._sockets
            starved = NoFiles(listening)
            loop = asyncio.get_running_loop()
            loop.remove_reader(listening)
            loop.add_reader(listening, server.listener._accept, starved)  # type: ignore[arg-type]
            assert (await server.ask(post())).status == 200
            assert starved.failures == 0

    run(scenario)


def test_all_addresses_of_a_host_have_the_same_port() -> None:
    async def scenario() -> None:
        sockets = await open_sockets("localhost", 0)
        (port,) = {each.getsockname()[1] for each in sockets}
        for each in sockets:
            each.close()
        with pytest.raises(OSError):
            await asyncio.open_connection("localhost", port)

    run(scenario)


@pytest.mark.parametrize("secure", [False, True])
def test_a_stop_does_not_wait_for_a_connection_accepted_just_before(
    secure: bool, server_files: ServerFiles
) -> None:
    async def scenario() -> None:
        async with serving(tls=server_files.context() if secure else None) as running:
            ours, theirs = socket.socketpair()
            theirs.setblocking(False)
            ours.settimeout(5)
            running.listener._add(theirs, "127.0.0.1")
            running.listener.stop_accepting()  # before it is connected
            await asyncio.wait_for(running.listener.close(grace_s=0.05), 5)
            said = ours.recv(1000)
            assert said == b"" if secure else b"The server is stopping." in said
            ours.close()

    run(scenario)
