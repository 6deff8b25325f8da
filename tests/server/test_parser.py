"""The parser without a socket: any bytes, cut anywhere."""

from __future__ import annotations

import gc
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.server.http.limits import HttpLimits
from penstock.server.http.parser import BETWEEN, RequestParser, request_ids
from penstock.server.http.request import HttpError, Peer
from support.generated import examples
from support.harness import get, post
from support.rows import every_row

LIMITS = HttpLimits(header_bytes_max=2000, body_bytes_max=2000, uri_bytes_max=200, header_count_max=20)
CHUNKED = b"POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\nT: 1\r\n\r\n"
STREAM = post("A.B", b"12345") + get("/x") + CHUNKED + post("C.D", b"")


def parser(limits: HttpLimits = LIMITS) -> RequestParser:
    return RequestParser(Peer("127.0.0.1", "http", "127.0.0.1:9324"), limits)


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
@settings(max_examples=examples(100), deadline=None)
def test_the_result_does_not_depend_on_where_the_bytes_are_cut(cuts: list[int]) -> None:
    reading = parser()
    for start, end in pairwise([0, *sorted(cuts), len(STREAM)]):
        reading.feed(STREAM[start:end])
    requests = list(reading.requests)
    reading.requests.clear()
    assert [(each.method, each.target, each.body) for each in requests] == [
        (b"POST", b"/", b"12345"),
        (b"GET", b"/x", b""),
        (b"POST", b"/c", b"abcde"),
        (b"POST", b"/", b""),
    ]
    assert requests[0].headers[b"x-amz-target"] == b"A.B"
    assert b"t" not in requests[2].headers, "a trailer is not a header"
    assert (reading.buffered_bytes, reading.phase) == (0, BETWEEN)


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from(
                [b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\n", b"A: b\r\n", b"\r\n", b"0\r\n\r\n"]
            ),
            st.sampled_from([b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Upgrade: x\r\n"]),
            st.sampled_from(
                [b"Connection: upgrade\r\n", b"Expect: 100-continue\r\n", b"5\r\nabcde\r\n", STREAM]
            ),
        ),
        max_size=12,
    )
)
@settings(max_examples=examples(300), deadline=None)
def test_any_bytes_are_requests_or_an_error_and_memory_is_counted_correctly(pieces: list[bytes]) -> None:
    reading = parser()
    try:
        for piece in pieces:
            again = piece
            while again:
                again = reading.feed(again)
    except HttpError as refusal:
        assert 400 <= refusal.status < 500
    reading.drop()
    reading.requests.clear()
    assert reading.buffered_bytes == 0


def test_repeated_headers_are_joined_and_kept_as_received() -> None:
    reading = parser()
    reading.feed(b"POST / HTTP/1.1\r\nX-A:  1 2 \r\nx-b: 3\r\nX-a: 4\r\nTransfer-Encoding: chunked\r\n\r\n")
    reading.feed(b"0\r\nTrailer: 5\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n")
    request = reading.requests.popleft()
    assert request.raw_headers is not None
    assert [(name, value.strip()) for name, value in request.raw_headers] == [
        (b"X-A", b"1 2"), (b"x-b", b"3"), (b"X-a", b"4"), (b"Transfer-Encoding", b"chunked"),
    ]  # fmt: skip
    assert request.headers == {b"x-a": b"1 2, 4", b"x-b": b"3", b"transfer-encoding": b"chunked"}
    following = reading.requests.popleft()
    assert (following.headers, following.raw_headers) == ({b"host": b"h"}, None)


def test_an_offer_to_upgrade_leaves_the_other_headers_as_received() -> None:
    reading = parser()
    offer = b"POST /q?x=1 HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
    rest = b"X-A: 1\r\nx-A: 2\r\nContent-Length: 2\r\n\r\nab"
    assert reading.feed(reading.feed(offer + rest)) == b""
    request = reading.requests.popleft()
    others = [(b"X-A", b"1"), (b"x-A", b"2"), (b"Content-Length", b"2")]
    assert request.raw_headers == [(b"Connection", b"Upgrade"), *others]
    assert (request.target, request.body) == (b"/q?x=1", b"ab")


@pytest.mark.parametrize(("version", "keep_alive"), [("1.1", True), ("1.0", False)])
def test_an_offer_to_upgrade_changes_neither_version_nor_connection(version: str, keep_alive: bool) -> None:
    for connection in (b"Upgrade", b"Upgrade, close"):
        reading = parser()
        head = b"GET / HTTP/%b\r\nConnection: %b\r\nUpgrade: h2c\r\n\r\n" % (version.encode(), connection)
        assert reading.feed(reading.feed(head)) == b""
        request = reading.requests.popleft()
        assert request.version == version
        assert request.keep_alive is (keep_alive and connection == b"Upgrade")


