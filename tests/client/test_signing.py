"""Signatures are those that botocore computes for the same request."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest import mock
from urllib.parse import quote, urlencode

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.api import quoted
from penstock.client.credentials import SigningKeys
from penstock.client.signing import signed_headers

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
    signed = signed_headers(method, url, headers, body, keys, "eu-central-1", service, NOW)
    sent = {name: value for name, value in signed.items() if name != "authorization"}
    assert signed["authorization"] == by_botocore(method, url, sent, body, keys, "eu-central-1", service)


@pytest.mark.parametrize("keys", [KEYS, SigningKeys("ASIA1", "secret", "a token/with+signs==")])
@pytest.mark.parametrize(
    "endpoint",
    ["http://127.0.0.1:9324", "https://sqs.eu-central-1.amazonaws.com", "https://q.example.com/below/a path"],
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
