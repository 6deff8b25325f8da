"""What a buffered receiver holds, hands out and gives back; no clock, no server."""

from __future__ import annotations

from penstock.client.buffer import MessageBuffer
from penstock.client.structs import Message


def messages(*bodies: str) -> list[Message]:
    return [Message(f"id-{body}", f"handle-{body}", body) for body in bodies]


def bodies(given: list[Message]) -> list[str]:
    return [message.body for message in given]


def filled(*parts: tuple[str, float]) -> MessageBuffer:
    """Each part: bodies, one letter each, and until when they are hidden."""
    buffer = MessageBuffer(messages_max=15, left_s_min=10)
    for letters, until_s in parts:
        buffer.add(messages(*letters), until_s, reserved=buffer.reserve())
    return buffer


def test_room_is_reserved_before_messages_are_asked_for() -> None:
    buffer = MessageBuffer(messages_max=15, left_s_min=10)
    assert [buffer.reserve() for _ in range(3)] == [10, 5, 0]
    buffer.add(messages(*"abc"), until_s=30, reserved=10)
    assert [buffer.reserve() for _ in range(2)] == [7, 0]
    assert buffer.take(now_s=0) is not None
    assert buffer.reserve() == 1


def test_messages_are_handed_out_in_their_order() -> None:
    buffer = filled(("ab", 30), ("c", 31))
    assert [message.body for _ in range(3) if (message := buffer.take(now_s=0))] == ["a", "b", "c"]
    assert buffer.take(now_s=0) is None


def test_a_message_is_handed_out_only_while_enough_time_is_left() -> None:
    buffer = filled(("a", 30), ("b", 40))
    assert buffer.next_run_down_s() == 20
    taken = buffer.take(now_s=21)
    assert taken is not None
    assert taken.body == "b"
    assert buffer.take(now_s=21) is None


def test_what_waited_too_long_is_given_back_while_it_is_hidden() -> None:
    buffer = filled(("ab", 30), ("cd", 40))
    assert buffer.run_down(now_s=20) == []
    assert bodies(buffer.run_down(now_s=21)) == ["b", "a"]
    assert buffer.run_down(now_s=40) == [], "they are visible already"
    assert buffer.next_run_down_s() == float("inf")
    assert buffer.reserve() == 10


def test_a_close_gives_all_back() -> None:
    buffer = filled(("a", 30), ("bc", 40))
    assert bodies(buffer.drain(now_s=35)) == ["c", "b"]
    assert buffer.drain(now_s=35) == []
