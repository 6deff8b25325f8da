"""Message ids: the form of a UUID, the way back to the number, and ids of an earlier release."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.queues.receipts import ALL_HASHED, MessageIds

IDS = MessageIds(b"s" * 32)
NUMBERS = st.integers(0, ALL_HASHED - 1)


@given(NUMBERS)
def test_an_id_is_a_random_uuid_and_gives_its_number_back(number: int) -> None:
    id = IDS(number)
    assert str(UUID(id)) == id
    assert (UUID(id).version, UUID(id).variant) == (4, "specified in RFC 4122")
    assert IDS.number_of(id) == number


@given(NUMBERS, st.integers(0, 35))
def test_an_id_with_another_digit_is_recognised(number: int, place: int) -> None:
    id = IDS(number)
    for digit in "0123456789abcdef":
        forged = id[:place] + digit + id[place + 1 :]
        assert IDS.number_of(forged) == (number if forged == id else None)


@pytest.mark.parametrize(
    "text", ["", "x", IDS(7)[:-1], IDS(7) + "0", IDS(7).upper(), IDS(7).replace("-", "")]
)
def test_another_text_is_no_id(text: str) -> None:
    assert IDS.number_of(text) is None


def test_the_secret_matters() -> None:
    other = MessageIds(b"t" * 32)
    assert other(7) != IDS(7)
    assert other.number_of(IDS(7)) is None
    assert MessageIds(b"t" * 32, otherwise=IDS.number_of).number_of(IDS(7)) == 7


def test_numbers_of_an_earlier_release_keep_their_ids() -> None:
    mixed = MessageIds(b"s" * 32, first=100)
    assert mixed(99) == "f60c6386-db66-4c33-921f-2000e351ccff"
    assert mixed.number_of(mixed(99)) is None
    assert mixed.number_of(IDS(99)) is None  # never given out
    assert mixed(100) == IDS(100)
    assert mixed.number_of(IDS(100)) == 100
