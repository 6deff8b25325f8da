"""Each target fails when the code that it checks is broken on purpose."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import pytest

from fuzz.targets import load
from penstock.auth import authorize
from penstock.auth.policy import Verdict
from penstock.auth.sigv4.canonical import HeaderLines
from penstock.queues.receipts import Receipt, ReceiptSigner
from penstock.server.http.parser import RequestParser
from support.signer import SECRET


class Damage(NamedTuple):
    target: str
    place: str
    instead: Any
    old: bytes = b""  # only seeds that contain this are tried
    new: bytes = b""  # replaces it in the seed


def _fails(*_: object, **__: object) -> NoReturn:
    raise KeyError("injected")


_feed = RequestParser.feed
_lines_of = HeaderLines.of


def _loses_bytes_at_a_cut(parser: RequestParser, data: bytes) -> bytes:
    return _feed(parser, bytes(data).removeprefix(b"H"))


def _without_target(lines: HeaderLines, headers: Any) -> bytes:
    return _lines_of(lines, {**headers, b"x-amz-target": b"AmazonSQS.SendMessage"})


_RECEIPT = load("handles").seeds[0]
_FORGED = ReceiptSigner(b"the secret of another shard").handle(Receipt(7, 99, 1, 1)).encode()

_COMPARE = "penstock.auth.sigv4.verify.compare_digest"

DAMAGES = {
    "an error behind JSON": Damage(
        "json", "penstock.broker.live_queue.LiveQueue.delete", _fails, b"AmazonSQS.DeleteMessage "
    ),
    "an error behind a form": Damage("query", "penstock.broker.live_queue.LiveQueue.receive", _fails),
    "anonymous callers are admitted": Damage(
        "json", "penstock.auth.authorize.decide", lambda _: Verdict(True, ""), b"anonymous AmazonSQS.SendMessage "
    ),
    "an answer that is not XML": Damage("query", "penstock.wire.query_response._text", lambda text: f"<{text}"),
    "an error in the server": Damage("http", "penstock.server.routes.Routes._mount_of", _fails),
    "bytes lost at a cut": Damage("http", "penstock.server.http.parser.RequestParser.feed", _loses_bytes_at_a_cut),
    "any key is accepted": Damage("http", _COMPARE, lambda *_: True, b"Signature=", b"Signature=0"),
    "any signature is valid": Damage("sigv4", _COMPARE, lambda *_: True, b"Signature=", b"Signature=0"),
    "a secret in an error": Damage(
        "sigv4", "penstock.auth.sigv4.verify.MISMATCH", SECRET, b"Signature=", b"Signature=0"
    ),
    "the path is not signed": Damage(
        "sigv4",
        "penstock.auth.sigv4.verify.canonical_path",
        lambda _: b"/111122223333/q",
        b"/111122223333/q",
        b"/444455556666/q",
    ),
    "parameters are not signed": Damage(
        "sigv4",
        "penstock.auth.sigv4.verify.canonical_query",
        lambda _: b"Action=SendMessage&MessageBody=a%20b",
        b"MessageBody=a%20b",
        b"MessageBody=changed",
    ),
    "the action is not signed": Damage(
        "sigv4",
        "penstock.auth.sigv4.canonical.HeaderLines.of",
        _without_target,
        b"SQS.SendMessage",
        b"SQS.DeleteQueue",
    ),
    "a deny does not win": Damage(
        "policy", "penstock.auth.policy.decision._explicit_deny", lambda *_, **__: None
    ),
    "an invalid policy is accepted": Damage(
        "policy", "fuzz.targets.policy.check_policy", lambda _: None, b'"Effect":"Allow"', b'"Effect":1'
    ),
    "a forged receipt is accepted": Damage(
        "handles", "penstock.queues.receipts.compare_digest", lambda *_: True, _RECEIPT, _FORGED
    ),
    "a forged session is accepted": Damage(
        "sessions", "penstock.auth.identity.sessions.Sessions.open", lambda *_: "alice"
    ),
    "content decrypts to something else": Damage(
        "encryption", "penstock.auth.encryption.envelope.MessageCipher.decrypt", lambda *_: b"else"
    ),
    "issued credentials do not work": Damage(
        "sts", "penstock.auth.identity.directory.Directory.secret", lambda *_: "another secret"
    ),
    "any proof of the secret is accepted": Damage(
        "links", "penstock.cluster.handshake.hmac.compare_digest", lambda *_: True
    ),
    "a packet of any size is awaited": Damage(
        "links", "penstock.cluster.frames.FrameReader._next_packet", lambda _: None
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_detected(damage: Damage, monkeypatch: pytest.MonkeyPatch) -> None:
    target = load(damage.target)
    inputs = [
        seed.replace(damage.old, damage.new) if damage.new else seed
        for seed in target.seeds
        if damage.old in seed
    ]
    for data in inputs:
        target.check(data)
    monkeypatch.setattr(damage.place, damage.instead)
    try:
        assert not all(passes(damage.target, data) for data in inputs)
    finally:
        authorize._allowed.clear()  # verdicts of the damaged code


def passes(name: str, data: bytes) -> bool:
    try:
        load(name).check(data)
    except Exception:
        return False
    return True
