"""Rows by time in chunks: their form and that of earlier releases, and what a reader unpacks."""

from __future__ import annotations

import logging
import random
import zlib

import msgspec
import pytest

from penstock.broker.queue_meter import SecondRows, SecondsMemory
from penstock.metrics.buckets import Bucket
from penstock.metrics.chunks import ChunkedRows, TimedRow, rows_between
from penstock.metrics.queue_rows import QUEUE_CHUNKS, QueueRow
from penstock.metrics.series import BUCKET_CHUNKS, MINUTE_S, ChunkId, Series
from penstock.turns import Steps, finished

START_S = 1_700_000_000 // 7200 * 7200
encode = msgspec.msgpack.encode


def chunked(chunk_buckets: int = 10) -> ChunkedRows[QueueRow]:
    return ChunkedRows(QUEUE_CHUNKS, MINUTE_S, chunk_buckets)


def test_chunks_of_queues_that_earlier_releases_wrote_are_read() -> None:
    row = QueueRow(sent=3, visible=(1, 4, 2.5), oldest_s=START_S)
    former = zlib.compress(encode([(START_S, 2, row), (START_S + 180, 1, QueueRow())]))
    timed = [TimedRow(START_S, 2, row), TimedRow(START_S + 180, 1, QueueRow())]
    assert QUEUE_CHUNKS.unpack(former) == timed
    assert QUEUE_CHUNKS.unpack(QUEUE_CHUNKS.pack(timed)) == timed


