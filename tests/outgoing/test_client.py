"""Requests that the server makes: what is read of an answer, how long it may take, whose turn it is."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.http.exchange import TlsContexts
from penstock.fair_share import FairShare
from penstock.outgoing import OutgoingFailed, OutgoingHttp, OutgoingUrl
from penstock.outgoing.addresses import is_callable
from penstock.promise import outcome, start
from support.certificates import write_certificate
from support.harness import run
from support.rows import every_row

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
TINY_S = 0.05


class Answering:
    """A server on a loopback port that gives one answer to every request, and notes the requests."""

    def __init__(
        self,
        answer: bytes = OK,
        *,
        drips: bool = False,
        closes: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``drips``: it gives a byte in each turn of the loop, for ever. ``closes``: it closes the connection."""
        self.answer = answer
        self.requests: list[bytes] = []
        self.called = asyncio.Event()
        self._drips = drips
        self._closes = closes
        self._tls = tls

    async def __aenter__(self) -> Answering:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line[16:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")
            )
            self.requests.append(head + await reader.readexactly(length))
            self.called.set()
            writer.write(self.answer)
            while self._drips and not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0)
            if not self._closes:
                await reader.read()  # until the client closes it
        writer.close()


def url_of(text: str) -> OutgoingUrl:
    url = OutgoingUrl.parse(text)
    assert url is not None
    return url


async def post(http: OutgoingHttp, text: str, **more: Any) -> Any:
    """Awaits the request like a handler, without a task of its own."""
    return await outcome(
        start(
            http.request(
                "000000000000", "POST", url_of(text), {"Content-Type": "application/json"}, b"{}", **more
            )
        )
    )


