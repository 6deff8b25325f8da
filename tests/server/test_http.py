"""The transport on raw sockets: what comes in, what goes out, and in which order."""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
import time
import uuid
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.server.http.limits import HttpLimits
from penstock.server.tls import tls_context
from support.harness import get, post, run, serving, until
from support.rows import every_row


def test_an_answer_carries_what_clients_expect() -> None:
    async def scenario() -> None:
        async with serving() as server:
            response = await server.ask(post(body=b'{"a":1}'))
            assert response.status == 200
            assert response.json() == {"target": "AmazonSQS.Echo", "length": 7}
            assert uuid.UUID(response.headers["x-amzn-requestid"]).version == 4
            assert response.headers["date"].endswith("GMT")
            assert "connection" not in response.headers

    run(scenario)


def test_a_connection_is_kept_for_the_next_request_and_each_has_its_own_id() -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            ids = set()
            for _ in range(3):
                client.send(post())
                ids.add((await client.response()).headers["x-amzn-requestid"])
            assert len(ids) == 3

    run(scenario)


def test_header_names_in_any_case() -> None:
    async def scenario() -> None:
        async with serving() as server:
            request = b"POST / HTTP/1.1\r\nHOST: a\r\nx-AMZ-tARGET: T.X\r\ncontent-LENGTH: 2\r\n\r\n{}"
            assert (await server.ask(request)).json()["target"] == "T.X"

    run(scenario)


def test_pipelined_requests_are_answered_in_order_though_the_first_is_slow() -> None:
    async def scenario() -> None:
        async with serving() as server:
            server.dispatcher.unanswered = {"Slow.Poll"}
            client = await server.connect()
            client.send(post("Slow.Poll") + post("A.B") + get("/health/live") + post("C.D", b"x" * 10))
            slow = await server.dispatcher.arrival()
            await asyncio.sleep(0.02)
            assert len(server.dispatcher.seen) == 1, "the next request waits for the response before it"
            slow.answer(b"slow")
            assert (await client.response()).body == b"slow"
            assert (await client.response()).json()["target"] == "A.B"
            assert (await client.response()).json() == {"status": "alive"}
            assert (await client.response()).json() == {"target": "C.D", "length": 10}

    run(scenario)


def test_a_request_that_waits_for_its_answer_keeps_none_of_its_bytes() -> None:
    async def scenario() -> None:
        async with serving() as server:
            server.dispatcher.unanswered = {"Slow.Poll"}
            client = await server.connect()
            client.send(post("Slow.Poll", b"x" * 100_000, b"X-Large: " + b"y" * 10_000))
            slow = await server.dispatcher.arrival()
            (connection,) = server.listener._connections
            waiting = connection._running
            assert waiting is not None
            assert (waiting.body, waiting.target, waiting.headers, waiting.raw_headers) == (
                b"",
                b"",
                {},
                None,
            )
            slow.answer(b"slow")
            assert (await client.response()).body == b"slow"

    run(scenario)


def test_far_too_many_pipelined_requests_are_all_answered_while_few_are_held() -> None:
    async def scenario() -> None:
        async with serving(HttpLimits(pipelined_max=4)) as server:
            server.dispatcher.unanswered = {"Slow.Poll"}
            client = await server.connect()
            client.send(post("Slow.Poll") + b"".join(post(f"N.{n}", b"x" * 300) for n in range(3000)))
            slow = await server.dispatcher.arrival()
            await asyncio.sleep(0.05)
            read_at_once = 256 * 1024
            parsed = 4 * 2000 + 4 * 1024
            assert server.listener.buffered_bytes < read_at_once + parsed
            (connection,) = server.listener._connections
            assert connection.parser.buffered_bytes < parsed + 64 * 1024
            slow.answer()
            await client.response()
            for n in range(3000):
                assert (await client.response()).json()["target"] == f"N.{n}"
            assert server.listener.buffered_bytes == 0

    run(scenario)


