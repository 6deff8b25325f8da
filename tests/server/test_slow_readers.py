"""Clients that read their responses slowly: progress is waited for, its absence is not."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import suppress

from penstock.server.http.limits import HttpLimits
from support.harness import Running, post, run, serving, until

ANSWER = b"x" * 24_000_000


def slow_reader(server: Running) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 * 1024)
    sock.connect((server.host, server.port))
    sock.sendall(post("Big.Answer"))
    return sock


def read_slowly(sock: socket.socket, piece: int, pause_s: float, enough: threading.Event) -> int:
    total = 0
    with suppress(OSError):  # disconnected in between
        while total < len(ANSWER) and not enough.wait(pause_s):
            part = sock.recv(piece)
            total += len(part)
            if not part:
                break
    return total


def test_a_large_answer_may_take_many_time_outs_while_it_is_being_read() -> None:
    async def scenario() -> None:
        async with serving(HttpLimits(write_s=0.3, linger_s=0.4)) as server:
            server.dispatcher.unanswered = {"Big.Answer"}
            sock = slow_reader(server)
            (await server.dispatcher.arrival()).answer(ANSWER)
            begun = time.monotonic()
            total = await asyncio.to_thread(read_slowly, sock, 512 * 1024, 0.02, threading.Event())
            assert total >= len(ANSWER)
            assert time.monotonic() - begun > 2 * 0.3
            sock.close()

    run(scenario)


def test_a_client_that_reads_too_slowly_is_disconnected() -> None:
    async def scenario() -> None:
        async with serving(HttpLimits(write_s=0.3, linger_s=0.4)) as server:
            server.dispatcher.unanswered = {"Big.Answer"}
            sock = slow_reader(server)
            (await server.dispatcher.arrival()).answer(ANSWER)
            enough = threading.Event()
            reading = asyncio.create_task(asyncio.to_thread(read_slowly, sock, 100, 0.02, enough))
            await until(lambda: not server.listener._connections)
            enough.set()
            assert await reading < len(ANSWER)
            sock.close()

    run(scenario)
