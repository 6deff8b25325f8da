"""Tokens that confirm subscriptions: 256 hexadecimal digits, which say where the subscription lives.

::

    home 8 | subscription 16 | valid until 8 | random 64 | HMAC-SHA256 32

Who has a token proves that he reads what is sent to the endpoint. It is made and checked by the shard of the topic;
the home in it lets a request that has nothing else find that shard.
"""

from __future__ import annotations

import hmac
import re
from typing import NamedTuple
from uuid import UUID

from penstock.limits import DAY
from penstock.names import Home

VALID_MS = 2 * DAY  # SNS: a token is valid for two days
RANDOM_BYTES = 64

_PURPOSE = b"penstock/subscription token\n"
_SIGNED_BYTES = 8 + 16 + 8 + RANDOM_BYTES
_TOKEN = re.compile("[0-9a-f]{256}")


class ReadToken(NamedTuple):
    """What a genuine token says. Whether it is still valid is up to the caller, who knows the time."""

    subscription_id: str
    valid_until_ms: int  # by the wall clock


def make_token(secret: bytes, home: Home, subscription_id: str, valid_until_ms: int, random: bytes) -> str:
    """Returns a new token for a subscription, whose id is a UUID. ``secret``: of the shard. ``random``: RANDOM_BYTES
    that were never used before."""
    assert len(random) == RANDOM_BYTES
    signed = b"".join(
        (
            home.hash.to_bytes(8, "big"),
            UUID(subscription_id).bytes,
            valid_until_ms.to_bytes(8, "big"),
            random,
        )
    )
    return (signed + _signature(secret, signed)).hex()


def token_home(token: str) -> Home | None:
    """Returns where the subscription of a token lives; None if the text is no token at all."""
    return Home.of_key(token) if _TOKEN.fullmatch(token) else None


def read_token(secret: bytes, token: str) -> ReadToken | None:
    """Returns None if the token was not made with this secret."""
    if not _TOKEN.fullmatch(token):
        return None
    data = bytes.fromhex(token)
    signed = data[:_SIGNED_BYTES]
    if not hmac.compare_digest(data[_SIGNED_BYTES:], _signature(secret, signed)):
        return None
    return ReadToken(str(UUID(bytes=signed[8:24])), int.from_bytes(signed[24:32], "big"))


def _signature(secret: bytes, signed: bytes) -> bytes:
    return hmac.digest(secret, _PURPOSE + signed, "sha256")
