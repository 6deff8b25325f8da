"""Signatures are those that botocore computes for the same request."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest import mock
from urllib.parse import quote, urlencode, urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.api import quoted
from penstock.client.credentials import SigningKeys
from penstock.client.signing import RequestTemplate

NOW = datetime(2026, 11, 16, 18, 0, 0, tzinfo=UTC)
KEYS = SigningKeys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")

TEXT = st.text(min_size=1, max_size=20)
PART = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=20)
# Both normalize these, as HTTP clients do, and neither is a name.
PARTS = PART.filter(lambda part: part not in (".", ".."))


def by_botocore(
    method: str, url: str, headers: dict[str, str], body: bytes, keys: SigningKeys, region: str, service: str
) -> str:
    request = AWSRequest(method, url, headers, body)
    signer = SigV4Auth(Credentials(*keys), service, region)
    with mock.patch("botocore.auth.get_current_datetime", return_value=NOW.replace(tzinfo=None)):
        signer.add_auth(request)
    return str(request.headers["Authorization"])


def check(
    method: str,
    url: str,
    headers: dict[str, str],
    body: bytes,
    keys: SigningKeys = KEYS,
    service: str = "sqs",
) -> None:
    template = RequestTemplate(method, url, headers, keys, "eu-central-1", service)
    head, _, sent_body = template.request(body, NOW.timestamp()).partition(b"\r\n\r\n")
    line, *lines = head.decode().split("\r\n")
    named = (line.partition(": ") for line in lines)
    sent = {name if colon else name.rstrip(":"): value for name, colon, value in named}
    parts = urlsplit(url)
    assert line == f"{method} {parts.path}{'?' if parts.query else ''}{parts.query} HTTP/1.1"
    assert (sent_body, sent.pop("content-length"), sent["host"]) == (body, str(len(body)), parts.netloc)
    del sent["user-agent"]  # proxies may change it
    assert sent.pop("authorization") == by_botocore(method, url, sent, body, keys, "eu-central-1", service)


@pytest.mark.parametrize("keys", [KEYS, SigningKeys("ASIA1", "secret", "a token/with+signs==")])
@pytest.mark.parametrize(
    "endpoint",
    [
        "http://127.0.0.1:9324",
        "https://sqs.eu-central-1.amazonaws.com",
        "https://q.example.com/below/a%20path",
    ],
)
def test_an_action_of_sqs(endpoint: str, keys: SigningKeys) -> None:
    headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.SendMessage"}
    check("POST", f"{endpoint}/", headers, b'{"MessageBody": "\xc3\xa4"}', keys)


@given(st.lists(PARTS, min_size=1, max_size=4), st.sampled_from(["GET", "DELETE"]))
def test_any_path(parts: list[str], method: str) -> None:
    path = "/".join(map(quoted, parts))
    check(method, f"http://127.0.0.1:9324/admin/v1/{path}", {}, b"", service="penstock")


@given(st.dictionaries(TEXT, st.lists(TEXT, min_size=1, max_size=3), max_size=4))
def test_any_query(pairs: dict[str, list[str]]) -> None:
    query = urlencode(pairs, doseq=True, quote_via=quote)
    check("GET", f"http://127.0.0.1:9324/admin/v1/queues?{query}", {}, b"", service="penstock")


@given(st.binary(max_size=100), st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20))
def test_any_body_and_header(body: bytes, value: str) -> None:
    check("PATCH", "http://127.0.0.1:9324/admin/v1/queues/q/messages/m", {"X-Note": value}, body)


def test_without_keys_nothing_is_signed() -> None:
    request = RequestTemplate("GET", "http://127.0.0.1:9324/health", {}, None, "", "").request(b"", 0)
    assert b"authorization" not in request and b"x-amz" not in request
    assert request.endswith(b"host: 127.0.0.1:9324\r\ncontent-length: 0\r\n\r\n")


@pytest.mark.parametrize("path", ["/a b", "/ä", "/a\0"])
def test_a_target_that_is_not_quoted(path: str) -> None:
    with pytest.raises(ValueError, match="quote"):
        RequestTemplate("GET", f"http://127.0.0.1:9324{path}", {}, KEYS, "us-east-1", "penstock")


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "ä", "a\0"])
def test_a_header_that_cannot_be_sent(value: str) -> None:
    url = "http://127.0.0.1:9324/"
    with pytest.raises(ValueError, match=r"x-note: .*ASCII"):
        RequestTemplate("GET", url, {"x-note": value}, KEYS, "us-east-1", "penstock")
    with pytest.raises(ValueError, match=r"access key: .*ASCII"):
        RequestTemplate("GET", url, {}, KEYS._replace(access_key=value), "us-east-1", "penstock")
    with pytest.raises(ValueError, match="invalid x-amz-security-token"):
        RequestTemplate("GET", url, {}, KEYS._replace(token=value), "us-east-1", "penstock")
    with pytest.raises(ValueError, match="invalid region"):
        RequestTemplate("GET", url, {}, KEYS, value, "penstock")


def test_the_key_of_a_day_is_not_used_on_the_next() -> None:
    template = RequestTemplate("POST", "http://127.0.0.1:9324/", {}, KEYS, "us-east-1", "sqs")
    first, second = template.request(b"", 1_700_000_000), template.request(b"", 1_700_000_000 + 86_400)
    assert b"/20231114/us-east-1/sqs/" in first and b"/20231115/us-east-1/sqs/" in second