def test_pipelined_requests_do_not_delay_other_connections() -> None:
    async def scenario() -> None:
        async with serving() as server:
            turns: list[int] = []

            def tick() -> None:
                turns.append(len(server.dispatcher.seen))
                if len(server.dispatcher.seen) < 50:
                    asyncio.get_running_loop().call_soon(tick)

            server.dispatcher.takes_s = 0.001
            client = await server.connect()
            client.send(post() * 50)
            tick()
            for _ in range(50):
                assert (await client.response()).status == 200
            assert max(later - earlier for earlier, later in pairwise(turns)) <= 4, "a turn ends by time"
            client.send(post("A.B"))
            assert (await client.response()).json()["target"] == "A.B", "reading goes on"

    run(scenario)


def test_a_connection_lost_between_turns_starts_no_more_requests() -> None:
    async def scenario() -> None:
        async with serving() as server:
            server.dispatcher.takes_s = 0.003
            client = await server.connect()
            client.send(post() * 20)
            await server.dispatcher.arrival()
            for connection in list(server.listener._connections):
                connection.abort()
            seen = len(server.dispatcher.seen)
            assert seen < 20
            await asyncio.sleep(0.02)
            assert len(server.dispatcher.seen) == seen
            assert server.listener.buffered_bytes == 0

    run(scenario)


def test_a_stop_between_turns_answers_before_it_closes() -> None:
    async def scenario() -> None:
        async with serving() as server:
            server.dispatcher.takes_s = 0.003
            client = await server.connect()
            client.send(post() * 20)
            await server.dispatcher.arrival()
            assert len(server.dispatcher.seen) < 20
            server.listener.stop_accepting()
            answers = [await client.response() for _ in range(len(server.dispatcher.seen))]
            answers.append(await client.response())
            assert answers[-1].headers["connection"] == "close"
            assert await client.at_end()

    run(scenario)


def test_a_request_in_single_bytes() -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            for byte in post(body=b'{"Q":"x"}'):
                client.send(bytes([byte]))
                await asyncio.sleep(0)
            assert (await client.response()).json()["length"] == 9

    run(scenario)


def test_a_chunked_body_with_extensions_and_trailers() -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            head = b"POST / HTTP/1.1\r\nHost: a\r\nX-Amz-Target: A.B\r\nTransfer-Encoding: chunked\r\n\r\n"
            client.send(head + b"5;a=b\r\nhello\r\n6\r\n world\r\n0\r\nX-Check: 1\r\n\r\n" + post("Next.One"))
            assert (await client.response()).json() == {"target": "A.B", "length": 11}
            assert server.dispatcher.seen[0].body == b"hello world"
            assert (await client.response()).json()["target"] == "Next.One"

    run(scenario)


def test_a_large_body_arrives_whole() -> None:
    async def scenario() -> None:
        async with serving() as server:
            body = bytes(range(256)) * 8192
            client = await server.connect()
            client.send(post(body=body))
            assert (await client.response()).json()["length"] == len(body)
            assert server.dispatcher.seen[0].body == body
            assert server.listener.buffered_bytes == 0

    run(scenario)


def test_expect_100_continue() -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            head, _, _ = post("A.B", b"12345", b"Expect: 100-continue").partition(b"\r\n\r\n")
            client.send(head + b"\r\n\r\n")
            assert (await client.response()).status == 100
            client.send(b"12345")
            assert (await client.response()).json() == {"target": "A.B", "length": 5}
            # With a body that comes at once, no 100 is sent.
            client.send(post("A.B", b"12345", b"Expect: 100-continue"))
            assert (await client.response()).status == 200

    run(scenario)


def test_100_continue_waits_for_the_answers_before_it() -> None:
    async def scenario() -> None:
        async with serving() as server:
            server.dispatcher.unanswered = {"Slow.Poll"}
            client = await server.connect()
            head, _, _ = post("A.B", b"12345", b"Expect: 100-continue").partition(b"\r\n\r\n")
            client.send(post("Slow.Poll") + head + b"\r\n\r\n")
            (await server.dispatcher.arrival()).answer(b"slow")
            assert (await client.response()).body == b"slow"
            assert (await client.response()).status == 100
            client.send(b"12345")
            assert (await client.response()).json()["length"] == 5

    run(scenario)