def test_a_request_and_the_head_of_its_answer() -> None:
    async def scene() -> None:
        async with Answering() as server:
            answer = await post(OutgoingHttp(), f"{server.url}/a/b?c=d")
            assert (answer.status, answer.body) == (200, b"")
            head, _, body = server.requests[0].partition(b"\r\n\r\n")
            assert head.startswith(b"POST /a/b?c=d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % server.port)
            assert b"\r\nContent-Type: application/json" in head and body == b"{}"
            assert (await post(OutgoingHttp(), server.url, answer_bytes_max=2)).body == b"ok"
            assert (await post(OutgoingHttp(), server.url, answer_bytes_max=1)).body == b"o"

    run(scene)


def test_the_caller_chooses_method_and_headers_but_no_further_lines() -> None:
    async def scene() -> None:
        async with Answering(b"HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n") as server:
            url, http = url_of(server.url), OutgoingHttp()
            answer = await outcome(start(http.request("0", "PUT", url, {"X-A": "b", "Accept": "text/x"})))
            assert (answer.status, answer.header(b"location")) == (301, "/x")
            head = server.requests[0]
            assert head.startswith(b"PUT / ") and b"\r\nX-A: b\r\n" in head and head.count(b"Accept: ") == 1
            for headers in (
                {"X-A": "b\r\nX-C: d"},
                {"X-A\r\nB": "c"},
                {"host": "other"},
                {"Content-length": "0"},
                {"Transfer-Encoding": "chunked"},
                {"TE": "trailers"},
                {"Trailer": "X-A"},
                {"Upgrade": "h2c"},
                {"Expect": "100-continue"},
                {"connection": "keep-alive"},
                {"Host ": "other"},
                {"X A": "b"},
                {"X:A": "b"},
                {"": "b"},
                {"X-A": "b", "x-a": "c"},
                {"X-A": "\x00"},
            ):
                with pytest.raises(OutgoingFailed, match="header"):
                    await outcome(start(http.request("0", "POST", url, headers)))
            assert len(server.requests) == 1
            await outcome(start(http.request("0", "POST", url, {"accept": "text/x", "user-agent": "x"})))
            head = server.requests[1].lower()
            assert head.count(b"\r\naccept: text/x\r\n") == head.count(b"\r\naccept:") == 1
            assert head.count(b"\r\nuser-agent:") == 1

    run(scene)


def test_whoever_answers_slowly_is_left_after_the_time_limit() -> None:
    """Byte after byte: before its answer, in its head, and in a body that is asked for."""
    cases = {
        b"": "does not speak HTTP",
        b"HTTP/1.1 200 ": "0.05 seconds|head of the answer",
        b"HTTP/1.1 200 OK\r\nA: ": "0.05 seconds|head of the answer",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n": "0.05 seconds",
    }

    async def scene() -> None:
        for answer, reason in cases.items():
            async with Answering(answer, drips=True) as server:
                with pytest.raises(OutgoingFailed, match=reason):
                    await post(OutgoingHttp(TINY_S), server.url, answer_bytes_max=10**8)
        async with Answering(b"") as silent:
            with pytest.raises(OutgoingFailed, match="no answer within"):
                await post(OutgoingHttp(TINY_S), silent.url)

    run(scene)


def test_a_body_that_drips_for_ever_is_not_read() -> None:
    async def scene() -> None:
        async with Answering(b"HTTP/1.1 202 OK\r\n\r\n", drips=True) as server:
            assert (await post(OutgoingHttp(), server.url)).status == 202

    run(scene)


def test_what_is_no_answer() -> None:
    async def scene() -> None:
        for answer, reason in {
            b"220 mail.example.com ESMTP\r\n": "does not speak HTTP",
            b"HTTP/1.1 200 OK\r\nA: " + 70_000 * b"x": "more than 65536 bytes",
        }.items():
            async with Answering(answer) as server:
                with pytest.raises(OutgoingFailed, match=reason):
                    await post(OutgoingHttp(), server.url)
        async with Answering(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 x\r\n\r\n") as server:
            assert (await post(OutgoingHttp(), server.url)).status == 204

    run(scene)


def test_a_name_is_looked_up_once_and_the_connection_goes_to_what_was_found() -> None:
    """A second lookup could give another address than the one that was checked."""
    asked: list[str] = []

    async def scene() -> None:
        async with Answering() as server:

            async def resolve(host: str, port: int) -> list[str]:
                asked.append(host)
                return ["169.254.169.254", "127.0.0.1"] if len(asked) == 1 else ["127.0.0.9"]

            http = OutgoingHttp(resolve=resolve)
            assert (await post(http, f"http://hooks.example.com:{server.port}/")).status == 200
            assert asked == ["hooks.example.com"]
            assert b"\r\nHost: hooks.example.com:" in server.requests[0]

    run(scene)


def test_another_protocol_is_no_answer() -> None:
    async def scene() -> None:
        answer = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nabc"
        async with Answering(answer) as server:
            for answer_bytes_max in (0, 10):
                with pytest.raises(OutgoingFailed, match="another protocol"):
                    await post(OutgoingHttp(), server.url, answer_bytes_max=answer_bytes_max)

    run(scene)


def test_a_body_can_end_with_the_connection() -> None:
    async def scene() -> None:
        async with Answering(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nabc", closes=True) as server:
            for answer_bytes_max, body in {0: b"", 2: b"ab", 3: b"abc", 10: b"abc"}.items():
                answer = await post(OutgoingHttp(), server.url, answer_bytes_max=answer_bytes_max)
                assert (answer.status, answer.header(b"a"), answer.body) == (200, "b", body)
            for cut in (
                b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
                b"HTTP/1.1 200 OK\r\nA: b\r\n",
                b"HTTP/1.1 100 Continue\r\n\r\n",
            ):
                server.answer = cut
                with pytest.raises(OutgoingFailed, match="in the middle of its answer"):
                    await post(OutgoingHttp(), server.url, answer_bytes_max=10)

    run(scene)


@every_row(
    "address",
    [
        "169.254.169.254", "fe80::1", "224.0.0.1", "0.0.0.0", "::", "0.1.2.3", "255.255.255.255", "240.0.0.1",
        "ff02::1", "100::1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254",
        "::ffff:169.254.169.254", "::169.254.169.254", "::ffff:0:169.254.169.254", "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::", "2001:0:a9fe:a9fe::", "::ffff:168.63.129.16", "::0.0.0.2",
        "2001:0:a00:1:0:0:5601:5601", "fe80::1%lo",
    ],
)  # fmt: skip
def test_names_never_lead_to_addresses_of_no_host(address: str) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return [address]

    async def scene() -> None:
        with pytest.raises(OutgoingFailed, match="must not be called"):
            await post(OutgoingHttp(TINY_S, resolve), "http://hooks.example.com/")

    run(scene)


def test_names_may_lead_to_other_addresses() -> None:
    """Also to private ones: an operator has listed the name."""
    refused = [
        address
        for address in (
            "127.0.0.1", "::1", "10.0.0.1", "192.168.1.1", "100.64.0.1", "8.8.8.8", "fd12:3456::1", "2600:1f18::1",
            "::ffff:10.0.0.1", "64:ff9b::808:808", "2002:808:808::", "fd00:ec3::1",
        )
        if not is_callable(address)
    ]  # fmt: skip
    assert refused == []


def test_an_address_that_does_not_answer_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["10.0.0.1", "10.0.0.2", "127.0.0.1"]

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        connect, tried = loop.create_connection, []

        async def connect_or_hang(factory: Any, host: str, *args: Any, **kwargs: Any) -> Any:
            tried.append(host)
            if host.startswith("10."):
                await loop.create_future()
            return await connect(factory, host, *args, **kwargs)

        # uvloop's loop takes no attributes.
        hanging = SimpleNamespace(
            create_connection=connect_or_hang, time=loop.time, create_future=loop.create_future,
            call_later=loop.call_later,
        )  # fmt: skip
        http = OutgoingHttp(0.3, resolve)
        async with Answering() as server:
            url = url_of(f"http://hooks.example.com:{server.port}/")
            monkeypatch.setattr("penstock.outgoing.client.asyncio.get_running_loop", lambda: hanging)
            connection = await http._connect(url, 0)
            monkeypatch.undo()
            connection.close()
        assert tried == ["10.0.0.1", "10.0.0.2", "127.0.0.1"]

    run(scene)


def test_a_name_that_cannot_be_looked_up() -> None:
    async def nothing(host: str, port: int) -> list[str]:
        return []

    async def never(host: str, port: int) -> list[str]:
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def scene() -> None:
        with pytest.raises(OutgoingFailed, match="no address"):
            await post(OutgoingHttp(resolve=nothing), "http://hooks.example.com/")
        with pytest.raises(OutgoingFailed, match="no answer within"):
            await post(OutgoingHttp(TINY_S, never), "http://hooks.example.com/")
        with pytest.raises(OutgoingFailed):
            await post(OutgoingHttp(), f"http://{'a' * 64}.invalid/")

    run(scene)


def test_tls_checks_the_name_and_not_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write_certificate(tmp_path)
    trusting = files.trusting()
    monkeypatch.setattr(TlsContexts, "of", lambda self, address: trusting)

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async def scene() -> None:
        async with Answering(tls=files.context()) as server:
            http = OutgoingHttp(resolve=resolve)
            assert (await post(http, f"https://localhost:{server.port}/")).status == 200
            with pytest.raises(OutgoingFailed, match="certificate"):
                await post(http, f"https://other.example.com:{server.port}/")

    run(scene)


def test_a_close_ends_what_is_under_way_at_once() -> None:
    async def scene() -> None:
        async with Answering(b"") as server:
            http = OutgoingHttp()
            calls = [start(http.request(str(n % 3), "POST", url_of(server.url), {})) for n in range(40)]
            await server.called.wait()
            http.close()
            for call in calls:
                with pytest.raises(OutgoingFailed, match="the server stops"):
                    await outcome(call)
            with pytest.raises(OutgoingFailed, match="the server stops"):
                await post(http, server.url)
        assert [task for task in asyncio.all_tasks() if "_exchange" in repr(task)] == []

    run(scene)


def test_an_account_whose_calls_hang_does_not_hold_up_another() -> None:
    async def scene() -> None:
        async with Answering(b"") as hanging, Answering() as quick:
            http = OutgoingHttp()
            calls = [start(http.request("1", "POST", url_of(hanging.url), {})) for _ in range(100)]
            await hanging.called.wait()
            assert (await post(http, quick.url)).status == 200
            assert not any(call.done for call in calls)
            http.close()
            for call in calls:
                with pytest.raises(OutgoingFailed):
                    await outcome(call)

    run(scene)


def test_accounts_share_what_runs_at_a_time() -> None:
    """However many of one account hang, it has its share only, and another account is the next one."""

    async def scene() -> None:
        share, running, ending = FairShare(6, 4), Counter[str](), asyncio.Event()

        async def work(account: str, until: asyncio.Event) -> None:
            async with share.turn(account):
                running[account] += 1
                await until.wait()
                running[account] -= 1

        first = asyncio.Event()
        tasks = [asyncio.create_task(work("greedy", first if n == 0 else ending)) for n in range(20)]
        tasks += [asyncio.create_task(work(f"other-{n}", ending)) for n in range(2)]
        await _turns()
        assert running == {"greedy": 4, "other-0": 1, "other-1": 1}
        late = asyncio.create_task(work("late", ending))
        cancelled = asyncio.create_task(work("impatient", ending))
        await _turns()
        assert "late" not in running
        cancelled.cancel()
        first.set()
        await _turns()
        assert +running == {"greedy": 3, "other-0": 1, "other-1": 1, "late": 1}
        tasks[1].cancel()
        await _turns()
        assert share._running.total() == 6, "whoever is cancelled makes room"
        ending.set()
        await asyncio.gather(*tasks, late, cancelled, return_exceptions=True)
        assert not share._running and not share._waiting

    run(scene)


def test_more_accounts_than_turns_take_them_one_after_another() -> None:
    async def scene() -> None:
        share, served = FairShare(2, 1), Counter[str]()

        async def work(account: str) -> None:
            while True:
                async with share.turn(account):
                    served[account] += 1
                    await asyncio.sleep(0)

        tasks = [asyncio.create_task(work(f"account-{n % 5}")) for n in range(50)]
        for _ in range(10):
            await _turns()
        assert len(served) == 5 and max(served.values()) <= min(served.values()) + 1
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not share._running

    run(scene)


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