@every_row("size", range(1900, 2300, 7))
def test_a_head_near_the_limit_is_taken_or_refused_but_not_both(size: int) -> None:
    head = b"GET / HTTP/1.1\r\nX: " + b"x" * (size - 24) + b"\r\n\r\n"
    for piece in (len(head), 256):
        reading = parser()
        refused = False
        try:
            for at in range(0, len(head), piece):
                reading.feed(head[at : at + piece])
        except HttpError as error:
            refused = error.status == 431
        assert refused is not bool(reading.requests)
        if not 2000 < size < 2025:  # to within the constant parts of the request line
            assert refused is (size > 2000)


def test_a_request_of_http_1_0_has_no_chunked_body() -> None:
    reading = parser()
    with pytest.raises(HttpError) as refused:
        reading.feed(CHUNKED.replace(b"HTTP/1.1\r\n", b"HTTP/1.0\r\nConnection: keep-alive\r\n"))
    assert refused.value.status == 400
    assert not reading.requests


def test_what_makes_no_body_grow_is_bounded() -> None:
    endless = {
        b"GET / HTTP/1.1\r\nA: ": 431,
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;": 431,
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: ": 431,
        b"GET /": 414,
    }
    for beginning, status in endless.items():
        reading = parser()
        reading.feed(beginning)
        fed = 0
        try:
            while fed < 10_000:
                reading.feed(b"a" * 100)
                fed += 100
        except HttpError as refusal:
            assert (refusal.status, fed <= 2000) == (status, True)
        else:
            raise AssertionError(f"{beginning!r} has no end")


def test_request_ids_are_uuids_and_differ() -> None:
    reading = parser()
    reading.feed(get("/") * 5000)
    ids = {request.id for request in reading.requests} | set(request_ids())
    assert len(ids) == 5000 + 4096
    assert all(len(each) == 36 and each[14] == "4" and each[19] in "89ab" for each in ids)


def test_a_body_in_tiny_chunks_takes_no_more_memory_than_is_counted() -> None:
    reading = parser(HttpLimits())
    reading.feed(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    head = reading.buffered_bytes
    chunks = b"2\r\nab\r\n" * 1000
    tracemalloc.start()
    try:
        for _ in range(50):
            reading.feed(chunks)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert abs(reading.buffered_bytes - head - 100_000) < 100
    assert held < 2 * reading.buffered_bytes
    reading.feed(b"0\r\n\r\n")
    assert reading.requests.popleft().body == b"ab" * 50_000


def test_a_head_counts_while_its_body_is_awaited() -> None:
    reading = parser(HttpLimits())
    reading.feed(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n")
    for _ in range(10):
        reading.feed(b"X: " + b"x" * 4000 + b"\r\n")
    reading.feed(b"\r\n")
    assert 40_000 < reading.buffered_bytes < 50_000
    reading.drop()
    assert reading.buffered_bytes == 0


def test_no_memory_is_kept_of_a_request_that_was_taken_or_of_a_closed_parser() -> None:
    request = b"POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000
    gc.collect()
    gc.disable()  # what it would find must not be there
    tracemalloc.start()
    try:
        idle = parser(HttpLimits())
        idle.feed(request)
        assert len(idle.requests.popleft().body) == 100_000
        for _ in range(20):
            lost = parser(HttpLimits())
            lost.feed(request)
            lost.feed(request[:-1])
            lost.close()
        del lost
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert held < 50_000


def test_no_memory_is_kept_of_a_head_that_is_given_up() -> None:
    tracemalloc.start()
    try:
        given_up = [parser(HttpLimits()) for _ in range(20)]
        for each in given_up:
            each.feed(b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 60_000)
            each.stop()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 200_000


TINY_HEADERS = {
    "of a head": b"GET / HTTP/1.1\r\n",
    "behind a body": b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n",
}


@pytest.mark.parametrize("beginning", TINY_HEADERS.values(), ids=TINY_HEADERS)
def test_headers_are_counted_as_they_come(beginning: bytes) -> None:
    """Unfinished, they would cost twenty times their bytes, and nothing would ever look at them."""
    reading = parser()
    reading.feed(beginning + b"a:\r\n" * LIMITS.header_count_max)
    with pytest.raises(HttpError) as refused:
        reading.feed(b"b:\r\nc:\r\n")
    assert refused.value.status == 431
    assert not reading.requests


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [b"Host: h"],
        [b"X: " + b"x" * 60_000],
        [b"%d: v%d" % (number, number) for number in range(90)],
        [b"A: v%d" % number for number in range(90)],
        [b"%d%b: v%d" % (number, b"x" * 90, number) for number in range(90)],
    ],
    ids=["none", "one small", "one large", "many small", "one repeated", "unusual names"],
)
def test_the_heads_of_requests_that_wait_count_for_what_they_cost(headers: list[bytes]) -> None:
    reading = parser(HttpLimits())
    head = b"\r\n".join([b"GET / HTTP/1.1", *headers, b"", b""])
    pieces = [head[at : at + 4096] for at in range(0, len(head), 4096)]
    tracemalloc.start()
    try:
        for _ in range(20):
            for piece in pieces:
                reading.feed(piece)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(reading.requests) == 20
    assert 0.8 * held < reading.buffered_bytes < 1.6 * held
    reading.requests.clear()
    assert reading.buffered_bytes == 0
