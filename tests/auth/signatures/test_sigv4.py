"""Signature Version 4: what botocore signs is accepted, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote, urlencode

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from penstock.auth.errors import AuthenticationError, InvalidToken
from penstock.auth.sigv4 import verify
from penstock.auth.sigv4.clock_skew import to_stamp
from penstock.auth.sigv4.verify import MISMATCH, Signed, Verifier
from support.cpu import cost
from support.rows import every_row

from .signing import (
    HOST,
    KEY,
    SECRET,
    TOKEN,
    Sent,
    in_header,
    is_refused,
    message,
    outcome,
    presigned,
    replaced,
    secrets,
    send,
    signed_by,
)

# What botocore signs is accepted.

paths = st.lists(st.text(max_size=6), max_size=4).map(lambda parts: "/" + quote("/".join(parts)))
queries = st.lists(st.tuples(st.text(min_size=1, max_size=5), st.text(max_size=8)), max_size=5).map(
    lambda pairs: urlencode(pairs, quote_via=quote, safe="")
)
visible = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
own_headers = st.lists(
    st.tuples(st.sampled_from(["X-Own", "x-own", "X-Amz-Own", "Other"]), visible), max_size=5
)


@given(
    path=paths,
    query=queries,
    headers=own_headers,
    body=st.binary(max_size=50),
    token=st.none() | st.just(TOKEN),
)
def test_what_botocore_signs_in_a_header(
    path: str, query: str, headers: list[tuple[str, str]], body: bytes, token: str | None
) -> None:
    target = f"{path}?{query}" if query else path
    sent = in_header(target, headers=headers, body=body, token=token)
    assert outcome(sent) == signed_by(sent, token)


@given(path=paths, query=queries, token=st.none() | st.just(TOKEN))
def test_what_botocore_signs_in_a_url(path: str, query: str, token: str | None) -> None:
    sent = presigned(f"{path}?{query}" if query else path, token=token)
    assert outcome(sent) == signed_by(sent, token)


def test_a_request_without_a_signature() -> None:
    sent = in_header().with_header("authorization", None)
    assert outcome(sent) is None
    assert outcome(sent._replace(target=b"/?Action=ListQueues&X-Amz-Date=20260101T000000Z")) is None


def test_caching_changes_no_result() -> None:
    verifier = Verifier(secrets)
    for _ in range(3):
        sent = in_header()
        wrong = sent._replace(body=b"other")
        assert [message(outcome(wrong, verifier)), outcome(sent, verifier)] == [MISMATCH, signed_by(sent)]
        undated = sent.with_header("x-amz-date", None)
        assert message(outcome(undated, verifier)) == message(outcome(undated))


# Anything else is refused.


def test_no_byte_of_a_signed_request_can_be_changed() -> None:
    sent = in_header("/123456789012/orders?Action=SendMessage&Name=a%20b", token=TOKEN)
    remembering = Verifier(secrets)

    def is_refused(changed: Sent) -> bool:
        """Whether it is refused by a verifier that sees it first, and by one that has just accepted the original."""
        assert outcome(sent, remembering) == signed_by(sent, TOKEN)
        both = outcome(changed), outcome(changed, remembering)
        return all(isinstance(each, AuthenticationError) for each in both)

    for position in range(len(sent.method)):
        assert is_refused(sent._replace(method=flipped(sent.method, position)))
    for position in range(len(sent.target)):
        assert is_refused(sent._replace(target=flipped(sent.target, position)))
    for position in range(len(sent.body)):
        assert is_refused(sent._replace(body=flipped(sent.body, position)))
    signed_headers = sent.header("authorization").split(b"SignedHeaders=")[1].split(b",")[0].decode()
    for name in ["authorization", *signed_headers.split(";")]:
        value = sent.header(name)
        for position in range(len(value)):
            assert is_refused(sent.with_header(name, flipped(value, position))), (name, position)
        assert is_refused(sent.with_header(name, None)) or name == "authorization"


def test_no_byte_of_a_presigned_url_can_be_changed() -> None:
    sent = presigned("/123456789012/orders?Action=ReceiveMessage", token=TOKEN)
    for position in range(len(sent.target)):
        assert not isinstance(outcome(sent._replace(target=flipped(sent.target, position))), Signed)
    assert is_refused(sent._replace(method=b"PUT"))
    assert is_refused(sent._replace(body=b"x"))
    assert is_refused(sent.with_header("host", b"localhost:9325"))


def test_a_plus_is_signed_as_a_space() -> None:
    space, plus = in_header("/?Name=a%20b"), in_header("/?Name=a%2Bb")
    assert outcome(space._replace(target=b"/?Name=a+b")) == signed_by(space)
    assert is_refused(plus._replace(target=b"/?Name=a+b"))


def flipped(text: bytes, position: int) -> bytes:
    return text[:position] + bytes([text[position] ^ 1]) + text[position + 1 :]


# Time.


def test_a_signature_is_valid_for_five_minutes_either_way() -> None:
    sent = in_header()
    at = to_stamp(sent.made_s).decode()
    for after_s in (-300, 0, 300.9):
        assert outcome(sent, after_s=after_s) == signed_by(sent)
    now, bound = to_stamp(sent.made_s + 301).decode(), to_stamp(sent.made_s + 1).decode()
    expired = f"Signature expired: {at} is now earlier than {bound} ({now} - 5 min.)"
    assert message(outcome(sent, after_s=301)) == expired
    now, bound = to_stamp(sent.made_s - 301).decode(), to_stamp(sent.made_s - 1).decode()
    early = f"Signature not yet current: {at} is still later than {bound} ({now} + 5 min.)"
    assert message(outcome(sent, after_s=-301)) == early


def test_a_presigned_url_is_valid_as_long_as_it_says() -> None:
    sent = presigned(expires=90)
    assert outcome(sent, after_s=90) == signed_by(sent)
    assert message(outcome(sent, after_s=91)).endswith(f"({to_stamp(sent.made_s + 91).decode()} - 90 sec.)")
    assert message(outcome(sent, after_s=-301)).startswith("Signature not yet current: ")
    week = presigned(expires=604_800)
    assert outcome(week, after_s=604_800) == signed_by(week)


def test_the_day_of_the_scope_is_the_day_of_the_request() -> None:
    sent = in_header()
    day = to_stamp(sent.made_s)[:8]
    other = replaced(b"/%b/" % day, b"/20150830/")(sent)
    assert message(outcome(other)) == (
        "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
        f"'20150830' != '{day.decode()}', from '{to_stamp(sent.made_s).decode()}'."
    )


def test_the_header_date_is_accepted() -> None:
    """Clients that cannot set headers of their own signed like this: Date instead of X-Amz-Date."""
    request = AWSRequest("GET", f"http://{HOST}/", headers={"Date": "Thu, 01 Jan 2026 00:00:10 GMT"})
    signer = SigV4Auth(Credentials(KEY, SECRET), "sqs", "us-east-1")
    request.context["timestamp"] = "20260101T000010Z"
    canonical = signer.canonical_request(request)
    signature = signer.signature(signer.string_to_sign(request, canonical), request)
    names = signer.signed_headers(signer.headers_to_sign(request))
    scope = signer.scope(request)
    authorization = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={names}, Signature={signature}"
    headers = [(b"Host", HOST.encode()), (b"Date", request.headers["Date"].encode())]
    sent = Sent(b"GET", b"/", [*headers, (b"Authorization", authorization.encode())], b"", 1767225610)
    assert outcome(sent) == signed_by(sent)
    assert message(outcome(sent.with_header("date", b"yesterday"))).startswith(
        "Date must be in ISO-8601 'basic format'."
    )


# The body may be left unsigned, by its sender only.


def test_an_unsigned_payload() -> None:
    sent = in_header(headers=[("X-Amz-Content-SHA256", "UNSIGNED-PAYLOAD")])
    assert outcome(sent._replace(body=b"anything")) == signed_by(sent)


class UnsignedPayload(SigV4QueryAuth):  # type: ignore[misc]
    def payload(self, request: AWSRequest) -> str:
        return "UNSIGNED-PAYLOAD"


def test_an_unsigned_payload_of_a_presigned_url() -> None:
    signer = UnsignedPayload(Credentials(KEY, SECRET), "sqs", "us-east-1")
    sent = send(signer, "POST", "/?X-Amz-Content-Sha256=UNSIGNED-PAYLOAD", [], b"")
    assert outcome(sent._replace(body=b"anything")) == signed_by(sent)


# What is remembered.


def test_a_changed_or_removed_secret_takes_effect_at_once() -> None:
    held = {KEY: SECRET}

    def current(access_key: str, token: str | None) -> str:
        if access_key not in held:
            raise InvalidToken
        return held[access_key]

    verifier = Verifier(current)
    sent = in_header()
    assert outcome(sent, verifier) == signed_by(sent)
    held[KEY] = "another"
    assert message(outcome(sent, verifier)) == MISMATCH
    del held[KEY]
    assert message(outcome(sent, verifier)) == "The security token included in the request is invalid."
    held[KEY] = SECRET
    assert outcome(sent, verifier) == signed_by(sent)


def test_nothing_is_hashed_for_an_unknown_key(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = in_header()
    unknown = replaced(KEY.encode(), b"AKIDSTRANGER")(sent)

    def hashed(*_: bytes) -> None:
        raise AssertionError("a large body would keep the server busy for anybody")

    monkeypatch.setattr(verify, "sha256", hashed)
    monkeypatch.setattr(verify, "_new_sha256", hashed)
    assert message(outcome(unknown)) == "The security token included in the request is invalid."
    with pytest.raises(AssertionError, match="busy"):
        outcome(sent)


def test_caches_are_bounded_and_hold_verified_requests_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_CACHED_ENTRIES", 8)
    verifier = Verifier(secrets)
    for number in range(20):
        outcome(in_header(region=f"r-{number}")._replace(body=b"other"), verifier)
    assert cached(verifier) == (0, 0)
    for number in range(20):
        assert isinstance(outcome(in_header(region=f"r-{number}"), verifier), Signed)
    assert cached(verifier) == (8, 8)
    long = [(f"X-Own-{number}", "x") for number in range(200)]
    assert isinstance(outcome(in_header(headers=long), verifier), Signed)
    assert not any(len(name) > 1024 for name in verifier._scopes._young)


def cached(verifier: Verifier) -> tuple[int, int]:
    return len(verifier._scopes), len(verifier._keys)


# Whatever is sent.

words = st.sampled_from(
    [b"AWS4-HMAC-SHA256", b" ", b",", b";", b"=", b"/", b"&", b"?", b"%", b"%2F", b"Credential=", b"SignedHeaders=",
     b"Signature=", b"AKIDEXAMPLE/20260101/us-east-1/sqs/aws4_request", b"host", b"x-amz-date", b"20260101T000000Z",
     b"X-Amz-Algorithm=", b"X-Amz-Credential=", b"X-Amz-Date=", b"X-Amz-SignedHeaders=", b"X-Amz-Signature=",
     b"X-Amz-Expires=", b"99999999999999999999", b"\xff", b"\x00", b"UNSIGNED-PAYLOAD"]
)  # fmt: skip
noise = st.lists(words | st.binary(max_size=4), max_size=14).map(b"".join)
names = st.sampled_from(
    [b"Authorization", b"X-Amz-Date", b"Date", b"Host", b"X-Amz-Security-Token", b"X-Amz-Content-SHA256"]
)


@given(
    method=noise,
    target=noise,
    headers=st.lists(st.tuples(names, noise), max_size=6),
    body=st.binary(max_size=9),
)
def test_any_request_raises_authentication_errors_only(
    method: bytes, target: bytes, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    assert not isinstance(outcome(Sent(method, target, headers, body, 1767225600)), Signed)


@every_row(
    "hostile",
    [
        lambda sent, size: sent._replace(target=b"/" + b"../a/" * size),
        lambda sent, size: sent._replace(target=b"/?" + b"a=%41&" * size),
        lambda sent, size: sent._replace(target=b"/?" + b"&X-Amz-Signature" * size),
        lambda sent, size: sent.with_header("host", b"a  b" * size),
        lambda sent, size: sent.with_header("authorization", b"AWS4-HMAC-SHA256 " + b"a=b," * size),
        lambda sent, size: replaced(b";host", b";host" * size)(sent),
        lambda sent, size: replaced(b"us-east-1", b"/" * size)(sent),
        lambda sent, size: sent.with_header("x-amz-date", b"2" * size),
    ],
)  # fmt: skip
def test_time_is_linear(hostile: Callable[[Sent, int], Sent]) -> None:
    """Far beyond what the transport lets through, and still a matter of milliseconds."""
    sent = hostile(in_header(), 100_000)
    assert is_refused(sent)
    assert cost(lambda: is_refused(sent), attempts=1) < 2000
