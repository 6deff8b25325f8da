"""Session tokens: only issued tokens are accepted, and only with the access key that they were issued for.

An input is an access key and a token, with a space between them.
"""

from __future__ import annotations

from functools import cache

from fuzz.server import ASSUME, TemporaryCredentials, accounts, credentials_in, unchanged_server
from fuzz.targets import text_of
from penstock.auth.errors import AuthenticationError
from penstock.auth.identity.sessions import Sessions, open_account
from support.identities import HOME, ROOT_KEY

_SESSIONS = Sessions(ROOT_KEY)
_OWNERS = [(HOME, "alice"), (HOME, "worker")]
_OPEN_TOKEN = "cGVuc3RvY2sgb3BlbiBzZXNzaW9uIG9mIDExMTEyMjIyMzMzMw=="

WORDS = [b"ASIA", b"AKIA", b" ", b"=", b"==", b"+", b"/", b"-", b"\n", b"\xff", b"AAAA", _OPEN_TOKEN.encode()]


@cache
def _given() -> list[TemporaryCredentials]:
    own = b"Action=GetSessionToken&Version=2011-06-15"
    return [
        credentials_in(unchanged_server().ask_sts(who, form))
        for who, form in ((b"alice", own), (b"alice", ASSUME))
    ]


def seeds() -> list[bytes]:
    one, other = _given()
    pairs = [
        (one.access_key, one.token),
        (other.access_key, other.token),
        (one.access_key, other.token),
        ("ASIAOPEN", _OPEN_TOKEN),
    ]
    return [f"{key} {token}".encode() for key, token in pairs]


def check(data: bytes) -> None:
    key, _, token = text_of(data).partition(" ")
    opened = _SESSIONS.open(key, token)
    assert opened is None or (opened.account, opened.owner) in _OWNERS, "this was never issued"
    account = open_account(token)
    assert account is None or (len(account) == 12 and account.isascii() and account.isdecimal())
    try:
        principal = accounts().credentials.directory.principal(key, token)
    except AuthenticationError:
        pass
    else:
        assert opened is not None, "this was never issued"
        assert principal.access_key == key
        assert key in [given.access_key for given in _given()], "this was never issued"