def test_an_expectation_is_refused_before_the_body_is_sent() -> None:
    async def scenario() -> None:
        async with serving(HttpLimits(body_bytes_max=100)) as server:
            request = post("A.B", b"x" * 101, b"Expect: 100-continue").partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
            assert (await server.ask(request)).status == 413
            assert (await server.ask(post("A.B", b"", b"Expect: miracles"))).status == 417

    run(scenario)


def test_a_head_request_reaches_no_service() -> None:
    async def scenario() -> None:
        async with serving() as server:
            asked = get("/", "X-Amz-Target: AmazonSQS.Echo", method="HEAD")
            assert (await server.ask(asked)).status == 405
            assert not server.dispatcher.seen

    run(scenario)


@every_row(
    ("request_bytes", "status"),
    [
        (b"NONSENSE\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nBad Header: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST / HTTP/1.1\r\nX-Amz-Target: A.B\r\nX-Amz-Target: C.D\r\nContent-Length: 0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: <script>\r\nContent-Length: 0\r\n\r\n", 400),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (b"DELETE / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + b"X-A: b\r\n" * 1 + b"".join(b"X-%d: b\r\n" % n for n in range(200)) + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nX-Long: " + b"a" * 80_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nX-Endless: " + b"a" * 200_000, 431),
        (b"GET / HTTP/1.1\r\n" + b"a" * 200_000, 431),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999999\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"FFFFF\r\n" + b"a" * 0xFFFFF + b"\r\n", 413),
    ],
)  # fmt: skip
def test_invalid_requests_are_refused_and_the_next_connection_works(
    request_bytes: bytes, status: int
) -> None:
    async def scenario() -> None:
        async with serving(HttpLimits(body_bytes_max=1_000_000)) as server:
            response = await server.ask(request_bytes)
            assert response.status == status
            assert response.json()["__type"].startswith("com.amazon.coral.service#")
            assert response.headers["x-amzn-query-error"].endswith(";Sender")
            assert "x-amzn-requestid" in response.headers
            assert server.dispatcher.seen == []
            assert (await server.ask(post())).status == 200
            assert server.listener.buffered_bytes == 0

    run(scenario)


@every_row("size", [60_000, 64_000, 66_000, 70_000, 71_000, 72_000, 73_000, 75_000])
def test_a_large_head_gets_exactly_one_response(size: int) -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            client.send(post("A.B", b"{}", b"X-Long: " + b"x" * size) + post("C.D"))
            first = await client.response()
            taken = size < 65_536
            assert first.status == (200 if taken else 431)
            if taken:
                assert (await client.response()).json()["target"] == "C.D"
            else:
                assert await client.at_end()
            assert len(server.dispatcher.seen) == (2 if taken else 0)

    run(scenario)


def test_an_error_follows_the_responses_before_it_and_ends_the_connection() -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            client.send(post("A.B") + b"NONSENSE\r\n\r\n" + post("C.D"))
            assert (await client.response()).json()["target"] == "A.B"
            refusal = await client.response()
            assert (refusal.status, refusal.headers["connection"]) == (400, "close")
            assert await client.at_end()
            assert len(server.dispatcher.seen) == 1

    run(scenario)


def test_a_client_that_sends_all_of_a_refused_body_first_still_reads_the_error() -> None:
    def send_then_read(host: str, port: int) -> bytes:
        with socket.create_connection((host, port), timeout=10) as sock:
            sock.sendall(post("A.B", b"x" * 3_000_000))
            time.sleep(0.1)  # whatever a reset would destroy is destroyed by now
            return sock.recv(65536)

    async def scenario() -> None:
        async with serving(HttpLimits(body_bytes_max=1000)) as server:
            answer = await asyncio.to_thread(send_then_read, server.host, server.port)
            assert answer.startswith(b"HTTP/1.1 413 ")

    run(scenario)


def test_all_bodies_together_are_bounded() -> None:
    async def scenario() -> None:
        async with serving(HttpLimits(buffered_bytes_max=150_000)) as server:
            first = await server.connect()
            first.send(post("A.B", b"x" * 100_000)[:-1])
            await until(lambda: server.listener.buffered_bytes > 90_000)
            second, request = await server.connect(), post("C.D", b"x" * 90_000)
            second.send(request[:-1])
            refusal = await first.response()
            assert (refusal.status, refusal.headers["retry-after"]) == (503, "1"), "the largest is given up"
            second.send(request[-1:])
            assert (await second.response()).status == 200
            assert server.listener.buffered_bytes == 0

    run(scenario)


