"""Tokens of confirmations: where they lead, and that nobody else can make one."""

from __future__ import annotations

import uuid

import pytest

from penstock.names import Home
from penstock.topics.tokens import RANDOM_BYTES, ReadToken, make_token, read_token, token_home

SECRET = b"s" * 32
HOME = Home.of("topic", "a")
ID = str(uuid.UUID(int=7, version=4))
TOKEN = make_token(SECRET, HOME, ID, 1_789_378_092_177, b"r" * RANDOM_BYTES)


def test_a_token_has_256_digits_and_says_where_it_leads() -> None:
    assert len(TOKEN) == 256
    assert token_home(TOKEN) == HOME
    assert read_token(SECRET, TOKEN) == ReadToken(ID, 1_789_378_092_177)


@pytest.mark.parametrize(
    "text", ["", "token", TOKEN[:-1], TOKEN + "0", TOKEN.upper(), TOKEN[:-1] + "g", " " + TOKEN[1:]]
)
def test_other_texts_are_no_tokens(text: str) -> None:
    assert token_home(text) is None
    assert read_token(SECRET, text) is None


def test_a_token_of_another_secret_is_not_read() -> None:
    assert read_token(b"t" * 32, TOKEN) is None


@pytest.mark.parametrize("place", range(0, 256, 15))
def test_a_token_with_another_digit_is_not_read(place: int) -> None:
    digit = "0" if TOKEN[place] != "0" else "1"
    assert read_token(SECRET, TOKEN[:place] + digit + TOKEN[place + 1 :]) is None


def test_two_tokens_of_a_subscription_differ() -> None:
    assert make_token(SECRET, HOME, ID, 1_789_378_092_177, b"q" * RANDOM_BYTES) != TOKEN