def test_chunks_of_clients_that_earlier_releases_wrote_are_read_and_changed() -> None:
    former = encode([[START_S, 5], [60, 2, 7], [60, 3, 1, 9, 12, {1.0: 1, 2.0: 1, 9.0: 1}]])
    expected = [Bucket.of(1, 5), Bucket.of(7, 2), Bucket(3, 12, 1, 9, {1.0: 1, 2.0: 1, 9.0: 1})]
    series = Series()
    id = ChunkId(MINUTE_S, START_S // 7200)
    series.put_chunk(id, former)
    assert series.newest_s == START_S + 120
    points = finished(series.read(START_S, START_S + 180, MINUTE_S))
    assert points == [(START_S + MINUTE_S * place, bucket) for place, bucket in enumerate(expected)]
    series.add(1, START_S)
    stored = series.chunk(id)
    assert stored is not None
    again = Series()
    again.put_chunk(id, stored)
    expected[0] = Bucket.of(1, 6)
    assert [bucket for _, bucket in finished(again.read(START_S, START_S + 180, MINUTE_S))] == expected


@pytest.mark.parametrize("damage", [b"", b"\x01", b"\x02abc", b"\x78\x9cnothing", b"\x93\x01"])
def test_a_damaged_chunk_is_left_out_and_logged(damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    whole = QUEUE_CHUNKS.pack([TimedRow(START_S, 1, QueueRow(sent=1))])
    for form in (QUEUE_CHUNKS, BUCKET_CHUNKS):
        for packed in (damage, whole[:-1]):
            with pytest.raises(ValueError):
                form.unpack(packed)
    rows = chunked()
    rows.put(START_S // 600, damage)
    rows.add(START_S + 600, QueueRow(sent=2))
    with caplog.at_level(logging.WARNING):
        assert list(rows.taken(START_S, START_S + 1200)) == [(START_S + 600, QueueRow(sent=2))]
    assert "cannot be read" in caplog.text


def test_rows_that_repeat_the_one_before_cost_nothing() -> None:
    rows, changing = chunked(120), chunked(120)
    for minute in range(120):
        rows.add(START_S + MINUTE_S * minute, QueueRow(sent=5))
        changing.add(START_S + MINUTE_S * minute, QueueRow(sent=5, sent_bytes=random.randrange(10**6)))
    number = START_S // 7200
    packed, longer = rows.chunk(number), changing.chunk(number)
    assert packed is not None and longer is not None
    assert QUEUE_CHUNKS.unpack(packed) == [TimedRow(START_S, 120, QueueRow(sent=5))]
    assert len(packed) * 5 < len(longer)


def test_rows_come_in_any_order_and_are_merged_by_bucket() -> None:
    chance = random.Random(5)
    rows, expected = chunked(), dict[int, int]()
    for _ in range(300):
        at_s = START_S + MINUTE_S * chance.randrange(100)
        rows.add(at_s, QueueRow(sent=1))
        expected[at_s] = expected.get(at_s, 0) + 1
    for start_s, end_s in ((0, 2 * START_S), (START_S + 1000, START_S + 3001), (START_S, START_S)):
        found = {at_s: row.sent for at_s, row in rows.taken(start_s, end_s)}
        assert found == {at_s: sent for at_s, sent in expected.items() if start_s <= at_s < end_s}
    assert rows.newest_s == max(expected)
    old = rows.trim(START_S + 1500)
    assert old and min(at_s for at_s, _ in rows.taken(0, 2 * START_S)) == min(
        at_s for at_s in expected if at_s >= (START_S + 1500) // 600 * 600
    )


def test_rows_that_were_taken_stay_as_they_were_and_are_in_order() -> None:
    """The open chunk is not the last one, and has a row that comes before others that were added earlier."""
    rows = chunked()
    for place in (12, 3, 1):
        rows.add(START_S + MINUTE_S * place, QueueRow(sent=place))
    taken = rows.taken(START_S, START_S + 1200)
    for place in (1, 1, 3, 12):
        rows.add(START_S + MINUTE_S * place, QueueRow(sent=100))
    assert [(at_s - START_S, row.sent) for at_s, row in taken] == [(60, 1), (180, 3), (720, 12)]
    assert [row.sent for _, row in rows.taken(START_S, START_S + 1200)] == [201, 103, 112]


def test_only_the_chunks_of_the_time_are_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = chunked()
    for minute in range(1000):
        rows.add(START_S + MINUTE_S * minute, QueueRow(sent=minute))
    unpacked: list[bytes] = []
    unpacking = type(QUEUE_CHUNKS).unpacking

    def counted(form: object, packed: bytes) -> Steps[list[TimedRow[QueueRow]]]:
        unpacked.append(packed)
        return unpacking(QUEUE_CHUNKS, packed)

    monkeypatch.setattr(type(QUEUE_CHUNKS), "unpacking", counted)
    taken = rows.taken(START_S + 3000, START_S + 3060)
    assert [row.sent for _, row in taken] == [50]
    assert len(unpacked) == 1
    assert list(taken) == list(taken), "it can be read again"


def full_buckets(chunks: int = 1) -> ChunkedRows[Bucket]:
    """Chunks of ten minutes, with a thousand different values each."""
    rows: ChunkedRows[Bucket] = ChunkedRows(BUCKET_CHUNKS, MINUTE_S, 10)
    for minute in range(10 * chunks):
        values = [(1.021**place + 1, float(minute + place * 7919 % 997 + 1)) for place in range(951)]
        rows.add(START_S + MINUTE_S * minute, Bucket.of_all(values))
    return rows


def test_chunks_are_packed_and_unpacked_in_steps() -> None:
    timed = [TimedRow(at_s, 1, row) for at_s, row in full_buckets().taken(0, 2 * START_S)]
    packing = BUCKET_CHUNKS.packing(timed)
    assert sum(1 for _ in packing) >= 10, "after each row"
    packed = BUCKET_CHUNKS.pack(timed)
    assert sum(1 for _ in BUCKET_CHUNKS.unpacking(packed)) >= 10
    assert BUCKET_CHUNKS.unpack(packed) == timed
    for damaged in (packed[:-3], packed[:2000], b"\x01" + zlib.compress(b"x" * 5_000_000)):
        with pytest.raises(ValueError):
            BUCKET_CHUNKS.unpack(damaged)


@pytest.mark.parametrize("length", [0, 1, 15, 16, 120, 70_000])
def test_a_chunk_is_an_array_of_rows_however_many(length: int) -> None:
    """Earlier releases decode it at once."""
    timed = [TimedRow(START_S + MINUTE_S * place, 1, QueueRow(sent=place)) for place in range(length)]
    packed = QUEUE_CHUNKS.pack(timed)
    decoded = msgspec.msgpack.decode(zlib.decompress(packed[1:]), type=list[tuple[int, int, QueueRow]])
    assert [row.sent for _, _, row in decoded] == list(range(length))
    assert QUEUE_CHUNKS.unpack(packed) == timed


def test_another_chunk_is_opened_in_steps_which_readers_do_not_notice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, other = full_buckets(2), full_buckets(2)
    expected = list(other.taken(0, 2 * START_S))
    steps = 0
    for _ in rows.opening(START_S):
        steps += 1
        assert rows.numbers() == other.numbers()
        if steps % 10 == 0:
            assert list(rows.taken(0, 2 * START_S)) == expected
    assert steps >= 20
    assert rows.open_number == START_S // 600
    assert list(rows.taken(0, 2 * START_S)) == expected
    monkeypatch.setattr(type(BUCKET_CHUNKS), "packing", None)  # it is open already
    rows.add(START_S, Bucket.of(1))
    assert sum(bucket.count for _, bucket in rows.taken(START_S, START_S + 60)) == expected[0][1].count + 1


@pytest.mark.parametrize("dropped", [0, 1])
def test_a_chunk_that_is_dropped_while_another_is_opened_stays_away(dropped: int) -> None:
    number = START_S // 600
    for steps in range(0, 60, 3):
        rows = full_buckets(2)
        opening = rows.opening(START_S)
        for _ in range(steps):
            next(opening, None)
        rows.drop(number + dropped)
        finished(opening)
        assert rows.numbers() == {number + 1 - dropped}
        rows.add(START_S, Bucket.of(1))
        kept_s = range(START_S + 600 * (1 - dropped), START_S + 600 * (2 - dropped), MINUTE_S)
        assert [at_s for at_s, _ in rows.taken(0, 2 * START_S)] == sorted({START_S, *kept_s})


def test_a_read_of_full_buckets_pauses_after_each() -> None:
    series = Series()
    for at_s, bucket in full_buckets(2).taken(0, 2 * START_S):
        series.add(bucket, at_s)
    series.add(1, START_S + 20 * 86_400)
    for period_s in (1, 60, 3600):
        assert sum(1 for _ in series.read(START_S, START_S + 1200, period_s)) >= 40, "unpacking, and merging"


def test_rows_between_two_times_are_those_that_begin_there() -> None:
    timed = [TimedRow(60, 5, "a"), TimedRow(360, 1, "b")]
    assert [at_s for at_s, _ in rows_between(timed, 60, 0, 1000)] == [60, 120, 180, 240, 300, 360]
    assert [at_s for at_s, _ in rows_between(timed, 60, 121, 300)] == [180, 240]
    assert list(rows_between(timed, 60, 360, 361)) == [(360, "b")]
    assert list(rows_between(timed, 60, 400, 900)) == []


def rows_of(seconds: SecondRows) -> list[tuple[int, QueueRow]]:
    return list(seconds.taken(0, 2 * START_S))


def test_seconds_of_the_largest_account_go_first() -> None:
    memory = SecondsMemory(200_000)
    modest, greedy = SecondRows(), [SecondRows() for _ in range(20)]
    for second in range(600):
        at_s, row = START_S + second, QueueRow(sent=second, sent_bytes=second * 77)
        memory.add("modest", modest, at_s, row)
        for each in greedy:
            memory.add("greedy", each, at_s, row)
    assert len(rows_of(modest)) == 600, "its share is large enough for all of it"
    for each in greedy:
        kept = [at_s for at_s, _ in rows_of(each)]
        assert kept == list(range(kept[0], START_S + 600)) and kept[0] > START_S, "the oldest went"
    assert modest.size + sum(each.size for each in greedy) <= 200_000
    for each in greedy:
        memory.forget("greedy", each)
    assert all(each.size == 0 for each in greedy)


def test_seconds_of_an_idle_queue_go_after_three_hours() -> None:
    memory, idle = SecondsMemory(1_000_000), SecondRows()
    for second in range(100):
        memory.add("a", idle, START_S + second, QueueRow(sent=second))
    memory.trim(START_S + 3 * 3600)
    assert len(rows_of(idle)) == 100
    memory.trim(START_S + 4 * 3600)
    assert (rows_of(idle), idle.size) == ([], 0)


def test_seconds_that_repeat_take_no_memory_and_open_ones_are_counted() -> None:
    memory = SecondsMemory(20_000)
    used_once = [SecondRows() for _ in range(20)]
    for each in used_once:
        for second in range(60):
            memory.add("a", each, START_S + second, QueueRow(sent=int(second == 0), visible=1))
    assert all(len(rows_of(each)) == 60 for each in used_once)
    assert all(0 < each.size < 1000 for each in used_once)
    changing = [SecondRows() for _ in range(2)]
    for each in changing:
        for second in range(30):
            memory.add("b", each, START_S + second, QueueRow(sent=second))
    assert changing[0].size == 0 < changing[1].size, "though nothing is packed"


def test_seconds_are_read_while_others_are_added() -> None:
    seconds = SecondRows()
    for second in range(1000):
        seconds.add(START_S + second, QueueRow(sent=second))
    taken = seconds.taken(START_S + 500, START_S + 2000)
    seconds.add(START_S + 999, QueueRow(sent=1))
    seconds.add(START_S + 1000, QueueRow(sent=1000))
    seconds.drop(seconds.open_number)
    assert [row.sent for _, row in taken] == list(range(500, 1000))