def test_head_is_get_without_the_body() -> None:
    async def scenario() -> None:
        async with serving() as server:
            whole = await server.ask(get("/"))
            client = await server.connect()
            client.send(get("/", method="HEAD") + get("/"))
            head = await client.response(head_only=True)
            assert head.headers["content-length"] == whole.headers["content-length"] != "0"
            assert (await client.response()).body == whole.body

    run(scenario)


def test_http_1_0_closes_unless_keep_alive_is_requested() -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert (await client.response()).headers["connection"] == "keep-alive"
            client.send(b"GET / HTTP/1.0\r\n\r\n")
            assert (await client.response()).headers["connection"] == "close"
            assert await client.at_end()

    run(scenario)


def test_connection_close_is_obeyed() -> None:
    async def scenario() -> None:
        async with serving() as server:
            client = await server.connect()
            client.send(post("A.B", b"{}", b"Connection: close"))
            assert (await client.response()).headers["connection"] == "close"
            assert await client.at_end()

    run(scenario)


def test_an_offer_to_upgrade_is_ignored() -> None:
    async def scenario() -> None:
        async with serving() as server:
            offer = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk")
            client = await server.connect()
            client.send(post("A.B", b"hello", *offer) + post("C.D"))
            assert (await client.response()).json() == {"target": "A.B", "length": 5}
            assert (await client.response()).json()["target"] == "C.D"
            assert server.dispatcher.seen[0].body == b"hello"

    run(scenario)


def test_connections_beyond_the_limit_get_503() -> None:
    async def scenario() -> None:
        async with serving(HttpLimits(connections_max=1)) as server:
            first = await server.connect()
            first.send(post())
            await first.response()
            second = await server.connect()
            second.send(post())
            assert (await second.response()).status == 503
            assert await second.at_end()
            first.send(post())
            assert (await first.response()).status == 200

    run(scenario)


def test_ipv6() -> None:
    async def scenario() -> None:
        try:
            async with serving(host="::1") as server:
                request = b"POST / HTTP/1.0\r\nX-Amz-Target: A.B\r\nContent-Length: 0\r\n\r\n"
                assert (await server.ask(request)).status == 200
                assert server.dispatcher.seen[0].call.base_url == f"http://[::1]:{server.port}"
        except OSError as error:
            pytest.skip(f"no IPv6 here: {error}")

    run(scenario)


def test_tls(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)

    async def scenario() -> None:
        async with serving(tls=tls_context(certificate, key)) as server:
            client = await server.connect(ssl.create_default_context(cafile=str(certificate)))
            client.send(post(body=b"x" * 300_000))
            assert (await client.response()).json()["length"] == 300_000
            client.send(post(body=b"{}"))
            assert (await client.response()).status == 200
            assert server.dispatcher.seen[0].call.base_url == "https://queues.test:9324"
            client.send(b"NONSENSE\r\n\r\n")
            assert (await client.response()).status == 400
            assert await client.at_end()

    run(scenario)


def test_a_stop_does_not_wait_for_idle_tls_clients_to_close(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)

    def ask(port: int) -> ssl.SSLSocket:
        trusting = ssl.create_default_context(cafile=str(certificate))
        raw = socket.create_connection(("127.0.0.1", port), timeout=10)
        client = trusting.wrap_socket(raw, server_hostname="localhost")
        client.sendall(post())
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        return client

    async def scenario() -> None:
        async with serving(tls=tls_context(certificate, key)) as server:
            client = await asyncio.to_thread(ask, server.port)
            begun = time.monotonic()
            await server.listener.close(grace_s=15)
            assert time.monotonic() - begun < 5
            assert client.recv(1) == b"", "the connection was closed properly"
            client.close()

    run(scenario)


def self_signed(directory: Path) -> tuple[Path, Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = directory / "certificate.pem", directory / "key.pem"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return certificate_file, key_file
